"""Laws of the gradients of `rlcheck.torch.kl`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import kl as reference
from rlcheck.grading.compare import assert_close, assert_same
from rlcheck.grading.laws import law
from rlcheck.logprobs import stable_log_softmax

from ..strategies import REALS, laid_out, layouts, steps
from .truths import assert_slope

INF = float("inf")
ESTIMATORS = ("k1", "k2", "k3")


@dataclass(frozen=True)
class Pair:
    """[V] logits of two distributions."""

    q: list[float]
    p: list[float]

    @property
    def log_q(self) -> Any:
        return stable_log_softmax(self.q)

    @property
    def log_p(self) -> Any:
        return stable_log_softmax(self.p)

    @property
    def size(self) -> float:
        """A bound of |log q_i − log p_i|."""
        return float(1.0 + np.abs(self.log_q - self.log_p).max())


def pairs(min_size: int = 1) -> st.SearchStrategy[Pair]:
    def entry(q: int, p: int) -> tuple[float, float]:
        return REALS[q] / 4, REALS[p] / 4

    drawn = steps(entry, 256, 256, min_size=min_size, max_size=5)
    return drawn.map(lambda entries: Pair(*map(list, zip(*entries, strict=True))))


def kl_slope(log_q: Any, log_p: Any) -> Any:
    """[V] the gradient of KL(q‖p) with respect to the logits of q."""
    log_ratio = log_q - log_p
    return np.exp(log_q) * (log_ratio - np.dot(np.exp(log_q), log_ratio))


def assert_slope_of_each_row(
    exact_kl_from_logits: Any,
    pair: Pair,
    axes: int,
    wrt: str,
    slope: Callable[[Pair], Any],
    terms: float,
) -> None:
    """One row, or two with the distributions exchanged: each has its slope, by its own weight.

    Of several axes, the alternatives may run along any.
    """
    rows, weights = np.array([pair.q, pair.p]), np.array([1.0, 2.0])
    truth = np.array([slope(pair), 2 * slope(Pair(pair.p, pair.q))])
    others = rows[::-1]
    if axes == 1:
        rows, others, weights, truth = rows[0], others[0], weights[0], truth[0]
    elif axes == 3:
        rows, others, weights, truth = (x[:, np.newaxis] for x in (rows, others, weights, truth))
    got = exact_kl_from_logits.gradient(rows, others, wrt=wrt, weights=weights)
    assert_close(got, truth, terms=terms)
    for axis in (0, 1, -2)[: 3 * (axes - 1)]:
        turned = (np.moveaxis(x, -1, axis) for x in (rows, others))
        got = exact_kl_from_logits.gradient(*turned, axis=axis, wrt=wrt, weights=weights)
        assert_close(got, np.moveaxis(truth, -1, axis), terms=terms)


@law(pair=pairs(), axes=st.integers(1, 3))
def test_slope_of_kl_with_respect_to_what_samples(
    exact_kl_from_logits: Any, pair: Pair, axes: int
) -> None:
    """The gradient of KL(q‖p) with respect to the logits of q is q (log q − log p − KL).

    In a batch, each row has its own.
    """

    def slope(row: Pair) -> Any:
        return kl_slope(row.log_q, row.log_p)

    assert_slope_of_each_row(exact_kl_from_logits, pair, axes, "q_logits", slope, 4 * pair.size)


@law(pair=pairs(), axes=st.integers(1, 3))
def test_slope_of_kl_with_respect_to_the_other(
    exact_kl_from_logits: Any, pair: Pair, axes: int
) -> None:
    """The gradient of KL(q‖p) with respect to the logits of p is p − q, also in a batch."""

    def slope(row: Pair) -> Any:
        return np.exp(row.log_p) - np.exp(row.log_q)

    assert_slope_of_each_row(exact_kl_from_logits, pair, axes, "p_logits", slope, 4.0)


@law(pair=pairs(), wrt=st.sampled_from(("q_logits", "p_logits")))
def test_slope_of_kl_agrees_with_finite_differences(
    exact_kl_from_logits: Any, pair: Pair, wrt: str
) -> None:
    """The gradient of KL is what its values say when a logit is moved a little."""
    q, p = np.clip(pair.q, -2, 2), np.clip(pair.p, -2, 2)
    got = exact_kl_from_logits.gradient(q, p, wrt=wrt)
    if wrt == "q_logits":
        assert_slope(got, lambda x: reference.exact_kl_from_logits(x, p), q, scale=4.0)
    else:
        assert_slope(got, lambda x: reference.exact_kl_from_logits(q, x), p, scale=4.0)


@law(pair=pairs(), gone=st.sampled_from((-INF, 0.0)), wrt=st.sampled_from(("q_logits", "p_logits")))
def test_an_alternative_that_is_never_sampled_leaves_no_nan(
    exact_kl_from_logits: Any, pair: Pair, gone: float, wrt: str
) -> None:
    """Where q is 0, its logit gets no gradient, and the others are those of the row without it.

    The other distribution may have the alternative or not.
    """
    got = exact_kl_from_logits.gradient([*pair.q, -INF], [*pair.p, gone], wrt=wrt)
    log_p = stable_log_softmax([*pair.p, gone])
    slope = np.append(kl_slope(pair.log_q, log_p[:-1]), 0.0)
    truth = slope if wrt == "q_logits" else np.exp(log_p) - np.append(np.exp(pair.log_q), 0.0)
    assert_close(got, truth, terms=2.0 * pair.size + 4.0)


def expected_slope(kl_penalty_terms: Any, pair: Pair, estimator: str) -> Any:
    """[V] E[∇k] with respect to the policy's logits, by enumeration of all tokens.

    ∇ log π(a) = onehot(a) − π, so that the policy-weighted sum over tokens a of k'(a) ∇ log π(a)
    is π (k' − E[k']).
    """
    slopes = kl_penalty_terms.gradient(pair.log_q, pair.log_p, estimator, wrt="logprobs")
    policy = np.exp(pair.log_q)
    return policy * (np.asarray(slopes) - np.dot(policy, slopes))


BERNOULLI = Pair([np.log(0.8), np.log(0.2)], [0.0, 0.0])


@law(pair=pairs())
# verl-project/verl#2953, OpenRLHF/OpenRLHF#1101: 0.2218 at π = 0.8 and ref = 0.5
@example(pair=BERNOULLI)
def test_expected_slope_of_k2_is_that_of_the_divergence(kl_penalty_terms: Any, pair: Pair) -> None:
    """Under samples from the policy, the expected gradient of k2 is that of KL(π‖ref).

    E_π[∇ ½ log² r] = ∇ KL(π‖ref), enumerated over a small vocabulary.
    """
    got = expected_slope(kl_penalty_terms, pair, "k2")
    assert_close(got, kl_slope(pair.log_q, pair.log_p), terms=4 * pair.size)


@law(pair=pairs())
# verl-project/verl#2953: 0 at π = 0.8 and ref = 0.5, where the divergence slopes by 0.2218
@example(pair=BERNOULLI)
def test_expected_slope_of_k1_is_nothing(kl_penalty_terms: Any, pair: Pair) -> None:
    """The gradient of k1 at a token is 1, so that its expectation is 0: k1 trains nothing.

    E_π[∇(−log r)] = E_π[∇ log π] = 0, although E_π[k1] = KL(π‖ref).
    """
    got = kl_penalty_terms.gradient(pair.log_q, pair.log_p, "k1", wrt="logprobs")
    assert_same(got, np.ones(len(pair.q)))
    assert_close(expected_slope(kl_penalty_terms, pair, "k1"), np.zeros(len(pair.q)), terms=2.0)


@law(pair=pairs())
# verl-project/verl#6058: 0.3 at π = 0.8 and ref = 0.5, where the divergence slopes by 0.2218
@example(pair=BERNOULLI)
def test_expected_slope_of_k3_is_that_of_the_reversed_divergence(
    kl_penalty_terms: Any, pair: Pair
) -> None:
    """Under samples from the policy, the expected gradient of k3 is that of KL(ref‖π).

    E_π[∇(r − 1 − log r)] = ∇ KL(ref‖π) = π − ref, although E_π[k3] = KL(π‖ref).
    """
    got = expected_slope(kl_penalty_terms, pair, "k3")
    ratio = np.exp(pair.log_p - pair.log_q)
    truth = np.exp(pair.log_q) - np.exp(pair.log_p)
    assert_close(got, truth, terms=4 + 4 * ratio, factor=pair.size)


@law(pair=pairs(), estimator=st.sampled_from(ESTIMATORS), layout=layouts())
def test_slope_of_a_term_is_that_of_its_formula(
    kl_penalty_terms: Any, pair: Pair, estimator: str, layout: str
) -> None:
    """The gradient at a token is 1 for k1, log π − log ref for k2, and 1 − r for k3.

    The reference is frozen; whether a gradient flows into it is not asked.
    """
    log_q, log_p = (laid_out(row, layout) for row in (pair.log_q, pair.log_p))
    got = kl_penalty_terms.gradient(log_q, log_p, estimator, wrt="logprobs")
    log_r = log_p - log_q
    truth = {"k1": np.ones(log_r.shape), "k2": -log_r, "k3": -np.expm1(log_r)}[estimator]
    assert_close(got, truth, terms=1.0 + np.abs(truth), factor=pair.size)


@law(gap=st.sampled_from((1.0, 800.0, 1e5)), estimator=st.sampled_from(ESTIMATORS))
# huggingface/trl#6637: an estimate that overflows, at a token that the loss does not count
@example(gap=800.0, estimator="k3")
def test_a_term_that_nobody_asks_for_has_no_slope(
    kl_penalty_terms: Any, gap: float, estimator: str
) -> None:
    """A token of weight 0 gets a gradient of 0, not NaN, though its estimate overflows."""
    got = kl_penalty_terms.gradient(
        [-gap, -1.0], [0.0, -1.0], estimator, wrt="logprobs", weights=[0.0, 1.0]
    )
    assert_same(got, [0.0, 1.0 if estimator == "k1" else 0.0])
