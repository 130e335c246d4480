"""Laws of the gradients of `rlcheck.torch.logprobs`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import logprobs as reference
from rlcheck.grading.compare import assert_close, assert_same
from rlcheck.grading.laws import law

from ..strategies import REALS, laid_out, layouts, steps
from .truths import FLAGS

NAN, INF = float("nan"), float("inf")
HIDDEN = (NAN, INF, -INF, 1e308)  # what may stand behind a mask
SHIFTS = (0.0, 1e4, -1e8)


@dataclass(frozen=True)
class Row:
    """Logits of one row, and the weights of its log-probabilities."""

    logits: list[float]
    weights: list[float]


def rows(min_size: int = 1) -> st.SearchStrategy[Row]:
    def entry(logit: int, weight: int) -> tuple[float, float]:
        return REALS[logit], REALS[weight]

    drawn = steps(entry, 256, 256, min_size=min_size, max_size=6)
    return drawn.map(lambda pairs: Row([x for x, _ in pairs], [w for _, w in pairs]))


def softmax(logits: Any) -> Any:
    """[..., V] probabilities along the last axis."""
    return np.exp(reference.stable_log_softmax(logits))


@law(
    row=rows(),
    shift=st.sampled_from(SHIFTS),
    layout=layouts(),
    axis=st.sampled_from((None, 0, -1, 1, -2)),
)
@example(row=Row([800.0, 0.0], [0.0, 1.0]), shift=0.0, layout="vector", axis=None)
@example(row=Row([2.0, 0.0], [1.0, 2.0]), shift=0.0, layout="table", axis=0)
def test_slope_of_log_softmax_is_the_weight_less_the_probability(
    stable_log_softmax: Any, row: Row, shift: float, layout: str, axis: int | None
) -> None:
    """The gradient of weighted log-probabilities is each weight less its share of the sum.

    ∂/∂x_i Σ_j w_j log p_j = w_i − p_i Σ_j w_j, at any common offset of the logits and along any
    axis; good to the rounding of the logits themselves.
    """
    logits, weights = laid_out(row.logits, layout) + shift, laid_out(row.weights, layout)
    truth = weights - softmax(logits) * weights.sum(-1, keepdims=True)
    terms = np.abs(weights) + np.abs(weights).sum(-1, keepdims=True)
    options = {} if axis is None or not -logits.ndim <= axis < logits.ndim else {"axis": axis}
    logits, weights, truth, terms = (
        np.moveaxis(x, -1, options.get("axis", -1)) for x in (logits, weights, truth, terms)
    )
    got = stable_log_softmax.gradient(logits, **options, wrt="logits", weights=weights)
    assert_close(got, truth, terms=terms, factor=1 + abs(shift))


@law(row=rows(2))
def test_an_impossible_token_does_not_spoil_the_slope(stable_log_softmax: Any, row: Row) -> None:
    """A logit of −∞ gets and gives no gradient: the others have that of the row without it.

    The weight of its log-probability, −∞, is 0.
    """
    logits, weights = [*row.logits, -INF], [*row.weights, 0.0]
    got = stable_log_softmax.gradient(logits, wrt="logits", weights=weights)
    truth = np.array(row.weights) - softmax(row.logits) * sum(row.weights)
    assert_close(got, [*truth, 0.0], terms=1.0 + np.abs(row.weights).sum())


@dataclass(frozen=True)
class Response:
    """[B, L, 3] logits, [B, L] ids, a mask, and [B, L − 1] weights that are 0 outside it."""

    logits: Any
    ids: Any
    mask: Any
    weights: Any


def responses() -> st.SearchStrategy[Response]:
    def entry(a: int, b: int, c: int, token: int, active: int, weight: int) -> tuple[Any, ...]:
        return [REALS[a], REALS[b], REALS[c]], token, active, REALS[weight]

    def build(tokens: list[tuple[Any, ...]], rows: int, kind: type) -> Response:
        batch = [tokens, tokens[::-1]][:rows]
        logits, ids, mask, weights = (
            np.array([[token[part] for token in row] for row in batch]) for part in range(4)
        )
        mask[:, 0] = 0
        weights = np.where(mask == 1, weights, 0.0)[:, 1:]
        return Response(logits.astype(np.float64), ids, mask.astype(kind), weights)

    drawn = steps(entry, 256, 256, 256, 3, 2, 256, min_size=1, max_size=5)
    return st.builds(build, drawn, st.sampled_from((1, 2)), st.sampled_from(FLAGS))


def onehot_less_softmax(case: Response) -> Any:
    """[B, L, 3] the gradient of the weighted log-probabilities of the responses."""
    truth = np.zeros(case.logits.shape)
    for (b, t), weight in np.ndenumerate(case.weights):
        if weight:
            truth[b, t] = weight * (np.eye(3)[case.ids[b, t + 1]] - softmax(case.logits[b, t]))
    return truth


@law(case=responses())
# verl-project/verl#3287: a token is scored by the logits before it
@example(
    case=Response(
        np.array([[[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0]]]),
        np.array([[0, 1, 0]]),
        np.array([[0, 1, 1]]),
        np.array([[1.0, 1.0]]),
    )
)
def test_a_token_pushes_the_logits_that_predicted_it(
    causal_response_logprobs: Any, case: Response
) -> None:
    """The gradient of a response's log-probability is onehot − softmax in the rows that score it.

    The row at t scores the token at t + 1; the last row scores none. Tokens outside the mask
    have no weight, and their rows get exactly 0.
    """
    got = causal_response_logprobs.gradient(
        case.logits, case.ids, case.mask, wrt="logits", weights=case.weights, field=("selected", 0)
    )
    truth = onehot_less_softmax(case)
    assert_close(got, truth, terms=np.abs(np.pad(case.weights, ((0, 0), (0, 1))))[..., None] * 2.0)


@law(case=responses(), hidden=st.sampled_from(HIDDEN), unknown=st.sampled_from((-100, 3)))
def test_rows_outside_the_response_get_no_gradient_whatever_they_hold(
    causal_response_logprobs: Any, case: Response, hidden: float, unknown: int
) -> None:
    """NaN, infinities and unknown ids outside the response leave the gradient as it is.

    Rows that score a token outside the mask get exactly 0, and never NaN.
    """
    outside = np.pad(case.mask[:, 1:] == 0, ((0, 0), (0, 1)), constant_values=True)
    logits = np.where(outside[..., None], hidden, case.logits)
    ids = np.where(case.mask == 1, case.ids, unknown)
    got = causal_response_logprobs.gradient(
        logits, ids, case.mask, wrt="logits", weights=case.weights, field=("selected", 0)
    )
    assert_close(got, onehot_less_softmax(case), terms=np.where(outside, 0.0, 200.0)[..., None])


@dataclass(frozen=True)
class Masked:
    """Log-probabilities of tokens along the last axis, and their mask."""

    logprobs: Any
    old: Any
    mask: Any

    def hidden_by(self, value: float, entries: Any) -> Any:
        return np.where(self.mask == 1, entries, value)

    @property
    def weights(self) -> Any:
        """A weight of its own for each sequence: 1, 2, ..."""
        return np.arange(1.0, self.counts.size + 1).reshape(self.counts.shape)

    @property
    def counts(self) -> Any:
        """Active tokens of each sequence, of which an empty one counts as having one."""
        return np.maximum(self.mask.sum(-1), 1)

    @property
    def size(self) -> Any:
        """[..., 1] what bounds the rounding of a sequence's log-probabilities."""
        return 1.0 + (np.abs(self.logprobs) + np.abs(self.old)).sum(-1, keepdims=True)


