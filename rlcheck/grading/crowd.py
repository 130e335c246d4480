"""Where the submissions of a class are graded: on this machine's cores, or on a cluster."""

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool

from rlcheck.grading.classes import Settings
from rlcheck.grading.processes import pool
from rlcheck.grading.report import Report, from_json, to_json, unjudged
from rlcheck.grading.roster import Submission
from rlcheck.grading.seal import SECRET, secret

__all__ = ["Cluster", "Cores"]


class Cores:
    """Grades on this machine, `jobs` submissions at a time, each in a process of the grader.

    Where such a process dies, the submissions that were being graded are graded again, each in a
    process of its own; one whose grader dies twice has a report that says so.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def __call__(
        self, settings: Settings, submissions: Sequence[Submission]
    ) -> Iterator[tuple[Submission, Report]]:
        rest, suspects = deque(submissions), deque[Submission]()
        while rest:
            for submission, report in _in_pool(settings, rest, self._jobs):
                if report is None:
                    suspects.append(submission)
                else:
                    yield submission, report
        while suspects:
            for submission, report in _in_pool(settings, suspects, 1):
                yield submission, report or _lost(submission, "its grader died, twice")


def _in_pool(
    settings: Settings, rest: deque[Submission], jobs: int
) -> Iterator[tuple[Submission, Report | None]]:
    """Take submissions from `rest`; None in place of those in hand when a process dies."""
    running: dict[Future[bytes], Submission] = {}
    broken = False
    with pool(jobs) as children:
        while running or (rest and not broken):
            while rest and not broken and len(running) < jobs:
                try:
                    future = children.submit(_graded, settings, rest[0])
                except BrokenProcessPool:  # a process died while a report was being used
                    broken = True
                else:
                    running[future] = rest.popleft()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                submission = running.pop(future)
                try:
                    yield submission, from_json(future.result())
                except BrokenProcessPool:
                    broken = True
                    yield submission, None


def _graded(settings: Settings, submission: Submission) -> bytes:
    """The report as JSON; whatever goes wrong is a fault in it."""
    try:
        return to_json(settings.grade(submission))
    except Exception as error:
        return to_json(_lost(submission, f"rlcheck failed: {type(error).__name__}: {error}"))


def _graded_from(folder: str, settings: Settings, submission: Submission) -> bytes:
    """The same, with paths as they are seen from a folder, if there is such a one."""
    with contextlib.suppress(OSError):
        os.chdir(folder)
    return _graded(settings, submission)


def _lost(submission: Submission, fault: str) -> Report:
    return unjudged(str(submission.path), seed=0, fault=fault)


class Cluster:
    """Grades on the machines of a Ray cluster, by the same function as here.

    They need rlcheck, and the submissions under the same paths, as a shared file system gives
    them. Without an address, what RAY_ADDRESS names is used, or a cluster of this machine alone.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    def __call__(
        self, settings: Settings, submissions: Sequence[Submission]
    ) -> Iterator[tuple[Submission, Report]]:
        import ray

        here = os.getcwd()
        # Ray's processes import from the folder that they are started in: it may be the class.
        with tempfile.TemporaryDirectory() as empty:
            with contextlib.chdir(empty):
                ray.init(
                    self._address,
                    log_to_driver=False,
                    include_dashboard=False if self._address is None else None,
                    runtime_env={"env_vars": {SECRET: secret()}},
                )
            try:
                task = ray.remote(num_cpus=1, max_retries=1)(_graded_from)
                running = {task.remote(here, settings, one): one for one in submissions}
                while running:
                    done, _ = ray.wait(list(running))
                    for future in done:
                        submission = running.pop(future)
                        try:
                            report = from_json(ray.get(future))
                        except ray.exceptions.RayError as error:
                            fault = f"its grader died: {type(error).__name__}"
                            report = _lost(submission, fault)
                        yield submission, report
            finally:
                ray.shutdown()
