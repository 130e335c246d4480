"""The function under test, as a law sees it.

A law calls `Graded` as if it were the function. The answer comes back as plain data, whatever
the implementation returned, an exception comes back as `Raised`, and every call is recorded:
the calls of the smallest failing example are the counterexample that a report prints.
"""

import contextlib
import copy
import math
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.tensors import Backward, NoGradient, differentiate, with_tensors
from rlcheck.grading.wire import TableFunction, Unreadable, plain, printable

LAST_CALLS = 64  # more than one example of a law makes


class Raised(Exception):
    """The implementation raised instead of answering."""

    def __init__(self, kinds: tuple[str, ...], text: str, frames: str = "") -> None:
        super().__init__(f"{kinds[0]}: {text}")
        self.kinds = kinds  # names of the exception's class and its bases
        self.text = text
        self.frames = frames  # its own stack frames only

    @property
    def is_refusal(self) -> bool:
        """Whether this is the ValueError or TypeError that the contract asks for."""
        return bool({"ValueError", "TypeError"} & set(self.kinds))


class Interrupted(BaseException):
    """A call that never came back: it must not be shrunk, so Hypothesis must not catch it."""

    status = "crashed"


class TimedOut(Interrupted):
    """The call, or the law's share of time, ran out."""

    status = "timed_out"


class Crashed(Interrupted):
    """The process that held the implementation died; `output` is what it printed last."""

    def __init__(self, text: str, output: str = "") -> None:
        super().__init__(text)
        self.output = output


@dataclass(frozen=True)
class Watched:
    """A call with its side effects: what became of the arguments, which warnings it issued."""

    answer: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    warnings: list[str]
    gradient: Any = None  # where one was asked for


@dataclass(frozen=True)
class Effects:
    """What a watched call did besides answering."""

    changed_arguments: bool
    warned: bool


class NoOutcome:
    """In place of the outcome of a call that never came back."""


@dataclass
class Call:
    """One recorded call; `outcome` is the plain answer, or its gradient, or a Raised."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outcome: Any = NoOutcome
    effects: Effects | None = None  # known of watched calls only
    backward: Backward | None = None  # the gradient that was asked for


class Transport(Protocol):
    """How a call reaches the implementation."""

    def call(
        self,
        function: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        watch: bool,
        backward: Backward | None = None,
    ) -> Watched:
        """Raises Raised, TimedOut or Crashed; without `watch`, side effects may be left out."""


class InProcess:
    """Calls functions of this very process.

    Warnings are reported of watched calls. Of others they are issued if `loud`, whatever the
    caller ignores, dropped if not, and left to the caller if nothing is said. With `tensors`,
    arguments arrive as tensors.
    """

    def __init__(
        self,
        functions: dict[str, Callable[..., Any]],
        *,
        loud: bool | None = None,
        tensors: bool = False,
    ) -> None:
        self._functions = functions
        self._loud = loud
        self._tensors = tensors

    def call(
        self,
        function: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        watch: bool,
        backward: Backward | None = None,
    ) -> Watched:
        """One call; see `Transport`."""
        if not watch and self._loud is None:
            return self._answer(function, args, kwargs, backward)
        if not watch and self._loud:
            with np.errstate(all="warn", under="ignore"):
                return self._answer(function, args, kwargs, backward)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always" if watch else "ignore")
            with np.errstate(all="warn", under="ignore"):
                watched = self._answer(function, args, kwargs, backward)
        return replace(watched, warnings=[str(w.message) for w in caught])

    def _answer(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        backward: Backward | None,
    ) -> Watched:
        function = self._functions[name]
        try:
            if backward is not None:
                answer, gradient = differentiate(function, args, kwargs, backward)
                return Watched(plain(answer), args, kwargs, [], gradient)
            if self._tensors:
                answer, args, kwargs = with_tensors(function, args, kwargs)
            else:
                answer = function(*args, **kwargs)
            return Watched(plain(answer), args, kwargs, [])
        except (Unreadable, NoGradient) as error:
            raise Raised((type(error).__name__,), str(error)) from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too
            raise raised_from(error) from None


def raised_from(error: BaseException) -> Raised:
    """An exception as plain texts, with the frames that are not the grader's."""
    kinds = tuple(base.__name__ for base in type(error).__mro__ if base is not object)
    here = str(Path(__file__).parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(here)
    ]
    try:
        text = printable(str(error))
    except Exception:
        text = "(an exception without a readable text)"
    return Raised(kinds, text, printable("".join(traceback.format_list(frames))))


