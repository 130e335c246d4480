"""Advantages over the rollouts of one prompt, as in GRPO and RLOO."""

from typing import Any

import torch
from torch import Tensor

from rlcheck import groups as reference
from rlcheck._inputs import choice, integer, scalar
from rlcheck.torch._inputs import check_shape, check_values, flag_tensor, real_tensors, refuse_where

__all__ = ["group_advantages", "leave_one_out_advantages"]


def group_advantages(
    rewards: Any,
    group_ids: Any,
    *,
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    valid: Any = None,
) -> Tensor:
    """Advantages of rollouts over the other rollouts of their prompt, as in GRPO.

    A_i = (r_i − mean_g) / (std_g + ε), with g the group of i

    Args:
        rewards: [N] finite where valid.
        group_ids: [N] numbers or texts; under `torch.compile` a tensor.
        scale: "std" divides by the group's standard deviation, "batch" by that of all valid
            rewards (each plus ε), "none" by nothing.
        ddof: 0 or 1; the variance divides by n − ddof.
        eps: ε ≥ 0.
        valid: [N] 0 where a rollout must not count; None for all valid.

    Returns:
        [N] advantages; exactly 0 where all rewards of a group are equal, with a gradient of 0
        where they would be divided by their deviation, and where not valid.

    Raises:
        ValueError, TypeError: as `rlcheck.group_advantages`.
    """
    rewards = _rewards(rewards)
    groups = _groups(group_ids, rewards)
    scale = choice("scale", scale, ("std", "batch", "none"))
    ddof = integer("ddof", ddof, minimum=0)
    if ddof > 1:
        raise ValueError(f"ddof is {ddof}; it must be 0 or 1")
    eps = scalar("eps", eps)
    if eps < 0:
        raise ValueError(f"eps is {eps}; it must be ≥ 0")
    counts = torch.ones_like(rewards, dtype=torch.bool)
    if valid is not None:
        counts = flag_tensor("valid", valid, rewards)
    check_values("rewards", torch.where(counts, rewards, 0.0), rule="finite where valid")
    half = _half(torch.where(counts, rewards, 0.0))
    unit, centred, varies, _ = _spread(rewards * half, groups, counts)
    if scale == "none":
        return unit * centred / half
    pool = groups if scale == "std" else torch.zeros_like(groups)
    reach, deviation, _, size = _spread(rewards * half, pool, counts)
    variance = _sums(deviation * deviation, pool) / (size - ddof).clamp(min=1)
    variance = torch.where(varies, variance, 1.0)
    scaled = unit / reach * centred / (variance.sqrt() + eps * half / reach)
    return torch.where(varies, scaled, 0.0)


def leave_one_out_advantages(rewards: Any, group_ids: Any) -> Tensor:
    """Advantages of rollouts over the mean of the others of their prompt, as in RLOO.

    A_i = r_i − (Σ_{j ≠ i} r_j) / (k − 1), with k the group's size

    Args:
        rewards: [N] finite.
        group_ids: [N] numbers or texts; groups of any sizes ≥ 2 in any order.

    Returns:
        [N] advantages; exactly 0 where all rewards of a group are equal.

    Raises:
        ValueError, TypeError: as `rlcheck.leave_one_out_advantages`.
    """
    rewards = _rewards(rewards)
    check_values("rewards", rewards)
    groups = _groups(group_ids, rewards)
    half = _half(rewards)
    everyone = torch.ones_like(rewards, dtype=torch.bool)
    unit, centred, _, size = _spread(rewards * half, groups, everyone)
    if not torch.compiler.is_compiling() and (size == 1).any():
        alone = int((size == 1).nonzero()[0])
        raise ValueError(f"group_ids[{alone}] is {group_ids[alone]}, which no other row has")
    return unit * (centred * (size / (size - 1))) / half


def _rewards(rewards: Any) -> Tensor:
    (tensor,) = real_tensors(rewards=rewards)
    if tensor.ndim != 1:
        raise ValueError(f"rewards has shape {tuple(tensor.shape)}; it must be a vector")
    return tensor


def _groups(ids: Any, like: Tensor) -> Tensor:
    """[N] a number in [0, N) for each row's group; shapes depend on no value."""
    if not isinstance(ids, Tensor):
        return torch.as_tensor(reference.group_numbers("group_ids", ids, len(like))).to(like.device)
    check_shape("group_ids", ids, like.shape)
    refuse_where("group_ids", ids, ids != ids, "a number, not NaN")
    ordered, order = ids.to(like.device).sort()
    begins = torch.nn.functional.pad(ordered[1:] != ordered[:-1], (1, 0))[: len(ids)]
    return torch.empty_like(order).scatter(0, order, begins.cumsum(0))


def _sums(x: Tensor, groups: Tensor) -> Tensor:
    """[N] the sum over each row's group."""
    return torch.zeros_like(x).scatter_add(0, groups, x).gather(0, groups)


def _half(rewards: Tensor) -> Tensor:
    """A factor that keeps differences within the dtype; 1 for all but huge rewards."""
    largest = rewards.detach().abs().sum() if rewards.numel() == 0 else rewards.detach().abs().max()
    huge = largest > torch.finfo(rewards.dtype).max / 2
    return torch.where(huge, torch.full_like(largest, 0.5), 1.0)


def _spread(
    rewards: Tensor, groups: Tensor, counts: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """[N] a unit for each group, deviations from its mean in it, whether it varies, its size.

    The unit is max − min, or 1 where nothing varies. Deviations from the minimum lose no digits
    to what all rewards of a group have in common, and those of equal rewards are exactly 0.
    Minimum and unit cancel, so they are constants.
    """
    low, high = (
        torch.full_like(rewards, bound)
        .scatter_reduce(0, groups, torch.where(counts, rewards.detach(), bound), how)
        .gather(0, groups)
        for bound, how in ((torch.inf, "amin"), (-torch.inf, "amax"))
    )
    size = _sums(counts.to(rewards.dtype), groups)
    varies = counts & (high > low)
    unit = torch.where(high > low, high - low, 1.0)
    above = (torch.where(counts, rewards, 0.0) - torch.where(counts, low, 0.0)) / unit
    deviation = torch.where(counts, above - _sums(above, groups) / size.clamp(min=1), 0.0)
    return unit, deviation, varies, size
