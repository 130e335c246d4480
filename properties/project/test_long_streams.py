"""Advantages of streams that are longer than laws draw, where they are summed piece by piece."""

from typing import Any

import numpy as np
import pytest

from rlcheck import generalized_advantages, masked_advantages
from rlcheck.advantages import PIECE

SHAPES = [
    (1, PIECE - 1),
    (1, PIECE),
    (1, PIECE + 1),
    (3, PIECE**2 - 1),
    (2, PIECE**2 + 1),
    (PIECE, PIECE),
    (1, 5000),
]
DECAYS = [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)]


def steps(shape: tuple[int, int], rate: float) -> tuple[Any, ...]:
    """Rewards, values, next values, and two kinds of flags; NaN after a true ending."""
    rng = np.random.default_rng([*shape, int(100 * rate)])
    rewards, values, after = rng.standard_normal((3, *shape))
    terminated, truncated = rng.random((2, *shape)) < rate
    return rewards, values, np.where(terminated, np.nan, after), terminated, truncated


def step_by_step(
    rewards: Any, values: Any, after: Any, terminated: Any, truncated: Any, gamma: float, lam: float
) -> Any:
    """The definition, row by row."""
    out = np.zeros_like(rewards)
    for b, t in np.ndindex(rewards.shape):
        t = rewards.shape[1] - 1 - t
        carried = out[b, t + 1] if t + 1 < rewards.shape[1] else 0.0
        bootstrap = 0.0 if terminated[b, t] else gamma * after[b, t]
        kept = 0.0 if terminated[b, t] or truncated[b, t] else gamma * lam
        out[b, t] = rewards[b, t] + bootstrap - values[b, t] + kept * carried
    return out


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.02, 0.5])
@pytest.mark.parametrize(("gamma", "lam"), DECAYS)
def test_long_streams_are_summed_step_by_step(
    shape: tuple[int, int], rate: float, gamma: float, lam: float
) -> None:
    *arrays, terminated, truncated = steps(shape, rate)
    flags = {"terminated": terminated, "truncated": truncated}
    truth = step_by_step(*arrays, terminated, truncated, gamma, lam)
    got = generalized_advantages(*arrays, gamma, lam, **flags)
    np.testing.assert_allclose(got, truth, rtol=1e-11, atol=1e-11)


def test_arrays_of_either_memory_order_have_the_same_advantages() -> None:
    arrays = steps((40, 30), 0.1)
    turned = [np.asfortranarray(array) for array in arrays]
    one, other = (
        generalized_advantages(*given[:3], 0.9, 0.8, terminated=given[3], truncated=given[4])
        for given in (arrays, turned)
    )
    np.testing.assert_array_equal(one, other)
    one, other = (masked_advantages(*given[:2], given[4], 0.9, 0.8) for given in (arrays, turned))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("count", [PIECE, 3 * PIECE + 5])
def test_an_overflow_on_the_way_stays_in_its_place(count: int) -> None:
    rewards = np.resize([1.7e308, -1.7e308], count)
    zeros = np.zeros(count)
    got = generalized_advantages(rewards, zeros, zeros, 1.0, 1.0, terminated=zeros, truncated=zeros)
    truth = np.cumsum(rewards[::-1] / 2.0**10)[::-1] * 2.0**10
    np.testing.assert_allclose(got, truth, atol=1e294)
