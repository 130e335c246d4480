"""TorchRL 0.14.1: replay buffers of tensordicts, alone and with returns of several steps.

A step is a tensordict as an environment gives it, `done` being either flag.
"""

from typing import Any

import torch
from tensordict import TensorDict
from torchrl import data
from torchrl.envs.transforms import MultiStepTransform as Transform

__all__ = ["MultiStep", "MultiStepTransform", "ReplayBuffer"]


def _step(
    observation: Any,
    action: int,
    reward: float,
    next_observation: Any,
    terminated: bool,
    truncated: bool,
) -> TensorDict:
    flags = {"terminated": terminated, "truncated": truncated, "done": terminated or truncated}
    after = {"observation": torch.from_numpy(next_observation), "reward": torch.tensor([reward])}
    after |= {name: torch.tensor([flag]) for name, flag in flags.items()}
    before = {"observation": torch.from_numpy(observation), "action": torch.tensor(action)}
    return TensorDict({**before, "next": TensorDict(after)})


class ReplayBuffer:
    """`TensorDictReplayBuffer` on a `LazyTensorStorage`; the discount is the loss's γ."""

    several = False

    def __init__(self, capacity: int, n: int, gamma: float, seed: int) -> None:
        self.gamma = gamma
        self.buffer = data.TensorDictReplayBuffer(
            storage=data.LazyTensorStorage(capacity),
            transform=self.transform(n),
            generator=torch.Generator().manual_seed(seed),
        )

    def transform(self, n: int) -> Any:
        """What steps go through before they are stored."""
        return None

    def add(self, *step: Any) -> None:
        """`extend` with one step, as a collector with one frame for each batch does."""
        self.buffer.extend(_step(*step).unsqueeze(0))

    def rows(self) -> list[tuple[Any, ...]]:
        """All that is stored."""
        return self.told(self.buffer[:]) if len(self.buffer) else []

    def sample(self, count: int) -> list[tuple[Any, ...]]:
        """`sample`."""
        return self.told(self.buffer.sample(count))

    def told(self, found: Any) -> list[tuple[Any, ...]]:
        """A batch as rows."""
        discounts = found.get("gamma", torch.full((len(found),), self.gamma))
        columns = (found["observation"], found["action"], found["next", "reward"])
        whole = (*columns, found["next", "observation"], discounts, found["next", "terminated"])
        return list(zip(*(each.reshape(-1).tolist() for each in whole), strict=True))


class MultiStepTransform(ReplayBuffer):
    """`TensorDictReplayBuffer` with `MultiStepTransform`, which holds the last n steps back."""

    several = True

    def transform(self, n: int) -> Any:
        """The library's transform."""
        return Transform(n_steps=n, gamma=self.gamma)


class MultiStep(ReplayBuffer):
    """`MultiStep` on a batch of all steps, as a collector applies it, into the same buffer."""

    several = True

    def __init__(self, capacity: int, n: int, gamma: float, seed: int) -> None:
        super().__init__(capacity, n, gamma, seed)
        self.batch: list[TensorDict] = []
        self.n = n

    def add(self, *step: Any) -> None:
        """One more step of the batch."""
        self.batch.append(_step(*step).clone())

    def stored(self) -> None:
        """Hand the batch over."""
        if self.batch:
            multi_step = data.MultiStep(gamma=self.gamma, n_steps=self.n)
            self.buffer.extend(multi_step(torch.stack(self.batch)))
            self.batch = []

    def rows(self) -> list[tuple[Any, ...]]:
        """All that is stored."""
        self.stored()
        return super().rows()

    def sample(self, count: int) -> list[tuple[Any, ...]]:
        """`sample`."""
        self.stored()
        return super().sample(count)
