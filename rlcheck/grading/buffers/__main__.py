"""`python -m rlcheck.grading.buffers NAME`: a library's replay buffers and datasets under the laws.

Exit codes are 0 where the library is as declared, 1 where it is not, and 2 for a wrong call.
"""

import argparse
import contextlib
import os
import sys

from rlcheck.grading.buffers.check import EXAMPLES
from rlcheck.grading.buffers.judged import as_json, judge_here, told
from rlcheck.subjects.buffers import buffer_subject, buffer_subjects


def main() -> int:
    """Judge one library in this interpreter."""
    parser = argparse.ArgumentParser(prog="python -m rlcheck.grading.buffers", description=__doc__)
    names = [library.name for library in buffer_subjects()]
    parser.add_argument("name", choices=names)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="drawn for each law")
    parser.add_argument("--seed", type=int, default=0, help="of every draw")
    parser.add_argument("--json", action="store_true", help="print what was found as one line")
    given = parser.parse_args()
    library = buffer_subject(given.name)
    assert library is not None
    if library.missing:
        parser.error(f"{library.title} is not installed here: {library.install}")
    with open(os.devnull, "w") as silent, contextlib.redirect_stdout(silent):  # libraries log
        judged = judge_here(library, examples=given.examples, seed=given.seed)
    print(as_json(judged) if given.json else told(judged, library))
    return int(bool(judged.undeclared(library) or judged.mended(library)))


if __name__ == "__main__":
    sys.exit(main())
