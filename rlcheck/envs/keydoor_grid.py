"""A grid with a key, a door, traps and a goal: fully observed, deterministic, solved exactly.

    . . . # . . G      # wall, T trap, K key, D door, G goal, s start
    . K . # . T .
    . . s # . . .      Cells are (row, column), from (0, 0) at the top left.
    . T . D . . .
    s . . # . T .
    . . s # . . .
    s . . # . . .

Take the key by stepping on it, pass the door, which is shut without the key, and reach the goal.
The rules are tables over all states; the environment, its vectorised form and the exact solution
read the same ones.
"""

import operator
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from rlcheck._inputs import checked_seed, integer

__all__ = ["ACTION_NAMES", "GridState", "GridTables", "KeyDoorGrid", "grid_tables"]

LAYOUT = (
    "...#..G",
    ".K.#.T.",
    "..s#...",
    ".T.D...",
    "s..#.T.",
    "..s#...",
    "s..#...",
)
ACTION_NAMES = ("up", "right", "down", "left")
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
STEP_REWARD, GOAL_REWARD, TRAP_REWARD = -0.01, 1.0, -1.0
STEP_LIMIT = 60

Cell = tuple[int, int]


def cells(symbol: str) -> tuple[Cell, ...]:
    """The cells of the layout that carry a symbol, row by row."""
    return tuple(
        (row, column)
        for row, line in enumerate(LAYOUT)
        for column, found in enumerate(line)
        if found == symbol
    )


HEIGHT, WIDTH = len(LAYOUT), len(LAYOUT[0])
WALLS, TRAPS, STARTS = cells("#"), cells("T"), cells("s")
(KEY,), (DOOR,), (GOAL,) = cells("K"), cells("D"), cells("G")


class GridState(NamedTuple):
    """Where the agent stands, and whether it has the key."""

    row: int
    column: int
    has_key: bool

    @property
    def cell(self) -> Cell:
        """(row, column)."""
        return self.row, self.column


class GridTables(NamedTuple):
    """The rules over S states, in the order of `states`; terminal states stay where they are."""

    states: tuple[GridState, ...]
    next_state: NDArray[np.intp]  # [S, 4]
    reward: NDArray[np.float64]  # [S, 4]
    terminal: NDArray[np.bool_]  # [S] traps and the goal
    observation: NDArray[np.float32]  # [S, D]
    start: NDArray[np.intp]  # [starts]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles of the grid's own tables are the tables themselves, read-only."""
        return (grid_tables, ()) if self is grid_tables() else (type(self), tuple(self))


@cache
def grid_tables() -> GridTables:
    """The rules as arrays; not to be written to."""
    free = [
        (row, column)
        for row in range(HEIGHT)
        for column in range(WIDTH)
        if (row, column) not in WALLS
    ]
    # Without the key one is never in the door or on the key's cell.
    states = [GridState(*cell, False) for cell in free if cell not in (KEY, DOOR)]
    states += [GridState(*cell, True) for cell in free]
    index = {state: number for number, state in enumerate(states)}
    after = [[_move(state, move) for move in MOVES] for state in states]
    terminal = np.array([state.cell in (*TRAPS, GOAL) for state in states])
    next_state = np.array([[index[state] for state in row] for row in after])
    reward = np.array([[_reward(state.cell) for state in row] for row in after])
    next_state[terminal] = np.flatnonzero(terminal)[:, np.newaxis]
    reward[terminal] = 0.0
    tables = GridTables(
        tuple(states),
        next_state,
        reward,
        terminal,
        np.array([_observation(state) for state in states]),
        np.array([index[GridState(*cell, False)] for cell in STARTS]),
    )
    for array in tables[1:]:
        array.setflags(write=False)
    return tables


def _move(state: GridState, move: tuple[int, int]) -> GridState:
    row, column = cell = state.row + move[0], state.column + move[1]
    outside = not (0 <= row < HEIGHT and 0 <= column < WIDTH)
    if outside or cell in WALLS or (cell == DOOR and not state.has_key):
        return state
    return GridState(row, column, state.has_key or cell == KEY)


def _reward(cell: Cell) -> float:
    if cell == GOAL:
        return STEP_REWARD + GOAL_REWARD
    return STEP_REWARD + (TRAP_REWARD if cell in TRAPS else 0.0)


def _observation(state: GridState) -> NDArray[np.float32]:
    """[D] the row, the column (one unit each), and the key."""
    seen = np.zeros(HEIGHT + WIDTH + 1, np.float32)
    seen[[state.row, HEIGHT + state.column]] = 1.0
    seen[-1] = state.has_key
    return seen


