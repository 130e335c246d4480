"""System calls that a submission is refused, so that two that run at once do not talk (Linux).

Both see the same files of the system. A lock on one of them, a lease or a watch is known to
everybody who has it open, whatever else is hidden. This module stands alone (the standard
library), because the worker loads it from its file.
"""

import contextlib
import ctypes
import errno
import platform
import struct

__all__ = ["refuse_signals_by_files"]

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUALS, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE, SECOND_ARGUMENT = 0, 4, 24  # where they are in what a filter reads
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOSYS
OTHER_ABI = 0x40000000  # x32, whose numbers begin there
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
FCNTL = {"x86_64": 72, "aarch64": 25}
REFUSED = {"x86_64": (73, 253, 294), "aarch64": (32, 26)}  # flock, inotify_init, inotify_init1
LOCKS = (5, 6, 7, 36, 37, 38)  # F_GETLK, F_SETLK, F_SETLKW, and those of open files
COMMANDS = (*LOCKS, 1024, 1026)  # F_SETLEASE, F_NOTIFY


def refuse_signals_by_files() -> None:
    """Refuse locks, leases and watches to this process, and to all that it starts, for good.

    Where the system cannot do it, everything stays as it is.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        return
    steps = [struct.pack("HBBI", *step) for step in _filter(machine)]
    code = ctypes.create_string_buffer(b"".join(steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    with contextlib.suppress(OSError, AttributeError):
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)


def _filter(machine: str) -> list[tuple[int, int, int, int]]:
    """The steps: code, how many to skip if so, how many if not, operand."""
    refused = [(EQUALS, number) for number in REFUSED[machine]]
    commands = [(EQUALS, command) for command in COMMANDS]
    length = 8 + len(refused) + len(commands)
    allow, refuse = length - 2, length - 1  # the places of the last two steps
    steps: list[tuple[int, int, int, int]] = []

    def step(code: int, operand: int, so: int | None = None, not_so: int | None = None) -> None:
        skips = (0 if place is None else place - len(steps) - 1 for place in (so, not_so))
        steps.append((code, next(skips), next(skips), operand))

    step(LOAD, ARCHITECTURE)
    step(EQUALS, ARCHITECTURES[machine], not_so=refuse)
    step(LOAD, NUMBER)
    for code, number in [(AT_LEAST, OTHER_ABI), *refused]:
        step(code, number, so=refuse)
    step(EQUALS, FCNTL[machine], not_so=allow)
    step(LOAD, SECOND_ARGUMENT)
    for code, command in commands:
        step(code, command, so=refuse)
    step(RETURN, ALLOW)
    step(RETURN, REFUSE)
    return steps
