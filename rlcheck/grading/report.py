"""The canonical report: what a grading run found, as data."""

from typing import Any, Literal

import msgspec

from rlcheck import __version__
from rlcheck.grading.wire import printable

SCHEMA = 1

EXIT_PASSED, EXIT_FAILED, EXIT_USAGE, EXIT_UNLOADABLE, EXIT_GRADER = range(5)


class Diagnosis(msgspec.Struct, frozen=True):
    """The known mistake that the answers look like."""

    id: str
    description: str
    report: str | None = None


class FunctionReport(msgspec.Struct):
    """One function: "passed", "failed", "missing" or "unloadable", and why."""

    status: str
    message: str = ""
    passed: int = 0
    laws: int = 0


class LawReport(msgspec.Struct):
    """One law: its verdict, and the failure card's contents where it fails."""

    id: str
    function: str
    sentence: str
    status: str
    diagnosis: Diagnosis | None = None
    counterexample: str | None = None
    expected: str | None = None
    got: str | None = None
    allowed: str | None = None
    message: str = ""
    equation: str = ""
    source: str = ""
    frames: str = ""
    replay: str = ""
    examples: int = 0
    seconds: float = 0.0
    points: float = 1.0
    hidden: bool = False  # its name and hint are shown, and nothing else
    hint: str = ""
    visibility: Literal["public", "hidden", "after-due"] = "public"
    expected_failure: str = ""  # the reason why it is known to fail; it does not count then
    expected_values: list[float | None] | None = None  # of a vector; null where not finite
    got_values: list[float | None] | None = None


class Report(msgspec.Struct, kw_only=True):
    """A grading run.

    Without an assignment `score` laws hold of `max_score` that were asked for; with one, both are
    points.
    """

    schema: int = SCHEMA
    target: str
    seed: int
    isolation: str  # "in-process", or the tier of its worker
    isolation_note: str = ""  # what that hides from a submission, and what not
    output: str = ""  # the last that it printed, where that was asked for
    score: float
    max_score: float
    functions: dict[str, FunctionReport]
    laws: list[LawReport]
    rlcheck: str = ""
    location: str = ""
    version: str = ""
    assignment: str = ""  # its title
    examples: int = 0
    tensors: bool = False  # called with PyTorch tensors
    gradients: bool = False  # and judged on gradients
    error: str = ""  # why the target could not be loaded
    frames: str = ""
    fault: str = ""  # why the run is not complete
    digest: str = ""  # in a class, a seal over the submission, the settings and this report
    seconds: float = 0.0

    @property
    def failures(self) -> list[LawReport]:
        """The laws that were judged and do not hold."""
        unjudged = ("passed", "skipped", "missing", "blocked")
        judged = [law for law in self.laws if law.status not in unjudged]
        return [law for law in judged if not law.expected_failure]

    def raise_for_failures(self) -> None:
        """Raise AssertionError with the failure cards, unless every law that counts holds."""
        if self.exit_code != EXIT_PASSED:
            from rlcheck.checking import cards  # the terminal's look is loaded where it is needed

            why = self.error or self.fault or f"{self.score:g} of {self.max_score:g} laws hold"
            unloadable = [f.message for f in self.functions.values() if f.message]
            raise AssertionError("\n".join([f"{self.target}: {why}", *unloadable, cards(self)]))

    @property
    def exit_code(self) -> int:
        """0 all laws hold, 1 some law fails, 3 not loaded, 4 the grader failed."""
        if self.error:
            return EXIT_UNLOADABLE
        if self.fault or any(law.status == "ungradable" for law in self.laws):
            return EXIT_GRADER
        return EXIT_PASSED if self.score == self.max_score else EXIT_FAILED


def unjudged(target: str, *, seed: int, isolation: str = "process", **known: Any) -> Report:
    """A report of a run in which nothing has been judged, with what else is known of it."""
    return Report(
        target=printable(target),
        seed=seed,
        isolation=isolation,
        score=0,
        max_score=0,
        functions={},
        laws=[],
        rlcheck=__version__,
        **known,
    )


def to_json(report: Report) -> bytes:
    """The report as JSON, schema 1."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def from_json(data: bytes) -> Report:
    """A report read back; raises msgspec.ValidationError where it is none."""
    return msgspec.json.decode(data, type=Report)
