"""What a failure card says: which laws share one, and its entries in order."""

from collections.abc import Iterator

from rlcheck.grading.report import LawReport, Report

__all__ = ["TITLES", "alike", "as_text", "facts"]

PLAIN_MISMATCH = "the answer is off"  # expected and got say it already
SHORT_COUNTEREXAMPLE = 160

# In the order of a card; the smallest input stands above them, the replay command below.
TITLES = {
    "happened": "what happened",
    "expected": "expected",
    "got": "got",
    "allowed": "allowed error",
    "mistake": "likely mistake",
    "hint": "hint",
    "formula": "formula",
    "source": "source",
}


def alike(report: Report) -> list[list[LawReport]]:
    """The failures, grouped by function, status and diagnosis; one to show first in each.

    That is the first law of the module, because the modules begin with what a function is, unless
    its counterexample is long where another one's is not. Hidden laws stand alone.
    """
    groups: dict[tuple[str, str, str], list[LawReport]] = {}
    for law in report.failures:
        said = law.id if law.hidden or law.message == PLAIN_MISMATCH else law.message
        reason = law.diagnosis.id if law.diagnosis else said
        groups.setdefault((law.function, law.status, reason), []).append(law)
    return [sorted(group, key=_is_long) for group in groups.values()]


def _is_long(law: LawReport) -> bool:
    return len(law.counterexample or "") > SHORT_COUNTEREXAMPLE


def facts(law: LawReport) -> Iterator[tuple[str, str]]:
    """The entries of a card that there are, as keys of TITLES with their texts.

    A hidden law has none: its name and its hint stand above them.
    """
    if law.hidden:
        return
    if law.message and law.message != PLAIN_MISMATCH:
        yield "happened", law.message
    if law.expected is not None:
        yield "expected", law.expected
    if law.got is not None and law.status != "raised":
        yield "got", law.got
    if law.allowed is not None:
        yield "allowed", law.allowed
    if law.diagnosis:
        source = f"  ({law.diagnosis.report})" if law.diagnosis.report else ""
        yield "mistake", f"it {law.diagnosis.description}{source}"
    if law.hint:
        yield "hint", law.hint
    if law.equation:
        yield "formula", " ".join(law.equation.split())
    if law.source:
        yield "source", law.source


def as_text(law: LawReport) -> str:
    """A card as plain text; of a hidden law its hint alone."""
    parts = [law.sentence]
    if law.counterexample:
        parts.append("\n".join(f"  {line}" for line in law.counterexample.splitlines()))
    width = max(map(len, TITLES.values()))
    lines = [f"{TITLES[key]:{width}}  {text}" for key, text in facts(law)]
    if law.replay:
        lines.append(f"{'replay':{width}}  {law.replay}")
    if lines:
        parts.append("\n".join(lines))
    if law.frames:
        parts.append(law.frames.rstrip())
    return "\n\n".join(part for part in parts if part)
