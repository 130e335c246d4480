"""From verdicts to a score: what is blocked, what counts, and what stays hidden."""

from collections.abc import Mapping

from rlcheck.grading.assignment import Assignment, Terms, awaits
from rlcheck.grading.report import LawReport, Report

__all__ = ["settle"]


def settle(
    report: Report,
    assignment: Assignment | None,
    *,
    reveal: bool = False,
    expected_failures: Mapping[str, str] | None = None,
) -> None:
    """Fill in the score, and with an assignment points, blocked laws and what is hidden.

    The denominator counts every law that is asked for, whatever became of it; a law that is known
    to fail is not asked for.
    """
    for law in report.laws:
        if law.id in (expected_failures or {}):
            _expect(law, (expected_failures or {})[law.id])
    if assignment is None:
        report.score = sum(law.status == "passed" for law in report.laws)
        report.max_score = sum(
            law.status != "skipped" and not law.expected_failure for law in report.laws
        )
    else:
        _settle_assignment(report, assignment, reveal)
    _settle_functions(report)


def _expect(law: LawReport, reason: str) -> None:
    if law.status == "passed":
        law.status = "failed"
        law.message = f"it holds, though it is declared to fail: {reason}"
    else:
        law.expected_failure = reason


def _settle_assignment(report: Report, assignment: Assignment, reveal: bool) -> None:
    terms = assignment.terms(assignment.laws())
    for law in report.laws:
        law.points, law.hint = terms[law.id].points, terms[law.id].hint
        law.visibility = terms[law.id].visibility
        law.hidden = not reveal and assignment.is_hidden(terms[law.id].visibility)
    _block(report.laws, terms)
    report.score = assignment.total(report.laws)
    report.max_score = assignment.total(report.laws, at_best=True)
    for law in report.laws:
        if law.hidden:
            _hide(law)
            report.output = ""  # it may hold the inputs


def _block(laws: list[LawReport], terms: dict[str, Terms]) -> None:
    """A law that waits for one that does not hold, blocked or failed, is blocked."""
    blocked = True
    while blocked:
        blocked = False
        for law in laws:
            waits = [o.id for o in laws if o.status != "passed" and awaits(terms[law.id], o)]
            if waits and law.status not in ("blocked", "missing"):
                law.status, law.message, blocked = "blocked", f"waits for {', '.join(waits)}", True
                _strip(law)


def _strip(law: LawReport) -> None:
    law.counterexample = law.expected = law.got = law.allowed = law.diagnosis = None
    law.expected_values = law.got_values = None
    law.frames = ""


def _hide(law: LawReport) -> None:
    """Leave the name, the verdict, the points and the hint."""
    _strip(law)
    law.sentence, law.equation, law.message, law.replay = law.hint, "", "", ""
    if law.status in ("raised", "timed_out", "crashed"):  # a submission could choose it
        law.status = "failed"
    law.seconds, law.examples = 0.0, 0  # how far it got tells of its input, too


def _settle_functions(report: Report) -> None:
    for name, entry in report.functions.items():
        if entry.status in ("passed", "failed"):
            laws = [law for law in report.laws if law.function == name]
            expected = sum(bool(law.expected_failure) for law in laws)
            entry.passed = sum(law.status == "passed" for law in laws)
            entry.laws = len(laws) - expected
            entry.status = "passed" if entry.passed == entry.laws else "failed"
