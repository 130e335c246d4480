"""What replay buffers and datasets of public libraries hold of the laws, as a page.

`python -m rlcheck.grading.buffers.page docs/buffers.md --python libraries=PATH` judges each library
that is installed here or in an interpreter that is named for its environment.
"""

import argparse
import datetime
from pathlib import Path

from rlcheck import __version__
from rlcheck.grading.buffers.check import EXAMPLES, LAWS, OF
from rlcheck.grading.buffers.judged import NOT_PROVIDED, Judged, judge
from rlcheck.grading.conformance import python_for
from rlcheck.grading.pages import markdown_page
from rlcheck.subjects import Declared
from rlcheck.subjects.buffers import BufferSubject, buffer_subjects

__all__ = ["markdown", "tables"]

Found = list[tuple[BufferSubject, Judged]]
Table = tuple[str, list[str], list[tuple[str, list[str]]]]


def tables(found: Found) -> list[Table]:
    """Of buffers, datasets and slices: the kinds, and what became of each law for each of them."""
    made = []
    for title, laws in OF.items():
        names = [law.name for law in laws]
        kinds = [
            (library, judged, kind)
            for library, judged in found
            for kind, shown in judged.kinds.items()
            if any(one.law in names for one in shown)
        ]
        cells = {name: [j.word(lib, kind, name) for lib, j, kind in kinds] for name in names}
        rows = [(name, words) for name, words in cells.items() if set(words) - {NOT_PROVIDED}]
        if rows:
            made.append((title, [f"{lib.title} `{kind}`" for lib, _, kind in kinds], rows))
    return made


def smallest(judged: Judged, entry: Declared) -> dict[str, str]:
    """The counterexample to the first law of a declaration."""
    kind, _, law = entry.laws[0].partition("::")
    shown = judged.shown(kind, law)
    if shown is None or not shown.broken:
        return {}
    told = {"smallest input": shown.counterexample, "what differs": shown.message}
    told |= {"expected": shown.expected, "got": shown.got}
    return {name: " ".join(text.split()) for name, text in told.items() if text}


def markdown(found: Found, *, examples: int, seed: int, date: str) -> str:
    """The page."""
    return markdown_page(
        "buffers.md.j2",
        found=found,
        rlcheck=__version__,
        examples=examples,
        seed=seed,
        date=date,
        tables=tables(found),
        smallest=smallest,
        sentences=LAWS,
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--python", action="append", default=[], metavar="ENVIRONMENT=PATH")
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    given = parser.parse_args()
    pythons = dict(entry.split("=", 1) for entry in given.python)
    had = [(lib, python) for lib in buffer_subjects() if (python := python_for(lib, pythons))]
    drawn = {"examples": given.examples, "seed": given.seed}
    found = [(library, judge(library, python, **drawn)) for library, python in had]
    given.page.write_text(markdown(found, **drawn, date=given.date), encoding="utf-8")


if __name__ == "__main__":
    main()
