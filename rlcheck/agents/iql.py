"""Implicit Q-learning for discrete actions: no value of an unseen action is ever asked for."""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlcheck.agents._fitting import (
    FittingSettings,
    LoggedSteps,
    draw_seeds,
    gradient_steps,
    logged_steps,
)
from rlcheck.agents.datasets import GridTransition
from rlcheck.agents.q_networks import grid_network
from rlcheck.torch import dqn_targets, expectile_loss, iql_advantage_weights, stable_log_softmax

__all__ = ["ImplicitQFit", "implicit_q_learning"]


class ImplicitQFit(NamedTuple):
    """The networks, and the mean sum of their three losses in each epoch."""

    policy: nn.Sequential  # logits [N, 4] of observations [N, 15]
    q_network: nn.Sequential  # [N, 4]
    value_network: nn.Sequential  # [N, 1]
    losses: list[float]


def implicit_q_learning(
    transitions: Sequence[GridTransition],
    *,
    seed: int,
    epochs: int,
    expectile: float = 0.9,
    beta: float = 30.0,
    max_weight: float = 100.0,
    settings: FittingSettings | None = None,
) -> ImplicitQFit:
    """Values by expectile regression over the actions of the log, and the policy by their weights.

    L_V = mean of |τ − 1[u < 0]| u²,  u = Q′(s, a) − V(s)
    L_Q = mean of (r + γ (1 − d) V(s′) − Q(s, a))²
    L_π = −mean of min(exp(β u), w_max) log π(a | s)

    Nothing but the actions of the log is ever valued. Advantages on the grid are as small as two
    steps of 0.01, and β is in units of one over them. It is deterministic: one seed gives one
    result on one machine, whatever torch's global generator holds.

    Args:
        transitions: the log; a truncated step bootstraps, a terminated one does not.
        seed: an integer ≥ 0; initial weights and orders are drawn from it.
        epochs: how often the log is gone through, ≥ 0.
        expectile: τ in (0, 1); towards 1 V becomes the best logged action's value.
        beta: inverse temperature β ≥ 0; 0 is behaviour cloning.
        max_weight: upper bound w_max > 0 of the weights.
        settings: None for the defaults.

    Returns:
        ImplicitQFit(policy, q_network, value_network, losses).

    Raises:
        ValueError: the log is empty, or a number is out of range; the text names it.

    Reference:
        Kostrikov, Nair and Levine (2022), Offline reinforcement learning with implicit Q-learning,
        equations 5 to 7.
    """
    settings = settings or FittingSettings()
    none = torch.zeros(0)
    expectile_loss(none, expectile, reduction="none")  # refuse bad constants before any work
    iql_advantage_weights(none, beta, max_weight)
    *weights, order = draw_seeds(seed, 4)
    policy, q_network, value_network = (
        grid_network(seed=drawn, outputs=outputs, hidden_size=settings.hidden_size)
        for drawn, outputs in zip(weights, (4, 4, 1), strict=True)
    )
    steps = logged_steps(transitions)
    loss = ImplicitQLoss(
        steps, policy, q_network, value_network, (expectile, beta, max_weight), settings
    )
    losses = gradient_steps(
        loss,
        [p for network in (policy, q_network, value_network) for p in network.parameters()],
        rows=len(steps.actions),
        seed=order,
        epochs=epochs,
        settings=settings,
        label="IQL",
    )
    return ImplicitQFit(policy, q_network, value_network, losses)


class ImplicitQLoss:
    """The three losses of a batch. No network's gradient reaches another."""

    def __init__(
        self,
        steps: LoggedSteps,
        policy: nn.Module,
        q_network: nn.Module,
        value_network: nn.Module,
        constants: tuple[float, float, float],
        settings: FittingSettings,
    ) -> None:
        self.steps, self.policy, self.q_network = steps, policy, q_network
        self.value_network, self.settings = value_network, settings
        self.expectile, self.beta, self.max_weight = constants
        self.target = copy.deepcopy(q_network).requires_grad_(False)
        self.taken = 0

    def __call__(self, batch: Tensor) -> Tensor:
        """The sum of the losses of some rows."""
        if self.taken % self.settings.target_interval == 0:
            self.target.load_state_dict(self.q_network.state_dict())
        self.taken += 1
        steps = self.steps.rows(batch)
        value = self.value_network(steps.observations).squeeze(1)  # [B]
        advantage = _of_actions(self.target(steps.observations), steps.actions) - value
        return (
            expectile_loss(advantage, self.expectile)
            + self.q_loss(steps)
            + self.policy_loss(steps, advantage.detach())
        )

    def q_loss(self, steps: LoggedSteps) -> Tensor:
        """(r + γ (1 − d) V(s′) − Q(s, a))²: one value a state, of which the maximum is itself."""
        with torch.no_grad():
            following = self.value_network(steps.next_observations)  # [B, 1]
        targets = dqn_targets(steps.rewards, steps.terminal, following, self.settings.gamma)
        chosen = _of_actions(self.q_network(steps.observations), steps.actions)
        return (targets - chosen).square().mean()

    def policy_loss(self, steps: LoggedSteps, advantage: Tensor) -> Tensor:
        """−w log π(a | s)."""
        logprobs = stable_log_softmax(self.policy(steps.observations))
        weights = iql_advantage_weights(advantage, self.beta, self.max_weight)
        return -(weights * _of_actions(logprobs, steps.actions)).mean()


def _of_actions(values: Tensor, actions: Tensor) -> Tensor:
    return values.gather(1, actions.unsqueeze(1)).squeeze(1)
