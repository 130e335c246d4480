"""Laws of the gradients of `rlcheck.torch.groups`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import example
from hypothesis import strategies as st

from rlcheck import groups as reference
from rlcheck.grading.compare import assert_close, assert_same
from rlcheck.grading.laws import law

from ..strategies import REALS, evenly, steps
from .truths import FLAGS, assert_finite, assert_slope

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Rollouts:
    """[N] rewards, the ids of their groups, whether they count, and weights of the advantages."""

    rewards: list[float]
    ids: list[Any]
    valid: list[int]
    weights: list[float]

    @property
    def size(self) -> float:
        return float(np.abs(self.weights).sum())


def rollouts(min_size: int = 1) -> st.SearchStrategy[Rollouts]:
    """Up to six rollouts of up to three groups."""

    def entry(reward: int, group: int, valid: int, weight: int) -> tuple[Any, ...]:
        return REALS[reward], group, int(valid > 0), REALS[weight]

    def build(rows: list[tuple[Any, ...]], names: tuple[Any, ...]) -> Rollouts:
        rewards, groups, valid, weights = map(list, zip(*rows, strict=True))
        return Rollouts(rewards, [names[group] for group in groups], valid, weights)

    drawn = steps(entry, 256, 3, 4, 256, min_size=min_size, max_size=6)
    return st.builds(build, drawn, st.sampled_from(((0, 1, 2), ("a", "b", "c"))))


@law(case=rollouts())
def test_slope_of_centred_advantages_is_the_centred_weight(
    group_advantages: Any, case: Rollouts
) -> None:
    """Centring is its own adjoint: the gradient is the weight less its mean over the group.

    ∂/∂r_j Σ_i w_i (r_i − mean_g) = w_j − mean_g w, where the rewards of the group differ.
    """
    rewards = np.array(case.rewards) + np.arange(len(case.rewards)) * 2.0**-20  # no two are equal
    got = group_advantages.gradient(
        rewards, case.ids, scale="none", wrt="rewards", weights=case.weights
    )
    weights, ids = np.array(case.weights), np.array(case.ids)
    mean = [weights[ids == group].mean() for group in ids]
    alone = np.array([(ids == group).sum() == 1 for group in ids])
    assert_close(got, np.where(alone, 0.0, weights - mean), terms=1 + 2 * case.size)


@law(
    first=evenly(97),
    stride=st.sampled_from((5, 7, 11)),
    count=st.integers(2, 5),
    scale=st.sampled_from(("std", "batch", "none")),
    ddof=st.sampled_from((0, 1)),
    eps=st.sampled_from((1e-6, 0.5)),
    left_out=st.sampled_from((None, 3, 2)),
    kind=st.sampled_from(FLAGS),
)
def test_slope_of_group_advantages_agrees_with_finite_differences(
    group_advantages: Any,
    first: int,
    stride: int,
    count: int,
    scale: str,
    ddof: int,
    eps: float,
    left_out: int | None,
    kind: type,
) -> None:
    """The gradient of scaled advantages is what their values say when a reward moves a little.

    The deviation by which they are divided moves too. Rewards differ by more than half, and
    some rollouts may not count.
    """
    rewards = ((first + stride * np.arange(2 * count)) % 97) / 16.0 + np.arange(2 * count)
    ids = [0, 1] * count
    weights = 1.0 + np.arange(2 * count) % 3
    options: dict[str, Any] = {"scale": scale, "ddof": ddof, "eps": eps}
    if left_out is not None:
        options["valid"] = (np.arange(2 * count) != left_out).astype(kind)
    got = group_advantages.gradient(rewards, ids, **options, wrt="rewards", weights=weights)

    def value(x: Any) -> Any:
        return np.dot(weights, reference.group_advantages(x, ids, **options))

    assert_slope(got, value, rewards, scale=100.0)


@law(
    case=rollouts(),
    hidden=st.sampled_from((NAN, INF, 1e308)),
    scale=st.sampled_from(("std", "batch", "none")),
)
# huggingface/trl#5775: a sample without a score
@example(
    case=Rollouts([1.0, 3.0, 5.0], [0, 0, 0], [1, 1, 0], [1.0, 0.0, 1.0]), hidden=NAN, scale="std"
)
def test_a_rollout_that_does_not_count_gets_no_gradient(
    group_advantages: Any, case: Rollouts, hidden: float, scale: str
) -> None:
    """An invalid rollout gets a gradient of exactly 0, whatever its reward, and no other is NaN."""
    counts = np.array(case.valid) == 1
    got = group_advantages.gradient(
        np.where(counts, case.rewards, hidden),
        case.ids,
        scale=scale,
        valid=case.valid,
        wrt="rewards",
        weights=case.weights,
    )
    assert_finite(got, shape=counts.shape)
    assert_same(got, np.where(counts, got, 0.0))


@law(
    reward=evenly(256),
    size=st.integers(1, 8),
    scale=st.sampled_from(("std", "batch")),
    eps=st.sampled_from((0.0, 1e-6)),
)
def test_a_group_of_equal_rewards_has_no_nan_in_its_slope(
    group_advantages: Any, reward: int, size: int, scale: str, eps: float
) -> None:
    """Equal rewards have a deviation of 0, whose root has no slope: the gradient is not NaN."""
    got = group_advantages.gradient(
        [REALS[reward]] * size,
        [0] * size,
        scale=scale,
        eps=eps,
        wrt="rewards",
        weights=np.arange(size) - 1.0,
    )
    assert_finite(got, shape=(size,))


@law(case=rollouts())
def test_slope_of_leave_one_out_is_the_centred_weight(
    leave_one_out_advantages: Any, case: Rollouts
) -> None:
    """Leaving one out is its own adjoint: each weight less the mean of the others' weights.

    ∂/∂r_j Σ_i w_i A_i = w_j − (Σ_{i ≠ j} w_i) / (k − 1).
    """
    rewards = np.array([*case.rewards, *case.rewards])  # every other pair is equal
    ids, weights = np.array(case.ids * 2), np.array(case.weights * 2)
    got = leave_one_out_advantages.gradient(rewards, ids, wrt="rewards", weights=weights)
    others = [
        (weights[ids == group].sum() - weight) / ((ids == group).sum() - 1)
        for group, weight in zip(ids, weights, strict=True)
    ]
    assert_close(got, weights - others, terms=4 * case.size)
