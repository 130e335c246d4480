"""Laws of `rlcheck.policy_gradients`."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlcheck import logprobs
from rlcheck.grading.compare import (
    assert_close,
    assert_quiet,
    assert_refuses,
    assert_same,
    assert_sum,
    assert_untouched,
    exact,
    nearest_float,
    number,
    numbers,
)
from rlcheck.grading.laws import law

from . import precise
from .ordinary import law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import REALS, forms, long_row, near, steps, whole_numbers

NAN, INF = float("nan"), float("inf")
HUGE = 1.5e308  # twice it is beyond float64
WIDEST = 4
INERT = (NAN, INF, -INF, HUGE, -HUGE, 7.0)

ONE = [[1]]
PAIR = [[1, 1]]
LEVELS = ("token", "sequence")
MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")

REFUSALS = {
    "importance_ratios": (
        refuse([[-1.0, NAN]], [[-1.0, -1.0]], PAIR, says="new_logprobs[0, 1] is nan"),
        refuse([[INF]], [[-1.0]], ONE, says="new_logprobs[0, 0] is inf; it must be finite or -inf"),
        refuse([[-1.0], [NAN]], [[-1.0]] * 2, ONE * 2, level="sequence", says="new_logprobs[1, 0]"),
        refuse([[-1.0, -1.0]], [[NAN, -1.0]], PAIR, says="old_logprobs[0, 0] is nan"),
        refuse([[-1.0]], [[INF]], ONE, says="old_logprobs[0, 0] is inf"),
        refuse([[-1.0]], [[-INF]], ONE, says="old_logprobs[0, 0] is -inf; it must be finite"),
        refuse([[-INF]], [[-INF]], ONE, says="old_logprobs[0, 0] is -inf"),
        refuse([[-1.0, -1.0]], [[0.0, -INF]], PAIR, level="sequence", says="old_logprobs[0, 1]"),
        refuse([[-1.0, -2.0]], [[-1.0]], PAIR, says="old_logprobs has shape (1, 1)"),
        refuse([[-1.0, -2.0]] * 2, [[-1.0, -2.0]], PAIR * 2, says="old_logprobs has shape (1, 2)"),
        refuse([[-1.0, -2.0]], [[-1.0, -2.0]], ONE, says="mask has shape (1, 1)"),
        refuse([[-1.0, -2.0]] * 2, [[-1.0, -2.0]] * 2, [1, 1], says="mask has shape (2,)"),
        refuse([[-1.0, -2.0]], [[-1.0, -2.0]], [[1, 2]], says="mask[0, 1] is 2; it must be 0 or 1"),
        refuse([[-1.0]], [[-1.0]], [[0.5]], says="mask[0, 0] is 0.5"),
        refuse([[-1.0]], [[-1.0]], [[NAN]], says="mask[0, 0] is nan"),
        refuse([[-1.0]], [[-1.0]], ONE, level="turn", says="level is 'turn'; it must be one of"),
        refuse([[-1.0]], [[-1.0]], ONE, level=None, says="level is None"),
        refuse([[-1.0, -2.0], [-1.0]], [[-1.0, -2.0]] * 2, PAIR * 2, says="new_logprobs is ragged"),
        refuse([["-1"]], [[-1.0]], ONE, says="new_logprobs[0, 0] is '-1'"),
        refuse([[-1.0]], None, ONE, says="old_logprobs is None"),
        refuse([[-1.0]], [[-1.0]], None, says="mask is None"),
    ),
    "clipped_policy_terms": (
        refuse([[1.0, NAN]], [[1.0, 1.0]], says="ratios[0, 1] is nan"),
        refuse([[-0.5]], [[1.0]], says="ratios[0, 0] is -0.5; it must be ≥ 0"),
        refuse([[1.0], [-INF]], [[1.0], [1.0]], says="ratios[1, 0] is -inf"),
        refuse([[1.0, 1.0]], [[1.0, NAN]], says="advantages[0, 1] is nan"),
        refuse([[1.0]], [[INF]], says="advantages[0, 0] is inf; it must be finite"),
        refuse([[1.0]], [[-INF]], dual_clip=3.0, says="advantages[0, 0] is -inf"),
        refuse([[1.0, 2.0]], [[1.0]], says="advantages has shape (1, 1)"),
        refuse([[1.0, 2.0]] * 2, [1.0, 2.0], says="advantages has shape (2,)"),
        refuse([[1.0, 2.0]] * 2, 1.0, says="advantages has shape (); it must have shape (2, 2)"),
        refuse([[1.0, 2.0], [1.0]], [[1.0, 1.0]] * 2, says="ratios is ragged"),
        # anthonytorlucci/rlevo#469
        refuse([[1.0]], [[1.0]], clip_low=-0.2, says="clip_low is -0.2; it must lie in (0, 1)"),
        refuse([[1.0]], [[1.0]], clip_low=-0.2, clip_high=-0.2, says="clip_low is -0.2"),
        refuse([[1.0]], [[1.0]], clip_low=0.0, says="clip_low is 0.0"),
        refuse([[1.0]], [[1.0]], clip_low=1.0, says="clip_low is 1.0"),
        refuse([[1.0]], [[1.0]], clip_low=1.2, says="clip_low is 1.2"),
        refuse([[1.0]], [[1.0]], clip_low=NAN, says="clip_low is nan"),
        refuse([[1.0]], [[1.0]], clip_high=0.0, says="clip_high is 0.0; it must be > 0"),
        refuse([[1.0]], [[1.0]], clip_high=-0.2, says="clip_high is -0.2"),
        refuse([[1.0]], [[1.0]], clip_high=NAN, says="clip_high is nan"),
        refuse([[1.0]], [[1.0]], dual_clip=1.0, says="dual_clip is 1.0; it must be > 1"),
        refuse([[1.0]], [[-1.0]], dual_clip=0.5, says="dual_clip is 0.5"),
        refuse([[1.0]], [[-1.0]], dual_clip=0, says="dual_clip is 0.0"),
        refuse([[1.0]], [[-1.0]], dual_clip=-3.0, says="dual_clip is -3.0"),
        refuse([[1.0]], [[1.0]], dual_clip=NAN, says="dual_clip is nan"),
        refuse([["1"]], [[1.0]], says="ratios[0, 0] is '1'"),
        refuse([[1.0]], None, says="advantages is None"),
        refuse([[1.0]], [[1.0]], clip_low="0.2", says="clip_low is '0.2'"),
        refuse([[1.0]], [[1.0]], clip_high=None, says="clip_high is None"),
    ),
    "aggregate_token_losses": (
        *(refuse([[1.0, NAN]], PAIR, mode, says="losses[0, 1] is nan") for mode in MODES[:3]),
        refuse([[INF]], ONE, "token-mean", says="losses[0, 0] is inf; it must be finite"),
        refuse([[1.0], [-INF]], [[0], [1]], "seq-mean-token-sum", says="losses[1, 0] is -inf"),
        refuse([[1.0, 2.0]], ONE, "token-mean", says="mask has shape (1, 1)"),
        refuse([[1.0, 2.0]] * 2, [1, 1], "token-mean", says="mask has shape (2,)"),
        refuse([[1.0, 2.0]] * 2, PAIR, "seq-mean-token-sum", says="mask has shape (1, 2)"),
        refuse([[1.0, 2.0]], [[1, 2]], "token-mean", says="mask[0, 1] is 2; it must be 0 or 1"),
        refuse([[1.0, 2.0]], [[0.5, 1]], "seq-mean-token-mean", says="mask[0, 0] is 0.5"),
        refuse([[1.0, 2.0]], [[1, -1]], "token-mean", says="mask[0, 1] is -1"),
        refuse([[1.0, 2.0], [1.0]], PAIR * 2, "token-mean", says="losses is ragged"),
        refuse(1.0, 1, "token-mean", says="losses has shape (); it must be a matrix"),
        refuse([[1.0]], ONE, "mean", says="mode is 'mean'; it must be one of"),
        refuse([[1.0]], ONE, "token_mean", says="mode is 'token_mean'"),
        refuse([[1.0]], ONE, "Token-Mean", says="mode is 'Token-Mean'"),
        refuse([[1.0]], [[0]], "mean", says="mode is 'mean'"),
        refuse([[1.0]], ONE, "", says="mode is ''"),
        refuse([[1.0]], ONE, None, says="mode is None"),
        refuse([[1.0]], ONE, MODES[3], says="max_length is None; mode seq-mean-token-sum-norm"),
        refuse([[1.0]], ONE, MODES[3], max_length=0, says="max_length is 0"),
        refuse([[1.0]], ONE, MODES[3], max_length=-4, says="max_length is -4"),
        refuse([[1.0]], ONE, MODES[3], max_length=2.5, says="max_length is 2.5"),
        refuse([[1.0]], ONE, MODES[3], max_length=NAN, says="max_length is nan"),
        refuse([[1.0]], ONE, MODES[3], max_length="4", says="max_length is '4'"),
        refuse([[1.0]], [[0]], MODES[3], says="max_length is None"),
        refuse([[1.0]], [[0]], MODES[3], max_length=0, says="max_length is 0"),
        refuse([[1.0]], ONE, MODES[0], max_length=0, says="max_length is 0; mode token-mean"),
        *(
            refuse([[1.0]], ONE, mode, max_length=4, says="max_length is 4; mode " + mode)
            for mode in MODES[:3]
        ),
        refuse([["1"]], ONE, "token-mean", says="losses[0, 0] is '1'"),
        refuse([[1.0]], None, "token-mean", says="mask is None"),
    ),
}


def floats(got: Any, *, shape: tuple[int, ...] | None = None) -> Any:
    """An answer to calculate with: booleans and integers too, in its own precision."""
    return 1.0 * numbers(got, shape=shape)


def kinds(table: list[list[int]]) -> st.SearchStrategy[Any]:
    """The same whole numbers as lists, tuples, and arrays of several dtypes."""
    return forms().map(lambda form: form(table))


def masks(table: list[list[int]]) -> st.SearchStrategy[Any]:
    """The same, and booleans."""
    return st.one_of(st.just(np.array(table, dtype=np.bool_)), kinds(table))


@dataclass(frozen=True)
class Batch:
    """Quantities of tokens, each [B, T], and the mask that says which tokens count."""

    columns: tuple[NDArray[np.float64], ...]
    mask: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        return self.mask.shape

    @property
    def active(self) -> list[list[tuple[float, ...]]]:
        """What the active tokens of each row have."""
        stacked = np.stack(self.columns, axis=-1).tolist()
        return [
            [token for token, counts in zip(*row, strict=True) if counts]
            for row in zip(stacked, self.mask.tolist(), strict=True)
        ]

    def holding(self, junk: float) -> "Batch":
        """The batch with `junk` wherever the mask is 0."""
        return Batch(tuple(np.where(self.mask == 1, c, junk) for c in self.columns), self.mask)

    def rows(self, order: Any) -> "Batch":
        return Batch(tuple(c[order] for c in self.columns), self.mask[order])

    def tokens(self, order: Any) -> "Batch":
        """The batch with its columns in another order, or more or fewer of them."""
        return Batch(tuple(c[:, order] for c in self.columns), self.mask[:, order])


def _batch(rows: list[Any], width: int, columns: int) -> Batch:
    stacked = np.array(rows if width else [], dtype=np.float64)
    stacked = stacked.reshape(-1, WIDEST, columns + 1)[:, : width or 2]
    *values, mask = np.moveaxis(stacked, -1, 0)
    return Batch(tuple(values), mask.astype(np.int64))


def batches(row: Any, columns: int, *bases: int, min_size: int = 0) -> st.SearchStrategy[Batch]:
    """Up to four rows of up to four tokens; `row` decodes (columns …, mask) of each token."""
    rows = steps(row, *bases, min_size=min_size, max_size=4)
    widths = st.sampled_from((2, 3, 1, 4) * 4 + ((0,) if min_size == 0 else ()))
    return st.builds(_batch, rows, widths, st.just(columns))


def batch_of(*columns: Any, mask: Any) -> Batch:
    """A batch written down."""
    return Batch(tuple(np.array(c, dtype=np.float64) for c in columns), np.array(mask))


def inert_values() -> st.SearchStrategy[float]:
    """What may stand where nothing counts."""
    return st.sampled_from(INERT)


# --- importance ratios -------------------------------------------------------------------------

# Probabilities with which two policies take a token; the last is impossible under the new one.
CHANCES = (
    *(1.0, 0.5, 0.25, 0.75, 0.1, 0.9, 1 / 3, 1e-3, 0.99, 0.6, 1 - 2.0**-20),
    *(1e-9, 1e-40, 1e-200, 0.05, 0.0),
)


def _token(new: int, old: int, active: int) -> tuple[float, float, int]:
    return CHANCES[new], CHANCES[old] or 0.5, int(active > 0)


def _taken_row(*code: int) -> list[tuple[float, float, int]]:
    *tokens, blank = code
    row = [_token(*tokens[i : i + 3]) for i in range(0, len(tokens), 3)]
    return [(p, q, 0) for p, q, _ in row] if blank == 0 else row


def taken() -> st.SearchStrategy[Batch]:
    """Probabilities (new, old) of up to four rows of up to four tokens, two of three active."""
    return batches(_taken_row, 2, *([16, 16, 3] * WIDEST), 6)


def logs(batch: Batch) -> tuple[Any, Any]:
    """Log-probabilities of given probabilities; −inf for 0."""
    with np.errstate(divide="ignore"):
        new, old = map(np.log, batch.columns)
    return new, old


def sizes(batch: Batch) -> Any:
    """[B, T] 1 + |log p| + |log q|, which an error of a token's ratio is proportional to."""
    return 1.0 + sum(np.abs(np.where(np.isfinite(x), x, 0.0)) for x in logs(batch))


