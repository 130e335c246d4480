"""Laws of `rlcheck.kl`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import kl as reference
from rlcheck.grading.compare import (
    assert_close,
    assert_in_range,
    assert_quiet,
    assert_refuses,
    assert_same,
    assert_untouched,
    numbers,
    record,
)
from rlcheck.grading.laws import law

from . import precise
from .ordinary import law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import forms, long_row, near, steps, whole_numbers

inf, nan = np.inf, np.nan

REFUSALS = {
    "exact_kl_from_logits": (
        refuse([0.0, nan], [0.0, 1.0], says="q_logits[1] is nan"),
        refuse([0.0, 1.0], [inf, 1.0], says="p_logits[0] is inf; it must be finite or -inf"),
        refuse([-inf, -inf], [0.0, 1.0], says="q_logits[:] is all -inf"),
        refuse([[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [-inf, -inf]], says="p_logits[1, :] is all"),
        refuse([0.0, 1.0, 2.0], [0.0, 1.0], says="p_logits has shape (2,); it must be (3,)"),
        refuse([[0.0, 1.0]], [0.0, 1.0], says="p_logits has shape (2,); it must be (1, 2)"),
        refuse([[0.0, 1.0]] * 2, [[0.0, 1.0]], says="p_logits has shape (1, 2)"),
        refuse([], [], says="q_logits has shape (0,)"),
        refuse(np.zeros((2, 0)), np.zeros((2, 0)), says="q_logits has shape (2, 0)"),
        refuse([0.0, 1.0], [0.0, 1.0], 1, says="axis is 1; it must be an integer in [-1, 1)"),
        refuse([0.0, 1.0], [0.0, 1.0], 0.5, says="axis is 0.5"),
        refuse("01", [0.0, 1.0], says="q_logits is '01'"),
        refuse([0.0, 1.0], [0.0, None], says="p_logits[1] is None"),
    ),
    "kl_estimator_moments": (
        refuse([0.5, 0.5], [0.5, 0.4], says="q sums to 0.9; it must sum to 1"),
        refuse([0.5, 0.6], [0.5, 0.5], says="p sums to 1.1"),
        refuse([1.5, -0.5], [0.5, 0.5], says="p[1] is -0.5; it must be ≥ 0"),
        refuse([0.5, 0.5], [-0.25, 1.25], says="q[0] is -0.25"),
        refuse([0.5, nan], [0.5, 0.5], says="p[1] is nan"),
        refuse([0.5, 0.5], [inf, 0.5], says="q[0] is inf"),
        refuse([0.5, 0.5], [0.2, 0.3, 0.5], says="p has length 2; it must have length 3"),
        refuse([1.0], [0.5, 0.5], says="p has length 1; it must have length 2"),
        refuse([], [], says="q has shape (0,)"),
        refuse([[0.5, 0.5]], [[0.5, 0.5]], says="q has shape (1, 2); it must be a vector"),
        refuse([0.5, 0.50001], [0.5, 0.5], says="p sums to 1.00001"),
        refuse({"a": 1.0}, [1.0], says="p is {'a': 1.0}"),
        refuse([0.5, 0.5], None, says="q is None"),
    ),
    "kl_penalty_terms": (
        refuse([-1.0, nan], [-1.0, -2.0], "k1", says="logprobs[1] is nan; it must be finite"),
        refuse([-1.0, -inf], [-1.0, -2.0], "k3", says="logprobs[1] is -inf"),
        refuse([inf], [-1.0], "k2", says="logprobs[0] is inf"),
        refuse([-1.0], [nan], "k3", says="ref_logprobs[0] is nan"),
        refuse([-1.0, -1.0], [-1.0, -inf], "k2", says="ref_logprobs[1] is -inf"),
        refuse([[-1.0, -1.0]], [[-1.0, nan]], "k1", says="ref_logprobs[0, 1] is nan"),
        refuse([-1.0, -2.0], [-1.0], "k1", says="ref_logprobs has shape (1,)"),
        refuse([-1.0, -2.0], -1.0, "k3", says="ref_logprobs has shape (); it must have shape (2,)"),
        refuse([[-1.0, -2.0]] * 2, [-1.0, -2.0], "k2", says="ref_logprobs has shape (2,)"),
        refuse([[-1.0, -2.0]], [[-1.0], [-2.0]], "k1", says="ref_logprobs has shape (2, 1)"),
        refuse([-1.0], [-1.0], "k4", says="estimator is 'k4'; it must be one of k1, k2, k3"),
        refuse([], [], "kl", says="estimator is 'kl'"),
        refuse([-1.0], [-1.0], "", says="estimator is ''"),
        refuse([-1.0], [-1.0], None, says="estimator is None"),
        refuse([-1.0], [-1.0], 3, says="estimator is 3"),
        refuse([[-1.0], [-1.0, -2.0]], [[-1.0], [-1.0]], "k1", says="logprobs is ragged"),
        refuse("1", [-1.0], "k1", says="logprobs is '1'"),
        refuse([-1.0], [None], "k1", says="ref_logprobs[0] is None"),
        refuse({"a": -1.0}, [-1.0], "k1", says="logprobs is {'a': -1.0}"),
    ),
}

NAMES = ("exact_kl", "k1_mean", "k1_std", "k2_mean", "k2_std", "k3_mean", "k3_std")
FINITE = (
    *(0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 10.0, -10.0, 30.0, -30.0, 1000.0),
    *(6.0 * (i * 0.6180339887498949 % 1.0) - 3.0 for i in range(1, 19)),
)  # 32


@dataclass(frozen=True)
class Pair:
    """Two rows of logits over the same tokens."""

    q: list[float]
    p: list[float]


def pairs(max_size: int = 6) -> st.SearchStrategy[Pair]:
    """Finite logits of q and p; some lie so far down that the probability underflows."""
    tokens = steps(lambda q, p: (FINITE[q], FINITE[p]), 32, 32, min_size=1, max_size=max_size)
    return tokens.map(lambda drawn: Pair(*map(list, zip(*drawn, strict=True))))


def tables() -> st.SearchStrategy[list[list[tuple[float, float]]]]:
    """Up to three rows of two or three pairs of logits; as many rows as columns among them."""
    row = steps(
        lambda *codes: [
            (FINITE[q], FINITE[p]) for q, p in zip(codes[::2], codes[1::2], strict=True)
        ],
        *([32] * 6),
        max_size=3,
    )
    return st.tuples(row, st.integers(2, 3)).map(lambda drawn: [r[: drawn[1]] for r in drawn[0]])


def exact_kl(q: list[float], p: list[float]) -> float:
    """Σ q (log q − log p) of fifty digits; only where both are possible."""
    log_q, log_p = precise.log_softmax(q), precise.log_softmax(p)
    return float(
        precise.add(
            precise.times(precise.exp(a), precise.PRECISE.subtract(a, b))
            for a, b in zip(log_q, log_p, strict=True)
            if a > precise.MINUS_INFINITY
        )
    )


def kl_scale(q: list[float], p: list[float]) -> float:
    """Σ q (1 + |x − max x| + |y − max y|), x and y the logits of q and p."""
    chances = map(float, map(precise.exp, precise.log_softmax(q)))
    distances = zip(chances, precise.below_maximum(q), precise.below_maximum(p), strict=True)
    return sum(c * (2.0 - float(x) - float(y)) for c, x, y in distances if c > 0)


# --- exact_kl_from_logits -------------------------------------------------------------------


@law(pair=pairs())
@example(pair=Pair([0.0, 0.0], [0.0, -1000.0]))
@example(pair=Pair([0.0, 0.0], [1e8, 1e8 + 2.0]))
@example(pair=Pair([800.0, 0.0], [0.0, 800.0]))
@example(pair=Pair(long_row(), long_row()[::-1]))
def test_kl_is_the_mean_log_ratio_under_q(exact_kl_from_logits, pair):
    """The divergence is the mean log-ratio under q, finite however small p is.

    KL(q‖p) = Σ_i q_i (log q_i − log p_i)
    """
    got = exact_kl_from_logits(pair.q, pair.p)
    assert_close(got, exact_kl(pair.q, pair.p), terms=kl_scale(pair.q, pair.p))


@law(
    kept=steps(lambda code: code > 0, 3, min_size=1, max_size=8),
    level=st.sampled_from([0.0, 5.0, -1e8]),
)
@example(kept=[True, False, False], level=0.0)
def test_kl_from_a_part_of_a_uniform_distribution_is_the_log_of_the_share(
    exact_kl_from_logits, kept, level
):
    """Uniform on k of V tokens against uniform on all of them diverges by log(V / k).

    What q excludes contributes nothing: 0 log 0 = 0.
    """
    q = [level if flag else -inf for flag in [*kept, True]]
    got = assert_quiet(exact_kl_from_logits, q, [0.0] * len(q))
    assert_close(got, math.log(len(q) / (1 + sum(kept))), terms=2.0 + math.log(len(q)))


@law(first=pairs(max_size=3), second=pairs(max_size=3))
@example(first=Pair([0.0, 0.0], [0.0, 1000.0]), second=Pair([0.0], [0.0]))  # p underflows
def test_kl_of_independent_pairs_adds_up(exact_kl_from_logits, first, second):
    """The divergence of two independent tokens is the sum of theirs.

    KL(q ⊗ q'‖p ⊗ p') = KL(q‖p) + KL(q'‖p'), where the logits of a product are sums; the sums
    are rounded.
    """
    q, p = (np.add.outer(a, b).ravel() for a, b in ((first.q, second.q), (first.p, second.p)))
    truth = sum(exact_kl(pair.q, pair.p) for pair in (first, second))
    scale = sum(kl_scale(pair.q, pair.p) for pair in (first, second))
    rounding = 2.0**-52 * max(np.abs(q).max(), np.abs(p).max()) * (2.0 + 2 * scale)
    assert_close(exact_kl_from_logits(q, p), truth, terms=2 * scale, slack=rounding)


@law(pair=pairs(), offset=st.sampled_from([0.1, -3.3, 7.7, 1e3, -1e8]))
@example(pair=Pair([0.1, 0.2, 0.3], []), offset=0.1)
def test_kl_is_never_negative_and_zero_between_equals(exact_kl_from_logits, pair, offset):
    """The divergence of a distribution from itself is 0, from any other at least 0.

    KL(q‖p) ≥ 0 (Gibbs), also where rounding would give −1e-17; logits may differ by a constant.
    """
    shifted = [logit + offset for logit in pair.q]
    got = exact_kl_from_logits(pair.q, shifted)
    assert_in_range(got, 0.0, inf)
    rounding = 2.0**-52 * max(abs(offset), max(map(abs, shifted)))
    assert_close(got, 0.0, terms=kl_scale(pair.q, pair.q), slack=2 * rounding)


@law(
    pair=pairs(max_size=4),
    places=st.integers(0, 15),
    side=st.sampled_from(["q", "p", "both"]),
)
@example(pair=Pair([0.0, 1.0], [1.0, 0.0]), places=1, side="q")
@example(pair=Pair([0.0, 1.0], [1.0, 0.0]), places=1, side="p")
def test_kl_is_infinite_where_only_p_excludes_a_token(exact_kl_from_logits, pair, places, side):
    """A token that p excludes and q does not makes it infinite; one that q excludes costs 0.

    q_i = 0 contributes 0, also for p_i = 0; p_i = 0 < q_i gives inf.
    """
    out = [places >> i & 1 == 1 for i in range(len(pair.q))]
    q, p = (
        [0.0, *np.where(np.array(out) & (side in (name, "both")), -inf, np.divide(row, 50))]
        for name, row in (("q", pair.q), ("p", pair.p))
    )
    got = assert_quiet(exact_kl_from_logits, q, p)
    truth = inf if side == "p" and any(out) else exact_kl(q, p)
    assert_close(got, truth, terms=len(q) * 60.0)


@law(
    table=tables(),
    axis=st.sampled_from([-1, 0, 1, -2]),
    out=st.integers(0, 3),
    blocks=st.booleans(),
)
@example(table=[], axis=-1, out=0, blocks=False)
@example(
    table=[list(zip(row, row[::-1], strict=True)) for row in (long_row(40), long_row(80)[40:])],
    axis=-1,
    out=0,
    blocks=False,
)
@example(table=[[(0.0, 1.0), (2.0, 0.0)]] * 2, axis=-1, out=1, blocks=False)
@example(table=[[(0.0, 1.0), (2.0, 0.0), (1.0, 1.0)]] * 2, axis=1, out=0, blocks=True)
def test_every_row_of_logits_has_a_divergence_of_its_own(
    exact_kl_from_logits, table, axis, out, blocks
):
    """The sum runs along the chosen axis, row by row; a batch may be empty.

    [B, V] gives [B], or along axis 0 [V, B] does; [A, B, V] gives [A, B]. What q excludes in one
    row counts in the others.
    """
    width = len(table[0]) if table else 2
    q, p = np.reshape(table, (-1, width, 2)).transpose(2, 0, 1).copy()
    if out and len(q):
        q[out % len(q), -1] = -inf
    truth = np.array([reference.exact_kl_from_logits(a, b) for a, b in zip(q, p, strict=True)])
    scale = np.array([kl_scale(list(a), list(b)) for a, b in zip(q, p, strict=True)])
    if blocks:
        q, p = np.stack([q, q[::-1]]), np.stack([p, p[::-1]])
        truth, scale = np.stack([truth, truth[::-1]]), np.stack([scale, scale[::-1]])
    turned = (np.moveaxis(logits, -1, axis) for logits in (q, p))
    assert_close(exact_kl_from_logits(*turned, axis), truth, terms=2 * scale)


@law(
    whole=whole_numbers(min_size=1),
    form=forms(),
)
def test_kl_reads_any_array_and_leaves_it_alone(exact_kl_from_logits, whole, form):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed."""
    q, p = [float(x) for x in whole], [float(x) for x in whole[::-1]]
    got = exact_kl_from_logits(form(whole), form(whole[::-1]))
    assert_close(got, exact_kl(q, p), terms=kl_scale(q, p))
    assert_untouched(exact_kl_from_logits, form(whole), form(whole[::-1]))


