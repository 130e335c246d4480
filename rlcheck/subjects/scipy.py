"""SciPy 1.17.1: log-softmax, divergences, discounted sums and a log-probability, in float64.

A yardstick: general mathematics that knows nothing of reinforcement learning.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
import scipy.signal
import scipy.special
import scipy.stats

__all__ = [
    "behavior_logprob",
    "cql_discrete_penalty",
    "discounted_return",
    "discounted_td_sum",
    "exact_kl_from_logits",
    "return_to_go",
    "stable_log_softmax",
]

__version__ = version("scipy")


def return_to_go(rewards: Any, gamma: float = 1.0) -> Any:
    """`scipy.signal.lfilter([1], [1, −γ], ·)` over the rewards in reverse order, reversed back."""
    backwards = np.asarray(rewards, dtype=float)[::-1]
    return scipy.signal.lfilter([1.0], [1.0, -float(gamma)], backwards)[::-1]


def discounted_return(rewards: Any, gamma: float) -> float:
    """`scipy.signal.lfilter`, as in `return_to_go`, its value at the first step.

    Without steps there is no such value, and the sum of the empty answer is taken.
    """
    return float(return_to_go(rewards, gamma)[:1].sum())


def discounted_td_sum(deltas: Any, gamma: float) -> float:
    """`scipy.signal.lfilter`, as in `discounted_return`, over temporal differences."""
    return discounted_return(deltas, gamma)


def stable_log_softmax(logits: Any, axis: int = -1) -> Any:
    """`scipy.special.log_softmax(logits, axis)`."""
    return scipy.special.log_softmax(np.asarray(logits, dtype=float), axis=axis)


def exact_kl_from_logits(q_logits: Any, p_logits: Any, axis: int = -1) -> Any:
    """`scipy.special.rel_entr` of two `scipy.special.softmax`, summed along the axis."""
    q = scipy.special.softmax(np.asarray(q_logits, dtype=float), axis=axis)
    p = scipy.special.softmax(np.asarray(p_logits, dtype=float), axis=axis)
    return scipy.special.rel_entr(q, p).sum(axis=axis)


def cql_discrete_penalty(q_values: Any, action: Any) -> Any:
    """`scipy.special.logsumexp` along the actions, less the value of the data action."""
    values, chosen = np.asarray(q_values, dtype=float), np.asarray(action, dtype=int)[..., None]
    data = np.take_along_axis(values, chosen, axis=-1)[..., 0]
    answer = scipy.special.logsumexp(values, axis=-1) - data
    return answer if values.ndim > 1 else float(answer)


def behavior_logprob(distribution: Any, token: int) -> float:
    """`scipy.stats.multinomial.logpmf` of one draw, the token's count being 1.

    SciPy puts 1 − Σ of the others in the place of the last probability.
    """
    chances = np.asarray(distribution, dtype=float)
    counts = np.zeros(len(chances), dtype=int)
    counts[int(token)] = 1
    return float(scipy.stats.multinomial.logpmf(counts, n=1, p=chances))
