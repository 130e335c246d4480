"""A submission in a process of its own, seen from the grader.

The worker is killed with its whole process group when a call takes too long, and a fresh one is
started for the next call, so that no submission can stop the run.
"""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from rlcheck.grading.calls import Crashed, Raised, TimedOut, Watched
from rlcheck.grading.tensors import Backward
from rlcheck.grading.wire import Unreadable, pack, printable, unpack

CALL_SECONDS = 10.0  # one call
LOAD_SECONDS = 60.0  # importing the submission: torch alone takes several seconds on a cold disk
MEMORY_BYTES = 8 * 2**30
MAX_FRAME = 2**28  # an answer of 256 MiB
# What a submission may see of the grader's environment: no tokens, no settings of rlcheck.
ENVIRONMENT = frozenset(
    [
        *("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"),
        *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"),
    ]
)


class CannotLoad(Exception):
    """The submission cannot be imported; the text is one line, `frames` its own stack."""

    def __init__(self, text: str, frames: str = "") -> None:
        super().__init__(text)
        self.frames = frames


class Greeting(msgspec.Struct):
    """What a submission provides: `parameters` of its functions, and its public names."""

    provided: dict[str, Any]
    public: list[str]
    version: str


class Worker:
    """The transport to a submission's own process.

    Args:
        kind: "path" for a file or package folder, "module" for a dotted name.
        target: the path or the name.
        functions: the names that may be called.
        call_seconds: limit of one call.
        tensors: whether arguments arrive as tensors.
    """

    def __init__(
        self,
        kind: str,
        target: str,
        functions: tuple[str, ...],
        *,
        call_seconds: float = CALL_SECONDS,
        tensors: bool = False,
        python: str = sys.executable,
    ) -> None:
        self._command = (kind, target)
        self._functions = functions
        self._call_seconds = call_seconds
        self._tensors = tensors
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self.greeting = self._start()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> Greeting:
        ours, theirs = socket.socketpair()
        kind, target = self._command
        environment = {k: v for k, v in os.environ.items() if k in ENVIRONMENT}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._socket = ours
        with theirs:
            self._process = subprocess.Popen(
                [
                    self._python,
                    "-P",
                    str(Path(__file__).with_name("worker.py")),
                    str(theirs.fileno()),
                    kind,
                    target,
                    str(MEMORY_BYTES),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=environment,
            )
        try:
            self._send(list(self._functions), LOAD_SECONDS)
            return self._greeting(self._receive(time.monotonic() + LOAD_SECONDS))
        except TimedOut:
            raise CannotLoad(f"its import took more than {LOAD_SECONDS:g} s") from None
        except Crashed as crash:
            raise CannotLoad(f"its import failed: {crash}") from None
        except BaseException:
            self.close()
            raise

    def _greeting(self, message: dict[str, Any]) -> Greeting:
        try:
            if "raised" in message:
                kinds, text = list(message["raised"]), printable(str(message["text"]))
                first = next(iter(text.splitlines()), "")
                said = f"{printable(str(kinds[0]))}: {first}" if first else str(kinds[0])
                raise CannotLoad(said, printable(str(message["frames"])))
            return msgspec.convert(message, type=Greeting)
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
        if self._socket is None:
            try:
                self._start()
            except CannotLoad as error:
                raise Crashed(f"the submission does not load again: {error}") from None
        request = {
            "function": function,
            "args": args,
            "kwargs": kwargs,
            "watch": watch,
            "tensors": self._tensors,
            "backward": None if backward is None else list(backward),
        }
        deadline = time.monotonic() + self._call_seconds
        self._send(request, self._call_seconds)
        reply = self._receive(deadline)
        try:
            if "raised" in reply:
                kinds = tuple(printable(str(kind)) for kind in reply["raised"])
                text, frames = printable(str(reply["text"])), printable(str(reply["frames"]))
                raise Raised(kinds or ("Exception",), text, frames)
            if backward is not None:
                return Watched(reply["answer"], args, kwargs, [], reply["gradient"])
            if not watch:
                return Watched(reply["answer"], args, kwargs, [])
            warned = [printable(str(text)) for text in reply["warnings"]]
            return Watched(reply["answer"], tuple(reply["args"]), dict(reply["kwargs"]), warned)
        except (KeyError, TypeError, ValueError):
            self._give_up()
            raise Crashed("the process broke the protocol") from None

    def _send(self, message: Any, seconds: float) -> None:
        assert self._socket is not None
        data = pack(message)
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(struct.pack("<Q", len(data)) + data)
        except TimeoutError:
            self._give_up()
            raise TimedOut(f"the call took more than {seconds:g} s") from None
        except OSError:
            raise Crashed(self._epitaph()) from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        (length,) = struct.unpack("<Q", self._read(8, deadline))
        if length > MAX_FRAME:
            self._give_up()
            raise Crashed("the answer is larger than the protocol allows")
        try:
            message = unpack(memoryview(self._read(length, deadline)))
            if not isinstance(message, dict) or not message.keys() & {
                "answer",
                "raised",
                "provided",
            }:
                raise Unreadable("no message of the protocol")
        except Exception:  # whatever a hostile frame provokes
            self._give_up()
            raise Crashed("the process broke the protocol") from None
        return message

    def _read(self, length: int, deadline: float) -> bytearray:
        assert self._socket is not None
        data = bytearray(length)
        view = memoryview(data)
        while view:
            try:
                self._socket.settimeout(max(deadline - time.monotonic(), 1e-3))
                got = self._socket.recv_into(view)
            except TimeoutError:
                self._give_up()
                raise TimedOut(f"the call took more than {self._call_seconds:g} s") from None
            except OSError:
                got = 0
            if not got:
                raise Crashed(self._epitaph())
            view = view[got:]
        return data

    def _epitaph(self) -> str:
        """How the process ended, for the report."""
        process = self._process
        self._give_up(grace=0.5)
        code = process.returncode if process is not None else None
        if code is not None and code < 0:
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process exited with status {code}"

    def _give_up(self, grace: float = 0.0) -> None:
        """End the worker and everything that it started."""
        process, self._process = self._process, None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if process is None:
            return
        if grace:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """End the worker; a later call would start a fresh one."""
        self._give_up()
