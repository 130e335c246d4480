"""Gradescope's `results.json`: a test case for each law, with its points and visibility.

Fields as in https://gradescope-autograders.readthedocs.io/en/latest/specs/. The total is the
report's own: an all-or-nothing function or a capped group makes it other than the sum of the laws.
"""

import math

import msgspec

from rlcheck.grading.render.cards import as_text
from rlcheck.grading.report import LawReport, Report

__all__ = ["render"]

BY_WHOLES = (
    "The laws below add up to more: a function may count as a whole, and a group up to its cap."
)
VISIBILITY = {"public": "visible", "hidden": "hidden", "after-due": "after_due_date"}


def render(report: Report) -> bytes:
    """The report as Gradescope reads it; the command's own output stays with the staff."""
    results = {
        "score": report.score,
        "execution_time": report.seconds,
        "output": _summary(report),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(law) for law in report.laws if law.status != "skipped"],
        "extra_data": {
            "target": report.target,
            "max_score": report.max_score,
            "seed": report.seed,
            "rlcheck": report.rlcheck,
            "isolation": report.isolation,
        },
    }
    return msgspec.json.format(msgspec.json.encode(results), indent=2)


def _summary(report: Report) -> str:
    if report.error:
        return f"cannot be graded: {report.error}\n\n{report.frames}".rstrip()
    if report.fault:
        return report.fault
    facts = f"seed {report.seed}, {report.examples} examples a law, rlcheck {report.rlcheck}"
    total = f"{report.score:g} of {report.max_score:g}; {facts}"
    listed = sum(law.points for law in report.laws if law.status == "passed")
    return total if math.isclose(listed, report.score, abs_tol=1e-4) else f"{total}\n\n{BY_WHOLES}"


def _test(law: LawReport) -> dict[str, object]:
    passed = law.status == "passed"
    test: dict[str, object] = {
        "name": law.id,
        "name_format": "text",
        "score": law.points if passed else 0.0,
        "max_score": law.points,
        "status": "passed" if passed else "failed",
        "output": law.sentence if passed else as_text(law),
        "output_format": "text",
        "visibility": VISIBILITY[law.visibility],
        "tags": [law.function],
    }
    if not passed and law.status != "failed":
        test["output"] = f"{law.status.replace('_', ' ')}\n\n{test['output']}".rstrip()
    return test
