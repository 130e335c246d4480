"""Laws of `rlcheck.offline`."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import assume, example
from hypothesis import strategies as st

from rlcheck import logprobs
from rlcheck.grading.compare import (
    assert_close,
    assert_in_range,
    assert_quiet,
    assert_refuses,
    assert_same,
    assert_untouched,
    exact,
    nearest_float,
    numbers,
)
from rlcheck.grading.laws import law

from .ordinary import law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import forms, laid_out, layouts, near, reals, steps, whole_numbers

NAN, INF = float("nan"), float("inf")
HUGE = 1.5e308  # twice it is beyond float64


def floats(got: Any, *, shape: tuple[int, ...] = ()) -> Any:
    """An answer to reckon with: numbers in the precision that they came in."""
    array = numbers(got, shape=shape)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


REFUSALS = {
    "cql_discrete_penalty": (
        refuse([1.0, NAN], 0, says="q_values[1] is nan"),
        refuse([1.0, INF], 0, says="q_values[1] is inf"),
        refuse([1.0, -INF], 0, says="q_values[1] is -inf"),
        refuse([[1.0, 2.0]], np.array([1.0]), says="action[0] is 1.0; it must be an integer"),
        refuse([[1.0, 2.0], [3.0, NAN]], [0, 0], says="q_values[1, 1] is nan"),
        refuse([1.0, 2.0], 2, says="action is 2; it must be in [0, 2)"),
        refuse([1.0, 2.0], -1, says="action is -1; it must be in [0, 2)"),
        refuse([1.0, 2.0], 0.5, says="action is 0.5"),
        refuse([[1.0, 2.0]] * 2, [0, 2], says="action[1] is 2; it must be in [0, 2)"),
        refuse([[1.0, 2.0]] * 2, [-1, 0], says="action[0] is -1"),
        refuse([[1.0, 2.0]] * 2, [0.0, 1.5], says="action[0] is 0.0; it must be an integer"),
        refuse([[1.0, 2.0]] * 2, [0], says="action has shape (1,); it must have shape (2,)"),
        refuse([[1.0, 2.0]] * 2, 0, says="action has shape (); it must have shape (2,)"),
        refuse([[1.0, 2.0]] * 2, [[0], [1]], says="action has shape (2, 1)"),
        refuse([], 0, says="q_values has shape (0,)"),
        refuse([[], []], [0, 0], says="q_values has shape (2, 0)"),
        refuse(1.0, 0, says="q_values has shape ()"),
        refuse([[1.0, 2.0], [3.0]], [0, 0], says="q_values is ragged"),
        refuse("12", 0, says="q_values is '12'"),
        refuse([1.0, None], 0, says="q_values[1] is None"),
        refuse([1.0, 2.0], None, says="action is None"),
    ),
    "expectile_loss": (
        refuse([1.0, NAN], says="differences[1] is nan"),
        refuse([INF], 0.7, says="differences[0] is inf"),
        refuse([1.0], 0.7, reduction="sum", says="reduction is 'sum'"),
        refuse([1.0, -INF], 0.7, reduction="none", says="differences[1] is -inf"),
        refuse([1.0], 0.0, says="expectile is 0.0; it must lie in (0, 1)"),
        refuse([1.0], 1.0, says="expectile is 1.0; it must lie in (0, 1)"),
        refuse([1.0], -0.2, says="expectile is -0.2"),
        refuse([1.0], 1.7, reduction="none", says="expectile is 1.7"),
        refuse([1.0], NAN, says="expectile is nan"),
        refuse([], says="differences is empty"),
        refuse([], 0.5, reduction="mean", says="differences is empty"),
        refuse([1.0], 0.7, reduction="median", says="reduction is 'median'"),
        refuse([1.0], 0.7, reduction="", says="reduction is ''"),
        refuse("1", says="differences is '1'"),
        refuse([1.0, None], says="differences[1] is None"),
        refuse([1.0], "0.7", says="expectile is '0.7'"),
    ),
    "iql_advantage_weights": (
        refuse([1.0, NAN], says="advantages[1] is nan"),
        refuse([INF], says="advantages[0] is inf"),
        refuse([-INF], says="advantages[0] is -inf"),
        refuse([1.0], -0.5, says="beta is -0.5; it must be ≥ 0"),
        refuse([1.0], NAN, says="beta is nan"),
        refuse([0.0], INF, says="beta is inf"),
        refuse([1.0], 3.0, 0.0, says="max_weight is 0.0; it must be > 0"),
        refuse([1.0], 3.0, -100.0, says="max_weight is -100.0; it must be > 0"),
        refuse([1.0], 3.0, NAN, says="max_weight is nan"),
        refuse("1", says="advantages is '1'"),
        refuse([1.0, None], says="advantages[1] is None"),
        refuse([1.0], None, says="beta is None"),
        refuse({"advantage": 1.0}, says="advantages is {'advantage': 1.0}"),
    ),
    "behavior_support_mask": (
        refuse([0.5, NAN], 0.1, says="probabilities[1] is nan"),
        refuse([0.5, INF], 0.1, says="probabilities[1] is inf"),
        refuse([0.5, 0.7, -0.2], 0.1, says="probabilities[2] is -0.2; it must be ≥ 0"),
        refuse([-0.5, -0.5], 0.1, says="probabilities[0] is -0.5"),
        refuse([0.0, 0.0], 0.1, says="probabilities[0] is 0.0"),
        refuse([[0.5, 0.5], [0.0, 0.0]], 0.1, says="probabilities[1, 0] is 0.0"),
        refuse([[0.0], [1.0]], 0.0, says="probabilities[0, 0] is 0.0"),
        refuse([], 0.1, says="probabilities has shape (0,); a row needs an action"),
        refuse([[], []], 0.1, says="probabilities has shape (2, 0)"),
        refuse(0.5, 0.1, says="probabilities has shape ()"),
        refuse([[0.5, 0.5], [1.0]], 0.1, says="probabilities is ragged"),
        refuse([0.5, 0.5], NAN, says="threshold_ratio is nan"),
        refuse([0.5, 0.5], INF, says="threshold_ratio is inf"),
        refuse([0.5, 0.5], None, says="threshold_ratio is None"),
        refuse("0.5", 0.1, says="probabilities is '0.5'"),
        refuse([[0.5, None]], 0.1, says="probabilities[0, 1] is None"),
    ),
}


# --- conservative Q-learning -------------------------------------------------------------------

# Multiples of ¼, which every offset below leaves exact.
LEVELS = (
    0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -2.0,
    3.0,
    0.25,
    -0.75,
    5.0,
    8.0,
    -3.0,
    40.0,
    -40.0,
    800.0,
    -900.0,
)
OFFSETS = (0.0, 1e8, -1e8, 2.0**50, -16.0)


@dataclass(frozen=True)
class States:
    """The action values of N states, [N, A], and the data's action in each."""

    q_values: Any
    action: list[int]

    @property
    def gaps(self) -> Any:
        """[N] how far the data action stands below the best one, exact for these values."""
        rows = zip(self.q_values, self.action, strict=True)
        return np.array([max(row) - row[a] for row, a in rows])


