"""Laws of the gradients of `rlcheck.torch.q_targets`: there are none to flow."""

from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.grading.compare import assert_same
from rlcheck.grading.laws import law

from ..strategies import REALS, discounts, steps

Rows = list[tuple[float, int, list[float], list[float]]]


def rows() -> st.SearchStrategy[Rows]:
    """Transitions with two actions: reward, terminal, and two rows of values."""

    def entry(reward: int, terminal: int, a: int, b: int, c: int, d: int) -> tuple[Any, ...]:
        return REALS[reward], terminal, [REALS[a], REALS[b]], [REALS[c], REALS[d]]

    return steps(entry, 256, 2, 256, 256, 256, 256, min_size=1, max_size=4)


@law(rows=rows(), gamma=discounts())
def test_dqn_targets_are_constants(dqn_targets: Any, rows: Rows, gamma: float) -> None:
    """No gradient flows through a target into the values it bootstraps from."""
    rewards, terminal, next_q, _ = map(list, zip(*rows, strict=True))
    got = dqn_targets.gradient(rewards, terminal, next_q, gamma, wrt="next_q")
    assert_same(got, np.zeros((len(rows), 2)))


@law(rows=rows(), gamma=discounts(), wrt=st.sampled_from(("online_next_q", "target_next_q")))
# a target that an online network has a part in
@example(rows=[(1.0, 0, [2.0, 5.0], [1.0, 3.0])], gamma=0.9, wrt="target_next_q")
def test_double_dqn_targets_are_constants(
    double_dqn_targets: Any, rows: Rows, gamma: float, wrt: str
) -> None:
    """No gradient flows through a double target into either network's values."""
    rewards, terminal, online, target = map(list, zip(*rows, strict=True))
    got = double_dqn_targets.gradient(rewards, terminal, online, target, gamma, wrt=wrt)
    assert_same(got, np.zeros((len(rows), 2)))


@law(rows=rows(), gamma=discounts(), wrt=st.sampled_from(("next_q", "policy_probs")))
def test_fqe_targets_are_constants(fqe_targets: Any, rows: Rows, gamma: float, wrt: str) -> None:
    """No gradient flows through an evaluation target, into the values or into the policy."""
    rewards, terminal, next_q, _ = map(list, zip(*rows, strict=True))
    policy = [[0.25, 0.75]] * len(rows)
    got = fqe_targets.gradient(rewards, terminal, next_q, policy, gamma, wrt=wrt)
    assert_same(got, np.zeros((len(rows), 2)))
