"""Laws of `rlcheck.logprobs`."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlcheck import logprobs as reference
from rlcheck.grading.compare import (
    assert_close,
    assert_quiet,
    assert_refuses,
    assert_same,
    assert_untouched,
    exact,
    nearest_float,
    numbers,
    record,
    total,
)
from rlcheck.grading.laws import law

from . import precise
from .ordinary import Sample, law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import BYTES, REALS, forms, long_row, near, steps, whole_numbers

inf, nan = np.inf, np.nan

REFUSALS = {
    "stable_log_softmax": (
        refuse([0.0, nan, 1.0], says="logits[1] is nan"),
        refuse([0.0, inf], says="logits[1] is inf; it must be finite or -inf"),
        refuse([[0.0, 1.0], [2.0, nan]], says="logits[1, 1] is nan"),
        refuse([-inf, -inf], says="logits[:] is all -inf"),
        refuse([[0.0, 1.0], [-inf, -inf]], says="logits[1, :] is all -inf"),
        refuse([[0.0, -inf], [1.0, -inf]], 0, says="logits[:, 1] is all -inf"),
        refuse([], says="logits has shape (0,)"),
        refuse(np.zeros((2, 0)), says="logits has shape (2, 0)"),
        refuse([0.0, 1.0], 1, says="axis is 1; it must be an integer in [-1, 1)"),
        refuse([[0.0, 1.0]], -3, says="axis is -3"),
        refuse([[0.0, 1.0]], 0.5, says="axis is 0.5"),
        refuse("01", says="logits is '01'"),
        refuse([0.0, None], says="logits[1] is None"),
        refuse(None, says="logits is None"),
        refuse([[0.0, 1.0], [2.0]], says="logits is ragged"),
    ),
    "causal_response_logprobs": (
        refuse([[[0.0, 1.0]] * 2], [[0, 1]], [[1, 0]], says="response_mask[0, 0] is True"),
        refuse([[[0.0, 1.0]] * 2], [[0, 2]], [[0, 1]], says="input_ids[0, 1] is 2; it must be in"),
        refuse([[[0.0, 1.0]] * 2], [[0, -1]], [[0, 1]], says="input_ids[0, 1] is -1"),
        refuse([[[0.0, 1.0]] * 2], [[0, -100]], [[0, 1]], says="input_ids[0, 1] is -100"),
        refuse([[[nan, 1.0], [0.0, 0.0]]], [[0, 1]], [[0, 1]], says="logits[0, 0, 0] is nan"),
        refuse([[[0.0, inf], [0.0, 0.0]]], [[0, 0]], [[0, 1]], says="logits[0, 0, 1] is inf"),
        refuse([[[-inf, -inf], [0.0, 0.0]]], [[0, 0]], [[0, 1]], says="logits[0, 0] is all -inf"),
        refuse(
            [[[0.0, 0.0]] * 3, [[0.0, 0.0], [0.0, nan], [0.0, 0.0]]],
            [[0, 0, 0], [0, 0, 0]],
            [[0, 1, 1], [0, 0, 1]],
            says="logits[1, 1, 1] is nan",
        ),
        refuse([[[0.0, 1.0]] * 2], [[0, 1, 1]], [[0, 1]], says="input_ids has shape (1, 3)"),
        refuse([[[0.0, 1.0]] * 2], [[0, 1]], [[1]], says="response_mask has shape (1, 1)"),
        refuse([[[0.0, 1.0]] * 2], [[0, 1]], [[0, 2]], says="response_mask[0, 1] is 2"),
        refuse([[[0.0, 1.0]] * 2], [0, 1], [0, 1], says="input_ids has shape (2,)"),
        refuse([[0.0, 1.0]] * 2, [[0, 1]], [[0, 1]], says="logits has shape (2, 2)"),
        refuse([[[0.0, 1.0]] * 2], [[0, 0.5]], [[0, 1]], says="input_ids[0, 0] is 0.0"),
        refuse([[[0.0, 1.0]] * 2], None, [[0, 1]], says="input_ids is None"),
        refuse("logits", [[0, 1]], [[0, 1]], says="logits is 'logits'"),
    ),
    "masked_sequence_metrics": (
        refuse([[-1.0, nan]], [[1, 1]], says="selected[0, 1] is nan"),
        refuse([[-1.0], [inf]], [[1], [1]], says="selected[1, 0] is inf"),
        refuse([[-1.0, -2.0]], [[1]], says="mask has shape (1, 1)"),
        refuse([[-1.0, -2.0]], [1, 1], says="mask has shape (2,)"),
        refuse([[-1.0, -2.0]], [[1, 0.5]], says="mask[0, 1] is 0.5"),
        refuse([[-1.0, -2.0]], [[1, -1]], says="mask[0, 1] is -1"),
        refuse([[-1.0, -2.0], [-1.0]], [[1, 1], [1, 1]], says="selected is ragged"),
        refuse([[-1.0, None]], [[1, 1]], says="selected[0, 1] is None"),
        refuse("ab", [[1, 1]], says="selected is 'ab'"),
        refuse([[-1.0, -2.0]], None, says="mask is None"),
    ),
    "sequence_logprob_ratio": (
        refuse([-1.0, -2.0], [-1.0], says="old_logprobs has shape (1,)"),
        refuse([[-1.0, -2.0]], [-1.0, -2.0], says="old_logprobs has shape (2,)"),
        refuse([-1.0, -2.0], [-1.0, -2.0], [1], says="mask has shape (1,)"),
        refuse([[-1.0, -2.0]] * 2, [[-1.0, -2.0]] * 2, [1, 0], says="mask has shape (2,)"),
        refuse([-1.0], [-inf], says="old_logprobs[0] is -inf; it must be finite"),
        refuse([-inf], [-inf], says="old_logprobs[0] is -inf"),
        refuse([-1.0, -inf], [-1.0, -inf], [0, 1], says="old_logprobs[1] is -inf"),
        refuse([nan], [-1.0], says="new_logprobs[0] is nan"),
        refuse([[-1.0, -1.0]], [[-1.0, nan]], [[0, 1]], says="old_logprobs[0, 1] is nan"),
        refuse([inf], [-1.0], says="new_logprobs[0] is inf"),
        refuse([-1.0], [inf], says="old_logprobs[0] is inf"),
        refuse([-1.0, -2.0], [-1.0, -2.0], [1, 2], says="mask[1] is 2"),
        refuse(["-1", "-2"], [-1.0, -2.0], says="new_logprobs[0] is '-1'"),
        refuse([-1.0], None, says="old_logprobs is None"),
    ),
}


def _rough(count: int, low: float, width: float) -> tuple[float, ...]:
    return tuple(low + width * (i * 0.6180339887498949 % 1.0) for i in range(1, count + 1))


FINITE = (
    *(0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 5.0, -5.0, 0.1, -0.1, 10.0, -10.0),
    *(20.0, -20.0, 50.0, -50.0, 120.0, -120.0, 800.0, -800.0),
    *_rough(33, -6.0, 12.0),
)  # 56
LOGITS = (*FINITE, *([-inf] * 8))  # 64
EXTREMES = (
    *(0.0, 1.0, 1e8, -1e8, 1e8 + 1, 89.0, 710.0, -746.0, 1e4, 1e15, 65504.0, 3.5e38),
    *(1e308, -1e308, 1.7e308, -1.7e308, 1e-300, -inf),
)
LOGPROBS = (
    *(0.0, -1.0, -2.0, -0.5, -800.0, -0.1, -5.0, -10.0, -1e-3, -1e-9, -50.0, -200.0, -3.0),
    *(-720.0, -1000.0, *_rough(17, -6.0, 6.0)),
)  # 32
JUNK = (0.0, nan, -inf, inf, 1.7e308, -3.0, 7.0)  # what may stand where a mask is 0


def possible(row: list[float]) -> list[float]:
    """The row, with one logit made finite where there is none."""
    return row if max(row) > -inf else [0.0, *row[1:]]


def in_rows(entries: list[Any], rows: int) -> list[list[Any]]:
    """As many entries as fill the rows."""
    width = len(entries) // rows
    return [entries[i * width : (i + 1) * width] for i in range(rows)]


def rows_of_logits() -> st.SearchStrategy[list[float]]:
    """One to six logits: ordinary ones, far ones, impossible tokens."""
    return steps(LOGITS.__getitem__, len(LOGITS), min_size=1, max_size=6).map(possible)


def finite_rows() -> st.SearchStrategy[list[float]]:
    return steps(FINITE.__getitem__, len(FINITE), min_size=1, max_size=6)


def extreme_rows() -> st.SearchStrategy[list[float]]:
    """Logits at which a naive exponential overflows, or a float forgets the differences."""
    return steps(EXTREMES.__getitem__, len(EXTREMES), min_size=1, max_size=6).map(possible)


def tables(min_size: int = 1) -> st.SearchStrategy[list[list[float]]]:
    """Up to four rows of three finite logits; as many rows as columns among them."""
    return steps(lambda *row: [FINITE[i] for i in row], 56, 56, 56, min_size=min_size, max_size=4)


def gaps(row: list[float]) -> list[float]:
    """1 + |x_i − max x|, the scale of an error in a log-softmax."""
    return [1.0 + abs(float(gap)) for gap in precise.below_maximum(row)]


def some_impossible(
    sample: Sample, name: str, shape: tuple[int, ...], axis: int
) -> NDArray[np.float64]:
    """Logits, a tenth of them −∞ but never all along the axis."""
    logits = sample.reals(name, *shape)
    out = sample.flags(f"{name} out", *shape, share=0.1)
    return np.where(out & (logits < logits.max(axis, keepdims=True)), -inf, logits)


def log_softmax(logits: Any, axis: int) -> Any:
    """(x − max x) − log Σ exp(x − max x), where no difference is large."""
    below = logits - logits.max(axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis, keepdims=True))


def floats(got: Any, *, shape: tuple[int, ...]) -> Any:
    """An answer to calculate with: booleans and integers too, in its own precision."""
    return 1.0 * numbers(got, shape=shape)


# --- stable_log_softmax ---------------------------------------------------------------------


@law(row=st.one_of(rows_of_logits(), extreme_rows()))
@example(row=[1e8, 1e8, 1e8])
@example(row=[1e6, 1e6 + 1.0, 1e6 + 2.0])  # ml-explore/mlx#4169
@example(row=[7.3, *[0.1] * 99])  # genlm/genlm-backend#66
@example(row=[-1.7e308, 1.7e308])
def test_log_softmax_is_stable_at_extreme_logits(stable_log_softmax, row):
    """Logits of any size give the log-probabilities that exact arithmetic gives.

    log p_i = (x_i − max x) − log Σ_j exp(x_j − max x), within 64 ε (1 + |x_i − max x|).
    """
    truth = [float(logprob) for logprob in precise.log_softmax(row)]
    assert_close(stable_log_softmax(row), truth, terms=gaps(row))


@law(
    eighths=steps(lambda code: code - 128, 257, min_size=1, max_size=6),
    offset=st.sampled_from([1.0, -8.0, 2.0**10, -(2.0**20), 2.0**30, -(2.0**40)]),
)
def test_log_softmax_forgets_a_common_offset(stable_log_softmax, eighths, offset):
    """Adding one number to all logits changes nothing.

    log softmax(x + c) = log softmax(x); x + c is exact here.
    """
    row = [count / 8 for count in eighths]
    before = numbers(stable_log_softmax(row), shape=(len(row),))
    scale = 2 * np.array(gaps(row))
    assert_close(stable_log_softmax([x + offset for x in row]), before, terms=scale)


@law(
    block=steps(REALS.__getitem__, 256, min_size=12, max_size=12),
    axis=st.sampled_from([1, 0, 2, -1, -2, -3]),
)
def test_log_softmax_acts_along_any_of_three_axes(stable_log_softmax, block, axis):
    """Whichever axis holds the alternatives, moving it last and back gives the same.

    Rows of a block of 2 × 2 × 3 logits, each by log_softmax of one row.
    """
    logits = np.reshape(block, (2, 2, 3))
    rows = np.moveaxis(logits, axis, -1)
    truth = np.moveaxis(np.apply_along_axis(reference.stable_log_softmax, -1, rows), -1, axis)
    scale = 1.0 + np.ptp(logits, axis=axis, keepdims=True) + 0.0 * logits
    assert_close(stable_log_softmax(logits, axis), truth, terms=scale)


@law(table=tables(), axis=st.sampled_from([-1, 0, 1, -2]))
@example(table=[[0.0, 1.0, 2.0], [3.0, 3.0, 3.0], [5.0, 0.0, -5.0]], axis=0)
def test_probabilities_along_the_axis_sum_to_one(stable_log_softmax, table, axis):
    """The probabilities along the chosen axis sum to one.

    Σ_i exp(log p_i) = 1
    """
    logprobs = floats(stable_log_softmax(table, axis), shape=np.shape(table))
    sums = np.exp(logprobs).sum(axis=axis)
    assert_close(sums, np.ones(sums.shape), terms=2.0 * logprobs.shape[axis])


@law(row=finite_rows())
def test_log_odds_are_the_differences_of_the_logits(stable_log_softmax, row):
    """The log-odds of two tokens are the difference of their logits.

    log p_i − log p_j = x_i − x_j
    """
    logprobs = floats(stable_log_softmax(row), shape=(len(row),))
    scale = np.array(gaps(row))
    odds = [logit - row[0] for logit in row]
    assert_close(logprobs - logprobs[0], odds, terms=scale + scale[0])


@law(row=finite_rows(), place=st.integers(0, 6))
@example(row=[1e8, 1e8, 1e8], place=0)
def test_impossible_tokens_take_nothing_from_the_others(stable_log_softmax, row, place):
    """A logit of −inf stays −inf, and the other tokens are as they are without it."""
    scale = gaps(row)
    truth = list(reference.stable_log_softmax(row))
    for entries, entry in ((row := list(row), -inf), (truth, -inf), (scale, 1.0)):
        entries.insert(place, entry)
    assert_close(assert_quiet(stable_log_softmax, row), truth, terms=scale)


@law(table=tables(min_size=0))
@example(table=[])
@example(table=[[800.0, 800.0, 0.5]])
@example(table=[long_row(40), long_row(80)[40:], long_row(120)[80:]])
def test_rows_are_normalised_one_by_one(stable_log_softmax, table):
    """Each row of a batch has the log-probabilities that it has alone; a batch may be empty."""
    shape = (-1, len(table[0]) if table else 3)
    batch = np.reshape(table, shape)
    truth = np.reshape([reference.stable_log_softmax(row) for row in table], shape)
    scale = np.reshape([gaps(row) for row in table], shape)
    assert_close(stable_log_softmax(batch), truth, terms=scale)
    assert_close(stable_log_softmax(batch.T, axis=0), truth.T, terms=scale.T)


@law(size=st.integers(1, 40), logit=st.sampled_from(EXTREMES[:-1]))
@example(size=3, logit=1e8)
def test_equal_logits_are_equally_likely(stable_log_softmax, size, logit):
    """V equal logits give each token −log V, without a warning, at any size of the logits."""
    got = assert_quiet(stable_log_softmax, [logit] * size)
    assert_close(got, [-math.log(size)] * size, terms=1.0)


@law(row=whole_numbers(min_size=1), form=forms())
@example(row=[0, 1, 3], form=BYTES)
def test_log_softmax_reads_any_array_and_leaves_it_alone(stable_log_softmax, row, form):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed."""
    truth = reference.stable_log_softmax([float(logit) for logit in row])
    assert_close(
        stable_log_softmax(form([row, row])), [truth, truth], terms=np.array([gaps(row)] * 2)
    )
    assert_untouched(stable_log_softmax, form([row, row]))


