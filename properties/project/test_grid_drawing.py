"""The key-door grid is drawn: every option shows something of its own, bad ones are refused."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt

from rlcheck.envs import plot_grid
from rlcheck.envs.drawing import grid_picture
from rlcheck.envs.keydoor_grid import GridState, grid_tables
from rlcheck.envs.keydoor_grid_solution import solve_grid, uniform_policy

plt.switch_backend("Agg")  # pixels, wherever the tests run

STATES = len(grid_tables().states)
PATH = [(6, 0), (5, 0), (5, 1)]
OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "values": {"values": solve_grid().values},
    "policy": {"policy": solve_grid().policy},
    "uniform policy": {"policy": uniform_policy()},
    "both": {"values": solve_grid().values, "policy": solve_grid().policy},
    "path": {"path": PATH},
    "key": {"has_key": True},
    "both with the key": {
        "values": solve_grid().values,
        "policy": solve_grid().policy,
        "has_key": True,
    },
    "labels": {"labels": {"goal": "home", "start": ""}},
}


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def drawn(**options: Any) -> bytes:
    """The pixels of a figure."""
    canvas = plot_grid(**options).figure.canvas
    canvas.draw()
    return bytes(canvas.buffer_rgba())


def texts(axes: Any) -> set[str]:
    return {text.get_text() for text in axes.texts if text.get_text()}


def test_every_option_shows_something_of_its_own() -> None:
    looks = {name: drawn(**options) for name, options in OPTIONS.items()}
    assert len(set(looks.values())) == len(OPTIONS)


def test_it_draws_where_it_is_told_to_and_makes_no_other_figure() -> None:
    _, axes = plt.subplots()
    assert plot_grid(axes) is axes
    assert plt.get_fignums() == [1]
    assert plot_grid() is not axes
    assert plt.get_fignums() == [1, 2]


def test_labels_stand_where_things_are() -> None:
    assert texts(plot_grid()) == {"K", "D", "G", "T", "S"}
    assert texts(plot_grid(has_key=True)) == {"D", "G", "T", "S"}
    assert texts(plot_grid(labels={"goal": "home"})) == {"K", "D", "home", "T", "S"}
    (goal,) = (text for text in plot_grid().texts if text.get_text() == "G")
    assert goal.get_position() == (6, 0)


def test_a_path_is_a_line_through_its_cells() -> None:
    (line,) = plot_grid(path=iter(PATH)).lines
    assert line.get_xydata().tolist() == [[0, 6], [0, 5], [1, 5]]
    (line,) = plot_grid(path=np.array(PATH)).lines
    assert line.get_xydata().tolist() == [[0, 6], [0, 5], [1, 5]]
    assert not plot_grid(path=[]).lines
    assert not plot_grid(path=np.zeros((0, 2))).lines


def test_a_set_of_actions_is_drawn_as_a_policy_is() -> None:
    assert drawn(policy=(solve_grid().policy > 0).astype(float)) != drawn()
    with pytest.raises(TypeError, match="has_key is 'no'"):
        plot_grid(has_key="no")  # type: ignore[arg-type]


def test_values_colour_the_cells_that_the_key_tells() -> None:
    values = np.arange(STATES, dtype=float)
    for has_key in (False, True):
        heights = plot_grid(values=values, has_key=has_key).images[1].get_array()
        live = {
            state.cell: number
            for number, state in enumerate(grid_tables().states)
            if state.has_key == has_key and not grid_tables().terminal[number]
        }
        assert {c: heights[c] for c in np.ndindex(7, 7) if np.isfinite(heights[c])} == live


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"values": np.zeros(STATES - 1)}, r"values has shape \(83,\)"),
        ({"values": np.full(STATES, np.nan)}, r"values\[0\] is nan"),
        ({"policy": np.zeros((STATES, 3))}, r"policy has shape \(84, 3\)"),
        ({"policy": np.full((STATES, 4), 9.0)}, r"policy\[0, 0\] is 9.0"),
        ({"policy": np.full((STATES, 4), -9.0)}, r"policy\[0, 0\] is -9.0"),
        ({"path": [(6, 0), (7, 0)]}, r"path\[1, 0\] is 7"),
        ({"path": [(6, 0), (-1, 0)]}, r"path\[1, 0\] is -1"),
        ({"path": [6, 0]}, r"path has shape \(2,\)"),
        ({"labels": {"keys": "K"}}, r"labels holds \['keys'\]"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        plot_grid(**wrong)
    assert plt.get_fignums() == []


def test_pictures_of_different_states_differ() -> None:
    live = [s for s in grid_tables().states if s != GridState(0, 0, True)]
    looks = {grid_picture(state).tobytes() for state in live}
    assert len(looks) == len(live) == 83


def test_the_agent_carries_the_key() -> None:
    middles = [grid_picture(GridState(2, 2, has_key))[60, 60].tolist() for has_key in (False, True)]
    assert middles[0] != middles[1]
