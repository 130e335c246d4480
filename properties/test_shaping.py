"""Laws of `rlcheck.shaping`."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import returns, shaping
from rlcheck.grading.compare import (
    assert_close,
    assert_refuses,
    assert_sum,
    assert_sums,
    assert_untouched,
    discounted_terms,
    exact,
    nearest_float,
    numbers,
    record,
    total,
)
from rlcheck.grading.laws import law

from .ordinary import Sample, law_of_ordinary_sizes
from .refusals import law_of_refusals, refuse
from .strategies import REALS, WHOLE, discounts, forms, long_row, near, steps

NAN, INF = float("nan"), float("inf")

_ARGUMENTS = (
    refuse([1.0, NAN], [0.0] * 3, 0.9, says="rewards[1] is nan"),
    refuse([INF], [0.0, 0.0], 0.9, says="rewards[0] is inf"),
    refuse([1.0], [0.0, NAN], 0.9, says="potentials[1] is nan"),
    refuse([1.0], [-INF, 0.0], 0.9, says="potentials[0] is -inf"),
    refuse([1.0], [0.0, INF], 0.0, says="potentials[1] is inf"),
    refuse([1.0, 2.0], [0.0] * 2, 0.9, says="potentials has length 2; it must have length 3"),
    refuse([1.0], [0.0] * 3, 0.9, says="potentials has length 3; it must have length 2"),
    refuse([], [], 0.9, says="potentials has length 0; it must have length 1"),
    refuse([[1.0]], [0.0] * 2, 0.9, says="rewards has shape (1, 1); it must be a vector"),
    refuse([1.0], [[0.0, 1.0]], 0.9, says="potentials has shape (1, 2); it must be a vector"),
    refuse([1.0], [0.0] * 2, 1.1, says="gamma is 1.1; it must lie in [0, 1]"),
    refuse([1.0], [0.0] * 2, -0.1, says="gamma is -0.1"),
    refuse([1.0], [0.0] * 2, NAN, says="gamma is nan"),
    refuse("1", [0.0] * 2, 0.9, says="rewards is '1'"),
    refuse([1.0], [0.0, None], 0.9, says="potentials[1] is None"),
    refuse([1.0], None, 0.9, says="potentials is None"),
)

REFUSALS = {"potential_shaping": _ARGUMENTS, "shaped_return_identity": _ARGUMENTS}

FIELDS = ("original", "shaped", "predicted")
HUGE = (0.0, 1.7e308, 1e308, 1.0)
ENDS = (0, 1, 0.0, 1.0)


@dataclass(frozen=True)
class Path:
    """The rewards of a trajectory, and the potentials of the states that it passes."""

    rewards: list[float]
    potentials: list[float]
    gamma: float

    @property
    def expanded(self) -> list[list[Fraction]]:
        """r_t, γ Φ_{t+1} and −Φ_t of every shaped reward."""
        g = exact(self.gamma)
        phi = [exact(potential) for potential in self.potentials]
        return [
            [exact(reward), g * after, -before]
            for reward, before, after in zip(self.rewards, phi, phi[1:], strict=False)
        ]

    @property
    def original(self) -> list[Fraction]:
        """Terms of the return before shaping."""
        return discounted_terms(self.rewards, self.gamma)

    @property
    def shift(self) -> list[Fraction]:
        """γ^T Φ_T and −Φ_0, what shaping adds to a return."""
        last = exact(self.gamma) ** len(self.rewards) * exact(self.potentials[-1])
        return [last, -exact(self.potentials[0])]

    @property
    def scale(self) -> float:
        """Σ γ^t (|r_t| + γ |Φ_{t+1}| + |Φ_t|), the terms of the shaped return."""
        return sum(self.gamma**t * total(row) for t, row in enumerate(self.expanded))


def paths_over(
    table: tuple[float, ...], gammas: st.SearchStrategy[float], max_size: int = 12
) -> st.SearchStrategy[Path]:
    """Paths with rewards and potentials from a table; one state and no step at least."""
    records = steps(
        lambda reward, potential: (table[reward], table[potential]),
        len(table),
        len(table),
        min_size=1,
        max_size=max_size,
    )
    return st.tuples(records, gammas).map(
        lambda drawn: Path(
            [reward for reward, _ in drawn[0][:-1]],
            [potential for _, potential in drawn[0]],
            drawn[1],
        )
    )


def paths() -> st.SearchStrategy[Path]:
    """Paths of up to eleven steps."""
    return paths_over(REALS, discounts())


def extreme_paths() -> st.SearchStrategy[Path]:
    """Single steps whose three terms are huge and of one sign."""
    signs = st.sampled_from([1.0, -1.0])
    return st.tuples(*[near(*HUGE)] * 3, signs).map(
        lambda drawn: Path([drawn[3] * drawn[0]], [-drawn[3] * drawn[1], drawn[3] * drawn[2]], 1.0)
    )


def whole_paths() -> st.SearchStrategy[Path]:
    """Paths with small integers for rewards and potentials."""
    return paths_over(WHOLE, st.sampled_from([0.5, 0.9]), max_size=6)


def ordinary_path(sample: Sample) -> tuple[Path, list[Any]]:
    """A path of up to fifty steps, and its rewards and potentials in their containers."""
    rewards = sample.reals("rewards", sample.columns)
    potentials = sample.reals("potentials", sample.columns + 1)
    path = Path(rewards.tolist(), potentials.tolist(), sample.discount("gamma"))
    return path, sample.held(rewards, potentials)


# ---- potential_shaping ----------------------------------------------------------------------


@law(path=paths())
@example(path=Path([1.0], [2.0, 4.0], 0.5))
@example(path=Path(long_row(), long_row(101), 0.9))
def test_shaped_rewards_gain_what_the_potential_gains(potential_shaping, path):
    """A shaped reward is the reward plus the discounted next potential minus the present one.

    r'_t = r_t + γ Φ_{t+1} − Φ_t, in rational arithmetic. Ng, Harada and Russell (1999).
    """
    assert_sums(potential_shaping(path.rewards, path.potentials, path.gamma), path.expanded)


@law(path=paths())
def test_shaped_rewards_telescope(potential_shaping, path):
    """The return of the shaped rewards differs by the end potentials alone.

    Σ_t γ^t r'_t = Σ_t γ^t r_t + γ^T Φ_T − Φ_0
    """
    got = potential_shaping(path.rewards, path.potentials, path.gamma)
    shaped = numbers(got, shape=(len(path.rewards),))
    summed = np.sum(path.gamma ** np.arange(len(shaped)) * shaped)
    answer = summed.astype(shaped.dtype) if shaped.dtype.kind == "f" else summed
    truth = nearest_float(sum(path.original + path.shift))
    assert_close(answer, truth, terms=path.scale, count=3 * len(shaped))


@law(path=paths(), level=st.sampled_from(REALS))
@example(path=Path([0.0], [0.0, 0.0], 0.9), level=10.0)  # anthonytorlucci/rlevo#646
@example(path=Path([0.0] * 3, [0.0] * 4, 1.0), level=0.9)  # johnsutor/so101-nexus#123
def test_constant_potential_costs_its_interest(potential_shaping, path, level):
    """A potential that is the same everywhere costs (1 − γ) of itself a step, nothing at γ = 1.

    r'_t = r_t − (1 − γ) c
    """
    got = potential_shaping(path.rewards, [level] * len(path.potentials), path.gamma)
    interest = (1 - exact(path.gamma)) * exact(level)
    truth = [nearest_float(exact(reward) - interest) for reward in path.rewards]
    assert_close(got, truth, terms=[abs(reward) + 2 * abs(level) for reward in path.rewards])


@law(path=paths())
def test_going_in_a_circle_earns_nothing(potential_shaping, path):
    """Without a discount, a way back to the first state earns what its rewards earn.

    Σ_t r'_t = Σ_t r_t when Φ_T = Φ_0 and γ = 1.
    """
    circle = replace(path, potentials=[*path.potentials[:-1], path.potentials[0]], gamma=1.0)
    got = potential_shaping(circle.rewards, circle.potentials, 1.0)
    shaped = numbers(got, shape=(len(circle.rewards),))
    answer = np.sum(shaped, dtype=shaped.dtype if shaped.dtype.kind == "f" else np.float64)
    truth = nearest_float(sum(circle.original))
    assert_close(answer, truth, terms=circle.scale, count=3 * len(shaped))


@law(path=paths())
def test_shaping_is_a_td_residual_of_the_potential(potential_shaping, path):
    """Shaped rewards are the temporal differences that take the potential for the value.

    r'_t = δ_t for V = Φ without terminals
    """
    got = potential_shaping(path.rewards, path.potentials, path.gamma)
    deltas = returns.td_residuals(path.rewards, path.potentials, path.gamma)
    assert_close(got, deltas, terms=[total(row) for row in path.expanded])


@law(path=paths())
def test_shaping_back_restores_the_rewards(potential_shaping, path):
    """Shaping with the opposite potential undoes the shaping.

    r = (r')' for −Φ
    """
    shaped = shaping.potential_shaping(path.rewards, path.potentials, path.gamma)
    opposite = [-potential for potential in path.potentials]
    got = potential_shaping(shaped, opposite, path.gamma)
    assert_close(got, path.rewards, terms=[2 * total(row) for row in path.expanded])


@law(path=paths(), gamma=st.sampled_from(ENDS))
@example(path=Path([], [3.0], 1.0), gamma=1)
@example(path=Path([2.0], [3.0, 5.0], 1.0), gamma=0)
def test_shaping_at_the_ends_of_gamma(potential_shaping, path, gamma):
    """γ = 0 only charges for the potential that is left, γ = 1 pays the whole gain.

    No steps, no shaped rewards.
    """
    got = potential_shaping(path.rewards, path.potentials, gamma)
    gains = path.potentials[1:] if gamma else [0.0] * len(path.rewards)
    rows = zip(path.rewards, gains, path.potentials, strict=False)
    assert_sums(got, [[exact(r), exact(gain), -exact(left)] for r, gain, left in rows])


@law(path=extreme_paths())
@example(path=Path([1.7e308], [0.0, 1.7e308], 1.0))
def test_shaped_rewards_overflow_only_where_they_are_beyond_float64(potential_shaping, path):
    """A shaped reward beyond float64 is infinite, with its sign, and never NaN."""
    assert_sums(potential_shaping(path.rewards, path.potentials, path.gamma), path.expanded)


@law(path=whole_paths(), form=forms())
def test_shaping_reads_any_array_and_leaves_it_alone(potential_shaping, path, form):
    """Lists, tuples, integers and float32 give the values of float64, and stay as they were."""
    call = (form(path.rewards), form(path.potentials), path.gamma)
    assert_untouched(potential_shaping, *call)
    assert_sums(potential_shaping(*call), path.expanded)


@law_of_ordinary_sizes
def test_shaped_rewards_of_a_path_of_ordinary_length(potential_shaping, sample):
    """Every step of a path of ordinary length is shaped by the potentials at its own ends.

    r'_t = r_t + γ Φ_{t+1} − Φ_t, whatever containers hold them.
    """
    path, held = ordinary_path(sample)
    assert_sums(potential_shaping(*held, path.gamma), path.expanded)


@law_of_refusals(REFUSALS["potential_shaping"])
def test_potential_shaping_refuses(potential_shaping, bad):
    """There is one potential more than rewards, all of them finite, and γ lies in [0, 1]."""
    assert_refuses(potential_shaping, *bad.args, **bad.kwargs)


# ---- shaped_return_identity -----------------------------------------------------------------


@law(path=paths())
@example(path=Path([1.0, 2.0], [1.0, 5.0, 3.0], 0.5))
@example(path=Path([], [3.0], 0.5))
@example(path=Path(long_row(), long_row(101), 0.9))
def test_shaped_return_follows_the_formula(shaped_return_identity, path):
    """Shaping moves the return by the discounted last potential minus the first.

    predicted = original + γ^T Φ_T − Φ_0, in rational arithmetic.
    """
    answer = shaped_return_identity(path.rewards, path.potentials, path.gamma)
    _, _, predicted = record(answer, *FIELDS)
    assert_sum(predicted, path.original + path.shift)


@law(path=paths())
@example(path=Path([1.0, 2.0], [1.0, 5.0, 3.0], 0.5))
def test_shaped_return_is_the_return_of_the_shaped_rewards(shaped_return_identity, path):
    """The shaped return is the discounted sum of the shaped rewards.

    shaped = Σ_t γ^t (r_t + γ Φ_{t+1} − Φ_t), in rational arithmetic.
    """
    answer = shaped_return_identity(path.rewards, path.potentials, path.gamma)
    _, shaped, _ = record(answer, *FIELDS)
    g = exact(path.gamma)
    terms = [g**t * term for t, row in enumerate(path.expanded) for term in row]
    assert_sum(shaped, terms)


@law(path=paths())
def test_original_return_knows_no_potential(shaped_return_identity, path):
    """The original return is that of the rewards, whatever the potentials.

    original = Σ_t γ^t r_t
    """
    answer = shaped_return_identity(path.rewards, path.potentials, path.gamma)
    original, _, _ = record(answer, *FIELDS)
    truth = returns.discounted_return(path.rewards, path.gamma)
    assert_close(original, truth, terms=total(path.original), count=len(path.rewards))


@law(path=paths(), last=st.sampled_from(REALS))
def test_terminal_potential_of_zero_costs_the_first_one(shaped_return_identity, path, last):
    """With a potential of 0 at the end, shaping costs every policy the same: the first potential.

    shaped = original − Φ_0 when Φ_T = 0 and T ≥ 1, which leaves the order of policies as it is.
    """
    ending = replace(path, rewards=[*path.rewards, last], potentials=[*path.potentials, 0.0])
    answer = shaped_return_identity(ending.rewards, ending.potentials, ending.gamma)
    _, shaped, _ = record(answer, *FIELDS)
    truth = sum(ending.original) - exact(ending.potentials[0])
    assert_close(shaped, nearest_float(truth), terms=ending.scale, count=36)


@law(path=paths(), detour=st.sampled_from([1e12, -1e15, 2.0**60]))
@example(path=Path([1.0, 1.0], [1.0, 0.0, 2.0], 0.9), detour=1e15)
def test_potentials_between_the_ends_do_not_enter_the_prediction(
    shaped_return_identity, path, detour
):
    """Only the first and the last potential enter the prediction, not even by rounding.

    predicted = original + γ^T Φ_T − Φ_0 is no sum of shaped rewards.
    """
    inner = [detour] * (len(path.potentials) - 2)
    potentials = [path.potentials[0], *inner, path.potentials[-1]] if inner else path.potentials
    answer = shaped_return_identity(path.rewards, potentials, path.gamma)
    _, _, predicted = record(answer, *FIELDS)
    assert_sum(predicted, path.original + path.shift)


@law(path=paths(), gamma=st.sampled_from(ENDS))
@example(path=Path([], [3.0], 1.0), gamma=0)
@example(path=Path([2.0], [3.0, 5.0], 1.0), gamma=0)
def test_shaped_return_at_the_ends_of_gamma(shaped_return_identity, path, gamma):
    """γ = 1 counts both ends in full, γ = 0 the first reward and potential; no step moves nothing.

    0^0 = 1, so that without steps Φ_T − Φ_0 = 0.
    """
    answer = shaped_return_identity(path.rewards, path.potentials, gamma)
    original, shaped, predicted = record(answer, *FIELDS)
    earned = list(map(exact, path.rewards if gamma else path.rewards[:1]))
    kept = path.potentials[-1] if gamma or not path.rewards else 0.0
    shift = [exact(kept), -exact(path.potentials[0])]
    assert_sum(original, earned)
    assert_sum(predicted, earned + shift)
    scale = replace(path, gamma=float(gamma)).scale
    assert_close(shaped, nearest_float(sum(earned + shift)), terms=scale, count=36)


@law(rewards=st.lists(st.sampled_from(HUGE), min_size=1, max_size=4), sign=st.sampled_from([1, -1]))
@example(rewards=[1.7e308, 1.7e308], sign=1)
def test_shaped_returns_overflow_only_where_they_are_beyond_float64(
    shaped_return_identity, rewards, sign
):
    """A return beyond float64 is infinite, with its sign, and never NaN."""
    rewards = [sign * reward for reward in rewards]
    answer = shaped_return_identity(rewards, [0.0] * (len(rewards) + 1), 1.0)
    for part in record(answer, *FIELDS):
        assert_sum(part, list(map(exact, rewards)))


@law(path=whole_paths(), form=forms())
def test_shaped_returns_read_any_array_and_leave_it_alone(shaped_return_identity, path, form):
    """Lists, tuples, integers and float32 give the values of float64, and stay as they were."""
    call = (form(path.rewards), form(path.potentials), path.gamma)
    assert_untouched(shaped_return_identity, *call)
    original, shaped, predicted = record(shaped_return_identity(*call), *FIELDS)
    truth = path.original + path.shift
    assert_sum(original, path.original)
    assert_sum(predicted, truth)
    assert_close(shaped, nearest_float(sum(truth)), terms=path.scale)


@law_of_ordinary_sizes
def test_shaped_return_of_a_path_of_ordinary_length(shaped_return_identity, sample):
    """A path of ordinary length has all three returns: original, shaped and predicted.

    shaped = predicted = original + γ^T Φ_T − Φ_0
    """
    path, held = ordinary_path(sample)
    original, shaped, predicted = record(shaped_return_identity(*held, path.gamma), *FIELDS)
    truth = path.original + path.shift
    assert_sum(original, path.original)
    assert_sum(predicted, truth)
    assert_close(shaped, nearest_float(sum(truth)), terms=path.scale, count=3 * sample.columns)


@law_of_refusals(REFUSALS["shaped_return_identity"])
def test_shaped_return_identity_refuses(shaped_return_identity, bad):
    """There is one potential more than rewards, all of them finite, and γ lies in [0, 1]."""
    assert_refuses(shaped_return_identity, *bad.args, **bad.kwargs)
