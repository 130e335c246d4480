"""Returns and temporal differences of one trajectory, or of several in a row."""

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import (
    positive_integers,
    unit_interval,
    vector,
)

__all__ = ["semi_markov_return"]


def semi_markov_return(rewards: ArrayLike, durations: ArrayLike, gamma: float) -> float:
    """Discounted return of macro-actions that last several steps.

    G = Σ_k γ^(τ_0 + … + τ_{k−1}) R_k

    Args:
        rewards: [K] macro-rewards, each already discounted inside its macro-action.
        durations: [K] primitive steps that each macro-action lasted, integers ≥ 1.
        gamma: discount of one primitive step, in [0, 1].

    Returns:
        The return at the first decision; 0.0 without macro-actions.

    Raises:
        ValueError: a length, a duration or gamma is out of range; the text names index and value.

    Reference:
        Sutton, Precup and Singh (1999), Between MDPs and semi-MDPs, section 2.
    """
    rewards = vector("rewards", rewards)
    durations = positive_integers("durations", durations, length=len(rewards))
    started = np.cumsum(durations) - durations  # [K] primitive step at which macro k began
    return float(np.dot(unit_interval("gamma", gamma) ** started, rewards))