def geometric_mean(ratios: list[Fraction]) -> float:
    """(Π ρ)^(1/n) to full precision, whatever the product is."""
    if 0 in ratios:
        return 0.0
    root = Fraction(1, max(len(ratios), 1))
    return float(precise.exp(precise.times(precise.log(math.prod(ratios)), precise.decimal(root))))


def sequence_ratios(batch: Batch) -> Any:
    """[B, T] each row's geometric mean of the ratios of its active tokens, 1 elsewhere."""
    means = [geometric_mean([exact(p) / exact(q) for p, q in row]) for row in batch.active]
    return np.where(batch.mask == 1, np.reshape(means, (-1, 1)), 1.0)


def sequence_sizes(batch: Batch) -> Any:
    """[B, 1] 1 + the mean of |log p| + |log q| over the active tokens, or more."""
    return np.where(batch.mask == 1, sizes(batch), 1.0).max(axis=1, keepdims=True, initial=1.0)


def assert_sequence_ratios(got: Any, batch: Batch) -> None:
    truth = sequence_ratios(batch)
    assert_close(got, truth, terms=truth, factor=sequence_sizes(batch))


LONG_SEQUENCE = batch_of(
    [[1 - i % 7 / 16 for i in range(100)]],
    [[1 - i % 5 / 16 for i in range(100)]],
    mask=[[int(i % 3 > 0) for i in range(100)]],
)


