"""Regression targets of Q-learning and of fitted Q-evaluation, one for each transition."""

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import (
    Flags,
    Floats,
    distributions,
    flags,
    real_array,
    refuse_where,
    unit_interval,
    vector,
)

__all__ = ["double_dqn_targets", "dqn_targets", "fqe_targets"]


def dqn_targets(rewards: ArrayLike, terminal: ArrayLike, next_q: ArrayLike, gamma: float) -> Floats:
    """Targets of deep Q-learning: reward plus the discounted best next value.

    y_i = r_i + γ (1 − d_i) max_a Q'(s'_i, a)

    Args:
        rewards: [N] rewards r_i, finite.
        terminal: [N] flags d_i, 1 where s'_i ends the episode; a truncation is no end.
        next_q: [N, A] target-network values at s'_i, A ≥ 1, finite but in terminal rows,
            where they may be anything and change nothing.
        gamma: discount in [0, 1].

    Returns:
        [N] targets; ±inf beyond float64.

    Raises:
        ValueError: a shape, a non-finite number or gamma; the text names index and value.

    Reference:
        Mnih et al. (2015), Human-level control through deep reinforcement learning, methods,
        algorithm 1.
    """
    rewards = vector("rewards", rewards)
    terminal = flags("terminal", terminal, shape=rewards.shape)
    next_q = _next_values("next_q", next_q, terminal)
    return _backup(rewards, unit_interval("gamma", gamma), next_q.max(axis=1))


def double_dqn_targets(
    rewards: ArrayLike,
    terminal: ArrayLike,
    online_next_q: ArrayLike,
    target_next_q: ArrayLike,
    gamma: float,
) -> Floats:
    """Targets of double Q-learning: the online network selects, the target network evaluates.

    y_i = r_i + γ (1 − d_i) Q_target(s'_i, argmax_a Q_online(s'_i, a))

    Args:
        rewards: [N] rewards r_i, finite.
        terminal: [N] flags d_i, 1 where s'_i ends the episode; a truncation is no end.
        online_next_q: [N, A] values that select the action, A ≥ 1; of equal ones the lowest
            index. Finite but in terminal rows, where they may be anything.
        target_next_q: [N, A] values that evaluate it, as free in terminal rows.
        gamma: discount in [0, 1].

    Returns:
        [N] targets; ±inf beyond float64.

    Raises:
        ValueError: a shape, a non-finite number or gamma; the text names index and value.

    Reference:
        van Hasselt, Guez and Silver (2016), Deep reinforcement learning with double Q-learning,
        equation 4.
    """
    rewards = vector("rewards", rewards)
    terminal = flags("terminal", terminal, shape=rewards.shape)
    online_next_q = _next_values("online_next_q", online_next_q, terminal)
    target_next_q = _next_values("target_next_q", target_next_q, terminal)
    _refuse_other_actions("target_next_q", target_next_q, "online_next_q", online_next_q)
    best = online_next_q.argmax(axis=1)  # [N, A] → [N]
    values = target_next_q[np.arange(len(best)), best]
    return _backup(rewards, unit_interval("gamma", gamma), values)


def fqe_targets(
    rewards: ArrayLike,
    terminal: ArrayLike,
    next_q: ArrayLike,
    policy_probs: ArrayLike,
    gamma: float,
) -> Floats:
    """Targets of fitted Q-evaluation: reward plus the policy's expected discounted next value.

    y_i = r_i + γ (1 − d_i) Σ_a π(a | s'_i) Q'(s'_i, a)

    Args:
        rewards: [N] rewards r_i, finite.
        terminal: [N] flags d_i, 1 where s'_i ends the episode; a truncation is no end.
        next_q: [N, A] values at s'_i, A ≥ 1, finite but in terminal rows, where they may be
            anything and change nothing.
        policy_probs: [N, A] the evaluated policy's probabilities at s'_i; each row sums to 1 and
            is used as it is given, not normalised again.
        gamma: discount in [0, 1].

    Returns:
        [N] targets; ±inf beyond float64.

    Raises:
        ValueError: a shape, a non-finite number, a row that is no distribution, or gamma; the
            text names index and value.

    Reference:
        Le, Voloshin and Yue (2019), Batch policy learning under constraints, algorithm 3.
    """
    rewards = vector("rewards", rewards)
    terminal = flags("terminal", terminal, shape=rewards.shape)
    next_q = _next_values("next_q", next_q, terminal)
    policy_probs = distributions("policy_probs", policy_probs, ndim=2)
    if len(policy_probs) != len(rewards):
        raise ValueError(
            f"policy_probs has shape {policy_probs.shape}; it must have {len(rewards)} rows"
        )
    _refuse_other_actions("policy_probs", policy_probs, "next_q", next_q)
    gamma = unit_interval("gamma", gamma)
    with np.errstate(over="ignore", invalid="ignore"):
        targets = rewards + gamma * np.sum(policy_probs * next_q, axis=1)  # [N, A] → [N]
        # Where a partial sum overflowed, a quarter of every term does not: the rows sum to 1.
        quarter = rewards / 4.0 + gamma * np.sum(policy_probs * (next_q / 4.0), axis=1)
        careful: Floats = np.where(np.isfinite(targets), targets, 4.0 * quarter)
    return careful


def _next_values(name: str, value: ArrayLike, terminal: Flags) -> Floats:
    """[N, A] next values; rows whose next state is terminal hold 0, whatever was given there."""
    table = real_array(name, value, ndim=2, allow="anything")
    if len(table) != len(terminal):
        raise ValueError(f"{name} has shape {table.shape}; it must have {len(terminal)} rows")
    if table.shape[1] == 0:
        raise ValueError(f"{name} has shape {table.shape}; a state needs an action")
    ended = terminal[:, np.newaxis]  # [N, 1]
    refuse_where(name, table, ~(np.isfinite(table) | ended), "finite where terminal is 0")
    return np.where(ended, 0.0, table)


def _refuse_other_actions(name: str, table: Floats, first_name: str, first: Floats) -> None:
    if table.shape != first.shape:
        raise ValueError(
            f"{name} has shape {table.shape}; it must have that of {first_name}, {first.shape}"
        )


def _backup(rewards: Floats, gamma: float, next_values: Floats) -> Floats:
    """[N] r + γ V', where V' is 0 after a terminal; a sum beyond float64 is ±inf."""
    with np.errstate(over="ignore"):
        return rewards + gamma * next_values
