"""Offline deep Q-learning without a constraint: what goes wrong when nothing else is done."""

from collections.abc import Sequence

from torch import Tensor, nn

from rlcheck.agents._fitting import FittingSettings, LoggedSteps
from rlcheck.agents._options import chosen_settings, switch
from rlcheck.agents._q_fitting import Targets, fit_q_network
from rlcheck.agents.datasets import GridTransition
from rlcheck.torch import double_dqn_targets, dqn_targets

__all__ = ["offline_dqn", "q_learning_targets"]


def offline_dqn(
    transitions: Sequence[GridTransition],
    *,
    seed: int,
    epochs: int,
    double: bool = False,
    settings: FittingSettings | None = None,
) -> tuple[nn.Sequential, list[float]]:
    """Deep Q-learning on a log that nobody adds to.

    L = mean of (r + γ (1 − d) max_a Q′(s′, a) − Q(s, a))²

    The maximum runs over actions that the log never shows too, and picks those whose values are too
    high by chance; no new step corrects them. It is deterministic: one seed gives one result on one
    machine, whatever torch's global generator holds.

    Args:
        transitions: the log; a truncated step bootstraps, a terminated one does not.
        seed: an integer ≥ 0; initial weights and orders are drawn from it.
        epochs: how often the log is gone through, ≥ 0.
        double: whether the network that is trained chooses the next action.
        settings: None for the defaults.

    Returns:
        (network, losses): values [N, 4] of observations [N, 15], and the mean loss of each epoch.

    Raises:
        ValueError: the log is empty, or a number is out of range; the text names it.

    Reference:
        Fujimoto, Meger and Precup (2019), Off-policy deep reinforcement learning without
        exploration, section 3.1.
    """
    settings = chosen_settings(settings, FittingSettings)
    return fit_q_network(
        transitions,
        q_learning_targets(settings.gamma, double=double),
        seed=seed,
        epochs=epochs,
        label="offline DQN",
        settings=settings,
        every_step=double,
    )


def q_learning_targets(gamma: float, *, double: bool = False) -> Targets:
    """Targets of deep Q-learning, or of double Q-learning, as a function of steps."""
    double = switch("double", double)

    def plain(steps: LoggedSteps, network: nn.Module, target: nn.Module) -> Tensor:
        return dqn_targets(steps.rewards, steps.terminal, target(steps.next_observations), gamma)

    def doubled(steps: LoggedSteps, network: nn.Module, target: nn.Module) -> Tensor:
        seen = steps.next_observations
        return double_dqn_targets(steps.rewards, steps.terminal, network(seen), target(seen), gamma)

    return doubled if double else plain
