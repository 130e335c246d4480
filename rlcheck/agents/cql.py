"""Conservative Q-learning for discrete actions."""

from collections.abc import Sequence

from torch import Tensor, nn

from rlcheck._inputs import scalar
from rlcheck.agents._fitting import FittingSettings
from rlcheck.agents._options import chosen_settings
from rlcheck.agents._q_fitting import fit_q_network
from rlcheck.agents.datasets import GridTransition
from rlcheck.agents.offline_dqn import q_learning_targets
from rlcheck.torch import cql_discrete_penalty

__all__ = ["conservative_q_learning"]


def conservative_q_learning(
    transitions: Sequence[GridTransition],
    *,
    seed: int,
    epochs: int,
    alpha: float = 10.0,
    scale: float = 10.0,
    double: bool = False,
    settings: FittingSettings | None = None,
) -> tuple[nn.Sequential, list[float]]:
    """Offline deep Q-learning that keeps the values of unseen actions below those of the log.

    L = mean of (r + γ (1 − d) max_a Q′(s′, a) − Q(s, a))²
        + α / c² (log Σ_a exp c Q(s, a) − c Q(s, a_data))

    which is the usual loss with every reward c times as large, and Q in the units of the reward:
    the soft maximum only tells actions apart whose values differ by about 1. Without a scale it
    takes the four actions of a cell, 0.02 apart, for equal, and lifts whatever the log does most:
    an α that holds unseen actions down then makes a loop pay.

    With α = 0 it is `offline_dqn`. It is deterministic, as that is.

    Args:
        transitions: the log; a truncated step bootstraps, a terminated one does not.
        seed: an integer ≥ 0; initial weights and orders are drawn from it.
        epochs: how often the log is gone through, ≥ 0.
        alpha: weight α ≥ 0 of the penalty.
        scale: c > 0, by which rewards would be multiplied.
        double: whether the network that is trained chooses the next action.
        settings: None for the defaults.

    Returns:
        (network, losses): values [N, 4] of observations [N, 15], and the mean loss of each epoch.

    Raises:
        ValueError: the log is empty, or a number is out of range; the text names it.

    Reference:
        Kumar et al. (2020), Conservative Q-learning for offline reinforcement learning, equation 4.
    """
    settings = chosen_settings(settings, FittingSettings)
    if (alpha := scalar("alpha", alpha)) < 0:
        raise ValueError(f"alpha is {alpha}; it must be ≥ 0")
    if (scale := scalar("scale", scale)) <= 0:
        raise ValueError(f"scale is {scale}; it must be > 0")

    def penalty(q_values: Tensor, actions: Tensor) -> Tensor:
        return alpha / scale**2 * cql_discrete_penalty(scale * q_values, actions).mean()

    return fit_q_network(
        transitions,
        q_learning_targets(settings.gamma, double=double),
        seed=seed,
        epochs=epochs,
        label="CQL",
        settings=settings,
        penalty=penalty,
        every_step=double,
    )