def snapshot(value: Any) -> Any:
    """A copy that a later change of the original does not reach."""
    kind = type(value)
    if kind is float or kind is int or kind is bool or value is None or kind is str:
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if kind is list:
        return [snapshot(entry) for entry in value]
    if kind is tuple:
        return tuple(snapshot(entry) for entry in value)
    if kind is dict:
        return {key: snapshot(entry) for key, entry in value.items()}
    return value if isinstance(value, TableFunction) else copy.deepcopy(value)


def identical(before: Any, after: Any) -> bool:
    """Whether two trees of plain values are the same in structure, dtype and every entry."""
    if isinstance(before, np.ndarray):
        return (
            isinstance(after, np.ndarray)
            and before.dtype == after.dtype
            and np.array_equal(before, after, equal_nan=before.dtype.kind == "f")
        )
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(identical(before[k], after[k]) for k in before)
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(identical, before, after))
    both_nan = before != before and after != after
    return before is after or bool(both_nan or before == after)


def same_outcome(one: Any, other: Any) -> bool:
    """Whether two outcomes of one call are the same; the texts of exceptions may differ."""
    if isinstance(one, Raised) or isinstance(other, Raised):
        kinds = [o.kinds if isinstance(o, Raised) else None for o in (one, other)]
        return kinds[0] == kinds[1]
    return identical(one, other)


class Graded:
    """A function under test: callable, recording, answering in plain data."""

    def __init__(self, function: str, transport: Transport, seconds: float = math.inf) -> None:
        self.function = function
        self.calls: deque[Call] = deque(maxlen=LAST_CALLS)
        self._transport = transport
        self._seconds = seconds  # for all calls together
        self._started = time.monotonic()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(args, kwargs, watch=False).answer

    def watched(self, *args: Any, **kwargs: Any) -> Watched:
        """The answer, with what became of the arguments and the warnings that were issued."""
        return self._call(args, kwargs, watch=True)

    def gradient(
        self,
        *args: Any,
        wrt: str,
        weights: Any = None,
        field: tuple[str, int] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The gradient of Σ weights · answer with respect to the argument named `wrt`.

        Of an answer that is a record, `field` says which tensor is meant, by its name and its
        place. Only an implementation
        that answers with tensors has gradients; where none flows, the gradient is 0.
        """
        place = wrt if wrt in kwargs else FUNCTIONS[self.function].parameters.index(wrt)
        backward = Backward(place, weights, field)
        return self._call(args, kwargs, watch=False, backward=backward).gradient

    def repeat(self, call: Call, *, watch: bool | None = None) -> Any:
        """The outcome of a recorded call, asked of this function, watched as then or as said."""
        if watch is None:
            watch = call.effects is not None
        backward = call.backward
        watch = watch and backward is None
        with contextlib.suppress(Raised):
            self._call(call.args, call.kwargs, watch=watch, backward=backward)
        return self.calls[-1].outcome

    def _call(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        watch: bool,
        backward: Backward | None = None,
    ) -> Watched:
        """One call, with copies: the law keeps what it drew, and the record what was asked."""
        if time.monotonic() - self._started > self._seconds:
            raise TimedOut(f"the law took more than {self._seconds:g} s")
        record = Call(snapshot(args), snapshot(kwargs), backward=backward)
        self.calls.append(record)
        given = snapshot(args), snapshot(kwargs)
        try:
            watched = self._transport.call(self.function, *given, watch=watch, backward=backward)
        except Raised as raised:
            record.outcome = raised
            raise
        record.outcome = watched.answer if backward is None else watched.gradient
        if watch:
            changed = not identical((args, kwargs), (watched.args, watched.kwargs))
            record.effects = Effects(changed, bool(watched.warnings))
        return watched
