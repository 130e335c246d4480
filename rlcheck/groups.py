"""Groups of rollouts of one prompt, as GRPO draws them."""

import math
from collections.abc import Iterable, Mapping, Set
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import (
    Floats,
    Integers,
    choice,
    flags,
    integer,
    place,
    refuse_where,
    scalar,
    unit_interval,
    vector,
)

__all__ = ["group_advantages", "informative_group_probability", "leave_one_out_advantages"]


def informative_group_probability(p: float, group_size: int) -> float:
    """Probability that a group holds both a success and a failure, and so carries a gradient.

    P = 1 − p^G − (1 − p)^G

    A group whose binary rewards are all equal has advantages of zero. With m = min(p, 1 − p),
    which is exact in float64, P = −expm1(G log1p(−m)) − m^G, and nothing cancels: m^G is at
    most a third of the first term for every G ≥ 2.

    Args:
        p: probability that one rollout succeeds, in [0, 1].
        group_size: independent rollouts G of the prompt, an integer ≥ 1.

    Returns:
        The probability, to a relative error of 1e-12; 0.0 for p = 0, p = 1 and G = 1.

    Raises:
        ValueError: p is outside [0, 1], or group_size is no integer ≥ 1.
        TypeError: text, None or a mapping where a number is due.

    Reference:
        Yu et al. (2025), DAPO, section 3.2, dynamic sampling.
    """
    p = unit_interval("p", p)
    group_size = integer("group_size", group_size, minimum=1)
    if group_size == 1:
        return 0.0
    rarer = min(p, 1.0 - p)
    return float(-math.expm1(group_size * math.log1p(-rarer)) - rarer**group_size)


def group_advantages(
    rewards: ArrayLike,
    group_ids: ArrayLike,
    *,
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    valid: ArrayLike | None = None,
) -> Floats:
    """Advantages of rollouts over the other rollouts of their prompt, as in GRPO.

    A_i = (r_i − mean_g) / (std_g + ε), with g the group of i

    Args:
        rewards: [N] finite where valid.
        group_ids: [N] numbers or texts; groups may have any sizes and stand in any order.
        scale: "std" divides by the group's standard deviation, "batch" by that of all valid
            rewards (each plus ε), "none" by nothing.
        ddof: 0 or 1; the variance divides by n − ddof.
        eps: ε ≥ 0.
        valid: [N] 0 where a rollout was not scored or must not count; None for all valid. Such a
            row is outside every statistic, and its reward is never read.

    Returns:
        [N] advantages; exactly 0 where all rewards of a group are equal, for a group of one, and
        where not valid.

    Raises:
        ValueError: a length, a non-finite reward, an id that is NaN, an option out of range.
        TypeError: an id that is neither a number nor a text.

    Reference:
        Shao et al. (2024), DeepSeekMath, section 4.1.2; Liu et al. (2025), Understanding
        R1-Zero-like training, for scale "none".
    """
    rewards = vector("rewards", rewards, allow="anything")
    groups = group_numbers("group_ids", group_ids, len(rewards))
    scale = choice("scale", scale, ("std", "batch", "none"))
    ddof = integer("ddof", ddof, minimum=0)
    if ddof > 1:
        raise ValueError(f"ddof is {ddof}; it must be 0 or 1")
    eps = scalar("eps", eps)
    if eps < 0:
        raise ValueError(f"eps is {eps}; it must be ≥ 0")
    counts = np.ones(rewards.shape, np.bool_)
    if valid is not None:
        counts = flags("valid", valid, shape=rewards.shape)
    refuse_where("rewards", rewards, counts & ~np.isfinite(rewards), "finite where valid")
    out = np.zeros(rewards.shape)
    out[counts] = _scaled(rewards[counts], groups[counts], scale, ddof, eps)
    return out