@law_of_ordinary_sizes
def test_log_softmax_of_logits_of_ordinary_size(stable_log_softmax, sample):
    """Every row of a vector, a table or a block is normalised along any axis, the last by default.

    log p_i = (x_i − max x) − log Σ_j exp(x_j − max x), with tokens that are impossible.
    """
    shape = sample.layout()
    axis = int(sample.integers("axis", -len(shape), len(shape)))
    logits = some_impossible(sample, "logits", shape, axis)
    given = sample.choice("axis given", "by name", "by position")
    if given == "by name":
        got = stable_log_softmax(*sample.held(logits), axis=axis)
    elif axis in (-1, len(shape) - 1):
        got = stable_log_softmax(*sample.held(logits))
    else:
        got = stable_log_softmax(*sample.held(logits), axis)
    truth = log_softmax(logits, axis)
    assert_close(got, truth, terms=1.0 + logits.max(axis, keepdims=True) - logits)


@law_of_refusals(REFUSALS["stable_log_softmax"])
def test_log_softmax_refuses(stable_log_softmax, bad):
    """NaN, +inf, a row without a finite logit, and an axis that is not there are refused."""
    assert_refuses(stable_log_softmax, *bad.args, **bad.kwargs)


# --- causal_response_logprobs ---------------------------------------------------------------