@law(batch=taken())
# THUDM/slime#179
@example(batch=batch_of([[math.exp(-1.0)]], [[math.exp(-1.5)]], mask=[[1]]))
# NovaSky-AI/SkyRL#758
@example(batch=batch_of([[0.5, math.exp(-3.0)]], [[0.5, 1.0]], mask=[[1, 0]]))
@example(batch=batch_of([[0.5]], [[0.5 + 2.0**-30]], mask=[[1]]))
@example(batch=batch_of([[1.5, 3.0]], [[1.25, 0.5]], mask=[[1, 1]]))  # densities
@example(batch=LONG_SEQUENCE)
def test_token_ratios_are_quotients_of_probabilities(importance_ratios, batch):
    """A token's ratio is its probability under the new policy over that under the old one.

    ρ = π_new / π_old, for probabilities that are given and whose logarithms are passed; 1 where
    the mask is 0. Tokens are the level unless another one is asked for.
    """
    new, old = batch.columns
    expected = np.where(batch.mask == 1, new / old, 1.0)
    got = importance_ratios(*logs(batch), batch.mask)
    assert_close(got, expected, terms=expected, factor=sizes(batch))


@law(batch=taken())
@example(batch=batch_of([[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.5, 0.5]], mask=PAIR * 2))
@example(batch=batch_of([[0.5], [0.5]], [[0.5], [0.5 * math.exp(-4.0)]], mask=[[1], [0]]))
@example(batch=LONG_SEQUENCE)
def test_sequence_ratio_is_the_geometric_mean_of_the_tokens_ratios(importance_ratios, batch):
    """All tokens of a sequence have the geometric mean of the ratios of its active tokens.

    ρ = (Π_t π_new,t / π_old,t)^(1/n) over the n active tokens of the row.
    """
    got = importance_ratios(*logs(batch), batch.mask, level="sequence")
    assert_sequence_ratios(got, batch)


# Whatever the numbers, x − x is 0.
LOGPROBS = (0.0, -1.0, -2.0, -3.0, -0.1, -1e-9, -50.0, -745.0, -1e5, -1e300, -0.7, -1.3)


def _scored_row(*code: int) -> list[tuple[float, int]]:
    values, mask, blank = code[:WIDEST], code[WIDEST:-1], code[-1]
    return [(LOGPROBS[v], int(m > 0 and blank > 0)) for v, m in zip(values, mask, strict=True)]


def scored() -> st.SearchStrategy[Batch]:
    """Log-probabilities of up to four rows of up to four tokens, far ones among them."""
    return batches(_scored_row, 1, *([12] * WIDEST), *([3] * WIDEST), 6)


@law(batch=scored(), level=st.sampled_from(LEVELS))
# PrimeIntellect-ai/prime-rl#1525
@example(batch=batch_of([[-1.0, -2.0, -3.0]], mask=[[1, 1, 1]]), level="token")
# CarperAI/trlx#107, huggingface/trl#454
@example(batch=batch_of([[-1.0, -1.3]], mask=[[1, 1]]), level="token")
def test_a_policy_has_ratio_exactly_one_to_itself(importance_ratios, batch, level):
    """Equal log-probabilities give the ratio 1, without any error."""
    (values,) = batch.columns
    got = importance_ratios(values, values.copy(), batch.mask, level=level)
    assert_same(got, np.ones(batch.shape))


@law(batch=taken(), level=st.sampled_from(LEVELS), junk=inert_values(), other=inert_values())
@example(batch=LONG_SEQUENCE, level="token", junk=NAN, other=-INF)
@example(batch=LONG_SEQUENCE, level="sequence", junk=INF, other=NAN)
def test_masked_logprobs_change_no_ratio(importance_ratios, batch, level, junk, other):
    """What stands where the mask is 0, NaN and infinities too, is never read; there the ratio is 1.

    Selected, not multiplied, because 0 · NaN and 0 · ∞ are NaN.
    """
    (new, old), on = logs(batch), batch.mask == 1
    clean = floats(
        importance_ratios(np.where(on, new, 0.0), np.where(on, old, 0.0), batch.mask, level=level),
        shape=batch.shape,
    )
    dirty = np.where(on, new, junk), np.where(on, old, other)
    got = assert_quiet(importance_ratios, *dirty, batch.mask, level=level)
    assert_close(got, np.where(on, clean, 1.0), terms=clean, factor=sequence_sizes(batch))


@law(batch=taken(), level=st.sampled_from(LEVELS))
@example(batch=batch_of([[1.0] * 2] * 2, [[1.0] * 2, [0.5] * 2], mask=PAIR * 2), level="sequence")
def test_every_sequence_has_ratios_of_its_own(importance_ratios, batch, level):
    """The ratios of a row are those that it has as a batch of its own.

    Nothing leaks between rows, also where there are as many of them as tokens.
    """
    new, old = logs(batch)
    one = [slice(b, b + 1) for b in range(len(new))]
    alone = [importance_ratios(new[b], old[b], batch.mask[b], level=level) for b in one]
    rows = [floats(row, shape=(1, batch.shape[1]))[0] for row in alone]
    truth = np.reshape(rows, batch.shape)
    got = importance_ratios(new, old, batch.mask, level=level)
    assert_close(got, truth, terms=truth, factor=sequence_sizes(batch))


@law(batch=taken(), level=st.sampled_from(LEVELS), order=st.permutations(range(WIDEST)))
def test_ratios_move_with_their_tokens(importance_ratios, batch, level, order):
    """Writing the tokens of a batch in another order, each of them twice, changes no ratio.

    The length of a sequence does not scale its ratio: it is a mean and no sum.
    """
    order = [t for t in order if t < batch.shape[1]] * 2
    new, old = logs(batch)
    once = floats(importance_ratios(new, old, batch.mask, level=level), shape=batch.shape)
    moved = batch.tokens(order)
    got = importance_ratios(*logs(moved), moved.mask, level=level)
    assert_close(got, once[:, order], terms=once[:, order], factor=sequence_sizes(batch))


@law(batch=taken())
def test_sequence_ratio_to_the_power_of_its_length_is_that_of_the_whole(importance_ratios, batch):
    """A row's ratio to the power of its active tokens is the ratio of the whole sequence.

    ρ^n = exp(Σ (log π_new − log π_old)), where neither leaves float64.
    """
    new, old = logs(batch)
    whole = logprobs.sequence_logprob_ratio(new, old, batch.mask)
    count = batch.mask.sum(axis=1)
    fits = [b for b in np.flatnonzero(count) if 1e-280 < whole[b] < 1e280]
    answer = importance_ratios(new, old, batch.mask, level="sequence")
    got = floats(answer, shape=batch.shape)
    first = got[fits, batch.mask[fits].argmax(axis=1)] ** count[fits]
    scale = WIDEST**2 * sequence_sizes(batch)[fits, 0]
    assert_close(first, whole[fits], terms=whole[fits], factor=scale, of=[answer])


def weights() -> st.SearchStrategy[list[list[tuple[int, int]]]]:
    """One to four states, in each the weights (new, old) of three actions."""
    state = steps(lambda *w: [(w[i] + (i == 0), w[i + 1] + 1) for i in (0, 2, 4)], *([6] * 6))
    return state.filter(bool)


