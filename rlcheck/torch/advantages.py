"""Advantages and λ-returns of streams of steps, time along the last axis."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcheck._inputs import unit_interval
from rlcheck.advantages import sum_from_the_end
from rlcheck.torch._inputs import check_shape, check_values, flag_tensor, real_tensors
from rlcheck.torch._ops import refuse_forward_mode

__all__ = ["generalized_advantages", "lambda_returns", "masked_advantages"]


def generalized_advantages(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Tensor:
    """Generalized advantage estimates of a stream of steps, which may hold several episodes.

    δ_t = r_t + γ (1 − term_t) V'_t − V_t
    A_t = δ_t + γλ (1 − (term_t or trunc_t)) A_{t+1}

    Args:
        rewards: [T] or [B, T] r_t, finite.
        values: V_t of the state before each step, finite.
        next_values: V'_t of the state after each step, before any reset; never read where
            terminated.
        gamma: discount of one step, in [0, 1].
        lam: trace decay λ, in [0, 1].
        terminated: 1 where the task ended.
        truncated: 1 where the episode was cut off.

    Returns:
        Advantages in the shape of `rewards`, linear in rewards and values and differentiable in
        them. A policy loss takes them as constants: compute them under `torch.no_grad()`, or
        detach them.

    Raises:
        ValueError: as `rlcheck.generalized_advantages`.
    """
    rewards, values, next_values = real_tensors(
        rewards=rewards, values=values, next_values=next_values
    )
    _check_stream(rewards, values, next_values)
    gamma, lam = unit_interval("gamma", gamma), unit_interval("lam", lam)
    terminal = flag_tensor("terminated", terminated, rewards)
    ended = terminal | flag_tensor("truncated", truncated, rewards)
    bootstrap = torch.where(terminal, 0.0, next_values)
    check_values("next_values", bootstrap)
    deltas = rewards + gamma * bootstrap - values
    return _from_the_end(deltas, ended, gamma * lam)


@torch.no_grad()
def lambda_returns(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Tensor:
    """λ-returns of a stream of steps: what a critic regresses on.

    G_t = A_t + V_t, with A_t and all arguments as in `generalized_advantages`

    Args:
        rewards: [T] or [B, T] r_t, finite.
        values: V_t of the state before each step, finite.
        next_values: V'_t of the state after each step, before any reset.
        gamma: discount of one step, in [0, 1].
        lam: trace decay λ, in [0, 1].
        terminated: 1 where the task ended.
        truncated: 1 where the episode was cut off.

    Returns:
        λ-returns in the shape of `rewards`: targets, without a gradient.

    Raises:
        ValueError: as `rlcheck.lambda_returns`.
    """
    rewards, values, next_values = real_tensors(
        rewards=rewards, values=values, next_values=next_values
    )
    advantages = generalized_advantages(
        rewards, values, next_values, gamma, lam, terminated=terminated, truncated=truncated
    )
    return advantages + values


def masked_advantages(
    token_rewards: Any, values: Any, mask: Any, gamma: float, lam: float
) -> Tensor:
    """Generalized advantage estimates over the policy's tokens alone.

    For policy tokens i = 1 … N: A_i = R_i + γ V_{i+1} − V_i + γλ A_{i+1}, V_{N+1} = A_{N+1} = 0

    Args:
        token_rewards: [T] or [B, T] reward of every token, finite everywhere.
        values: V at each token, never read where the mask is 0.
        mask: 1 where the policy wrote the token.
        gamma: discount from one policy token to the next, in [0, 1].
        lam: trace decay λ, in [0, 1].

    Returns:
        Advantages in the shape of `token_rewards`, 0 where the mask is 0; differentiable, with
        a gradient of exactly 0 to masked values.

    Raises:
        ValueError: as `rlcheck.masked_advantages`.
    """
    rewards, values = real_tensors(token_rewards=token_rewards, values=values)
    if rewards.ndim == 0:
        raise ValueError("token_rewards is a scalar; it must have an axis of time")
    check_shape("values", values, rewards.shape)
    check_values("token_rewards", rewards)
    policy = flag_tensor("mask", mask, rewards)
    values = torch.where(policy, values, 0.0)
    check_values("values", values, rule="finite under the mask")
    gamma, lam = unit_interval("gamma", gamma), unit_interval("lam", lam)
    # A token that the policy did not write passes its reward on to the last one that it did.
    passed_on = _after(_from_the_end(torch.where(policy, 0.0, rewards), policy, 1.0))
    earned = _packed(rewards + passed_on, policy)
    packed = _packed(values, policy)
    advantages = _from_the_end(
        earned + gamma * _after(packed) - packed, torch.zeros_like(policy), gamma * lam
    )
    return torch.where(policy, advantages.gather(-1, _order(policy)), 0.0)


def _order(policy: Tensor) -> Tensor:
    """[..., T] how many tokens of the policy stand before each token of a row."""
    return (policy.cumsum(-1) - 1).clamp(min=0)


def _packed(x: Tensor, policy: Tensor) -> Tensor:
    """[..., T] what the policy's tokens carry, moved to the front of each row; 0 after them."""
    return torch.zeros_like(x).scatter_add(-1, _order(policy), torch.where(policy, x, 0.0))


