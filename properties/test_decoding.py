"""Laws of `rlcheck.decoding`."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, permutations
from typing import Any

import numpy as np
from hypothesis import assume, example
from hypothesis import strategies as st

from rlcheck import decoding as reference
from rlcheck.grading.compare import (
    assert_close,
    assert_in_range,
    assert_quiet,
    assert_refuses,
    assert_same,
    assert_untouched,
    numbers,
)
from rlcheck.grading.laws import law
from rlcheck.logprobs import stable_log_softmax

from . import precise
from .ordinary import law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import forms, long_row, near, steps, whole_numbers

inf, nan = np.inf, np.nan
ALL = ("temperature", "top_k", "top_p")
ORDERS = [order for size in range(4) for order in permutations(ALL, size)]


def _refuse(logits: Any, says: str, **changed: Any) -> Any:
    """A call that is sound but for what is changed."""
    sound = {"temperature": 1.0, "top_k": 2, "top_p": 0.9, "order": ALL}
    return refuse(logits, says=says, **{**sound, **changed})


REFUSALS = {
    "decoding_distribution_with_order": (
        _refuse([0.0, nan], says="logits[1] is nan"),
        _refuse([inf, 0.0], says="logits[0] is inf; it must be finite or -inf"),
        _refuse([-inf, -inf], says="logits[:] is all -inf"),
        _refuse([], says="logits has shape (0,)"),
        _refuse([[0.0, 1.0]], says="logits has shape (1, 2); it must be a vector"),
        _refuse("01", says="logits is '01'"),
        _refuse([0.0, 1.0], temperature=0.0, says="temperature is 0.0; it must be > 0"),
        _refuse([0.0, 1.0], temperature=-1.0, says="temperature is -1.0"),
        _refuse([0.0, 1.0], temperature=nan, says="temperature is nan"),
        _refuse([0.0, 1.0], temperature=inf, says="temperature is inf"),
        _refuse([0.0, 1.0], temperature=None, says="temperature is None"),
        _refuse([0.0, 1.0], top_k=0, says="top_k is 0; it must be an integer ≥ 1"),
        _refuse([0.0, 1.0], top_k=-1, says="top_k is -1"),
        _refuse([0.0, 1.0], top_k=1.5, says="top_k is 1.5"),
        _refuse([0.0, 1.0], top_k=None, says="top_k is None"),
        _refuse([0.0, 1.0], top_p=-0.1, says="top_p is -0.1; it must lie in [0, 1]"),
        _refuse([0.0, 1.0], top_p=1.1, says="top_p is 1.1"),
        _refuse([0.0, 1.0], top_p=nan, says="top_p is nan"),
        _refuse([0.0, 1.0], top_p="0.9", says="top_p is '0.9'"),
        _refuse([0.0, 1.0], order=["top_p", "min_p"], says="order[1] is 'min_p'"),
        _refuse([0.0, 1.0], order=["top_k", "top_p", "top_k"], says="order[2] is 'top_k' again"),
        _refuse([0.0, 1.0], order=["top_k", 1], says="order[1] is 1"),
        _refuse([0.0, 1.0], order="temperature", says="order is 'temperature'"),
        _refuse([0.0, 1.0], order=None, says="order is None"),
    ),
    "behavior_logprob": (
        refuse([0.5, 0.5], 2, says="token is 2; it must be in [0, 2)"),
        refuse([0.5, 0.5], -1, says="token is -1"),
        refuse([0.5, 0.5], 0.5, says="token is 0.5"),
        refuse([0.5, 0.5], nan, says="token is nan"),
        refuse([0.5, 0.5], [0], says="token has shape (1,)"),
        refuse([0.5, 0.5], None, says="token is None"),
        refuse([0.5, 0.4], 0, says="distribution sums to 0.9; it must sum to 1"),
        refuse([0.5, 0.50001], 0, says="distribution sums to 1.00001"),
        refuse([1.5, -0.5], 0, says="distribution[1] is -0.5; it must be ≥ 0"),
        refuse([0.5, nan], 0, says="distribution[1] is nan"),
        refuse([inf, 0.0], 0, says="distribution[0] is inf"),
        refuse([], 0, says="distribution has shape (0,)"),
        refuse([[0.5, 0.5]], 0, says="distribution has shape (1, 2); it must be a vector"),
        refuse({0: 1.0}, 0, says="distribution is {0: 1.0}"),
    ),
}

LOGITS = (
    *(0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, -3.0, 5.0, 0.1, 1.0, 0.0, -inf, -inf),
    *(6.0 * (i * 0.6180339887498949 % 1.0) - 3.0 for i in range(1, 19)),
)  # 32
TEMPERATURES = (1.0, 0.5, 2.0, 1.7, 0.7, 0.1, 10.0, 50.0)
SEARCHED = 12  # tokens whose subsets can be tried
NUCLEI = (0.7, 0.9, 0.5, 1.0, 0.3, 0.8, 0.6, 0.0, 0.99, 0.1)


@dataclass(frozen=True)
class Decoding:
    """Logits and the settings of the processors, in an order."""

    logits: list[float]
    temperature: float
    top_k: int
    top_p: float
    order: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "order": list(self.order),
        }


def possible(row: list[float]) -> list[float]:
    return row if max(row) > -inf else [0.0, *row[1:]]


def rows() -> st.SearchStrategy[list[float]]:
    """One to six logits; equal ones and impossible tokens among them."""
    return steps(LOGITS.__getitem__, 32, min_size=1, max_size=6).map(possible)


def decodings() -> st.SearchStrategy[Decoding]:
    """Every order of every subset of the processors."""
    return st.builds(
        Decoding,
        rows(),
        st.sampled_from(TEMPERATURES),
        st.integers(1, 7),
        st.sampled_from(NUCLEI),
        st.sampled_from(ORDERS[::-1]),
    )


def chances(gaps: dict[int, Decimal]) -> dict[int, Decimal]:
    """Probabilities of fifty digits from logits."""
    weights = {i: precise.exp(gap) for i, gap in gaps.items()}
    whole = precise.add(weights.values())
    return {i: precise.PRECISE.divide(weight, whole) for i, weight in weights.items()}


def nucleus(gaps: dict[int, Decimal], top_p: float) -> dict[int, Decimal]:
    """The smallest set of tokens that reaches the mass, found by trying all sets of a few tokens.

    Of the sets of that size the likeliest, and of those the one with the lowest indices. Discards
    the example where a mass lies within 1e-9 of top_p.
    """
    share = chances(gaps)
    short = Decimal(0)  # the largest mass that one token fewer can have
    for size in range(1, len(gaps) + 1):
        best, most = (), Decimal(-1)
        for subset in subsets(share, size):
            mass = precise.add(share[i] for i in subset)
            if precise.PRECISE.subtract(mass, most) > Decimal("1e-30"):
                best, most = subset, mass
        last = size == len(gaps)
        assume(last or abs(float(most) - top_p) > 1e-9)
        if last or float(most) > top_p:
            assume(size == 1 or abs(float(short) - top_p) > 1e-9)
            return {i: gaps[i] for i in best}
        short = most
    return gaps


def subsets(share: dict[int, Decimal], size: int) -> Iterable[tuple[int, ...]]:
    """All sets of that size, or of many tokens the likeliest alone."""
    if len(share) <= SEARCHED:
        return combinations(sorted(share), size)
    return [tuple(sorted(share, key=lambda i: (-share[i], i))[:size])]


def decoded(case: Decoding) -> list[float]:
    """The distribution of a case, by exact arithmetic and exhaustive search."""
    below = precise.below_maximum(case.logits)
    gaps = {i: gap for i, gap in enumerate(below) if gap > precise.MINUS_INFINITY}
    for processor in case.order:
        if processor == "temperature":
            heat = precise.decimal(case.temperature)
            gaps = {i: precise.PRECISE.divide(gap, heat) for i, gap in gaps.items()}
        elif processor == "top_k":
            better = {i: sum(other > gap for other in gaps.values()) for i, gap in gaps.items()}
            gaps = {i: gap for i, gap in gaps.items() if better[i] < case.top_k}
        else:
            gaps = nucleus(gaps, case.top_p)
    share = chances(gaps)
    return [float(share.get(i, 0)) for i in range(len(case.logits))]


def scale_of(case: Decoding, probabilities: Any) -> Any:
    """p (1 + |x| / T), the scale of an error in a probability."""
    heat = case.temperature if "temperature" in case.order else 1.0
    largest = max(abs(x) for x in case.logits if x > -inf)
    return np.multiply(probabilities, 1.0 + 2 * largest / heat)


CONTRACT = [1.720, 3.523, 1.987]


# --- decoding_distribution_with_order -------------------------------------------------------


@law(case=decodings())
@example(case=Decoding(CONTRACT, 1.7, 2, 0.7, ("temperature", "top_k", "top_p")))
@example(case=Decoding(CONTRACT, 1.7, 2, 0.7, ("temperature", "top_p", "top_k")))
@example(case=Decoding([math.log(p) for p in (0.5, 0.25, 0.15, 0.1)], 1.0, 9, 0.6, ("top_p",)))
@example(case=Decoding([math.log(p) for p in (0.1, 0.6, 0.3)], 1.0, 9, 0.55, ("top_p",)))
@example(case=Decoding([3.0, 2.0, 1.0, 0.0], 2.0, 9, 0.8, ("top_p", "temperature")))
@example(case=Decoding([0.0, -8.0, -9.0], 1.0, 9, 0.999, ("top_p",)))
# Almost equal is not equal.
@example(case=Decoding([1.0 - 2.0**-14, 1.0, 0.0], 1.0, 1, 1.0, ("top_k",)))
@example(case=Decoding([0.0, 2.0**-14], 1.0, 9, 0.4, ("top_p",)))
@example(case=Decoding([0.0, 0.1], 0.04, 9, 1.0, ("temperature",)))
@example(case=Decoding(long_row(97), 1.7, 40, 1.0, ("temperature", "top_k")))
@example(case=Decoding(long_row(97), 1.7, 90, 0.95, ("top_p", "temperature")))
@example(case=Decoding(long_row(97), 5.0, 90, 0.95, ("temperature", "top_p", "top_k")))
def test_processors_act_one_after_the_other(decoding_distribution_with_order, case):
    """Each processor acts on the renormalised survivors of the one before it.

    temperature: p^(1/T); top_k: the k-th and all that equal it stay; top_p: the smallest set
    whose mass reaches top_p, with the token that crosses it (thu-nics/C2C#21), at least one.
    """
    truth = decoded(case)
    got = decoding_distribution_with_order(case.logits, **case.settings)
    assert_close(got, truth, terms=scale_of(case, truth))


@law(case=decodings())
def test_decoding_gives_a_distribution(decoding_distribution_with_order, case):
    """The probabilities sum to one, and the likeliest token always stays.

    Σ_i p_i = 1, 0 ≤ p_i, and p is largest where the logit is.
    """
    got = assert_quiet(decoding_distribution_with_order, case.logits, **case.settings)
    probabilities = 1.0 * numbers(got, shape=(len(case.logits),))
    assert_in_range(probabilities, 0.0, 1.0 + 1e-5, shape=probabilities.shape)
    assert_close(probabilities.sum(), 1.0, terms=1.0)
    assert_in_range(probabilities[int(np.argmax(case.logits))], 1e-9, 1.0 + 1e-5)


@law(case=decodings())
@example(case=Decoding([0.0, 0.0], 1.0, 1, 0.5, ("top_p",)))
def test_survivors_keep_their_tempered_odds(decoding_distribution_with_order, case):
    """The odds of two survivors are those of their logits over the temperature.

    log p_i − log p_j = (x_i − x_j) / T, in every order of the processors.
    """
    got = decoding_distribution_with_order(case.logits, **case.settings)
    probabilities = 1.0 * numbers(got, shape=(len(case.logits),))
    best = int(np.argmax(case.logits))
    heat = case.temperature if "temperature" in case.order else 1.0
    kept = np.flatnonzero(probabilities > 1e-280)
    gaps = (np.array(case.logits)[kept] - case.logits[best]) / heat
    tempered = np.exp(gaps) * probabilities[best]
    assert_close(probabilities[kept], tempered, terms=scale_of(case, 2 * tempered), slack=0.0)


@law(
    ties=st.integers(1, 5),
    lower=steps(lambda code: -1.0 - code, 5, max_size=3),
    k=st.integers(1, 8),
    level=st.sampled_from([0.0, 3.5, -1e8]),
)
@example(ties=20, lower=[-1.0, -2.0, -3.0] * 10, k=13, level=0.0)
@example(ties=20, lower=[-1.0, -2.0, -3.0] * 10, k=25, level=0.0)
@example(ties=1, lower=[-1.0, -2.0, -3.0], k=1, level=0.0)  # kingoflolz/mesh-transformer-jax#164
def test_ties_with_the_kth_token_stay(decoding_distribution_with_order, ties, lower, k, level):
    """top_k keeps the k likeliest tokens and all that equal the k-th; above V it keeps all."""
    logits = [level + gap for gap in lower] + [level] * ties
    got = decoding_distribution_with_order(
        logits, temperature=1.0, top_k=k, top_p=1.0, order=["top_k"]
    )
    cut = sorted(logits, reverse=True)[min(k, len(logits)) - 1]
    probabilities = numbers(got, shape=(len(logits),))
    assert_same(probabilities > 0, [logit >= cut for logit in logits])


@law(
    size=st.integers(1, 8),
    kept=st.integers(1, 8),
    level=near(0.0, 1.0, -1e8),
    short=st.sampled_from((0.5, 1e-5, 1 - 1e-5)),
)
@example(size=4, kept=2, level=0.0, short=0.5)
@example(size=60, kept=31, level=0.0, short=0.5)
@example(size=2, kept=1, level=0.0, short=0.0)  # the mass reaches top_p exactly
def test_of_equal_tokens_top_p_keeps_the_first(
    decoding_distribution_with_order, size, kept, level, short
):
    """Of V equal tokens top_p keeps the first ⌈V top_p⌉."""
    kept = min(kept, size)
    top_p = (kept - short) / size
    got = decoding_distribution_with_order(
        [level] * size, temperature=1.0, top_k=1, top_p=top_p, order=["top_p"]
    )
    assert_close(got, [1.0 / kept] * kept + [0.0] * (size - kept), terms=1.0)


@law(row=rows(), order=st.sampled_from([o for o in ORDERS if "temperature" in o]))
def test_extreme_temperatures_are_greedy_or_uniform(decoding_distribution_with_order, row, order):
    """T → 0 leaves the likeliest tokens, T → ∞ makes all possible ones equally likely.

    Without a warning, however small T is.
    """
    scores = np.array(row)
    rest = {"top_k": 9, "top_p": 1.0, "order": order}
    for heat, kept in ((1e-300, scores == scores.max()), (1e300, scores > -inf)):
        got = assert_quiet(decoding_distribution_with_order, row, temperature=heat, **rest)
        assert_close(got, kept / kept.sum(), terms=1.0)


@law(row=rows(), heat=st.sampled_from(TEMPERATURES), order=st.sampled_from(ORDERS[4:]))
@example(row=[math.log(0.15)] + [math.log(0.05)] * 17, heat=1.0, order=("top_k", "top_p"))
def test_the_narrowest_settings_are_greedy(decoding_distribution_with_order, row, heat, order):
    """top_p = 0 leaves one token: the first of the likeliest; top_k = 1 leaves all of those."""
    scores = np.array(row)
    best = scores == scores.max()
    if "top_p" in order:
        best = np.arange(len(row)) == np.argmax(scores)
    else:
        order = ("top_k", *(name for name in order if name == "temperature"))
    got = decoding_distribution_with_order(row, temperature=heat, top_k=1, top_p=0.0, order=order)
    assert_close(got, best / best.sum(), terms=1.0)


@law(row=rows(), order=st.sampled_from(ORDERS), beyond=st.sampled_from([0, 1, 10**9]))
def test_the_widest_settings_change_nothing(decoding_distribution_with_order, row, order, beyond):
    """T = 1, top_k = V or more and top_p = 1 leave the softmax as it is."""
    got = decoding_distribution_with_order(
        row, temperature=1.0, top_k=len(row) + beyond, top_p=1.0, order=order
    )
    truth = np.exp(stable_log_softmax(row))
    assert_close(got, truth, terms=10.0 * truth)


@law(case=decodings(), junk=st.sampled_from([None, nan, -1.0, 1.5, "all", [1]]))
def test_arguments_of_absent_processors_are_not_looked_at(
    decoding_distribution_with_order, case, junk
):
    """A processor that is not in the order may have any argument."""
    truth = decoded(case)
    settings = {n: x if n in (*case.order, "order") else junk for n, x in case.settings.items()}
    got = decoding_distribution_with_order(case.logits, **settings)
    assert_close(got, truth, terms=scale_of(case, truth))


@law(case=decodings(), offset=st.sampled_from([800.0, -800.0, 2.0**20, 3.0]))
def test_decoding_forgets_a_common_offset(decoding_distribution_with_order, case, offset):
    """Adding one number to all logits changes nothing."""
    truth = decoded(case)
    shifted = [logit + offset for logit in case.logits]
    got = decoding_distribution_with_order(shifted, **case.settings)
    heat = case.temperature if "temperature" in case.order else 1.0
    rounding = 4 * abs(offset) * 2.0**-52 / heat
    assert_close(got, truth, terms=scale_of(case, truth), slack=rounding)


@law(
    whole=whole_numbers(min_size=1),
    form=forms(),
    sequence=st.sampled_from([list, tuple]),
    order=st.sampled_from(ORDERS),
    k=st.sampled_from([2, 2.0, np.int64(2), np.float64(2.0)]),
)
@example(whole=[3, 3, 5], form=np.array, sequence=list, order=("top_p",), k=2)
def test_decoding_reads_any_array_and_leaves_it_alone(
    decoding_distribution_with_order, whole, form, sequence, order, k
):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed."""
    settings = {"temperature": 0.7, "top_k": k, "top_p": 0.83, "order": sequence(order)}
    row = [float(x) for x in whole]
    truth = reference.decoding_distribution_with_order(row, **settings)
    got = decoding_distribution_with_order(form(whole), **settings)
    assert_close(got, truth, terms=30.0 * truth)
    assert_untouched(decoding_distribution_with_order, form(whole), **settings)


@law_of_ordinary_sizes
def test_decoding_from_vocabularies_of_ordinary_size(decoding_distribution_with_order, sample):
    """Among many tokens the processors act in any order, at any temperature, k and mass.

    Each acts on the renormalised survivors of the one before it; impossible tokens are among them.
    """
    logits = sample.distinct("logits", sample.columns)
    logits[sample.flags("impossible", sample.columns, share=0.1) & (logits < logits.max())] = -inf
    case = Decoding(
        logits.tolist(),
        sample.choice("temperature", sample.number("warm", 0.02, 2.0), sample.number("hot", 2, 99)),
        int(sample.integers("top_k", 1, sample.choice("most", 6, sample.columns + 3))),
        sample.number("top_p"),
        sample.choice("order", *ORDERS, *2 * ORDERS[-6:]),  # two of three are orders of all
    )
    truth = decoded(case)
    settings = case.settings | {"order": sample.choice("container", list, tuple)(case.order)}
    got = decoding_distribution_with_order(*sample.held(logits), **settings)
    assert_close(got, truth, terms=scale_of(case, truth))


@law_of_refusals(REFUSALS["decoding_distribution_with_order"])
def test_decoding_refuses(decoding_distribution_with_order, bad):
    """Logits without a softmax, settings out of range, unknown and repeated names are refused."""
    assert_refuses(decoding_distribution_with_order, *bad.args, **bad.kwargs)


# --- behavior_logprob -----------------------------------------------------------------------

WEIGHTS = (
    1.0,
    2.0,
    3.0,
    5.0,
    8.0,
    100.0,
    1e6,
    1e16,
    1e-5,
    1e-12,
    1e-30,
    1e-300,
    0.0,
    0.0,
    1.0,
    7.0,
)


def distributions() -> st.SearchStrategy[list[float]]:
    """One to six probabilities; certain, tiny and impossible tokens among them."""

    def normalised(weights: list[float]) -> list[float]:
        whole = math.fsum(weights)
        return [weight / whole for weight in weights] if whole > 1e-200 else [1.0]

    return steps(WEIGHTS.__getitem__, 16, min_size=1, max_size=6).map(normalised)


@law(distribution=distributions(), token=st.integers(0, 5))
@example(distribution=[0.0, 1.0], token=1)
@example(distribution=[1e-300, 1.0], token=0)
@example(distribution=[1.0 - 2.0**-40, 2.0**-40], token=0)
@example(distribution=[n / 5050 for n in range(1, 101)], token=97)
def test_behavior_logprob_is_the_log_of_the_probability(behavior_logprob, distribution, token):
    """The answer is the natural logarithm of the token's probability.

    log b(token), within 64 ε (1 + |log b(token)|)
    """
    token %= len(distribution)
    truth = float(precise.log(distribution[token]))
    assert_close(behavior_logprob(distribution, token), truth, terms=1.0 + abs(truth))


@law(distribution=distributions(), token=st.integers(0, 6))
def test_an_impossible_token_has_minus_infinity(behavior_logprob, distribution, token):
    """A token of probability 0 has log-probability −inf, without a warning."""
    place = token % (len(distribution) + 1)
    wider = [*distribution[:place], 0.0, *distribution[place:]]
    assert_same(assert_quiet(behavior_logprob, wider, place), -inf)


@law(distribution=distributions())
def test_the_probabilities_of_all_tokens_sum_to_one(behavior_logprob, distribution):
    """The exponentials over all tokens sum to one.

    Σ_v exp(log b(v)) = 1
    """
    answers = (behavior_logprob(distribution, v) for v in range(len(distribution)))
    logprobs = [1.0 * numbers(answer, shape=()) for answer in answers]
    assert_close(np.exp(logprobs).sum(), 1.0, terms=1.0 + len(distribution))


@law(row=rows(), heat=st.sampled_from([1.0, 0.5, 2.0]), token=st.integers(0, 5))
@example(row=[0.0, -100.0], heat=1.0, token=1)
@example(row=[2.0, 0.0], heat=0.5, token=0)  # huggingface/trl#3029, OpenRLHF/OpenRLHF#853
def test_behavior_logprob_scores_what_was_sampled_from(behavior_logprob, row, heat, token):
    """It is the log-softmax of the tempered logits when tokens are sampled at that temperature.

    log b(token) = log softmax(x / T)[token]
    """
    settings = {"temperature": heat, "top_k": 1, "top_p": 1.0, "order": ["temperature"]}
    sampled = reference.decoding_distribution_with_order(row, **settings)
    token %= len(row)
    truth = float(stable_log_softmax([x / heat for x in row])[token])
    assert_close(behavior_logprob(sampled, token), truth, terms=1.0 + abs(truth))


@law(first=distributions(), second=distributions(), i=st.integers(0, 5), j=st.integers(0, 5))
def test_logprobs_of_independent_tokens_add_up(behavior_logprob, first, second, i, j):
    """A pair of independent tokens has the sum of their log-probabilities."""
    i, j = i % len(first), j % len(second)
    joint = np.outer(first, second).ravel()
    place = i * len(second) + j
    assume(joint[place] > 1e-290 or first[i] * second[j] == 0.0)
    truth = -inf if joint[place] == 0.0 else math.log(first[i]) + math.log(second[j])
    assert_close(behavior_logprob(joint, place), truth, terms=2.0 + 2 * abs(truth))


@law(token=st.integers(0, 2), error=near(0.0, 5e-7, -5e-7, 5e-5, -5e-5))
def test_sums_that_rounding_has_moved_are_accepted(behavior_logprob, token, error):
    """A sum may miss 1 by 1e-6, and by 1e-4 in float32."""
    chances_ = np.array([0.5, 0.25, 0.25 + error], np.float32 if abs(error) > 1e-6 else np.float64)
    got = behavior_logprob(chances_, token)
    assert_close(got, math.log([0.5, 0.25, 0.25][token]), terms=1.0, slack=5 * abs(error))


@law(
    order=st.permutations([0.5, 0.25, 0.125, 0.125, 0.0]),
    kind=st.sampled_from([list, tuple, np.float64, np.float32, np.float16]),
    token=st.sampled_from([0, 1, 2, 3, 4]),
    integer=st.sampled_from([int, float, np.int64, np.int8, np.float32, np.array]),
)
def test_behavior_logprob_reads_any_array_and_leaves_it_alone(
    behavior_logprob, order, kind, token, integer
):
    """Lists, tuples, arrays of any dtype and integers of any kind give the same answer."""
    distribution = kind(order) if kind in (list, tuple) else np.array(order, dtype=kind)
    truth = float(precise.log(order[token]))
    assert_untouched(behavior_logprob, distribution, integer(token))
    assert_close(behavior_logprob(distribution, integer(token)), truth, terms=1.0 + abs(truth))


@law_of_ordinary_sizes
def test_behavior_logprob_in_vocabularies_of_ordinary_size(behavior_logprob, sample):
    """Each of many tokens has the logarithm of its own probability, −∞ where that is 0.

    log b(token), whatever container holds the distribution.
    """
    distribution = sample.distributions("distribution", sample.columns)
    token = int(sample.integers("token", 0, sample.columns))
    got = behavior_logprob(*sample.held(distribution), token)
    truth = math.log(distribution[token]) if distribution[token] else -inf
    assert_close(got, truth, terms=1.0 + abs(truth))


@law_of_refusals(REFUSALS["behavior_logprob"])
def test_behavior_logprob_refuses(behavior_logprob, bad):
    """A token outside the distribution, and what is no distribution, are refused."""
    assert_refuses(behavior_logprob, *bad.args, **bad.kwargs)
