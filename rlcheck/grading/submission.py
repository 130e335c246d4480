"""A submission in a process of its own, seen from the grader.

The worker is killed with its whole process group when a call takes too long, and a fresh one is
started for the next call, so that no submission can stop the run.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from typing import Any

import msgspec
import numpy as np

from rlcheck.grading.calls import Crashed, Raised, TimedOut, Watched
from rlcheck.grading.cores import on_core, this_core
from rlcheck.grading.frames import Broken, Ended, Frames
from rlcheck.grading.interpreter import HERE, Interpreter
from rlcheck.grading.sandbox import spec_of, start
from rlcheck.grading.tensors import Backward
from rlcheck.grading.wire import pack, plain, printable, unpack

CALL_SECONDS = 10.0  # one call
BROKE = "the process broke the protocol"
LOAD_SECONDS = 60.0  # importing the submission: torch alone takes several seconds on a cold disk
PUBLIC_NAMES = 500
SAID_SECONDS = 3.0  # for the jail to end everything and say how it went
SPARE_ENTRIES = 2**14  # of an answer, which may have somewhat more entries than the question


class CannotLoad(Exception):
    """The submission cannot be imported; the text is one line, `frames` its own stack.

    `tier` is how it was shut off when that was found out, or "".
    """

    def __init__(self, text: str, frames: str = "") -> None:
        super().__init__(text)
        self.frames = frames
        self.tier = ""


class Greeting(msgspec.Struct):
    """What a submission provides: `parameters` of its functions, and its public names."""

    provided: dict[str, Any]
    public: list[str]
    version: str


class Worker:
    """The transport to a submission's own process, which shares a core with who asks.

    Args:
        kind: "path" for a file or package folder, "module" for a dotted name.
        target: the path or the name.
        functions: the names that may be called.
        call_seconds: limit of one call.
        tensors: whether arguments arrive as tensors.
        python: the interpreter that runs it.
        tier: one of `sandbox.TIERS`.
        alone: whether a file must not see, or import, what lies beside it.
    """

    def __init__(
        self,
        kind: str,
        target: str,
        functions: tuple[str, ...],
        *,
        call_seconds: float = CALL_SECONDS,
        tensors: bool = False,
        python: Interpreter = HERE,
        tier: str = "process",
        alone: bool = False,
    ) -> None:
        self._spec = spec_of(tier, kind, target, alone=alone, python=python)
        self._functions = functions
        self._call_seconds = call_seconds
        self._tensors = tensors
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._socket: socket.socket | None = None
        self._frames: Frames | None = None
        self._core: int | None = None
        self.output = ""  # what the last process that ended had printed last
        self.greeting = self._start()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> Greeting:
        self._core = this_core()
        with on_core(self._core):
            self._process, self._control, self._socket = start(self._spec, self._python)
        self._frames = Frames(self._socket)
        try:
            return self._greet()
        except CannotLoad as error:
            self.close()
            error.tier = self._spec["tier"]
            raise
        except BaseException:
            self.close()
            raise

    def _greet(self) -> Greeting:
        try:
            return self._greeting(self._ask(list(self._functions), LOAD_SECONDS))
        except TimedOut:
            raise CannotLoad(f"its import took more than {LOAD_SECONDS:g} s") from None
        except Crashed as crash:
            raise CannotLoad(f"its import failed: {crash}", crash.output) from None

    def _greeting(self, message: dict[str, Any]) -> Greeting:
        try:
            if "raised" in message:
                raised = _raised(message)
                first = next(iter(raised.text.splitlines()), "")
                kind = raised.kinds[0]
                raise CannotLoad(f"{kind}: {first}" if first else kind, raised.frames)
            greeting = msgspec.convert(message, type=Greeting)
            greeting.public = greeting.public[:PUBLIC_NAMES]
            return greeting
        except (LookupError, TypeError, msgspec.ValidationError):
            raise CannotLoad("its import broke the protocol of the worker") from None

    def call(
        self,
        function: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        watch: bool,
        backward: Backward | None = None,
    ) -> Watched:
        """One call in the worker; see `Transport`."""
        if self._frames is None:
            try:
                self._start()
            except CannotLoad as error:
                raise Crashed(f"the submission does not load again: {error}") from None
        asked = pack([args, kwargs])
        entries = SPARE_ENTRIES + len(asked) // 4
        request = {
            "function": function,
            "call": asked,
            "entries": entries,
            "tensors": self._tensors,
            "backward": None if backward is None else list(backward),
        }
        reply = self._ask(request, self._call_seconds)
        try:
            if "raised" in reply:
                raise _raised(reply)
            answer = plain(reply["answer"], entries)
            if backward is not None:
                return Watched(answer, args, kwargs, [], _array(reply["gradient"]))
            if reply["changed"] is not None:
                args, kwargs = _changed(reply["changed"], args, kwargs)
            warned = [printable(str(text)[:200]) for text in reply["warnings"][:10]]
            return Watched(answer, args, kwargs, warned)
        except Raised:
            raise
        except Exception:  # whatever a hostile answer provokes
            self._give_up()
            raise Crashed(BROKE) from None

    def _ask(self, question: Any, seconds: float) -> dict[str, Any]:
        """The answer; without one, the process is ended."""
        assert self._frames is not None
        try:
            with on_core(self._core):
                return self._frames.ask(question, seconds)
        except TimeoutError:
            self._give_up()
            raise TimedOut(f"the call took more than {seconds:g} s") from None
        except Broken:
            self._give_up()
            raise Crashed(BROKE) from None
        except Ended:
            raise self._ended() from None

    def _ended(self) -> Crashed:
        """How the process ended, for the report."""
        code = self._give_up(grace=0.5)
        if code is None:
            text = "the process was ended before it could answer"
        elif code < 0:
            text = f"the process was ended by {_signal_name(-code)}"
        else:
            text = f"the process exited with status {code}"
        return Crashed(text, self.output)

    def _give_up(self, grace: float = 0.0) -> int | None:
        """End the worker and everything that it started; its status, where it ended by itself.

        Raises:
            RuntimeError: it was never started, because the system refuses the isolation.
        """
        process, control, channel = self._process, self._control, self._socket
        self._process = self._control = self._socket = self._frames = None
        if process is None or control is None or channel is None:
            return None
        with control, channel:
            said = _last_words(control, grace)  # everything has been ended by then
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if "error" in said:
            raise RuntimeError(f"the tier {self._spec['tier']} does not start: {said['error']}")
        self.output = printable(str(said.get("output", "")))
        status = said.get("status")
        return status if isinstance(status, int) else None

    def close(self) -> None:
        """End the worker; a later call would start a fresh one."""
        self._give_up()


def _last_words(control: socket.socket, grace: float) -> dict[str, Any]:
    """What the jail says, of itself in the time of grace, or when it is asked to end."""
    try:
        control.settimeout(SAID_SECONDS)
        if not select.select([control], [], [], grace)[0]:
            control.shutdown(socket.SHUT_WR)
        said = json.loads(control.makefile("rb").readline())
        return said if isinstance(said, dict) else {}
    except (OSError, ValueError):
        return {}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # of the real-time signals
        return f"signal {number}"


def _raised(reply: dict[str, Any]) -> Raised:
    """An exception of the submission, with texts of bounded length."""
    kinds = tuple(printable(str(kind)[:200]).replace("\n", "\\n") for kind in reply["raised"][:50])
    text, frames = (printable(str(reply[part])[:4000]) for part in ("text", "frames"))
    return Raised(kinds or ("Exception",), text, frames)


def _changed(
    data: bytes, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as a call left them: as many, under the same names."""
    left, named = unpack(data)
    if not isinstance(left, tuple) or len(left) != len(args) or named.keys() != kwargs.keys():
        raise TypeError("these are not the arguments of the call")
    return left, named


def _array(gradient: Any) -> np.ndarray[Any, Any]:
    if not isinstance(gradient, np.ndarray):
        raise TypeError("a gradient is an array")
    return gradient
