"""Logged episodes of the grid as files: Minari's format and Parquet, both read back as they were.

Either file says who acted: the formula of the policies, each episode's share of random actions, and
the probability of every action that was taken. An episode ends where the file says so and not where
a flag stands: a log may have been cut, and then its last step is neither terminated nor truncated.
"""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcheck.agents.datasets import GridEpisode
from rlcheck.agents.episode_columns import (
    ENVIRONMENT,
    behavior_description,
    buffer_of,
    check_layout,
    columns_of,
    columns_of_buffer,
    episode_of,
)
from rlcheck.agents.log_columns import COLUMNS, Columns
from rlcheck.envs.keydoor_grid import KeyDoorGrid

__all__ = ["read_minari", "read_parquet", "write_minari", "write_parquet"]

DESCRIPTION = "behavior"  # its key in the metadata of either file
PLACES = ("episode", "step", "randomness")


def write_minari(
    episodes: Sequence[GridEpisode], dataset_id: str, *, root: str | PathLike[str] | None = None
) -> Path:
    """Write episodes as a dataset that `minari.load_dataset` reads.

    T steps have T + 1 observations, the last of them what the episode ended in. The infos have
    T + 1 entries too, since a step's info comes with the observation after it: `state` beside every
    observation, and `behavior_logprob` of the step before it, NaN at the reset. An episode's
    `randomness` stands in its metadata, and `behavior_description` in those of the dataset.

    Args:
        episodes: N ≥ 1, each with a step or more.
        dataset_id: as Minari names datasets, for example "keydoor-grid/mixed-v0".
        root: the folder of the datasets; None for Minari's own, MINARI_DATASETS_PATH.

    Returns:
        The folder of the dataset.

    Raises:
        ValueError: an episode is empty or not one walk, an entry is none of the grid's (the text
            has its index and value), or the id is malformed or taken.
        TypeError: an entry is no number.
    """
    import gymnasium as gym
    from minari import __version__
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_dataset import DATASET_ID_RE
    from minari.dataset.minari_storage import MinariStorage

    buffers = [EpisodeBuffer(**buffer_of(columns)) for columns in _all_columns(episodes)]
    if (match := DATASET_ID_RE.fullmatch(dataset_id)) is None or match["version"] is None:
        raise ValueError(f"dataset_id is {dataset_id!r}; it must be like 'keydoor-grid/mixed-v0'")
    folder = _minari_folder(dataset_id, root)
    folder.mkdir(parents=True, exist_ok=True)
    storage = MinariStorage.new(
        folder,
        observation_space=KeyDoorGrid().observation_space,
        action_space=KeyDoorGrid().action_space,
        env_spec=gym.spec(ENVIRONMENT),
    )
    storage.update_metadata(
        {
            "dataset_id": dataset_id,
            "minari_version": __version__,
            "description": f"Logged episodes of {ENVIRONMENT}.",
            DESCRIPTION: behavior_description(episodes),
        }
    )
    storage.update_episodes(buffers)
    storage.update_episode_metadata({"randomness": episode.randomness} for episode in episodes)
    return folder.parent


def read_minari(dataset_id: str, *, root: str | PathLike[str] | None = None) -> list[GridEpisode]:
    """The episodes that `write_minari` wrote, with every number and flag as it was.

    Raises:
        ValueError: there is no such dataset, it logs another grid, or what an episode needs is
            missing, of another length or out of range; the text names the episode.
    """
    from minari.dataset.minari_storage import MinariStorage

    storage = MinariStorage.read(_minari_folder(dataset_id, root))
    check_layout(storage.metadata.get(DESCRIPTION))
    numbers = range(storage.total_episodes)
    stored = zip(storage.get_episodes(numbers), storage.get_episode_metadata(numbers), strict=True)
    episodes = []
    for number, (buffer, metadata) in enumerate(stored):
        name = f"episode {number}"
        if "randomness" not in metadata:
            raise ValueError(f"{name} has no randomness; its metadata are {metadata}")
        episodes.append(episode_of(name, columns_of_buffer(name, buffer), metadata["randomness"]))
    return episodes


