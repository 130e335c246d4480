"""d3rlpy 2.8.1: a FIFO buffer with its pickers of transitions, and datasets in files.

Steps are written by `append(observation, action, reward)`, and `clip_episode` ends an episode: a
next observation cannot be given, and is read from the step that follows. A picker is asked for
every transition that the buffer counts. Drawing is NumPy's, which `d3rlpy.seed` seeds.
"""

import os
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
from d3rlpy import dataset
from d3rlpy.constants import ActionSpace

__all__ = [
    "BasicTrajectorySlicer",
    "BasicTransitionPicker",
    "FrameStackTrajectorySlicer",
    "FrameStackTransitionPicker",
    "FromMinari",
    "MultiStepTransitionPicker",
    "ReplayBufferFile",
]

ONE = (1,)


class BasicTransitionPicker:
    """`ReplayBuffer` on a `FIFOBuffer`, with `BasicTransitionPicker`; γ is the algorithm's."""

    several = False

    def __init__(self, capacity: int, n: int, gamma: float, seed: int) -> None:
        d3rlpy.seed(seed)
        self.gamma = gamma
        number = dataset.Signature(dtype=[np.dtype(np.float32)], shape=[ONE])
        self.buffer = dataset.ReplayBuffer(
            dataset.FIFOBuffer(capacity),
            transition_picker=self.picker(n),
            observation_signature=number,
            action_signature=dataset.Signature(dtype=[np.dtype(np.int64)], shape=[ONE]),
            reward_signature=number,
            action_space=ActionSpace.DISCRETE,
            action_size=64,
            cache_size=100,
        )

    def picker(self, n: int) -> Any:
        """The library's picker."""
        return dataset.BasicTransitionPicker()

    def add(
        self,
        observation: Any,
        action: int,
        reward: float,
        next_observation: Any,
        terminated: bool,
        truncated: bool,
    ) -> None:
        """`append`, and `clip_episode` at an end."""
        self.buffer.append(observation, action, reward)
        if terminated or truncated:
            self.buffer.clip_episode(terminated)

    def rows(self) -> list[tuple[Any, ...]]:
        """What the picker makes of every transition that is held."""
        held = self.buffer.buffer
        places = (held[index] for index in range(self.buffer.transition_count))
        return [self.told(self.buffer.transition_picker(*place)) for place in places]

    def sample(self, count: int) -> list[tuple[Any, ...]]:
        """`sample_transition`."""
        return [self.told(self.buffer.sample_transition()) for _ in range(count)]

    def told(self, found: Any) -> tuple[Any, ...]:
        """A transition as a row."""
        columns = (found.observation, found.action, found.reward, found.next_observation)
        numbers = (each[0] for each in columns)
        return (*numbers, self.gamma**found.interval, found.terminal)


class MultiStepTransitionPicker(BasicTransitionPicker):
    """The same buffer with `MultiStepTransitionPicker`."""

    several = True

    def picker(self, n: int) -> Any:
        """The library's picker."""
        return dataset.MultiStepTransitionPicker(n_steps=n, gamma=self.gamma)


def _told(episode: Any) -> dict[str, Any]:
    """An `Episode` as plain numbers; it has one flag, and ends by a timeout without it."""
    ends = [False] * (episode.size() - 1) + [True]
    over = [bool(episode.terminated and end) for end in ends]
    return {
        "observations": episode.observations[:, 0].tolist(),
        "actions": episode.actions[:, 0].tolist(),
        "rewards": episode.rewards[:, 0].tolist(),
        "terminations": over,
        "truncations": [end and not flag for end, flag in zip(ends, over, strict=True)],
    }


def _episode(given: dict[str, Any]) -> dataset.Episode:
    """An `Episode`, which has no place for the final observation and for a truncation."""
    steps = len(given["rewards"])
    numbers = np.array(given["observations"][:steps], np.float32)
    actions, rewards = (np.array(given[name]) for name in ("actions", "rewards"))
    columns = (numbers[:, None], actions[:, None], rewards[:, None])
    return dataset.Episode(*columns, given["terminations"][-1])