class KeyDoorGrid(gym.Env[NDArray[np.float32], np.int64]):
    """The grid as a Gymnasium environment.

    Every step costs 0.01; the goal pays 1 and a trap −1 besides, and both terminate. After 60 steps
    the episode is truncated: the limit is not part of the task, and the value bootstraps. A step
    that reaches the goal or a trap as its 60th terminates only.

    An observation is [15]: the row and the column as units, and 1 with the key.

    Args:
        seed: seeds the first reset, unless that brings a seed of its own.
        step_limit: steps after which an episode is truncated, ≥ 1.
        render_mode: "ansi" for text, "rgb_array" for a picture, or None.

    Raises:
        ValueError: the limit or the mode is not one; the text names it and its value.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012  Gymnasium's
    ACTION_NAMES = ACTION_NAMES
    width, height = WIDTH, HEIGHT
    wall_positions, trap_positions, start_positions = WALLS, TRAPS, STARTS
    key_position, door_position, goal_position = KEY, DOOR, GOAL
    observation_dim, action_dim = HEIGHT + WIDTH + 1, len(ACTION_NAMES)

    def __init__(
        self, seed: int | None = None, step_limit: int = STEP_LIMIT, render_mode: str | None = None
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode is {render_mode!r}; it must be None, 'ansi' or 'rgb_array'"
            )
        self.step_limit = count("step_limit", step_limit)
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(self.action_dim)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (self.observation_dim,), np.float32)
        self._tables = grid_tables()
        self._seed = checked_seed(seed)
        self._state: int | None = None
        self._steps = 0
        self._over = False

    @property
    def state(self) -> GridState:
        """Where the agent is."""
        if self._state is None:
            raise ResetNeeded("reset() must be called before there is a state")
        return self._tables.states[self._state]

    def reset(
        self,
        *,
        start: Cell | None = None,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode.

        Args:
            start: one of `start_positions`; None draws one.
            seed: seeds the draws of this and the following episodes; None goes on drawing.
            options: {"start": cell} asks for a start as `start` does, through wrappers.

        Returns:
            (observation [15], info), with the GridState as info["state"].

        Raises:
            ValueError: the start is none, an option is unknown, or both ask for different starts.
        """
        if start is not None and not is_start(start):
            raise ValueError(f"start is {start!r}; it must be one of {STARTS}")
        asked = asked_start(options)
        if asked is not None and not is_start(asked):
            raise ValueError(f"options asks for start {asked!r}; it must be one of {STARTS}")
        if start is not None:
            if asked is not None and tuple(asked) != tuple(start):
                raise ValueError(f"start is {start!r}, but options asks for {asked!r}")
            asked = start
        super().reset(seed=self._seed if seed is None else checked_seed(seed))
        self._seed = None
        drawn = int(self.np_random.integers(len(STARTS)))
        chosen = drawn if asked is None else STARTS.index(tuple(asked))
        self._state = int(self._tables.start[chosen])
        self._steps, self._over = 0, False
        return self._observe(), {"state": self.state}

    def step(
        self, action: int | np.int64
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one step.

        Args:
            action: 0 up, 1 right, 2 down, 3 left; a move into a wall, the border or the shut door
                goes nowhere.

        Returns:
            (observation [15], reward, terminated, truncated, info); info has `state`, `success`,
            and `stop_reason`: "goal", "trap", "timeout", or None while the episode goes on.

        Raises:
            gymnasium.error.ResetNeeded: no episode has begun, or it is over.
            ValueError: the action is none of the four, or a boolean.
        """
        if self._state is None or self._over:
            raise ResetNeeded("the episode is over, or none has begun: call reset() before step()")
        move = _action(action)
        reward = float(self._tables.reward[self._state, move])
        self._state = int(self._tables.next_state[self._state, move])
        self._steps += 1
        terminated = bool(self._tables.terminal[self._state])
        truncated = self._steps >= self.step_limit and not terminated
        self._over = terminated or truncated
        success = self.state.cell == GOAL
        reason = "goal" if success else "trap" if terminated else "timeout" if truncated else None
        info = {"state": self.state, "success": success, "stop_reason": reason}
        return self._observe(), reward, terminated, truncated, info

    def _observe(self) -> NDArray[np.float32]:
        return self._tables.observation[self._state].copy()

    def render(self) -> Any:
        """The grid as text, as a picture [H, W, 3] of bytes, or None without a mode."""
        if self.render_mode is None:
            return None
        from rlcheck.envs.drawing import grid_picture, grid_text

        return (grid_text if self.render_mode == "ansi" else grid_picture)(self.state)


def count(name: str, value: Any) -> int:
    """An integer ≥ 1, and no boolean."""
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value}; it must be an integer ≥ 1")
    return integer(name, value, minimum=1)


def asked_start(options: dict[str, Any] | None) -> Any:
    """What the options of a reset ask for as the start; None if nothing."""
    unknown = [name for name in options or {} if name != "start"]
    if unknown:
        raise ValueError(f"options holds {unknown}; only 'start' is known")
    return (options or {}).get("start")


def is_start(cell: Any) -> bool:
    try:
        return tuple(cell) in STARTS
    except (TypeError, ValueError):  # no cell at all; rows of arrays
        return False


def _action(action: Any) -> int:
    try:
        move = -1 if isinstance(action, bool) else operator.index(action)
    except TypeError:
        move = -1
    if not 0 <= move < len(MOVES):
        raise ValueError(f"action is {action!r}; it must be an integer from 0 to {len(MOVES) - 1}")
    return move
