"""What a worker adds to a call and to a whole run, and how busy a class keeps the cores.

Ratios of one run on one machine; they are only meaningful where nothing else runs beside it.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.grade import grade
from rlcheck.grading.sandbox import strongest
from rlcheck.grading.submission import Worker
from rlcheck.returns import discounted_return

RIGHT = Path(__file__).parents[1] / "properties" / "alternatives" / "plain.py"
CALLS, ROUNDS = 1000, 7
# What a class is asked for: modules of the catalogue, as in one of a course's assignments.
ASKED = ("returns", "kl")
PARTS = ("class", "call", "run")
# One a submission, in turn, appended to a right module.
TWISTS = (
    "",
    "def discounted_return(rewards, gamma):\n    return sum(rewards)\n",
    "def td_residuals(rewards, values, gamma, terminated=None):\n    return [0.0] * len(rewards)\n",
    "def return_to_go(rewards, gamma=1.0):\n    return list(rewards)\n",
)


def calls(transport: InProcess | Worker) -> Callable[[], None]:
    """Many calls of a cheap function."""

    def many() -> None:
        for _ in range(CALLS):
            transport.call("discounted_return", ([0.5] * 12, 0.9), {}, watch=False)

    return many


def seconds(work: Callable[[], object]) -> list[float]:
    """What each of several rounds took."""
    took = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        took.append(time.perf_counter() - started)
    return took


def added_to_a_call(tier: str) -> tuple[float, float]:
    """Microseconds that a worker adds: the median round and the shortest."""
    local = seconds(calls(InProcess({"discounted_return": discounted_return})))
    with Worker("path", str(RIGHT), ("discounted_return",), tier=tier) as worker:
        remote = seconds(calls(worker))
    per_call = 1e6 / CALLS
    difference = statistics.median(remote) - statistics.median(local)
    return difference * per_call, (min(remote) - min(local)) * per_call


def run_in_both() -> tuple[float, float]:
    """Seconds that grading a right module takes in the strongest tier, and in this process."""
    sys.path.insert(0, str(RIGHT.parent))
    plain = __import__(RIGHT.stem)
    given = {name: getattr(plain, name) for name in FUNCTIONS if hasattr(plain, name)}
    best = {"worker": float("inf"), "here": float("inf")}
    for _ in range(2):  # in turn, so that both see the same machine
        runs = {
            "worker": lambda: grade(str(RIGHT), only=list(given)),
            "here": lambda: grade("plain", only=list(given), functions=given),
        }
        for how, run in runs.items():
            started = time.perf_counter()
            report = run()
            best[how] = min(best[how], time.perf_counter() - started)
            assert report.exit_code == 0, how
    return best["worker"], best["here"]


def class_use(submissions: int) -> tuple[float, float]:
    """The share of the cores' time that grading a class uses, and its seconds."""
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        source = RIGHT.read_text()
        for number in range(submissions):
            path = Path(folder, "class", f"student_{number:02}.py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{source}\n\n{TWISTS[number % len(TWISTS)]}")
        command = [sys.executable, "-m", "rlcheck.grading.cli", "grade", f"{folder}/class"]
        command += [f"--only={module}" for module in ASKED]
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [*command, "-j", str(cores), "--out", f"{folder}/results"],
            check=True,
            capture_output=True,
        )
        took = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return busy / (took * cores), took


def main() -> None:
    """Print each figure as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--class-size", type=int, default=50)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    given, tier = parser.parse_args(), strongest()
    if "class" in given.parts:
        share, took = class_use(given.class_size)
        said = f"{took:.0f} s, {share:.1%} of the cores' time"
        print(f"a class of {given.class_size}: {said}", flush=True)
    if "call" in given.parts:
        for name in dict.fromkeys((tier, "process")):
            median, least = added_to_a_call(name)
            print(f"added to a call, {name}: {median:.0f} µs (least {least:.0f})", flush=True)
    if "run" in given.parts:
        worker, here = run_in_both()
        print(f"a right module, {tier}: {worker:.1f} s, {worker / here:.2f} of in-process")


if __name__ == "__main__":
    main()
