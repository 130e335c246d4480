"""Logged episodes of the grid as columns, one array for each field of their transitions."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcheck._inputs import unit_interval
from rlcheck.agents.datasets import GridEpisode, GridTransition
from rlcheck.agents.log_columns import Columns, checked_columns, log_columns
from rlcheck.envs.keydoor_grid import LAYOUT

__all__ = [
    "ENVIRONMENT",
    "behavior_description",
    "buffer_of",
    "check_layout",
    "columns_of",
    "columns_of_buffer",
    "episode_of",
]

ENVIRONMENT = "rlcheck/KeyDoorGrid-v0"
INFOS = ("state", "behavior_logprob")


def behavior_description(episodes: Sequence[GridEpisode]) -> dict[str, Any]:
    """Who acted in the episodes, for a reader that does not know this package.

    Returns:
        `environment` and its `layout`; `policy` as a formula; `episodes`, how many each share of
        random actions has; and what `behavior_logprob` is. All of it is fit for JSON.
    """
    shares = Counter(episode.randomness for episode in episodes)
    return {
        "environment": ENVIRONMENT,
        "layout": list(LAYOUT),
        "policy": "(1 - randomness) * optimal + randomness / 4, where optimal spreads its"
        " probability evenly over the optimal actions at a discount of 0.99",
        "episodes": [{"randomness": share, "count": shares[share]} for share in sorted(shares)],
        "behavior_logprob": "natural logarithm of the probability of the action that was taken",
    }


def check_layout(described: Any) -> None:
    """Refuse a log of something else than this grid, whose states have other numbers."""
    layout = described.get("layout") if isinstance(described, dict) else None
    if layout != list(LAYOUT):
        raise ValueError(f"layout of the log is {layout}; it must be that of {ENVIRONMENT}")


def columns_of(name: str, episode: GridEpisode) -> Columns:
    """The columns of one episode.

    Raises:
        ValueError: the episode is empty or not one walk, or an entry of it is out of range; the
            text begins with its name.
        TypeError: an entry is no number.
    """
    _randomness(name, episode.randomness)
    columns = log_columns(name, episode.transitions)
    _check_walk(name, columns)
    return columns


def episode_of(name: str, columns: Columns, randomness: float) -> GridEpisode:
    """The episode that has these columns; errors as in `columns_of`."""
    if len(columns["action"]) == 0:
        raise ValueError(f"{name} is empty; it must have a step")
    columns = checked_columns(name, columns)
    _check_walk(name, columns)
    rows = zip(*(list(v) if v.ndim > 1 else v.tolist() for v in columns.values()), strict=True)
    share = _randomness(name, randomness)
    return GridEpisode(tuple(GridTransition(*row) for row in rows), share)


def _randomness(name: str, value: float) -> float:
    """A share of random actions."""
    return unit_interval(f"{name} randomness", value)


def _check_walk(name: str, columns: Columns) -> None:
    """A walk goes on from where a step ended, and ends with the first flag at the latest."""
    moved = np.asarray(columns["next_state"][:-1] != columns["state"][1:])
    if moved.any():
        step = int(moved.argmax())
        raise ValueError(
            f"{name}, step {step}: next_state is {columns['next_state'][step]}, and not the state "
            f"of the step after, {columns['state'][step + 1]}"
        )
    for flag in ("terminated", "truncated"):
        if columns[flag][:-1].any():
            step = int(columns[flag].argmax())
            raise ValueError(f"{name}, step {step}: {flag} is true, and it is not the last step")


def buffer_of(columns: Columns) -> dict[str, Any]:
    """One episode as Minari stores it: T + 1 observations and infos for T steps.

    A step's info comes with the observation after it; that of the reset has no probability.
    """
    return {
        "observations": _with_last(columns["observation"], columns["next_observation"]),
        "actions": columns["action"],
        "rewards": columns["reward"],
        "terminations": columns["terminated"],
        "truncations": columns["truncated"],
        "infos": {
            "state": _with_last(columns["state"], columns["next_state"]),
            "behavior_logprob": np.append(np.nan, columns["behavior_logprob"]),
        },
    }


def columns_of_buffer(name: str, buffer: dict[str, Any]) -> Columns:
    """The columns of an episode as Minari stores it.

    Raises:
        ValueError: an info is missing, or observations or infos are not one more than the steps.
    """
    infos, steps = buffer["infos"] or {}, len(buffer["rewards"])
    for info in INFOS:
        if info not in infos:
            raise ValueError(f"{name} has no infos[{info!r}]; it has {sorted(infos)}")
    after = {"observations": buffer["observations"]} | {info: infos[info] for info in INFOS}
    for part, values in after.items():
        if len(values) != steps + 1:
            raise ValueError(f"{name} has {len(values)} {part} for {steps} steps; one more is due")
    return {
        "observation": buffer["observations"][:-1],
        "action": buffer["actions"],
        "reward": buffer["rewards"],
        "next_observation": buffer["observations"][1:],
        "terminated": buffer["terminations"],
        "truncated": buffer["truncations"],
        "behavior_logprob": infos["behavior_logprob"][1:],
        "state": infos["state"][:-1],
        "next_state": infos["state"][1:],
    }


def _with_last(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
    """[T, …] what stands before the steps, and what the last one ended in: [T + 1, …]."""
    return np.concatenate([before, after[-1:]])
