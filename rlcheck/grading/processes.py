"""Processes of the grader itself, which share its work."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context

from rlcheck.grading.wire import end_with_parent

__all__ = ["pool"]


@contextlib.contextmanager
def pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the context, at once where it is left by an exception.

    They import nothing from the current folder, where a student's struct.py may lie; what they
    leave of temporary files goes with the context.
    """
    with (
        tempfile.TemporaryDirectory(prefix="rlcheck-", ignore_cleanup_errors=True) as scratch,
        _environment(PYTHONSAFEPATH="1", TMPDIR=scratch),
    ):
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
def _environment(**variables: str) -> Iterator[None]:
    """What the processes that are started meanwhile find in their environment."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _begin() -> None:
    """Let the parent handle Ctrl-C, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
