"""Time and memory of `causal_response_logprobs`, as ratios of one run.

The yardstick is what trainers do with float32 logits: gather the tokens' logits, and subtract a
float32 logsumexp row by row. TRL's own `selective_log_softmax` stands beside it where TRL is
installed, and the log-softmax of scipy in float64, row by row. Every figure is the shortest of
several runs, taken in turn, so that a busy machine disturbs all of them alike.
"""

import argparse
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import log_softmax

from rlcheck import causal_response_logprobs

VOCABULARY = 151_936
MIB = 2**20


def batch(rows: int, length: int) -> tuple[Any, Any, Any]:
    """Normal float32 logits [B, L, V], ids and a mask over all tokens but the first."""
    rng = np.random.default_rng(20260805)
    logits = np.empty((rows, length, VOCABULARY), dtype=np.float32)
    for row in logits.reshape(-1, VOCABULARY):
        rng.standard_normal(out=row, dtype=np.float32)
        row *= 4
    ids = rng.integers(0, VOCABULARY, size=(rows, length))
    mask = np.ones((rows, length), dtype=bool)
    mask[:, 0] = False
    return logits, ids, mask


def scipy_in_float64(logits: Any, ids: Any) -> Any:
    """[B, L−1] from a float64 log-softmax of one row at a time."""
    selected = np.empty((len(ids), ids.shape[1] - 1))
    for b, t in np.ndindex(selected.shape):
        selected[b, t] = log_softmax(logits[b, t].astype(np.float64))[ids[b, t + 1]]
    return selected


def torch_contestants(logits: Any, ids: Any, mask: Any, threads: int) -> dict[str, Any]:
    """What needs torch: the float32 yardstick, TRL where it is installed, tensors as input."""
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(x) for x in (logits, ids, mask)]
    predicting, targets = tensors[0][:, :-1], tensors[1][:, 1:]

    def yardstick() -> Any:
        taken = torch.gather(predicting, 2, targets.unsqueeze(-1)).squeeze(-1)
        normalisers = [torch.logsumexp(row, dim=-1) for row in predicting]
        return taken - torch.stack(normalisers)

    contestants: dict[str, Any] = {
        f"torch float32, {threads} thread(s)": yardstick,
        "rlcheck, tensors": lambda: causal_response_logprobs(*tensors).selected,
    }
    try:
        from trl.trainer.utils import selective_log_softmax
    except ImportError:
        print("TRL is not installed: its own function is left out")
    else:
        contestants["TRL selective_log_softmax"] = lambda: selective_log_softmax(
            predicting, targets
        )
    return contestants


def shortest(contestants: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The shortest time of each, all taking turns."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(repeats):
        for name, work in contestants.items():
            started = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def peak_memory(rows: int, length: int) -> None:
    """Print what scoring adds to the logits: by tracemalloc, and by the process's peak size."""
    logits, ids, mask = batch(rows, length)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    causal_response_logprobs(logits, ids, mask)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    tracemalloc.start()
    answer = causal_response_logprobs(logits, ids, mask)
    peak = tracemalloc.get_traced_memory()[1] - sum(part.nbytes for part in answer)
    tracemalloc.stop()
    print(
        f"memory beyond input and output at {list(logits.shape)} float32 "
        f"({logits.nbytes / MIB:.0f} MiB): {peak / MIB:.1f} MiB traced, "
        f"{grown:.1f} MiB of process growth"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="torch's threads")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--memory", metavar="BxL", help="print the memory at that shape, and stop")
    options = parser.parse_args()
    if options.memory:
        peak_memory(*map(int, options.memory.split("x")))
        return
    logits, ids, mask = batch(1, options.length)
    contestants = {
        **torch_contestants(logits, ids, mask, options.threads),
        "rlcheck, arrays": lambda: causal_response_logprobs(logits, ids, mask).selected,
        "scipy float64": lambda: scipy_in_float64(logits, ids),
    }
    truth = scipy_in_float64(logits, ids)
    unit = next(iter(contestants))
    times = shortest(contestants, options.repeats)
    print(f"logits {list(logits.shape)} float32, shortest of {options.repeats} runs")
    for name, seconds in times.items():
        error = float(np.abs(np.asarray(contestants[name](), dtype=np.float64) - truth).max())
        ratio = seconds / times[unit]
        print(f"{name:28s} {seconds * 1e3:8.0f} ms  {ratio:6.2f}  largest error {error:.1e}")
    for shape in (f"1x{options.length}", "2x1024"):
        subprocess.run([sys.executable, __file__, "--memory", shape], check=True)


if __name__ == "__main__":
    main()
