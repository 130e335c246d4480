"""What an example, a call into the worker and a grading run cost, as ratios of one run.

Each figure stands beside a yardstick measured on the same machine a moment earlier, so that the
ratios can be compared between machines; the seconds cannot.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import laws_of, run
from rlcheck.grading.submission import Worker

RIGHT = str(Path(__file__).parents[1] / "properties" / "alternatives" / "plain.py")
EXAMPLES = 100


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of several runs."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def python(*arguments: str) -> Callable[[], object]:
    """A fresh interpreter with these arguments."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def one_example() -> tuple[float, float]:
    """Mean seconds of one example over all laws, and of Hypothesis drawing 12 integers."""
    drawn = total = 0.0
    for function in FUNCTIONS.values():
        transport = InProcess({function.name: function.reference()})
        for law in laws_of(function):
            verdict = run(law, transport, random_seed=1, examples=EXAMPLES)
            drawn += verdict.examples
            total += verdict.seconds

    @settings(max_examples=EXAMPLES, database=None, deadline=None)
    @given(st.lists(st.integers(0, 2**16), min_size=12, max_size=12))
    def draw(values: list[int]) -> None:
        pass

    return total / drawn, seconds(draw) / EXAMPLES


def one_call() -> tuple[float, float]:
    """Seconds that the worker adds to a call, and of the call itself."""
    from rlcheck.returns import discounted_return

    arguments = ([0.5] * 12, 0.9)
    local = InProcess({"discounted_return": discounted_return})

    def calls(transport: InProcess | Worker) -> Callable[[], None]:
        def thousand() -> None:
            for _ in range(1000):
                transport.call("discounted_return", arguments, {}, watch=False)

        return thousand

    with Worker("path", RIGHT, ("discounted_return",)) as worker:
        return seconds(calls(worker)) / 1000, seconds(calls(local)) / 1000


def main() -> None:
    """Print the table."""
    example, drawing = one_example()
    remote, local = one_call()
    start = seconds(python("-c", "import numpy, scipy, hypothesis"))
    bare = seconds(python("-c", "import numpy, scipy"))
    imported = seconds(python("-c", "import numpy, scipy, rlcheck"))
    grade = ("-m", "rlcheck.grading.cli", "grade", RIGHT, "--only")
    one = seconds(python(*grade, "td_residuals"))
    every = seconds(python(*grade[:-1]), repeats=1)
    rows = [
        ("import rlcheck", imported - bare, "importing numpy and scipy", bare),
        ("one example of a law", example, "drawing 12 integers", drawing),
        ("a call into the worker", remote, "the same call in this process", local),
        ("grading td_residuals", one, "importing numpy, scipy, hypothesis", start),
        ("grading every function", every, "grading td_residuals", one),
    ]
    shown = [(what, f"{t:.4f} s", of, f"{t / y:.2f}") for what, t, of, y in rows]
    table = Table("what", "time", "yardstick", "ratio", box=None)
    for row in shown:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
