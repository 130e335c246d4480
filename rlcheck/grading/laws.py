"""What a law is, how it is found, and how it is run against one implementation."""

import functools
import inspect
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky

from rlcheck.catalogue import Function
from rlcheck.grading.calls import (
    Call,
    Graded,
    Interrupted,
    NoOutcome,
    Raised,
    TimedOut,
    Transport,
    same_outcome,
)
from rlcheck.grading.compare import Mismatch

Status: TypeAlias = Literal[
    "passed",
    "failed",
    "raised",
    "timed_out",
    "crashed",
    "missing",
    "skipped",
    "blocked",
    "ungradable",
]

EXAMPLES = 100  # drawn for each law unless the caller says otherwise
KEPT_CALLS = 300  # recorded calls of one law that a diagnosis looks at
REPEATED_CALLS = 3  # of a law that holds, asked again when all laws of the function are judged
WITNESSED_CALLS = 8  # of a law that holds, asked of another process
LAW_SECONDS = 60.0  # a law's whole share of time
LONG = 64  # numbers in a counterexample that make it worth looking for a smaller one
UNSTEADY = "the same call was answered differently: it keeps state between calls"
ELSEWHERE = "another process answered the same call differently: it keeps state between calls"
UNWITNESSED = "another process took too long to answer the same calls"


@dataclass(frozen=True, eq=False)
class Law:
    """One Hypothesis test of one function.

    The first parameter of `body` is the function under test; the others are drawn.
    """

    body: Callable[..., None] = field(repr=False)
    strategies: dict[str, Any] = field(repr=False)

    @property
    def function(self) -> str:
        return next(iter(inspect.signature(self.body).parameters))

    @property
    def name(self) -> str:
        return self.body.__name__.removeprefix("test_")

    @property
    def id(self) -> str:
        """`kl::name`, or `gradients.kl::name` for a law of gradients."""
        within = self.body.__module__.partition("properties.")[2] or self.body.__module__
        module = ".".join(part.removeprefix("test_") for part in within.split("."))
        return f"{module}::{self.name}"

    @property
    def of_gradients(self) -> bool:
        """Whether it judges gradients, which only an implementation in tensors has."""
        return self.id.startswith("gradients.")

    @property
    def of_refusals(self) -> bool:
        """Whether it asks for an error where the input is bad."""
        return self.name.endswith(("_refuse", "_refuses"))

    @property
    def explicit_examples(self) -> int:
        """How many inputs it states, which are tried first."""
        return len(getattr(self.body, "hypothesis_explicit_examples", ()))

    @property
    def sentence(self) -> str:
        """The law in words: the first paragraph of its docstring."""
        return " ".join(inspect.cleandoc(self.body.__doc__ or "").split("\n\n")[0].split())

    @property
    def equation(self) -> str:
        """The rest of its docstring: formulas, conditions, sources."""
        return inspect.cleandoc(self.body.__doc__ or "").partition("\n\n")[2]


@dataclass(eq=False)
class Verdict:
    """What running one law against one implementation showed."""

    law: Law
    status: Status
    message: str = ""
    expected: Any = None
    got: Any = None
    allowed: Any = None
    frames: str = ""
    counterexample: list[Call] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    examples: int = 0
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return self.status == "passed"


