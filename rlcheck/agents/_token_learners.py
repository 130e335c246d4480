"""Imitation and implicit language Q-learning on one log of the toy language."""

from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from rlcheck._inputs import integer, scalar, unit_interval
from rlcheck.agents._options import chosen_settings
from rlcheck.agents._token_language import TokenBatch
from rlcheck.agents._token_learning import approach, cloning_loss, critic_loss, fit
from rlcheck.agents._token_networks import TokenCritic, TokenPolicy, TokenScores, reweighted

__all__ = ["TokenLearners", "TokenOfflineSettings", "train_token_learners"]


@dataclass(frozen=True)
class TokenOfflineSettings:
    """What the learners need to be told.

    An epoch is `updates_per_epoch` updates, each with the whole log. After each one the critic that
    targets are read from moves by `target_rate` of the way to the critic that learns.

    Raises:
        ValueError: a number is out of range; the text names it.
    """

    gamma: float = 0.99
    expectile: float = 0.9
    beta: float = 8.0
    max_weight: float = 100.0
    learning_rate: float = 0.01
    target_rate: float = 0.2
    conservatism: float = 0.001
    updates_per_epoch: int = 8
    hidden_size: int = 48

    def __post_init__(self) -> None:
        unit_interval("gamma", self.gamma)
        if not 0.0 < scalar("expectile", self.expectile) < 1.0:
            raise ValueError(f"expectile is {self.expectile}; it must lie in (0, 1)")
        if not 0.0 < scalar("target_rate", self.target_rate) <= 1.0:
            raise ValueError(f"target_rate is {self.target_rate}; it must lie in (0, 1]")
        for name in ("beta", "conservatism"):
            if scalar(name, getattr(self, name)) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be ≥ 0")
        for name in ("max_weight", "learning_rate"):
            if scalar(name, getattr(self, name)) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be > 0")
        for name in ("updates_per_epoch", "hidden_size"):
            object.__setattr__(self, name, integer(name, getattr(self, name), minimum=1))


class TokenLearners(NamedTuple):
    """A policy that imitates a log, and a critic of the log's tokens."""

    policy: TokenPolicy
    critic: TokenCritic
    settings: TokenOfflineSettings

    @property
    def improved(self) -> TokenScores:
        """The policy, reweighted by the critic."""
        settings = self.settings
        return reweighted(
            self.policy, self.critic, beta=settings.beta, max_weight=settings.max_weight
        )


def train_token_learners(
    batch: TokenBatch,
    *,
    seed: int,
    bc_epochs: int,
    iql_epochs: int,
    settings: TokenOfflineSettings | None = None,
) -> TokenLearners:
    """Train both learners on a fixed log; neither reads the other.

    Args:
        batch: of the log.
        seed: an integer ≥ 0, of the initial weights.
        bc_epochs: of the policy, ≥ 0.
        iql_epochs: of the critic, ≥ 0.
        settings: None for the defaults.

    Raises:
        ValueError: a number is out of range; the text names it.
    """
    settings = chosen_settings(settings, TokenOfflineSettings)
    bc_epochs = integer("bc_epochs", bc_epochs, minimum=0)
    iql_epochs = integer("iql_epochs", iql_epochs, minimum=0)
    weights = np.random.SeedSequence(integer("seed", seed, minimum=0)).generate_state(2).tolist()
    policy = TokenPolicy(seed=weights[0], hidden_size=settings.hidden_size)
    critic = TokenCritic(seed=weights[1], hidden_size=settings.hidden_size)
    target = deepcopy(critic).requires_grad_(False)

    def imitate() -> Tensor:
        return cloning_loss(policy(batch.ids), batch)

    def regress() -> Tensor:
        values, followers = critic(batch.ids), target(batch.ids)
        return critic_loss(
            values,
            followers,
            batch,
            gamma=settings.gamma,
            expectile=settings.expectile,
            conservatism=settings.conservatism,
        )

    def follow() -> None:
        approach(target, critic, rate=settings.target_rate)

    train = partial(
        fit, learning_rate=settings.learning_rate, updates_per_epoch=settings.updates_per_epoch
    )
    train(policy, imitate, epochs=bc_epochs, description=f"imitation, seed {seed}")
    train(critic, regress, epochs=iql_epochs, description=f"critic, seed {seed}", follow=follow)
    return TokenLearners(policy, critic, settings)
