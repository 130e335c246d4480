"""Time and error of generalized advantages, beside the libraries that compute them.

A batch of 256 streams and one long stream, in which one step in two hundred ends an episode: half
of them truly, half by a time limit. Each gets its inputs in the layout and type that it works in:
float32 for rlax, TorchRL and Stable-Baselines3, float64 for the rest. rlax and Stable-Baselines3
do not tell a time limit from a true ending: theirs is r + γV' as the reward of a step that is cut
off. Every time is the shortest of several runs, taken in turn; what needs four seconds runs once.
Ratios are to the fastest library that computes right values, or without libraries to a loop.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Column, Table

import rlcheck

GAMMA, LAM = 0.99, 0.95
ENDINGS = 1 / 200
SHAPES = (256, 4096), (1, 1_000_000)
TOLERANCE = 1e-3  # relative to the largest advantage
SLOW = 4.0  # seconds

Array: TypeAlias = NDArray[Any]
Work: TypeAlias = Callable[[], Any]


class Steps(NamedTuple):
    """Arrays [B, T]."""

    rewards: Array
    values: Array
    next_values: Array
    terminated: Array
    truncated: Array

    def ended(self) -> Array:
        return self.terminated | self.truncated

    def bootstrapped_rewards(self) -> Array:
        return self.rewards + GAMMA * np.where(self.truncated, self.next_values, 0.0)


def random_steps(rows: int, length: int) -> Steps:
    """Normal rewards and values; V' is the next step's value unless the episode ended."""
    rng = np.random.default_rng(20260806)
    rewards, values, next_values = rng.standard_normal((3, rows, length))
    chance = rng.random((rows, length))
    inner = next_values[:, :-1]
    inner[:] = np.where(chance[:, :-1] < ENDINGS, inner, values[:, 1:])
    terminated = chance < ENDINGS / 2
    return Steps(rewards, values, next_values, terminated, (chance < ENDINGS) & ~terminated)


def loop(
    rewards: Array, values: Array, next_values: Array, terminated: Array, truncated: Array
) -> Array:
    """The definition, step by step; numba compiles it as it stands."""
    advantages = np.zeros_like(rewards)
    for b in range(rewards.shape[0]):
        following = 0.0
        for t in range(rewards.shape[1] - 1, -1, -1):
            advantage = rewards[b, t] - values[b, t]
            if not terminated[b, t]:
                advantage += GAMMA * next_values[b, t]
                if not truncated[b, t]:
                    advantage += GAMMA * LAM * following
            advantages[b, t] = following = advantage
    return advantages


def with_numba(steps: Steps) -> Work:
    import numba

    compiled = numba.njit(loop)
    compiled(*steps)
    return lambda: compiled(*steps)


def with_scipy(steps: Steps) -> Work:
    """One linear filter an episode."""
    from scipy.signal import lfilter

    last = np.arange(steps.rewards.shape[1]) == steps.rewards.shape[1] - 1
    cuts = np.flatnonzero(steps.ended() | last)[:-1] + 1

    def work() -> Array:
        bootstrap = np.where(steps.terminated, 0.0, steps.next_values)
        deltas = steps.rewards + GAMMA * bootstrap - steps.values
        episodes = np.split(deltas.ravel(), cuts)
        return np.hstack([lfilter([1.0], [1.0, -GAMMA * LAM], x[::-1])[::-1] for x in episodes])

    return work


def with_rlax(steps: Steps) -> Work:
    """Compiled, a batch by vmap, with a discount of 0 wherever an episode ends."""
    import jax
    import rlax

    def one(rewards: Any, discounts: Any, values: Any) -> Any:
        return rlax.truncated_generalized_advantage_estimation(rewards, discounts, LAM, values)

    discounts = np.where(steps.ended(), 0.0, GAMMA)
    values = np.hstack([steps.values, steps.next_values[:, -1:]])
    inputs = [x.squeeze() for x in (steps.bootstrapped_rewards(), discounts, values)]
    arrays = [jax.numpy.asarray(x, dtype="float32") for x in inputs]
    compiled = jax.jit(jax.vmap(one) if len(values) > 1 else one)
    compiled(*arrays)
    return lambda: compiled(*arrays).block_until_ready()


def with_torchrl(function: str, steps: Steps) -> Work:
    import torch
    from torchrl.objectives.value import functional

    rewards, values, next_values = (torch.tensor(x[..., None]).float() for x in steps[:3])
    ended, terminated = (torch.tensor(x[..., None]) for x in (steps.ended(), steps.terminated))
    inputs = GAMMA, LAM, values, next_values, rewards, ended, terminated
    return lambda: getattr(functional, function)(*inputs)[0]


def with_stable_baselines(steps: Steps) -> Work:
    import torch
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.buffers import RolloutBuffer

    rows, length = steps.rewards.shape
    buffer = RolloutBuffer(length, Box(0, 1), Discrete(2), "cpu", LAM, GAMMA, n_envs=rows)
    buffer.rewards[:] = steps.bootstrapped_rewards().T
    buffer.values[:] = steps.values.T
    buffer.episode_starts[1:] = steps.ended().T[:-1]
    last_values, dones = torch.tensor(steps.next_values[:, -1]), steps.ended()[:, -1]

    def work() -> Any:
        buffer.compute_returns_and_advantage(last_values, dones)
        return buffer.advantages.T

    return work


def calling(function: Callable[..., Any], arrays: Iterable[Any]) -> Work:
    *inputs, terminated, truncated = (x.squeeze() for x in arrays)
    return lambda: function(*inputs, GAMMA, LAM, terminated=terminated, truncated=truncated)


def with_rlcheck_torch(steps: Steps) -> Work:
    import torch

    from rlcheck.torch import generalized_advantages

    return calling(generalized_advantages, map(torch.tensor, steps))


OWN: dict[str, Callable[[Steps], Work]] = {
    "rlcheck": lambda steps: calling(rlcheck.generalized_advantages, steps),
    "rlcheck.torch": with_rlcheck_torch,
}
LIBRARIES: dict[str, Callable[[Steps], Work]] = {
    "rlax": with_rlax,
    "TorchRL, vectorised": partial(with_torchrl, "vec_generalized_advantage_estimate"),
    "TorchRL, loop": partial(with_torchrl, "generalized_advantage_estimate"),
    "Stable-Baselines3": with_stable_baselines,
}
LOOPS: dict[str, Callable[[Steps], Work]] = {  # what one may write oneself, unchecked
    "numba loop": with_numba,
    "SciPy lfilter": with_scipy,
    "Python loop": lambda steps: lambda: loop(*steps),
}


def timed(work: Work) -> tuple[Any, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def prepared(steps: Steps) -> dict[str, Work]:
    """Those whose library is installed."""
    works = {}
    for name, prepare in (OWN | LIBRARIES | LOOPS).items():
        try:
            works[name] = prepare(steps)
        except ImportError as missing:
            print(f"{name} is left out: {missing}")
    return works


def report(steps: Steps, repeats: int) -> None:
    """Print the table of one shape, and whether we keep up."""
    truth = loop(*steps)
    works, times, errors = prepared(steps), {}, {}
    for name, work in works.items():
        answer, times[name] = timed(work)
        errors[name] = np.abs(np.asarray(answer).reshape(truth.shape) - truth).max()
    for _ in range(repeats):
        for name in [name for name in works if times[name] < SLOW]:
            times[name] = min(times[name], timed(works[name])[1])
    right = [name for name in works if errors[name] <= TOLERANCE * np.abs(truth).max()]
    peers = [name for name in right if name in LIBRARIES] or [n for n in right if n in LOOPS]
    best = min(peers, key=times.__getitem__)
    fastest = times[best]
    columns = [Column(title, justify="right") for title in ("ms", "ratio", "largest error")]
    table = Table(" × ".join(map(str, truth.shape)), *columns, "", box=None)
    for name, t in sorted(times.items(), key=lambda item: item[1]):
        figures = f"{t * 1e3:.1f}", f"{t / fastest:.2f}", f"{errors[name]:.0e}"
        table.add_row(name, *figures, "" if name in right else "wrong values")
    Console().print(table)
    for name in [name for name in OWN if name in works]:
        keeps_up = name in right and times[name] <= 2 * fastest
        print(f"{name} within twice {best}, the fastest peer: {'yes' if keeps_up else 'no'}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    for shape in SHAPES:
        report(random_steps(*shape), repeats)


if __name__ == "__main__":
    main()
