"""What deep Q-learning learns with: a network, a slow copy for its targets, and an optimizer."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rlcheck._inputs import integer, scalar, unit_interval
from rlcheck.agents._options import switch
from rlcheck.agents.q_networks import grid_network
from rlcheck.agents.replay import ReplayBatch
from rlcheck.torch import dqn_targets

__all__ = ["DqnSettings", "QLearner", "TargetRule"]

TargetRule = Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]
"""(rewards [B], terminal [B], online_next_q [B, A], target_next_q [B, A], gamma) → targets [B]."""


@dataclass(frozen=True)
class DqnSettings:
    """What training needs to be told.

    Discounts: a step farther from the goal must cost more than a network errs, or its greedy policy
    walks in circles. On the grid that is 0.02 with γ = 0.99, and 0.03 to 0.06 with γ = 0.95, which
    has the same optimal policy.

    Windows: n > 1 carries rewards back faster, but what an exploring agent did in a window is not
    what the greedy policy does, and values come out too small.

    Raises:
        ValueError: a number is out of range; the text names it.
        TypeError: `balanced` is no boolean.
    """

    gamma: float = 0.95
    n_step: int = 1
    capacity: int = 20_000
    batch_size: int = 64
    learning_rate: float = 2e-3  # falls to 0 in the course of training
    warm_up: int = 400  # steps before the first gradient step
    train_interval: int = 2  # steps between two gradient steps
    target_rate: float = 0.05  # τ: the slow network moves by this share after each gradient step
    epsilon: float = 0.02  # share of random actions
    exploration: float = 10.0  # c: the agent acts on Q + c U, see CountedExploration
    balanced: bool = True  # replay every (state, action) equally often, not every step
    hidden_size: int = 128

    def __post_init__(self) -> None:
        for name in ("gamma", "target_rate", "epsilon"):
            unit_interval(name, getattr(self, name))
        if self.gamma == 1:
            raise ValueError("gamma is 1; it must be < 1, since the task has no horizon")
        switch("balanced", self.balanced)
        for name in COUNTS:
            object.__setattr__(self, name, integer(name, getattr(self, name), minimum=1))
        for name in ("learning_rate", "exploration"):
            if (value := scalar(name, getattr(self, name))) < 0:
                raise ValueError(f"{name} is {value}; it must be ≥ 0")


COUNTS = ("n_step", "capacity", "batch_size", "warm_up", "train_interval", "hidden_size")


class QLearner:
    """A network that follows the square of y − Q(s, a), and one that follows it slowly.

    y = R + γ^k (1 − d) Q_slow(s', a*),  a* = argmax_a Q_slow(s', a), or as the rule says

    The error is squared, not Huber's: its minimum is the mean of noisy targets.

    Args:
        seed: of the initial weights, which both networks share.
        settings: see DqnSettings.
        rule: of the targets; None for `dqn_targets`. Its gamma is 1, and both kinds of values come
            discounted by γ^k.
    """

    def __init__(self, seed: int, settings: DqnSettings, rule: TargetRule | None = None) -> None:
        self.settings, self.rule, self.updates = settings, rule, 0
        self.network, self.slow = (
            grid_network(seed=seed, hidden_size=settings.hidden_size) for _ in range(2)
        )
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=settings.learning_rate, fused=True
        )
        self._pairs = list(zip(self.slow.parameters(), self.network.parameters(), strict=True))

    def slow_down(self, left: float) -> None:
        """Learn with this share of the learning rate from here on."""
        self.optimizer.param_groups[0]["lr"] = left * self.settings.learning_rate

    def learn(self, batch: ReplayBatch) -> None:
        """One gradient step."""
        actions = torch.from_numpy(batch.actions).unsqueeze(1)  # [B, 1]
        values = self.network(torch.from_numpy(batch.observations)).gather(1, actions).squeeze(1)
        loss = nn.functional.mse_loss(values, self.targets(batch))
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.updates += 1
        with torch.no_grad():
            for slow, fast in self._pairs:
                slow.lerp_(fast, self.settings.target_rate)

    @torch.no_grad()
    def targets(self, batch: ReplayBatch) -> Tensor:
        """[B] y. γ^k differs between windows, and so it comes with the values instead of as gamma:
        c max_a Q = max_a c Q for c ≥ 0."""
        following, terminal = (
            torch.from_numpy(each) for each in (batch.next_observations, batch.terminal)
        )
        rewards, discounts = (
            torch.from_numpy(each).float() for each in (batch.rewards, batch.discounts)
        )
        scale = discounts.unsqueeze(1)  # [B, 1]
        slow_q = scale * self.slow(following)  # [B, A]
        if self.rule is None:
            return dqn_targets(rewards, terminal, slow_q, 1.0)
        return self.rule(rewards, terminal, scale * self.network(following), slow_q, 1.0)
