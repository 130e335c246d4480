"""How much too large learned values are, held against the exact ones."""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcheck._inputs import real_array
from rlcheck.envs.keydoor_grid import KeyDoorGrid, grid_tables
from rlcheck.envs.keydoor_grid_solution import solve_grid

__all__ = ["decisive_states", "max_q_overestimation"]


def max_q_overestimation(q_values: ArrayLike, *, gamma: float = 0.99) -> float:
    """How much too large the highest values are: max_a Q(s, a) − max_a Q*(s, a), a mean.

    Args:
        q_values: [S, 4] in the order of `grid_tables().states`.
        gamma: discount of Q*, in [0, 1).

    Returns:
        The mean over the states that can be reached and are not terminal.

    Raises:
        ValueError: the shape is wrong, or a value is not finite.
    """
    values, best = real_array("q_values", q_values), solve_grid(gamma).values
    if values.shape != (len(best), KeyDoorGrid.action_dim):
        raise ValueError(f"q_values has shape {values.shape}; it must be {(len(best), 4)}")
    return float((values.max(axis=1) - best)[decisive_states()].mean())


@cache
def decisive_states() -> NDArray[np.bool_]:
    """[S] states that can be reached from a start, and in which an action still matters."""
    tables = grid_tables()
    reached = np.zeros(len(tables.states), np.bool_)
    frontier = tables.start
    while len(frontier):
        reached[frontier] = True
        following = np.unique(tables.next_state[frontier])
        frontier = following[~reached[following]]
    return reached & ~tables.terminal
