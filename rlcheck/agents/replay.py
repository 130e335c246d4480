"""A replay buffer: a ring of steps that is sampled in windows of n steps.

Both observations of a step are stored. Reading the next observation from the following slot saves
memory and is wrong where an episode was truncated: there the next slot holds the state that the
following episode began in (DLR-RM/stable-baselines3#934).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from rlcheck._inputs import (
    Floats,
    as_numbers,
    flags,
    indices_below,
    integer,
    real_array,
    refuse_where,
    scalar,
    unit_interval,
)

__all__ = ["ReplayBatch", "ReplayBuffer"]

SMALLEST = 1e-290  # below it shares of a sum lose their digits


class ReplayBatch(NamedTuple):
    """B windows; the target of one is `rewards + discounts · V(next_observations)`.

    A terminal window is worth its rewards alone, whatever V says.
    """

    observations: NDArray[Any]  # [B, …] of the first step
    actions: NDArray[np.intp]  # [B] of the first step
    rewards: Floats  # [B] Σ_{i<k} γ^i r_{t+i}
    discounts: Floats  # [B] γ^k for a window of k ≤ n steps
    next_observations: NDArray[Any]  # [B, …] that the last step ended in
    terminal: NDArray[np.bool_]  # [B] whether the last step terminated


class ReplayBuffer:
    """The last `capacity` steps, sampled in windows of n.

    A window begins at any stored step and ends after n steps, with its episode, or with the newest
    step, whichever comes first. So T steps give T samples: at the end of an episode, and at the
    write head, windows are shorter, and `discounts` says by how much to bootstrap.

    Args:
        capacity: steps that are kept, ≥ 1; a further one takes the place of the oldest.
        observation_shape: of one observation; () for states that are numbers.
        n_step: n ≥ 1.
        gamma: discount in [0, 1].
        dtype: of the observations.

    Raises:
        ValueError: a number is out of range; the text names it.

    Reference:
        Mnih et al. (2015), Human-level control through deep reinforcement learning; Sutton and
        Barto (2018), Reinforcement Learning, 2nd edition, equation 7.1.
    """

    def __init__(
        self,
        capacity: int,
        *,
        observation_shape: tuple[int, ...] = (),
        n_step: int = 1,
        gamma: float = 0.99,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.capacity = integer("capacity", capacity, minimum=1)
        self.n_step = integer("n_step", n_step, minimum=1)
        self.gamma = unit_interval("gamma", gamma)
        self.observation_shape = tuple(observation_shape)
        self._powers = self.gamma ** np.arange(self.n_step + 1)  # [n + 1]
        self._observations = np.zeros((self.capacity, *self.observation_shape), dtype)
        self._next_observations = np.zeros_like(self._observations)
        self._actions = np.zeros(self.capacity, np.intp)
        self._rewards = np.zeros(self.capacity)
        self._terminated = np.zeros(self.capacity, np.bool_)
        self._truncated = np.zeros(self.capacity, np.bool_)
        self._written = 0

    def __len__(self) -> int:
        return min(self._written, self.capacity)

    def add(
        self,
        observation: ArrayLike,
        action: int,
        reward: float,
        next_observation: ArrayLike,
        terminated: bool,
        truncated: bool,
    ) -> None:
        """Store a copy of a step; the following one continues its episode unless this one ended it.

        Args:
            observation: of the buffer's shape; finite, and as its dtype can hold it.
            action: an integer ≥ 0.
            reward: finite.
            next_observation: what the step ended in, before any reset.
            terminated: whether the task ended: nothing follows.
            truncated: whether the episode was cut: the value bootstraps.

        Raises:
            ValueError: a shape or a number is wrong; the text names it and its value. The buffer
                is then as it was.
        """
        seen = self._observation("observation", observation)
        after = self._observation("next_observation", next_observation)
        chosen, paid = integer("action", action, minimum=0), _reward(reward)
        ended, cut = _flag("terminated", terminated), _flag("truncated", truncated)
        slot = self._written % self.capacity
        self._observations[slot], self._next_observations[slot] = seen, after
        self._actions[slot], self._rewards[slot] = chosen, paid
        self._terminated[slot], self._truncated[slot] = ended, cut
        self._written += 1

    def sample(
        self, count: int, rng: np.random.Generator, *, weights: ArrayLike | None = None
    ) -> ReplayBatch:
        """Windows that begin at steps drawn with replacement.

        Args:
            count: B ≥ 1.
            rng: what they are drawn from.
            weights: [len] how likely each stored step is, from the oldest to the newest, up to a
                factor; None makes all of them equally likely.

        Raises:
            ValueError: the buffer is empty, the count is out of range, or a weight is not finite
                and ≥ 0, or all of them are 0.
        """
        count = integer("count", count, minimum=1)
        if not self._written:
            raise ValueError("the buffer holds 0 steps; there must be ≥ 1 to sample from")
        if weights is None:
            return self.windows(rng.integers(len(self), size=count))
        sums = _sums(self._weights(weights))
        drawn = sums.searchsorted(rng.random(count) * sums[-1], side="right")
        return self.windows(drawn)

    def windows(self, ages: ArrayLike | None = None) -> ReplayBatch:
        """The windows that begin at given steps.

        Args:
            ages: [B] places in the order of writing, 0 for the oldest step; None for all of them.

        Raises:
            ValueError: a place is not below `len`.
        """
        stored = len(self)
        chosen = np.arange(stored) if ages is None else indices_below("ages", ages, stored)
        slots, inside = self._steps((self._written - stored + chosen) % self.capacity)
        counted = inside.sum(axis=1)  # [B] k
        first, last = slots[:, 0], slots[np.arange(len(slots)), counted - 1]
        rewards = np.where(inside, self._rewards[slots], 0.0) @ self._powers[:-1]
        return ReplayBatch(
            self._observations[first],
            self._actions[first],
            rewards,
            self._powers[counted],
            self._next_observations[last],
            self._terminated[last],
        )

    def _steps(self, starts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """[B, n] slots from each start on, and which of them belong to its window."""
        slots = (starts[:, np.newaxis] + np.arange(self.n_step)) % self.capacity
        stops = self._stops(slots)
        inside = np.ones_like(stops)
        inside[:, 1:] = ~np.logical_or.accumulate(stops[:, :-1], axis=1)
        return slots, inside

    def _stops(self, slots: NDArray[Any]) -> NDArray[np.bool_]:
        """Where no window goes on: at the end of an episode, and at the write head, beyond which
        lie empty slots, or the oldest steps (younggyoseo/FastTD3#6, thu-ml/tianshou#135)."""
        newest = (self._written - 1) % self.capacity
        stops: NDArray[np.bool_] = self._terminated[slots] | self._truncated[slots]
        stops |= slots == newest
        return stops

    def _weights(self, weights: ArrayLike) -> Floats:
        given = real_array("weights", weights)
        if given.shape != (len(self),):
            raise ValueError(f"weights has shape {given.shape}; it must be {(len(self),)}")
        refuse_where("weights", given, given < 0, "≥ 0")
        if not given.any():
            raise ValueError("weights are all 0; one of them must be > 0")
        return given

    def _observation(self, name: str, value: ArrayLike) -> NDArray[Any]:
        given, dtype = as_numbers(name, value), self._observations.dtype
        if given.shape != self.observation_shape:
            raise ValueError(f"{name} has shape {given.shape}; it must be {self.observation_shape}")
        if given.dtype == dtype and dtype.kind == "f" and np.isfinite(given).all():
            return given
        with np.errstate(over="ignore", invalid="ignore"):
            array = given.astype(dtype)
        kept = np.isfinite(array) & ((array == given) | (dtype.kind == "f"))
        refuse_where(name, given, ~kept, f"a finite number of {dtype}")
        return array


def _flag(name: str, value: bool) -> bool:
    """A boolean, or 0 or 1."""
    return value if isinstance(value, bool) else bool(flags(name, value, shape=()))


def _sums(weights: Floats) -> Floats:
    """[len] sums of the first weights, which only matter up to a factor, and within range."""
    with np.errstate(over="ignore"):
        sums: Floats = weights.cumsum()
    if SMALLEST < sums[-1] < math.inf:
        return sums
    scaled: Floats = (weights / weights.max()).cumsum()
    return scaled


def _reward(value: float) -> float:
    paid = float(value) if isinstance(value, float) else scalar("reward", value)
    if not math.isfinite(paid):
        raise ValueError(f"reward is {value}; it must be finite")
    return paid