@law(states=weights())
def test_token_ratios_have_mean_one_under_the_old_policy(importance_ratios, states):
    """Under the old policy, the mean of the ratio is one.

    Σ_a π_old(a | s) π_new(a | s) / π_old(a | s) = 1: a row for each state s, a column for each
    action a.
    """
    counts = np.array(states[:4], dtype=np.float64)  # [S, A, 2]
    new, old = np.moveaxis(counts / counts.sum(axis=1, keepdims=True), -1, 0)
    with np.errstate(divide="ignore"):
        got = importance_ratios(np.log(new), np.log(old), np.ones(new.shape))
    ratios = floats(got, shape=new.shape)
    means = (old.astype(ratios.dtype) * ratios).sum(axis=1)
    assert_close(means, np.ones(len(new)), terms=8.0)


# Sums of them are exact in any order.
FAR = (0.0, -800.0, -30.0, 0.0, -800.0, -1e5, -(2.0**20), -INF)


def far_pairs() -> st.SearchStrategy[list[tuple[float, float]]]:
    """One to six tokens whose log-probabilities (new, old) are far apart."""
    return steps(lambda new, old: (FAR[new], FAR[old]), 8, 7, min_size=1, max_size=6)


def exponential(value: Fraction) -> float:
    """exp to full precision; inf beyond float64."""
    return float(precise.exp(precise.decimal(value)))


@law(pairs=far_pairs())
@example(pairs=[(0.0, -30.0), (0.0, 0.0), (0.0, 0.0)])
@example(pairs=[(0.0, -HUGE), (-HUGE, 0.0)])
def test_token_ratios_are_far_from_one_without_a_limit(importance_ratios, pairs):
    """A ratio may have any size: exp is taken as it is, and is inf beyond float64, quietly.

    A token that the new policy never takes has the ratio 0.
    """
    new, old = np.transpose(pairs).tolist()
    truth = [0.0 if p == -INF else exponential(exact(p) - exact(q)) for p, q in pairs]
    got = assert_quiet(importance_ratios, [new], [old], [[1] * len(pairs)], level="token")
    assert_close(got, [truth], terms=np.array([truth]), factor=64.0)


@law(pairs=far_pairs())
@example(pairs=[(0.0, -100.0), (0.0, 0.0), (0.0, 0.0)])
@example(pairs=[(0.0, -1e300), (0.0, -1e300)])
@example(pairs=[(0.0, -800.0), (-800.0, 0.0)])
def test_sequence_ratios_are_far_from_one_without_a_limit(importance_ratios, pairs):
    """The mean log-ratio decides, also where ratios of tokens leave float64, without a warning.

    exp(mean) is inf beyond float64, and 0 where the new policy never takes one of the tokens.
    """
    new, old = np.transpose(pairs).tolist()
    truth = 0.0
    if -INF not in new:
        truth = exponential(sum(exact(p) - exact(q) for p, q in pairs) / len(pairs))
    got = assert_quiet(importance_ratios, [new], [old], [[1] * len(pairs)], level="sequence")
    size = 1.0 + sum(abs(p) / len(pairs) + abs(q) / len(pairs) for p, q in pairs if p > -INF)
    assert_close(got, [[truth] * len(pairs)], terms=truth, factor=size)


@law(
    rows=st.integers(0, 3),
    width=st.integers(0, 3),
    level=st.sampled_from(LEVELS),
    junk=near(*INERT),
)
def test_without_tokens_every_ratio_is_one(importance_ratios, rows, width, level, junk):
    """Where nothing is active, every ratio is 1; without rows or columns there is none."""
    values, mask = np.full((rows, width), junk), np.zeros((rows, width))
    got = assert_quiet(importance_ratios, values, values, mask, level=level)
    assert_same(got, np.ones((rows, width)))


@law(
    rows=steps(lambda *row: [-n for n in row], *([6] * 4), min_size=3, max_size=3),
    given=st.tuples(forms(), forms(), masks([[1, 1], [0, 1], [1, 1]])),
    level=st.sampled_from(LEVELS),
)
def test_ratios_are_read_from_numbers_of_every_kind(importance_ratios, rows, given, level):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    new, old, mask = given
    call = new([row[:2] for row in rows]), old([row[2:] for row in rows]), mask
    assert_untouched(importance_ratios, *call, level=level)
    (a, b), (_, c), (d, e) = [(row[0] - row[2], row[1] - row[3]) for row in rows]
    first, last = (a + b) / 2, (d + e) / 2
    steps_up = [[a, b], [0, c], [d, e]] if level == "token" else [[first] * 2, [0, c], [last] * 2]
    expected = np.exp(steps_up)
    assert_close(importance_ratios(*call, level=level), expected, terms=expected, factor=8.0)


@law_of_ordinary_sizes
def test_ratios_of_batches_of_ordinary_size(importance_ratios, sample):
    """Every token of many long rows has its own ratio, or each row has one for all its tokens.

    exp(new − old), or exp of its mean over the active tokens of the row; 1 where the mask is 0.
    """
    mask = sample.flags("mask", *sample.shape, share=0.6)
    mask[sample.flags("no tokens", sample.rows, share=0.1)] = False
    old = sample.reals("old", *sample.shape, low=-9.0, high=0.0)
    new = np.minimum(old + sample.reals("moves", *sample.shape, low=-2.0, high=2.0), 0.0)
    new[sample.flags("impossible", *sample.shape, share=0.01)] = -INF
    sizes_ = 1.0 + np.abs(old) + np.where(np.isfinite(new), np.abs(new), 0.0)
    change = np.where(mask, new - old, 0.0)
    level = sample.choice("level", None, *LEVELS)
    if level == "sequence":
        change = change.sum(1, keepdims=True) / np.maximum(mask.sum(1, keepdims=True), 1)
        sizes_ = sizes_.max(1, keepdims=True)
    expected = np.where(mask, np.exp(change), 1.0)
    held = sample.held(np.where(mask, new, 7.0), np.where(mask, old, 1e6), mask)
    got = importance_ratios(*held, **({} if level is None else {"level": level}))
    assert_close(got, expected, terms=expected, factor=sizes_, count=sample.columns)


@law_of_refusals(REFUSALS["importance_ratios"])
def test_importance_ratios_refuse(importance_ratios, bad):
    """Other shapes, unknown levels, NaN, and tokens that the old policy never takes are refused."""
    assert_refuses(importance_ratios, *bad.args, **bad.kwargs)


# --- clipped terms -----------------------------------------------------------------------------

RATIOS = (
    1.0,
    2.0,
    0.5,
    0.8,
    1.2,
    0.0,
    0.9,
    1.1,
    5.0,
    10.0,
    0.99,
    1.28,
    3.0,
    1e-5,
    1e5,
    1 + 2.0**-30,
)
ADVANTAGES = (
    1.0,
    -1.0,
    0.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    0.1,
    -0.1,
    10.0,
    -10.0,
    3.0,
    -3.0,
    1e-6,
    -1e-6,
    0.7,
)
BEYOND = Fraction(10) ** 700  # times any of these it is beyond float64


