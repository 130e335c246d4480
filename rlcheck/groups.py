"""Groups of rollouts of one prompt, as GRPO draws them."""

import math

from rlcheck._inputs import integer, unit_interval

__all__ = ["informative_group_probability"]


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
