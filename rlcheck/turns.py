"""Probabilities of whole turns: a turn of many tokens is one action of the agent."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlcheck._inputs import Floats, refuse_where, scalar, vector

__all__ = ["macro_action_logprob", "semantic_action_probability", "turn_probability_ratio"]

PROBABILITY_SLACK = 1e-9  # how far probabilities of strings may add up beyond 1
# Sums are formed of terms divided by 2^64, so that no part of a sum overflows before its end.
HEADROOM = 2.0**64


def macro_action_logprob(logprobs: ArrayLike) -> float:
    """Log-probability of one turn, the macro-action that its tokens make up.

    log π(turn | context) = Σ_t log p_t

    Args:
        logprobs: [T] log-probability of each token given those before it, ≤ 0, T ≥ 1; −inf is
            the log-probability of a token that the policy cannot emit.

    Returns:
        The sum; −inf when one token is impossible or when the sum is beyond float64.

    Raises:
        ValueError: no token, NaN or a value above 0; the text names index and value.
        TypeError: text, None or a mapping where numbers are due.

    Reference:
        Sutton, Precup and Singh (1999), Between MDPs and semi-MDPs, section 2; the chain rule.
    """
    logprobs = vector("logprobs", logprobs, allow="infinite")
    if len(logprobs) == 0:
        raise ValueError("logprobs has length 0; a turn has at least one token")
    refuse_where("logprobs", logprobs, logprobs > 0, "≤ 0")
    with np.errstate(over="ignore"):  # a sum beyond float64 is −inf
        return float(logprobs.sum())


def turn_probability_ratio(current: ArrayLike, behavior: ArrayLike) -> float:
    """Probability of a turn under the current policy over that under the behaviour policy.

    ρ = exp(Σ_t (log π_t − log μ_t)) = Π_t π_t / μ_t

    Args:
        current: [T] log-probability log π_t of each sampled token under the current policy;
            −inf where that policy rules the token out.
        behavior: [T] log-probability log μ_t under the policy that sampled the turn, finite.

    Returns:
        The ratio; 1.0 without tokens, 0.0 when the current policy rules a token out, inf beyond
        float64.

    Raises:
        ValueError: unequal lengths, NaN, +inf, or a behaviour log-probability of −inf, which
            no sampled token can have.
        TypeError: text, None or a mapping where numbers are due.

    Reference:
        Precup, Sutton and Singh (2000), Eligibility traces for off-policy policy evaluation.
    """
    current = vector("current", current, allow="infinite")
    refuse_where("current", current, current == np.inf, "finite or −inf")
    behavior = vector("behavior", behavior, length=len(current))
    log_ratio = _exact_sum(np.concatenate([current, -behavior]))
    with np.errstate(over="ignore"):  # a ratio beyond float64 is inf
        return float(np.exp(log_ratio))


def _exact_sum(terms: Floats) -> float:
    """The correctly rounded sum; partial sums beyond float64 do not spoil it."""
    return math.fsum(terms / HEADROOM) * HEADROOM


def semantic_action_probability(
    string_probabilities: Mapping[str, float],
    parser: Mapping[str, Any] | Callable[[str], Any],
    action: Any,
) -> float:
    """Probability that the text of a turn means an action: its spellings add up.

    P(a) = Σ_{s : parser(s) = a} p(s)

    Args:
        string_probabilities: probability of each string, ≥ 0, with a sum of at most 1 + 1e-9;
            what is missing from 1 belongs to strings that are not listed.
        parser: the action that a string means, as a mapping or a callable. A string that it
            does not know (absent, None, LookupError) means no action.
        action: the action whose probability is due.

    Returns:
        The probability; 0.0 when no string means the action.

    Raises:
        ValueError: a probability is negative, NaN or infinite, or their sum exceeds 1.
        TypeError: no mapping of numbers, or a parser that is neither mapping nor callable.

    Reference:
        Kuhn, Gal and Farquhar (2023), Semantic uncertainty, equation 2, with a parser for the
        equivalence of meanings.
    """
    if not isinstance(string_probabilities, Mapping):
        raise TypeError(f"string_probabilities is {string_probabilities!r}; a mapping is due")
    probabilities = {s: _probability(s, p) for s, p in string_probabilities.items()}
    if sum(probabilities.values()) > 1.0 + PROBABILITY_SLACK:
        raise ValueError(
            f"string_probabilities sums to {sum(probabilities.values())}; it must be at most 1"
        )
    return math.fsum(p for s, p in probabilities.items() if _means(parser, s, action))


def _probability(string: str, value: Any) -> float:
    name = f"string_probabilities[{string!r}]"
    number = scalar(name, value)
    if number < 0:
        raise ValueError(f"{name} is {number}; it must be ≥ 0")
    return number


def _means(parser: Mapping[str, Any] | Callable[[str], Any], string: str, action: Any) -> bool:
    if isinstance(parser, Mapping):
        parsed = parser.get(string)  # never parser[string], which may fill a defaultdict
    elif callable(parser):
        try:
            parsed = parser(string)
        except LookupError:
            return False
    else:
        raise TypeError(f"parser is {parser!r}; a mapping or a callable is due")
    return parsed is not None and bool(parsed == action)
