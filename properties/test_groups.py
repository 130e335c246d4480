"""Laws of `rlcheck.groups`."""

import itertools
import math
from fractions import Fraction

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.grading.compare import (
    assert_close,
    assert_in_range,
    assert_quiet,
    assert_refuses,
    assert_same,
    assert_untouched,
    exact,
    nearest_float,
    number,
)
from rlcheck.grading.laws import law

from .strategies import refusals, refuse

REFUSALS = {
    "informative_group_probability": (
        refuse(-0.1, 4, says="p is -0.1; it must lie in [0, 1]"),
        refuse(-1e-300, 4, says="p is -1e-300"),
        refuse(1.1, 4, says="p is 1.1"),
        refuse(1.0 + 2**-52, 4, says="p is 1.0000000000000002"),
        refuse(2, 4, says="p is 2.0"),
        refuse(math.nan, 4, says="p is nan"),
        refuse(math.inf, 4, says="p is inf"),
        refuse(0.5, 0, says="group_size is 0; it must be an integer ≥ 1"),
        refuse(0.5, -2, says="group_size is -2"),
        refuse(0.5, 2.5, says="group_size is 2.5"),
        refuse(0.5, 0.5, says="group_size is 0.5"),
        refuse(0.5, math.nan, says="group_size is nan"),
        refuse(0.5, math.inf, says="group_size is inf"),
        refuse(0.0, 0, says="group_size is 0"),
        refuse("0.5", 4, says="p is '0.5'"),
        refuse(None, 4, says="p is None"),
        refuse(0.5, None, says="group_size is None"),
        refuse(0.5, "4", says="group_size is '4'"),
    ),
}

RELATIVE = 1e-12  # the error that the contract allows

ORDINARY = tuple(k / 16 for k in (8, 1, 15, 4, 12, 3, 5, 11, 13, 2, 14))
ROUGH = (0.1, 0.9, 1 / 3, 0.7, 0.999, 1e-3, 0.05)
RARE = (1e-8, 1e-9, 1e-12, 1e-16, 1e-20, 1e-100, 1e-300, 2**-52)
SURE = (1.0 - 1e-8, 1.0 - 1e-12, 1.0 - 1e-16, 1.0 - 2**-52)
ENDS = (0.0, 1.0)
SMALL_GROUPS = (2, 1, 3, 4, 5, 6, 7, 8, 16, 31)
LARGE_GROUPS = (64, 1000, 10**6)


def success_probabilities() -> st.SearchStrategy[float]:
    """Ordinary, rare and almost sure successes, and both ends."""
    return st.sampled_from((*ORDINARY, *ROUGH, *RARE, *SURE, *ENDS))


def uncertain() -> st.SearchStrategy[float]:
    """Probabilities strictly between 0 and 1."""
    return st.sampled_from((*ORDINARY, *ROUGH, *RARE, *SURE))


def group_sizes() -> st.SearchStrategy[int]:
    """Groups of one, of the usual sizes, and a few larger ones."""
    return st.sampled_from(SMALL_GROUPS)


def informative(p: float, group_size: int) -> Fraction:
    """The exact probability, of p as the rational number that it is."""
    return 1 - exact(p) ** group_size - (1 - exact(p)) ** group_size


def assert_relatively_close(got, truth):
    """Within a relative 1e-12 of a rational number."""
    expected = nearest_float(truth)
    assert_close(got, expected, terms=0.0, slack=RELATIVE * expected)


@law(p=success_probabilities(), group_size=group_sizes())
@example(p=1e-300, group_size=8)
@example(p=1.0 - 1e-16, group_size=8)
@example(p=1e-9, group_size=2)
def test_informative_group_probability_is_exact_at_every_p(
    informative_group_probability, p, group_size
):
    """The probability keeps twelve digits however rare or sure a success is.

    1 − p^G − (1 − p)^G in exact rational arithmetic, to a relative error of 1e-12.
    """
    got = assert_quiet(informative_group_probability, p, group_size)
    assert_relatively_close(got, informative(p, group_size))


@law(k=st.integers(0, 16), group_size=st.integers(1, 6))
@example(k=8, group_size=2)
def test_informative_groups_are_those_with_both_outcomes(
    informative_group_probability, k, group_size
):
    """A group carries a gradient when it holds both a success and a failure.

    The sum of p^k (1 − p)^(G − k) over the outcomes of G rollouts that are not all equal, one by
    one.
    """
    weights = (16 - k, k)  # of a failure and of a success, in sixteenths
    outcomes = itertools.product((0, 1), repeat=group_size)
    mixed = (outcome for outcome in outcomes if 0 < sum(outcome) < group_size)
    truth = Fraction(sum(math.prod(weights[i] for i in o) for o in mixed), 16**group_size)
    assert_relatively_close(informative_group_probability(k / 16, group_size), truth)


