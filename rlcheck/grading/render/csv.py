"""A line for each law, for spreadsheets."""

import csv
import io
import re

from rlcheck.grading.report import LawReport, Report

__all__ = ["COLUMNS", "render"]

COLUMNS = (
    *("target", "function", "law", "status", "points", "visibility", "examples", "seconds"),
    *("sentence", "message", "counterexample", "expected", "got", "allowed"),
    *("mistake", "mistake_report", "replay"),
)
NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)


def render(report: Report) -> bytes:
    """The laws as CSV in UTF-8, in the report's order, below a line of column names."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows([_inert(cell) for cell in _row(report, law)] for law in report.laws)
    return text.getvalue().encode("utf-8")


def _row(report: Report, law: LawReport) -> tuple[object, ...]:
    mistake = law.diagnosis
    return (
        *(report.target, law.function, law.id, law.status, law.points, law.visibility),
        *(law.examples, law.seconds, law.sentence, law.message, law.counterexample),
        *(law.expected, law.got, law.allowed, mistake and mistake.description),
        *(mistake and mistake.report, law.replay),
    )


def _inert(cell: object) -> object:
    """A text that a spreadsheet would take for a formula, with an apostrophe before it."""
    if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
