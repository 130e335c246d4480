"""The page of public reports: for each fault, the mistakes and laws' examples that show it.

`python -m rlcheck.grading.reports docs/reports.md` writes it anew.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlcheck import mistakes
from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.laws import folder
from rlcheck.mistakes import mistakes_of

REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+")
INTRODUCTION = """\
# Public reports

<!-- Written by `make table`; the faults stand in rlcheck/mistakes/reports.toml. -->

Faults in the mathematics of RL, as people reported them in public repositories, and what shows
each of them here: a mistake of the catalogue (`function.mistake`), which `rlcheck mistakes`
describes and the laws reject, or an explicit example of a law (`module::law`). Where no function
of rlcheck can express a fault, the reason stands in their place."""

COVERED, RIGHT = "covered by a mistake or an example", "right, and accepted by a law"
BEYOND, OPEN = "beyond the functions: ", "not covered yet"


@dataclass(frozen=True)
class Entry:
    """One fault, or code that was taken for one, with the reports that tell of it.

    `uncovered` is the reason why no function can express it, "kind: reason". `accepted` names
    the laws that accept code that is `right`.
    """

    section: str
    reports: tuple[str, ...]
    fault: str
    uncovered: str | None = None
    right: bool = False
    accepted: tuple[str, ...] = ()


def entries() -> tuple[Entry, ...]:
    """All entries of the data file, in its order."""
    path = Path(mistakes.__path__[0]) / "reports.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["entry"]
    lists = ("reports", "accepted")
    return tuple(
        Entry(**table | {name: tuple(table[name]) for name in lists if name in table})
        for table in tables
    )


def citations() -> dict[str, tuple[str, ...]]:
    """What cites each report: ids of mistakes, then those of laws with an example of it."""
    found: dict[str, list[str]] = {}
    for text, where in (*_of_mistakes(), *_of_examples()):
        for report in REPORT.findall(text):
            if where not in found.setdefault(report, []):
                found[report].append(where)
    return {report: tuple(places) for report, places in found.items()}


def _of_mistakes() -> Iterator[tuple[str, str]]:
    for function in FUNCTIONS:
        for mistake in (*mistakes_of(function), *mistakes_of(function, gradients=True)):
            yield mistake.report or "", mistake.id


def _of_examples() -> Iterator[tuple[str, str]]:
    """The comments above and beside each `@example` of a law."""
    for path in sorted(folder().glob("**/test_*.py")):
        module = ".".join(path.relative_to(folder()).with_suffix("").parts).replace("test_", "")
        source = path.read_text(encoding="utf-8")
        comments = {
            token.start[0]: token.string
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
        for test in ast.parse(source).body:
            if not isinstance(test, ast.FunctionDef):
                continue
            names = [_name(decorator) for decorator in test.decorator_list]
            if "law" not in names:
                continue
            law = f"{module}::{test.name.removeprefix('test_')}"
            above = test.decorator_list[0].lineno - 1
            for decorator, name in zip(test.decorator_list, names, strict=True):
                lines = range(above + 1, (decorator.end_lineno or decorator.lineno) + 1)
                above = lines[-1]
                if name == "example":
                    yield " ".join(comments.get(line, "") for line in lines), law


def _name(decorator: ast.expr) -> str:
    """The name of what a decorator calls."""
    while isinstance(decorator, ast.Call | ast.Attribute):
        decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
    return decorator.id if isinstance(decorator, ast.Name) else ""


def coverage(entry: Entry, cited: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What covers one entry: the places that cite its reports, or the laws that accept it."""
    places = (place for report in entry.reports for place in cited.get(report, ()))
    return tuple(dict.fromkeys((*places, *entry.accepted)))


def page() -> str:
    """The page in Markdown: one table for each section, and the totals."""
    cited, lines, section = citations(), [INTRODUCTION], ""
    totals: Counter[str] = Counter()
    for entry in entries():
        if entry.section != section:
            section = entry.section
            lines += ["", f"## {section}", "", "| reports | fault | covered by |", "|---|---|---|"]
        by = ", ".join(f"`{place}`" for place in coverage(entry, cited))
        if by:
            cell = f"right, and accepted by {by}" if entry.right else by
            totals[RIGHT if entry.right else COVERED] += 1
        else:
            cell = entry.uncovered or OPEN
            totals[f"{BEYOND}{entry.uncovered.partition(':')[0]}" if entry.uncovered else OPEN] += 1
        links = ", ".join(map(_link, entry.reports))
        lines.append(f"| {links} | {entry.fault} | {cell} |")
    lines += ["", "## Totals", "", "| | entries |", "|---|--:|"]
    lines += [f"| {kind} | {totals[kind]} |" for kind in (COVERED, RIGHT)]
    lines += [f"| {kind} | {n} |" for kind, n in sorted(totals.items()) if BEYOND in kind]
    lines += [f"| {OPEN} | {totals[OPEN]} |"] if totals[OPEN] else []
    lines += [f"| **all** | **{totals.total()}** |", ""]
    return "\n".join(lines)


def _link(report: str) -> str:
    repository, _, number = report.partition("#")
    return f"[{report}](https://github.com/{repository}/issues/{number})"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