@dataclass(frozen=True)
class Clip:
    """How far from 1 a ratio is followed."""

    low: float = 0.2
    high: float = 0.2
    dual: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The keywords that say so; a bound of 0.2 is left to the defaults."""
        window = {"clip_low": self.low, "clip_high": self.high}
        window = {name: bound for name, bound in window.items() if bound != 0.2}
        return window if self.dual is None else {**window, "dual_clip": self.dual}

    @property
    def rounding(self) -> float:
        """How much larger the terms of 1 − low are than their difference."""
        return (1 + self.low) / (1 - self.low)

    def without_dual(self) -> "Clip":
        return Clip(self.low, self.high)

    def term(self, ratio: float, advantage: float) -> Fraction:
        """How far the ratio is followed, times the loss: the cases of the clipped surrogate."""
        followed = BEYOND if ratio == INF else exact(ratio)
        if advantage >= 0:  # a gain, which ends at 1 + high
            return -min(followed, 1 + exact(self.high)) * exact(advantage)
        cost = max(followed, 1 - exact(self.low))  # which never falls below 1 − low
        return -(cost if self.dual is None else min(cost, exact(self.dual))) * exact(advantage)

    def assert_terms(self, got: Any, ratios: Any, advantages: Any) -> None:
        truth = [
            nearest_float(self.term(r, a))
            for r, a in zip(np.ravel(ratios), np.ravel(advantages), strict=True)
        ]
        shaped = np.reshape(truth, np.shape(ratios))
        assert_close(got, shaped, terms=np.abs(shaped), factor=self.rounding)


def windows() -> st.SearchStrategy[Clip]:
    """Windows around 1, without a dual clip."""
    bounds = (
        (0.2, 0.2),
        (0.2, 0.28),
        (0.1, 0.2),
        (0.1, 0.3),
        (0.5, 0.4),
        (0.9, 4.0),
        (0.01, 0.02),
        (0.3, 1e9),
    )
    return st.sampled_from([Clip(*b) for b in bounds])


def dual_windows() -> st.SearchStrategy[Clip]:
    """Windows with a dual clip, some of them where the window ends or within it."""
    return st.builds(
        lambda w, c: Clip(w.low, w.high, c), windows(), st.sampled_from((3.0, 1.5, 1.2, 1.01, 10.0))
    )


def clips() -> st.SearchStrategy[Clip]:
    """With and without a dual clip."""
    return st.one_of(windows(), dual_windows())


def _in_a_table(pairs: list[tuple[float, float]]) -> tuple[Any, Any]:
    """Two arrays [B, T], with two or three rows where the pairs fill them."""
    rows = next(n for n in (3, 2, 1) if len(pairs) % n == 0)
    ratios, advantages = np.reshape(pairs, (rows, -1, 2)).transpose(2, 0, 1)
    return ratios.copy(), advantages.copy()


def surrogates(max_size: int = 9) -> st.SearchStrategy[tuple[Any, Any]]:
    """Ratios and advantages, both [B, T], of up to nine tokens."""
    pairs = steps(lambda r, a: (RATIOS[r], ADVANTAGES[a]), 16, 16, max_size=max_size)
    return pairs.map(_in_a_table)


def table(ratio: float, advantage: float) -> tuple[Any, Any]:
    """A single token."""
    return np.array([[ratio]]), np.array([[advantage]])


@law(tokens=surrogates(), clip=windows())
@example(tokens=table(2.0, 1.0), clip=Clip(0.2, 1e9))  # PufferAI/PufferLib#306
@example(tokens=table(1.15, 1.0), clip=Clip(0.1, 0.2))
@example(tokens=(np.array([long_row()]) / 8 + 1, np.array([long_row()[::-1]])), clip=Clip(0.2, 0.3))
def test_gains_end_at_the_upper_bound_and_costs_at_the_lower(clipped_policy_terms, tokens, clip):
    """A ratio is followed up to 1 + high where A > 0, and down to 1 − low where A < 0.

    −A min(ρ, 1 + high) and −A max(ρ, 1 − low), in exact rational arithmetic. Both bounds are 0.2
    unless others are given.
    """
    clip.assert_terms(clipped_policy_terms(*tokens, **clip.options), *tokens)


@law(tokens=surrogates(), clip=dual_windows())
@example(tokens=table(10.0, -1.0), clip=Clip(dual=3.0))
@example(tokens=table(50.0, -1.0), clip=Clip(dual=20.0))
def test_a_dual_clip_bounds_the_cost_of_a_large_ratio(clipped_policy_terms, tokens, clip):
    """With a dual clip c, a ratio above c costs what c costs, where A < 0.

    −A min(max(ρ, 1 − low), c), in exact rational arithmetic.
    """
    clip.assert_terms(clipped_policy_terms(*tokens, **clip.options), *tokens)


@law(tokens=surrogates(), clip=dual_windows())
@example(tokens=table(0.9, 1.0), clip=Clip(dual=3.0))  # thu-ml/tianshou#433
@example(tokens=table(10.0, -1.0), clip=Clip(dual=3.0))  # THUDM/slime#2247, RLinf/RLinf#316
def test_a_dual_clip_lowers_losses_of_negative_advantages_only(clipped_policy_terms, tokens, clip):
    """A dual clip changes no term where A ≥ 0, and takes the smaller of ℓ and −c A where A < 0."""
    (ratios, advantages), plain = tokens, clip.without_dual()
    before = floats(clipped_policy_terms(*tokens, **plain.options), shape=ratios.shape)
    bounded = np.minimum(before, -clip.dual * advantages)
    expected = np.where(advantages < 0, bounded, before)
    got = clipped_policy_terms(*tokens, **clip.options)
    assert_close(got, expected, terms=np.abs(before))


@law(tokens=surrogates(), clip=windows())
@example(tokens=table(2.0, 1.0), clip=Clip(0.5, 1.5))
@example(tokens=table(0.5, -1.0), clip=Clip(0.5, 0.4))  # wider below than above
def test_within_the_window_nothing_is_clipped(clipped_policy_terms, tokens, clip):
    """Ratios from 1 − low to 1 + high give −ρ A, and a ratio of 1 gives −A."""
    ratios, advantages = tokens
    inside = np.clip(ratios, 1 - clip.low * 0.999, 1 + min(clip.high, 7.0) * 0.999)
    got = clipped_policy_terms(inside, advantages, **clip.options)
    assert_close(got, -inside * advantages, terms=np.abs(inside * advantages))
    fresh = clipped_policy_terms(np.ones(ratios.shape), advantages, **clip.options)
    assert_close(fresh, -advantages, terms=np.abs(advantages))


@law(tokens=surrogates(), clip=windows())
def test_a_change_for_the_worse_is_paid_in_full(clipped_policy_terms, tokens, clip):
    """Where a good action became less likely, or a bad one more likely, nothing is clipped.

    −ρ A where A > 0 and ρ ≤ 1 − low, and where A < 0 and ρ ≥ 1 + high.
    """
    ratios, advantages = tokens
    less, more = np.minimum(ratios, 1 - clip.low), np.maximum(ratios, 1 + clip.high)
    worse = np.where(advantages > 0, less, more)
    got = clipped_policy_terms(worse, advantages, **clip.options)
    assert_close(got, -worse * advantages, terms=np.abs(worse * advantages))


@law(tokens=surrogates(), clip=clips(), further=st.sampled_from((0.5, 0.0, 0.9)))
def test_nothing_is_gained_beyond_the_window(clipped_policy_terms, tokens, clip, further):
    """Beyond the bound on the side of a gain, all ratios give what the bound gives.

    The term is constant for ρ ≥ 1 + high where A > 0, and for ρ ≤ 1 − low where A < 0.
    """
    ratios, advantages = tokens
    bound = np.where(advantages > 0, 1 + clip.high, 1 - clip.low)
    beyond = np.where(advantages > 0, bound + ratios, bound * further)
    truth = floats(clipped_policy_terms(bound, advantages, **clip.options), shape=bound.shape)
    got = clipped_policy_terms(beyond, advantages, **clip.options)
    assert_close(got, truth, terms=np.abs(truth), factor=clip.rounding)


@law(tokens=surrogates(), clip=clips(), power=st.sampled_from((-20, -1, 1, 3, 30)))
def test_terms_scale_with_the_advantages(clipped_policy_terms, tokens, clip, power):
    """Advantages that are k times as large give terms that are k times as large, for k > 0.

    Nothing else about their size counts: they are neither normalised nor bounded.
    """
    (ratios, advantages), k = tokens, 2.0**power
    once = floats(clipped_policy_terms(*tokens, **clip.options), shape=ratios.shape)
    got = clipped_policy_terms(ratios, k * advantages, **clip.options)
    assert_close(got, k * once, terms=np.abs(k * once))


IN_BLOCKS = np.reshape(long_row(12), (2, 2, 3))


@law(tokens=surrogates(), clip=clips())
@example(tokens=(np.zeros((0, 3)), np.zeros((0, 3))), clip=Clip())
@example(tokens=(np.array(2.0), np.array(1.0)), clip=Clip())
@example(tokens=(IN_BLOCKS / 8 + 1, IN_BLOCKS[::-1]), clip=Clip())
def test_terms_stand_where_their_tokens_stand(clipped_policy_terms, tokens, clip):
    """Each term is that of its own ratio and advantage, whatever the rank."""
    ratios, advantages = tokens
    flat = clipped_policy_terms(ratios.ravel(), advantages.ravel(), **clip.options)
    truth = floats(flat, shape=(ratios.size,)).reshape(ratios.shape).T
    got = clipped_policy_terms(ratios.T.copy(), advantages.T.copy(), **clip.options)
    assert_close(got, truth, terms=np.abs(truth))


@law(
    advantages=steps(ADVANTAGES.__getitem__, 16, min_size=1, max_size=6),
    clip=clips(),
    ratio=st.sampled_from((INF, 1e308, 1e200)),
)
@example(advantages=[0.0, 1.0, -1.0], clip=Clip(), ratio=INF)
@example(advantages=[0.0, 1.0, -1.0], clip=Clip(dual=3.0), ratio=INF)
@example(advantages=[1e200, -1e200], clip=Clip(), ratio=1e200)
@example(advantages=[1e200, -1e200], clip=Clip(dual=3.0), ratio=1e200)
def test_an_infinite_ratio_is_the_limit_of_large_ones(
    clipped_policy_terms, advantages, clip, ratio
):
    """At ρ = ∞ a gain is −(1 + high) A, a zero advantage gives 0, a cost is infinite or −c A.

    The same holds of terms that are beyond float64: infinite, never NaN.
    """
    ratios = [[ratio] * len(advantages)]
    got = clipped_policy_terms(ratios, [advantages], **clip.options)
    clip.assert_terms(got, ratios, [advantages])


@law(
    tokens=steps(lambda ratio, advantage: (ratio, advantage - 4), 8, 9, max_size=9),
    given=st.tuples(forms(), forms()),
    dual=st.sampled_from((None, 3, 4.0)),
)
@example(tokens=[(5, -2), (2, 3)], given=(list, tuple), dual=3)
def test_clipped_terms_take_numbers_of_every_kind(clipped_policy_terms, tokens, given, dual):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    clip, columns = Clip(0.25, 0.5, dual), _in_a_table(tokens)
    call = [form(column.tolist()) for form, column in zip(given, columns, strict=True)]
    assert_untouched(clipped_policy_terms, *call, **clip.options)
    clip.assert_terms(clipped_policy_terms(*call, **clip.options), *columns)


@law_of_ordinary_sizes
def test_clipped_terms_of_batches_of_ordinary_size(clipped_policy_terms, sample):
    """Every token of a vector, a table or a block has its own term, with any window and dual clip.

    −A min(ρ, 1 + high) where A ≥ 0 and −A min(max(ρ, 1 − low), c) where A < 0, at ρ = ∞ too.
    """
    shape = sample.layout()
    reach = sample.choice("reach", 1.5, 3.0, 60.0)
    ratios = sample.reals("ratios", *shape, low=0.0, high=reach)
    ratios[sample.flags("infinite", *shape, share=0.02)] = INF
    advantages = sample.reals("advantages", *shape)
    low, high, dual = (
        sample.choice(f"{bound} is", default, *[sample.number(bound, *between)] * 3)
        for bound, default, between in (
            ("low", 0.2, (0.01, 0.99)),
            ("high", 0.2, (0.01, 4.0)),
            ("dual", None, (1.01, 40.0)),
        )
    )
    clip = Clip(low, high, dual)
    costs = np.minimum(np.maximum(ratios, 1.0 - low), INF if dual is None else dual)
    followed = np.where(advantages < 0, costs, np.minimum(ratios, 1.0 + high))
    got = clipped_policy_terms(*sample.held(ratios, advantages), **clip.options)
    expected = -followed * advantages
    assert_close(got, expected, terms=np.abs(expected), factor=clip.rounding)


@law_of_refusals(REFUSALS["clipped_policy_terms"])
def test_clipped_policy_terms_refuse(clipped_policy_terms, bad):
    """Negative ratios, advantages of another shape, and clips out of range are refused."""
    assert_refuses(clipped_policy_terms, *bad.args, **bad.kwargs)


# --- aggregation -------------------------------------------------------------------------------

LENGTHS = (4, 1, 3, 4096)
NO_ROWS = Batch((np.zeros((0, 2)),), np.zeros((0, 2), dtype=np.int64))


def _loss_row(*code: int) -> list[tuple[float, int]]:
    values, mask, blank = code[:WIDEST], code[WIDEST:-1], code[-1]
    return [(REALS[v], int(m > 0 and blank > 0)) for v, m in zip(values, mask, strict=True)]


def losses(min_size: int = 0) -> st.SearchStrategy[Batch]:
    """Losses of up to four rows of up to four tokens; one row in five has no active token."""
    return batches(_loss_row, 1, *([256] * WIDEST), *([3] * WIDEST), 5, min_size=min_size)


@dataclass(frozen=True)
class Mode:
    """A way to aggregate, with its option."""

    name: str
    max_length: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {} if self.max_length is None else {"max_length": self.max_length}

    def of(self, function: Any, batch: Batch) -> Any:
        """The function's answer for the batch."""
        return function(*batch.columns, batch.mask, self.name, **self.options)

    def weight(self, batch: Batch) -> int:
        """What batches are weighted with when their losses are put together."""
        if self.name == "token-mean":
            return int(batch.mask.sum())
        return int(batch.mask.any(axis=1).sum()) if self.name == MODES[1] else len(batch.mask)

    def scale(self, batch: Batch) -> float:
        """A bound of the sum of the absolute terms: the largest row's, or the largest loss."""
        (values,) = batch.columns
        per_token = np.abs(np.where(batch.mask == 1, values, 0.0))
        if self.name in MODES[:2]:
            return float(per_token.max(initial=0.0))
        return float(per_token.sum(axis=1).max(initial=0.0)) / (self.max_length or 1)


