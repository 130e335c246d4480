"""Targets of Q-learning. They are constants of a loss: no gradient flows through them."""

from typing import Any

import torch
from torch import Tensor

from rlcheck._inputs import unit_interval
from rlcheck.torch._inputs import (
    check_shape,
    check_values,
    flag_tensor,
    real_tensors,
    refuse_where,
    sum_slack,
)

__all__ = ["double_dqn_targets", "dqn_targets", "fqe_targets"]


@torch.no_grad()
def dqn_targets(rewards: Any, terminal: Any, next_q: Any, gamma: float) -> Tensor:
    """Targets of deep Q-learning, in which a terminal does not bootstrap.

    y = r + γ (1 − d) max_a Q'(s', a)

    Args:
        rewards: [N] finite.
        terminal: [N] d, 1 where the episode ended in a true terminal.
        next_q: [N, A] values of the next states; a terminal's row is never read.
        gamma: discount in [0, 1].

    Returns:
        [N] targets, without a gradient.

    Raises:
        ValueError: as `rlcheck.dqn_targets`.
    """
    rewards, next_q = real_tensors(rewards=rewards, next_q=next_q)
    ended, gamma = _transitions(rewards, terminal, gamma)
    live = _live(next_q, "next_q", ended)
    return _targets(rewards, gamma, ended, live.amax(dim=1))


@torch.no_grad()
def double_dqn_targets(
    rewards: Any, terminal: Any, online_next_q: Any, target_next_q: Any, gamma: float
) -> Tensor:
    """Targets of double Q-learning: the online network chooses, the target network values.

    y = r + γ (1 − d) Q_target(s', argmax_a Q_online(s', a)), ties to the lowest index

    Args:
        rewards: [N] finite.
        terminal: [N] d, 1 where the episode ended in a true terminal.
        online_next_q: [N, A] values that choose the action.
        target_next_q: [N, A] values that it is worth.
        gamma: discount in [0, 1].

    Returns:
        [N] targets, without a gradient.

    Raises:
        ValueError: as `rlcheck.double_dqn_targets`.
    """
    rewards, online, target = real_tensors(
        rewards=rewards, online_next_q=online_next_q, target_next_q=target_next_q
    )
    ended, gamma = _transitions(rewards, terminal, gamma)
    online = _live(online, "online_next_q", ended)
    check_shape("target_next_q", target, online.shape)
    chosen = online.argmax(dim=1, keepdim=True)  # [N, 1]
    value = _live(target, "target_next_q", ended).gather(1, chosen)[:, 0]
    return _targets(rewards, gamma, ended, value)


@torch.no_grad()
def fqe_targets(
    rewards: Any, terminal: Any, next_q: Any, policy_probs: Any, gamma: float
) -> Tensor:
    """Targets of fitted Q evaluation: the next state is worth what the policy expects there.

    y = r + γ (1 − d) Σ_a π(a | s') Q'(s', a)

    Args:
        rewards: [N] finite.
        terminal: [N] d, 1 where the episode ended in a true terminal.
        next_q: [N, A] values of the next states; a terminal's row is never read.
        policy_probs: [N, A] probabilities of the evaluated policy there.
        gamma: discount in [0, 1].

    Returns:
        [N] targets, without a gradient.

    Raises:
        ValueError: as `rlcheck.fqe_targets`.
    """
    rewards, next_q, policy = real_tensors(
        rewards=rewards, next_q=next_q, policy_probs=policy_probs
    )
    ended, gamma = _transitions(rewards, terminal, gamma)
    live = _live(next_q, "next_q", ended)
    check_shape("policy_probs", policy, live.shape)
    check_values("policy_probs", policy)
    refuse_where("policy_probs", policy, policy < 0, "≥ 0")
    slack = sum_slack(policy_probs)
    totals = policy.sum(dim=1)
    refuse_where("Σ policy_probs", totals, (totals - 1).abs() > slack, "1")
    return _targets(rewards, gamma, ended, (policy * live).sum(dim=1))


def _transitions(rewards: Tensor, terminal: Any, gamma: float) -> tuple[Tensor, float]:
    if rewards.ndim != 1:
        raise ValueError(f"rewards has shape {tuple(rewards.shape)}; it must be a vector")
    check_values("rewards", rewards)
    return flag_tensor("terminal", terminal, rewards), unit_interval("gamma", gamma)


def _live(values: Tensor, name: str, ended: Tensor) -> Tensor:
    """[N, A] the values, with 0 in place of whatever stands in a terminal's row."""
    if values.ndim != 2 or values.shape[0] != ended.shape[0] or values.shape[1] == 0:
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}; it must be [{ended.shape[0]}, A], A ≥ 1"
        )
    live = torch.where(ended[:, None], 0.0, values)
    check_values(name, live)
    return live


def _targets(rewards: Tensor, gamma: float, ended: Tensor, value: Tensor) -> Tensor:
    return rewards + gamma * torch.where(ended, 0.0, value)
