"""Grading one target: every law of every function that was asked for, and a report."""

import contextlib
import functools
import hashlib
import inspect
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rlcheck import __version__
from rlcheck.catalogue import FUNCTIONS, select
from rlcheck.grading.assignment import Assignment, Unmeasurable
from rlcheck.grading.calls import Call, NoOutcome, Raised
from rlcheck.grading.diagnosis import diagnose
from rlcheck.grading.implementation import (
    Implementation,
    Resolution,
    implementation_of,
    load,
)
from rlcheck.grading.interpreter import UnfitInterpreter
from rlcheck.grading.laws import EXAMPLES, LAW_SECONDS, Law, Verdict, ask_again, laws_of, run
from rlcheck.grading.pasteable import call_source, shown, vector
from rlcheck.grading.processes import pool
from rlcheck.grading.report import Diagnosis, FunctionReport, LawReport, Report
from rlcheck.grading.sandbox import TierUnavailable, note
from rlcheck.grading.scoring import settle
from rlcheck.grading.submission import CALL_SECONDS, CannotLoad, Worker
from rlcheck.grading.wire import printable
from rlcheck.subjects import subject

TOTAL_SECONDS = 900.0
DEFAULT_SEED = 0
FUNCTIONS_PER_PROCESS = 3  # starting a process costs as much as grading one or two functions


def law_seed(seed: int, law: Law) -> int:
    """A law's own seed, so that it draws the same whichever other laws run."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{law.id}".encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Settings:
    """What every law of a run is run with; `deadline` is on the system's monotonic clock."""

    target: str
    names: tuple[str, ...]
    law: str | None
    examples: int
    seed: int
    isolate: str | None
    alone: bool
    call_seconds: float
    deadline: float
    tensors: bool
    gradients: bool
    python: str | None = None
    refusals: bool = True  # whether laws that ask for errors are among them
    given: bool = False  # functions of this process are judged, and nothing is loaded
    hidden: frozenset[str] = frozenset()  # laws whose inputs must not show in others' reports

    def load(self) -> AbstractContextManager[Implementation]:
        functions = tuple(FUNCTIONS[name] for name in self.names)
        return load(
            self.target,
            functions,
            isolate=self.isolate,
            alone=self.alone,
            call_seconds=self.call_seconds,
            tensors=self.tensors,
            python=self.python,
        )

    def replay(self, law: Law) -> str:
        """The command, or the call, that runs one law again as it was run."""
        if self.given:
            how = f"law={law.id!r}, seed={self.seed}, examples={self.examples}"
            how += ", tensors=True" if self.tensors and not law.of_gradients else ""
            how += ", gradients=True" if law.of_gradients else ""
            return f"rlcheck.check({self.target}, {law.function!r}, {how})"
        command = ["rlcheck replay", law.id, printable(shlex.quote(self.target))]
        command += [f"--seed {self.seed}", f"--examples {self.examples}"]
        if self.isolate:
            command.append(f"--isolate {self.isolate}")
        if self.python:
            command.append(f"--python {shlex.quote(self.python)}")
        if self.call_seconds != CALL_SECONDS:
            command.append(f"--call-seconds {self.call_seconds:g}")
        if self.tensors and not law.of_gradients:
            command.append("--tensors")
        return " ".join(command)

    def laws(self, name: str) -> list[Law]:
        """The laws of one function that are to run."""
        function = FUNCTIONS[name]
        of_gradients = laws_of(function, gradients=True) if self.gradients else ()
        found = [law for law in (*laws_of(function), *of_gradients) if self.law in (None, law.id)]
        return [law for law in found if self.refusals or self.law or not law.of_refusals]