@law_of_ordinary_sizes
def test_kl_of_logits_of_ordinary_size(exact_kl_from_logits, sample):
    """Every row of a vector, a table or a block has its own divergence, along any axis.

    KL(q‖p) = Σ_i q_i (log q_i − log p_i), with tokens that q excludes, and some that only p does.
    """
    shape = sample.layout()
    axis = int(sample.integers("axis", -len(shape), len(shape)))
    q, p = (sample.reals(name, *shape) for name in ("q", "p"))
    q[sample.flags("q excludes", *shape) & (q < q.max(axis, keepdims=True))] = -inf
    out = np.isneginf(q) & sample.flags("p excludes", *shape)
    out |= sample.flags("p alone", *shape, share=sample.choice("share", 0.0, 0.0, 0.01))
    p[out & (p < p.max(axis, keepdims=True))] = -inf
    held = sample.held(q, p)
    default = axis in (-1, len(shape) - 1) and sample.choice("default", True, False)
    got = exact_kl_from_logits(*held) if default else exact_kl_from_logits(*held, axis=axis)
    below = [logits - logits.max(axis, keepdims=True) for logits in (q, p)]
    log_q, log_p = (x - np.log(np.exp(x).sum(axis, keepdims=True)) for x in below)
    chances, counts = np.exp(log_q), np.isfinite(log_q)
    apart = np.where(counts, log_q, 0.0) - np.where(counts, log_p, 0.0)
    sizes = np.where(counts, 2.0 - np.add(*below), 0.0)
    assert_close(got, (chances * apart).sum(axis), terms=2 * (chances * sizes).sum(axis))