def _states(drawn: tuple[list[list[int]], int]) -> States:
    codes, actions = drawn
    codes = [] if codes and codes[0][5] == 1 else codes
    q_values = [[LEVELS[i] for i in code[:actions]] for code in codes]
    return States(q_values or np.empty((0, actions)), [code[4] % actions for code in codes])


def states(*actions: int) -> st.SearchStrategy[States]:
    """Up to five states with one to four actions, or with as many as are given."""
    codes = steps(lambda *code: list(code), *([16] * 4), 12, 12, max_size=5)
    return st.tuples(codes, st.sampled_from(actions or (2, 3, 1, 4))).map(_states)


def counts() -> st.SearchStrategy[list[int]]:
    """One to five counts between 1 and 1000."""
    return steps(lambda n: n + 1, 1000, min_size=1, max_size=5)


@law(counts=counts(), action=st.integers(0, 4))
@example(counts=[1, 1, 1], action=2)
@example(counts=list(range(1, 101)), action=2)
def test_cql_penalty_of_logarithms_is_that_of_their_share(cql_discrete_penalty, counts, action):
    """With Q = log n the penalty is the logarithm of the data action's inverse share.

    log Σ_a n_a − log n_data, because exp Q = n.
    """
    action %= len(counts)
    q_values = [math.log(n) for n in counts]
    expected = math.log(sum(counts) / counts[action])
    assert_close(cql_discrete_penalty(q_values, action), expected, terms=1.0 + 3 * max(q_values))


@law(states=states(2))
@example(states=States([[800.0, -900.0], [-900.0, 800.0]], [0, 0]))
def test_cql_penalty_of_two_actions_is_a_softplus(cql_discrete_penalty, states):
    """With two actions the penalty is log(1 + exp(Q_other − Q_data))."""
    other = np.array(
        [row[1 - a] - row[a] for row, a in zip(states.q_values, states.action, strict=True)]
    )
    expected = np.log1p(np.exp(-np.abs(other))) + np.maximum(other, 0.0)
    got = assert_quiet(cql_discrete_penalty, states.q_values, states.action)
    assert_close(got, expected, terms=1.0 + states.gaps)


@law(row=states().filter(lambda s: s.action))
def test_cql_penalties_of_all_actions_are_those_of_a_distribution(cql_discrete_penalty, row):
    """Over the actions of one state, exp(−penalty) adds up to 1.

    The penalty is −log softmax(Q)[a], so it is never negative.
    """
    q_values = row.q_values[0]
    penalties = cql_discrete_penalty([q_values] * len(q_values), list(range(len(q_values))))
    shares = np.exp(-floats(penalties, shape=(len(q_values),)))
    assert_close(shares.sum(), 1.0, terms=4.0)


