"""Time, memory and errors of the differentiable `causal_response_logprobs`, beside its rivals.

The rivals are `torch.log_softmax` followed by gather, and TRL's `selective_log_softmax` where TRL
is installed. Both are spared the shift of the tokens, which would cost log_softmax a copy. Times
are the shortest of several, taken in turn, so that a busy machine disturbs all of them alike;
memory is what a fresh process grows by. The gradient of the logits itself is not counted.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmark_logprobs import MIB, VOCABULARY, scipy_in_float64, shortest
from rich.console import Console
from rich.table import Table
from torch import Tensor

from rlcheck.torch.logprobs import causal_response_logprobs

Score = Callable[[Tensor, Tensor], Tensor]
OURS = "rlcheck"


def ours(logits: Tensor, ids: Tensor) -> Tensor:
    mask = torch.ones_like(ids)
    mask[:, 0] = 0
    return causal_response_logprobs(logits, ids, mask).selected


def log_softmax(logits: Tensor, ids: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=-1).gather(2, ids.roll(-1, 1).unsqueeze(2)).squeeze(2)


def contestants() -> dict[str, Score]:
    """What is compared; the shift is left to the caller but in our own."""
    found: dict[str, Score] = {OURS: ours, "log_softmax, gather": log_softmax}
    try:
        from trl.trainer.utils import selective_log_softmax
    except ImportError:
        Console().print("TRL is not installed: its own function is left out")
    else:
        found["TRL"] = lambda logits, ids: selective_log_softmax(logits, ids.roll(-1, 1))
    return found


def batch(rows: int, length: int, scale: float = 4.0, offset: float = 0.0) -> tuple[Any, Any]:
    """Normal float32 logits [B, L, V] and ids [B, L], without a copy on the way."""
    generator = torch.Generator().manual_seed(20260805)
    logits = torch.empty(rows, length, VOCABULARY).normal_(0.0, scale, generator=generator)
    ids = torch.randint(VOCABULARY, (rows, length), generator=generator)
    return logits.add_(offset).requires_grad_(), ids


def forward(score: Score, logits: Tensor, ids: Tensor) -> None:
    with torch.no_grad():
        score(logits, ids)


def both(score: Score, logits: Tensor, ids: Tensor) -> None:
    logits.grad = None
    selected = score(logits, ids)
    (selected * torch.linspace(-1.0, 1.0, selected.shape[1])).sum().backward()


def print_growth(name: str, rows: int, length: int) -> None:
    """Print what the two passes add to this process, in MiB and without the gradient."""
    score = contestants()[name]
    both(score, *batch(1, 2))  # libraries load what they need
    logits, ids = batch(rows, length)
    before = peak_size()
    forward(score, logits, ids)
    after_forward = peak_size()
    both(score, logits, ids)
    print(json.dumps([after_forward - before, peak_size() - before - logits.nbytes / MIB]))


def peak_size() -> float:
    """The most memory that this process has held, in MiB; ru_maxrss would count the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def growth(name: str, rows: int, length: int) -> list[float]:
    """The same, of a fresh process."""
    command = [sys.executable, __file__, "--memory", name, "--shape", f"{rows}x{length}"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(x) for x in json.loads(output.splitlines()[-1])]


def costs(scores: dict[str, Score], rows: int, length: int, repeats: int, threads: int) -> Table:
    """Times of both passes and the memory that they take."""
    torch.set_num_threads(threads)
    logits, ids = batch(rows, length)
    table = Table("", "forward", "ratio", "MiB", "and backward", "ratio", "MiB")
    table.title = f"{list(logits.shape)} float32, {threads} thread(s), ratios to {OURS}"
    times = [
        shortest({n: partial(work, s, logits, ids) for n, s in scores.items()}, repeats)
        for work in (forward, both)
    ]
    for name in scores:
        cells = [name]
        for seconds, mib in zip(times, growth(name, rows, length), strict=True):
            ratio = seconds[name] / seconds[OURS]
            cells += [f"{seconds[name]:.2f} s", f"{ratio:.2f}", f"{max(mib, 0.0):.0f}"]
        table.add_row(*cells)
    return table


def errors(scores: dict[str, Score], length: int) -> Table:
    """The largest error of a log-probability, against float64 row by row."""
    table = Table("logits", *scores, title="largest error of a log-probability")
    for scale, offset in ((1.0, 0.0), (4.0, 0.0), (10.0, 0.0), (4.0, 1e4)):
        logits, ids = batch(1, length, scale, offset)
        truth = torch.from_numpy(scipy_in_float64(logits.detach().numpy(), ids.numpy()))
        wrong = [
            (score(logits, ids)[:, : length - 1].detach() - truth).abs().max().item()
            for score in scores.values()
        ]
        table.add_row(f"N({offset:g}, {scale:g}²)", *(f"{error:.1e}" for error in wrong))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shape", default="2x1024", metavar="BxL")
    parser.add_argument("--memory", metavar="NAME", help="print the memory of one, and stop")
    options = parser.parse_args()
    rows, length = map(int, options.shape.split("x"))
    if options.memory:
        print_growth(options.memory, rows, length)
        return
    console, scores = Console(), contestants()
    console.print(errors(scores, length=256))
    for threads in options.threads:
        console.print(costs(scores, rows, length, options.repeats, threads))


if __name__ == "__main__":
    main()