def grade(
    target: str,
    *,
    only: Sequence[str] = (),
    law: str | None = None,
    examples: int = EXAMPLES,
    seed: int = DEFAULT_SEED,
    isolate: str | None = None,
    alone: bool = False,
    barred: str = "",
    keep_output: bool = False,
    python: str | None = None,
    refusals: bool | None = None,
    tensors: bool = False,
    gradients: bool = False,
    call_seconds: float = CALL_SECONDS,
    total_seconds: float = TOTAL_SECONDS,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
    assignment: Assignment | None = None,
    reveal: bool = False,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Report:
    """Grade a target and report, whatever the target does.

    Functions that `only` names, or an assignment, are asked for: where one is missing, its laws
    count as lost. Without either, the target is graded on what it has.

    Args:
        target: a file, a package folder, a dotted module or an entry point's name.
        only: names of functions, modules or course parts; empty means everything.
        law: the id of the one law to run; None runs all laws of the chosen functions.
        examples: drawn for each law.
        seed: of every draw; reported.
        isolate: the tier of `sandbox.TIERS` that is demanded, or "strongest", of a module too;
            None runs files in the strongest that can be had, and modules in this process.
        alone: True hides from a file what lies beside it, where files are hidden.
        barred: why the target is not opened at all, and earns nothing.
        keep_output: True keeps the last that an isolated target printed, in one process.
        python: the interpreter that runs the target, in a worker; None means this one.
        refusals: False leaves out the laws that ask for an error where the input is bad; None
            does so for libraries alone, which leave the check to their caller.
        tensors: True calls the target with PyTorch tensors in place of arrays and lists.
        gradients: True judges the gradients of its answers too, which implies `tensors`.
        call_seconds: limit of one call into the target.
        total_seconds: limit of the whole run; what it cuts off counts as timed out.
        jobs: processes that share the functions of an isolated target.
        progress: called with each function's name when its laws begin, or with `jobs`, end.
        assignment: what is asked for and what it is worth; it goes before `only`, and where it
            says so before `examples`, `seed`, `tensors` and `gradients`.
        reveal: True shows the inputs of the assignment's hidden laws too.
        functions: what is judged in place of what a target holds, by the contract's names; the
            target is then only what the report calls them.
        expected_failures: law ids with the reason why they are known to fail. Such a law does not
            count; where it holds after all, it is lost, so that the declaration is removed. None
            takes what is declared of a library; what is not graded here is left out of that.

    Raises:
        ValueError: the tier or the interpreter cannot be had, `only` holds an unknown name, the
            assignment's seed lacks its secret, or `expected_failures` names what is no law of what
            is graded.
    """
    started = time.monotonic()
    if assignment is not None:
        only = tuple(assignment.functions)
        try:
            seed = assignment.seed_of(target, alone=alone)
        except Unmeasurable as error:  # a missing one is told when it is opened
            barred = barred or (str(error) if Path(target).exists() else "")
        examples = assignment.examples or examples
        tensors, gradients = assignment.tensors or tensors, assignment.gradients or gradients
    library = subject(target) if functions is None else None
    settings = Settings(
        target=target,
        names=tuple(function.name for function in select(tuple(only))),
        law=law,
        examples=examples,
        seed=seed,
        isolate=isolate,
        alone=alone,
        call_seconds=call_seconds,
        deadline=started + total_seconds,
        tensors=tensors or gradients,
        gradients=gradients,
        python=python,
        refusals=(library is None) if refusals is None else refusals,
        given=functions is not None,
        hidden=_hidden(assignment) if assignment and not reveal else frozenset(),
    )
    if expected_failures is None and library is not None and law is None:
        known = {law.id for name in settings.names for law in settings.laws(name)}
        expected_failures = library.expected_failures(known)
    _check_expected(expected_failures or {}, settings)
    report = Report(
        target=printable(target),
        seed=seed,
        isolation="process",
        score=0,
        max_score=0,
        functions={},
        laws=[],
        rlcheck=__version__,
        assignment=assignment.title if assignment else "",
        examples=examples,
        tensors=settings.tensors,
        gradients=gradients,
    )
    try:
        if barred:
            raise CannotLoad(barred)
        with opened(functions, settings) as loaded:
            report.isolation, report.location = loaded.isolation, printable(loaded.location)
            report.isolation_note = note(loaded.isolation)
            report.version = loaded.version
            if not loaded.provides:
                raise CannotLoad(_nothing(loaded))
            _plan(report, settings, loaded.resolutions, asked_for=bool(only))
            names = [n for n, r in loaded.resolutions.items() if r.status == "provided"]
            for judged in _judge_all(settings, names, loaded, 1 if keep_output else jobs, progress):
                _enter(report, judged)
        if keep_output and isinstance(loaded.transport, Worker):
            report.output = loaded.transport.output
    except CannotLoad as error:
        report.error, report.frames = str(error), error.frames
        report.isolation = error.tier or report.isolation
        report.isolation_note = note(report.isolation)
        unloadable = Resolution("unloadable")
        _plan(report, settings, dict.fromkeys(settings.names, unloadable), asked_for=True)
    except (TierUnavailable, UnfitInterpreter):
        raise
    except KeyboardInterrupt:
        report.fault = "interrupted; laws that were not reached are ungradable"
    except BrokenProcessPool:
        report.fault = "a process of the grader died; laws that were not reached are ungradable"
    except Exception as error:
        report.fault = f"rlcheck failed: {type(error).__name__}: {error}"
    settle(report, assignment, reveal=reveal, expected_failures=expected_failures or {})
    hidden = any(law.hidden for law in report.laws)  # whose inputs a delay could tell
    took = sum(law.seconds for law in report.laws) if hidden else time.monotonic() - started
    report.seconds = round(took, 3)
    return report


def _hidden(assignment: Assignment) -> frozenset[str]:
    terms = assignment.terms(assignment.laws()).items()
    return frozenset(law for law, t in terms if assignment.is_hidden(t.visibility))


def _check_expected(expected_failures: Mapping[str, str], settings: Settings) -> None:
    known = {law.id for name in settings.names for law in settings.laws(name)}
    for law in expected_failures:
        if law not in known:
            raise ValueError(f"expected_failures names {law!r}, which is no law of what is graded")


def opened(
    functions: Mapping[str, Callable[..., Any]] | None, settings: Settings
) -> AbstractContextManager[Implementation]:
    """The implementation that is judged, for as long as the context lasts."""
    if functions is None:
        return settings.load()
    given = implementation_of(functions, settings.target, tensors=settings.tensors)
    return contextlib.nullcontext(given)


def _nothing(loaded: Implementation) -> str:
    """Why there is nothing to grade, with the names that nearly fit."""
    asked = list(loaded.resolutions)
    which = f"does not define {asked[0]}"
    if len(asked) > 1:
        which = f"defines none of the {len(asked)} functions that are asked for"
    near = [f"{name}: {r.message}" for name, r in loaded.resolutions.items() if r.message]
    return "; ".join([f"{loaded.location} {which}", *near[:3]])


def _plan(
    report: Report, settings: Settings, resolutions: dict[str, Resolution], *, asked_for: bool
) -> None:
    """Fix the denominator: one entry for each law, ungradable until its verdict is there."""
    for name in settings.names:
        resolution, laws = resolutions[name], settings.laws(name)
        status = {
            "provided": "ungradable",
            "unloadable": "missing",
            "missing": "missing" if asked_for else "skipped",
        }[resolution.status]
        report.laws += [_law_report(law, status, settings) for law in laws]
        report.functions[name] = FunctionReport(
            "failed" if resolution.status == "provided" else resolution.status,
            message=resolution.message,
            laws=len(laws),
        )


def _enter(report: Report, judged: list[LawReport]) -> None:
    """Put the verdicts of one function in their places."""
    verdicts = {law.id: law for law in judged}
    report.laws = [verdicts.get(law.id, law) for law in report.laws]


def _judge_all(
    settings: Settings,
    names: list[str],
    loaded: Implementation,
    jobs: int,
    progress: Callable[[str], None],
) -> Iterator[list[LawReport]]:
    jobs = min(jobs, len(names) // FUNCTIONS_PER_PROCESS)
    if jobs < 2 or loaded.isolation == "in-process":
        for name in names:
            progress(name)
            yield _judge_function(settings, name, loaded)
        return
    with pool(jobs) as children:
        futures = {children.submit(_judge_in_child, settings, name): name for name in names}
        for future in as_completed(futures):
            progress(futures[future])
            yield msgspec.json.decode(future.result(), type=list[LawReport])


_IN_CHILD = ExitStack()


@functools.cache
def _loaded_in_child(settings: Settings) -> Implementation:
    return _IN_CHILD.enter_context(settings.load())


def _judge_in_child(settings: Settings, name: str) -> bytes:
    """The verdicts of one function as JSON, from a process that loads the target once."""
    try:
        loaded = _loaded_in_child(settings)
    except CannotLoad as error:
        crash = f"the submission does not load again: {error}"
        verdicts = [Verdict(law, "crashed", message=crash) for law in settings.laws(name)]
        return msgspec.json.encode([_verdict_report(v, [], settings) for v in verdicts])
    return msgspec.json.encode(_judge_function(settings, name, loaded))


def _judge_function(settings: Settings, name: str, loaded: Implementation) -> list[LawReport]:
    """The verdicts of one function; hidden laws are judged last, in a process of their own.

    What a submission remembers of their inputs ends with that process, and shows nowhere.
    """
    laws = settings.laws(name)
    hidden = [law for law in laws if law.id in settings.hidden]
    verdicts = _verdicts(settings, [law for law in laws if law not in hidden], loaded)
    if hidden:
        loaded.start_afresh()
        verdicts += _verdicts(settings, hidden, loaded)
        loaded.start_afresh()
    everything = [call for verdict in verdicts for call in verdict.calls]
    nothing = _no_mathematics(everything) if settings.law is None else ""
    if nothing and not all(verdict.holds for verdict in verdicts):
        for verdict in verdicts:  # what holds of it was not earned
            if verdict.holds:
                verdict.status, verdict.message = "failed", nothing
    return [_verdict_report(verdict, everything, settings) for verdict in verdicts]


def _no_mathematics(calls: list[Call]) -> str:
    """What is said of a function that refuses every call, or has one number for all of them."""
    answered = [call for call in calls if call.outcome is not NoOutcome]
    answers = [call.outcome for call in answered if not isinstance(call.outcome, Raised)]
    if answered and not answers:
        return "it answers no call at all"
    leaves = (repr(leaf) for answer in answers for leaf in _leaves(answer))
    first = next(leaves, "")
    return "it answers every call alike" if answers and all(x == first for x in leaves) else ""


def _leaves(answer: Any) -> Iterator[Any]:
    """The numbers and texts that an answer is made of, with 0 for 0.0, False and None."""
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, list | tuple):
        for entry in answer:
            yield from _leaves(entry)
    else:
        yield answer or 0


def _verdicts(settings: Settings, laws: list[Law], loaded: Implementation) -> list[Verdict]:
    """Each law run, and then a few calls of those that hold asked again."""
    verdicts = [_verdict(settings, law, loaded) for law in laws]
    for verdict in verdicts:
        if verdict.holds and time.monotonic() < settings.deadline:
            ask_again(verdict, loaded.transport)
    return verdicts


def _verdict(settings: Settings, law: Law, loaded: Implementation) -> Verdict:
    """One law run, in its share of time or in what is left of the run's."""
    left = settings.deadline - time.monotonic()
    if left <= 0:
        return Verdict(law, "timed_out", message="the run's time was used up before this law")
    verdict = run(
        law,
        loaded.transport,
        random_seed=law_seed(settings.seed, law),
        examples=settings.examples,
        seconds=min(left, LAW_SECONDS),
    )
    if verdict.status == "timed_out" and time.monotonic() > settings.deadline:
        verdict.message = "the run's time was used up in this law"
    return verdict


def _verdict_report(verdict: Verdict, everything: list[Call], settings: Settings) -> LawReport:
    entry = _law_report(verdict.law, verdict.status, settings)
    entry.examples, entry.seconds = verdict.examples, round(verdict.seconds, 4)
    if verdict.holds:
        return entry
    calls = verdict.counterexample
    function, tensors = FUNCTIONS[verdict.law.function], settings.tensors
    entry.counterexample = "\n".join(call_source(function, c, tensors=tensors) for c in calls)
    entry.expected, entry.got = shown(verdict.expected), shown(verdict.got)
    entry.allowed = shown(verdict.allowed)
    entry.expected_values, entry.got_values = vector(verdict.expected), vector(verdict.got)
    entry.message, entry.frames = verdict.message, verdict.frames
    if verdict.status in ("failed", "raised"):
        entry.diagnosis = _diagnosis(verdict, everything)
    return entry


def _diagnosis(verdict: Verdict, everything: list[Call]) -> Diagnosis | None:
    """The likely mistake; a guess, so that a fault in guessing must not cost the verdict."""
    with contextlib.suppress(Exception):
        found = diagnose(verdict.law.function, verdict.calls, everything)
        return Diagnosis(found.id, found.description, found.report) if found else None
    return None


def _law_report(law: Law, status: str, settings: Settings) -> LawReport:
    return LawReport(
        id=law.id,
        function=law.function,
        sentence=law.sentence,
        status=status,
        equation=law.equation,
        source=_reference_section(law),
        replay=settings.replay(law),
    )


def _reference_section(law: Law) -> str:
    """The paper and equation that the function's docstring names."""
    doc = inspect.getdoc(FUNCTIONS[law.function].reference()) or ""
    return " ".join(doc.partition("Reference:")[2].split())
