"""Returns and temporal differences of one trajectory, or of several in a row.

Time runs along the only axis: t = 0 … T−1 for steps, t = 0 … T for the states between them.
"""

import math
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import (
    Floats,
    flags,
    positive_integers,
    real_array,
    refuse_where,
    unit_interval,
    vector,
)

__all__ = [
    "collector_target",
    "discounted_return",
    "discounted_td_sum",
    "return_to_go",
    "semi_markov_return",
    "td_residuals",
]

# γ^τ is 0 beyond this many steps for every float γ < 1, and 1 for γ = 1.
LONG_AGO = 1e20


def discounted_return(rewards: ArrayLike, gamma: float) -> float:
    """Discounted return of a trajectory.

    G = Σ_t γ^t r_t, with 0^0 = 1

    Args:
        rewards: [T] reward of each step, finite.
        gamma: discount of one step, in [0, 1].

    Returns:
        The return at t = 0; 0.0 without steps.

    Raises:
        ValueError: rewards are no vector of finite numbers, or gamma is out of range.

    Reference:
        Sutton and Barto (2018), Reinforcement Learning, 2nd edition, equation 3.8.
    """
    rewards = vector("rewards", rewards)
    return discounted_sum(rewards, np.arange(len(rewards)), unit_interval("gamma", gamma))


def td_residuals(
    rewards: ArrayLike, values: ArrayLike, gamma: float, terminated: ArrayLike | None = None
) -> Floats:
    """One-step temporal differences, in which a terminal does not bootstrap.

    δ_t = r_t + γ (1 − d_t) V_{t+1} − V_t

    A terminal may stand anywhere: several episodes in a row are one input, and V_{t+1} after a
    terminal is the value of the next episode's first state.

    Args:
        rewards: [T] reward of each step, finite.
        values: [T + 1] value of the state before each step, and of the state after the last.
        gamma: discount of one step, in [0, 1].
        terminated: [T] d_t, 1 where the episode ended in a true terminal; None for none.

    Returns:
        [T] residuals.

    Raises:
        ValueError: a length is wrong, an entry is not finite, a flag is not 0 or 1, or gamma is
            out of range.

    Reference:
        Sutton and Barto (2018), equation 6.5.
    """
    rewards = vector("rewards", rewards)
    values = vector("values", values, length=len(rewards) + 1)
    gamma = unit_interval("gamma", gamma)
    if terminated is None:
        following = values[1:]
    else:
        following = np.where(flags("terminated", terminated, shape=rewards.shape), 0.0, values[1:])
    return three_term_sum(rewards, gamma * following, -values[:-1])


def discounted_td_sum(deltas: ArrayLike, gamma: float) -> float:
    """Discounted sum of temporal differences from t = 0: the advantage estimate with λ = 1.

    A = Σ_t γ^t δ_t = G − V_0 + γ^T V_T − Σ_t d_t γ^{t+1} V_{t+1}

    Args:
        deltas: [T] residuals, as `td_residuals` gives them, finite.
        gamma: discount of one step, in [0, 1].

    Returns:
        The sum; 0.0 without steps.

    Raises:
        ValueError: deltas are no vector of finite numbers, or gamma is out of range.

    Reference:
        Schulman et al. (2016), High-dimensional continuous control using generalized advantage
        estimation, equation 14.
    """
    deltas = vector("deltas", deltas)
    return discounted_sum(deltas, np.arange(len(deltas)), unit_interval("gamma", gamma))


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
    ended = np.cumsum(np.minimum(durations, LONG_AGO))  # [K] step at which macro-action k ended
    started = np.concatenate(([0.0], ended))[:-1]  # [K] step at which it began
    return discounted_sum(rewards, started, unit_interval("gamma", gamma))


