"""TorchRL 0.14.1: replay buffers of tensordicts, returns of several steps, Minari's datasets.

A step is a tensordict as an environment gives it, `done` being either flag.
"""

import os
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

import minari
import numpy as np
import torch
from gymnasium import spaces
from minari.data_collector.episode_buffer import EpisodeBuffer
from tensordict import TensorDict
from torchrl import data
from torchrl.data.datasets import MinariExperienceReplay as Dataset
from torchrl.envs.transforms import MultiStepTransform as Transform

__all__ = ["MinariExperienceReplay", "MultiStep", "MultiStepTransform", "ReplayBuffer"]

NAME = "rows/numbers-v0"
SPACES = {
    "observation_space": spaces.Box(-1000, 1000, (1,), np.float32),
    "action_space": spaces.Discrete(64),
}


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


class MinariExperienceReplay:
    """`MinariExperienceReplay` with `load_from_local_minari`, of a dataset that Minari wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, episodes: list[dict[str, Any]]) -> None:
        """`minari.create_dataset_from_buffers`, then `update_dataset_from_buffer`."""
        os.environ["MINARI_DATASETS_PATH"] = str(self.folder)
        buffers = []
        for episode in episodes:
            numbers = [np.array([x], np.float32) for x in episode["observations"]]
            buffers.append(EpisodeBuffer(**{**episode, "observations": numbers}))
        if (self.folder / NAME).exists():
            minari.load_dataset(NAME).update_dataset_from_buffer(buffers)
        else:
            minari.create_dataset_from_buffers(NAME, buffers, **SPACES)

    def read(self) -> list[dict[str, Any]]:
        """All steps, by the episodes that they say they are of."""
        os.environ["MINARI_DATASETS_PATH"] = str(self.folder)
        root = tempfile.mkdtemp(dir=self.folder)
        found = Dataset(NAME, batch_size=1, root=root, load_from_local_minari=True)[:]
        steps = zip(found["episode"].reshape(-1).tolist(), found, strict=True)
        groups = groupby(steps, key=lambda pair: pair[0])
        return [self.told([step for _, step in group]) for _, group in groups]

    def told(self, steps: list[Any]) -> dict[str, Any]:
        """The steps of an episode as plain numbers."""
        after = [step["next"] for step in steps]
        seen = [step["observation"].item() for step in steps]
        return {
            "observations": [*seen, after[-1]["observation"].item()],
            "actions": [step["action"].item() for step in steps],
            "rewards": [step["reward"].item() for step in after],
            "terminations": [step["terminated"].item() for step in after],
            "truncations": [step["truncated"].item() for step in after],
        }
