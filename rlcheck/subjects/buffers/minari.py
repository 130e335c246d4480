"""Minari 0.5.4: datasets of episodes, in each of its formats.

An episode is written as an `EpisodeBuffer` and read as an `EpisodeData`, with the same names.
Datasets lie where the environment variable MINARI_DATASETS_PATH says.
"""

import os
from pathlib import Path
from typing import Any

import minari
import numpy as np
from gymnasium import spaces
from minari.data_collector.episode_buffer import EpisodeBuffer

__all__ = ["Arrow", "HDF5", "Parquet"]  # noqa: RUF022

NAME = "rows/numbers-v0"
FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")
SPACES = {
    "observation_space": spaces.Box(-1000, 1000, (1,), np.float32),
    "action_space": spaces.Discrete(64),
}


class HDF5:
    """`create_dataset_from_buffers`, then `update_dataset_from_buffer`; read by `load_dataset`."""

    data_format = "hdf5"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, episodes: list[dict[str, Any]]) -> None:
        """Write a new dataset, or more episodes to the one that is there."""
        buffers = [self.buffer(episode) for episode in episodes]
        if (self.folder / NAME).exists():
            self.loaded().update_dataset_from_buffer(buffers)
        else:
            os.environ["MINARI_DATASETS_PATH"] = str(self.folder)
            minari.create_dataset_from_buffers(
                NAME, buffers, data_format=self.data_format, **SPACES
            )

    def buffer(self, episode: dict[str, Any]) -> EpisodeBuffer:
        """An episode as it is written."""
        observations = [np.array([x], np.float32) for x in episode["observations"]]
        return EpisodeBuffer(**{**episode, "observations": observations})

    def loaded(self) -> Any:
        """The dataset."""
        os.environ["MINARI_DATASETS_PATH"] = str(self.folder)
        return minari.load_dataset(NAME)

    def read(self) -> list[dict[str, Any]]:
        """All episodes."""
        return [self.told(episode) for episode in self.loaded()]

    def sample(self, count: int, seed: int) -> list[dict[str, Any]]:
        """`sample_episodes`, after `set_seed`."""
        loaded = self.loaded()
        loaded.set_seed(seed)
        return [self.told(episode) for episode in loaded.sample_episodes(count)]

    def told(self, found: Any) -> dict[str, Any]:
        """An episode as plain numbers."""
        told = {name: np.asarray(getattr(found, name)).tolist() for name in FIELDS}
        return {**told, "observations": [x for (x,) in told["observations"]]}

    def steps(self) -> int:
        """`total_steps`."""
        return int(self.loaded().total_steps)


class Arrow(HDF5):
    """The same in Arrow's format."""

    data_format = "arrow"


class Parquet(HDF5):
    """The same in Parquet's format."""

    data_format = "parquet"
