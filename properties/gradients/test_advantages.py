"""Laws of the gradients of `rlcheck.torch.advantages`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import advantages as reference
from rlcheck.grading.compare import assert_close, assert_same
from rlcheck.grading.laws import law

from ..strategies import REALS, discounts, laid_out, layouts, steps
from .truths import FLAGS, adjoint, assert_finite

NAN, INF = float("nan"), float("inf")
HIDDEN = (NAN, INF, -INF, 1e308)  # what may stand where nothing is read


class Stream:
    """Flags of streams of steps along the last axis, numbers, and weights of the advantages."""

    def __init__(
        self,
        terminated: Sequence[int],
        truncated: Sequence[int],
        numbers: Sequence[float],
        weights: Sequence[float],
        layout: str = "vector",
        kind: type = np.bool_,
    ) -> None:
        self._given = (terminated, truncated, numbers, weights, layout, kind)
        self._kind = kind
        self.terminated, self.truncated = (
            laid_out(flags, layout) == 1 for flags in (terminated, truncated)
        )
        self.numbers, self.weights = (laid_out(values, layout) for values in (numbers, weights))

    def __repr__(self) -> str:
        return f"Stream{self._given}"

    @property
    def size(self) -> float:
        return float(np.abs(self.weights).sum())

    @property
    def flags(self) -> dict[str, Any]:
        """Both flags as they are kept."""
        flags = {"terminated": self.terminated, "truncated": self.truncated}
        return {name: flag.astype(self._kind) for name, flag in flags.items()}

    @property
    def mask(self) -> Any:
        """[T] of the policy's tokens, in place of the first flag."""
        return self.terminated.astype(self._kind)


def streams() -> st.SearchStrategy[Stream]:
    def step(terminated: int, truncated: int, number: int, weight: int) -> tuple[Any, ...]:
        return int(terminated == 3), int(truncated == 3), REALS[number], REALS[weight]

    drawn = steps(step, 4, 4, 256, 256, min_size=1, max_size=6)
    return st.builds(
        lambda entries, layout, kind: Stream(*zip(*entries, strict=True), layout, kind),
        drawn,
        layouts("vector", "row", "column", "table"),
        st.sampled_from(FLAGS),
    )


@law(
    stream=streams(),
    gamma=discounts(),
    lam=discounts(),
    wrt=st.sampled_from(("rewards", "values", "next_values")),
)
# Toni-SM/skrl#449: a time limit cuts the trace and lets its own next value in
@example(
    stream=Stream([0, 0, 1], [0, 1, 0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]),
    gamma=0.5,
    lam=1.0,
    wrt="next_values",
)
def test_slope_of_advantages_is_what_a_unit_does(
    generalized_advantages: Any, stream: Stream, gamma: float, lam: float, wrt: str
) -> None:
    """Advantages are linear: the gradient at a step is the weighted answer to a unit there.

    ∂/∂x_j Σ_t w_t A_t(x) = Σ_t w_t A_t(e_j), for x the rewards, the values or the next values.
    """
    arrays = dict.fromkeys(("rewards", "values", "next_values"), stream.numbers)
    got = generalized_advantages.gradient(
        *arrays.values(), gamma, lam, **stream.flags, wrt=wrt, weights=stream.weights
    )
    zero = np.zeros(stream.numbers.shape)

    def answer(unit: Any) -> Any:
        units = [unit if name == wrt else zero for name in arrays]
        return reference.generalized_advantages(*units, gamma, lam, **stream.flags)

    assert_close(got, adjoint(answer, stream.weights), terms=4 * stream.size)


@law(stream=streams(), hidden=st.sampled_from(HIDDEN))
# pytorch/rl#3744: a terminal's next value that is NaN
@example(stream=Stream([1, 0], [0, 0], [1.0, 1.0], [1.0, 1.0]), hidden=NAN)
def test_a_terminal_gets_no_gradient_into_its_next_value(
    generalized_advantages: Any, stream: Stream, hidden: float
) -> None:
    """The next value of a true ending gets a gradient of exactly 0, whatever stands there."""
    following = np.where(stream.terminated, hidden, stream.numbers)
    got = generalized_advantages.gradient(
        *(stream.numbers, stream.numbers, following, 0.9, 0.8),
        **stream.flags,
        wrt="next_values",
        weights=stream.weights,
    )
    assert_finite(got, shape=following.shape)
    assert_same(got, np.where(stream.terminated, 0.0, got))


@law(
    stream=streams(),
    gamma=discounts(),
    lam=discounts(),
    wrt=st.sampled_from(("rewards", "values", "next_values")),
)
def test_lambda_returns_are_constants(
    lambda_returns: Any, stream: Stream, gamma: float, lam: float, wrt: str
) -> None:
    """No gradient flows through a λ-return into the values that it bootstraps from."""
    numbers = (stream.numbers,) * 3
    got = lambda_returns.gradient(
        *numbers, gamma, lam, **stream.flags, wrt=wrt, weights=stream.weights
    )
    assert_same(got, np.zeros(stream.numbers.shape))


@law(
    stream=streams(),
    gamma=discounts(),
    lam=discounts(),
    hidden=st.sampled_from(HIDDEN),
    wrt=st.sampled_from(("token_rewards", "values")),
)
# radixark/miles#1827: a reward on a tool token belongs to the policy token before it
@example(
    stream=Stream([1, 0, 0], [0, 0, 0], [0.0, 0.0, 4.0], [1.0, 0.0, 0.0]),
    gamma=0.5,
    lam=1.0,
    hidden=NAN,
    wrt="token_rewards",
)
def test_slope_of_masked_advantages_is_what_a_unit_does(
    masked_advantages: Any, stream: Stream, gamma: float, lam: float, hidden: float, wrt: str
) -> None:
    """Advantages of policy tokens are linear: the gradient is the weighted answer to a unit.

    Values of other tokens get exactly 0, whatever stands there; their rewards get the gradient
    of the policy token before them.
    """
    mask = stream.mask
    values = np.where(mask == 1, stream.numbers, hidden)
    got = masked_advantages.gradient(
        stream.numbers, values, mask, gamma, lam, wrt=wrt, weights=stream.weights
    )
    zero = np.zeros(mask.shape)

    def answer(unit: Any) -> Any:
        units = (unit, zero) if wrt == "token_rewards" else (zero, np.where(mask == 1, unit, 0.0))
        return reference.masked_advantages(*units, mask, gamma, lam)

    assert_close(got, adjoint(answer, stream.weights), terms=4 * stream.size)
    if wrt == "values":
        assert_same(np.asarray(got)[mask == 0], np.zeros((mask == 0).sum()))
