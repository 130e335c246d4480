"""Logged episodes of the key-door grid, with the probabilities of whoever acted."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcheck._inputs import Floats, choice, integer
from rlcheck.envs.keydoor_grid import STEP_LIMIT, grid_tables
from rlcheck.envs.keydoor_grid_solution import solve_grid, uniform_policy

__all__ = [
    "PROFILES",
    "GridEpisode",
    "GridTransition",
    "behavior_policy",
    "collect_offline_dataset",
]

PROFILES: dict[str, tuple[float, ...]] = {
    "expert": (0.05,),
    "mixed": (0.1, 0.5, 1.0),
    "random": (1.0,),
}
"""The shares of random actions of the policies that take turns, an episode each."""


class GridTransition(NamedTuple):
    """One step of the log; states are indices in `grid_tables().states`."""

    observation: NDArray[np.float32]  # [15]
    action: int
    reward: float
    next_observation: NDArray[np.float32]  # [15] what the step ended in
    terminated: bool
    truncated: bool
    behavior_logprob: float
    state: int
    next_state: int


@dataclass(frozen=True)
class GridEpisode:
    """One logged episode."""

    transitions: tuple[GridTransition, ...]
    randomness: float  # of the policy that acted: its share of random actions

    @property
    def return_(self) -> float:
        """Undiscounted sum of the rewards."""
        return sum(step.reward for step in self.transitions)

    @property
    def success(self) -> bool:
        """Whether the episode reached the goal."""
        last = self.transitions[-1]
        return last.terminated and last.reward > 0


def behavior_policy(randomness: float) -> Floats:
    """[S, 4] (1 − ε) π* + ε / 4: the optimal policy with a share ε of random actions."""
    return (1 - randomness) * solve_grid().policy + randomness * uniform_policy()


def collect_offline_dataset(
    *, seed: int, episodes: int, profile: str
) -> tuple[list[GridEpisode], list[GridTransition]]:
    """Log episodes of policies of known probabilities.

    Args:
        seed: an integer ≥ 0.
        episodes: how many, ≥ 1; the policies of the profile take turns.
        profile: "expert" (5 % random actions), "mixed" (10 %, 50 % and 100 %) or "random".

    Returns:
        (episodes, all their transitions in a row).

    Raises:
        ValueError: the profile is unknown, or a number is out of range.
    """
    shares = PROFILES[choice("profile", profile, tuple(PROFILES))]
    rng = np.random.default_rng(integer("seed", seed, minimum=0))
    log = [
        _episode(rng, shares[number % len(shares)])
        for number in range(integer("episodes", episodes, minimum=1))
    ]
    return log, [step for episode in log for step in episode.transitions]


def _episode(rng: np.random.Generator, randomness: float) -> GridEpisode:
    tables, policy = grid_tables(), behavior_policy(randomness)
    state, steps = int(rng.choice(tables.start)), []
    for number in range(1, STEP_LIMIT + 1):
        action = int(rng.choice(4, p=policy[state]))
        after = int(tables.next_state[state, action])
        terminated = bool(tables.terminal[after])
        steps.append(
            GridTransition(
                tables.observation[state],
                action,
                float(tables.reward[state, action]),
                tables.observation[after],
                terminated,
                number == STEP_LIMIT and not terminated,
                float(np.log(policy[state, action])),
                state,
                after,
            )
        )
        if terminated:
            break
        state = after
    return GridEpisode(tuple(steps), randomness)