@dataclass(frozen=True)
class Responses:
    """Logits [B, L, V], ids [B, L] and mask [B, L] of a batch."""

    logits: list[list[list[float]]]
    ids: list[list[int]]
    mask: list[list[int]]

    @property
    def call(self) -> tuple[Any, Any, Any]:
        return self.logits, self.ids, self.mask

    @property
    def shape(self) -> tuple[int, int]:
        """[B, L−1]"""
        return len(self.ids), len(self.ids[0]) - 1


def is_distribution(row: list[float]) -> bool:
    return not any(math.isnan(x) or x == inf for x in row) and max(row) > -inf


def _position(active: int, token: int, damage: int, *row: int) -> Any:
    """Three logits, the last of which may be none, an id or a way to be unknown, and a flag."""
    logits = [LOGITS[2 * i] for i in row]
    last = {5: nan, 6: inf, 7: -inf}.get(damage, logits[-1])
    return [*logits[:-1], last], token, int(active != 1)


def _responses(positions: list[Any], rows: int, width: int, offset: float) -> Responses:
    cut = in_rows(positions, min(rows, len(positions)))
    logits = [[[x + offset for x in row[-width:]] for row, _, _ in line] for line in cut]
    unknown = {1: -100, 6: width}
    ids = [[unknown.get(token, token % width) for _, token, _ in line] for line in cut]
    mask = [
        [0]
        + [
            int(active and token not in unknown and is_distribution(before))
            for (_, token, active), before in zip(line[1:], row, strict=False)
        ]
        for line, row in zip(cut, logits, strict=True)
    ]
    return Responses(logits, ids, mask)