def masked(layouts: st.SearchStrategy[str]) -> st.SearchStrategy[Masked]:
    def entry(new: int, old: int, active: int) -> tuple[float, float, int]:
        return -abs(REALS[new]) / 4, -abs(REALS[old]) / 4, active

    def build(tokens: list[tuple[float, float, int]], layout: str, kind: type) -> Masked:
        new, old, mask = (laid_out(x, layout) for x in zip(*tokens, strict=True))
        return Masked(new, old, mask.astype(kind))

    drawn = steps(entry, 256, 256, 2, min_size=1, max_size=6)
    return st.builds(build, drawn, layouts, st.sampled_from(FLAGS))


BATCHES = layouts("row", "column", "table")


@law(case=masked(BATCHES), hidden=st.sampled_from(HIDDEN))
def test_slope_of_a_sum_of_logprobs_is_the_mask(
    masked_sequence_metrics: Any, case: Masked, hidden: float
) -> None:
    """The gradient of a sequence's log-probability is its mask, whatever stands behind it."""
    got = masked_sequence_metrics.gradient(
        case.hidden_by(hidden, case.logprobs),
        case.mask,
        wrt="selected",
        weights=case.weights,
        field=("sum_logprob", 1),
    )
    assert_same(got, case.mask * case.weights[:, np.newaxis])


@law(case=masked(BATCHES), hidden=st.sampled_from(HIDDEN))
def test_slope_of_perplexity_is_shared_by_the_active_tokens(
    masked_sequence_metrics: Any, case: Masked, hidden: float
) -> None:
    """Each of a sequence's n active tokens lowers its perplexity by perplexity / n.

    ∂/∂log p_t exp(−mean) = −exp(−mean) m_t / n; a sequence without tokens gets exactly 0.
    """
    weights = np.where(case.mask.any(-1), case.weights, 0.0)
    got = masked_sequence_metrics.gradient(
        case.hidden_by(hidden, case.logprobs),
        case.mask,
        wrt="selected",
        weights=weights,
        field=("perplexity", 2),
    )
    mean = (case.mask * case.logprobs).sum(-1) / case.counts
    share = (weights * np.exp(-mean) / case.counts)[:, np.newaxis]
    assert_close(got, -share * case.mask, terms=share * case.size)


@law(case=masked(layouts()), hidden=st.sampled_from(HIDDEN), every=st.booleans())
def test_slope_of_a_sequence_ratio_is_the_ratio(
    sequence_logprob_ratio: Any, case: Masked, hidden: float, every: bool
) -> None:
    """Each active token of the new policy moves the ratio of a sequence by the ratio itself.

    ∂ρ/∂log π_new,t = ρ m_t; masked tokens get exactly 0, and without a mask all are active. The
    old policy is frozen.
    """
    if every:
        case = Masked(case.logprobs, case.old, np.ones(case.mask.shape))
    new, old = case.hidden_by(hidden, case.logprobs), case.hidden_by(hidden, case.old)
    masks = () if every else (case.mask,)
    got = sequence_logprob_ratio.gradient(
        new, old, *masks, wrt="new_logprobs", weights=case.weights
    )
    log_ratio = (case.mask * (case.logprobs - case.old)).sum(-1)
    truth = (case.weights * np.exp(log_ratio))[..., np.newaxis] * case.mask
    assert_close(got, truth, terms=truth * case.size)


@law(tokens=st.integers(1, 4))
def test_a_ratio_beyond_float64_that_nobody_asks_for_stays_silent(
    sequence_logprob_ratio: Any, tokens: int
) -> None:
    """Where the loss does not depend on a ratio that overflowed, its tokens get 0 and not NaN."""
    new, old = [0.0] * tokens, [-2000.0] * tokens
    got = sequence_logprob_ratio.gradient(new, old, wrt="new_logprobs", weights=0.0)
    assert_same(got, [0.0] * tokens)
