"""Implicit Q-learning for discrete actions: no value of an unseen action is ever asked for."""

from collections.abc import Sequence
from functools import partial
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
from rlcheck.agents._options import chosen_settings
from rlcheck.agents.datasets import GridTransition
from rlcheck.agents.q_networks import grid_network
from rlcheck.torch import dqn_targets, expectile_loss, iql_advantage_weights, stable_log_softmax

__all__ = ["ImplicitQFit", "implicit_q_learning"]


class ImplicitQFit(NamedTuple):
    """The networks, and the mean losses of each epoch."""

    policy: nn.Sequential  # logits [N, 4] of observations [N, 15]
    q_network: nn.Sequential  # [N, 4]
    value_network: nn.Sequential  # [N, 1]
    losses: list[float]  # of the policy
    value_losses: list[float]


def implicit_q_learning(
    transitions: Sequence[GridTransition],
    *,
    seed: int,
    epochs: int,
    expectile: float = 0.7,
    beta: float = 10.0,
    max_weight: float = 100.0,
    settings: FittingSettings | None = None,
) -> ImplicitQFit:
    """Values by expectile regression over the actions of the log, and the policy by their weights.

    L_V = mean of |τ − 1[u < 0]| u²,  u = Q′(s, a) − V(s)
    L_Q = mean of (r + γ (1 − d) V(s′) − Q(s, a))²
    L_π = −mean of min(exp(β u), w_max) log π(a | s)

    Nothing but the actions of the log is ever valued. The values do not depend on the policy, which
    is therefore fitted after them, to weights that stay as they are. It is deterministic: one seed
    gives one result on one machine, whatever torch's global generator holds.

    Args:
        transitions: the log; a truncated step bootstraps, a terminated one does not.
        seed: an integer ≥ 0; initial weights and orders are drawn from it.
        epochs: how often the log is gone through for the values, and again for the policy, ≥ 0.
        expectile: τ in (0, 1); towards 1 V becomes the best logged action's value.
        beta: inverse temperature β ≥ 0; 0 is behaviour cloning.
        max_weight: upper bound w_max > 0 of the weights.
        settings: None for the defaults.

    Returns:
        ImplicitQFit(policy, q_network, value_network, losses, value_losses).

    Raises:
        ValueError: the log is empty, or a number is out of range; the text names it.

    Reference:
        Kostrikov, Nair and Levine (2022), Offline reinforcement learning with implicit Q-learning,
        equations 5 to 7.
    """
    settings = chosen_settings(settings, FittingSettings)
    none = torch.zeros(0)
    expectile_loss(none, expectile, reduction="none")  # refuse bad constants before any work
    iql_advantage_weights(none, beta, max_weight)
    *weights, value_order, policy_order = draw_seeds(seed, 5)
    policy, q_network, value_network = (
        grid_network(seed=drawn, outputs=outputs, hidden_size=settings.hidden_size)
        for drawn, outputs in zip(weights, (4, 4, 1), strict=True)
    )
    steps = logged_steps(transitions)
    values = ValueLoss(steps, q_network, value_network, expectile, settings)
    fitted = partial(gradient_steps, rows=len(steps.actions), epochs=epochs, settings=settings)
    value_losses = fitted(
        values,
        [*q_network.parameters(), *value_network.parameters()],
        seed=value_order,
        label="IQL, values",
    )
    extracted = PolicyLoss(steps, policy, values.advantages(), beta, max_weight)
    policy_losses = fitted(extracted, policy.parameters(), seed=policy_order, label="IQL, policy")
    return ImplicitQFit(policy, q_network, value_network, policy_losses, value_losses)


class ValueLoss:
    """L_V + L_Q of a batch; neither network's gradient reaches the other."""

    def __init__(
        self,
        steps: LoggedSteps,
        q_network: nn.Module,
        value_network: nn.Module,
        expectile: float,
        settings: FittingSettings,
    ) -> None:
        self.steps, self.q_network, self.value_network = steps, q_network, value_network
        self.expectile, self.settings = expectile, settings
        self.known = torch.zeros(0)  # [N] Q′(s, a), Q′ a copy of Q
        self.taken = 0

    def __call__(self, batch: Tensor) -> Tensor:
        """The sum of both losses of some rows."""
        if self.taken % self.settings.target_interval == 0:
            self.known = self.logged_values()
        self.taken += 1
        steps = self.steps.rows(batch)
        value = self.value_network(steps.observations).squeeze(1)  # [B]
        return expectile_loss(self.known[batch] - value, self.expectile) + self.q_loss(steps)

    def q_loss(self, steps: LoggedSteps) -> Tensor:
        """(r + γ (1 − d) V(s′) − Q(s, a))²: the maximum over one value is that value."""
        with torch.no_grad():
            following = self.value_network(steps.next_observations)  # [B, 1]
        targets = dqn_targets(steps.rewards, steps.terminal, following, self.settings.gamma)
        chosen = _of_actions(self.q_network(steps.observations), steps.actions)
        return (targets - chosen).square().mean()

    @torch.no_grad()
    def logged_values(self) -> Tensor:
        """[N] Q(s, a)."""
        return _of_actions(self.q_network(self.steps.observations), self.steps.actions)

    @torch.no_grad()
    def advantages(self) -> Tensor:
        """[N] Q(s, a) − V(s)."""
        value: Tensor = self.value_network(self.steps.observations)
        return self.logged_values() - value.squeeze(1)


class PolicyLoss:
    """−w log π(a | s) of a batch: cloning, where what turned out well counts more."""

    def __init__(
        self,
        steps: LoggedSteps,
        policy: nn.Module,
        advantages: Tensor,
        beta: float,
        max_weight: float,
    ) -> None:
        self.steps, self.policy = steps, policy
        self.weights = iql_advantage_weights(advantages, beta, max_weight)  # [N]

    def __call__(self, batch: Tensor) -> Tensor:
        """The mean over some rows."""
        logprobs = stable_log_softmax(self.policy(self.steps.observations[batch]))
        return -(self.weights[batch] * _of_actions(logprobs, self.steps.actions[batch])).mean()


def _of_actions(values: Tensor, actions: Tensor) -> Tensor:
    return values.gather(1, actions.unsqueeze(1)).squeeze(1)