def responses() -> st.SearchStrategy[Responses]:
    """Up to twelve positions in one to three sequences, with a vocabulary of one to three.

    Outside the mask stand −100 labels, ids beyond the vocabulary and rows without a log-softmax.
    """
    positions = steps(_position, 4, 12, 8, 32, 32, 32, min_size=1)
    offset = st.sampled_from([0.0, 0.0, 1e4, -1e8])
    drawn = st.tuples(positions, st.integers(1, 3), st.integers(1, 3), offset)
    return drawn.map(lambda parts: _responses(*parts))


ONE_HOT = Responses([[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]], [[0, 1, 0]], [[0, 1, 1]])
LONG_RESPONSES = Responses(
    [[[float(t * j % n) for j in range(4)] for t in range(100)] for n in (5, 7)],
    [[t % n for t in range(100)] for n in (4, 3)],
    [[int(t % 3 > 0) for t in range(100)]] * 2,
)
LARGE_VOCABULARY = Responses(
    [[[(7 * t + 3 * v) % 19 / 4 for v in range(300)] for t in range(4)]],
    [[0, 299, 128, 256]],
    [[0, 1, 1, 1]],
)
OFFSET = Responses([[[1e6, 1e6 + 1, 1e6 + 2], [0.0, 0.0, 0.0]]], [[0, 0]], [[0, 1]])


@law(batch=responses())
@example(batch=ONE_HOT)  # wyf3/llm_related#33, verl-project/verl#3287
@example(batch=OFFSET)  # ml-explore/mlx#4169
@example(batch=LONG_RESPONSES)
@example(batch=LARGE_VOCABULARY)
def test_each_token_is_scored_by_the_logits_before_it(causal_response_logprobs, batch):
    """The logits at t give the log-probability of the token at t + 1.

    selected[b, t] = log softmax(logits[b, t])[input_ids[b, t + 1]]. An id outside the vocabulary
    and a row with NaN, +inf or only −inf give NaN; they stand outside the mask.
    """
    truth, scale = np.full(batch.shape, nan), np.ones(batch.shape)
    for b, t in np.ndindex(batch.shape):
        row, token = batch.logits[b][t], batch.ids[b][t + 1]
        if 0 <= token < len(row) and is_distribution(row):
            truth[b, t] = float(precise.log_softmax(row)[token])
            scale[b, t] = gaps(row)[token]
    selected, _ = record(causal_response_logprobs(*batch.call), "selected", "shifted_mask")
    assert_close(selected, truth, terms=scale)


@law(batch=responses())
def test_the_mask_moves_with_the_tokens(causal_response_logprobs, batch):
    """The mask that comes back belongs to the tokens at 1 … L−1.

    shifted_mask[b, t] = response_mask[b, t + 1]
    """
    _, shifted = record(causal_response_logprobs(*batch.call), "selected", "shifted_mask")
    truth = np.array([flags[1:] for flags in batch.mask]).reshape(batch.shape)
    assert_same(shifted, truth)


@law(batch=responses(), junk=st.sampled_from(JUNK), label=st.sampled_from([-100, 0, 9]))
def test_first_token_and_last_logits_count_for_nothing(
    causal_response_logprobs, batch, junk, label
):
    """Nothing predicts the first token, and the last logits predict nothing."""
    truth = reference.causal_response_logprobs(*batch.call).selected
    for rows, ids in zip(batch.logits, batch.ids, strict=True):
        rows[-1], ids[0] = [junk] * len(rows[-1]), label
    selected, _ = record(
        assert_quiet(causal_response_logprobs, *batch.call), "selected", "shifted_mask"
    )
    assert_close(selected, truth, terms=1.0 + np.abs(truth))


@law(
    steps_=steps(lambda *pair: pair, 3, 3, min_size=2, max_size=6),
    batch=st.integers(1, 3),
    certain=st.sampled_from([0.0, -7.0, 1e8]),
)
def test_a_certain_model_gives_its_token_all_the_probability(
    causal_response_logprobs, steps_, batch, certain
):
    """Where all other logits are −inf, the token has log-probability 0 and the others −inf."""
    predicted, ids = zip(*steps_, strict=True)
    logits = [[certain if v == token else -inf for v in range(3)] for token in predicted]
    hit = [0.0 if a == b else -inf for a, b in zip(predicted[:-1], ids[1:], strict=True)]
    mask = [0, *[1] * len(hit)]
    call = ([logits] * batch, [list(ids)] * batch, [mask] * batch)
    selected, _ = record(assert_quiet(causal_response_logprobs, *call), "selected", "shifted_mask")
    assert_same(selected, np.array([hit] * batch))


PREFIXES = [prefix for length in range(3) for prefix in product(range(2), repeat=length)]


@law(
    conditionals=steps(
        lambda a, b: (FINITE[a], FINITE[b]), 56, 56, min_size=len(PREFIXES), max_size=len(PREFIXES)
    )
)
def test_all_continuations_together_are_certain(causal_response_logprobs, conditionals):
    """The probabilities of all continuations of one length sum to one.

    Σ_y Π_t p(y_t | y_<t) = 1, where each prefix has logits of its own.
    """
    model = dict(zip(PREFIXES, conditionals, strict=True))
    continuations = list(product(range(2), repeat=3))
    logits = [[*(model[y[:t]] for t in range(3)), (0.0, 0.0)] for y in continuations]
    ids, mask = [[0, *y] for y in continuations], [[0, 1, 1, 1]] * 8
    got = causal_response_logprobs(logits, ids, mask)
    selected = floats(record(got, "selected", "shifted_mask")[0], shape=(8, 3))
    assert_close(np.exp(selected.sum(axis=1)).sum(), 1.0, terms=8 * 5.0)


