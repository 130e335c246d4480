"""What the offline learners share: settings, the log as tensors, and gradient steps over it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from rlcheck._inputs import integer, scalar, unit_interval
from rlcheck.agents.actor_critic import one_thread
from rlcheck.agents.datasets import GridTransition
from rlcheck.agents.log_columns import log_columns

__all__ = [
    "FittingSettings",
    "LoggedSteps",
    "draw_seeds",
    "gradient_steps",
    "logged_steps",
]


@dataclass(frozen=True)
class FittingSettings:
    """What an offline learner needs to be told besides its own constants.

    `target_interval` is the number of gradient steps after which the target network becomes a copy
    of the one that is trained; what the targets take from it is computed once, for the whole log.

    Raises:
        ValueError: gamma lies outside [0, 1], the learning rate is not above 0, or one of the
            others is no integer ≥ 1; the text names it.
    """

    gamma: float = 0.99
    batch_size: int = 256
    learning_rate: float = 2e-3
    target_interval: int = 30
    hidden_size: int = 64

    def __post_init__(self) -> None:
        unit_interval("gamma", self.gamma)
        for name in ("batch_size", "target_interval", "hidden_size"):
            object.__setattr__(self, name, integer(name, getattr(self, name), minimum=1))
        if (rate := scalar("learning_rate", self.learning_rate)) <= 0:
            raise ValueError(f"learning_rate is {rate}; it must be > 0")


class LoggedSteps(NamedTuple):
    """The N steps of a log as tensors."""

    observations: Tensor  # [N, 15]
    actions: Tensor  # [N] int64
    rewards: Tensor  # [N]
    next_observations: Tensor  # [N, 15] what the step ended in
    terminal: Tensor  # [N] true terminals only: a step that was cut off bootstraps
    states: Tensor  # [N] int64, indices in grid_tables().states
    next_states: Tensor  # [N] int64

    def rows(self, index: Tensor) -> "LoggedSteps":
        """Some of the steps."""
        return LoggedSteps(*(column[index] for column in self))


def logged_steps(transitions: Sequence[GridTransition]) -> LoggedSteps:
    """The transitions of a log, in their order, as float32, int64 and bool.

    Raises:
        ValueError: there is none, or an entry is none of the grid's; the text has its index.
        TypeError: a transition lacks a field, or an entry is no number.
    """
    columns = log_columns("transitions", transitions)
    return LoggedSteps(
        torch.from_numpy(columns["observation"]),
        torch.from_numpy(columns["action"]),
        torch.from_numpy(columns["reward"]).float(),
        torch.from_numpy(columns["next_observation"]),
        torch.from_numpy(columns["terminated"]),
        torch.from_numpy(columns["state"]),
        torch.from_numpy(columns["next_state"]),
    )


def draw_seeds(seed: int, count: int) -> list[int]:
    """Seeds of independent streams."""
    sequence = np.random.SeedSequence(integer("seed", seed, minimum=0))
    return [int(state) for state in sequence.generate_state(count)]


def gradient_steps(
    loss_of: Callable[[Tensor], Tensor],
    parameters: Iterable[Tensor],
    *,
    rows: int,
    seed: int,
    epochs: int,
    settings: FittingSettings,
    label: str,
) -> list[float]:
    """Adam on minibatches; every epoch goes once through all rows, in an order of its own.

    The learning rate falls linearly from epoch to epoch, towards 0 after the last.

    Args:
        loss_of: the loss of the rows of a batch, given their indices [B].
        parameters: what is trained.
        rows: how many there are.
        seed: of the orders.
        epochs: how many, ≥ 0.
        settings: batch size and learning rate.
        label: of the bar that a terminal shows.

    Returns:
        The mean loss of each epoch.
    """
    optimizer = torch.optim.Adam(list(parameters), lr=settings.learning_rate, fused=True)
    generator = torch.Generator().manual_seed(seed)
    losses = torch.zeros(integer("epochs", epochs, minimum=0), dtype=torch.float64)
    with one_thread():
        for epoch in tqdm(range(len(losses)), desc=label, disable=None, leave=False):
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * (1 - epoch / len(losses))
            order = torch.randperm(rows, generator=generator)
            for batch in torch.split(order, settings.batch_size):
                loss = loss_of(batch)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses[epoch] += loss.detach() * len(batch) / rows
    return losses.tolist()