@law(states=states(), offset=st.sampled_from(OFFSETS[1:]))
@example(states=States([[2.0, 0.0, -1.0]], [0]), offset=1e8)
def test_cql_penalty_does_not_notice_an_offset(cql_discrete_penalty, states, offset):
    """Adding one number to all values of a state leaves its penalty as it is.

    The differences to the maximum decide; a logarithm of the whole sum, with the action's value
    taken off afterwards, loses them in the offset's rounding.
    """
    plain = floats(cql_discrete_penalty(states.q_values, states.action), shape=states.gaps.shape)
    moved = cql_discrete_penalty(np.asarray(states.q_values) + offset, states.action)
    assert_close(moved, plain, terms=2.0 * (1.0 + states.gaps))


@law(states=states(), offset=st.sampled_from(OFFSETS))
@example(states=States([[0.0, 2.0, 4.0]], [2]), offset=0.0)  # BY571/CQL#5
def test_cql_penalty_lies_between_the_gap_and_log_a_above_it(cql_discrete_penalty, states, offset):
    """The penalty exceeds the data action's gap to the maximum by at most log A, and is ≥ 0.

    max Q ≤ log Σ_a exp Q ≤ max Q + log A.
    """
    answer = cql_discrete_penalty(np.asarray(states.q_values) + offset, states.action)
    got = floats(answer, shape=states.gaps.shape)
    room = 64 * np.finfo(got.dtype).eps * (1.0 + states.gaps)
    low = np.maximum(states.gaps - room, 0.0)
    high = states.gaps + math.log(np.shape(states.q_values)[1]) + room
    assert_in_range(got, low, high, shape=states.gaps.shape)


@law(states=states(), other=st.integers(0, 3))
def test_cql_penalties_of_two_actions_differ_by_their_values(cql_discrete_penalty, states, other):
    """In one state, the penalties of two actions differ as their values do, the other way."""
    shape, rows = states.gaps.shape, range(len(states.action))
    swapped = States(states.q_values, [other % np.shape(states.q_values)[1]] * len(rows))
    first = floats(cql_discrete_penalty(states.q_values, states.action), shape=shape)
    second = floats(cql_discrete_penalty(states.q_values, swapped.action), shape=shape)
    gaps = states.gaps - swapped.gaps
    assert_close(first - second, gaps, terms=2.0 + states.gaps + swapped.gaps)


@law(states=states())
def test_cql_penalty_grows_by_log_2_when_every_action_is_doubled(cql_discrete_penalty, states):
    """Listing every action twice adds log 2."""
    shape = states.gaps.shape
    once = floats(cql_discrete_penalty(states.q_values, states.action), shape=shape)
    twice = cql_discrete_penalty(np.tile(states.q_values, 2), states.action)
    assert_close(twice, once + math.log(2.0), terms=2.0 * (1.0 + states.gaps))


@law(states=states())
def test_cql_penalty_is_a_negative_log_softmax(cql_discrete_penalty, states):
    """The penalty is the negative log-probability of the data action under softmax(Q)."""
    rows = np.arange(len(states.action))
    expected = -logprobs.stable_log_softmax(states.q_values)[rows, states.action]
    got = cql_discrete_penalty(states.q_values, states.action)
    assert_close(got, expected, terms=2.0 * (1.0 + states.gaps))


@law(states=states())
def test_cql_penalties_of_a_batch_are_those_of_its_states(cql_discrete_penalty, states):
    """Every state has the penalty that it would have alone, as one row and one action."""
    rows = zip(states.q_values, states.action, strict=True)
    alone = [floats(cql_discrete_penalty(row, a)) for row, a in rows]
    got = cql_discrete_penalty(states.q_values, states.action)
    assert_close(got, np.array(alone), terms=2.0 * (1.0 + states.gaps))


@law(top=near(HUGE, 1e300, 1e5), bottom=near(-HUGE, -1e300, 0.0))
@example(top=HUGE, bottom=-HUGE)
def test_cql_penalty_at_the_ends_of_float64(cql_discrete_penalty, top, bottom):
    """The widest gaps give their exact difference, or inf beyond float64."""
    got = cql_discrete_penalty([[top, bottom], [bottom, top]], [1, 1])
    gap = nearest_float(exact(top) - exact(bottom))
    assert_close(got, [gap, 0.0], terms=np.array([1.0 + gap, 1.0]))


@law(
    rows=steps(lambda low, other, action: ([low - 30, other - 30], action), 61, 61, 2, min_size=1),
    form=forms(),
    kind=st.sampled_from((list, tuple, np.array)),
)
@example(rows=[([0, 1], 0), ([3, 3], 1), ([5, -2], 0)], form=np.int8, kind=list)
def test_cql_takes_numbers_of_every_kind(cql_discrete_penalty, rows, form, kind):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    q_values, actions = (list(column) for column in zip(*rows, strict=True))
    given = form(q_values), kind(actions)
    assert_untouched(cql_discrete_penalty, *given)
    expected = [math.log1p(math.exp(row[1 - a] - row[a])) for row, a in rows]
    assert_close(cql_discrete_penalty(*given), expected, terms=1.0 + np.array(expected))


