"""A log of the grid as columns, one checked array for each field of its transitions.

Files and learners read logs through the one check that stands here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcheck._inputs import (
    as_numbers,
    flags,
    index_array,
    indices_below,
    real_array,
    refuse_where,
)
from rlcheck.agents.datasets import GridTransition
from rlcheck.envs.keydoor_grid import KeyDoorGrid, grid_tables

__all__ = ["COLUMNS", "Columns", "checked_columns", "log_columns"]

Columns = dict[str, NDArray[Any]]
COLUMNS: dict[str, type[np.generic]] = {
    "observation": np.float32,
    "action": np.int64,
    "reward": np.float64,
    "next_observation": np.float32,
    "terminated": np.bool_,
    "truncated": np.bool_,
    "behavior_logprob": np.float64,
    "state": np.int64,
    "next_state": np.int64,
}
"""The dtypes of the fields of a `GridTransition`; [T], and [T, 15] for observations."""


def log_columns(name: str, transitions: Sequence[GridTransition]) -> Columns:
    """The columns of T ≥ 1 transitions.

    Raises:
        ValueError: there is none, or as in `checked_columns`.
        TypeError: one of them lacks a field.
    """
    if len(transitions) == 0:
        raise ValueError(f"{name} is empty; it must have a step")
    for number, step in enumerate(transitions):
        for field in COLUMNS:
            if not hasattr(step, field):
                raise TypeError(f"{name}[{number}] has no {field}; a GridTransition is due")
    return checked_columns(
        name, {field: [getattr(step, field) for step in transitions] for field in COLUMNS}
    )


def checked_columns(name: str, given: Mapping[str, Any]) -> Columns:
    """Columns as arrays of their dtypes, which hold what a step on the grid can be.

    Actions and states are integers within their range, rewards finite, log-probabilities finite
    and ≤ 0; flags are 0 or 1, and not both 1; observations are those of the states.

    Raises:
        ValueError: an entry is wrong; the text has the name, the column, the index and the value.
        TypeError: an entry is no number.
    """
    tables = grid_tables()
    count = len(given["action"])
    alone, seen = (count,), (count, KeyDoorGrid.observation_dim)
    columns: Columns = {
        "action": _indices(f"{name} action", given["action"], KeyDoorGrid.action_dim, alone),
        "reward": real_array(f"{name} reward", given["reward"], shape=alone),
        "behavior_logprob": real_array(
            f"{name} behavior_logprob", given["behavior_logprob"], shape=alone
        ),
    }
    logprobs = columns["behavior_logprob"]
    refuse_where(f"{name} behavior_logprob", logprobs, logprobs > 0, "≤ 0")
    for flag in ("terminated", "truncated"):
        columns[flag] = flags(f"{name} {flag}", given[flag], shape=alone)
    both = columns["terminated"] & columns["truncated"]
    refuse_where(f"{name} truncated", columns["truncated"], both, "False where terminated is True")
    for when in ("", "next_"):
        state, observation = f"{when}state", f"{when}observation"
        columns[state] = _indices(f"{name} {state}", given[state], len(tables.states), alone)
        shown = real_array(f"{name} {observation}", given[observation], shape=seen)
        due = tables.observation[columns[state]]
        refuse_where(f"{name} {observation}", shown, shown != due, f"that of {state}")
        columns[observation] = shown
    return {field: columns[field].astype(dtype) for field, dtype in COLUMNS.items()}


def _indices(name: str, value: Any, size: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Integers in [0, size); the first entry that is none is the one that is named."""
    array = as_numbers(name, value)
    if array.dtype.kind == "b":
        refuse_where(name, array, np.ones(array.shape, np.bool_), "an integer, not a boolean")
    if array.dtype.kind == "f":
        refuse_where(name, array, array != np.floor(array), "an integer")
    return indices_below(name, index_array(name, array), size, shape=shape)
