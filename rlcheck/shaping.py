"""Potential-based reward shaping, which leaves the order of policies as it is."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import Floats, unit_interval, vector
from rlcheck.returns import discounted_sum, three_term_sum

__all__ = ["ShapedReturns", "potential_shaping", "shaped_return_identity"]


class ShapedReturns(NamedTuple):
    """Return before shaping, after it, and what the shaping theorem predicts after it."""

    original: float
    shaped: float
    predicted: float


def potential_shaping(rewards: ArrayLike, potentials: ArrayLike, gamma: float) -> Floats:
    """Rewards with the discounted gain in potential added.

    r'_t = r_t + γ Φ_{t+1} − Φ_t

    Args:
        rewards: [T] reward of each step, finite.
        potentials: [T + 1] Φ of the state before each step, and of the state after the last; the
            potential of a terminal state is 0 by convention, which is for the caller to pass.
        gamma: discount of one step, in [0, 1]: the one of the return that is maximised.

    Returns:
        [T] shaped rewards.

    Raises:
        ValueError: a length is wrong, an entry is not finite, or gamma is out of range.

    Reference:
        Ng, Harada and Russell (1999), Policy invariance under reward transformations, equation 2.
    """
    rewards = vector("rewards", rewards)
    potentials = vector("potentials", potentials, length=len(rewards) + 1)
    gamma = unit_interval("gamma", gamma)
    return three_term_sum(rewards, gamma * potentials[1:], -potentials[:-1])


def shaped_return_identity(
    rewards: ArrayLike, potentials: ArrayLike, gamma: float
) -> ShapedReturns:
    """The return before and after shaping, and the shaped one from the two end potentials alone.

    original = Σ_t γ^t r_t
    shaped = Σ_t γ^t (r_t + γ Φ_{t+1} − Φ_t)
    predicted = original + γ^T Φ_T − Φ_0

    Args:
        rewards: [T] reward of each step, finite.
        potentials: [T + 1] Φ of the state before each step, and of the state after the last.
        gamma: discount of one step, in [0, 1].

    Returns:
        The three returns at t = 0. `shaped` and `predicted` differ by rounding only, of the
        potentials between the ends, which `predicted` never reads.

    Raises:
        ValueError: a length is wrong, an entry is not finite, or gamma is out of range.

    Reference:
        Ng, Harada and Russell (1999), theorem 1; Grześ (2017), Reward shaping in episodic
        reinforcement learning, for what the last potential adds.
    """
    rewards = vector("rewards", rewards)
    potentials = vector("potentials", potentials, length=len(rewards) + 1)
    gamma = unit_interval("gamma", gamma)
    t = np.arange(len(rewards))
    ends = np.array([potentials[-1], -potentials[0]])
    # Fully expanded, [3T]: a shaped reward may be beyond float64 where the shaped return is not.
    expanded = np.concatenate([rewards, potentials[1:], -potentials[:-1]])
    return ShapedReturns(
        original=discounted_sum(rewards, t, gamma),
        shaped=discounted_sum(expanded, np.concatenate([t, t + 1, t]), gamma),
        predicted=discounted_sum(np.concatenate([rewards, ends]), np.append(t, [len(t), 0]), gamma),
    )