@law_of_ordinary_sizes
def test_cql_penalties_of_batches_of_ordinary_size(cql_discrete_penalty, sample):
    """Each of many states has the penalty of its own data action among many.

    log Σ_a exp(Q_a − max Q) + max Q − Q_data, for a batch or a single state.
    """
    if sample.choice("alone", True, False, False):
        q_values = sample.reals("values", sample.columns)
        action = sample.integers("action", 0, sample.columns)
        given = [*sample.held(q_values), int(action)]
    else:
        q_values = sample.reals("values", sample.columns, sample.rows)
        action = sample.integers("action", 0, sample.rows, sample.columns)
        given = sample.held(q_values, action)
    below = q_values - q_values.max(-1, keepdims=True)
    gaps = -np.take_along_axis(below, np.expand_dims(action, -1), -1)[..., 0]
    expected = np.log(np.exp(below).sum(-1)) + gaps
    assert_close(cql_discrete_penalty(*given), expected, terms=1.0 + gaps)


@law_of_refusals(REFUSALS["cql_discrete_penalty"])
def test_cql_discrete_penalty_refuses(cql_discrete_penalty, bad):
    """Values are finite, and each state has one action of its own in [0, A)."""
    assert_refuses(cql_discrete_penalty, *bad.args, **bad.kwargs)


# --- expectile regression ----------------------------------------------------------------------

EXPECTILES = (0.7, 0.5, 0.9, 0.1, 0.25, 0.99, 0.01)


def expectiles() -> st.SearchStrategy[float]:
    """τ strictly between 0 and 1."""
    return st.sampled_from(EXPECTILES)


def asymmetric_squares(differences: list[float], expectile: float) -> list[Fraction]:
    """Both halves of the parabola, exactly: τ u² above 0 and (1 − τ) u² below."""
    tau = exact(expectile)
    above = [tau * max(exact(u), Fraction(0)) ** 2 for u in differences]
    below = [(1 - tau) * min(exact(u), Fraction(0)) ** 2 for u in differences]
    return [a + b for a, b in zip(above, below, strict=True)]


@law(differences=reals(), expectile=expectiles(), layout=layouts())
@example(differences=[-2.0], expectile=0.9, layout="vector")  # Nixtla/utilsforecast#63
@example(differences=[-2.0], expectile=0.9, layout="scalar")
def test_expectile_terms_weigh_both_sides_apart(expectile_loss, differences, expectile, layout):
    """Each difference costs its square, times τ above 0 and 1 − τ below; nothing costs nothing.

    |τ − 1[u < 0]| u², in exact rational arithmetic; without differences there are no terms.
    """
    terms = [nearest_float(x) for x in asymmetric_squares(differences, expectile)]
    expected = laid_out(terms, layout)
    got = expectile_loss(laid_out(differences, layout), expectile, reduction="none")
    assert_close(got, expected, terms=expected)


@law(differences=reals(min_size=1), expectile=expectiles())
def test_expectile_loss_is_the_mean_of_its_terms(expectile_loss, differences, expectile):
    """The loss is the arithmetic mean over all differences."""
    terms = asymmetric_squares(differences, expectile)
    expected = nearest_float(sum(terms) / len(terms))
    assert_close(expectile_loss(differences, expectile), expected, terms=expected, count=len(terms))


@law(differences=reals(min_size=1), expectile=expectiles())
def test_expectile_loss_is_mirrored_with_its_expectile(expectile_loss, differences, expectile):
    """Turning every difference round and taking 1 − τ for τ leaves the loss as it is."""
    there = floats(expectile_loss(differences, expectile))
    back = expectile_loss([-u for u in differences], 1.0 - expectile)
    # 1 − τ rounds by 2⁻⁵⁴ at most, which is 2⁻⁴⁷ of the smallest τ that is drawn.
    assert_close(back, there, terms=there, count=64 + len(differences))


@law(differences=reals(min_size=1))
def test_expectile_loss_at_one_half_is_half_the_mean_square(expectile_loss, differences):
    """Without asymmetry the loss is half the mean squared error."""
    half = nearest_float(sum(exact(u) ** 2 for u in differences) / (2 * len(differences)))
    assert_close(expectile_loss(differences, 0.5), half, terms=half, count=len(differences))


@law(
    low=st.integers(-50, 50),
    gap=st.integers(1, 64),
    expectile=expectiles(),
    step=st.sampled_from((0.0, 0.5, -0.5, 0.125)),
)
def test_expectile_loss_is_least_at_the_expectile(expectile_loss, low, gap, expectile, step):
    """Between two targets a < b the loss is a parabola with its least value at the expectile.

    The minimiser is m = a + τ (b − a), and L(m + h) = ½ τ (1 − τ) (b − a)² + ½ h².
    """
    least = low + expectile * gap
    h = step * min(expectile, 1.0 - expectile) * gap
    got = expectile_loss([low + gap - (least + h), low - (least + h)], expectile)
    expected = 0.5 * expectile * (1.0 - expectile) * gap**2 + 0.5 * h**2
    assert_close(got, expected, terms=float((abs(low) + gap) * gap))


