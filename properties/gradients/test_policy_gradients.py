"""Laws of the gradients of `rlcheck.torch.policy_gradients`."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.grading.compare import assert_close
from rlcheck.grading.laws import law

from ..strategies import REALS, evenly, laid_out, layouts, steps
from .truths import FLAGS

NAN, INF = float("nan"), float("inf")
HIDDEN = (NAN, INF, -INF, 1e308)  # what may stand behind a mask
LEVELS = ("token", "sequence")
MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
WIDTHS = (1, 2, 3)


@dataclass(frozen=True)
class Batch:
    """[B, T] new and old log-probabilities, the mask, and weights of the ratios."""

    new: Any
    old: Any
    mask: Any
    weights: Any

    def hidden_by(self, value: float, array: Any) -> Any:
        return np.where(self.mask == 1, array, value)


def batches() -> st.SearchStrategy[Batch]:
    def token(new: int, old: int, active: int, weight: int) -> tuple[Any, ...]:
        return -abs(REALS[new]) / 4, -abs(REALS[old]) / 4, active, REALS[weight]

    def build(tokens: list[tuple[Any, ...]], width: int, kind: type) -> Batch:
        rows = max(len(tokens) // width, 1)
        columns = zip(*(tokens * width)[: rows * width], strict=True)
        new, old, mask, weights = (np.array(x).reshape(rows, width) for x in columns)
        return Batch(new, old, mask.astype(kind), weights)

    drawn = steps(token, 256, 256, 2, 256, min_size=1, max_size=6)
    return st.builds(build, drawn, st.sampled_from(WIDTHS), st.sampled_from(FLAGS))


@law(batch=batches(), hidden=st.sampled_from(HIDDEN), level=st.sampled_from(LEVELS))
# MakazhanAlpamys/Soup#723: a masked token has no part in a sequence's ratio
@example(
    batch=Batch(*(np.array([row]) for row in ([-1.0, -4.0], [-1.0, -1.0], [1, 0], [1.0, 1.0]))),
    hidden=0.0,
    level="sequence",
)
def test_slope_of_a_ratio_is_the_ratio(
    importance_ratios: Any, batch: Batch, hidden: float, level: str
) -> None:
    """A token moves its ratio by the ratio; in a sequence's ratio it has its share 1/n.

    ∂ρ_t/∂log π_new,t = ρ_t, or ρ/n for each of a row's n active tokens; what the mask hides gets
    exactly 0, whatever stands there. The old policy is frozen.
    """
    new, old = batch.hidden_by(hidden, batch.new), batch.hidden_by(hidden, batch.old)
    got = importance_ratios.gradient(
        new, old, batch.mask, level=level, wrt="new_logprobs", weights=batch.weights
    )
    active = batch.mask == 1
    count = np.maximum(active.sum(1, keepdims=True), 1)
    log_ratio = np.where(active, batch.new - batch.old, 0.0)
    if level == "token":
        truth = np.where(active, batch.weights * np.exp(log_ratio), 0.0)
        terms = np.abs(truth)
    else:
        ratio = np.exp(log_ratio.sum(1, keepdims=True) / count) / count
        weights = np.where(active, batch.weights, 0.0)
        truth = np.where(active, ratio * weights.sum(1, keepdims=True), 0.0)
        terms = np.where(active, ratio * np.abs(weights).sum(1, keepdims=True), 0.0)
    size = 1.0 + float(np.abs(log_ratio).max())
    assert_close(got, truth, terms=terms, factor=size)


@law(gap=st.sampled_from((800.0, 1e4)), level=st.sampled_from(LEVELS))
def test_an_infinite_ratio_that_nobody_asks_for_has_no_slope(
    importance_ratios: Any, gap: float, level: str
) -> None:
    """Where the loss is clipped, a ratio that overflowed gets 0 back and gives 0, not NaN."""
    got = importance_ratios.gradient(
        [[0.0, 0.0], [-1.0, -1.0]],
        [[-gap, -gap], [-1.0, -1.0]],
        [[1, 1], [1, 1]],
        level=level,
        wrt="new_logprobs",
        weights=[[0.0, 0.0], [1.0, 1.0]],
    )
    assert_close(got, [[0.0, 0.0], [1.0, 1.0]], terms=1.0)


RATIOS = (1.0, 0.5, 0.9, 1.1, 0.75, 1.5, 2.5, 4.0, 0.0, INF)
Tokens = list[tuple[float, float, float]]


def clipped_tokens() -> st.SearchStrategy[Tokens]:
    """Ratio, advantage and weight; ratios away from where the clips set in."""

    def token(ratio: int, advantage: int, weight: int) -> tuple[float, float, float]:
        return RATIOS[ratio], REALS[advantage], REALS[weight]

    return steps(token, len(RATIOS), 256, 256, min_size=1, max_size=6)


@law(
    tokens=clipped_tokens(),
    clips=st.sampled_from(((0.2, 0.2), (0.2, 0.28), (0.4, 3.0))),
    dual=st.sampled_from((None, 3.0)),
    layout=layouts(),
)
# thu-ml/tianshou#433: the dual clip leaves positive advantages alone
@example(tokens=[(0.9, 1.0, 1.0)], clips=(0.2, 0.2), dual=3.0, layout="row")
# THUDM/slime#2247: it cuts off the slope where the advantage is negative
@example(tokens=[(10.0, -1.0, 1.0)], clips=(0.2, 0.2), dual=3.0, layout="table")
def test_a_clipped_term_slopes_only_where_the_ratio_is_followed(
    clipped_policy_terms: Any,
    tokens: Tokens,
    clips: tuple[float, float],
    dual: float | None,
    layout: str,
) -> None:
    """The loss follows the ratio by −A, and not at all where it is clipped.

    It is clipped above 1 + high where A > 0, below 1 − low where A < 0, and above the dual clip
    where A < 0; an infinite ratio makes no NaN.
    """
    columns = zip(*tokens, strict=True)
    ratios, advantages, weights = (laid_out(column, layout) for column in columns)
    low, high = clips
    got = clipped_policy_terms.gradient(
        ratios,
        advantages,
        clip_low=low,
        clip_high=high,
        dual_clip=dual,
        wrt="ratios",
        weights=weights,
    )
    ceiling = np.where(advantages > 0, 1 + high, INF if dual is None else dual)
    followed = (ratios <= ceiling) & ((advantages > 0) | (ratios >= 1 - low))
    truth = np.where(followed, -advantages * weights, 0.0)
    assert_close(got, truth, terms=np.abs(advantages * weights))


def expected_weights(mask: Any, mode: str, max_length: int) -> Any:
    """[B, T] the weight of each token in the mode's own mean, as exact fractions."""
    lengths = [int(sum(row)) for row in mask]
    share: list[Fraction]
    if mode == "token-mean":
        share = [Fraction(1, max(sum(lengths), 1))] * len(mask)
    elif mode == "seq-mean-token-mean":
        alive = max(sum(n > 0 for n in lengths), 1)
        share = [Fraction(1, alive * max(n, 1)) for n in lengths]
    elif mode == "seq-mean-token-sum":
        share = [Fraction(1, len(mask))] * len(mask)
    else:
        share = [Fraction(1, len(mask) * max_length)] * len(mask)
    return [[float(s) * bool(m) for m in row] for s, row in zip(share, mask, strict=True)]