def modes() -> st.SearchStrategy[Mode]:
    """The four modes, the last one with several lengths."""
    plain = [Mode(name) for name in MODES[:3]]
    return st.sampled_from([*plain, *plain, *(Mode(MODES[3], length) for length in LENGTHS)])


def sums() -> st.SearchStrategy[Mode]:
    """The modes that do not divide by the length of a row."""
    return st.sampled_from([Mode(MODES[2]), *(Mode(MODES[3], length) for length in LENGTHS)])


def values(batch: Batch) -> list[list[Fraction]]:
    """The active losses of each row."""
    return [[exact(loss) for (loss,) in row] for row in batch.active]


@law(batch=losses())
# verl-project/verl#7321, verl-project/verl#2776, huggingface/trl#3231
@example(batch=batch_of([[1.0, 1.0, 1.0], [5.0, 0.0, 0.0]], mask=[[1, 1, 1], [1, 0, 0]]))
# alibaba/ROLL#444
@example(batch=batch_of([[2.0, 90.0], [4.0, -10.0]], mask=[[1, 0], [1, 0]]))
# ServiceNow/Fast-LLM#426
@example(batch=batch_of([[2.0, 0.0, 0.0, 0.0]], mask=[[1, 0, 0, 0]]))
@example(batch=batch_of([[float(t) for t in range(70)]] * 2, mask=[[1] * 70, [1, 0] * 35]))
def test_token_mean_is_the_mean_of_all_active_tokens(aggregate_token_losses, batch):
    """Under "token-mean" each active token counts the same, in whatever row it stands.

    Σ m ℓ / Σ m, in exact rational arithmetic.
    """
    tokens = [loss for row in values(batch) for loss in row]
    terms = [loss / len(tokens) for loss in tokens]
    assert_sum(aggregate_token_losses(*batch.columns, batch.mask, "token-mean"), terms)