@law(differences=reals(min_size=1), expectile=expectiles(), power=st.integers(-300, 300))
@example(differences=[1.0], expectile=0.7, power=64)  # the square is beyond float32, the loss not
def test_expectile_loss_scales_with_the_square(expectile_loss, differences, expectile, power):
    """Differences in other units change the loss by the square of the unit.

    L(c u) = c² L(u), here for powers of 2.
    """
    scaled = [u * 2.0**power for u in differences]
    expected = np.float64(floats(expectile_loss(differences, expectile))) * 4.0**power
    got = expectile_loss(scaled, expectile)
    assert_close(got, expected, terms=expected, count=len(differences))


@law(differences=reals(min_size=1), expectile=expectiles(), copies=st.integers(2, 3))
def test_expectile_loss_does_not_notice_copies(expectile_loss, differences, expectile, copies):
    """Repeating all the data, in a row of its own, leaves the mean as it is."""
    once = floats(expectile_loss(differences, expectile))
    rows = [differences, *[differences[::-1]] * (copies - 1)]
    got = expectile_loss(rows, expectile, reduction="mean")
    assert_close(got, once, terms=2 * once, count=len(differences) * copies)


@law(differences=reals(min_size=1))
def test_expectile_loss_defaults_to_the_mean_at_seven_tenths(expectile_loss, differences):
    """Left out, τ is 0.7 and the reduction is the mean."""
    terms = asymmetric_squares(differences, 0.7)
    expected = nearest_float(sum(terms) / len(terms))
    assert_close(expectile_loss(differences), expected, terms=expected, count=len(terms))


@law(
    expectile=expectiles(),
    size=near(1e120, 1e152, 1e160, 1e200),
    n=st.integers(1, 3),
)
def test_expectile_loss_at_the_ends_of_float64(expectile_loss, expectile, size, n):
    """A loss is right as long as float64 holds it, and infinite beyond."""
    differences = [size] * n
    terms = asymmetric_squares(differences, expectile)
    got = expectile_loss(differences, expectile, reduction="none")
    expected = [nearest_float(x) for x in terms]
    assert_close(got, expected, terms=np.array(expected))
    mean = nearest_float(sum(terms) / n)
    assert_close(expectile_loss(differences, expectile), mean, terms=mean)


@law(
    differences=steps(lambda n: n - 100, 201, min_size=1),
    form=forms(),
    reduction=st.sampled_from(("mean", "none")),
)
@example(differences=[3, -2, 0, 100], form=np.int8, reduction="none")
def test_expectile_loss_takes_numbers_of_every_kind(expectile_loss, differences, form, reduction):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    terms = np.array([float(term) for term in asymmetric_squares(differences, 0.25)])
    expected = terms if reduction == "none" else np.mean(terms)
    assert_untouched(expectile_loss, form(differences), 0.25, reduction=reduction)
    got = expectile_loss(form(differences), 0.25, reduction=reduction)
    assert_close(got, expected, terms=expected)


@law_of_ordinary_sizes
def test_expectile_loss_of_batches_of_ordinary_size(expectile_loss, sample):
    """Each entry of a vector, a table or a block costs its own weighed square, and all a mean.

    |τ − 1[u < 0]| u², with either reduction and at any expectile.
    """
    differences = sample.reals("differences", *sample.layout())
    expectile = sample.choice("expectile is", None, *[sample.number("expectile", 0.01, 0.99)] * 3)
    reduction = sample.choice("reduction", None, "mean", "none", "none")
    tau = 0.7 if expectile is None else expectile
    costs = np.where(differences < 0, 1.0 - tau, tau) * differences**2
    args = [] if expectile is None else [expectile]
    options = {} if reduction is None else {"reduction": reduction}
    got = expectile_loss(*sample.held(differences), *args, **options)
    expected = costs if reduction == "none" else costs.mean()
    factor = 1.0 / min(tau, 1.0 - tau)  # how much larger the terms of 1 − τ may be
    assert_close(got, expected, terms=expected, factor=factor, count=costs.size)


@law_of_refusals(REFUSALS["expectile_loss"])
def test_expectile_loss_refuses(expectile_loss, bad):
    """Differences are finite, τ lies strictly between 0 and 1, a mean needs an entry."""
    assert_refuses(expectile_loss, *bad.args, **bad.kwargs)


# --- advantage weights -------------------------------------------------------------------------

BETAS = (3.0, 1.0, 0.0, 0.5, 10.0, 0.125)
MAX_WEIGHTS = (100.0, 1.0, 0.5, 20.0, 1000.0, 1e300, 1e-3)


def weighted_most(advantages: Any, beta: float, max_weight: float) -> Any:
    """1 + |β A|, where the weight is judged: relative errors grow with the exponent."""
    exponents = beta * np.abs(np.asarray(advantages, dtype=np.float64))
    return 1.0 + np.minimum(exponents, 800.0 + abs(math.log(max_weight)))


