"""One core for two processes that take turns, where the system lets a thread choose (Linux).

A question to a process that sleeps on another core waits for that core to wake, and so does the
answer: that takes longer than most calls of a submission.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator

__all__ = ["on_core", "this_core"]


def this_core() -> int | None:
    """The core that this thread runs on; None where the system does not say."""
    if sys.platform != "linux":
        return None
    try:
        core: int = ctypes.CDLL(None).sched_getcpu()
    except (OSError, AttributeError):
        return None
    return core if core >= 0 else None


@contextlib.contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Keep this thread, and the processes that it starts, on a core for as long as this lasts.

    Without a core, or where it is not allowed, nothing changes.
    """
    if core is None or sys.platform != "linux":
        yield
        return
    allowed = os.sched_getaffinity(0)
    if core in allowed:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