def _minari_folder(dataset_id: str, root: str | PathLike[str] | None) -> Path:
    from minari.storage.datasets_root_dir import get_dataset_path

    return (get_dataset_path(dataset_id) if root is None else Path(root) / dataset_id) / "data"


def write_parquet(episodes: Sequence[GridEpisode], path: str | PathLike[str]) -> None:
    """Write episodes as a table with a row for each transition.

    Its columns are the fields of a `GridTransition`, and `episode`, `step` in it and `randomness`
    of who acted; `behavior_description` stands as JSON in the metadata of the schema.

    Args:
        episodes: N ≥ 1, each with a step or more.
        path: of the file, which is overwritten.

    Raises:
        ValueError: an episode is empty or not one walk, or an entry is none of the grid's; the text
            has its index and value.
        TypeError: an entry is no number.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    logs = _all_columns(episodes)
    lengths = [len(columns["action"]) for columns in logs]
    table = {name: np.concatenate([columns[name] for columns in logs]) for name in COLUMNS}
    table["episode"] = np.repeat(np.arange(len(logs)), lengths)
    table["step"] = np.concatenate([np.arange(length) for length in lengths])
    table["randomness"] = np.repeat([episode.randomness for episode in episodes], lengths)
    described = {DESCRIPTION: json.dumps(behavior_description(episodes))}
    arrays = [
        pa.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1])
        if values.ndim == 2
        else pa.array(values)
        for values in table.values()
    ]
    pq.write_table(pa.table(arrays, names=list(table), metadata=described), path)


def read_parquet(path: str | PathLike[str]) -> list[GridEpisode]:
    """The episodes that `write_parquet` wrote; the rows may stand in any order.

    Raises:
        ValueError: the table logs another grid, a column is missing, the steps of an episode are
            not 0, 1, 2, …, or an entry is out of range; the text names it.
        TypeError: a column holds no numbers.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    metadata = table.schema.metadata or {}
    check_layout(json.loads(metadata.get(DESCRIPTION.encode(), b"null")))
    for name in (*COLUMNS, *PLACES):
        if name not in table.column_names:
            raise ValueError(f"column {name} is missing; there are {', '.join(table.column_names)}")
        if table.column(name).null_count:
            raise ValueError(f"column {name} has nulls; every entry must be there")
    if table.num_rows == 0:
        raise ValueError("the table has no rows; it must have an episode")
    table = table.sort_by([("episode", "ascending"), ("step", "ascending")])
    columns = {name: _numbers(table.column(name)) for name in (*COLUMNS, *PLACES)}
    cuts = np.flatnonzero(np.diff(columns["episode"])) + 1  # not at the flags: a log may be cut
    parts = zip(*(np.split(values, cuts) for values in columns.values()), strict=True)
    return [_from_rows(dict(zip(columns, part, strict=True))) for part in parts]


def _from_rows(columns: Columns) -> GridEpisode:
    name = f"episode {columns['episode'][0]}"
    if not np.array_equal(columns["step"], np.arange(len(columns["step"]))):
        raise ValueError(
            f"{name} has the steps {columns['step'].tolist()}; they must be 0, 1, 2, …"
        )
    if len(shares := np.unique(columns["randomness"])) > 1:
        raise ValueError(f"{name} has the randomness {shares.tolist()}; one policy acts in it")
    return episode_of(name, columns, columns["randomness"][0])


def _numbers(column: Any) -> NDArray[Any]:
    array = column.combine_chunks()
    width = getattr(array.type, "list_size", None)
    flat: NDArray[Any] = (array if width is None else array.flatten()).to_numpy(
        zero_copy_only=False
    )
    return flat if width is None else flat.reshape(-1, width)


def _all_columns(episodes: Sequence[GridEpisode]) -> list[Columns]:
    if len(episodes) == 0:
        raise ValueError("episodes is empty; it must have an episode")
    for n, episode in enumerate(episodes):
        if not isinstance(episode, GridEpisode):
            raise TypeError(f"episodes[{n}] is a {type(episode).__name__}; a GridEpisode is due")
    return [columns_of(f"episodes[{n}]", episode) for n, episode in enumerate(episodes)]