@law_of_refusals(REFUSALS["exact_kl_from_logits"])
def test_kl_refuses(exact_kl_from_logits, bad):
    """NaN, +inf, a row without a finite logit, and shapes that differ are refused."""
    assert_refuses(exact_kl_from_logits, *bad.args, **bad.kwargs)


# --- kl_estimator_moments -------------------------------------------------------------------


@dataclass(frozen=True)
class Distributions:
    """Two probability vectors; q is sampled from."""

    p: list[float]
    q: list[float]

    @property
    def shares(self) -> list[tuple[Any, Any]]:
        """(p_i, q_i) of fifty digits, where q_i > 0."""
        pairs_ = zip(map(precise.decimal, self.p), map(precise.decimal, self.q), strict=True)
        return [(p, q) for p, q in pairs_ if q > 0]

    @property
    def log_ratios(self) -> list[Any]:
        """log r = log p_i − log q_i where q_i > 0."""
        return [precise.PRECISE.subtract(precise.log(p), precise.log(q)) for p, q in self.shares]

    def mean(self, values: list[Any]) -> Any:
        """Σ q_i x_i over the tokens that q samples."""
        return precise.add(
            precise.times(q, x) for (_, q), x in zip(self.shares, values, strict=True)
        )

    def std(self, values: list[Any]) -> Any:
        mean = self.mean(values)
        spread = [precise.PRECISE.subtract(x, mean) for x in values]
        return precise.root(self.mean([precise.times(x, x) for x in spread]))