def law(**strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a test as a law: `hypothesis.given` that also remembers what it was given.

    Explicit examples go below it, as `@example(...)` from Hypothesis. The law's own arithmetic
    may overflow on its way to a truth or a bound; warnings of what is judged are the transport's.
    """

    def declare(body: Callable[..., None]) -> Callable[..., None]:
        test = given(**strategies)(np.errstate(all="ignore")(body))
        test.law = Law(body, strategies)  # type: ignore[attr-defined]
        return test

    return declare


def folder() -> Path:
    """Where the laws lie: inside the installed package, or beside it in a checkout."""
    return Path(str(import_module("rlcheck.properties").__file__)).resolve().parent


@functools.cache
def _laws_by_function(module: str) -> dict[str, tuple[Law, ...]]:
    found: dict[str, list[Law]] = {}
    for value in vars(import_module(f"rlcheck.properties.{module}")).values():
        if isinstance(declared := getattr(value, "law", None), Law):
            found.setdefault(declared.function, []).append(declared)
    return {function: tuple(laws) for function, laws in found.items()}


def laws_of(function: Function, *, gradients: bool = False) -> tuple[Law, ...]:
    """The laws of one function's values, or of its gradients, in the order of their module."""
    if not gradients:
        return _laws_by_function(f"test_{function.module}").get(function.name, ())
    if not function.has_twin:
        return ()
    return _laws_by_function(f"gradients.test_{function.module}").get(function.name, ())


def explore(
    law: Law,
    visit: Callable[..., None],
    *,
    random_seed: int,
    examples: int = EXAMPLES,
    shrink: bool = False,
    explicit: bool = True,
) -> None:
    """Call `visit` with what the law draws, its explicit examples first unless they are left out.

    An exception that Hypothesis counts as a failure ends the run, after the example was made
    small if `shrink` is set; it is raised from the last call of `visit`.
    """

    @functools.wraps(law.body)
    def body(**drawn: Any) -> None:
        visit(**drawn)

    # Hypothesis reads the signature: without the first parameter, every name left is drawn.
    _, *parameters = inspect.signature(law.body).parameters.values()
    by_name = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    body.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    chosen = settings(
        max_examples=examples,
        phases=[
            *([Phase.explicit] if explicit else []),
            Phase.generate,
            *([Phase.shrink] if shrink else []),
        ],
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    seed(random_seed)(chosen(given(**law.strategies)(body)))()


def run(
    law: Law,
    transport: Transport,
    *,
    random_seed: int,
    examples: int = EXAMPLES,
    shrink: bool = True,
    explicit: bool = True,
    seconds: float = LAW_SECONDS,
) -> Verdict:
    """Run one law against an implementation; never raises for what the implementation does.

    Its explicit examples, which are the same at every seed, come first unless they are left out.
    One that is long and fails is not made small; with `shrink` a smaller input is looked for among
    those that are drawn.
    """
    started = time.monotonic()
    how: dict[str, Any] = {"random_seed": random_seed, "examples": examples, "shrink": shrink}
    verdict = _run(law, transport, **how, seconds=seconds, explicit=explicit)
    left = seconds - (time.monotonic() - started)
    failed = verdict.status in ("failed", "raised") and verdict.examples <= law.explicit_examples
    if explicit and shrink and failed and left > 0 and _length(verdict) > LONG:
        drawn = _run(law, transport, **how, seconds=left, explicit=False)
        if drawn.status in ("failed", "raised") and _length(drawn) < _length(verdict):
            drawn.calls = [*verdict.calls, *drawn.calls][-KEPT_CALLS:]
            drawn.examples += verdict.examples
            verdict = drawn
    verdict.seconds = time.monotonic() - started
    return verdict


def _length(verdict: Verdict) -> int:
    """How many numbers and texts there are in the counterexample."""
    return sum(_entries([*call.args, *call.kwargs.values()]) for call in verdict.counterexample)


def _entries(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.size
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_entries, value)) if isinstance(value, list | tuple) else 1


def _run(
    law: Law,
    transport: Transport,
    *,
    random_seed: int,
    examples: int,
    shrink: bool,
    seconds: float,
    explicit: bool,
) -> Verdict:
    graded = Graded(law.function, transport, seconds)
    verdict = Verdict(law, "passed")

    def visit(**drawn: Any) -> None:
        if len(verdict.calls) < KEPT_CALLS:
            verdict.calls.extend(graded.calls)
        graded.calls.clear()
        verdict.examples += 1
        with np.errstate(all="ignore"):
            law.body(graded, **drawn)

    chosen: dict[str, Any] = {"examples": examples, "shrink": shrink, "explicit": explicit}
    try:
        explore(law, visit, random_seed=random_seed, **chosen)
    except Interrupted as stop:
        verdict.status = "timed_out" if isinstance(stop, TimedOut) else "crashed"
        verdict.message, verdict.frames = str(stop), getattr(stop, "output", "")
    except Mismatch as mismatch:
        verdict.status = "failed"
        verdict.message = mismatch.text
        verdict.expected, verdict.got = mismatch.expected, mismatch.got
        verdict.allowed = mismatch.allowed
    except Raised as raised:
        verdict.status = "raised"
        verdict.message, verdict.got = str(raised), str(raised)
        verdict.frames = raised.frames
    except Flaky:
        verdict.status = "failed"
        verdict.message = UNSTEADY
    except Exception as error:
        verdict.status = "ungradable"
        verdict.message = f"{type(error).__name__}: {error}"
    if not verdict.holds:
        verdict.counterexample = list(graded.calls)
    verdict.calls.extend(graded.calls)
    return verdict


def ask_again(verdict: Verdict, transport: Transport) -> None:
    """Repeat a few calls of a law that holds; another answer than before makes it fail.

    Calls are watched where they were not, and not where they were, so that an implementation
    cannot behave by whether it is looked at.
    """
    answered = _answered(verdict)
    step = max(1, len(answered) // REPEATED_CALLS)
    for call in answered[::step][:REPEATED_CALLS]:
        if verdict.holds:
            _repeat(verdict, call, transport, UNSTEADY, watch=call.effects is None)


def ask_elsewhere(
    verdicts: Sequence[Verdict],
    transport: Transport,
    seed_of: Callable[[Law], int],
    *,
    seconds: float,
) -> None:
    """Ask another process calls of the laws that hold, all mixed; what differs makes a law fail.

    An answer may depend on its call alone. Who goes by the order of the calls, or remembers what
    was asked, does not know the order here and has nothing to remember.

    Args:
        verdicts: of one function, at least one.
        transport: to the other process.
        seed_of: a law's seed, which chooses its calls; the first law's chooses the order, too.
        seconds: for all calls together; a law whose calls are not reached in them has timed out.
    """
    calls = [(v, call) for v in verdicts if v.holds for call in _some(v, seed_of(v.law))]
    random.Random(seed_of(verdicts[0].law)).shuffle(calls)
    until = time.monotonic() + seconds
    for verdict, call in calls:
        if verdict.holds and time.monotonic() > until:
            verdict.status, verdict.message = "timed_out", UNWITNESSED
        elif verdict.holds:
            _repeat(verdict, call, transport, ELSEWHERE)


def _some(verdict: Verdict, random_seed: int) -> list[Call]:
    answered = _answered(verdict)
    return random.Random(random_seed).sample(answered, min(len(answered), WITNESSED_CALLS))


def _answered(verdict: Verdict) -> list[Call]:
    return [call for call in verdict.calls if call.outcome is not NoOutcome]


def _repeat(
    verdict: Verdict, call: Call, transport: Transport, complaint: str, watch: bool | None = None
) -> None:
    """Ask one call of a law that holds again, and let the law fail where the outcome differs."""
    try:
        again = Graded(verdict.law.function, transport).repeat(call, watch=watch)
    except Interrupted as stop:
        verdict.status = "timed_out" if isinstance(stop, TimedOut) else "crashed"
        verdict.message = str(stop)
    else:
        if same_outcome(call.outcome, again):
            return
        verdict.status, verdict.message = "failed", complaint
        verdict.expected, verdict.got = call.outcome, again
    verdict.counterexample = [call]