def _check_stream(rewards: Tensor, values: Tensor, next_values: Tensor) -> None:
    if rewards.ndim == 0:
        raise ValueError("rewards is a scalar; it must have an axis of time")
    check_shape("values", values, rewards.shape)
    check_shape("next_values", next_values, rewards.shape)
    check_values("rewards", rewards)
    check_values("values", values)


def _after(x: Tensor) -> Tensor:
    """[..., T] x_{t+1}, and 0 after the last step."""
    return torch.nn.functional.pad(x[..., 1:], (0, 1)) if x.shape[-1] else x


def _from_the_end(deltas: Tensor, ends: Tensor, decay: float) -> Tensor:
    """[..., T] A_t = δ_t + c (1 − end_t) A_{t+1}, row by row."""
    refuse_forward_mode(deltas)
    last = torch.arange(deltas.shape[-1], device=deltas.device) == deltas.shape[-1] - 1
    flat: Tensor = scan(deltas.flatten(), (ends | last).flatten(), decay)
    return flat.reshape(deltas.shape)


@torch.library.custom_op("rlcheck::scan", mutates_args=())
def scan(deltas: Tensor, ends: Tensor, decay: float) -> Tensor:
    """[N] A_t = δ_t + c (1 − end_t) A_{t+1}, with A_N = 0; one operator for `torch.compile`.

    On a CPU by the reference's sum, in float64.
    """
    if deltas.device.type != "cpu":
        return side_by_side(deltas, ends, decay)
    total = deltas.to(torch.float64, copy=True)
    with np.errstate(over="ignore", invalid="ignore"):
        sum_from_the_end(total.numpy(), ends.numpy(), decay)
    return total.to(deltas.dtype)


def side_by_side(deltas: Tensor, ends: Tensor, decay: float) -> Tensor:
    """The same sum in √N steps, for devices that do many things at once.

    The stream is cut into √N pieces, each summed together with the factor that carries what
    comes after it; the pieces are then joined from the last to the first.
    """
    count = deltas.shape[0]
    length = max(math.isqrt(count), 1)
    pieces = -(-count // length)
    padding = (0, pieces * length - count)
    total, carry = (
        torch.nn.functional.pad(x, padding).reshape(pieces, length).T.contiguous()
        for x in (deltas, torch.full_like(deltas, decay).masked_fill(ends, 0.0))
    )  # [length, pieces] each
    for t in range(length - 2, -1, -1):
        total[t].addcmul_(carry[t], total[t + 1])
        carry[t].mul_(carry[t + 1])
    after = total.new_zeros(pieces)  # A at the first step after each piece
    for k in range(pieces - 2, -1, -1):
        after[k] = total[0, k + 1] + carry[0, k + 1] * after[k + 1]
    return total.addcmul_(carry, after).T.flatten()[:count].clone()


@scan.register_fake
def _(deltas: Tensor, ends: Tensor, decay: float) -> Tensor:
    return torch.empty_like(deltas)


def _keep_ends(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.decay = inputs[2]


def _scan_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    """∂/∂δ_t = g_t + c (1 − end_{t−1}) ∂/∂δ_{t−1}: the same sum, from the first step on."""
    (ends,) = ctx.saved_tensors
    into = torch.cat((ends.new_ones(1), ends))[: len(ends)]
    return scan(gradient.flip(0), into.flip(0), ctx.decay).flip(0), None, None


scan.register_autograd(_scan_backward, setup_context=_keep_ends)