@law(
    counts=counts(),
    power=st.integers(0, 3),
    max_weight=st.sampled_from(MAX_WEIGHTS),
    layout=layouts(),
)
@example(counts=list(range(1, 101)), power=2, max_weight=100.0, layout="vector")
@example(counts=[3], power=2, max_weight=100.0, layout="scalar")
def test_iql_weights_of_logarithms_are_powers(
    iql_advantage_weights, counts, power, max_weight, layout
):
    """With A = log n and a whole β the weights are powers of n, cut off at the maximum.

    exp(β log n) = n^β, for each advantage in its place.
    """
    advantages = laid_out([math.log(n) for n in counts], layout)
    expected = laid_out([min(float(n**power), max_weight) for n in counts], layout)
    got = iql_advantage_weights(advantages, float(power), max_weight)
    assert_close(got, expected, terms=2 * expected * weighted_most(advantages, power, max_weight))


@law(advantages=reals(), beta=st.sampled_from(BETAS), max_weight=st.sampled_from(MAX_WEIGHTS))
def test_iql_weights_of_opposite_advantages_multiply_to_one(
    iql_advantage_weights, advantages, beta, max_weight
):
    """Where neither is cut off, the weights of A and −A are each other's inverse.

    A cut-off weight w leaves min(1, w_max exp(−|β A|)) for the product, if w_max ≥ 1.
    """
    max_weight = max(max_weight, 1.0)
    advantages = [a for a in advantages if beta * abs(a) < 300]  # exp(−300)² is no 0 yet
    shape = (len(advantages),)
    there = floats(iql_advantage_weights(advantages, beta, max_weight), shape=shape)
    back = iql_advantage_weights([-a for a in advantages], beta, max_weight)
    product = there * floats(back, shape=shape)
    size = [abs(exact(beta) * exact(a)) for a in advantages]
    cut = [min(1.0, math.exp(min(0.0, math.log(max_weight) - float(x)))) for x in size]
    assert_close(product, cut, terms=4 * np.array(cut) * (1.0 + np.array(size, dtype=float)))


@law(advantages=reals(), beta=st.sampled_from(BETAS), power=st.integers(1, 4))
def test_iql_weights_depend_on_beta_times_the_advantage(
    iql_advantage_weights, advantages, beta, power
):
    """Doubling β and halving the advantages changes nothing."""
    shape, scale = (len(advantages),), 2.0**power
    plain = floats(iql_advantage_weights(advantages, beta), shape=shape)
    got = iql_advantage_weights([a / scale for a in advantages], beta * scale)
    assert_close(got, plain, terms=2 * plain * weighted_most(advantages, beta, 100.0))


@law(advantages=reals(), max_weight=st.sampled_from(MAX_WEIGHTS))
def test_iql_weights_without_temperature_are_those_of_cloning(
    iql_advantage_weights, advantages, max_weight
):
    """β = 0 weighs all the data alike: behaviour cloning."""
    same = np.full(len(advantages), min(1.0, max_weight))
    assert_close(iql_advantage_weights(advantages, 0.0, max_weight), same, terms=same)


@law(advantages=reals(), beta=st.sampled_from(BETAS), max_weight=st.sampled_from(MAX_WEIGHTS))
def test_iql_weights_are_cut_off_last(iql_advantage_weights, advantages, beta, max_weight):
    """A smaller maximum cuts off the weights themselves, not the advantages.

    w(A; w_max) = min(w(A; 10³⁰⁰), w_max).
    """
    free = floats(iql_advantage_weights(advantages, beta, 1e300), shape=(len(advantages),))
    expected = np.minimum(free, max_weight)
    scale = 2 * expected * weighted_most(advantages, beta, max_weight)
    assert_close(iql_advantage_weights(advantages, beta, max_weight), expected, terms=scale)


@law(advantages=reals(), table=st.booleans())
@example(advantages=[0.0, 2.0, 1.0], table=False)
def test_iql_weights_default_to_beta_3_and_at_most_100(iql_advantage_weights, advantages, table):
    """Left out, β is 3 and the maximum 100; each advantage has its weight, in any shape."""
    given = [advantages, [a / 2 for a in advantages]] if table else advantages
    expected = np.exp(np.minimum(3.0 * np.array(given, dtype=float), math.log(100.0)))
    scale = 2 * expected * weighted_most(given, 3.0, 100.0)
    assert_close(iql_advantage_weights(given), expected, terms=scale)


@law(
    size=near(1e3, 1e308, 800.0),
    beta=st.sampled_from((3.0, 1e10, 2.0)),
    max_weight=st.sampled_from(MAX_WEIGHTS),
)
def test_iql_weights_at_any_advantage(iql_advantage_weights, size, beta, max_weight):
    """The largest advantages weigh the maximum, the most negative ones 0, without a warning."""
    got = assert_quiet(iql_advantage_weights, [size, 0.0, -size], beta, max_weight)
    expected = np.array([max_weight, min(1.0, max_weight), 0.0])
    scale = np.array([max_weight * (1.0 + abs(math.log(max_weight))), 1.0, 0.0])
    assert_close(got, expected, terms=scale, slack=1e-300)