@law(k=st.integers(0, 64), scale=st.sampled_from((6, 30, 52)), group_size=group_sizes())
def test_informative_group_probability_does_not_know_success_from_failure(
    informative_group_probability, k, scale, group_size
):
    """Exchanging success and failure changes nothing.

    P(p) = P(1 − p), for p with an exact 1 − p
    """
    p = k / 2.0**scale
    failure = number(informative_group_probability(1.0 - p, group_size))
    got = informative_group_probability(p, group_size)
    assert_close(got, failure, terms=0.0, slack=2 * RELATIVE * abs(failure))


@law(p=uncertain())
def test_group_of_three_is_informative_half_again_as_often_as_a_pair(
    informative_group_probability, p
):
    """A pair differs with probability 2 p (1 − p), and a triple with 3 p (1 − p)."""
    variance = exact(p) * (1 - exact(p))
    assert_relatively_close(informative_group_probability(p, 2), 2 * variance)
    assert_relatively_close(informative_group_probability(p, 3), 3 * variance)


@law(p=success_probabilities(), group_size=group_sizes())
def test_group_grows_more_informative_with_every_rollout(
    informative_group_probability, p, group_size
):
    """One more rollout adds the groups that were all equal and are so no longer.

    P(G + 1) − P(G) = p^G (1 − p) + (1 − p)^G p ≥ 0, and P(G) ≤ 1 − 2^(1 − G)
    """
    smaller = number(informative_group_probability(p, group_size))
    larger = number(informative_group_probability(p, group_size + 1))
    success, failure = exact(p), 1 - exact(p)
    gain = nearest_float(success**group_size * failure + failure**group_size * success)
    assert_close(larger, smaller + gain, terms=0.0, slack=2 * RELATIVE * (abs(smaller) + gain))
    assert_in_range(smaller, 0.0, (1 - 0.5 ** (group_size - 1)) * (1 + RELATIVE))


@law(p=success_probabilities(), end=st.sampled_from(ENDS), group_size=group_sizes())
@example(p=0.3, end=1.0, group_size=10**6)
def test_group_of_one_and_group_without_doubt_are_never_informative(
    informative_group_probability, p, end, group_size
):
    """One rollout, or rollouts that all succeed or all fail, carry no gradient: exactly 0."""
    assert_same(informative_group_probability(p, 1), 0.0)
    assert_same(informative_group_probability(end, group_size), 0.0)


@law(p=st.sampled_from((*ROUGH, *RARE, *SURE)), group_size=st.sampled_from(LARGE_GROUPS))
def test_large_group_is_informative_as_often_as_the_rarer_outcome_turns_up(
    informative_group_probability, p, group_size
):
    """In a large group, all that counts is whether the rarer outcome occurs.

    With m = min(p, 1 − p): P = Σ_k C(G, k) (−1)^(k+1) m^k − m^G, whose series is cut off when
    G m is small, and P → 1 when G m is large.
    """
    m = min(exact(p), 1 - exact(p))
    got = informative_group_probability(p, group_size)
    if group_size * m < Fraction(1, 50):
        series = sum(-math.comb(group_size, k) * (-m) ** k for k in range(1, 8))
        assert_relatively_close(got, series)
    elif group_size * m > 40:
        assert_close(got, 1.0, terms=0.0, slack=RELATIVE)
    else:
        assert_in_range(got, 0.0, 1.0)


@law(k=st.integers(0, 8), group_size=st.sampled_from((2, 1, 3, 8)))
def test_informative_group_probability_takes_any_number(
    informative_group_probability, k, group_size
):
    """Integers, float32 and arrays without axes mean the same numbers; G = 4.0 is 4."""
    truth = informative(k / 8, group_size)
    for p in (np.float32(k / 8), np.array(k / 8), k // 8 if k in (0, 8) else k / 8):
        for size in (group_size, float(group_size), np.int64(group_size), np.array(group_size)):
            assert_relatively_close(number(informative_group_probability(p, size)), truth)
    assert_untouched(informative_group_probability, np.array(k / 8), np.array(group_size))


@law(bad=refusals(REFUSALS["informative_group_probability"]))
def test_informative_group_probability_refuses(informative_group_probability, bad):
    """p lies in [0, 1], and a group has at least one rollout, a whole number of them."""
    assert_refuses(informative_group_probability, *bad.args, **bad.kwargs)
