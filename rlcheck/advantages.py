"""Advantages and λ-returns: of a stream of steps, and of the policy's tokens in a trajectory.

Time runs along the last axis. In a batch [B, T] each row is a stream of its own.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import Flags, Floats, flags, real_array, refuse_where, unit_interval

__all__ = ["generalized_advantages", "lambda_returns", "masked_advantages"]

PIECE = 16  # steps that one product with a matrix sums up
BLOCK = 1024  # pieces at a time: 128 KiB, which a second-level cache holds


def generalized_advantages(
    rewards: ArrayLike,
    values: ArrayLike,
    next_values: ArrayLike,
    gamma: float,
    lam: float,
    *,
    terminated: ArrayLike,
    truncated: ArrayLike,
) -> Floats:
    """Generalized advantage estimates of a stream of steps, which may hold several episodes.

    δ_t = r_t + γ (1 − term_t) V'_t − V_t
    A_t = δ_t + γλ (1 − (term_t or trunc_t)) A_{t+1}

    A true ending does not bootstrap; a time limit does, from the value of the state that the
    step really ended in; neither lets the next episode in. The last step of a window that no
    flag ends bootstraps too.

    Args:
        rewards: [T] or [B, T] r_t, finite.
        values: V_t of the state before each step, finite, in the shape of `rewards`.
        next_values: V'_t of the state after each step, before any reset; finite unless
            terminated, where whatever it holds is ignored.
        gamma: discount of one step, in [0, 1].
        lam: trace decay λ, in [0, 1]; 0 is the temporal difference, 1 is return minus value.
        terminated: 1 where the task ended.
        truncated: 1 where the episode was cut off; with both flags, it terminated.

    Returns:
        Advantages in the shape of `rewards`.

    Raises:
        ValueError: the shapes differ, a number is not finite where it counts, a flag is not 0 or
            1, or γ or λ is out of range.

    Reference:
        Schulman et al. (2016), High-dimensional continuous control using generalized advantage
        estimation, equation 16; Pardo et al. (2018), Time limits in reinforcement learning.
    """
    steps = _Steps(rewards, values, next_values, gamma, lam, terminated, truncated)
    return _linear(steps.advantages, steps.rewards, steps.values, steps.next_values)


def lambda_returns(
    rewards: ArrayLike,
    values: ArrayLike,
    next_values: ArrayLike,
    gamma: float,
    lam: float,
    *,
    terminated: ArrayLike,
    truncated: ArrayLike,
) -> Floats:
    """λ-returns of a stream of steps: what a critic regresses on.

    G_t = A_t + V_t, with A_t as in `generalized_advantages`

    Args:
        rewards: [T] or [B, T] r_t, finite.
        values: V_t of the state before each step, finite, in the shape of `rewards`.
        next_values: V'_t of the state after each step, before any reset; finite unless
            terminated, where whatever it holds is ignored.
        gamma: discount of one step, in [0, 1].
        lam: trace decay λ, in [0, 1]; 0 is the one-step target, 1 the Monte Carlo return.
        terminated: 1 where the task ended.
        truncated: 1 where the episode was cut off; with both flags, it terminated.

    Returns:
        λ-returns in the shape of `rewards`.

    Raises:
        ValueError: as `generalized_advantages`.

    Reference:
        Sutton and Barto (2018), Reinforcement Learning, 2nd edition, equations 12.2 and 12.9.
    """
    steps = _Steps(rewards, values, next_values, gamma, lam, terminated, truncated)
    return _linear(
        lambda r, v, v_next: steps.advantages(r, v, v_next) + v,
        steps.rewards,
        steps.values,
        steps.next_values,
    )


def masked_advantages(
    token_rewards: ArrayLike, values: ArrayLike, mask: ArrayLike, gamma: float, lam: float
) -> Floats:
    """Generalized advantage estimates over the policy's tokens alone.

    For policy tokens i = 1 … N: A_i = R_i + γ V_{i+1} − V_i + γλ A_{i+1}, V_{N+1} = A_{N+1} = 0

    Tokens of tools and observations are no steps: they cost no discount and no trace decay, and
    their values are never read. R_i adds up the reward of policy token i and of the tokens that
    follow it up to the next policy token; rewards before the first one belong to nobody.

    Args:
        token_rewards: [T] or [B, T] reward of every token, finite everywhere.
        values: V at each token, finite where the mask is 1, in the shape of `token_rewards`.
        mask: 1 where the policy wrote the token.
        gamma: discount from one policy token to the next, in [0, 1].
        lam: trace decay λ, in [0, 1].

    Returns:
        Advantages in the shape of `token_rewards`; 0 where the mask is 0.

    Raises:
        ValueError: the shapes differ, a number is not finite where it counts, a flag is not 0 or
            1, or γ or λ is out of range.

    Reference:
        Schulman et al. (2016), equation 16, on the decision process whose steps are the
        policy's own tokens.
    """
    token_rewards = _stream("token_rewards", token_rewards)
    active = flags("mask", mask, shape=token_rewards.shape)
    values = real_array("values", values, shape=token_rewards.shape, allow="anything")
    refuse_where("values", values, active & ~np.isfinite(values), "finite under the mask")
    gamma, lam = unit_interval("gamma", gamma), unit_interval("lam", lam)
    tokens = np.flatnonzero(active)  # [N] the policy's tokens, row after row
    owned = np.where(np.cumsum(active, axis=-1) > 0, token_rewards, 0.0).ravel()
    row = tokens // max(token_rewards.shape[-1], 1)
    last = np.append(row[1:] != row[:-1], np.ones(min(len(row), 1), np.bool_))  # [N] of its row

    def advantages(rewards: Floats, values: Floats) -> Floats:
        earned = np.add.reduceat(rewards, tokens) if len(tokens) else rewards[:0]
        following = np.where(last, 0.0, np.append(values[1:], values[:1]))
        deltas = earned + gamma * following - values
        sum_from_the_end(deltas, last, gamma * lam)
        return deltas

    out = np.zeros(token_rewards.shape)
    out[active] = _linear(advantages, owned, values[active])
    return out


class _Steps:
    """The checked arguments of a stream of steps."""

    def __init__(
        self,
        rewards: ArrayLike,
        values: ArrayLike,
        next_values: ArrayLike,
        gamma: float,
        lam: float,
        terminated: ArrayLike,
        truncated: ArrayLike,
    ) -> None:
        self.rewards = _stream("rewards", rewards)
        shape = self.rewards.shape
        self.values = real_array("values", values, shape=shape)
        self.next_values = real_array("next_values", next_values, shape=shape, allow="anything")
        self.gamma, self.lam = unit_interval("gamma", gamma), unit_interval("lam", lam)
        self.terminated = flags("terminated", terminated, shape=shape)
        self.ended = self.terminated | flags("truncated", truncated, shape=shape)
        wrong = ~(np.isfinite(self.next_values) | self.terminated)
        refuse_where("next_values", self.next_values, wrong, "finite")

    def advantages(self, rewards: Floats, values: Floats, next_values: Floats) -> Floats:
        deltas = np.multiply(self.gamma, next_values, order="C")  # so that ravel gives a view
        deltas[self.terminated] = 0.0  # whatever stood there
        deltas += rewards
        deltas -= values
        ends = self.ended.copy()
        ends[..., -1:] = True  # nothing is carried into a row from the one below it
        sum_from_the_end(deltas.ravel(), ends.ravel(), self.gamma * self.lam)
        return deltas


def _stream(name: str, value: ArrayLike) -> Floats:
    array = real_array(name, value)
    if array.ndim == 0:
        raise ValueError(f"{name} is {array}, a scalar; it must have an axis of time")
    return array


def sum_from_the_end(x: Floats, ends: Flags, decay: float) -> None:
    """x_t ← x_t + c (1 − end_t) x_{t+1} in place, from the last step [N − 1] to the first.

    The stream is cut into pieces. One without an end is a product with a matrix of powers of c;
    those with ends are summed step by step, side by side. The first entries of the pieces are a
    stream again, of decay c^PIECE, which says what each piece receives from the next.
    """
    whole = len(x) - len(x) % PIECE
    for t in range(len(x) - 2, max(whole, 1) - 2, -1):  # the rest, and its step into the pieces
        if not ends[t]:
            x[t] += decay * x[t + 1]
    if not whole:
        return
    pieces = x[:whole].reshape(-1, PIECE)
    at = np.flatnonzero(ends[:whole])
    has_end = np.zeros(len(pieces), np.bool_)
    has_end[at // PIECE] = True
    cut = np.flatnonzero(has_end)
    carry = np.full((PIECE, len(cut)), decay)
    carry[at % PIECE, np.searchsorted(cut, at // PIECE)] = 0.0
    stepwise = pieces[cut].T.copy()  # [PIECE, cut pieces]
    for t in range(PIECE - 2, -1, -1):
        stepwise[t] += carry[t] * stepwise[t + 1]
    steps = np.arange(PIECE)
    powers = np.tril(decay ** np.maximum(steps[:, np.newaxis] - steps, 0))  # [from, to]
    first = pieces @ powers[:, 0]
    first[cut] = stepwise[0]
    sum_from_the_end(first, has_end, decay**PIECE)
    after = np.append(first[1:], 0.0)  # what comes after each piece
    pieces[:, -1] += decay * after
    for k in range(0, len(pieces), BLOCK):
        pieces[k : k + BLOCK] = pieces[k : k + BLOCK] @ powers
    reach = after[cut]
    for t in range(PIECE - 1, -1, -1):
        reach = carry[t] * reach
        stepwise[t] += reach
    pieces[cut] = stepwise.T


def _linear(compute: Callable[..., Floats], *arrays: Floats) -> Floats:
    """`compute` of arrays in which it is linear; only what is beyond float64 is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        direct = compute(*arrays)
        if np.isfinite(direct).all():
            return direct
        scale = 2.0 ** (arrays[0].shape[-1].bit_length() + 2)  # exact, and nothing overflows
        careful = scale * compute(*(array / scale for array in arrays))
        return np.where(np.isfinite(direct), direct, careful)