@law(advantages=reals(), beta=st.sampled_from(BETAS), max_weight=st.sampled_from(MAX_WEIGHTS))
def test_iql_weights_grow_with_the_advantage(iql_advantage_weights, advantages, beta, max_weight):
    """A larger advantage never weighs less, and every weight lies between 0 and the maximum."""
    ordered = sorted(advantages)
    weights = floats(iql_advantage_weights(ordered, beta, max_weight), shape=(len(ordered),))
    slack = 64 * np.finfo(weights.dtype).eps * weighted_most(ordered, beta, max_weight)
    assert_in_range(weights, 0.0, max_weight * (1 + slack), shape=(len(ordered),))
    assert_in_range(
        np.diff(weights) / max_weight, -slack[1:], 1 + slack[1:], shape=np.diff(ordered).shape
    )


@law(advantages=whole_numbers(), form=forms())
@example(advantages=[0, -2, 3], form=np.int8)
def test_iql_weights_take_numbers_of_every_kind(iql_advantage_weights, advantages, form):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    given = form([*advantages, 100])
    assert_untouched(iql_advantage_weights, given, 0.5, 7.0)
    expected = np.array([*(min(math.exp(a / 2), 7.0) for a in advantages), 7.0])
    assert_close(iql_advantage_weights(given, 0.5, 7.0), expected, terms=4 * expected)


@law_of_ordinary_sizes
def test_iql_weights_of_batches_of_ordinary_size(iql_advantage_weights, sample):
    """Each entry of a vector, a table or a block has its own weight, and no more than the maximum.

    min(exp(β A), max_weight), at any β and maximum; 3 and 100 unless they are given.
    """
    advantages = sample.reals("advantages", *sample.layout(), low=-4.0, high=4.0)
    given = {
        "beta": sample.choice("beta", sample.number("cool", 0.0, 1.0), sample.number("hot", 1, 20)),
        "max_weight": sample.choice(
            "most", sample.number("low", 0.01, 9), sample.number("high", 9, 999)
        ),
    }
    options = {name: given[name] for name in given if sample.choice(f"{name} given", 1, 1, 0)}
    beta, most = ({"beta": 3.0, "max_weight": 100.0} | options).values()
    expected = np.exp(np.minimum(beta * advantages, math.log(most)))
    scale = expected * weighted_most(advantages, beta, most)
    if len(options) == 2 and sample.choice("by position", True, False):
        got = iql_advantage_weights(*sample.held(advantages), beta, most)
    else:
        got = iql_advantage_weights(*sample.held(advantages), **options)
    assert_close(got, expected, terms=2 * scale)


@law_of_refusals(REFUSALS["iql_advantage_weights"])
def test_iql_advantage_weights_refuse(iql_advantage_weights, bad):
    """Advantages are finite, β is not negative, and the maximum is positive."""
    assert_refuses(iql_advantage_weights, *bad.args, **bad.kwargs)


# --- behaviour support -------------------------------------------------------------------------

OCCURRENCES = (1, 0, 2, 3, 4, 5, 0, 7, 8, 9, 11, 12)
RATIOS = (0.123, 0.0, 1.0, 0.317, 0.548, 0.771, 0.955, 0.0101)  # far from every n/m, m ≤ 12
SCALES = (1.0, 0.1, 1e-9, 1e-300, 1e300, 1 / 3)


def occurrences(max_size: int = 5) -> st.SearchStrategy[list[int]]:
    """How often each action occurs in one state's data; some action does."""
    rows = steps(OCCURRENCES.__getitem__, len(OCCURRENCES), min_size=1, max_size=max_size)
    return rows.map(lambda row: row if any(row) else [*row[1:], 1])


def tables(min_size: int = 0) -> st.SearchStrategy[list[list[int]]]:
    """The same of up to four states with three actions."""
    rows = steps(
        lambda *row: [OCCURRENCES[i] for i in row], *([12] * 3), min_size=min_size, max_size=4
    )
    return rows.map(lambda table: [row if any(row) else [1, 0, 2] for row in table])


def ratios() -> st.SearchStrategy[float]:
    """Thresholds, both ends often, no nearer than 1e-3 to a quotient of occurrences else."""
    return st.sampled_from(RATIOS)


def frequent(row: list[int], ratio: float) -> list[bool]:
    """n_a ≥ ratio · max n, exactly."""
    return [n >= exact(ratio) * max(row) for n in row]


@law(row=occurrences(), ratio=ratios(), scale=st.sampled_from(SCALES))
@example(row=[1, 2, 0], ratio=0.548, scale=1e-9)
@example(row=[1, 2, 4], ratio=0.5, scale=1.0)  # what reaches the ratio is supported
@example(row=[1, 2, 4], ratio=0.25 + 1e-6, scale=1.0)
@example(row=[1, 2, 4], ratio=0.25 - 1e-6, scale=1.0)
@example(row=[i % 13 for i in range(100)], ratio=0.548, scale=0.1)
def test_support_is_relative_to_the_most_frequent_action(behavior_support_mask, row, ratio, scale):
    """An action is supported if it is at least `ratio` times as likely as the likeliest one.

    p_a / max p ≥ ratio whatever the sum of p: counts, probabilities, very small weights.
    """
    assert_same(behavior_support_mask([n * scale for n in row], ratio), frequent(row, ratio))