class BasicTrajectorySlicer:
    """`BasicTrajectorySlicer`, called with every step as the end."""

    def slicer(self) -> Any:
        """The library's slicer."""
        return dataset.BasicTrajectorySlicer()

    def slices(self, episodes: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
        """The slice that ends with each step."""
        slicer = self.slicer()
        made = [_episode(episode) for episode in episodes]
        return [_slice(slicer(one, t, size)) for one in made for t in range(one.size())]


def _slice(found: Any) -> dict[str, Any]:
    told = {
        name: getattr(found, name)[:, -1].tolist()
        for name in ("observations", "actions", "returns_to_go")
    }
    flags = {"mask": found.masks > 0, "terminals": found.terminals[:, 0] > 0}
    told |= {name: values.tolist() for name, values in flags.items()}
    return {**told, "timesteps": found.timesteps.tolist()}


class FrameStackTrajectorySlicer(BasicTrajectorySlicer):
    """`FrameStackTrajectorySlicer`, of whose two frames the last one is looked at."""

    def slicer(self) -> Any:
        """The library's slicer."""
        return dataset.FrameStackTrajectorySlicer(n_frames=2)


class FrameStackTransitionPicker:
    """`FrameStackTransitionPicker`, of every transition of an episode."""

    def stacks(self, episode: dict[str, Any], frames: int) -> list[tuple[Any, ...]]:
        """Action, stack, next stack, and whether it is terminal."""
        picker, made = dataset.FrameStackTransitionPicker(n_frames=frames), _episode(episode)
        found = [picker(made, t) for t in range(made.transition_count)]
        return [
            (
                int(one.action[0]),
                one.observation.tolist(),
                one.next_observation.tolist(),
                one.terminal,
            )
            for one in found
        ]


class ReplayBufferFile:
    """`ReplayBuffer.dump` and `load`, of episodes that `append_episode` takes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "episodes.h5"
        self.episodes: list[dataset.Episode] = []

    def write(self, episodes: list[dict[str, Any]]) -> None:
        """All episodes so far, in one file; an `Episode` has no place for the final observation."""
        self.episodes += map(_episode, episodes)
        whole = dataset.ReplayBuffer(dataset.InfiniteBuffer(), episodes=self.episodes)
        with self.path.open("w+b") as file:
            whole.dump(file)

    def read(self) -> list[dict[str, Any]]:
        """All episodes."""
        with self.path.open("rb") as file:
            found = dataset.ReplayBuffer.load(file, dataset.InfiniteBuffer())
        return [_told(episode) for episode in found.episodes]


class FromMinari:
    """`d3rlpy.datasets.get_minari`, of a dataset that Minari wrote."""

    name = "rows/numbers-v0"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, episodes: list[dict[str, Any]]) -> None:
        """`minari.create_dataset_from_buffers`, then `update_dataset_from_buffer`."""
        import minari
        from gymnasium.spaces import Box, Discrete
        from minari.data_collector.episode_buffer import EpisodeBuffer

        os.environ["MINARI_DATASETS_PATH"] = str(self.folder)
        buffers = []
        for episode in episodes:
            numbers = [np.array([x], np.float32) for x in episode["observations"]]
            buffers.append(EpisodeBuffer(**{**episode, "observations": numbers}))
        if (self.folder / self.name).exists():
            minari.load_dataset(self.name).update_dataset_from_buffer(buffers)
            return
        spaces = {"observation_space": Box(-1000, 1000, ONE), "action_space": Discrete(64)}
        minari.create_dataset_from_buffers(self.name, buffers, env="CartPole-v1", **spaces)

    def read(self) -> list[dict[str, Any]]:
        """The episodes of the `ReplayBuffer` that `get_minari` makes."""
        from d3rlpy.datasets import get_minari

        os.environ["MINARI_DATASETS_PATH"] = str(self.folder)
        return [_told(episode) for episode in get_minari(self.name)[0].episodes]
