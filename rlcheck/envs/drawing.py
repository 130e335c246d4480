"""The key-door grid as text, as pixels, and as a figure."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcheck._inputs import real_array, refuse_where
from rlcheck.envs.keydoor_grid import (
    DOOR,
    GOAL,
    HEIGHT,
    KEY,
    LAYOUT,
    MOVES,
    STARTS,
    TRAPS,
    WALLS,
    WIDTH,
    Cell,
    GridState,
    grid_tables,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["grid_picture", "grid_text", "plot_grid"]

CELL = 24  # pixels
COLORS = {
    "floor": "#f5f2ea",
    "start": "#e3ecd8",
    "wall": "#3d4451",
    "trap": "#c8553d",
    "key": "#e6b422",
    "door": "#8a5a2b",
    "goal": "#3f8f5b",
    "agent": "#2b5fa6",
}


def grid_text(state: GridState) -> str:
    """The grid as text, @ for the agent; the key is gone once it is taken."""
    lines = [list(line.replace("s", ".")) for line in LAYOUT]
    if state.has_key:
        lines[KEY[0]][KEY[1]] = "."
    lines[state.row][state.column] = "@"
    with_key = "with the key" if state.has_key else "without the key"
    return "\n".join(" ".join(line) for line in lines) + f"\n{with_key}"


def grid_picture(state: GridState) -> NDArray[np.uint8]:
    """[24 H, 24 W, 3] the grid in colours; the agent carries the key as a dot."""
    picture = np.zeros((HEIGHT * CELL, WIDTH * CELL, 3), np.uint8)
    for row in range(HEIGHT):
        for column in range(WIDTH):
            _fill(picture, (row, column), _rgb(_kind((row, column), state.has_key)), margin=0)
    picture[::CELL] = picture[:, ::CELL] = _rgb_of("#d8d3c6")
    _fill(picture, state.cell, _rgb("agent"), margin=5)
    if state.has_key:
        _fill(picture, state.cell, _rgb("key"), margin=9)
    return picture


def _kind(cell: Cell, has_key: bool) -> str:
    for kind, places in (
        ("wall", WALLS),
        ("trap", TRAPS),
        ("door", (DOOR,)),
        ("goal", (GOAL,)),
        ("key", () if has_key else (KEY,)),
        ("start", STARTS),
    ):
        if cell in places:
            return kind
    return "floor"


def _rgb(kind: str) -> tuple[int, int, int]:
    return _rgb_of(COLORS[kind])


def _rgb_of(color: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(color[1:])
    return red, green, blue


def _fill(picture: NDArray[np.uint8], cell: Cell, color: tuple[int, int, int], margin: int) -> None:
    top, left = cell[0] * CELL, cell[1] * CELL
    picture[top + margin : top + CELL - margin, left + margin : left + CELL - margin] = color


def plot_grid(
    ax: "Axes | None" = None,
    *,
    values: ArrayLike | None = None,
    policy: ArrayLike | None = None,
    path: Iterable[Cell] | None = None,
    has_key: bool = False,
    labels: dict[str, str] | None = None,
) -> "Axes":
    """Draw the grid with matplotlib.

    Args:
        ax: where to draw; None makes a new figure.
        values: [S] numbers to colour the cells by, in the order of `grid_tables().states`.
        policy: [S, 4] numbers in [0, 1], drawn as arrows: probabilities, or 1 for each action of a
            set.
        path: cells that an episode went through, drawn as a line.
        has_key: whether `values` and `policy` are shown with the key or without it.
        labels: texts for "key", "door", "goal", "trap" and "start"; by default K, D, G, T and S.

    Returns:
        The axes.

    Raises:
        ValueError: a shape is wrong, a number is out of range, a label is for something else, or a
            cell of the path is outside the grid.
        TypeError: `has_key` is no boolean.
    """
    import matplotlib.pyplot as plt

    count = len(grid_tables().states)
    heights = None if values is None else real_array("values", values, shape=(count,))
    chances = None if policy is None else real_array("policy", policy, shape=(count, len(MOVES)))
    if chances is not None:
        refuse_where("policy", chances, (chances < 0) | (chances > 1), "in [0, 1]")
    if not isinstance(has_key, bool | np.bool_):
        raise TypeError(f"has_key is {has_key!r}; True or False is due")
    texts = _texts(labels)
    way = _way(path)
    axes: Any = plt.subplots(figsize=(4.2, 4.2), layout="constrained")[1] if ax is None else ax
    _draw_cells(axes, has_key, texts if heights is None else {**texts, "start": ""})
    live = [
        (number, state)
        for number, state in enumerate(grid_tables().states)
        if state.has_key == has_key and not grid_tables().terminal[number]
    ]
    if heights is not None:
        _color_cells(axes, heights, live)
    if chances is not None:
        _draw_arrows(axes, chances, live)
    if len(way):
        rows, columns = way.T
        axes.plot(columns, rows, color=COLORS["agent"], linewidth=2.5, marker="o", markersize=4)
    return axes  # type: ignore[no-any-return]


def _texts(labels: dict[str, str] | None) -> dict[str, str]:
    texts = {"key": "K", "door": "D", "goal": "G", "trap": "T", "start": "S"}
    unknown = [name for name in labels or {} if name not in texts]
    if unknown:
        raise ValueError(f"labels holds {unknown}; only {', '.join(texts)} have one")
    return texts | (labels or {})


def _way(path: Iterable[Cell] | None) -> NDArray[np.float64]:
    """[T, 2] the cells of a path."""
    cells = real_array("path", () if path is None else list(path))
    if cells.size and (cells.ndim != 2 or cells.shape[1] != 2):
        raise ValueError(f"path has shape {cells.shape}; it must be [T, 2]")
    outside = (cells < 0) | (cells >= (HEIGHT, WIDTH)) if cells.size else np.zeros(0, np.bool_)
    refuse_where("path", cells, outside, "inside the grid")
    return cells


def _draw_cells(axes: Any, has_key: bool, texts: dict[str, str]) -> None:
    kinds = {cell: _kind(cell, has_key) for cell in np.ndindex(HEIGHT, WIDTH)}
    axes.imshow(np.reshape([_rgb(kind) for kind in kinds.values()], (HEIGHT, WIDTH, 3)))
    axes.set_xticks(np.arange(WIDTH + 1) - 0.5, [])
    axes.set_yticks(np.arange(HEIGHT + 1) - 0.5, [])
    axes.grid(color="#d8d3c6", linewidth=0.8)
    axes.tick_params(length=0)
    for (row, column), kind in kinds.items():
        if kind in texts:
            axes.text(column, row, texts[kind], ha="center", va="center", weight="bold")


def _color_cells(
    axes: Any, values: NDArray[np.float64], states: list[tuple[int, GridState]]
) -> None:
    heights = np.full((HEIGHT, WIDTH), np.nan)
    for number, state in states:
        heights[state.cell] = values[number]
    image = axes.imshow(heights, cmap="viridis", alpha=0.85)
    axes.figure.colorbar(image, ax=axes, shrink=0.75)


def _draw_arrows(
    axes: Any, policy: NDArray[np.float64], states: list[tuple[int, GridState]]
) -> None:
    for number, state in states:
        for (down, right), chance in zip(MOVES, policy[number], strict=True):
            if chance > 0.05:
                axes.annotate(
                    "",
                    xy=(state.column + 0.38 * right, state.row + 0.38 * down),
                    xytext=(state.column, state.row),
                    arrowprops={"arrowstyle": "->", "alpha": float(np.clip(chance, 0.15, 1.0))},
                )
