"""How the mistakes of an imitator add up along an episode, exactly."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcheck._inputs import Floats, indices_below, integer
from rlcheck.envs.keydoor_grid import GOAL, STEP_LIMIT, grid_tables
from rlcheck.envs.keydoor_grid_solution import policy_rows, solve_grid

__all__ = ["MistakeCurve", "mistakes_by_step"]


class MistakeCurve(NamedTuple):
    """Chances at each step t of an episode; a mistake is an action that is not optimal."""

    running: Floats  # [T] the episode is not over
    mistaken: Floats  # [T] it is not over, and a mistake has been made before
    first: Floats  # [T] the first mistake is made
    repeated: Floats  # [T] a mistake is made, and not the first one
    success: float  # the goal is reached within the T steps

    @property
    def rate(self) -> Floats:
        """[T] chance of a mistake in an episode that is not over; NaN where all are."""
        made = self.first + self.repeated
        return np.divide(made, self.running, out=np.full_like(made, np.nan), where=self.running > 0)

    @property
    def rate_before(self) -> float:
        """Chance of a mistake a step, as long as none has been made."""
        return _ratio(self.first, self.running - self.mistaken)

    @property
    def rate_after(self) -> float:
        """Chance of a mistake a step, once one has been made; NaN where none ever is."""
        return _ratio(self.repeated, self.mistaken)

    @property
    def expected(self) -> float:
        """Expected number of mistakes of an episode."""
        return float((self.first + self.repeated).sum())


def _ratio(events: Floats, chances: Floats) -> float:
    total = float(chances.sum())
    return float(events.sum()) / total if total > 0 else float("nan")


def mistakes_by_step(
    policy: ArrayLike, starts: ArrayLike, *, steps: int = STEP_LIMIT
) -> MistakeCurve:
    """Follow the distribution over states, and over whether a mistake has been made.

    d_{t+1}(s′, m ∨ [a wrong]) = Σ_{s, a} d_t(s, m) π(a | s) [s →a s′],  d_0 even over the starts

    Where mistakes do not compound, `rate_after` is `rate_before`. An imitator that knows the states
    of its demonstrations alone errs there with a small ε; but a mistake leads to states that nobody
    has shown it, and then it errs more: in T steps O(ε T²) times rather than O(ε T).

    Args:
        policy: [S, 4] probabilities, rows in the order of `grid_tables().states`.
        starts: [N] indices of states, each as likely as the next, N ≥ 1.
        steps: T ≥ 1, after which an episode is cut.

    Raises:
        ValueError: a row is no distribution, or a start or a number is out of range.

    Reference:
        Ross and Bagnell (2010), Efficient reductions for imitation learning, theorem 2.1.
    """
    tables = grid_tables()
    chances = policy_rows(policy)
    first = indices_below("starts", starts, len(tables.states))
    if first.ndim != 1 or len(first) == 0:
        raise ValueError(f"starts has shape {first.shape}; it must be [N] with N ≥ 1")
    wrong = chances * (solve_grid().policy == 0)  # [S, 4]
    clean, spoilt = np.bincount(first, minlength=len(chances)) / len(first), np.zeros(len(chances))
    rows, alive = [], ~tables.terminal
    for _ in range(integer("steps", steps, minimum=1)):
        pure, stained = clean * alive, spoilt * alive
        mistake = wrong.sum(axis=1)
        rows.append((pure.sum() + stained.sum(), stained.sum(), pure @ mistake, stained @ mistake))
        moved = pure[:, np.newaxis] * wrong + stained[:, np.newaxis] * chances
        clean = clean - pure + _flow(pure[:, np.newaxis] * (chances - wrong))
        spoilt = spoilt - stained + _flow(moved)
    goal = np.array([state.cell == GOAL for state in tables.states])
    running, mistaken, began, repeated = np.array(rows).T
    reached = float((clean + spoilt)[goal].sum())
    return MistakeCurve(running, mistaken, began, repeated, reached)


def _flow(moved: NDArray[np.float64]) -> Floats:
    """[S, 4] probability that leaves by each action → [S] that arrives."""
    targets = grid_tables().next_state
    arriving = np.zeros(len(targets))
    np.add.at(arriving, targets.ravel(), moved.ravel())
    return arriving
