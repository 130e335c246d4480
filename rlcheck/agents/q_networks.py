"""The network of the key-door grid's learners, and what its greedy policy is worth."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcheck.envs.keydoor_grid import KeyDoorGrid, grid_tables
from rlcheck.envs.keydoor_grid_solution import greedy_policy, rollout_returns, start_value

__all__ = ["evaluate_grid_policy", "grid_network", "grid_scores"]


def grid_network(
    *, seed: int, outputs: int = KeyDoorGrid.action_dim, hidden_size: int = 64
) -> nn.Sequential:
    """A perceptron with two hidden layers over observations of the grid, drawn from the seed.

    Its weights are float32, whatever torch's default is.

    Args:
        seed: of the initial weights; torch's global generator is left alone.
        outputs: one for each action: values of actions, or logits of a policy.
        hidden_size: width of both hidden layers.
    """
    single = torch.float32
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(KeyDoorGrid.observation_dim, hidden_size, dtype=single),
            nn.ReLU(),
            nn.Linear(hidden_size, hidden_size, dtype=single),
            nn.ReLU(),
            nn.Linear(hidden_size, outputs, dtype=single),
        )


@torch.no_grad()
def grid_scores(network: Callable[[Tensor], Tensor]) -> NDArray[np.float64]:
    """[S, outputs] what a network says of every state, in the order of `grid_tables().states`."""
    return network(torch.from_numpy(grid_tables().observation.copy())).double().numpy()


def evaluate_grid_policy(scores: Any, *, gamma: float = 0.99) -> dict[str, float]:
    """What the greedy policy of [S, 4] scores achieves from all starts. Exact: nothing is random.

    Returns:
        `success_rate`, `mean_return` (undiscounted, with the step limit), `mean_steps`, and
        `value` (discounted by `gamma`, without the limit: V^π, a mean over the starts).
    """
    policy = greedy_policy(scores)
    rollouts = rollout_returns(policy)
    return {
        "success_rate": float(rollouts.success.mean()),
        "mean_return": float(rollouts.returns.mean()),
        "mean_steps": float(rollouts.steps.mean()),
        "value": start_value(policy, gamma=gamma),
    }
