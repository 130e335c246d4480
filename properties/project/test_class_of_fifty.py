"""Fifty submissions at once: each gets the score that its functions earn one by one in-process.

The submissions are put together from right and wrong functions; some do not load, crash or hang.
"""

import functools
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rlcheck
from rlcheck.grading.report import EXIT_GRADER, from_json

pytestmark = pytest.mark.slow

HEAD = """
import math
import numpy as np


def numbers(name, values):
    if values is None or isinstance(values, (str, bytes, dict)) or np.ndim(values) != 1:
        raise ValueError(name)
    values = list(values)
    if any(isinstance(v, (str, type(None))) or not math.isfinite(v) for v in values):
        raise ValueError(name)
    return [float(v) for v in values]


def discount(gamma):
    if gamma is None or isinstance(gamma, (str, list)) or not 0 <= gamma <= 1:
        raise ValueError("gamma")
    return float(gamma)
"""
SUM = """
def {name}(values, gamma):
    values, gamma = numbers("values", values), discount(gamma)
    return {answer}
"""
ANSWERS = (
    "math.fsum(v * gamma**t for t, v in enumerate(values))",
    "sum(v * gamma**t for t, v in enumerate(values))",
    "sum(v * gamma ** (t + 1) for t, v in enumerate(values))",
    "sum(values)",
    "float(np.dot(values[::-1], np.power(gamma, np.arange(len(values)))))",
    "float(np.float32(sum(v * gamma**t for t, v in enumerate(values))))",
    "values[0] if values else 0.0",
    "1 / 0",
    "None",
)
PARAMETERS = {"discounted_return": "rewards", "discounted_td_sum": "deltas"}
BROKEN = {
    "no_syntax": "def discounted_return(:",
    "no_import": "import a_library_that_nobody_has",
    "exits": "import os; os._exit(0)",
    "hangs": "def discounted_return(rewards, gamma):\n    while True: pass\n",
    "kills_itself": "import os, signal\n\ndef discounted_return(rewards, gamma):\n"
    "    os.kill(os.getpid(), signal.SIGKILL)\n",
}
EXAMPLES, SEED = 20, 5
COMMAND = [sys.executable, "-c", "from rlcheck.grading.cli import main; main()", "grade"]


def function(name: str, answer: str) -> str:
    text = SUM.format(name=name, answer=answer)
    return text.replace("(values, gamma):", f"({PARAMETERS[name]}, gamma):").replace(
        'numbers("values", values)', f'numbers("values", {PARAMETERS[name]})'
    )


@functools.cache
def earned(name: str, answer: str) -> int:
    """What the function earns by itself, in this process."""
    scope: dict[str, object] = {}
    exec(HEAD + function(name, answer), scope)
    report = rlcheck.check(scope[name], name, examples=EXAMPLES, seed=SEED)
    return int(report.score)


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> tuple[Path, dict[str, int]]:
    """A folder of fifty submissions, and the score that each must get."""
    folder = tmp_path_factory.mktemp("fifty")
    scores = dict.fromkeys(BROKEN, 0)
    for name, source in BROKEN.items():
        (folder / f"{name}.py").write_text(source)
    pairs = itertools.product(ANSWERS, ANSWERS)
    for number, answers in enumerate(itertools.islice(pairs, 50 - len(BROKEN))):
        chosen = dict(zip(PARAMETERS, answers, strict=True))
        source = HEAD + "".join(function(*pair) for pair in chosen.items())
        (folder / f"student_{number:02}.py").write_text(source)
        scores[f"student_{number:02}"] = sum(earned(*pair) for pair in chosen.items())
    return folder, scores


def grading(folder: Path, out: Path) -> subprocess.Popen[str]:
    chosen = [f"--only={name}" for name in PARAMETERS]
    how = ["--examples", str(EXAMPLES), "--seed", str(SEED), "--call-seconds", "1", "-j", "2"]
    return subprocess.Popen(
        [*COMMAND, str(folder), *chosen, *how, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def scores_in(out: Path) -> dict[str, int]:
    return {p.stem: int(from_json(p.read_bytes()).score) for p in out.glob("*.json")}


@pytest.mark.filterwarnings("ignore")  # wrong answers may warn
def test_each_of_fifty_gets_its_score_also_when_the_run_is_killed_and_goes_on(
    expected, tmp_path: Path
):
    folder, scores = expected
    assert len(scores) == 50
    assert len(set(scores.values())) > 5
    killed = grading(folder, tmp_path)
    while len(scores_in(tmp_path)) < 12 and killed.poll() is None:
        time.sleep(0.2)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    done = scores_in(tmp_path)
    assert 12 <= len(done) < 50
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}

    resumed = grading(folder, tmp_path)
    said, _ = resumed.communicate()
    assert resumed.returncode != EXIT_GRADER, said
    assert f"50 submissions, {50 - len(done)} graded now" in said
    assert scores_in(tmp_path) == scores
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
