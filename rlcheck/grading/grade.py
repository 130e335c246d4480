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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from rlcheck.catalogue import FUNCTIONS, select
from rlcheck.grading.assignment import Assignment
from rlcheck.grading.calls import Call
from rlcheck.grading.content import Unmeasurable, clean_copy, content_of
from rlcheck.grading.diagnosis import diagnose
from rlcheck.grading.implementation import (
    Implementation,
    Resolution,
    implementation_of,
    load,
    path_of,
)
from rlcheck.grading.interpreter import UnfitInterpreter
from rlcheck.grading.laws import (
    EXAMPLES,
    LAW_SECONDS,
    UNWITNESSED,
    Law,
    Verdict,
    ask_again,
    ask_elsewhere,
    laws_of,
    run,
)
from rlcheck.grading.pasteable import call_source, shown, vector
from rlcheck.grading.processes import pool
from rlcheck.grading.report import Diagnosis, FunctionReport, LawReport, Report, unjudged
from rlcheck.grading.sandbox import TierUnavailable, note
from rlcheck.grading.scoring import settle
from rlcheck.grading.seal import secret, secret_seed
from rlcheck.grading.standins import is_kept_by_a_table, is_kept_without_mathematics
from rlcheck.grading.submission import CALL_SECONDS, CannotLoad, Worker
from rlcheck.grading.wire import printable
from rlcheck.subjects import subject

TOTAL_SECONDS = 900.0
DEFAULT_SEED = 0
UNEARNED = "an answer without mathematics keeps it too; waits for half of the laws that need some"
FUNCTIONS_PER_PROCESS = 3  # starting a process costs as much as grading one or two functions


def law_seed(seed: int, law: Law) -> int:
    """A law's own seed, so that it draws the same whichever other laws run."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{law.id}".encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Settings:
    """What every law of a run is run with; `deadline` is on the system's monotonic clock."""

    target: str
    place: str  # what is opened: the target, or a copy of it
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
    expected: frozenset[str] = frozenset()  # laws that are known to fail
    hidden: frozenset[str] = frozenset()  # laws whose inputs must not show in others' reports
    kept_back: frozenset[str] = frozenset()  # laws whose seeds the secret gives
    secret: str = field(default="", repr=False)

    def load(self) -> AbstractContextManager[Implementation]:
        functions = tuple(FUNCTIONS[name] for name in self.names)
        return load(
            self.place,
            functions,
            isolate=self.isolate,
            alone=self.alone,
            call_seconds=self.call_seconds,
            tensors=self.tensors,
            python=self.python,
        )

    def seed_of(self, law: Law) -> int:
        """The seed that a law is replayed with: the run's, or its own where it is kept back.

        Who has rlcheck could draw the inputs of a stated seed again.
        """
        if law.id not in self.kept_back:
            return self.seed
        return secret_seed(f"{self.seed}:{law.id}".encode(), self.secret)

    def law_seed(self, law: Law) -> int:
        """What a law draws with."""
        return law_seed(self.seed_of(law), law)

    def replay(self, law: Law) -> str:
        """The command, or the call, that runs one law again as it was run."""
        if self.given:
            how = f"law={law.id!r}, seed={self.seed_of(law)}, examples={self.examples}"
            how += ", tensors=True" if self.tensors and not law.of_gradients else ""
            how += ", gradients=True" if law.of_gradients else ""
            return f"rlcheck.check({self.target}, {law.function!r}, {how})"
        command = ["rlcheck replay", law.id, printable(shlex.quote(self.target))]
        command += [f"--seed {self.seed_of(law)}", f"--examples {self.examples}"]
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
            assignment's seed lacks its secret, or `law` or `expected_failures` names what is no law
            of what is graded.
    """
    started = time.monotonic()
    if assignment is not None:
        only = tuple(assignment.functions)
        examples = assignment.examples or examples
        tensors, gradients = assignment.tensors or tensors, assignment.gradients or gradients
    library = subject(target) if functions is None else None
    with ExitStack() as until_graded:
        place = target
        if assignment is not None:
            assignment.check_secret()
            try:
                seed, place = _own_seed(assignment, target, alone, until_graded)
            except (Unmeasurable, CannotLoad) as error:
                barred = barred or str(error)
        settings = Settings(
            target=target,
            place=place,
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
            hidden=assignment.hidden() if assignment and not reveal else frozenset(),
            kept_back=assignment.kept_back() if assignment else frozenset(),
            secret=secret() if assignment else "",
        )
        if law is not None and not any(map(settings.laws, settings.names)):
            raise ValueError(f"law is {law!r}, which is no law of what is graded")
        if expected_failures is None and library is not None and law is None:
            known = {law.id for name in settings.names for law in settings.laws(name)}
            expected_failures = library.expected_failures(known)
        _check_expected(expected_failures or {}, settings)
        settings = replace(settings, expected=frozenset(expected_failures or ()))
        report = unjudged(
            target,
            seed=seed,
            assignment=assignment.title if assignment else "",
            examples=examples,
            tensors=settings.tensors,
            gradients=gradients,
        )
        with _told_in(report, settings):
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
                shared = 1 if keep_output else jobs
                for judged in _judge_all(settings, names, loaded, shared, progress):
                    _enter(report, judged)
            if keep_output and isinstance(loaded.transport, Worker):
                report.output = loaded.transport.output
    if place != target:
        _call_by_its_name(report, Path(place), Path(target).resolve())
    settle(report, assignment, reveal=reveal, expected_failures=expected_failures or {})
    hidden = any(law.hidden for law in report.laws)  # whose inputs a delay could tell
    took = sum(law.seconds for law in report.laws) if hidden else time.monotonic() - started
    report.seconds = round(took, 3)
    return report


def _own_seed(
    assignment: Assignment, target: str, alone: bool, until_graded: ExitStack
) -> tuple[int, str]:
    """The seed of a submission, and what is opened: with a seed of its own, a clean copy.

    What the copy does not hold, the seed cannot miss: a table of answers to an earlier seed could
    lie in a file's attributes.
    """
    path = path_of(target) if assignment.seed == "per-submission" else None
    if path is None:
        return assignment.seed_of(b""), target
    copy = until_graded.enter_context(clean_copy(path, alone=alone))
    return assignment.seed_of(content_of(copy, alone=alone)), str(copy)


@contextlib.contextmanager
def _told_in(report: Report, settings: Settings) -> Iterator[None]:
    """Enter in the report why a run did not begin, or was not finished."""
    try:
        yield
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


def _call_by_its_name(report: Report, copy: Path, path: Path) -> None:
    """Have a report speak of the submission where it speaks of the copy that was graded."""
    for entry in (report, *report.laws):
        for name, text in msgspec.structs.asdict(entry).items():
            if isinstance(text, str):
                text = text.replace(str(copy), str(path)).replace(
                    str(copy.parent), str(path.parent)
                )
                setattr(entry, name, text)


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

    What a submission remembers of their inputs ends with that process, and shows nowhere: nothing
    that is told of the other laws depends on them.
    """
    laws = settings.laws(name)
    shown = _verdicts(settings, [law for law in laws if law.id not in settings.hidden], loaded)
    hidden: list[Verdict] = []
    if len(shown) < len(laws):
        loaded.start_afresh()
        hidden = _verdicts(settings, [law for law in laws if law.id in settings.hidden], loaded)
        loaded.start_afresh()
    waiting = [*_unearned(settings, shown, shown), *_unearned(settings, hidden, shown + hidden)]
    for verdict in waiting:
        verdict.status, verdict.message = "blocked", UNEARNED
    return [
        _verdict_report(verdict, [call for v in others for call in v.calls], settings)
        for verdicts, others in ((shown, shown), (hidden, shown + hidden))
        for verdict in verdicts
    ]