WEIGHTS = (1, 2, 3, 5, 8, 1, 13, 100, 1, 7, 10**6, 1e-9, 1e-30, 1e-100, 0, 0)


def shares(weights: Sequence[float]) -> list[float]:
    """Probabilities in proportion to the weights."""
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]


def distributions(*, p_zero: bool = True, q_zero: bool = True) -> st.SearchStrategy[Distributions]:
    """Distributions over up to five tokens; where asked, some are impossible under one of them.

    A token that q samples is possible under p.
    """

    def token(p: int, q: int) -> tuple[float, float]:
        chance_q = WEIGHTS[q] if q_zero else WEIGHTS[q] or 4
        chance_p = WEIGHTS[p] if p_zero and chance_q == 0 else WEIGHTS[p] or 4
        return chance_p, chance_q

    def make(tokens: list[tuple[float, float]]) -> Distributions:
        (first_p, first_q), *rest = tokens
        p, q = zip((first_p or 6, first_q or 6), *rest, strict=True)
        return Distributions(shares(p), shares(q))

    return steps(token, 16, 16, min_size=1, max_size=5).map(make)


def moments(got: Any) -> dict[str, Any]:
    """The seven fields of an answer, each in its own precision."""
    fields = record(got, *NAMES)
    return {name: 1.0 * numbers(x, shape=()) for name, x in zip(NAMES, fields, strict=True)}


TWO_TO_ONE = Distributions([0.5, 0.5], [0.8, 0.2])


def square(x: Any) -> Any:
    return precise.times(x, x)


@law(pair=distributions())
@example(pair=TWO_TO_ONE)
@example(pair=Distributions([0.25, 0.75], [1.0, 0.0]))
@example(pair=Distributions([1 / 128] * 64 + [1 / 64] * 32, [1 / 64] * 32 + [1 / 128] * 64))
def test_k1_is_unbiased(kl_estimator_moments, pair):
    """The mean of k1 under samples from q is the divergence.

    E_q[−log r] = Σ_i q_i (log q_i − log p_i) = KL(q‖p)
    """
    got = moments(kl_estimator_moments(pair.p, pair.q))
    truth = float(pair.mean([-x for x in pair.log_ratios]))
    scale = 2.0 + float(pair.mean([abs(x) for x in pair.log_ratios]))
    assert_close(got["k1_mean"], truth, terms=scale)
    assert_close(got["exact_kl"], truth, terms=scale)


@law(pair=distributions(p_zero=False, q_zero=False))
@example(pair=TWO_TO_ONE)  # hpcaitech/ColossalAI#3696
def test_k3_is_unbiased_where_q_samples_all_that_p_can(kl_estimator_moments, pair):
    """The mean of k3 is the divergence when the support of p lies in that of q.

    E_q[r − 1 − log r] = Σ_i p_i − Σ_i q_i + KL(q‖p) = KL(q‖p)
    """
    got = moments(kl_estimator_moments(pair.p, pair.q))
    truth = float(pair.mean([-x for x in pair.log_ratios]))
    scale = 2.0 + float(pair.mean([abs(x) for x in pair.log_ratios]))
    assert_close(got["k3_mean"], truth, terms=scale)
    assert_close(got["k3_mean"], got["k1_mean"], terms=2 * scale)


