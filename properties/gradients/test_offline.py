"""Laws of the gradients of `rlcheck.torch.offline`."""

from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.grading.compare import assert_close, assert_same
from rlcheck.grading.laws import law
from rlcheck.logprobs import stable_log_softmax

from ..strategies import REALS, laid_out, layouts, reals, steps

States = list[tuple[list[float], int, float]]


def states() -> st.SearchStrategy[States]:
    """Three action values, the data action, and the weight of the state's penalty."""

    def entry(a: int, b: int, c: int, action: int, weight: int) -> tuple[Any, ...]:
        return [REALS[a], REALS[b], REALS[c]], action, REALS[weight]

    return steps(entry, 256, 256, 256, 3, 256, min_size=1, max_size=4)


@law(states=states(), shift=st.sampled_from((0.0, 1e6, -1e6)), actions=st.integers(2, 6))
# EmptyJackson/unifloral#7: ±0.5 at equal values, where the data action alone would give −1 and 0
@example(states=[([0.0, 0.0, -2000.0], 0, 1.0)], shift=0.0, actions=3)
def test_slope_of_the_cql_penalty_is_softmax_less_onehot(
    cql_discrete_penalty: Any, states: States, shift: float, actions: int
) -> None:
    """The conservative penalty pushes all values down by their softmax and the data action up.

    ∂/∂Q (log Σ exp Q − Q[a]) = softmax(Q) − onehot(a), each state by its own weight; good to the
    rounding of Q itself.
    """
    q_values, taken, weights = map(list, zip(*states, strict=True))
    shifted = np.tile(q_values, 2)[:, :actions] + shift
    taken = [action % actions for action in taken]
    got = cql_discrete_penalty.gradient(shifted, taken, wrt="q_values", weights=weights)
    truth = np.exp(stable_log_softmax(shifted)) - np.eye(actions)[taken]
    scale = np.array(weights)[:, np.newaxis]
    assert_close(got, scale * truth, terms=2 * np.abs(scale), factor=16 + abs(shift))


@law(states=states())
def test_slopes_of_the_cql_penalty_add_up_to_nothing(
    cql_discrete_penalty: Any, states: States
) -> None:
    """The penalty moves values against each other: its gradient in a state sums to 0.

    It is shift invariant. It pulls the data action up, until that dominates, and vanishes there.
    """
    for row, action, _ in states:
        got = np.asarray(cql_discrete_penalty.gradient(row, action, wrt="q_values"))
        assert_close(got.sum(), 0.0, terms=2.0)
        pull = float(np.exp(stable_log_softmax(row))[action]) - 1.0
        assert_close(got[action], pull, terms=2.0, factor=16.0)
        row[action] = max(row) + 1000.0
        got = cql_discrete_penalty.gradient(row, action, wrt="q_values")
        assert_close(got, np.zeros(3), terms=1.0)


@law(
    differences=reals(min_size=1, max_size=6),
    expectile=st.sampled_from((0.5, 0.7, 0.9, 0.01)),
    layout=layouts(),
)
@example(differences=[2.0, -2.0], expectile=0.7, layout="vector")
def test_slope_of_the_expectile_loss_is_the_weighted_difference(
    expectile_loss: Any, differences: list[float], expectile: float, layout: str
) -> None:
    """The expectile loss pulls by τ from above and by 1 − τ from below, averaged.

    ∂/∂u_i mean |τ − 1[u < 0]| u² = 2 |τ − 1[u_i < 0]| u_i / N.
    """
    u = laid_out(differences, layout)
    got = expectile_loss.gradient(u, expectile, wrt="differences")
    truth = 2 * np.where(u < 0, 1 - expectile, expectile) * u / u.size
    assert_close(got, truth, terms=np.abs(truth))


@law(
    pairs=steps(lambda u, w: (REALS[u], REALS[w]), 256, 256, min_size=1, max_size=6),
    expectile=st.sampled_from((0.7, 0.5, 0.9)),
    layout=layouts(),
)
def test_slopes_of_expectile_terms_stay_apart(
    expectile_loss: Any, pairs: list[tuple[float, float]], expectile: float, layout: str
) -> None:
    """Without a reduction, each difference gets the gradient of its own term alone."""
    u, weights = (laid_out(column, layout) for column in zip(*pairs, strict=True))
    got = expectile_loss.gradient(
        u, expectile, reduction="none", wrt="differences", weights=weights
    )
    truth = weights * 2 * np.where(u < 0, 1 - expectile, expectile) * u
    assert_close(got, truth, terms=np.abs(truth))


@law(
    advantages=reals(min_size=1, max_size=6),
    options=st.sampled_from(({}, {"beta": 1.0}, {"max_weight": 5.0}, {"beta": 0.0})),
    layout=layouts(),
)
def test_advantage_weights_are_constants(
    iql_advantage_weights: Any, advantages: list[float], options: dict[str, float], layout: str
) -> None:
    """No gradient flows through a weight of the policy's loss into the critics."""
    given = laid_out(advantages, layout)
    got = iql_advantage_weights.gradient(given, **options, wrt="advantages")
    assert_same(got, np.zeros(given.shape))