def _unearned(
    settings: Settings, verdicts: list[Verdict], judged: list[Verdict]
) -> Iterator[Verdict]:
    """Those of the verdicts that hold without mathematics, where few hold that need some.

    Few are less than half of those that no table keeps either, and that are not known to fail; of
    gradients, where their values are wrong, too. Where all of them hold, there is nothing to ask.
    """
    counted = [verdict for verdict in judged if verdict.law.id not in settings.expected]
    if all(verdict.holds for verdict in counted):
        return
    few = False
    for of_gradients in (False, True):
        alike = [verdict for verdict in counted if verdict.law.of_gradients == of_gradients]
        free = [v for v in alike if is_kept_without_mathematics(v.law)]
        asking = [v for v in alike if v not in free and not is_kept_by_a_table(v.law)]
        few = few or 2 * sum(verdict.holds for verdict in asking) < len(asking)
        if few:
            yield from (v for v in free if v in verdicts and v.holds)


def _verdicts(settings: Settings, laws: list[Law], loaded: Implementation) -> list[Verdict]:
    """Each law run, and then a few calls of those that hold asked again, here and elsewhere."""
    verdicts = [_verdict(settings, law, loaded) for law in laws]
    for verdict in verdicts:
        if verdict.holds and time.monotonic() < settings.deadline:
            ask_again(verdict, loaded.transport)
    if loaded.suspect and any(verdict.holds for verdict in verdicts):
        loaded.start_afresh()  # two at once could talk to each other
        took = sum(verdict.seconds for verdict in verdicts)
        left = min(settings.deadline - time.monotonic(), took + LAW_SECONDS)
        ask_elsewhere(verdicts, loaded.transport, settings.law_seed, seconds=left)
        for verdict in verdicts:
            if verdict.message == UNWITNESSED and time.monotonic() > settings.deadline:
                verdict.message = "the run's time was used up before another process was asked"
    return verdicts


def _verdict(settings: Settings, law: Law, loaded: Implementation) -> Verdict:
    """One law run, in its share of time or in what is left of the run's."""
    left = settings.deadline - time.monotonic()
    if left <= 0:
        return Verdict(law, "timed_out", message="the run's time was used up before this law")
    verdict = run(
        law,
        loaded.transport,
        random_seed=settings.law_seed(law),
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
