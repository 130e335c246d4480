"""Grading one target: every law of every function that was asked for, and a report."""

import hashlib
import inspect
import shlex
import time
from collections.abc import Callable, Sequence

from rlcheck import __version__
from rlcheck.catalogue import FUNCTIONS, select
from rlcheck.grading.calls import Call
from rlcheck.grading.diagnosis import diagnose
from rlcheck.grading.implementation import Implementation, Resolution, load
from rlcheck.grading.laws import EXAMPLES, LAW_SECONDS, Law, Verdict, laws_of, run
from rlcheck.grading.pasteable import call_source, shown
from rlcheck.grading.report import Diagnosis, FunctionReport, LawReport, Report
from rlcheck.grading.submission import CALL_SECONDS, CannotLoad

TOTAL_SECONDS = 900.0
DEFAULT_SEED = 0


def law_seed(seed: int, law: Law) -> int:
    """A law's own seed, so that it draws the same whichever other laws run."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{law.id}".encode()).digest()[:8], "big")


def grade(
    target: str,
    *,
    only: Sequence[str] = (),
    law: str | None = None,
    examples: int = EXAMPLES,
    seed: int = DEFAULT_SEED,
    isolate: bool | None = None,
    call_seconds: float = CALL_SECONDS,
    total_seconds: float = TOTAL_SECONDS,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Grade a target and report, whatever the target does.

    Functions that `only` names are asked for: where one is missing, its laws count as lost.
    Without `only`, the target is graded on what it has.

    Args:
        target: a file, a package folder, a dotted module or an entry point's name.
        only: names of functions, modules or course parts; empty means everything.
        law: the id of the one law to run; None runs all laws of the chosen functions.
        examples: drawn for each law.
        seed: of every draw; reported.
        isolate: True runs a module in a worker process too; files always run in one.
        call_seconds: limit of one call into the target.
        total_seconds: limit of the whole run; what it cuts off counts as timed out.
        progress: called with each function's name before its laws run.

    Raises:
        ValueError: `only` holds an unknown name.
    """
    functions = select(tuple(only))
    wanted = {f.name: [w for w in laws_of(f) if law in (None, w.id)] for f in functions}
    report = Report(
        target=target,
        seed=seed,
        isolation="process",
        score=0,
        max_score=0,
        functions={},
        laws=[],
        rlcheck=__version__,
        examples=examples,
    )
    started = time.monotonic()
    try:
        with load(target, functions, isolate=isolate, call_seconds=call_seconds) as loaded:
            report.isolation, report.location = loaded.isolation, loaded.location
            report.version = loaded.version
            if not loaded.provides:
                raise CannotLoad("it defines none of the functions that are asked for")
            _plan(report, wanted, loaded.resolutions, asked_for=bool(only))
            for name, entry in report.functions.items():
                if loaded.resolutions[name].status == "provided":
                    progress(name)
                    _grade_function(report, entry, wanted[name], loaded, started + total_seconds)
    except CannotLoad as error:
        report.error, report.frames = str(error), error.frames
        unloadable = Resolution("unloadable")
        _plan(report, wanted, dict.fromkeys(wanted, unloadable), asked_for=True)
    except KeyboardInterrupt:
        report.fault = "interrupted; laws that were not reached are ungradable"
    report.seconds = round(time.monotonic() - started, 3)
    return report


def _plan(
    report: Report,
    wanted: dict[str, list[Law]],
    resolutions: dict[str, Resolution],
    *,
    asked_for: bool,
) -> None:
    """Fix the denominator: one entry for each law, ungradable until its verdict is there."""
    for name, laws in wanted.items():
        resolution = resolutions[name]
        status = {
            "provided": "ungradable",
            "unloadable": "missing",
            "missing": "missing" if asked_for else "skipped",
        }[resolution.status]
        report.laws += [_law_report(law, status, report) for law in laws]
        report.max_score += 0 if status == "skipped" else len(laws)
        report.functions[name] = FunctionReport(
            "failed" if resolution.status == "provided" else resolution.status,
            message=resolution.message,
            laws=len(laws),
        )


def _grade_function(
    report: Report,
    entry: FunctionReport,
    laws: list[Law],
    loaded: Implementation,
    deadline: float,
) -> None:
    verdicts: list[Verdict] = []
    for law in laws:
        left = deadline - time.monotonic()
        verdicts.append(
            run(
                law,
                loaded.transport,
                random_seed=law_seed(report.seed, law),
                examples=report.examples,
                seconds=min(left, LAW_SECONDS),
            )
            if left > 0
            else Verdict(law, "timed_out", message="the run's time was used up before this law")
        )
    everything = [call for verdict in verdicts for call in verdict.calls]
    entries = {law.id: law for law in report.laws}
    for verdict in verdicts:
        _fill(entries[verdict.law.id], verdict, everything)
    entry.passed = sum(verdict.holds for verdict in verdicts)
    entry.status = "passed" if entry.passed == len(laws) else "failed"
    report.score += entry.passed


def _fill(entry: LawReport, verdict: Verdict, everything: list[Call]) -> None:
    entry.status = verdict.status
    entry.examples, entry.seconds = verdict.examples, round(verdict.seconds, 4)
    if verdict.holds:
        return
    calls = verdict.counterexample
    entry.counterexample = "\n".join(call_source(verdict.law.function, call) for call in calls)
    entry.expected, entry.got = shown(verdict.expected), shown(verdict.got)
    entry.allowed = shown(verdict.allowed)
    entry.message, entry.frames = verdict.message, verdict.frames
    if verdict.status in ("failed", "raised"):
        found = diagnose(verdict.law.function, verdict.calls, everything)
        entry.diagnosis = Diagnosis(found.id, found.description, found.report) if found else None


def _law_report(law: Law, status: str, report: Report) -> LawReport:
    return LawReport(
        id=law.id,
        function=law.function,
        sentence=law.sentence,
        status=status,
        equation=law.equation,
        source=_reference_section(law),
        replay=(
            f"rlcheck replay {law.id} {shlex.quote(report.target)} "
            f"--seed {report.seed} --examples {report.examples}"
        ),
    )


def _reference_section(law: Law) -> str:
    """The paper and equation that the function's docstring names."""
    doc = inspect.getdoc(FUNCTIONS[law.function].reference()) or ""
    return " ".join(doc.partition("Reference:")[2].split())