@law(
    batch=batches(),
    hidden=st.sampled_from(HIDDEN),
    mode=st.sampled_from(MODES),
    max_length=st.sampled_from((1, 4, 1000)),
)
# alibaba/ROLL#444: entries outside the mask have no gradient
@example(
    batch=Batch(np.array([[2.0, 90.0], [4.0, -10.0]]), None, np.array([[1, 0], [1, 0]]), None),
    hidden=90.0,
    mode="token-mean",
    max_length=1,
)
# a row without tokens has no share in the mean of means
@example(
    batch=Batch(np.array([[1.0], [2.0]]), None, np.array([[1], [0]]), None),
    hidden=2.0,
    mode="seq-mean-token-mean",
    max_length=1,
)
# huggingface/trl#3248, verl-project/verl#782: a mask of zeros gives a gradient of 0, not NaN
@example(
    batch=Batch(np.array([[1.0, 2.0]]), None, np.array([[0, 0]]), None),
    hidden=2.0,
    mode="seq-mean-token-mean",
    max_length=1,
)
def test_each_mode_weighs_tokens_in_its_own_way(
    aggregate_token_losses: Any, batch: Batch, hidden: float, mode: str, max_length: int
) -> None:
    """The policy gradient of an aggregated loss weighs each token's own as the mode says.

    1/N; 1/(R n_b); 1/B; 1/(B · max_length) under the mask, and exactly 0 elsewhere, whatever
    stands there.
    """
    options = {"max_length": max_length} if mode.endswith("norm") else {}
    losses = batch.hidden_by(hidden, batch.new)
    got = aggregate_token_losses.gradient(losses, batch.mask, mode, **options, wrt="losses")
    truth = expected_weights(batch.mask.tolist(), mode, max_length)
    assert_close(got, truth, terms=truth)


@law(
    rows=st.integers(1, 3), times=st.integers(2, 4), mode=st.sampled_from(MODES), active=evenly(512)
)
def test_duplicated_rows_share_their_slope(
    aggregate_token_losses: Any, rows: int, times: int, mode: str, active: int
) -> None:
    """A row that stands k times in a batch gets its gradient in k equal shares."""
    mask = np.array([int(bit) for bit in f"{active:09b}"][: 3 * rows]).reshape(rows, 3)
    options = {"max_length": 5} if mode.endswith("norm") else {}
    once, often = (
        np.asarray(
            aggregate_token_losses.gradient(np.ones(m.shape), m, mode, **options, wrt="losses")
        )
        for m in (mask, np.tile(mask, (times, 1)))
    )
    assert_close(often.reshape(times, rows, 3).sum(0), once, terms=np.abs(once))
