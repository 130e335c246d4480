"""The key-door grid, solved exactly: Q*, V*, optimal policies, and the value of any policy.

The task has no horizon (the step limit only truncates), so that values are discounted and solve
linear equations over the S states. A terminal state is worth 0.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcheck._inputs import Floats, distributions, integer, real_array, unit_interval
from rlcheck.envs.keydoor_grid import GOAL, STARTS, grid_tables

__all__ = [
    "GridSolution",
    "Rollouts",
    "greedy_policy",
    "policy_q_values",
    "policy_rows",
    "policy_values",
    "rollout_returns",
    "solve_grid",
    "start_value",
    "uniform_policy",
]

TIE = 1e-12  # how much worse an action may be and still count as optimal
ROUNDING = 1e-12  # by how much a row of a policy may miss 1 and still be left as it is


class GridSolution(NamedTuple):
    """The optimum. `policy` spreads its probability evenly over the optimal actions."""

    values: Floats  # [S] V*
    q_values: Floats  # [S, 4] Q*
    policy: Floats  # [S, 4]


def solve_grid(gamma: float = 0.99) -> GridSolution:
    """V* and Q* by policy iteration, each policy evaluated exactly.

    Q*(s, a) = r(s, a) + γ V*(s′),  V*(s) = max_a Q*(s, a),  V* = 0 in terminal states

    Args:
        gamma: discount, in [0, 1).

    Returns:
        GridSolution(values, q_values, policy), arrays of the caller's own.

    Raises:
        ValueError: gamma is out of range.

    Reference:
        Sutton and Barto (2018), Reinforcement Learning, 2nd edition, section 4.3.
    """
    return GridSolution(*(array.copy() for array in _solve(_discount(gamma))))


@cache
def _solve(gamma: float) -> GridSolution:
    q_values = policy_q_values(uniform_policy(), gamma=gamma)
    actions = q_values.argmax(axis=1)
    rows = np.arange(len(actions))
    while True:  # an action is left only for a better one, so that no policy comes twice
        q_values = policy_q_values(np.eye(4)[actions], gamma=gamma)
        values = q_values.max(axis=1)
        better = values > q_values[rows, actions] + TIE
        if not better.any():
            best = q_values >= values[:, np.newaxis] - TIE
            return GridSolution(values, q_values, best / best.sum(axis=1, keepdims=True))
        actions = np.where(better, q_values.argmax(axis=1), actions)


def policy_values(policy: ArrayLike, *, gamma: float = 0.99) -> Floats:
    """V^π in every state, by solving (I − γ P_π) V = r_π.

    Args:
        policy: [S, 4] probabilities of the actions, rows in the order of `grid_tables().states`;
            those that miss a sum of 1 a little are normalised, see `policy_rows`.
        gamma: discount, in [0, 1).

    Returns:
        [S] values; 0 in terminal states.

    Raises:
        ValueError: a row is no distribution, or gamma is out of range.

    Reference:
        Sutton and Barto (2018), Reinforcement Learning, 2nd edition, equation 4.4.
    """
    tables, gamma = grid_tables(), _discount(gamma)
    chances = policy_rows(policy)
    count = len(tables.states)
    moves = np.zeros((count, count))  # [from, to]
    for action in range(chances.shape[1]):
        moves[np.arange(count), tables.next_state[:, action]] += chances[:, action]
    moves[tables.terminal] = 0.0
    pays = (chances * tables.reward).sum(axis=1)
    return np.linalg.solve(np.eye(count) - gamma * moves, pays)


def policy_q_values(policy: ArrayLike, *, gamma: float = 0.99) -> Floats:
    """[S, 4] Q^π(s, a) = r(s, a) + γ V^π(s′); arguments and errors as in `policy_values`."""
    tables = grid_tables()
    following: Floats = policy_values(policy, gamma=gamma)[tables.next_state]
    return tables.reward + gamma * following


def start_value(policy: ArrayLike, *, gamma: float = 0.99) -> float:
    """The mean of V^π over the starts; arguments and errors as in `policy_values`."""
    return float(policy_values(policy, gamma=gamma)[grid_tables().start].mean())


def uniform_policy() -> Floats:
    """[S, 4] every action with the same probability."""
    return np.full((len(grid_tables().states), 4), 0.25)


def greedy_policy(score: Callable[[NDArray[np.float32]], Any] | ArrayLike) -> Floats:
    """[S, 4] the policy that takes the action with the highest score, the first one in a tie.

    Args:
        score: [S, 4] scores, or a function from observations [S, 15] to them; −inf forbids an
            action.

    Returns:
        [S, 4] one-hot rows.

    Raises:
        ValueError: the shape is wrong, or a score is NaN.
    """
    seen = grid_tables().observation
    found = score(seen.copy()) if callable(score) else score
    scores = real_array("score", found, shape=(len(seen), 4), allow="infinite")
    chosen: Floats = np.eye(4)[scores.argmax(axis=1)]
    return chosen


class Rollouts(NamedTuple):
    """What a deterministic policy achieves from each start."""

    returns: Floats  # [starts] undiscounted
    success: NDArray[np.bool_]  # [starts]
    steps: NDArray[np.intp]  # [starts]


def rollout_returns(policy: ArrayLike, *, step_limit: int = 60) -> Rollouts:
    """What a policy achieves from every start, acting greedily: exact, since nothing is random.

    Args:
        policy: [S, 4] probabilities; the likeliest action is taken, the first one in a tie.
        step_limit: steps after which an episode is truncated, ≥ 1.

    Returns:
        Rollouts(returns, success, steps), each over `start_positions`.

    Raises:
        ValueError: a row is no distribution, or the limit is no integer ≥ 1.
    """
    tables = grid_tables()
    actions = policy_rows(policy).argmax(axis=1)
    state = tables.start.copy()
    returns, steps = np.zeros(len(STARTS)), np.zeros(len(STARTS), np.intp)
    for _ in range(integer("step_limit", step_limit, minimum=1)):
        going = ~tables.terminal[state]
        returns += np.where(going, tables.reward[state, actions[state]], 0.0)
        steps += going
        state = tables.next_state[state, actions[state]]
    reached = np.array([tables.states[s].cell == GOAL for s in state])
    return Rollouts(returns, reached, steps)


def policy_rows(policy: ArrayLike) -> Floats:
    """[S, 4] the probabilities of a policy, in rows that sum to 1.

    A row may miss 1 by 1e-6, or by 1e-4 in single precision, and is then divided by its sum: what
    is too much in every step adds up over an episode, to a hundred times as much with a discount of
    0.99. Rows that miss 1 by rounding alone, 1e-12, stay as they are.

    Raises:
        ValueError: the shape is wrong, or a row is no distribution; the text names it.
    """
    chances = distributions("policy", policy)
    shape = (len(grid_tables().states), 4)
    if chances.shape != shape:
        raise ValueError(f"policy has shape {chances.shape}; it must be {shape}")
    totals = chances.sum(axis=1, keepdims=True)
    return np.where(np.abs(totals - 1) > ROUNDING, chances / totals, chances)


def _discount(gamma: float) -> float:
    gamma = unit_interval("gamma", gamma)
    if gamma == 1:
        raise ValueError("gamma is 1; it must be < 1, since the task has no horizon")
    return gamma