@law(batch=losses())
# areal-project/AReaL#1346
@example(batch=batch_of([[2.0, 2.0, 8.0, 8.0]], mask=[[1, 1, 0, 0]]))
@example(batch=batch_of([[1.0] * 4, [3.0] * 4, [7.0] * 4], mask=[[1] * 4, [1, 0, 0, 0], [0] * 4]))
@example(batch=batch_of([[float(t) for t in range(70)]] * 2, mask=[[1] * 70, [1, 0] * 35]))
def test_sequence_mean_is_the_mean_over_rows_of_the_mean_over_tokens(aggregate_token_losses, batch):
    """Under "seq-mean-token-mean" each row with tokens counts the same, whatever its length.

    (1/R) Σ_b (1/n_b) Σ_t ℓ_bt over the R rows that have tokens, in exact rational arithmetic.
    """
    rows = [row for row in values(batch) if row]
    terms = [loss / len(row) / len(rows) for row in rows for loss in row]
    assert_sum(aggregate_token_losses(*batch.columns, batch.mask, "seq-mean-token-mean"), terms)


@law(batch=losses(), mode=sums())
# verl-project/verl#3741, verl-project/verl#4510, verl-project/verl#5366
@example(batch=batch_of([[2.0, 0.0], [3.0, 1.0]], mask=PAIR * 2), mode=Mode(MODES[3], 4))
def test_sequence_sums_are_averaged_over_all_rows(aggregate_token_losses, batch, mode):
    """Under "seq-mean-token-sum" and its "-norm", rows count by their sums, empty rows as 0.

    (1/B) Σ_b Σ_t ℓ_bt, and that divided by max_length, in exact rational arithmetic.
    """
    share = max(len(batch.mask), 1) * (mode.max_length or 1)
    terms = [loss / share for row in values(batch) for loss in row]
    assert_sum(mode.of(aggregate_token_losses, batch), terms)


@law(batch=losses(), level=st.sampled_from(REALS[:40]), mode=modes())
@example(
    batch=batch_of([[0.0, 0.0], [0.0, 0.0]], mask=[[1, 1], [0, 0]]), level=2.0, mode=Mode(MODES[1])
)
def test_equal_losses_average_to_themselves(aggregate_token_losses, batch, level, mode):
    """Where every token's loss is c, both means are c; the sums are c times tokens a row.

    c N / B without and c N / (B · max_length) with a norm.
    """
    same = Batch((np.full(batch.shape, level),), batch.mask)
    tokens, rows = int(batch.mask.sum()), max(len(batch.mask), 1)
    a_row = Fraction(tokens, rows) / (mode.max_length or 1)
    times = min(tokens, 1) if mode.name in MODES[:2] else a_row
    assert_sum(mode.of(aggregate_token_losses, same), [times * exact(level)])


@law(batch=losses(), mode=modes(), copies=st.integers(2, 4))
# huggingface/trl#3138, huggingface/trl#3256
@example(batch=batch_of([[2.0, 0.0], [3.0, 1.0]], mask=PAIR * 2), mode=Mode(MODES[3], 4), copies=2)
@example(batch=NO_ROWS, mode=Mode(MODES[1]), copies=2)
def test_copies_of_every_row_change_no_loss(aggregate_token_losses, batch, mode, copies):
    """A batch that holds every row several times has the same loss, in any mode."""
    once = number(mode.of(aggregate_token_losses, batch))
    many = batch.rows(list(range(len(batch.mask))) * copies)
    assert_close(mode.of(aggregate_token_losses, many), once, terms=2.0 * mode.scale(batch))


@law(batch=losses(), mode=modes(), order=st.permutations(range(WIDEST)))
@example(batch=NO_ROWS, mode=Mode(MODES[1]), order=list(range(WIDEST)))
def test_the_order_of_rows_and_tokens_changes_no_loss(aggregate_token_losses, batch, mode, order):
    """Rows, and the columns of all rows, may stand in any order."""
    once = number(mode.of(aggregate_token_losses, batch))
    rows, columns = ([i for i in order if i < n] for n in batch.shape)
    moved = batch.rows(rows).tokens(columns)
    assert_close(mode.of(aggregate_token_losses, moved), once, terms=2.0 * mode.scale(batch))


@law(batch=losses(min_size=2), mode=modes(), cut=st.integers(1, 3))
# allenai/open-instruct#1161, allenai/open-instruct#1137
@example(
    batch=batch_of([[1.0, 1.0, 1.0], [5.0, 0.0, 0.0]], mask=[[1, 1, 1], [1, 0, 0]]),
    mode=Mode("token-mean"),
    cut=1,
)
# huggingface/trl#6024
@example(
    batch=batch_of([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], mask=[[1, 1, 1]] * 2),
    mode=Mode("token-mean"),
    cut=1,
)
# modelscope/ms-swift#10117, huggingface/trl#5619
@example(
    batch=batch_of([[2.0, 2.0]] * 4, mask=PAIR * 4),
    mode=Mode("token-mean"),
    cut=2,
)
def test_losses_of_micro_batches_add_up_by_their_weights(aggregate_token_losses, batch, mode, cut):
    """The loss of a batch is the mean of its parts' losses, weighted by what the mode counts.

    Tokens for "token-mean", rows with tokens for "seq-mean-token-mean", rows for the sums.
    """
    parts = [batch.rows(slice(cut)), batch.rows(slice(cut, None))]
    weighted = sum(
        mode.weight(part) * number(mode.of(aggregate_token_losses, part)) for part in parts
    )
    expected = weighted / max(mode.weight(batch), 1)
    assert_close(mode.of(aggregate_token_losses, batch), expected, terms=4.0 * mode.scale(batch))