def leave_one_out_advantages(rewards: ArrayLike, group_ids: ArrayLike) -> Floats:
    """Advantages of rollouts over the mean of the others of their prompt, as in RLOO.

    A_i = r_i − (Σ_{j ≠ i} r_j) / (k − 1) = k / (k − 1) (r_i − mean_g), with k the group's size

    Args:
        rewards: [N] finite.
        group_ids: [N] numbers or texts; groups of any sizes ≥ 2 in any order.

    Returns:
        [N] advantages; exactly 0 where all rewards of a group are equal.

    Raises:
        ValueError: a length, a non-finite reward, an id that is NaN, or a group of one.
        TypeError: an id that is neither a number nor a text.

    Reference:
        Ahmadian et al. (2024), Back to basics, section 2.2; Kool, van Hoof and Welling (2019).
    """
    rewards = vector("rewards", rewards)
    groups = group_numbers("group_ids", group_ids, len(rewards))
    size = np.bincount(groups)[groups]  # [N]
    if (size == 1).any():
        alone = int(np.argmax(size == 1))
        entry = _entries("group_ids", group_ids)[alone]
        raise ValueError(f"group_ids[{alone}] is {entry!r}, which no other row has; nobody is left")
    half = _half(rewards)
    spread, centred = _spread(rewards * half, groups)
    with np.errstate(over="ignore"):
        return spread * (centred * (size / (size - 1))) / half


def _scaled(rewards: Floats, groups: Integers, scale: str, ddof: int, eps: float) -> Floats:
    half = _half(rewards)
    spread, centred = _spread(rewards * half, groups)
    if scale == "none":
        with np.errstate(over="ignore"):
            return np.asarray(spread * centred / half)
    pool = groups if scale == "std" else np.zeros_like(groups)
    reach, deviation = _spread(rewards * half, pool)  # [N] both, of the rewards that are pooled
    size = np.bincount(pool)[pool]
    variance = np.bincount(pool, deviation**2)[pool] / np.maximum(size - ddof, 1)
    # In units of the reach, which is 0 only where nothing varies.
    reach, variance = np.where(spread > 0, (reach, variance), 1.0)
    with np.errstate(over="ignore"):
        return np.asarray(spread / reach * centred / (np.sqrt(variance) + eps * half / reach))


def _half(rewards: Floats) -> float:
    """A factor that keeps the difference of any two rewards within float64; 1 for all but huge."""
    return 0.5 if np.abs(rewards).max(initial=0.0) > np.finfo(np.float64).max / 2 else 1.0


def _spread(rewards: Floats, groups: Integers) -> tuple[Floats, Floats]:
    """[N] max − min of each group, and the deviation from its mean in units of that.

    Deviations from the minimum lose no digits to what all rewards of a group have in common,
    and those of equal rewards are exactly 0. In these units no square over- or underflows.
    """
    count = groups.max(initial=-1) + 1
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, groups, rewards)
    np.maximum.at(high, groups, rewards)
    low, spread = low[groups], (high - low)[groups]  # [G] → [N]
    above = (rewards - low) / np.where(spread > 0, spread, 1.0)
    mean = np.bincount(groups, above)[groups] / np.bincount(groups)[groups]
    return spread, above - mean


def group_numbers(name: str, ids: Any, length: int) -> Integers:
    """[N] the number of each row's group, counted in order of appearance."""
    entries = _entries(name, ids)
    if len(entries) != length:
        raise ValueError(f"{name} has length {len(entries)}; it must have length {length}")
    for i, entry in enumerate(entries):
        if not isinstance(entry, str | Real):
            raise TypeError(f"{place(name, (i,))} is {entry!r}; a number or a text is due")
        if entry != entry:
            raise ValueError(f"{place(name, (i,))} is nan, which equals no other id")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(entry, len(numbers)) for entry in entries], dtype=np.int64)


def _entries(name: str, ids: Any) -> list[Any]:
    """Ids as they came, without the arrays and scalars of NumPy and torch around them."""
    is_vector = isinstance(ids, Iterable) and getattr(ids, "ndim", 1) == 1
    if not is_vector or isinstance(ids, str | bytes | Mapping | Set):
        raise TypeError(f"{name} is {ids!r}; a vector of numbers or texts is due")
    entries = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    return [entry.item() if hasattr(entry, "item") else entry for entry in entries]