@law(pair=distributions(), unseen=st.sampled_from([1, 3, 10, 1000]))
@example(pair=Distributions([1.0], [1.0]), unseen=1)
def test_k3_misses_what_q_never_samples(kl_estimator_moments, pair, unseen):
    """The mean of k3 falls short of the divergence by the mass of p that q never samples.

    E_q[k3] = KL(q‖p) − p(q = 0)
    """
    p = shares([*(chance * 10 for chance in pair.p), unseen])
    wider = Distributions(p, [*pair.q, 0.0])
    got = moments(kl_estimator_moments(wider.p, wider.q))
    missed = sum(p for p, q in zip(wider.p, wider.q, strict=True) if q == 0)
    truth = float(wider.mean([-x for x in wider.log_ratios])) - missed
    scale = 2.0 + float(wider.mean([abs(x) for x in wider.log_ratios]))
    assert_close(got["k3_mean"], truth, terms=scale)


@law(pair=distributions())
@example(pair=TWO_TO_ONE)  # one-covenant/grail#42
def test_k2_is_half_the_mean_squared_log_ratio(kl_estimator_moments, pair):
    """The mean of k2 is half the mean squared log-ratio.

    E_q[½ log² r] = ½ (KL² + Var_q[log r])
    """
    got = moments(kl_estimator_moments(pair.p, pair.q))
    squares = float(pair.mean([square(x) for x in pair.log_ratios]))
    assert_close(got["k2_mean"], squares / 2, terms=1.0 + squares)
    again = (got["k1_mean"] ** 2 + got["k1_std"] ** 2) / 2
    assert_close(again, squares / 2, terms=1.0 + squares, slack=1e-9 * (1.0 + squares))


@law(pair=distributions())
@example(pair=TWO_TO_ONE)
@example(pair=Distributions([1.0, 1e-100], [1e-100, 1.0]))
@example(pair=Distributions([1e-3, 1e-3 * (1 + 1e-9), 0.998], [0.5, 0.5, 0.0]))
def test_deviations_are_those_under_samples_from_q(kl_estimator_moments, pair):
    """The standard deviations are the population's, under samples from q.

    √(E_q[k²] − E_q[k]²) for k1 = −log r, k2 = ½ log² r and k3 = r − 1 − log r.
    """
    got = moments(kl_estimator_moments(pair.p, pair.q))
    logs = pair.log_ratios
    halves = [precise.times(square(x), precise.decimal(0.5)) for x in logs]
    thirds = [precise.add((precise.exp(x), precise.decimal(-1.0), -x)) for x in logs]
    for name, values in (("k1", [-x for x in logs]), ("k2", halves), ("k3", thirds)):
        mean, std = float(pair.mean(values)), float(pair.std(values))
        scale = 1.0 + abs(mean) + std
        assert_close(got[f"{name}_std"], std, terms=scale, slack=1e-10 * scale)


@law(pair=distributions(q_zero=False), token=st.integers(0, 3))
def test_splitting_a_token_changes_no_moment(kl_estimator_moments, pair, token):
    """Cutting a token in two halves, under both distributions, changes no moment."""
    i = token % len(pair.q)
    halves = [[*row[:i], row[i] / 2, row[i] / 2, *row[i + 1 :]] for row in (pair.p, pair.q)]
    got = moments(kl_estimator_moments(*halves))
    truth = reference.kl_estimator_moments(pair.p, pair.q)
    for name in NAMES:
        scale = 1.0 + abs(truth[name]) + abs(truth[name.replace("std", "mean")])
        assert_close(got[name], truth[name], terms=scale, slack=1e-10 * scale)


@law(pair=distributions())
def test_equal_distributions_have_no_moments(kl_estimator_moments, pair):
    """Where p and q are the same, all seven are 0, and no mean of k2 and k3 is ever negative."""
    got = moments(assert_quiet(kl_estimator_moments, pair.q, pair.q))
    assert_close(list(got.values()), [0.0] * 7, terms=1.0, slack=1e-10)
    apart = moments(kl_estimator_moments(pair.p, pair.q))
    assert_in_range([apart["k2_mean"], apart["k2_std"]], 0.0, inf, shape=(2,))


@law(pair=distributions(), chance=st.sampled_from([1.0, 0.5, 1e-12, 1e-300]))
@example(pair=Distributions([1.0], [1.0]), chance=1.0)
def test_an_impossible_sample_makes_every_moment_infinite(kl_estimator_moments, pair, chance):
    """Where q samples a token that p excludes, all seven are infinite, without a warning.

    p_i = 0 < q_i
    """
    p, q = [*pair.p, 0.0], shares([*pair.q, chance])
    got = moments(assert_quiet(kl_estimator_moments, p, q))
    assert_same(list(got.values()), [inf] * 7)