@law(row=occurrences())
def test_a_ratio_of_one_supports_the_tied_maxima(behavior_support_mask, row):
    """At ratio 1 just the likeliest actions are supported, all of them when they tie."""
    probabilities = [n / sum(row) for n in row]
    assert_same(behavior_support_mask(probabilities, 1.0), [n == max(row) for n in row])


@law(row=occurrences())
def test_a_ratio_of_zero_supports_everything(behavior_support_mask, row):
    """At ratio 0 every action is supported, those that never occur too."""
    probabilities = [n / sum(row) for n in row]
    assert_same(behavior_support_mask(probabilities, 0.0), [True] * len(row))


@law(row=occurrences(), ratio=ratios(), other=ratios())
def test_support_shrinks_as_the_ratio_grows(behavior_support_mask, row, ratio, other):
    """A larger ratio never supports an action that a smaller one did not, nor ever none."""
    low, high = sorted((ratio, other))
    wide = numbers(behavior_support_mask(row, low), shape=(len(row),)).astype(bool)
    narrow = numbers(behavior_support_mask(row, high), shape=(len(row),)).astype(bool)
    assert_same(narrow & wide, narrow)
    assert_same(narrow[row.index(max(row))], True)


@law(
    logits=steps(lambda n: n - 6, 13, min_size=1, max_size=5),
    ratio=st.sampled_from((0.1, 0.3, 0.01, 0.7)),
)
@example(logits=[-3, -1, 2], ratio=0.1)  # sfujim/BCQ#6
def test_support_of_a_softmax_is_a_margin_of_logits(behavior_support_mask, logits, ratio):
    """For softmax probabilities the ratio is a margin below the largest logit.

    exp(x_a) / exp(max x) ≥ ratio, so x_a − max x ≥ log ratio.
    """
    weights = [math.exp(x) for x in logits]
    probabilities = [w / math.fsum(weights) for w in weights]
    expected = [x - max(logits) >= math.log(ratio) for x in logits]
    assert_same(behavior_support_mask(probabilities, ratio), expected)


@law(table=tables(), ratio=ratios(), halves=st.booleans())
def test_support_is_decided_in_each_row_apart(behavior_support_mask, table, ratio, halves):
    """Each row has its own maximum, along the last axis, whatever axes come before it."""
    expected = np.array([frequent(row, ratio) for row in table], dtype=bool).reshape(-1, 3)
    given = np.array(table, dtype=float).reshape(-1, 3)
    if halves:
        expected, given = (np.stack([x, x[::-1]]) for x in (expected, given))
    assert_same(behavior_support_mask(given, ratio), expected)


@law(row=occurrences(), ratio=ratios(), turn=st.integers(1, 3))
def test_support_does_not_depend_on_the_order_of_actions(behavior_support_mask, row, ratio, turn):
    """Numbering the actions another way numbers the mask the same way."""
    turn %= len(row)
    turned = row[turn:] + row[:turn]
    got = numbers(behavior_support_mask(turned, ratio), shape=(len(row),))
    assert_same(np.roll(got, turn), frequent(row, ratio))


@law(table=tables(min_size=1), form=forms(), ratio=ratios())
@example(table=[[2, 0, 7], [1, 5, 1]], form=tuple, ratio=0.25)
def test_support_takes_numbers_of_every_kind(behavior_support_mask, table, form, ratio):
    """Integers, single precision and tuples count like floats, and none of them is changed."""
    assert_untouched(behavior_support_mask, form(table), ratio)
    expected = [frequent(row, ratio) for row in table]
    assert_same(behavior_support_mask(form(table), ratio), expected)


@law_of_ordinary_sizes
def test_support_in_tables_of_ordinary_size(behavior_support_mask, sample):
    """Among many actions, in a vector, a table or a block, each row has its own support.

    p_a ≥ ratio · max p, whatever the probabilities add up to.
    """
    total = sample.choice("total", 1.0, 1.0, 48.0, 2.0**-20)
    probabilities = total * sample.distributions("probabilities", *sample.layout())
    ratio = sample.number("ratio")
    shares = probabilities / probabilities.max(-1, keepdims=True)
    assume(np.all(np.abs(shares - ratio) > 1e-6))
    got = behavior_support_mask(*sample.held(probabilities), ratio)
    assert_same(got, shares > ratio)


@law_of_refusals(REFUSALS["behavior_support_mask"])
def test_behavior_support_mask_refuses(behavior_support_mask, bad):
    """Probabilities are finite and not negative, some action of each row has one above 0."""
    assert_refuses(behavior_support_mask, *bad.args, **bad.kwargs)
