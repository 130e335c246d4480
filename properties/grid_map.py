"""The key-door grid as a map of text, walked without its tables: the truth of the grid's laws.

A position is an index into the map's text, walls all around, and a step moves by one or by a row.
"""

from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

MAP = """
#########
#...#..G#
#.K.#.T.#
#..s#...#
#.T.D...#
#s..#.T.#
#..s#...#
#s..#...#
#########
"""
LINE = len("#########\n")
DELTAS = (-LINE, 1, LINE, -1)  # up, right, down, left
UP, RIGHT, DOWN, LEFT = range(4)
STEP_LIMIT = 60

Cell = tuple[int, int]


class Place(NamedTuple):
    """A position on the map, and whether the key is had."""

    position: int
    has_key: bool = False

    @property
    def tile(self) -> str:
        return MAP[self.position]

    @property
    def cell(self) -> Cell:
        """(row, column), from (0, 0) at the top left."""
        row, column = divmod(self.position - 1, LINE)
        return row - 1, column - 1

    @property
    def over(self) -> bool:
        return self.tile in "TG"

    def closed(self, action: int) -> bool:
        """Whether a wall, the border or the shut door is in the way."""
        ahead = MAP[self.position + DELTAS[action]]
        return ahead == "#" or (ahead == "D" and not self.has_key)

    def after(self, action: int) -> "Place":
        if self.closed(action):
            return self
        position = self.position + DELTAS[action]
        return Place(position, self.has_key or MAP[position] == "K")


def tiles(symbol: str) -> list[Cell]:
    """The cells with a symbol, row by row."""
    return [Place(i).cell for i, found in enumerate(MAP) if found == symbol]


STARTS = tiles("s")
START_PLACES = [Place(i) for i, found in enumerate(MAP) if found == "s"]


def breadth_first(first: Place) -> Iterator[tuple[Place, tuple[int, ...]]]:
    """Every place that can be reached, and a shortest way to it, nearest first."""
    ways: dict[Place, tuple[int, ...]] = {first: ()}
    waiting = deque([first])
    while waiting:
        place = waiting.popleft()
        yield place, ways[place]
        for action in range(0 if place.over else 4):
            after = place.after(action)
            if after not in ways:
                ways[after] = (*ways[place], action)
                waiting.append(after)


@cache
def shortest_way(first: Place, symbol: str) -> tuple[int, ...]:
    """The actions of a shortest way to a tile with a symbol; none if there is no way to one."""
    return next((way for place, way in breadth_first(first) if place.tile == symbol), ())


def walk(first: Place, actions: tuple[int, ...]) -> list[Place]:
    """The places after each action, up to the first that ends the task."""
    places: list[Place] = []
    for action in actions:
        place = (places or [first])[-1]
        if place.over:
            break
        places.append(place.after(action))
    return places


def text(place: Place) -> str:
    """What the mode "ansi" shows."""
    drawn = list(MAP.replace("s", ".").replace("K", "." if place.has_key else "K"))
    drawn[place.position] = "@"
    rows = "".join(drawn).split()[1:-1]
    grid = "\n".join(" ".join(row[1:-1]) for row in rows)
    return f"{grid}\n{'with' if place.has_key else 'without'} the key"