@law(batch=losses(), mode=modes(), junk=inert_values())
# verl-project/verl#2377, OpenRLHF/OpenRLHF#1240
@example(batch=batch_of([[1.0, 0.0]], mask=[[1, 0]]), mode=Mode("token-mean"), junk=NAN)
@example(batch=batch_of([[1.0, 0.0]], mask=[[1, 0]]), mode=Mode(MODES[1]), junk=NAN)
@example(batch=batch_of([[1.0, 0.0]], mask=[[1, 0]]), mode=Mode(MODES[2]), junk=INF)
@example(
    batch=batch_of([long_row(70)] * 2, mask=[[1, 0] * 35, [0, 1] * 35]),
    mode=Mode(MODES[2]),
    junk=NAN,
)
def test_masked_losses_change_nothing(aggregate_token_losses, batch, mode, junk):
    """What stands where the mask is 0, NaN and infinities too, is never read.

    Selected, not multiplied, because 0 · NaN and 0 · ∞ are NaN.
    """
    clean = number(mode.of(aggregate_token_losses, batch.holding(0.0)))
    dirty = batch.holding(junk)
    got = assert_quiet(
        aggregate_token_losses, *dirty.columns, dirty.mask, mode.name, **mode.options
    )
    assert_close(got, clean, terms=2.0 * mode.scale(batch))


@law(batch=losses(), mode=modes(), columns=st.integers(1, 3), junk=inert_values())
def test_padding_to_a_longer_row_changes_no_loss(
    aggregate_token_losses, batch, mode, columns, junk
):
    """Columns in which no token is active change nothing: the padded width counts nowhere."""
    once = number(mode.of(aggregate_token_losses, batch))
    padding = ((0, 0), (0, columns))
    padded = Batch(tuple(np.pad(c, padding) for c in batch.columns), np.pad(batch.mask, padding))
    got = mode.of(aggregate_token_losses, padded.holding(junk))
    assert_close(got, once, terms=2.0 * mode.scale(batch))


@law(batch=losses(min_size=1), mode=modes(), rows=st.integers(1, 2), junk=inert_values())
def test_rows_without_tokens_count_in_sums_alone(aggregate_token_losses, batch, mode, rows, junk):
    """A fully masked row leaves both means as they are, and counts as a sum of 0.

    The modes of sums divide by all rows: B / (B + 1) of the loss is left for one such row.
    """
    once = number(mode.of(aggregate_token_losses, batch))
    padding = ((rows, 0), (0, 0))
    larger = Batch(tuple(np.pad(c, padding) for c in batch.columns), np.pad(batch.mask, padding))
    left = 1.0 if mode.name in MODES[:2] else len(batch.mask) / len(larger.mask)
    got = mode.of(aggregate_token_losses, larger.holding(junk))
    assert_close(got, left * once, terms=2.0 * mode.scale(batch))


@law(rows=st.integers(0, 3), width=st.integers(0, 3), mode=modes(), junk=inert_values())
# huggingface/trl#3248, verl-project/verl#782, NousResearch/atropos#236
@example(rows=1, width=2, mode=Mode("token-mean"), junk=1.0)
# unslothai/unsloth-zoo#1262, huggingface/trl#5826
@example(rows=2, width=1, mode=Mode(MODES[1]), junk=1.0)
def test_without_tokens_the_loss_is_zero(aggregate_token_losses, rows, width, mode, junk):
    """A batch without active tokens, rows or columns has the loss 0.0."""
    losses, mask = np.full((rows, width), junk), np.zeros((rows, width))
    got = assert_quiet(aggregate_token_losses, losses, mask, mode.name, **mode.options)
    assert_same(got, 0.0)


@law(batch=losses(min_size=1), length=st.sampled_from(LENGTHS))
def test_the_modes_agree_about_rows_of_one_length(aggregate_token_losses, batch, length):
    """With n tokens in every row, a mean is the same in both orders, and is 1/n of the sum.

    With max_length = n the norm gives the means, and in general the sum divided by it.
    """
    full = Batch(batch.columns, np.ones(batch.shape, dtype=np.int64))
    names = (*MODES[:3], MODES[3], MODES[3])
    lengths = (None, None, None, full.shape[1], length)
    answers = [
        Mode(name, n).of(aggregate_token_losses, full)
        for name, n in zip(names, lengths, strict=True)
    ]
    means, rows, sums, norm, scaled = map(number, answers)
    n, scale = full.shape[1], 2.0 * Mode(MODES[2]).scale(full)
    assert_close([rows, norm, sums / n, scaled * length / n], [means] * 4, terms=scale, of=answers)


@law(loss=near(HUGE, -HUGE, 1e-300), mode=modes(), count=st.integers(1, 3))
@example(loss=HUGE, mode=Mode(MODES[2]), count=2)
def test_aggregates_at_the_ends_of_float64(aggregate_token_losses, loss, mode, count):
    """A single token of any size keeps its loss, and a sum beyond float64 is infinite."""
    tokens = count if mode.name == MODES[2] else 1
    got = aggregate_token_losses([[loss] * tokens], [[1] * tokens], mode.name, **mode.options)
    truth = nearest_float(tokens * exact(loss) / (mode.max_length or 1))
    assert_close(got, truth, terms=abs(truth))


@law(
    tokens=whole_numbers(6),
    form=forms(),
    mask=masks([[1, 1, 0], [0, 1, 1]]),
    mode=st.sampled_from([Mode(MODES[0]), Mode(MODES[1]), Mode(MODES[2]), Mode(MODES[3], 4.0)]),
)
def test_losses_are_read_from_numbers_of_every_kind(
    aggregate_token_losses, tokens, form, mask, mode
):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    call = form([tokens[:3], tokens[3:]]), mask, mode.name
    assert_untouched(aggregate_token_losses, *call, **mode.options)
    parts = {MODES[0]: 4, MODES[1]: 4, MODES[2]: 2, MODES[3]: 8}[mode.name]
    expected = sum((*tokens[:2], *tokens[4:])) / parts
    assert_close(aggregate_token_losses(*call, **mode.options), expected, terms=14.0)


@law_of_ordinary_sizes
def test_losses_of_batches_of_ordinary_size(aggregate_token_losses, sample):
    """Many long rows of unequal length have one loss in each mode.

    Σ_b Σ_t w_b m_bt ℓ_bt with w_b = 1/N, 1/(n_b B), 1/B or 1/(B · max_length): N tokens, of which
    n_b are in row b of B.
    """
    mask = sample.flags("mask", *sample.shape, share=0.6)
    mask[range(sample.rows), sample.integers("token", 0, sample.columns, sample.rows)] = True
    losses = sample.reals("losses", *sample.shape)
    length = int(sample.integers("length", 1, sample.choice("longest", 9, 5000)))
    mode = sample.choice("mode", *map(Mode, MODES[:3]), Mode(MODES[3], length))
    shares = (mask.sum(), sample.rows * mask.sum(1), sample.rows, sample.rows * length)
    share = np.reshape(shares[MODES.index(mode.name)], (-1, 1))
    terms = np.where(mask, losses, 0.0) / share
    held = sample.held(np.where(mask, losses, 1e6), mask)
    got = aggregate_token_losses(*held, mode.name, **mode.options)
    assert_close(got, terms.sum(), terms=np.abs(terms).sum(), count=terms.size)


@law_of_refusals(REFUSALS["aggregate_token_losses"])
def test_aggregate_token_losses_refuses(aggregate_token_losses, bad):
    """Losses under the mask are finite, modes are four, and one of them takes a max_length."""
    assert_refuses(aggregate_token_losses, *bad.args, **bad.kwargs)
