"""What public libraries hold of the laws, as a page and as data.

`python -m rlcheck.grading.conformance docs/conformance.md --python libraries=PATH` grades each
library that is installed here or in an interpreter that is named for its environment, and writes
the page, and the same beside it as JSON.
"""

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import msgspec

from rlcheck import __version__
from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.grade import DEFAULT_SEED, grade
from rlcheck.grading.laws import EXAMPLES
from rlcheck.grading.pages import markdown_page
from rlcheck.grading.report import LawReport, Report
from rlcheck.subjects import Subject, subjects

__all__ = ["Conformance", "Difference", "Library", "conformance", "markdown", "python_for"]

HOLDS, NOT_PROVIDED = "holds", "not provided"
KINDS = ("undeclared", "deviation", "edge", "convention")  # the gravest first
VERSIONS = (
    "import importlib.metadata as m, json, sys; "
    "print(json.dumps({name: m.version(name) for name in sys.argv[1:]}))"
)


class Difference(msgspec.Struct):
    """A law that a library does not hold, on its smallest input."""

    law: str
    function: str
    kind: str  # of KINDS
    reason: str
    finding: str
    counterexample: str
    expected: str
    got: str
    diagnosis: str


class Library(msgspec.Struct):
    """One library: its versions, and what became of each function of the contract."""

    name: str
    title: str
    versions: dict[str, str]
    seconds: float
    error: str
    functions: dict[str, str]  # HOLDS, NOT_PROVIDED, or the gravest kind of difference
    laws: dict[str, int]  # that were asked of each function
    differences: list[Difference]

    def of_kind(self, kind: str) -> list[Difference]:
        """The differences of one kind."""
        return [difference for difference in self.differences if difference.kind == kind]


class Conformance(msgspec.Struct):
    """All libraries that were graded, with the settings of the runs."""

    rlcheck: str
    date: str
    examples: int
    seed: int
    libraries: list[Library]


def python_for(library: Subject, pythons: dict[str, str]) -> str | None:
    """The interpreter that has a library; None where it is not here and none is named for it."""
    installed = packages_distributions()
    if all(name in installed for name in library.requires):
        return sys.executable
    return pythons.get(library.environment)


def conformance(
    pythons: dict[str, str], *, examples: int = EXAMPLES, seed: int = DEFAULT_SEED, date: str
) -> Conformance:
    """Grade every library that can be had.

    Args:
        pythons: an interpreter for each environment of the libraries that are not installed here.
        examples: drawn for each law.
        seed: of every draw.
        date: of the run, for the page.
    """
    found = [(s, python) for s in subjects() if (python := python_for(s, pythons))]
    return Conformance(
        rlcheck=__version__,
        date=date,
        examples=examples,
        seed=seed,
        libraries=[_judged(s, python, examples, seed) for s, python in found],
    )


def _judged(library: Subject, python: str, examples: int, seed: int) -> Library:
    asked = [python, "-c", VERSIONS, *library.distributions]
    versions = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
    report = grade(library.name, python=python, examples=examples, seed=seed, jobs=2)
    differences = [_difference(library, law) for law in _that_differ(report)]
    return Library(
        name=library.name,
        title=library.title,
        versions=versions,
        seconds=report.seconds,
        error=report.error or report.fault,
        functions={name: _status(name, report, differences) for name in FUNCTIONS},
        laws={name: entry.laws for name, entry in report.functions.items()},
        differences=differences,
    )


def _that_differ(report: Report) -> Iterable[LawReport]:
    unjudged = ("passed", "skipped", "missing")
    return (law for law in report.laws if law.status not in unjudged)


def _difference(library: Subject, law: LawReport) -> Difference:
    declared = next((entry for entry in library.declared if law.id in entry.laws), None)
    return Difference(
        law=law.id,
        function=law.function,
        kind=declared.kind if declared and law.expected_failure else "undeclared",
        reason=declared.reason if declared and law.expected_failure else law.message,
        finding=declared.finding if declared else "",
        counterexample=law.counterexample or "",
        expected=law.expected or "",
        got=law.got or law.message,
        diagnosis=law.diagnosis.description if law.diagnosis else "",
    )


def _status(name: str, report: Report, differences: list[Difference]) -> str:
    if report.functions[name].status in ("missing", "unloadable"):
        return NOT_PROVIDED
    kinds = {difference.kind for difference in differences if difference.function == name}
    return next((kind for kind in KINDS if kind in kinds), HOLDS)


def markdown(found: Conformance) -> str:
    """The page."""
    provided = [
        name
        for name in FUNCTIONS
        if any(library.functions[name] != NOT_PROVIDED for library in found.libraries)
    ]
    return markdown_page("conformance.md.j2", found=found, provided=provided, kinds=KINDS)


def main() -> None:
    """Write the page and the data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--python", action="append", default=[], metavar="ENVIRONMENT=PATH")
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    given = parser.parse_args()
    pythons = dict(entry.split("=", 1) for entry in given.python)
    found = conformance(pythons, examples=given.examples, seed=given.seed, date=given.date)
    given.page.write_text(markdown(found), encoding="utf-8")
    data = msgspec.json.format(msgspec.json.encode(found), indent=2)
    given.page.with_suffix(".json").write_bytes(data + b"\n")


if __name__ == "__main__":
    main()
