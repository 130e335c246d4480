"""Laws of `rlcheck.groups`."""

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import groups as reference
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
    numbers,
)
from rlcheck.grading.laws import law

from . import precise
from .ordinary import Sample, law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import BOOLEANS, FORMS, evenly, forms, long_row, near, steps, whole_numbers

NAN, INF = math.nan, math.inf

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
    "group_advantages": (
        refuse([1.0, NAN], [0, 0], says="rewards[1] is nan; it must be finite where valid"),
        refuse([INF, 1.0], ["a", "a"], says="rewards[0] is inf"),
        refuse([1.0, -INF], [0, 1], scale="none", says="rewards[1] is -inf"),
        refuse([NAN, NAN, 1.0], [0, 0, 0], valid=[0, 1, 1], says="rewards[1] is nan"),
        refuse([1.0, 2.0], [0], says="group_ids has length 1; it must have length 2"),
        refuse([1.0], [0, 0], says="group_ids has length 2; it must have length 1"),
        refuse([1.0, 2.0], [0, None], says="group_ids[1] is None; a number or a text is due"),
        refuse([1.0, 2.0, 3.0], [NAN, 0.0, 0.0], says="group_ids[0] is nan"),
        refuse([1.0, 2.0], [NAN, NAN], says="group_ids[0] is nan"),
        refuse([1.0, 2.0], None, says="group_ids is None"),
        refuse([1.0, 2.0], 0, says="group_ids is 0"),
        refuse([1.0, 2.0], [0, 0], valid=[1], says="valid has shape (1,)"),
        refuse([1.0, 2.0], [0, 0], valid=[1, 2], says="valid[1] is 2; it must be 0 or 1"),
        refuse([1.0, 2.0], [0, 0], valid=[0.5, 1.0], says="valid[0] is 0.5"),
        refuse([1.0, 2.0], [0, 0], scale="mean", says="scale is 'mean'"),
        refuse([1.0, 2.0], [0, 0], scale=None, says="scale is None"),
        refuse([1.0, 2.0], [0, 0], ddof=2, says="ddof is 2; it must be 0 or 1"),
        refuse([1.0, 2.0, 4.0], [0, 0, 0], ddof=2, says="ddof is 2"),
        refuse([1.0, 2.0], [0, 0], ddof=-1, says="ddof is -1"),
        refuse([1.0, 2.0, 4.0], [0, 0, 0], ddof=0.5, says="ddof is 0.5"),
        refuse([1.0, 2.0], [0, 0], eps=-1e-6, says="eps is -1e-06; it must be ≥ 0"),
        refuse([1.0, 2.0], [0, 0], eps=NAN, says="eps is nan"),
        refuse([1.0, 2.0], [0, 0], eps="0", says="eps is '0'"),
        refuse([[1.0, 2.0]], [0], says="rewards has shape (1, 2); it must be a vector"),
        refuse(1.0, [0], says="rewards has shape ()"),
        refuse("12", [0, 0], says="rewards is '12'"),
        refuse([1.0, None], [0, 0], says="rewards[1] is None"),
    ),
    "leave_one_out_advantages": (
        refuse([5.0], [0], says="group_ids[0] is 0, which no other row has"),
        refuse([2.0, 4.0, 9.0], ["a", "a", "b"], says="group_ids[2] is 'b'"),
        refuse([2.0, 4.0], [1, 2], says="group_ids[0] is 1"),
        refuse([2.0, 4.0, 9.0], [7, 3, 7], says="group_ids[1] is 3"),
        refuse([1.0, NAN], [0, 0], says="rewards[1] is nan; it must be finite"),
        refuse([1.0, 2.0, -INF], [0, 0, 0], says="rewards[2] is -inf"),
        refuse([1.0, 2.0], [0, 0, 0], says="group_ids has length 3; it must have length 2"),
        refuse([1.0, 2.0, 3.0], [0, 0], says="group_ids has length 2"),
        refuse([1.0, 2.0], [None, None], says="group_ids[0] is None"),
        refuse([1.0, 2.0, 3.0], [0.0, 0.0, NAN], says="group_ids[2] is nan"),
        refuse([1.0, 2.0], None, says="group_ids is None"),
        refuse([[1.0, 2.0]], [0, 0], says="rewards has shape (1, 2); it must be a vector"),
        refuse(["1", "2"], [0, 0], says="rewards[0] is '1'"),
        refuse([1.0, None], [0, 0], says="rewards[1] is None"),
    ),
}

RELATIVE = 1e-12  # the error that the contract allows

ORDINARY = tuple(k / 16 for k in (8, 1, 15, 4, 12, 3, 5, 11, 13, 2, 14))
ROUGH = (0.1, 0.9, 1 / 3, 0.7, 0.999, 1e-3, 0.05)
RARE = (1e-8, 1e-9, 1e-12, 1e-16, 1e-20, 1e-100, 1e-300, 2**-52)
SURE = (1.0 - 1e-8, 1.0 - 1e-12, 1.0 - 1e-16, 1.0 - 2**-52)
ENDS = (0.0, 1.0)
PARTS = 2**20  # of which a probability is made
SMALL_GROUPS = (2, 1, 3, 4, 5, 6, 7, 8, 16, 31)
LARGE_GROUPS = (64, 1000, 10**6)