@law(
    whole=steps(lambda p, q: (p + 1, q), 4, 4, max_size=5),
    form=forms(),
)
def test_moments_read_any_array_and_leave_it_alone(kl_estimator_moments, whole, form):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed.

    In float32 a distribution may miss 1 by 1e-4.
    """
    single = "int" in str(getattr(form([0]), "dtype", ""))
    p, q = ([1, 0], [1, 0]) if single else map(_in_64ths, zip((1, 1), *whole, strict=True))
    truth = reference.kl_estimator_moments([float(x) for x in p], [float(x) for x in q])
    got = moments(kl_estimator_moments(form(p), form(q)))
    for name in NAMES:
        assert_close(got[name], truth[name], terms=4.0 + truth[name], slack=1e-10)
    assert_untouched(kl_estimator_moments, form(p), form(q))
    rounded = np.array([0.8, 0.20005], dtype=np.float32)
    for moment in moments(kl_estimator_moments(rounded, rounded)).values():
        assert_close(moment, 0.0, terms=1.0, slack=1e-6)


def _in_64ths(weights: tuple[int, ...]) -> list[float]:
    """Probabilities in 64ths, which float32 holds exactly; the last token takes the rest."""
    return [weight / 64 for weight in weights] + [1.0 - sum(weights) / 64]


@law_of_ordinary_sizes
def test_moments_of_vocabularies_of_ordinary_size(kl_estimator_moments, sample):
    """Among many tokens all seven moments are those under samples from q.

    Σ_i q_i k(i) and √(Σ_i q_i (k(i) − mean)²) for k1, k2 and k3; all infinite where p excludes
    what q samples.
    """
    q, p = (sample.distributions(name, sample.columns) for name in ("q", "p"))
    if sample.choice("p covers q", True, True, True, False):
        p = (p + q) / 2
    got = moments(kl_estimator_moments(*sample.held(p, q)))
    drawn = q > 0
    if not p[drawn].all():
        assert_same(list(got.values()), [inf] * 7)
        return
    q, logs = q[drawn], np.log(p[drawn]) - np.log(q[drawn])
    of = {"k1": -logs, "k2": logs**2 / 2, "k3": np.expm1(logs) - logs}
    terms = 2.0 + q @ np.abs(logs)
    assert_close(got["exact_kl"], q @ of["k1"], terms=terms)
    for name, values in of.items():
        mean = q @ values
        std = np.sqrt(q @ (values - mean) ** 2)
        scale = 1.0 + abs(mean) + std
        assert_close(got[f"{name}_mean"], mean, terms=1.0 + q @ logs**2 if name == "k2" else terms)
        assert_close(got[f"{name}_std"], std, terms=scale, slack=1e-10 * scale)


@law_of_refusals(REFUSALS["kl_estimator_moments"])
def test_moments_refuse(kl_estimator_moments, bad):
    """Vectors of different lengths, and what is no distribution, are refused."""
    assert_refuses(kl_estimator_moments, *bad.args, **bad.kwargs)


# --- kl_penalty_terms -----------------------------------------------------------------------

ESTIMATORS = ("k1", "k2", "k3")
# log r, from equal policies to ones that share nothing; what rounding leaves is judged below.
LOG_RATIOS = (
    *(0.0, 0.5, -0.5, 1.0, -1.0, 0.1, -0.1, 2.0, -3.0, 5.0, -5.0, 15.0, -12.0, 25.0, -30.0, 0.0),
    *(1e-2, -1e-2, 1e-3, -1e-3, 1e-4, -1e-4, 1e-6, -1e-6, 1e-8, -1e-9, 0.6, -0.6, 0.4, -0.4),
    *(99.0, -100.0),
)  # 32
SMALL = tuple(
    sign * size
    for size in (1e-3, 1e-2, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-15, 2**-30, 3e-4, 1e-20, 1e-100)
    for sign in (1.0, -1.0)
)
OWN = (-1.0, -0.5, -2.0, -0.1, -5.0, 0.0, -13.0, -100.0)


@dataclass(frozen=True)
class Tokens:
    """Log-probabilities of sampled tokens, under the policy and under the reference."""

    own: list[float]
    ref: list[float]

    @property
    def log_ratios(self) -> Any:
        """log r of each token, the float64 nearest to the exact difference."""
        return np.array(self.ref) - np.array(self.own)

    def truth(self, estimator: str) -> Any:
        """The estimate of each token, to fifty digits and rounded."""
        pairs = zip(map(precise.decimal, self.ref), map(precise.decimal, self.own), strict=True)
        of = {"k1": lambda x: float(-x), "k2": lambda x: float(square(x)) / 2, "k3": excess}
        return np.array([of[estimator](precise.PRECISE.subtract(a, b)) for a, b in pairs])

    def scale(self, estimator: str) -> Any:
        """The absolute terms of each estimate, in which log r counts with both its terms.

        Near r = 1 those of k3 shrink with log r, as r − 1 does: it is no difference of numbers
        near 1. The series is better still; r − 1 by expm1, less log r, is good enough.
        """
        both = np.abs(self.own) + np.abs(self.ref)
        size = np.abs(self.log_ratios)
        if estimator == "k1":
            return both
        with np.errstate(over="ignore"):
            lead = np.maximum(np.abs(np.expm1(self.log_ratios)), size)
            return size * (size + both) if estimator == "k2" else lead * (1.0 + both)


def excess(x: Any) -> float:
    """exp(x) − 1 − x, where fifty digits are too few its first terms."""
    if abs(x) > 1e-12:
        return float(precise.add((precise.exp(x), precise.decimal(-1.0), -x)))
    return float(square(x)) / 2 * (1 + float(x) / 3)


def tokens(
    ratios: tuple[float, ...] = LOG_RATIOS, *, min_size: int = 0
) -> st.SearchStrategy[Tokens]:
    """Up to eight tokens of ordinary and extreme log-ratios."""
    pairs_ = steps(
        lambda own, ratio: (OWN[own], OWN[own] + ratios[ratio]),
        *(len(OWN), len(ratios)),
        min_size=min_size,
        max_size=8,
    )
    return pairs_.map(lambda drawn: Tokens([own for own, _ in drawn], [ref for _, ref in drawn]))


def estimators(*names: str) -> st.SearchStrategy[str]:
    return st.sampled_from(names or ESTIMATORS)


@law(drawn=tokens(), estimator=estimators())
@example(drawn=Tokens([], []), estimator="k3")
# one-covenant/grail#42
@example(drawn=Tokens([-0.6], [0.0]), estimator="k2")
# huggingface/trl#6637
# huggingface/trl#5984
@example(drawn=Tokens([-100.0], [-1.0]), estimator="k3")
@example(drawn=Tokens([-100.0], [-1.0]), estimator="k2")
@example(drawn=Tokens([0.0, 0.0, 0.0], [-5.0, 5.0, -25.0]), estimator="k3")
@example(drawn=Tokens([-5.0, 0.0], [0.0, -5.0]), estimator="k2")
@example(drawn=Tokens([-25.0, 0.0], [0.0, -25.0]), estimator="k1")
@example(
    drawn=Tokens([x - 8 for x in long_row()], [x - 8 for x in long_row()[::-1]]), estimator="k3"
)
def test_every_token_has_its_estimate(kl_penalty_terms, drawn, estimator):
    """Each token has an estimate of its own, at every log-ratio that it may have.

    k1 = −log r, k2 = ½ log² r, k3 = r − 1 − log r with r = ref / policy, to fifty digits.
    """
    got = kl_penalty_terms(drawn.own, drawn.ref, estimator)
    assert_close(got, drawn.truth(estimator), terms=drawn.scale(estimator))


@law(pair=distributions(q_zero=False), estimator=estimators())
# hpcaitech/ColossalAI#3696
@example(pair=TWO_TO_ONE, estimator="k3")
# one-covenant/grail#42
@example(pair=TWO_TO_ONE, estimator="k2")
def test_mean_penalty_over_all_tokens_is_the_moment(kl_penalty_terms, pair, estimator):
    """The mean of the terms over all tokens, weighed by the policy, is the estimator's mean.

    Σ_i π_i k(i) = E_π[k] of `kl_estimator_moments`, with p = ref and q = π; for k1 and k3 that is
    KL(π‖ref).
    """
    policy, ref = np.array(pair.q), np.array(pair.p)
    answer = kl_penalty_terms(np.log(policy), np.log(ref), estimator)
    terms = numbers(answer, shape=policy.shape)
    truth = reference.kl_estimator_moments(p=ref, q=policy)[f"{estimator}_mean"]
    scale = Tokens(list(np.log(policy)), list(np.log(ref))).scale(estimator) + ref / policy
    rounding = policy @ np.minimum(scale, 1e300)
    scale = 2.0 + 4 * rounding
    assert_close(policy @ terms, truth, terms=scale, count=len(policy), of=[answer])


@law(drawn=tokens(SMALL), estimator=estimators("k3", "k2"), level=st.sampled_from(OWN))
@example(drawn=Tokens([0.0, 0.0], [1e-4, -1e-8]), estimator="k3", level=0.0)
def test_penalties_near_zero_keep_their_digits(kl_penalty_terms, drawn, estimator, level):
    """Where policy and reference almost agree, k2 and k3 are tiny and right, and not negative.

    k3 = ½ x² + x³/6 + … with x = log r: a difference of numbers near 1 has no digits of it left.
    """
    got = kl_penalty_terms(drawn.own, drawn.ref, estimator)
    assert_in_range(got, 0.0, inf, shape=(len(drawn.own),))
    assert_close(got, drawn.truth(estimator), terms=drawn.scale(estimator))
    same = [level] * len(drawn.own)
    assert_same(kl_penalty_terms(same, same, estimator), [0.0] * len(same))


@law(drawn=tokens())
def test_penalties_never_reward_except_k1(kl_penalty_terms, drawn):
    """k2 and k3 are at least 0, and above k1 where the reference is the likelier.

    k3 ≥ 0 and k3 ≥ −log r because r ≥ 1 + log r; k3 = k1 + r − 1.
    """
    shape, x = (len(drawn.own),), drawn.log_ratios
    k1, k2, k3 = (
        1.0 * numbers(kl_penalty_terms(drawn.own, drawn.ref, name), shape=shape)
        for name in ESTIMATORS
    )
    assert_in_range([k2, k3], 0.0, inf, shape=(2, *shape))
    assert_close(k3 - k1, np.expm1(x), terms=drawn.scale("k3") + drawn.scale("k1"))
    assert_close(2 * k2, k1 * k1, terms=4 * drawn.scale("k2") + np.abs(x) * drawn.scale("k1"))


@law(drawn=tokens())
def test_exchanging_policy_and_reference(kl_penalty_terms, drawn):
    """Exchanged, the two policies give −k1 and the same k2, and k3 a hyperbolic complement.

    k3(x) + k3(−x) = 2 cosh x − 2 = 4 sinh²(x / 2), with x = log r.
    """
    shape, x = (len(drawn.own),), drawn.log_ratios
    turned = Tokens(drawn.ref, drawn.own)
    there, back = (
        {n: 1.0 * numbers(kl_penalty_terms(d.own, d.ref, n), shape=shape) for n in ESTIMATORS}
        for d in (drawn, turned)
    )
    assert_close(there["k1"] + back["k1"], np.zeros(shape), terms=drawn.scale("k1"))
    assert_close(there["k2"], back["k2"], terms=drawn.scale("k2"))
    both = drawn.scale("k3") + turned.scale("k3")
    assert_close(there["k3"] + back["k3"], 4.0 * np.sinh(x / 2) ** 2, terms=both)


@law(
    drawn=tokens(min_size=1),
    columns=st.integers(1, 4),
    extra=st.booleans(),
    estimator=estimators(),
)
@example(drawn=Tokens([-1.0, -2.0], [-1.0, -1.0]), columns=2, extra=False, estimator="k1")
def test_penalties_of_a_table_are_those_of_its_tokens(
    kl_penalty_terms, drawn, columns, extra, estimator
):
    """A table of tokens, of any rank, has the terms that its tokens have alone, as scalars."""
    shape = (1,) * extra + (len(drawn.own), columns)
    own = np.repeat(drawn.own, columns).reshape(shape)
    shifts = (np.arange(columns) - 1) * 0.25
    got = kl_penalty_terms(own, own + shifts, estimator)
    flat = Tokens(list(own.ravel()), list((own + shifts).ravel()))
    truth, scale = flat.truth(estimator), flat.scale(estimator)
    assert_close(got, np.reshape(truth, shape), terms=scale.reshape(shape))
    for i in (0, len(truth) - 1):
        alone = kl_penalty_terms(flat.own[i], flat.ref[i], estimator)
        assert_close(alone, truth[i], terms=scale[i])


@law(
    ratio=near(1000.0, 1e5, 1e300, -1000.0, -1e5, -1e160, 710.0, -745.0),
    level=near(0.0, -1.0, -700.0),
)
# huggingface/trl#6637
# huggingface/trl#5984
@example(ratio=99.0, level=-100.0)
def test_penalties_of_distant_policies(kl_penalty_terms, ratio, level):
    """Log-ratios of any size give the exact terms, or inf beyond float64, and never NaN.

    For log r → −∞, k3 → −log r − 1; r overflows above 709.
    """
    drawn = Tokens([level, level], [level + ratio, level])
    for name in ESTIMATORS:
        got = kl_penalty_terms(drawn.own, drawn.ref, name)
        size = 1.0 + np.abs(drawn.log_ratios)
        assert_close(got, drawn.truth(name), terms=drawn.scale(name), factor=size)


@law(
    whole=steps(lambda own, ref: (-own, -ref), 6, 6, max_size=5),
    form=forms(),
    ref_form=forms(),
    estimator=estimators(),
)
def test_penalties_read_any_array_and_leave_it_alone(
    kl_penalty_terms, whole, form, ref_form, estimator
):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed."""
    own, ref = [own for own, _ in whole], [ref for _, ref in whole]
    drawn = Tokens([float(x) for x in own], [float(x) for x in ref])
    got = kl_penalty_terms(form(own), ref_form(ref), estimator)
    assert_close(got, drawn.truth(estimator), terms=drawn.scale(estimator))
    assert_untouched(kl_penalty_terms, form(own), ref_form(ref), estimator)


