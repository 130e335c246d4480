"""Fitted Q evaluation: what a policy is worth, by a log of others."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from rlcheck.agents._fitting import FittingSettings, LoggedSteps
from rlcheck.agents._options import chosen_settings
from rlcheck.agents._q_fitting import Targets, fit_q_network
from rlcheck.agents.datasets import GridTransition
from rlcheck.agents.log_columns import log_columns
from rlcheck.agents.q_networks import grid_scores
from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.envs.keydoor_grid_solution import policy_rows
from rlcheck.torch import fqe_targets

__all__ = [
    "Support",
    "estimated_start_value",
    "evaluation_targets",
    "fitted_q_evaluation",
    "policy_support",
]


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
    settings = chosen_settings(settings, FittingSettings)
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
    chances = torch.from_numpy(policy_rows(policy)).float()  # [S, 4]

    def targets(steps: LoggedSteps, network: nn.Module, target: nn.Module) -> Tensor:
        next_q = target(steps.next_observations)
        return fqe_targets(steps.rewards, steps.terminal, next_q, chances[steps.next_states], gamma)

    return targets


def estimated_start_value(network: nn.Module, policy: ArrayLike) -> float:
    """Σ_a π(a | s) Q(s, a), a mean over the starts."""
    expected = (policy_rows(policy) * grid_scores(network)).sum(axis=1)  # [S]
    return float(expected[grid_tables().start].mean())


class Support(NamedTuple):
    """Which share of what a policy does the log shows."""

    path: float  # of the pairs (s, a) that the policy meets from the starts
    log: float  # of the pairs (s, a) that are asked for: s a start, or any state the log enters


def policy_support(policy: ArrayLike, transitions: Sequence[GridTransition]) -> Support:
    """Which share of a policy's actions the log shows, on its path and wherever the log goes.

    Every pair (s, a) with π(a | s) > 0 counts once, in states that are not terminal. A path share
    of 1 determines Q^π at the starts, and is enough for a table. A network needs a log share of 1,
    which implies the other: with less, it bootstraps from pairs that nothing holds in place, and
    what it makes of them spreads to all others.

    Args:
        policy: [S, 4] probabilities of the actions.
        transitions: the log, not empty.

    Returns:
        Support(path, log), both in [0, 1].

    Raises:
        ValueError: the log is empty, or an entry of it or of the policy is out of range.
    """
    tables = grid_tables()
    asked = (policy_rows(policy) > 0) & ~tables.terminal[:, np.newaxis]  # [S, 4]
    logged = np.zeros_like(asked)
    entered = np.zeros(len(tables.states), bool)
    entered[tables.start] = True
    columns = log_columns("transitions", transitions)
    logged[columns["state"], columns["action"]] = True
    entered[columns["state"]] = entered[columns["next_state"]] = True
    return Support(
        *(float(logged[asked & where[:, np.newaxis]].mean()) for where in (_met(asked), entered))
    )


def _met(asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[S] the states that a policy meets from the starts, by the pairs [S, 4] that it may take."""
    tables = grid_tables()
    met = np.zeros(len(asked), bool)
    front = tables.start
    while len(front):
        met[front] = True
        following = tables.next_state[front][asked[front]]
        front = np.unique(following[~met[following]])
    return met