def collector_target(
    reward: ArrayLike, next_value: ArrayLike, *, gamma: float, terminated: ArrayLike
) -> float | Floats:
    """One-step target of a collected transition: it bootstraps unless the task itself ended.

    y = r + γ V', or r where terminated

    A truncation by the collector (a time limit outside the task, a full buffer) is not a
    termination: V' is then the value of the state that the step really ended in.

    Args:
        reward: [...] r, finite.
        next_value: [...] V', the value of the next state; finite unless terminated, where
            whatever it holds is ignored.
        gamma: discount of one step, in [0, 1].
        terminated: [...] 1 where the task ended; the three arrays broadcast.

    Returns:
        A float for scalars, an array of the common shape otherwise.

    Raises:
        ValueError: the shapes do not broadcast, a number is not finite where it counts, a flag is
            not 0 or 1, or gamma is out of range.

    Reference:
        Pardo et al. (2018), Time limits in reinforcement learning, partial-episode bootstrapping.
    """
    reward = real_array("reward", reward)
    next_value = real_array("next_value", next_value, allow="anything")
    ended = flags("terminated", terminated)
    gamma = unit_interval("gamma", gamma)
    try:
        reward, next_value, ended = np.broadcast_arrays(reward, next_value, ended)
    except ValueError:
        raise ValueError(
            f"reward, next_value and terminated have shapes {reward.shape}, {next_value.shape} "
            f"and {ended.shape}; they must broadcast"
        ) from None
    refuse_where("next_value", next_value, ~(np.isfinite(next_value) | ended), "finite")
    with np.errstate(over="ignore"):
        target = reward + gamma * np.where(ended, 0.0, next_value)
    return target if target.ndim else float(target)


def return_to_go(rewards: ArrayLike, gamma: float = 1.0) -> Floats:
    """Return from each step to the end of the trajectory, its own reward included.

    R_t = r_t + γ R_{t+1}, with R_T = 0

    Args:
        rewards: [T] reward of each step, finite.
        gamma: discount of one step, in [0, 1]; 1 is what a decision transformer conditions on.

    Returns:
        [T] returns to go.

    Raises:
        ValueError: rewards are no vector of finite numbers, or gamma is out of range.

    Reference:
        Chen et al. (2021), Decision Transformer, section 3.
    """
    rewards = vector("rewards", rewards)
    gamma = unit_interval("gamma", gamma)
    direct = _tails(rewards, gamma)
    if np.isfinite(direct).all():
        return direct
    scale = 2.0 ** len(rewards).bit_length()  # exact, and no sum of T such terms overflows
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(direct), direct, scale * _tails(rewards / scale, gamma))


def _tails(rewards: Floats, gamma: float) -> Floats:
    """[T] Horner's rule from the last reward to the first; an overflow stays infinite."""
    backwards = accumulate(rewards[::-1].tolist(), lambda tail, reward: reward + gamma * tail)
    return np.array(list(backwards)[::-1], dtype=np.float64)


def discounted_sum(amounts: Floats, elapsed: ArrayLike, gamma: float) -> float:
    """Σ γ^elapsed · amount, good to a few ε of the absolute terms for any number of them.

    The power comes in three factors: a term that is representable may have a power that is not.
    """
    elapsed = np.asarray(elapsed, dtype=np.float64)
    third = elapsed // 3
    factor = gamma**third
    terms = amounts * factor * factor * gamma ** (elapsed - 2 * third)
    return exact_sum(terms)


def exact_sum(terms: Floats) -> float:
    """Σ terms, correctly rounded; only a sum that is itself beyond float64 is infinite."""
    try:
        return math.fsum(terms)
    except OverflowError:  # of a partial sum: what is left after it may still be representable
        scale = 2.0 ** len(terms).bit_length()
        return math.fsum(terms / scale) * scale


def three_term_sum(first: Floats, second: Floats, third: Floats) -> Floats:
    """The sum of three arrays; only a sum that is itself beyond float64 is infinite."""
    with np.errstate(over="ignore"):
        direct = first + second + third
        quarter = first / 4 + second / 4 + third / 4
        return np.where(np.isfinite(direct), direct, quarter * 4)
