"""Laws of `rlcheck.returns`."""

from dataclasses import dataclass

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.grading.compare import (
    assert_close,
    assert_refuses,
    assert_untouched,
    exact,
    nearest_float,
    total,
)
from rlcheck.grading.laws import law

from .strategies import REALS, discounts, refusals, refuse, steps

REFUSALS = {
    "semi_markov_return": (
        refuse([1.0, np.nan], [1, 1], 0.9, says="rewards[1] is nan"),
        refuse([1.0, 2.0], [1, 0], 0.9, says="durations[1] is 0.0; it must be a positive integer"),
        refuse([1.0], [-1], 0.9, says="durations[0] is -1.0"),
        refuse([1.0], [1.5], 0.9, says="durations[0] is 1.5"),
        refuse([1.0], [1, 2], 0.9, says="durations has length 2; it must have length 1"),
        refuse([1.0], [1], 1.1, says="gamma is 1.1; it must lie in [0, 1]"),
        refuse([1.0], [1], np.nan, says="gamma is nan"),
        refuse("12", [1, 1], 0.9, says="rewards is '12'"),
        refuse([1.0, None], [1, 1], 0.9, says="rewards[1] is None"),
    ),
}


@dataclass(frozen=True)
class MacroWalk:
    """A trajectory of primitive steps, cut into macro-actions."""

    rewards: list[list[float]]  # one list of primitive rewards for each macro-action
    gamma: float

    @property
    def durations(self) -> list[int]:
        return [len(inside) for inside in self.rewards]

    @property
    def macro_rewards(self) -> list[float]:
        return [
            nearest_float(sum(exact(self.gamma) ** t * exact(r) for t, r in enumerate(inside)))
            for inside in self.rewards
        ]

    @property
    def flat(self) -> list[float]:
        return [reward for inside in self.rewards for reward in inside]


def macro_walks() -> st.SearchStrategy[MacroWalk]:
    """Walks of up to six macro-actions of one to four primitive steps."""
    inside = steps(
        lambda duration, first, rest: [REALS[first]] + [REALS[rest]] * duration,
        4,
        256,
        256,
        max_size=6,
    )
    return st.tuples(inside, discounts()).map(lambda drawn: MacroWalk(*drawn))


@law(walk=macro_walks())
@example(walk=MacroWalk([[2.0, 0.0, 0.0], [8.0]], 0.5))
def test_macro_actions_return_what_their_primitive_steps_return(semi_markov_return, walk):
    """Cutting a trajectory into macro-actions leaves its return as it is.

    Σ_k γ^(τ_0+…+τ_{k−1}) R_k = Σ_t γ^t r_t, where R_k is discounted inside its own macro-action.
    """
    got = semi_markov_return(walk.macro_rewards, walk.durations, walk.gamma)
    flat = [exact(walk.gamma) ** t * exact(r) for t, r in enumerate(walk.flat)]
    assert_close(got, nearest_float(sum(flat)), terms=total(flat), count=len(flat))


@law(walk=macro_walks(), dtype=st.sampled_from([np.int64, np.float32]))
def test_semi_markov_return_leaves_its_arguments_alone(semi_markov_return, walk, dtype):
    """The arrays that it is given stay as they were."""
    assert_untouched(
        semi_markov_return,
        np.array(walk.macro_rewards, dtype=dtype),
        np.array(walk.durations),
        walk.gamma,
    )


@law(bad=refusals(REFUSALS["semi_markov_return"]))
def test_semi_markov_return_refuses(semi_markov_return, bad):
    """Durations are positive integers, rewards are finite, and γ lies in [0, 1]."""
    assert_refuses(semi_markov_return, *bad.args, **bad.kwargs)
