"""What a decision transformer reads: windows of steps, padded on the left, with returns to go."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcheck import return_to_go
from rlcheck._inputs import indices_below, real_array

__all__ = ["EpisodeSteps", "Windows", "cut_episodes", "episode_steps", "gather_windows"]

Bounds = NDArray[np.int64]


class Windows(NamedTuple):
    """B windows of K steps; what stands where `active` is False, NaN too, is never read."""

    returns_to_go: Tensor  # [B, K] float32, the reward of the step itself included
    states: Tensor  # [B, K, D] float32
    actions: Tensor  # [B, K] int64
    timesteps: Tensor  # [B, K] int64, counted from the start of the episode, not of the window
    active: Tensor  # [B, K] bool, False at the padding


class EpisodeSteps(NamedTuple):
    """The M steps of all episodes in a row, and where each of the E episodes begins and ends."""

    returns_to_go: Tensor  # [M] float32
    states: Tensor  # [M, D] float32
    actions: Tensor  # [M] int64
    timesteps: Tensor  # [M] int64
    bounds: Bounds  # [E, 2] first step, and one past the last


def episode_steps(
    episodes: Sequence[Any], *, state_dim: int, action_dim: int, max_steps: int
) -> EpisodeSteps:
    """Logged episodes as tensors; returns to go are undiscounted, within each episode alone.

    Rewards that run on into the next episode, or that leave out the step's own, are mistakes that
    were made: kzl/decision-transformer#22, takuseno/d3rlpy#401.

    Args:
        episodes: with `transitions`, each of them with `observation` [D], `action` and `reward`.
        state_dim: D.
        action_dim: actions are integers from 0 to action_dim − 1.
        max_steps: how long an episode may be.

    Raises:
        ValueError: there is no episode, an episode is empty or too long, or one of its entries is
            out of range; the text names it.
        TypeError: an episode has no transitions.
    """
    if len(episodes) == 0:
        raise ValueError("episodes is empty; there is nothing to learn from")
    columns: list[tuple[Tensor, ...]] = []
    for number, episode in enumerate(episodes):
        name = f"episodes[{number}]"
        if not hasattr(episode, "transitions"):
            raise TypeError(f"{name} is a {type(episode).__name__} without transitions")
        steps = episode.transitions
        if not 1 <= len(steps) <= max_steps:
            raise ValueError(f"{name} has {len(steps)} transitions; it must have 1 to {max_steps}")
        seen = [step.observation for step in steps]
        states = real_array(f"{name} observation", seen, shape=(len(steps), state_dim))
        taken = [step.action for step in steps]
        actions = indices_below(f"{name} action", taken, action_dim, shape=(len(steps),))
        rewards = real_array(f"{name} reward", [step.reward for step in steps], ndim=1)
        columns.append(
            (
                torch.from_numpy(return_to_go(rewards)).float(),
                torch.from_numpy(states).float(),
                torch.from_numpy(actions),
                torch.arange(len(steps)),
            )
        )
    ends = np.cumsum([len(column[0]) for column in columns])
    bounds = np.stack([np.append(0, ends[:-1]), ends], axis=1)  # [E, 2]
    returns, states_, actions_, timesteps = (torch.cat(c) for c in zip(*columns, strict=True))
    return EpisodeSteps(returns, states_, actions_, timesteps, bounds)


def cut_episodes(bounds: Bounds, context_steps: int, generator: torch.Generator) -> Bounds:
    """Cut every episode into windows, so that each step lies in exactly one.

    The first window of an episode has a drawn length from 1 to K, the last one what is left, and
    those between have K: each step is met with any number of steps before it.

    Args:
        bounds: [E, 2] of the episodes.
        context_steps: K.
        generator: of the cuts and of the order of the windows.

    Returns:
        [N, 2] bounds of windows, shuffled.
    """
    firsts = torch.randint(1, context_steps + 1, (len(bounds),), generator=generator).tolist()
    windows = []
    for (begin, end), first in zip(bounds.tolist(), firsts, strict=True):
        cuts = [begin, *range(begin + first, end, context_steps), end]
        windows += list(pairwise(cuts))
    order = torch.randperm(len(windows), generator=generator).tolist()
    return np.array([windows[number] for number in order], np.int64)


def gather_windows(steps: EpisodeSteps, bounds: Bounds, context_steps: int) -> Windows:
    """The steps of windows, each at the right end of its row.

    Args:
        steps: all episodes.
        bounds: [B, 2] of windows within one episode, of K steps at most.
        context_steps: K.
    """
    begin, end = torch.from_numpy(bounds).unsqueeze(2).unbind(1)  # [B, 1] each
    index = end - context_steps + torch.arange(context_steps)  # [B, K]
    active = index >= begin
    index = torch.where(active, index, begin)
    return Windows(
        steps.returns_to_go[index],
        steps.states[index],
        steps.actions[index],
        steps.timesteps[index],
        active,
    )
