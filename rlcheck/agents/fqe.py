"""Fitted Q evaluation: what a policy is worth, by a log of others."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from rlcheck._inputs import real_array
from rlcheck.agents._fitting import FittingSettings, LoggedSteps, Targets, fit_q_network
from rlcheck.agents.datasets import GridTransition
from rlcheck.agents.q_networks import grid_scores
from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.envs.keydoor_grid_solution import policy_values
from rlcheck.torch import fqe_targets

__all__ = ["estimated_start_value", "evaluation_targets", "fitted_q_evaluation", "policy_support"]


def fitted_q_evaluation(
    transitions: Sequence[GridTransition],
    policy: ArrayLike,
    *,
    seed: int,
    epochs: int,
    settings: FittingSettings | None = None,
) -> tuple[nn.Sequential, list[float]]:
    """Fit Q^π to a log that other policies made.

    L = mean of (r + γ (1 − d) Σ_a π(a | s′) Q′(s′, a) − Q(s, a))²

    It knows what the log shows: where π does what the log never shows, it answers what the network
    happens to say there. It is deterministic: one seed gives one result on one machine, whatever
    torch's global generator holds.

    Args:
        transitions: the log; a truncated step bootstraps, a terminated one does not.
        policy: [S, 4] probabilities of the actions, rows in the order of `grid_tables().states`.
        seed: an integer ≥ 0; initial weights and orders are drawn from it.
        epochs: how often the log is gone through, ≥ 0.
        settings: None for the defaults.

    Returns:
        (network, losses): values [N, 4] of observations [N, 15], and the mean loss of each epoch.

    Raises:
        ValueError: the log is empty, a row of the policy is no distribution, or a number is out of
            range; the text names it.

    Reference:
        Le, Voloshin and Yue (2019), Batch policy learning under constraints, algorithm 3.
    """
    settings = settings or FittingSettings()
    return fit_q_network(
        transitions,
        evaluation_targets(policy, settings.gamma),
        seed=seed,
        epochs=epochs,
        label="FQE",
        settings=settings,
    )


def evaluation_targets(policy: ArrayLike, gamma: float) -> Targets:
    """Targets of fitted Q evaluation of a policy [S, 4], as a function of steps."""
    chances = torch.from_numpy(_distributions(policy)).float()  # [S, 4]

    def targets(steps: LoggedSteps, network: nn.Module, target: nn.Module) -> Tensor:
        next_q = target(steps.next_observations)
        return fqe_targets(steps.rewards, steps.terminal, next_q, chances[steps.next_states], gamma)

    return targets


def estimated_start_value(network: nn.Module, policy: ArrayLike) -> float:
    """Σ_a π(a | s) Q(s, a), a mean over the starts."""
    expected = (_distributions(policy) * grid_scores(network)).sum(axis=1)  # [S]
    return float(expected[grid_tables().start].mean())


def policy_support(policy: ArrayLike, transitions: Sequence[GridTransition]) -> float:
    """Which share of what a policy may do from the starts the log shows.

    Every pair (s, a) with π(a | s) > 0 counts once, where s can be reached from a start under π and
    is not terminal. At 1 Q^π at the starts follows from the log alone.

    Args:
        policy: [S, 4] probabilities of the actions.
        transitions: the log.

    Returns:
        The share of these pairs that the log holds, in [0, 1].
    """
    tables, chances = grid_tables(), _distributions(policy)
    taken = (chances > 0) & ~tables.terminal[:, np.newaxis]  # [S, 4]
    reached = np.zeros(len(tables.states), bool)
    front = tables.start
    while len(front):
        reached[front] = True
        following = tables.next_state[front][taken[front]]
        front = np.unique(following[~reached[following]])
    logged = np.zeros_like(taken)
    for step in transitions:
        logged[step.state, step.action] = True
    asked = taken & reached[:, np.newaxis]
    return float((asked & logged).sum() / asked.sum())


def _distributions(policy: ArrayLike) -> np.ndarray:
    policy_values(policy)  # refuses what is none
    return real_array("policy", policy)