@law(
    batch=st.integers(0, 3),
    length=st.integers(1, 3),
    width=st.integers(1, 3),
    level=st.sampled_from(REALS),
)
def test_scores_have_one_column_less_than_the_ids(
    causal_response_logprobs, batch, length, width, level
):
    """B sequences of L tokens have [B, L−1] scores; a lone token has none, nor has no sequence."""
    logits = np.full((batch, length, width), level)
    ids = np.zeros((batch, length), dtype=np.int64)
    got = causal_response_logprobs(logits, ids, ids)
    selected, shifted = record(got, "selected", "shifted_mask")
    assert_close(selected, np.full((batch, length - 1), -math.log(width)), terms=1.0)
    assert_same(shifted, np.zeros((batch, length - 1)))


@law(
    whole=whole_numbers(min_size=4, max_size=9),
    form=forms(),
    kind=st.sampled_from([list, np.int32, np.int8, np.int64]),
    flag=st.sampled_from([list, np.bool_, np.float32]),
)
def test_causal_logprobs_read_any_array_and_leave_it_alone(
    causal_response_logprobs, whole, form, kind, flag
):
    """Logits of any dtype give the same answer, and no argument is changed."""
    rows = [[whole[0], whole[1]], [whole[2], whole[3]], [whole[-1], 0]]
    ids, mask = [[0, whole[0] % 2, -100], [1, 0, whole[1] % 2]], [[0, 1, 0], [0, 0, 1]]
    truth = reference.causal_response_logprobs(np.array([rows, rows], float), ids, mask).selected
    ids = ids if kind is list else np.array(ids, dtype=kind)
    mask = mask if flag is list else np.array(mask, dtype=flag)
    assert_untouched(causal_response_logprobs, form([rows, rows]), ids, mask)
    selected, _ = record(
        causal_response_logprobs(form([rows, rows]), ids, mask), "selected", "shifted_mask"
    )
    assert_close(selected, truth, terms=1.0 + np.abs(truth))


@law_of_ordinary_sizes
def test_causal_logprobs_of_batches_of_ordinary_size(causal_response_logprobs, sample):
    """Every token of many long sequences is scored by the logits before it, in the mask or not.

    selected[b, t] = log softmax(logits[b, t])[input_ids[b, t + 1]]
    """
    shape = sample.rows, sample.columns + 1
    vocabulary = sample.choice("vocabulary", 1, 2, 7, 30)
    logits = some_impossible(sample, "logits", (*shape, vocabulary), -1)
    mask = sample.flags("mask", *shape, share=0.6)
    mask[:, 0] = False
    ids = sample.integers("ids", 0, vocabulary, *shape)
    got = causal_response_logprobs(*sample.held(logits, ids, mask))
    selected, shifted = record(got, "selected", "shifted_mask")
    scores = log_softmax(logits, -1)[:, :-1]
    truth = np.take_along_axis(scores, ids[:, 1:, np.newaxis], -1)[..., 0]
    assert_close(selected, truth, terms=1.0 + np.abs(truth))
    assert_same(shifted, mask[:, 1:])


@law_of_refusals(REFUSALS["causal_response_logprobs"])
def test_causal_logprobs_refuse(causal_response_logprobs, bad):
    """A mask on the first token, and under the mask unknown ids and broken rows, are refused."""
    assert_refuses(causal_response_logprobs, *bad.args, **bad.kwargs)


# --- masked_sequence_metrics ----------------------------------------------------------------

METRICS = ("token_count", "sum_logprob", "perplexity")


@dataclass(frozen=True)
class Scored:
    """Log-probabilities and mask [B, T]; where the mask is 0, anything stands."""

    selected: np.ndarray[Any, np.dtype[np.float64]]
    mask: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def active(self) -> list[list[float]]:
        """The active log-probabilities of each row."""
        return [
            [float(x) for x, counts in zip(row, flags, strict=True) if counts]
            for row, flags in zip(self.selected, self.mask, strict=True)
        ]


def _scored(entries: list[tuple[float, int]], rows: int) -> Scored:
    cut = in_rows(entries, rows)
    selected = np.array([[value for value, _ in row] for row in cut], dtype=np.float64)
    mask = np.array([[flag for _, flag in row] for row in cut], dtype=np.int64)
    return Scored(selected.reshape(rows, -1), mask.reshape(rows, -1))


def _scored_token(logprob: int, active: int, junk: int) -> tuple[float, int]:
    return (LOGPROBS[logprob] if active else JUNK[junk]), int(active > 0)


def scored() -> st.SearchStrategy[Scored]:
    """One to three rows of up to nine tokens in all, two of three active."""
    entries = steps(_scored_token, len(LOGPROBS), 3, len(JUNK), max_size=9)
    return st.tuples(entries, st.integers(1, 3)).map(lambda drawn: _scored(*drawn))


DENSITIES = Scored(np.array([[0.5, -1.0, 2.0]]), np.array([[1, 1, 1]]))  # of continuous actions
LONG = Scored(np.array([long_row()]) - 8.0, np.array([[i % 3 > 0 for i in range(100)]], int))


def metrics(got: Any) -> tuple[Any, Any, Any]:
    """The three fields of an answer."""
    count, logprob, perplexity = record(got, *METRICS)
    return count, logprob, perplexity


@law(batch=scored())
@example(batch=DENSITIES)
# 0xallam/Direct-Preference-Optimization#4
@example(batch=Scored(np.array([[-1.0, -2.0, -5.0]]), np.array([[1, 1, 0]])))
@example(batch=Scored(np.array([[0.0, nan]]), np.array([[1, 0]])))  # verl-project/verl#2377
@example(batch=LONG)
def test_counts_and_sums_run_over_the_active_tokens(masked_sequence_metrics, batch):
    """A sequence's log-probability is the sum over its active tokens.

    n = Σ_t m_t, S = Σ_{t: m_t = 1} log p_t
    """
    count, logprob, _ = metrics(masked_sequence_metrics(batch.selected, batch.mask))
    truth = [nearest_float(sum(map(exact, row), exact(0))) for row in batch.active]
    assert_same(count, [len(row) for row in batch.active])
    assert_close(logprob, truth, terms=[total(row) for row in batch.active])