@law_of_ordinary_sizes
def test_penalties_of_batches_of_ordinary_size(kl_penalty_terms, sample):
    """Every token of a vector, a table or a block has its own estimate, in every container.

    k1 = −log r, k2 = ½ log² r, k3 = r − 1 − log r with r = ref / policy, near 1 and far from it.
    """
    shape = sample.layout()
    estimator = sample.choice("estimator", *ESTIMATORS)
    reach = sample.choice("reach", 0.25, 2.0, 30.0)
    own = sample.reals("own", *shape, low=-9.0, high=0.0)
    ref = own + sample.reals("log-ratios", *shape, low=-reach, high=reach)
    got = kl_penalty_terms(*sample.held(own, ref), estimator)
    logs = ref - own
    small = np.abs(logs) < 0.1
    series = sum(logs**n / math.factorial(n) for n in range(2, 12))
    truth = {
        "k1": -logs,
        "k2": logs**2 / 2,
        "k3": np.where(small, series, np.expm1(logs) - logs),
    }[estimator]
    assert_close(got, truth, terms=Tokens(own, ref).scale(estimator), factor=2.0)


@law_of_refusals(REFUSALS["kl_penalty_terms"])
def test_penalties_refuse(kl_penalty_terms, bad):
    """Log-probabilities are finite and in one shape, and the estimator is k1, k2 or k3."""
    assert_refuses(kl_penalty_terms, *bad.args, **bad.kwargs)
