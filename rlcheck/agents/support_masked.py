"""Deep Q-learning over the actions that the log supports: discrete BCQ."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlcheck._inputs import integer
from rlcheck.agents._fitting import FittingSettings, LoggedSteps, draw_seeds, logged_steps
from rlcheck.agents._options import action_logits, chosen_settings, network_of
from rlcheck.agents._q_fitting import Targets, fit_q_network
from rlcheck.agents.behavior_cloning import behavior_cloning
from rlcheck.agents.datasets import GridTransition
from rlcheck.agents.offline_dqn import q_learning_targets
from rlcheck.torch import behavior_support_mask

__all__ = ["SupportMaskedFit", "SupportMaskedQ", "masked_targets", "support_masked_dqn"]


class SupportMaskedQ(nn.Module):
    """Values of the supported actions; the others stand below every number that a value can be.

    Args:
        q_network: values [N, A] of observations.
        behavior: logits [N, A] of the policy that is thought to have acted.
        threshold_ratio: of `behavior_support_mask`.
    """

    def __init__(self, q_network: nn.Module, behavior: nn.Module, threshold_ratio: float) -> None:
        super().__init__()
        self.q_network, self.behavior = q_network, behavior
        self.threshold_ratio = threshold_ratio

    @torch.no_grad()
    def supported(self, observations: Tensor) -> Tensor:
        """[N, A] booleans; one action at least in every row."""
        probabilities = self.behavior(observations).softmax(dim=-1)
        return behavior_support_mask(probabilities, self.threshold_ratio)

    def forward(self, observations: Tensor) -> Tensor:
        """[N, A] values that no maximum and no argmax finds where an action is not supported.

        Multiplying by the mask would lift them to 0, above supported negative values
        (takuseno/d3rlpy#221).
        """
        q_values: Tensor = self.q_network(observations)
        supported = self.supported(observations)
        return q_values.masked_fill(~supported, torch.finfo(q_values.dtype).min)


class SupportMaskedFit(NamedTuple):
    """The masked network, and the mean losses of each epoch of both fits."""

    network: SupportMaskedQ
    losses: list[float]
    behavior_losses: list[float]


def support_masked_dqn(
    transitions: Sequence[GridTransition],
    *,
    seed: int,
    epochs: int,
    behavior_epochs: int | None = None,
    threshold_ratio: float = 0.35,
    double: bool = False,
    behavior: nn.Module | None = None,
    settings: FittingSettings | None = None,
) -> SupportMaskedFit:
    """Offline deep Q-learning whose maximum runs over the supported actions alone.

    L = mean of (r + γ (1 − d) max_{a: p(a | s′) ≥ ratio · max p(· | s′)} Q′(s′, a) − Q(s, a))²

    with p the cloned behaviour. The same actions bound what the policy may do afterwards. It is
    deterministic: one seed gives one result on one machine, whatever torch's global generator
    holds.

    Args:
        transitions: the log; a truncated step bootstraps, a terminated one does not.
        seed: an integer ≥ 0; initial weights and orders are drawn from it.
        epochs: how often the log is gone through for Q, ≥ 0.
        behavior_epochs: and for the behaviour, ≥ 0; None for as often.
        threshold_ratio: in [0, 1]; 0 supports every action, which is `offline_dqn`.
        double: whether the network that is trained chooses the next action.
        behavior: logits [N, 4] of observations [N, 15]; None clones them from the log.
        settings: None for the defaults.

    Returns:
        SupportMaskedFit(network, losses, behavior_losses); the network gives values [N, 4], which
        are the lowest finite number where an action is not supported.

    Raises:
        ValueError: the log is empty, a number is out of range, or the behaviour does not answer
            [N, 4]; the text names it.
        TypeError: the behaviour is no network, or the settings are of another kind.

    Reference:
        Fujimoto et al. (2019), Benchmarking batch deep reinforcement learning algorithms, section
        4.
    """
    settings = chosen_settings(settings, FittingSettings)
    epochs, cloned = integer("epochs", epochs, minimum=0), epochs
    if behavior_epochs is not None:
        cloned = integer("behavior_epochs", behavior_epochs, minimum=0)
    steps = logged_steps(transitions)
    behavior_losses: list[float] = []
    if behavior is not None:
        with torch.no_grad():
            action_logits("behavior", network_of("behavior", behavior), steps.observations)
    else:
        behavior, behavior_losses = behavior_cloning(
            steps.observations,
            steps.actions,
            seed=draw_seeds(seed, 3)[2],  # the first two are those of the Q-network
            epochs=cloned,
            batch_size=settings.batch_size,
        )
    network, losses = fit_q_network(
        transitions,
        masked_targets(behavior, threshold_ratio, settings.gamma, double=double),
        seed=seed,
        epochs=epochs,
        label="support-masked DQN",
        settings=settings,
        every_step=double,
    )
    return SupportMaskedFit(
        SupportMaskedQ(network, behavior, threshold_ratio), losses, behavior_losses
    )


def masked_targets(
    behavior: nn.Module, threshold_ratio: float, gamma: float, *, double: bool = False
) -> Targets:
    """The targets of `q_learning_targets`, of networks that know the support."""
    inner = q_learning_targets(gamma, double=double)

    def targets(steps: LoggedSteps, network: nn.Module, target: nn.Module) -> Tensor:
        pair = (SupportMaskedQ(net, behavior, threshold_ratio) for net in (network, target))
        return inner(steps, *pair)

    return targets
