"""Processes of the grader itself, which share its work."""

import contextlib
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context

from rlcheck.grading.wire import end_with_parent

__all__ = ["pool"]

SAFE_PATH = "PYTHONSAFEPATH"


@contextlib.contextmanager
def pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the context, at once where it is left by an exception."""
    with _not_from_the_current_folder():
        made = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin)
        try:
            yield made
        except BaseException:
            for child in active_children():  # their submissions end with them
                child.kill()
            raise
        finally:
            made.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _not_from_the_current_folder() -> Iterator[None]:
    """Keep what starts from importing files that lie there: they may be a student's struct.py."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(SAFE_PATH)
        if before is not None:
            os.environ[SAFE_PATH] = before


def _begin() -> None:
    """Let the parent handle Ctrl-C, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