@law(batch=scored())
@example(batch=DENSITIES)
@example(batch=LONG)
def test_perplexity_is_the_inverse_geometric_mean_probability(masked_sequence_metrics, batch):
    """Perplexity to the power of the token count is the inverse probability of the sequence.

    perplexity = (Π_{t: m_t = 1} p_t)^(−1/n) = exp(−S / n), natural logarithms; NaN for n = 0.
    """
    _, _, perplexity = metrics(masked_sequence_metrics(batch.selected, batch.mask))
    truth = [
        float(precise.exp(-precise.decimal(sum(map(exact, row)) / len(row)))) if row else nan
        for row in batch.active
    ]
    scale = [1.0 + total(row) for row in batch.active]
    assert_close(perplexity, truth, terms=np.multiply(truth, scale))


@law(
    flags=steps(lambda code: int(code > 0), 3),
    rows=st.integers(1, 3),
    vocabulary=st.sampled_from([1, 2, 3, 10, 151936]),
)
def test_a_uniform_model_is_as_perplexed_as_its_vocabulary_is_large(
    masked_sequence_metrics, flags, rows, vocabulary
):
    """Where every token has probability 1/V, the perplexity is V, however many tokens count."""
    mask = np.array(in_rows(flags, rows), dtype=np.int64).reshape(rows, -1)
    selected = np.where(mask == 1, -math.log(vocabulary), nan)
    _, _, perplexity = metrics(masked_sequence_metrics(selected, mask))
    truth = np.where(mask.any(axis=1), float(vocabulary), nan)
    assert_close(perplexity, truth, terms=vocabulary * (1.0 + math.log(vocabulary)))


@law(batch=scored(), junk=st.sampled_from(JUNK))
@example(batch=Scored(np.array([[-1.0, 0.0, 0.0, -1.0]]), np.array([[1, 0, 0, 1]])), junk=-3.0)
@example(batch=LONG, junk=nan)
def test_masked_tokens_change_no_metric(masked_sequence_metrics, batch, junk):
    """What stands at masked positions, NaN and infinities too, changes nothing."""
    blank = np.where(batch.mask == 1, batch.selected, 0.0)
    truth = reference.masked_sequence_metrics(blank, batch.mask)
    selected = np.where(batch.mask == 1, batch.selected, junk)
    got = metrics(assert_quiet(masked_sequence_metrics, selected, batch.mask))
    scale = 1.0 + np.array([total(row) for row in batch.active])
    for answer, expected in zip(got, truth, strict=True):
        assert_close(answer, expected, terms=scale * (1.0 + np.abs(expected)))


@law(batch=scored(), times=st.integers(2, 3))
def test_a_repeated_sequence_is_equally_perplexing(masked_sequence_metrics, batch, times):
    """Repeating a sequence multiplies its count and its sum, and leaves its perplexity."""
    truth = reference.masked_sequence_metrics(batch.selected, batch.mask)
    got = masked_sequence_metrics(np.tile(batch.selected, times), np.tile(batch.mask, times))
    count, logprob, perplexity = metrics(got)
    scale = times * np.array([1.0 + total(row) for row in batch.active])
    assert_same(count, truth.token_count * times)
    assert_close(logprob, truth.sum_logprob * times, terms=scale)
    assert_close(perplexity, truth.perplexity, terms=truth.perplexity * scale)


@law(rows=st.integers(0, 3), length=st.integers(0, 4), junk=near(*JUNK))
@example(rows=1, length=2, junk=-1.0)  # huggingface/trl#3248, verl-project/verl#782
def test_without_tokens_there_is_no_perplexity(masked_sequence_metrics, rows, length, junk):
    """A row without tokens has count 0, sum 0 and perplexity NaN, without a warning."""
    selected, mask = np.full((rows, length), junk), np.zeros((rows, length))
    count, logprob, perplexity = metrics(assert_quiet(masked_sequence_metrics, selected, mask))
    assert_same(count, [0] * rows)
    assert_same(logprob, [0.0] * rows)
    assert_same(perplexity, [nan] * rows)


@law(row=steps((-800.0, -1e5, -1e308, -1.7e308, 0.0).__getitem__, 5, min_size=1, max_size=6))
@example(row=[-1.7e308, -1.7e308])
def test_improbable_sequences_have_infinite_perplexity(masked_sequence_metrics, row):
    """A sum or perplexity beyond float64 is infinite, and never NaN."""
    got = masked_sequence_metrics([row], [[1] * len(row)])
    _, logprob, perplexity = metrics(got)
    summed = sum(map(exact, row))
    truth = float(precise.exp(-precise.decimal(summed / len(row))))
    assert_close(logprob, [nearest_float(summed)], terms=total(row))
    assert_close(perplexity, [truth], terms=truth * (1.0 + total(row)))


