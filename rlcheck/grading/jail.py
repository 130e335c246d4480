"""The process between the grader and a submission: `python -P jail.py SPEC CONTROL CHANNEL`.

It starts the worker as the tier asks, keeps the last of what is printed, and ends everything that
the submission started when the worker ends, or the grader closes CONTROL or dies. Then it says on
CONTROL, in one line of JSON, how the worker ended and what it printed last. It stands alone (the
standard library), like the worker, and outlives whatever the submission does to its own process.
"""

import contextlib
import ctypes
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
KEPT_OUTPUT = 4096  # bytes
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
STUBBORN_SECONDS = 2.0


def _load(name: str, folder: str | Path = HERE) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_rlcheck_{name}", f"{folder}/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _ask_the_system(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class _Jail:
    """What is started, and how it is ended."""

    def __init__(self, spec: dict[str, Any], channel: int) -> None:
        self._spec, self._channel = spec, channel
        self._init: int | None = None  # of a process namespace
        self._scratch: str | None = None
        self.output, self._printed = os.pipe()
        os.set_blocking(self.output, False)

    def start(self, keep_out: list[int]) -> int:
        """The worker's process id; `keep_out` are descriptors that it must not have."""
        tier = self._spec["tier"]
        namespaces = _load("namespaces") if tier == "namespaces" else None
        if namespaces is None:
            self._scratch = tempfile.mkdtemp(prefix="rlcheck-")
        else:
            os.chdir("/")  # so that the root that is left behind is not kept by a current folder
            self._init = namespaces.enter(self._spec["layout"])
        pid = os.fork()
        if pid == 0:
            try:
                self._become_worker(namespaces, keep_out)
            finally:
                os._exit(70)
        os.close(self._printed)
        os.close(self._channel)
        _ask_the_system(PR_SET_DUMPABLE, 0)  # the worker must not write into this process
        return pid

    def _become_worker(self, namespaces: ModuleType | None, keep_out: list[int]) -> None:
        os.setsid()
        _ask_the_system(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (1, 2):
            os.dup2(self._printed, number)
        for fd in (*keep_out, self._printed, self.output):
            os.close(fd)
        signal.set_wakeup_fd(-1)
        for number in _DEAF:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        home = self._scratch or "/tmp"
        os.chdir(home)
        os.environ.update(HOME=home, TMPDIR=home)
        if self._spec["tier"] == "bubblewrap":
            os.set_inheritable(self._channel, True)
            command = [*self._spec["command"], str(self._channel)]
            os.execvp(command[0], command)
        if namespaces is not None:
            namespaces.drop_privileges()
            _ask_the_system(PR_SET_PDEATHSIG, signal.SIGKILL)  # another user's is forgotten
        worker = _load("worker", self._spec["code"])
        worker.main(self._spec, self._channel)
        sys.stdout.flush()
        os._exit(0)

    def end(self, pid: int) -> None:
        """Kill the worker, and all that it started."""
        for doomed in (pid, self._init):  # the first of a namespace goes after its last
            if doomed is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(doomed, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(doomed, 0)
        if self._init is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            _kill_descendants()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def _kill_descendants() -> None:
    """Those of this process, which inherits orphans (Linux), until none is left."""
    give_up = time.monotonic() + STUBBORN_SECONDS
    while time.monotonic() < give_up:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        found = _descendants()
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _descendants() -> list[int]:
    parents: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    stat = Path(f"/proc/{name}/stat").read_text(errors="replace")
                    parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found, fresh = [], [os.getpid()]
    while fresh:
        fresh = [pid for pid, parent in parents.items() if parent in fresh]
        found += fresh
    return found


class _Tail:
    """The last bytes of a pipe that is drained."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.kept = b""

    def drain(self, rounds: int = 1) -> bool:
        """Read what is there; whether there may be more later."""
        for _ in range(rounds):
            try:
                got = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return True
            if not got:
                return False
            self.kept = (self.kept + got)[-KEPT_OUTPUT:]
        return True


_DEAF = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGALRM, signal.SIGTSTP),
)


def _attend(pid: int, control: socket.socket, tail: _Tail, output: int, woken: int) -> int | None:
    """Wait until the worker ends, or the grader has had enough; the worker's status if it ended."""
    watched: list[Any] = [control, output, woken]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if output in ready and not tail.drain():
            watched.remove(output)
        if woken in ready:
            os.read(woken, 1000)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        if control in ready:
            return None


def main() -> None:
    """Start, attend, end, and say what happened."""
    spec, control = json.loads(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    channel = int(sys.argv[3])
    for number in _DEAF:
        signal.signal(number, signal.SIG_IGN)
    _ask_the_system(PR_SET_CHILD_SUBREAPER, 1)
    with contextlib.suppress(OSError):  # the first to go where memory runs out
        Path("/proc/self/oom_score_adj").write_text("1000")
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    jail = _Jail(spec, channel)
    try:
        pid = jail.start([control.fileno(), woken, wake])
    except OSError as error:
        control.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    tail = _Tail(jail.output)
    try:
        status = _attend(pid, control, tail, jail.output, woken)
    finally:
        jail.end(pid)
    tail.drain(rounds=64)
    said = {"status": status, "output": tail.kept.decode("utf-8", "replace")}
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main()
