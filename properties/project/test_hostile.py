"""Hostile submissions: none gets an unearned mark, outlives its limits or leaves anything behind.

Each file of properties/hostile says in its first comments what a sound grader reports: which
statuses its laws may have, its highest score, and what the report's error must hold.
"""

import ctypes
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlcheck.grading import submission
from rlcheck.grading.grade import grade
from rlcheck.grading.report import EXIT_GRADER, Report, from_json, to_json
from rlcheck.grading.sandbox import TIERS, available, strongest

HOSTILE = Path(__file__).parents[1] / "hostile"
FILES = sorted(path for path in HOSTILE.glob("*.py") if path.name != "honest.py")
OUTSIDE = [tier for tier in TIERS if tier != "process" and available(tier) is None]
PR_SET_CHILD_SUBREAPER = 36
# Of the tier that hides nothing, those that try what the tier should bear.
OPEN_TOO = (
    *("call_sleep", "closed_descriptors", "daemon", "daemon_without_trace", "exit_child_holds_on"),
    *("forged_answers", "fork_bomb", "garbage_descriptors", "output_flood", "signal_parent"),
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans come back on Linux alone")


def expected_of(path: Path) -> dict[str, Any]:
    """The table in the first comments."""
    lines = path.read_text().splitlines()
    return tomllib.loads("\n".join(x[2:] for x in lines if x.startswith("# ") and " = " in x))


@pytest.fixture
def left_behind() -> Iterator[Callable[[], list[psutil.Process]]]:
    """What lives a moment later of the processes that come from this one since the test began.

    Whatever escapes its own parents becomes a child of this process.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = set(psutil.Process().children(recursive=True))  # as multiprocessing's own

    def living(seconds: float = 3.0) -> list[psutil.Process]:
        give_up = time.monotonic() + seconds
        while True:
            since = set(psutil.Process().children(recursive=True)) - before
            found = [c for c in since if c.is_running() and c.status() != psutil.STATUS_ZOMBIE]
            if not found or time.monotonic() > give_up:
                return found
            time.sleep(0.02)

    yield living
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def graded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    left_behind: Callable[[], list[psutil.Process]],
) -> Any:
    """Grade one of the files, as a copy, with short limits."""
    monkeypatch.setattr(submission, "LOAD_SECONDS", 5.0)
    monkeypatch.setenv("A_TOKEN", "secret-of-the-grader")

    def grade_copy(name: str, tier: str) -> Report:
        for source in (f"{name}.py", "honest.py"):
            shutil.copy(HOSTILE / source, tmp_path)
        report = grade(
            str(tmp_path / f"{name}.py"),
            only=["discounted_return"],
            examples=6,
            isolate=tier,
            call_seconds=3.0,
            total_seconds=4.0,
        )
        assert left_behind() == []
        return report

    return grade_copy


def check(report: Report, tier: str, expected: dict[str, Any]) -> None:
    judged = [law for law in report.laws if not law.message.startswith("the run's time")]
    found = {law.status for law in judged}
    assert found <= set(expected["statuses"]), [(law.id, law.status, law.message) for law in judged]
    assert report.score <= expected["score"]
    assert report.max_score == len(report.laws) == 9
    assert expected.get("error", "") in report.error
    assert report.fault == ""
    assert report.isolation == tier
    assert report.exit_code != EXIT_GRADER
    assert report.seconds < 20  # the sum of its limits, and room for a slow machine
    assert from_json(to_json(report)) == report
    assert len(to_json(report)) < 400_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_hostile_submission_earns_nothing_and_leaves_nothing(
    path: Path, graded: Any, tmp_path: Path
) -> None:
    expected = expected_of(path)
    if expected.get("files_hidden") and not OUTSIDE:
        pytest.skip("no tier that hides files can be had here")
    before = {name: (HOSTILE / name).read_bytes() for name in (path.name, "honest.py")}
    check(graded(path.stem, strongest()), strongest(), expected)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", OPEN_TOO)
def test_a_process_alone_bears_the_rough_ones(name: str, graded: Any) -> None:
    check(graded(name, "process"), "process", expected_of(HOSTILE / f"{name}.py"))


@pytest.mark.parametrize("tier", sorted({strongest(), "process"}))
def test_a_grader_that_is_killed_leaves_no_submission_behind(
    tier: str, tmp_path: Path, left_behind: Callable[[], list[psutil.Process]]
) -> None:
    shutil.copy(HOSTILE / "daemon.py", tmp_path)
    (tmp_path / "honest.py").write_text("import time\ntime.sleep(60)\n")
    command = ["grade", str(tmp_path / "daemon.py"), "--isolate", tier]
    running = subprocess.Popen([sys.executable, "-m", "rlcheck.grading.cli", *command])
    grader = psutil.Process(running.pid)
    while len(grader.children(recursive=True)) < 2:  # the jail, and the submission that sleeps
        assert running.poll() is None
        time.sleep(0.02)
    running.kill()
    running.wait()
    assert left_behind() == []
