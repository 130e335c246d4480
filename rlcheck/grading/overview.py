"""The README's table of functions, with their laws and mistakes counted.

`python -m rlcheck.grading.overview README.md` writes it anew between its two marks.
"""

import sys
from pathlib import Path

from rlcheck.catalogue import COURSES, FUNCTIONS
from rlcheck.grading.laws import laws_of
from rlcheck.mistakes import mistakes_of

BEGIN, END = "<!-- functions: begin -->", "<!-- functions: end -->"


def overview() -> str:
    """A Markdown table, one row for each function and the totals last."""
    rows = [
        "| part | function | laws | mistakes | laws of gradients | mistakes in gradients |",
        "|---|---|--:|--:|--:|--:|",
    ]
    totals = [0, 0, 0, 0]
    for course in COURSES:
        for function in FUNCTIONS.values():
            if function.course != course:
                continue
            counts = [
                len(found)
                for gradients in (False, True)
                for found in (
                    laws_of(function, gradients=gradients),
                    mistakes_of(function.name, gradients=gradients),
                )
            ]
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
            cells = " | ".join(str(count or "") for count in counts)
            rows.append(f"| {course} · {function.module} | `{function.name}` | {cells} |")
    cells = " | ".join(f"**{total}**" for total in totals)
    rows.append(f"| | **{len(FUNCTIONS)} functions** | {cells} |")
    return "\n".join(rows)


def with_overview(text: str) -> str:
    """The text with the table between its marks replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the text has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{overview()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_overview(path.read_text(encoding="utf-8")), encoding="utf-8")