@law(
    whole=whole_numbers(min_size=1),
    form=forms(),
    kind=st.sampled_from([list, np.bool_, np.int8, np.float32]),
)
def test_metrics_read_any_array_and_leave_it_alone(masked_sequence_metrics, whole, form, kind):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed."""
    row = [-abs(x) for x in whole]
    flags = [[int(x != -1) for x in row], [1] * len(row)]
    mask = flags if kind is list else np.array(flags, dtype=kind)
    truth = reference.masked_sequence_metrics(np.array([row, row], dtype=float), flags)
    assert_untouched(masked_sequence_metrics, form([row, row]), mask)
    got = metrics(masked_sequence_metrics(form([row, row]), mask))
    for answer, expected in zip(got, truth, strict=True):
        assert_close(answer, expected, terms=(1.0 + total(row)) * (1.0 + np.abs(expected)))


@law_of_ordinary_sizes
def test_metrics_of_batches_of_ordinary_size(masked_sequence_metrics, sample):
    """Each of many long sequences has its own count, sum and perplexity.

    n = Σ_t m_t, S = Σ_t m_t log p_t, perplexity = exp(−S / n)
    """
    mask = sample.flags("mask", *sample.shape, share=0.6)
    mask[sample.flags("no tokens", sample.rows, share=0.1)] = False
    scores = sample.reals("scores", *sample.shape, low=-9.0, high=0.0)
    got = metrics(masked_sequence_metrics(*sample.held(np.where(mask, scores, 1e6), mask)))
    count, summed = mask.sum(1), np.where(mask, scores, 0.0).sum(1)
    scale = 1.0 - summed
    perplexity = np.exp(-summed / np.where(count, count, nan))
    assert_same(got[0], count)
    assert_close(got[1], summed, terms=scale)
    assert_close(got[2], perplexity, terms=perplexity, factor=scale)


@law_of_refusals(REFUSALS["masked_sequence_metrics"])
def test_metrics_refuse(masked_sequence_metrics, bad):
    """NaN and +inf under the mask, a mask of another shape, and flags but 0 and 1 are refused."""
    assert_refuses(masked_sequence_metrics, *bad.args, **bad.kwargs)


# --- sequence_logprob_ratio -----------------------------------------------------------------


@dataclass(frozen=True)
class Rescored:
    """Two policies' log-probabilities and a mask [B, T]; where it is 0, anything stands."""

    new: np.ndarray[Any, np.dtype[np.float64]]
    old: np.ndarray[Any, np.dtype[np.float64]]
    mask: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def active(self) -> list[list[tuple[float, float]]]:
        """The active pairs (new, old) of each row."""
        return [
            [(float(a), float(b)) for a, b, counts in zip(*row, strict=True) if counts]
            for row in zip(self.new, self.old, self.mask, strict=True)
        ]

    @property
    def ratios(self) -> list[float]:
        return [exact_ratio(row) for row in self.active]

    @property
    def sizes(self) -> list[float]:
        """1 + Σ|terms| of each row."""
        return [1.0 + sum(total(p) for p in row if p[0] > -inf) for row in self.active]


def exact_ratio(pairs: list[tuple[float, float]]) -> float:
    """exp(Σ (new − old)) of fifty digits, to the nearest float."""
    if any(new == -inf for new, _ in pairs):
        return 0.0
    return float(
        precise.exp(precise.decimal(sum((exact(a) - exact(b) for a, b in pairs), exact(0))))
    )


