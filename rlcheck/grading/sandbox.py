"""How far a submission's process is shut off from the machine: the tiers, and what each hides.

`process`: a process of its own with limits on time, memory, files and processes. `namespaces`:
Linux namespaces besides, without privileges or other programs. `bubblewrap`: the same view, made
by `bwrap`, which some systems allow where they forbid the former.
"""

import contextlib
import ctypes
import functools
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlcheck.grading.interpreter import HERE as THIS
from rlcheck.grading.interpreter import Interpreter
from rlcheck.grading.layout import INSIDE, layout, readable_by_all

__all__ = ["ENVIRONMENT", "MEMORY_BYTES", "TIERS", "TierUnavailable", "available", "note"]
__all__ += ["obstacle", "spec_of", "start", "strongest"]

TIERS = ("namespaces", "bubblewrap", "process")  # the strongest first
HERE = Path(__file__).resolve().parent
MEMORY_BYTES = 8 * 2**30
PROCESSES = 128  # of one submission, where they can be counted apart
SPARE_PROCESSES = 1024  # where its user's other processes count too
PROBE_SECONDS = 30.0
PR_SET_DUMPABLE = 4
# What a submission may see of the grader's environment: no tokens, no settings of rlcheck.
ENVIRONMENT = frozenset(
    [
        *("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"),
        *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"),
    ]
)
SHUT_OFF = (
    "it sees the system's libraries and its own folder, nothing of rlcheck's, no network and "
    "no other process; it can write into a scratch folder alone"
)
OPEN = (
    "it can read and change its user's files, rlcheck's too, signal its user's processes and "
    "reach the network"
)
UNBOUND = "; it runs as root, whose processes no limit counts"


class TierUnavailable(ValueError):
    """A tier that is demanded and cannot be had; the text says why."""


def note(tier: str) -> str:
    """What the tier hides from a submission, and what it leaves open."""
    if tier == "in-process":
        return "it is trusted: nothing is hidden from it"
    if tier != "process":
        return SHUT_OFF
    return OPEN + (UNBOUND if os.name == "posix" and os.geteuid() == 0 else "")


def strongest() -> str:
    """The strongest tier that can be had here."""
    return next(tier for tier in TIERS if available(tier) is None)


def obstacle(tier: str, path: Path | None) -> str | None:
    """Why a target cannot be graded in a tier; None where it can."""
    as_nobody = tier == "namespaces" and os.name == "posix" and os.geteuid() == 0
    if as_nobody and path is not None and path.exists() and not readable_by_all(path):
        return f"what root grades there runs as nobody, who cannot read {path}"
    return available(tier)


@functools.cache
def available(tier: str) -> str | None:
    """Why a tier cannot be had here, found out by trying; None where it can."""
    if tier not in TIERS:
        return f"there is no such tier; the tiers are {', '.join(TIERS)}"
    if tier == "process":
        return None
    if sys.platform != "linux":
        return "only Linux has it"
    if tier == "bubblewrap" and shutil.which("bwrap") is None:
        return "the program bwrap is not installed"
    if tier == "bubblewrap" and os.geteuid() == 0:
        return "started by root, it would leave a submission root's rights on /proc/sys"
    process, control, channel = start(spec_of(tier, "probe", ""))
    with control, channel, process:
        try:
            control.settimeout(PROBE_SECONDS)
            said = json.loads(control.makefile("rb").readline() or b'{"error": "it died"}')
        except (OSError, ValueError) as error:
            return f"it does not start: {error}"
        finally:
            process.kill()
    if said.get("status") == 0:
        return None
    return str(said.get("error") or said.get("output") or f"status {said.get('status')}").strip()


def spec_of(
    tier: str, kind: str, target: str, *, alone: bool = False, python: Interpreter = THIS
) -> dict[str, Any]:
    """What the jail is told: the tier, what to load, the limits, and what can be seen.

    Args:
        tier: one of TIERS.
        kind: "path", "module", or "probe" to start and end at once.
        target: the path or the dotted name.
        alone: whether a file must not see, or import, what lies beside it.
        python: the interpreter that runs it.
    """
    spec: dict[str, Any] = {"tier": tier, "kind": kind, "target": target, "memory": MEMORY_BYTES}
    spec |= {"processes": _process_limit(tier), "code": str(HERE), "alone": alone}
    if tier != "process":
        shown = layout(kind, target, alone=alone, folders=python.folders)
        spec |= {"layout": shown, "code": str(INSIDE)}
    if tier == "bubblewrap":
        spec["command"] = [*_bubblewrap(spec["layout"]), python.program, "-P"]
        spec["command"] += [str(INSIDE / "worker.py"), json.dumps({**spec, "layout": []})]
    return spec


def start(
    spec: dict[str, Any], python: Interpreter = THIS
) -> tuple[subprocess.Popen[bytes], socket.socket, socket.socket]:
    """The jail's process, its control and the worker's channel."""
    if spec["tier"] == "process":
        _hide_memory()
    control, jails = socket.socketpair()
    channel, workers = socket.socketpair()
    environment = {k: v for k, v in os.environ.items() if k in ENVIRONMENT}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    # Unbuffered: what it prints is not lost where it is killed.
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    command = [python.program, "-P", str(HERE / "jail.py"), json.dumps(spec)]
    with jails, workers:
        process = subprocess.Popen(
            [*command, str(jails.fileno()), str(workers.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(jails.fileno(), workers.fileno()),
            start_new_session=True,
            env=environment,
        )
    return process, control, channel


def _hide_memory() -> None:
    """Keep other processes of the same user from reading or writing this one (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _process_limit(tier: str) -> int:
    """In a namespace of users Linux 5.14 counts there alone, before it and elsewhere all.

    0 where the user's processes cannot be counted.
    """
    if sys.platform != "linux":
        return 0
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    if tier == "process" or release < (5, 14):
        return sum(_tasks()) + SPARE_PROCESSES
    return PROCESSES


def _tasks() -> Iterator[int]:
    """Threads of each process of this user."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == os.geteuid():
                yield len(os.listdir(process / "task"))
        except OSError:  # it has ended
            continue


def _bubblewrap(layout: list[list[str]]) -> Iterator[str]:
    """The command of bwrap that makes the same view as `namespaces.enter`."""
    yield from ("bwrap", "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session")
    yield from ("--cap-drop", "ALL", "--uid", "65534", "--gid", "65534")
    if _bubblewrap_version() >= (0, 8):
        yield "--disable-userns"
    yield from ("--proc", "/proc", "--dev", "/dev", "--size", str(2**28), "--tmpfs", "/tmp")
    for how, path, source in layout:
        option = {"bind": "--ro-bind", "link": "--symlink", "hide": "--tmpfs"}[how]
        yield from (option, path) if how == "hide" else (option, source, path)
    for how, path, _ in layout:
        if how == "hide":
            yield from ("--remount-ro", path)
    yield from ("--remount-ro", "/", "--chdir", "/tmp")


def _bubblewrap_version() -> tuple[int, ...]:
    said = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False)
    digits = said.stdout.rpartition(" ")[2].strip().split(".")
    return tuple(int(part) for part in digits if part.isdigit())