def success_probabilities() -> st.SearchStrategy[float]:
    """Ordinary, rare and almost sure successes, and both ends."""
    named = st.sampled_from((*ORDINARY, *ROUGH, *RARE, *SURE, *ENDS))
    return st.one_of(named, near(*ROUGH, *RARE))


def uncertain() -> st.SearchStrategy[float]:
    """Probabilities strictly between 0 and 1."""
    return st.one_of(st.sampled_from((*ORDINARY, *ROUGH, *RARE, *SURE)), near(*ROUGH, *RARE))


def group_sizes() -> st.SearchStrategy[int]:
    """Groups of one, of the usual sizes, and larger ones."""
    return st.one_of(st.sampled_from(SMALL_GROUPS), st.integers(2, 128))


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
@example(p=0.3, group_size=10)
@example(p=0.05, group_size=64)
def test_informative_group_probability_is_exact_at_every_p(
    informative_group_probability, p, group_size
):
    """The probability keeps twelve digits however rare or sure a success is.

    1 − p^G − (1 − p)^G in exact rational arithmetic, to a relative error of 1e-12.
    """
    got = assert_quiet(informative_group_probability, p, group_size)
    assert_relatively_close(got, informative(p, group_size))


@law(k=st.integers(0, PARTS), group_size=st.integers(1, 6))
@example(k=PARTS // 2, group_size=2)
@example(k=0, group_size=3)
@example(k=PARTS, group_size=3)
def test_informative_groups_are_those_with_both_outcomes(
    informative_group_probability, k, group_size
):
    """A group carries a gradient when it holds both a success and a failure.

    The sum of p^k (1 − p)^(G − k) over the outcomes of G rollouts that are not all equal, one by
    one.
    """
    weights = (PARTS - k, k)  # of a failure and of a success
    outcomes = itertools.product((0, 1), repeat=group_size)
    mixed = (outcome for outcome in outcomes if 0 < sum(outcome) < group_size)
    truth = Fraction(sum(math.prod(weights[i] for i in o) for o in mixed), PARTS**group_size)
    assert_relatively_close(informative_group_probability(k / PARTS, group_size), truth)


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


@law(
    p=st.one_of(st.sampled_from((*ROUGH, *RARE, *SURE)), near(*ROUGH, *RARE)),
    group_size=st.sampled_from(LARGE_GROUPS),
)
def test_large_group_is_informative_as_often_as_the_rarer_outcome_turns_up(
    informative_group_probability, p, group_size
):
    """In a large group, all that counts is whether the rarer outcome occurs.

    With m = min(p, 1 − p): P = Σ_k C(G, k) (−1)^(k+1) m^k − m^G, whose series is cut off when
    G m is small; P → 1 when G m is large; and between, 1 − (1 − m)^G of fifty digits, where m^G is
    far below what is asked for.
    """
    m = min(exact(p), 1 - exact(p))
    got = informative_group_probability(p, group_size)
    if group_size * m < Fraction(1, 50):
        series = sum(-math.comb(group_size, k) * (-m) ** k for k in range(1, 8))
        assert_relatively_close(got, series)
    elif group_size * m > 40:
        assert_close(got, 1.0, terms=0.0, slack=RELATIVE)
    else:
        all_alike = precise.exp(precise.times(Decimal(group_size), precise.log(1 - m)))
        assert_relatively_close(got, 1 - Fraction(all_alike))


@law(k=st.integers(0, 64), group_size=st.integers(1, 4))
@example(k=0, group_size=2)
@example(k=64, group_size=2)
def test_informative_group_probability_takes_any_number(
    informative_group_probability, k, group_size
):
    """Integers, float32 and arrays without axes mean the same numbers; G = 4.0 is 4."""
    p = k / 64  # p^G is exact in float32 too
    truth = informative(p, group_size)
    for form in (np.float32, np.array, int if p in ENDS else float):
        for size in (group_size, float(group_size), np.int64(group_size), np.array(group_size)):
            assert_relatively_close(number(informative_group_probability(form(p), size)), truth)
    assert_untouched(informative_group_probability, np.array(p), np.array(group_size))


@law_of_refusals(REFUSALS["informative_group_probability"])
def test_informative_group_probability_refuses(informative_group_probability, bad):
    """p lies in [0, 1], and a group has at least one rollout, a whole number of them."""
    assert_refuses(informative_group_probability, *bad.args, **bad.kwargs)


# --- groups of rollouts ------------------------------------------------------------------------

REWARDS = (
    *(0.0, 1.0, 0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 10.0, 0.1, 0.3, 0.9, -0.7, 1.1, 100.0, 1 / 3),
    *(10.0 * (i * 0.6180339887498949 % 1.0) - 5.0 for i in range(1, 17)),
)  # 32
# Whole numbers of eighths and quarters: sums with the offsets below are exact.
EIGHTHS = tuple(k / 8 for k in (0, 8, -8, 4, 1, -3, 16, 11, 0, 8, 2, -5, 80, 7, -1, 24))
ID_STYLES: tuple[tuple[Hashable, ...], ...] = (
    (0, 1, 2, 3),
    ("a", "b", "c", "d"),
    (7, -3, 10**9, 2),
    (0.5, 0.25, -0.75, 0.125),
    ("prompt 1", "prompt 10", "prompt", ""),
    ("1", "01", "1.0", " 1"),  # texts, not numbers
    tuple("a whole prompt, its own name: " + end for end in ("How?", "how?", "How? ", "How many?")),
    (0.12341, 0.12342, 0.1234, 0.1),
    (2**24, 2**24 + 1, 2**53 + 1, 2**53),  # beyond what single and double precision tell apart
)
ACCURACY = 1e-10  # of a standard deviation, times 1 + mean + std


@dataclass(frozen=True)
class Rollouts:
    """Rewards of rollouts, the group of each, and whether it counts."""

    rewards: list[float]
    ids: Any
    valid: list[bool]

    @property
    def groups(self) -> list[list[int]]:
        """The rows of each group."""
        rows: dict[Any, list[int]] = {}
        for i, name in enumerate(self.ids):
            rows.setdefault(name, []).append(i)
        return list(rows.values())

    def only(self, rows: Sequence[int]) -> "Rollouts":
        """Some of the rows, in the order that is given."""
        picked = ([column[i] for i in rows] for column in (self.rewards, self.ids, self.valid))
        return Rollouts(*picked)


def batch(rewards: Sequence[float], ids: Sequence[Any]) -> Rollouts:
    """Rollouts that all count."""
    return Rollouts(list(rewards), list(ids), [True] * len(rewards))


LONG_BATCH = Rollouts(
    long_row(60), [f"prompt {i % 7}" for i in range(60)], [i % 4 > 0 for i in range(60)]
)


def rollouts(
    rewards: tuple[float, ...] = REWARDS, *, max_size: int = 10
) -> st.SearchStrategy[Rollouts]:
    """Rollouts of up to four groups, in any order; a quarter do not count, where a law asks."""
    rows = steps(
        lambda reward, group, valid: (rewards[reward], group, valid > 0),
        *(len(rewards), 4, 4),
        max_size=max_size,
    )
    return st.tuples(rows, evenly(len(ID_STYLES)).map(ID_STYLES.__getitem__)).map(
        lambda drawn: Rollouts(
            [reward for reward, _, _ in drawn[0]],
            [drawn[1][group] for _, group, _ in drawn[0]],
            [valid for _, _, valid in drawn[0]],
        )
    )


def siblings(rewards: tuple[float, ...] = REWARDS) -> st.SearchStrategy[Rollouts]:
    """Rollouts of which none is alone in its group."""

    def paired(drawn: Rollouts) -> Rollouts:
        alone = [rows[0] for rows in drawn.groups if len(rows) == 1]
        ids = drawn.ids + [drawn.ids[i] for i in alone]
        return batch(drawn.rewards + [rewards[7 * i % len(rewards)] for i in alone], ids)

    return rollouts(rewards, max_size=8).map(paired)


def counted_in_units(rewards: Sequence[float]) -> tuple[list[int], int]:
    """Rewards as whole numbers of one unit, and how many of it make 1; the latter a power of 2."""
    ratios = [float(reward).as_integer_ratio() for reward in rewards]
    units = max(below for _, below in ratios)
    return [above * (units // below) for above, below in ratios], units


def centred(rewards: Sequence[float]) -> list[float]:
    """Each reward less the mean, as the mean difference from each: Σ_j (r_i − r_j) / n."""
    whole, units = counted_in_units(rewards)
    return [sum(a - b for b in whole) / (len(whole) * units) for a in whole]


def deviation(rewards: Sequence[float], ddof: int) -> float:
    """The standard deviation, from the differences of all pairs.

    √(Σ_{i<j} (r_i − r_j)² / (n (n − ddof)))
    """
    whole, units = counted_in_units(rewards)
    squares = sum((a - b) ** 2 for a, b in itertools.combinations(whole, 2))
    return math.sqrt(squares / (len(whole) * max(len(whole) - ddof, 1) * units**2))


def magnitudes(rewards: Sequence[float]) -> Any:
    """[n] the absolute terms of r_i − mean."""
    return np.abs(rewards) + np.mean(np.abs(rewards))


@dataclass(frozen=True)
class Truth:
    """Advantages, the absolute terms of each, and what an unsure standard deviation allows."""

    values: Any
    terms: Any
    slack: Any

    def check(self, got: Any) -> None:
        assert_close(got, self.values, terms=self.terms, slack=self.slack)


def truth(drawn: Rollouts, *, scale: str = "std", ddof: int = 1, eps: float = 1e-6) -> Truth:
    """Exact advantages of rollouts that all count.

    A standard deviation may be off by 1e-10 (1 + mean + std), which the quotient passes on.
    """
    values, terms, slack = np.zeros((3, len(drawn.rewards)))
    for rows in drawn.groups:
        own = [drawn.rewards[i] for i in rows]
        pool = drawn.rewards if scale == "batch" else own
        divisor, unsure = 1.0, 0.0
        if scale != "none":
            std = deviation(pool, ddof)
            divisor = std + eps or 1.0  # nothing varies, and 0 is divided
            unsure = (1.0 + abs(np.mean(pool)) + std) / divisor
        values[rows] = [lead / divisor for lead in centred(own)]
        terms[rows] = magnitudes(own) / divisor + np.abs(values[rows]) * (1.0 + unsure)
        slack[rows] = ACCURACY * unsure * np.abs(values[rows])
    return Truth(values, terms, slack)


def scales(*names: str) -> st.SearchStrategy[str]:
    return st.sampled_from(names or ("std", "none", "batch"))


def ddofs() -> st.SearchStrategy[int]:
    return st.sampled_from((1, 0))


def epsilons() -> st.SearchStrategy[float]:
    return st.sampled_from((1e-6, 0.0, 1e-4, 0.5))


def ordinary_rollouts(sample: Sample) -> Rollouts:
    """Up to a hundred rollouts of up to twelve prompts, none of which has a single one."""
    count = 2 * sample.columns
    prompts = sample.chance("order").permutation(count) % min(sample.rows, sample.columns)
    fractions, texts = prompts / 8 - 0.5, [f"prompt {i}" for i in prompts]
    solved = 1.0 * sample.flags("solved", count, share=0.5)
    rewards = sample.choice("rewarded", sample.reals("rewards", count), solved)
    names = (prompts, prompts.tolist(), tuple(fractions.tolist()), fractions, texts, tuple(texts))
    return Rollouts(rewards.tolist(), sample.choice("named", *names), [True] * count)


def rotation(turn: int, count: int) -> list[int]:
    """One of eleven orders of up to eleven rows."""
    return sorted(range(count), key=lambda i: (7 * i + turn) % 11)


# --- group_advantages --------------------------------------------------------------------------


@law(drawn=rollouts(), ddof=ddofs(), eps=epsilons())
# THUDM/slime#1918
# radixark/miles#1573
@example(drawn=batch([2.0, 4.0, 9.0], [0, 0, 1]), ddof=1, eps=1e-6)
# verl-project/verl#6348
@example(drawn=batch([1.0, 1.00002], [0, 0]), ddof=1, eps=1e-6)
# huggingface/trl#5026
@example(drawn=batch([-3.0, -1.0], [0, 0]), ddof=1, eps=1e-6)
# NVIDIA-NeMo/RL#1518
# NVIDIA-NeMo/RL#1519
@example(drawn=batch([3.0, 0.0, 0.0], [0, 0, 0]), ddof=1, eps=1e-6)
# no deviation is too small to divide by, and none is lost to a common offset
@example(drawn=batch([0.0, 1e-9], [0, 0]), ddof=1, eps=0.0)
@example(drawn=batch([1e5, 1e5 + 0.01, 1e5 + 0.02], [0, 0, 0]), ddof=1, eps=0.0)
@example(drawn=batch([1.0, 2.0, 5.0, 9.0], ["a", "A", "a", "A"]), ddof=1, eps=1e-6)
@example(drawn=batch([1.0, 2.0, 5.0, 9.0], [-1, 1, -1, 1]), ddof=0, eps=1e-6)
def test_group_advantage_is_measured_in_deviations_of_the_group(group_advantages, drawn, ddof, eps):
    """An advantage is the distance to the group's mean over the group's standard deviation.

    (Σ_j (r_i − r_j) / n) / (√(Σ_{j<k} (r_j − r_k)² / (n (n − ddof))) + ε), summed exactly over
    the pairs of each group.
    """
    got = group_advantages(drawn.rewards, drawn.ids, ddof=ddof, eps=eps)
    truth(drawn, ddof=ddof, eps=eps).check(got)


@law(drawn=rollouts())
# verl-project/verl#6452
# OpenRLHF/OpenRLHF#1239
@example(drawn=Rollouts([90.0, 0.0, 2.0], [0, 0, 0], [False, True, True]))
def test_unscaled_group_advantage_is_the_distance_to_the_mean(group_advantages, drawn):
    """With scale "none" an advantage is the reward less the mean of its group.

    Σ_j (r_i − r_j) / n, over the rows of its group that count. Liu et al. (2025), Dr. GRPO.
    """
    rows = np.flatnonzero(drawn.valid)
    got = group_advantages(drawn.rewards, drawn.ids, scale="none", valid=drawn.valid)
    counted = truth(drawn.only(rows), scale="none")
    expected, terms = np.zeros((2, len(drawn.rewards)))
    expected[rows], terms[rows] = counted.values, counted.terms
    assert_close(got, expected, terms=terms)


@law(drawn=rollouts(), ddof=ddofs(), eps=epsilons())
@example(drawn=batch([1.0, 1.0, 5.0, 5.0], [0, 0, 1, 1]), ddof=1, eps=0.0)
# alibaba/ROLL#475
# alibaba/ROLL#476
@example(drawn=batch([5.0], [0]), ddof=1, eps=1e-6)
@example(drawn=batch([1e5, 1e5 + 0.01, 1e5 + 0.02], [0, 0, 1]), ddof=1, eps=0.0)
def test_batch_scale_is_one_deviation_of_all_raw_rewards(group_advantages, drawn, ddof, eps):
    """With scale "batch" all groups are divided by one standard deviation, of all rewards.

    It is that of the rewards as they are, not less the means of their groups.
    """
    got = group_advantages(drawn.rewards, drawn.ids, scale="batch", ddof=ddof, eps=eps)
    truth(drawn, scale="batch", ddof=ddof, eps=eps).check(got)


@law(size=st.integers(1, 64), share=st.integers(0, 64))
# redai-studio/Relax#174
@example(size=1, share=1)
@example(size=4, share=1)
def test_group_of_successes_and_failures_has_a_closed_form(group_advantages, size, share):
    """Among n rollouts of which k succeed, a success is worth (1 − k/n) / (std + 1e-6).

    std = √(k (n − k) / (n (n − 1))), and a failure −(k/n) / (std + 1e-6): what is left out is
    scale "std", ddof 1 and eps 1e-6.
    """
    good = min(share, size)
    rewards = [float((i * 37) % size < good) if size % 37 else float(i < good) for i in range(size)]
    std = math.sqrt(good * (size - good) / (size * max(size - 1, 1)))
    expected = np.where(np.array(rewards) > 0, 1 - good / size, -good / size) / (std + 1e-6)
    unsure = 2 * np.abs(expected) / (std + 1e-6)
    got = group_advantages(rewards, ["prompt"] * size)
    assert_close(got, expected, terms=unsure + 2.0, count=size, slack=ACCURACY * unsure)


EQUAL = (0.1, 0.3, 1.0, 0.9, 1.1, 0.2, -0.7, 1 / 3, 0.0, 1e-5, 123.456, 5.0, -2.0)


@law(
    rewards=st.tuples(st.sampled_from(EQUAL), st.sampled_from(EQUAL)),
    size=st.integers(1, 64),
    form=st.sampled_from((*FORMS, np.float16)),
    scale=scales(),
    eps=st.sampled_from((0.0, 1e-6)),
)
# NousResearch/atropos#481
@example(rewards=(0.2, 0.2), size=3, form=list, scale="std", eps=1e-6)
@example(rewards=(0.3, 0.3), size=8, form=FORMS[4], scale="std", eps=1e-6)
@example(rewards=(0.9, 0.3), size=3, form=list, scale="batch", eps=0.0)
# axolotl-ai-cloud/axolotl#3353
@example(rewards=(5.0, 5.0), size=1, form=list, scale="std", eps=1e-6)
def test_equal_rewards_give_exactly_zero(group_advantages, rewards, size, form, scale, eps):
    """A group whose rewards are all equal has advantages of exactly 0, whatever they are.

    The mean of n equal floats may miss them by a rounding error, and a standard deviation of
    1e-17 then makes it an advantage of any size. Holds for lists and every dtype, at ε = 0, and
    for a group of one.
    """
    given = form([x for x in rewards for _ in range(size)])
    names = ["a"] * size + ["b"] * size
    assert_same(group_advantages(given, names, scale=scale, eps=eps), [0.0] * 2 * size)


@law(
    drawn=rollouts(),
    junk=st.sampled_from((NAN, INF, -INF, 1e308, 50.0)),
    scale=scales(),
    options=st.sampled_from(({}, {"ddof": 0, "eps": 0.5}, {"eps": 1e-4})),
)
# huggingface/trl#5775
@example(
    drawn=Rollouts([1.0, 3.0, 0.0], [0, 0, 0], [True, True, False]),
    junk=NAN,
    scale="none",
    options={},
)
# verl-project/verl#6452
# OpenRLHF/OpenRLHF#1239
@example(
    drawn=Rollouts([0.0, 0.0, 2.0], [0] * 3, [False, True, True]),
    junk=90.0,
    scale="std",
    options={},
)
@example(
    drawn=Rollouts([1.0, 2.0, 5.0, 9.0], [0] * 4, [True, True, True, False]),
    junk=9.0,
    scale="std",
    options={"ddof": 0, "eps": 0.5},
)
# alibaba/ROLL#475
# alibaba/ROLL#476
@example(drawn=Rollouts([5.0, 0.0], [0, 0], [True, False]), junk=NAN, scale="batch", options={})
@example(drawn=LONG_BATCH, junk=NAN, scale="std", options={})
@example(drawn=LONG_BATCH, junk=INF, scale="batch", options={})
def test_rollouts_that_do_not_count_are_outside_every_statistic(
    group_advantages, drawn, junk, scale, options
):
    """A row that is not valid gets 0, and the others what they get without it.

    Its reward is never read; it may be NaN or infinite.
    """
    rows = np.flatnonzero(drawn.valid)
    rewards = [x if ok else junk for x, ok in zip(drawn.rewards, drawn.valid, strict=True)]
    got = numbers(
        group_advantages(rewards, drawn.ids, scale=scale, valid=drawn.valid, **options),
        shape=(len(rewards),),
    )
    truth(drawn.only(rows), scale=scale, **options).check(got[rows])
    assert_same(np.delete(got, rows), [0.0] * (len(rewards) - len(rows)))


@law(drawn=rollouts(), turn=st.integers(0, 10), scale=scales())
def test_permuted_rollouts_have_permuted_advantages(group_advantages, drawn, turn, scale):
    """Rows in another order have the same advantages in that order."""
    order = rotation(turn, len(drawn.rewards))
    moved = drawn.only(order)
    got = numbers(group_advantages(moved.rewards, moved.ids, scale=scale), shape=(len(order),))
    back = np.empty_like(got)
    back[order] = got
    truth(drawn, scale=scale).check(back)


@law(
    drawn=rollouts(EIGHTHS),
    offset=st.sampled_from((1.0, -3.5, 100.0, -1000.0, 2.0**20)),
    scale=scales("std", "none"),
)
@example(drawn=batch([0.0, 0.125, 0.0, 0.125], [0] * 4), offset=2.0**20, scale="std")
def test_a_constant_added_to_one_group_changes_nothing(group_advantages, drawn, offset, scale):
    """Only the differences within a group count.

    The first row's group is raised by an offset, exactly; the standard deviation may be off by
    1e-10 of it.
    """
    raised = [
        reward + offset if name == drawn.ids[0] else reward
        for reward, name in zip(drawn.rewards, drawn.ids, strict=True)
    ]
    moved, still = truth(batch(raised, drawn.ids), scale=scale), truth(drawn, scale=scale)
    got = group_advantages(raised, drawn.ids, scale=scale)
    assert_close(got, still.values, terms=moved.terms, slack=moved.slack)


@law(
    eighths=steps(EIGHTHS.__getitem__, 16, min_size=8, max_size=8),
    size=st.sampled_from((2, 4, 8)),
    offset=st.sampled_from((2.0**40, -(2.0**40))),
)
def test_a_large_offset_costs_a_centred_group_no_digits(group_advantages, eighths, size, offset):
    """Rewards far from 0 are centred as well as those near it, where their sum is exact.

    Whole numbers of eighths, 2^40 away from 0, in groups of 2, 4 or 8: their sum and their mean
    are floats.
    """
    drawn = batch([offset + x for x in eighths], [i % (8 // size) for i in range(8)])
    near = truth(batch(eighths, drawn.ids), scale="none")
    near.check(group_advantages(drawn.rewards, drawn.ids, scale="none"))


@law(
    drawn=rollouts(),
    factor=st.sampled_from((2.0, -1.0, 0.5, -8.0, 2.0**40, 2.0**-10)),
    scale=scales(),
)
def test_rewards_in_another_unit_have_the_same_advantages(group_advantages, drawn, factor, scale):
    """Without ε, scaled advantages do not notice the unit of the rewards, and unscaled ones do.

    A(c r) = A(r) for c > 0 and −A(r) for c < 0, with scale "none" c A(r); c is a power of 2.
    """
    scaled = batch([factor * reward for reward in drawn.rewards], drawn.ids)
    got = group_advantages(scaled.rewards, scaled.ids, scale=scale, eps=0.0)
    change = factor if scale == "none" else math.copysign(1.0, factor)
    before, bound = truth(drawn, scale=scale, eps=0.0), truth(scaled, scale=scale, eps=0.0)
    assert_close(got, change * before.values, terms=bound.terms, slack=bound.slack)


@law(drawn=rollouts(), scale=scales("std", "none"), ddof=ddofs())
def test_a_group_has_the_advantages_that_it_has_alone(group_advantages, drawn, scale, ddof):
    """Without "batch", the rollouts of other prompts change nothing."""
    together = truth(drawn, scale=scale, ddof=ddof)
    for rows in drawn.groups:
        alone = drawn.only(rows)
        got = group_advantages(alone.rewards, alone.ids, scale=scale, ddof=ddof)
        Truth(*(x[rows] for x in (together.values, together.terms, together.slack))).check(got)


@law(
    rewards=steps(REWARDS.__getitem__, 32, min_size=2, max_size=12),
    scale=scales("std", "batch"),
    ddof=ddofs(),
)
# redai-studio/Relax#174
@example(rewards=[1.0, 0.0, 0.0, 0.0], scale="std", ddof=1)
def test_advantages_of_a_group_have_mean_0_and_deviation_1(group_advantages, rewards, scale, ddof):
    """The advantages of one group add up to 0, and without ε their squares to n − ddof.

    A group of equal rewards has no squares at all.
    """
    size, names = len(rewards), [0] * len(rewards)
    got = 1.0 * numbers(
        group_advantages(rewards, names, scale=scale, ddof=ddof, eps=0.0), shape=(size,)
    )
    bound = truth(batch(rewards, names), scale=scale, ddof=ddof, eps=0.0)
    assert_close(got.sum(), 0.0, terms=bound.terms.sum(), slack=bound.slack.sum())
    squares = 0.0 if min(rewards) == max(rewards) else float(size - ddof)
    room = 4 * (np.abs(bound.values) * (bound.terms + bound.slack / ACCURACY)).sum()
    assert_close((got * got).sum(), squares, terms=room, slack=ACCURACY * room)


@law(drawn=rollouts(), ddof=ddofs(), scale=scales("std", "batch"))
def test_scaled_advantages_are_centred_ones_over_the_deviation(
    group_advantages, drawn, ddof, scale
):
    """Scaled and unscaled advantages of one batch differ by the factor std + ε."""
    shape = (len(drawn.rewards),)
    unscaled = 1.0 * numbers(group_advantages(drawn.rewards, drawn.ids, scale="none"), shape=shape)
    scaled = group_advantages(drawn.rewards, drawn.ids, scale=scale, ddof=ddof)
    pools = [
        drawn.rewards if scale == "batch" else drawn.only(rows).rewards for rows in drawn.groups
    ]
    divisor = np.ones(shape)
    for rows, pool in zip(drawn.groups, pools, strict=True):
        divisor[rows] = deviation(pool, ddof) + 1e-6
    bound = truth(drawn, scale=scale, ddof=ddof)
    assert_close(scaled, unscaled / divisor, terms=2 * bound.terms, slack=bound.slack)


@law(
    rewards=whole_numbers(),
    form=forms(),
    ids=st.sampled_from((list, tuple, np.array)),
    flags=st.sampled_from((list, np.array, np.float32, np.int64)),
)
@example(rewards=[1, 0, 0], form=BOOLEANS, ids=list, flags=list)
def test_group_advantages_read_any_array_and_leave_it_alone(
    group_advantages, rewards, form, ids, flags
):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed."""
    drawn = batch([float(x) for x in rewards], [i % 2 for i in range(len(rewards))])
    args = form(rewards), ids(drawn.ids)
    valid = flags([True] * len(rewards))
    truth(drawn).check(group_advantages(*args, valid=valid))
    assert_untouched(group_advantages, *args, valid=flags([i > 0 for i in range(len(rewards))]))


@law_of_ordinary_sizes
def test_group_advantages_of_batches_of_ordinary_size(group_advantages, sample):
    """Many prompts with many answers each, in any order, are each measured by themselves.

    A_i = (r_i − mean_g) / (std_g + ε) over the rows that count, with every option at once.
    """
    drawn = ordinary_rollouts(sample)
    share = sample.choice("share", 0.8, 0.8, 1.0)
    counts = sample.flags("valid", len(drawn.rewards), share=share)
    rewards, valid = sample.held(np.where(counts, drawn.rewards, 1e6), counts)
    chosen = {
        "scale": sample.choice("scale", "std", "none", "batch"),
        "ddof": sample.choice("ddof", 0, 1),
        "eps": sample.choice("eps", 1e-6, 0.0, 1e-4, 0.5, 3.0),
    }
    options = {name: chosen[name] for name in chosen if sample.choice(name + " given", 1, 1, 0)}
    which = {} if counts.all() else {"valid": valid}
    got = numbers(group_advantages(rewards, drawn.ids, **which, **options), shape=counts.shape)
    truth(drawn.only(np.flatnonzero(counts)), **options).check(got[counts])
    assert_same(got[~counts], np.zeros(np.sum(~counts)))


@law_of_refusals(REFUSALS["group_advantages"])
def test_group_advantages_refuse(group_advantages, bad):
    """Valid rewards are finite, ids are numbers or texts, and options are in their range."""
    assert_refuses(group_advantages, *bad.args, **bad.kwargs)


# --- leave_one_out_advantages ------------------------------------------------------------------


def left_out(drawn: Rollouts) -> tuple[Any, Any]:
    """[N] the exact r_i − mean of the others, and its absolute terms."""
    values, terms = np.zeros((2, len(drawn.rewards)))
    for rows in drawn.groups:
        own = [drawn.rewards[i] for i in rows]
        whole, units = counted_in_units(own)
        values[rows] = [sum(a - b for b in whole) / ((len(own) - 1) * units) for a in whole]
        terms[rows] = 2 * magnitudes(own)
    return values, terms


@law(drawn=siblings())
# redai-studio/Relax#174
@example(drawn=batch([1.0, 0.0, 0.0, 0.0], [0, 0, 0, 0]))
# NVIDIA-NeMo/RL#1518
# NVIDIA-NeMo/RL#1519
@example(drawn=batch([3.0, 0.0, 0.0], ["a", "a", "a"]))
@example(drawn=batch([1.0, 2.0, 5.0, 9.0], ["a", "A", "a", "A"]))
@example(drawn=batch([1.0, 2.0, 5.0, 9.0], [-1, 1, -1, 1]))
@example(drawn=batch(long_row(60), [i % 2 for i in range(60)]))
def test_leave_one_out_advantage_is_the_mean_lead_over_the_others(leave_one_out_advantages, drawn):
    """An advantage is the reward less the mean of the other rewards of its group.

    Σ_{j ≠ i} (r_i − r_j) / (k − 1), exactly.
    """
    values, terms = left_out(drawn)
    assert_close(leave_one_out_advantages(drawn.rewards, drawn.ids), values, terms=terms)


@law(drawn=siblings())
# redai-studio/Relax#174
@example(drawn=batch([1.0, 0.0, 0.0, 0.0], [0, 0, 0, 0]))
def test_leaving_one_out_stretches_centred_advantages(leave_one_out_advantages, drawn):
    """Leave-one-out advantages are k / (k − 1) times the centred ones, k the group's size."""
    size = np.array([drawn.ids.count(name) for name in drawn.ids], dtype=float)
    plain = reference.group_advantages(drawn.rewards, drawn.ids, scale="none")
    got = leave_one_out_advantages(drawn.rewards, drawn.ids)
    _, terms = left_out(drawn)
    assert_close(got, plain * size / (size - 1.0), terms=2 * terms)


@law(
    drawn=siblings(EIGHTHS).filter(lambda s: s.ids),
    row=evenly(16),
    rise=st.sampled_from((1.0, -2.0, 0.125, 100.0)),
)
def test_a_better_rollout_costs_each_of_the_others_its_share(
    leave_one_out_advantages, drawn, row, rise
):
    """Raising a reward by δ raises its own advantage by δ, and lowers the others' of its group.

    Each of the k − 1 others loses δ / (k − 1); a rollout's baseline does not know its reward.
    """
    row, shape = row % len(drawn.rewards), (len(drawn.rewards),)
    raised = [reward + rise * (i == row) for i, reward in enumerate(drawn.rewards)]
    before = 1.0 * numbers(leave_one_out_advantages(drawn.rewards, drawn.ids), shape=shape)
    mates = np.array([name == drawn.ids[row] for name in drawn.ids])
    change = np.where(mates, -rise / (mates.sum() - 1), 0.0)
    change[row] = rise
    after = leave_one_out_advantages(raised, drawn.ids)
    bound = left_out(drawn)[1] + left_out(batch(raised, drawn.ids))[1]
    assert_close(after, before + change, terms=bound)


@law(
    rewards=st.tuples(st.sampled_from(EQUAL), st.sampled_from(EQUAL)),
    size=st.integers(2, 64),
    form=st.sampled_from((*FORMS, np.float16)),
)
@example(rewards=(0.3, 0.9), size=3, form=list)
def test_leaving_one_of_equal_rewards_out_gives_zero(leave_one_out_advantages, rewards, size, form):
    """Where all rewards of a group are equal, none leads, for every dtype.

    Exactly 0 where sums of them are exact (multiples of 1/8), elsewhere within rounding.
    """
    given = form([x for x in rewards for _ in range(size)])
    names = [3] * size + [1] * size
    got = leave_one_out_advantages(given, names)
    amounts = map(float, given)
    terms = [0.0 if (8 * x).is_integer() else 2.0 * abs(x) for x in amounts]
    assert_close(got, [0.0] * 2 * size, terms=terms, count=size)


@law(drawn=siblings(), turn=st.integers(0, 10))
def test_permuted_rollouts_lead_by_as_much(leave_one_out_advantages, drawn, turn):
    """Rows in another order have the same advantages in that order."""
    order = sorted(range(len(drawn.ids)), key=lambda i: (7 * i + turn) % 17)
    moved = drawn.only(order)
    values, terms = left_out(drawn)
    got = leave_one_out_advantages(moved.rewards, moved.ids)
    assert_close(got, values[order], terms=terms[order])


@law(
    eighths=steps(EIGHTHS.__getitem__, 16, min_size=8, max_size=8),
    size=st.sampled_from((2, 4, 8)),
    offset=st.sampled_from((2.0**40, -1000.0)),
)
def test_a_constant_added_to_one_group_changes_no_lead(
    leave_one_out_advantages, eighths, size, offset
):
    """Only the differences within a group count.

    Every second group is raised by an offset, exactly.
    """
    names = [i % (8 // size) for i in range(8)]
    raised = [x + offset * (1 - name % 2) for x, name in zip(eighths, names, strict=True)]
    values, _ = left_out(batch(eighths, names))
    _, terms = left_out(batch(raised, names))
    assert_close(leave_one_out_advantages(raised, names), values, terms=terms)


@law(
    first=st.sampled_from(REWARDS), second=st.sampled_from(REWARDS), ids=st.sampled_from(ID_STYLES)
)
def test_pairs_win_what_their_partners_lose(leave_one_out_advantages, first, second, ids):
    """In a group of two, one leads by the difference and the other trails by it."""
    lead = nearest_float(exact(first) - exact(second))
    names = [ids[0], ids[1], ids[1], ids[0]]
    got = leave_one_out_advantages([first, 7.0, 7.5, second], names)
    assert_close(got, [lead, -0.5, 0.5, -lead], terms=2 * (15.0 + abs(first) + abs(second)))


@law(rewards=whole_numbers(min_size=2), form=forms(), ids=st.sampled_from((list, tuple, np.array)))
@example(rewards=[1, 0, 0], form=BOOLEANS, ids=list)
def test_leave_one_out_reads_any_array_and_leaves_it_alone(
    leave_one_out_advantages, rewards, form, ids
):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed."""
    drawn = batch([float(x) for x in rewards], [int(i > 3) for i in range(len(rewards))])
    drawn = drawn if len(rewards) != 5 else batch(drawn.rewards, [0] * 5)
    args = form(rewards), ids(drawn.ids)
    values, terms = left_out(drawn)
    assert_close(leave_one_out_advantages(*args), values, terms=terms)
    assert_untouched(leave_one_out_advantages, *args)


@law_of_ordinary_sizes
def test_leave_one_out_advantages_of_batches_of_ordinary_size(leave_one_out_advantages, sample):
    """Many prompts with many answers each, in any order, are each measured by themselves.

    A_i = r_i − mean of the others of its prompt, whatever holds the ids.
    """
    drawn = ordinary_rollouts(sample)
    values, terms = left_out(drawn)
    got = leave_one_out_advantages(*sample.held(np.array(drawn.rewards)), drawn.ids)
    assert_close(got, values, terms=terms)


@law_of_refusals(REFUSALS["leave_one_out_advantages"])
def test_leave_one_out_refuses(leave_one_out_advantages, bad):
    """Rewards are finite, ids are numbers or texts, and nobody is alone in a group."""
    assert_refuses(leave_one_out_advantages, *bad.args, **bad.kwargs)