def _rescored_token(new: int, old: int, active: int, junk: int) -> tuple[float, float, int]:
    if not active:
        return JUNK[junk], JUNK[junk // 2], 0
    return (LOGPROBS[new] if new < len(LOGPROBS) else -inf), LOGPROBS[old], 1


def _rescored(tokens: list[tuple[float, float, int]], rows: int) -> Rescored:
    cut = np.array(in_rows(tokens, rows), dtype=np.float64).reshape(rows, -1, 3)
    return Rescored(cut[..., 0], cut[..., 1], cut[..., 2].astype(np.int64))


def rescored(impossible: bool = True) -> st.SearchStrategy[Rescored]:
    """One to three rows of up to twelve tokens in all, two of three active."""
    news = len(LOGPROBS) + 2 * impossible
    tokens = steps(_rescored_token, news, len(LOGPROBS), 3, len(JUNK))
    return st.tuples(tokens, st.integers(1, 3)).map(lambda drawn: _rescored(*drawn))


LONG_SEQUENCES = Rescored(
    np.array([long_row()] * 2) - 8.0,
    np.array([[x - 8.0 + (-1) ** i / n for i, x in enumerate(long_row())] for n in (64, 16)]),
    np.array([[int(i % n > 0) for i in range(100)] for n in (3, 4)]),
)


@law(batch=rescored())
@example(batch=Rescored(np.array([[-1.0, nan]]), np.array([[-2.0, -inf]]), np.array([[1, 0]])))
@example(batch=Rescored(np.array([[0.5, 2.0]]), np.array([[0.25, -1.0]]), np.array([[1, 1]])))
@example(batch=LONG_SEQUENCES)
def test_sequence_ratio_is_the_product_of_its_tokens_ratios(sequence_logprob_ratio, batch):
    """The ratio of a sequence is the product of the ratios of its active tokens.

    ρ = Π_{t: m_t = 1} π_new,t / π_old,t = exp(Σ_{t: m_t = 1} (log π_new,t − log π_old,t))
    """
    got = sequence_logprob_ratio(batch.new, batch.old, batch.mask)
    assert_close(got, batch.ratios, terms=batch.ratios, factor=batch.sizes)


@law(batch=rescored(impossible=False))
@example(  # PrimeIntellect-ai/prime-rl#1525, CarperAI/trlx#107
    batch=Rescored(np.array([[-1.0, -2.0, -3.0]]), np.zeros((1, 3)), np.array([[1, 1, 1]]))
)
def test_a_policy_has_ratio_one_to_itself(sequence_logprob_ratio, batch):
    """Equal log-probabilities give the ratio 1."""
    old = np.where(batch.mask == 1, batch.new, batch.old)
    scale = [1.0 + sum(total(pair) for pair in row) for row in batch.active]
    got = sequence_logprob_ratio(batch.new, old, batch.mask)
    assert_close(got, np.ones(len(old)), terms=np.add(scale, scale))


@law(weights=steps(lambda *pair: pair, 9, 9, min_size=1, max_size=3))
def test_sequence_ratios_have_mean_one_under_the_old_policy(sequence_logprob_ratio, weights):
    """Under the old policy the mean of the ratio is one.

    Σ_y π_old(y) π_new(y) / π_old(y) = 1, over all sequences y of two tokens at each step.
    """
    chances = np.array(weights).T[..., np.newaxis] + 1  # [2, T, 1]: new and old policy
    chances = np.concatenate((chances, 10 - chances), axis=-1) / 10
    sequences = list(product(range(2), repeat=len(weights)))
    new, old = ([[p[t][v] for t, v in enumerate(y)] for y in sequences] for p in chances)
    ratios = floats(sequence_logprob_ratio(np.log(new), np.log(old)), shape=(len(old),))
    mean = (np.prod(old, axis=1).astype(ratios.dtype) * ratios).sum()
    assert_close(mean, 1.0, terms=1.0 + 2.3 * 6 * len(weights))


@law(batch=rescored(impossible=False))
def test_swapping_the_policies_inverts_the_ratio(sequence_logprob_ratio, batch):
    """The ratio of the old policy to the new one is the inverse.

    ρ(new, old) ρ(old, new) = 1, wherever neither is beyond float64.
    """
    rows = [b for b, ratio in enumerate(batch.ratios) if 1e-300 < ratio < 1e300]
    new, old, mask = batch.new[rows], batch.old[rows], batch.mask[rows]
    forth = floats(sequence_logprob_ratio(new, old, mask), shape=(len(rows),))
    back = floats(sequence_logprob_ratio(old, new, mask), shape=(len(rows),))
    scale = [1.0 + sum(total(pair) for pair in batch.active[b]) for b in rows]
    assert_close(forth * back, np.ones(len(rows)), terms=2 * np.array(scale))


@law(batch=rescored(), blocks=st.integers(1, 3))
@example(
    batch=Rescored(np.zeros((2, 2)), np.array([[-1.0, 0.0], [0.0, 0.0]]), np.ones((2, 2))), blocks=2
)
def test_every_sequence_has_a_ratio_of_its_own(sequence_logprob_ratio, batch, blocks):
    """The sum runs along the last axis, whatever the axes before it.

    One sequence [T] gives a number, [A, B, T] gives [A, B].
    """
    parts = (batch.new, batch.old, batch.mask, np.array(batch.ratios), np.array(batch.sizes))
    turned = [np.stack([np.roll(part, n, axis=0) for n in range(blocks)]) for part in parts]
    new, old, mask, truth, sizes = turned
    got = sequence_logprob_ratio(new, old, mask)
    assert_close(got, truth, terms=truth, factor=sizes)
    alone = sequence_logprob_ratio(batch.new[0], batch.old[0], batch.mask[0])
    assert_close(alone, batch.ratios[0], terms=batch.ratios[0], factor=batch.sizes[0])


@law(rows=st.integers(0, 3), length=st.integers(0, 3), junk=near(*JUNK))
def test_no_tokens_leave_the_ratio_at_one(sequence_logprob_ratio, rows, length, junk):
    """Without active tokens the ratio is 1; without a mask all tokens are active."""
    values, mask = np.full((rows, length), junk), np.zeros((rows, length))
    assert_close(assert_quiet(sequence_logprob_ratio, values, values, mask), np.ones(rows), terms=1)
    assert_close(sequence_logprob_ratio([], []), 1.0, terms=1.0)
    ones = [-1.0] * length
    got = sequence_logprob_ratio([0.0] * length, ones)
    assert_close(got, math.exp(length), terms=(1.0 + length) * math.exp(length))


HUGE = -(2.0**1023)  # two of them overflow
FAR = -(2.0**20)  # a probability far below float64; sums of such are exact in any order


@law(
    pairs=steps(
        lambda new, old: ((0.0, FAR, -inf)[new], (0.0, FAR)[old]), 3, 2, min_size=1, max_size=6
    )
)
@example(pairs=[(0.0, HUGE), (0.0, HUGE)])
@example(pairs=[(HUGE, 0.0), (HUGE, 0.0)])
@example(pairs=[(FAR, 0.0), (0.0, FAR)])
@example(pairs=[(-inf, 0.0), (0.0, FAR)])
@example(pairs=[(0.0, -800.0)])
def test_sequence_ratio_overflows_quietly(sequence_logprob_ratio, pairs):
    """A ratio beyond float64 is inf, an impossible token makes it 0, without a warning.

    Ratios of single tokens may leave float64 while that of the sequence does not.
    """
    new, old = zip(*pairs, strict=True)
    truth = exact_ratio(pairs)
    got = assert_quiet(sequence_logprob_ratio, list(new), list(old))
    assert_close(got, truth, terms=truth)


@law(
    whole=whole_numbers(min_size=1),
    form=forms(),
    kind=st.sampled_from([list, np.bool_, np.int8, np.float32]),
)
def test_sequence_ratio_reads_any_array_and_leaves_it_alone(
    sequence_logprob_ratio, whole, form, kind
):
    """Lists, tuples and arrays of any dtype give the same answer, and are not changed."""
    new, old = [-abs(x) for x in whole], [-abs(x) for x in whole[::-1]]
    old[0] -= 1
    flags = [int(x != -2) for x in new]
    mask = flags if kind is list else np.array(flags, dtype=kind)
    truth = exact_ratio([(a, b) for a, b, flag in zip(new, old, flags, strict=True) if flag])
    assert_untouched(sequence_logprob_ratio, form(new), form(old), mask)
    scale = truth * (1.0 + total(new) + total(old))
    assert_close(sequence_logprob_ratio(form(new), form(old), mask), truth, terms=scale)


@law_of_ordinary_sizes
def test_sequence_ratios_of_batches_of_ordinary_size(sequence_logprob_ratio, sample):
    """Each of many long sequences has its own ratio, whatever the axes before the last.

    ρ = exp(Σ_t m_t (log π_new,t − log π_old,t)), over all tokens where there is no mask.
    """
    shape = sample.layout()
    masked = sample.choice("masked", True, True, False)
    mask = sample.flags("mask", *shape, share=0.6) | (not masked)
    old = sample.reals("old", *shape, low=-9.0, high=0.0)
    new = np.minimum(old + sample.reals("moves", *shape, low=-1.0, high=1.0), 0.0)
    new[sample.flags("impossible", *shape, share=0.01)] = -inf
    summed = np.where(mask, new - old, 0.0).sum(-1)
    sizes = 1.0 - np.where(mask & np.isfinite(new), new + old, 0.0).sum(-1)
    held = sample.held(np.where(mask, new, 1e6), np.where(mask, old, 300.0), mask)
    if not masked:
        got = sequence_logprob_ratio(*held[:2], *sample.choice("no mask", (), (None,)))
    elif sample.choice("by name", True, False):
        got = sequence_logprob_ratio(*held[:2], mask=held[2])
    else:
        got = sequence_logprob_ratio(*held)
    truth = np.exp(summed)
    assert_close(got, truth, terms=truth, factor=sizes, count=2 * sample.columns)


@law_of_refusals(REFUSALS["sequence_logprob_ratio"])
def test_sequence_ratio_refuses(sequence_logprob_ratio, bad):
    """Other shapes, NaN, and tokens that the old policy cannot have sampled are refused."""
    assert_refuses(sequence_logprob_ratio, *bad.args, **bad.kwargs)
