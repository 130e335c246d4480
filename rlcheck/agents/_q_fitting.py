"""Q-learning on a log: the loss, its target network, and the fit."""

import copy
from collections.abc import Callable, Sequence

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

__all__ = ["Penalty", "QFitting", "Targets", "fit_q_network"]

Targets = Callable[[LoggedSteps, nn.Module, nn.Module], Tensor]
"""[N] targets of steps, from the network that is trained and the target network."""

Penalty = Callable[[Tensor, Tensor], Tensor]
"""What is added to the loss, from Q [B, 4] and the actions of the log [B]."""


class QFitting:
    """The loss of Q-learning on a log.

    L = mean of (y − Q(s, a))² + penalty,  y a constant

    Where the targets read the target network alone, they change with it only, and are computed for
    the whole log then; otherwise for every batch.
    """

    def __init__(
        self,
        steps: LoggedSteps,
        network: nn.Module,
        targets: Targets,
        *,
        interval: int,
        penalty: Penalty | None = None,
        every_step: bool = False,
    ) -> None:
        self.steps, self.network, self.penalty = steps, network, penalty
        self.targets, self.interval, self.every_step = targets, interval, every_step
        self.target = copy.deepcopy(network).requires_grad_(False)
        self.known: Tensor | None = None
        self.taken = 0

    def __call__(self, batch: Tensor) -> Tensor:
        """The loss of some rows; the target network is renewed when its time has come."""
        if self.taken % self.interval == 0:
            self.renew()
        self.taken += 1
        q_values = self.network(self.steps.observations[batch])  # [B, 4]
        actions = self.steps.actions[batch]
        chosen = q_values.gather(1, actions.unsqueeze(1)).squeeze(1)
        loss: Tensor = (self.targets_of(batch) - chosen).square().mean()
        return loss if self.penalty is None else loss + self.penalty(q_values, actions)

    @torch.no_grad()
    def renew(self) -> None:
        """Copy the network that is trained into the target network."""
        self.target.load_state_dict(self.network.state_dict())
        if not self.every_step:
            self.known = self.targets(self.steps, self.network, self.target)

    @torch.no_grad()
    def targets_of(self, batch: Tensor) -> Tensor:
        """[B] targets."""
        if self.known is not None:
            return self.known[batch]
        return self.targets(self.steps.rows(batch), self.network, self.target)


def fit_q_network(
    transitions: Sequence[GridTransition],
    targets: Targets,
    *,
    seed: int,
    epochs: int,
    label: str,
    settings: FittingSettings | None = None,
    penalty: Penalty | None = None,
    every_step: bool = False,
) -> tuple[nn.Sequential, list[float]]:
    """Fit Q to targets on a log; initial weights and orders are drawn from the seed.

    Returns:
        (network, losses): values [N, 4] of observations [N, 15], and the mean loss of each epoch.
    """
    settings = chosen_settings(settings, FittingSettings)
    weights, order = draw_seeds(seed, 2)
    steps = logged_steps(transitions)
    network = grid_network(seed=weights, hidden_size=settings.hidden_size)
    loss = QFitting(
        steps,
        network,
        targets,
        interval=settings.target_interval,
        penalty=penalty,
        every_step=every_step,
    )
    losses = gradient_steps(
        loss,
        network.parameters(),
        rows=len(steps.actions),
        seed=order,
        epochs=epochs,
        settings=settings,
        label=label,
    )
    return network, losses
