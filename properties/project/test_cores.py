"""A submission's process shares a core with its grader, whose own threads stay free."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlcheck.grading.calls import Raised
from rlcheck.grading.cores import on_core, this_core
from rlcheck.grading.submission import Worker

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a thread cannot choose its core"
)
COUNT_CORES = """
import os

def discounted_return(rewards, gamma):
    if gamma > 1:
        raise ValueError
    return sorted(os.sched_getaffinity(0))
"""


def test_this_core_is_among_those_that_are_allowed() -> None:
    assert this_core() in os.sched_getaffinity(0)


def test_a_thread_and_what_it_starts_stay_on_the_core_and_are_free_again() -> None:
    allowed, core = os.sched_getaffinity(0), this_core()
    with on_core(core):
        assert os.sched_getaffinity(0) == {core}
        told = subprocess.run(
            [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.strip() == f"{{{core}}}"
    assert os.sched_getaffinity(0) == allowed


def test_a_thread_is_free_again_after_an_error() -> None:
    allowed = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), on_core(this_core()):
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.parametrize("core", [None, 2**20])
def test_without_a_core_that_is_allowed_nothing_changes(core: int | None) -> None:
    allowed = os.sched_getaffinity(0)
    with on_core(core):
        assert os.sched_getaffinity(0) == allowed
    assert os.sched_getaffinity(0) == allowed


def test_a_submission_has_the_core_of_who_asked_and_leaves_the_grader_free(tmp_path: Path) -> None:
    path = tmp_path / "count_cores.py"
    path.write_text(COUNT_CORES)
    allowed = os.sched_getaffinity(0)
    with Worker("path", str(path), ("discounted_return",)) as worker:
        watched = worker.call("discounted_return", ([1.0], 0.5), {}, watch=False)
        assert len(watched.answer) == 1
        assert set(watched.answer) <= allowed
        assert os.sched_getaffinity(0) == allowed
        with pytest.raises(Raised):
            worker.call("discounted_return", ([1.0], 2.0), {}, watch=False)
        assert os.sched_getaffinity(0) == allowed
    assert os.sched_getaffinity(0) == allowed
