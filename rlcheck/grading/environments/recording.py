"""Plays of an environment, and what it answered, kept as it was at that moment."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rlcheck.grading.calls import identical
from rlcheck.grading.compare import Mismatch

__all__ = ["Moment", "Play", "action_of", "assert_same", "is_flag", "moments", "plays"]


@dataclass(frozen=True)
class Play:
    """A seed, and codes of actions that are taken in turns for `length` steps."""

    seed: int
    codes: tuple[int, ...]
    length: int

    def actions(self, space: Any) -> list[Any]:
        """The actions in a space."""
        known = [action_of(space, code) for code in self.codes]
        return [copy.deepcopy(known[t % len(known)]) for t in range(self.length)]


@dataclass(frozen=True)
class Moment:
    """What a reset or a step answered: as it was, and the objects themselves."""

    observation: Any
    info: Any
    reward: Any = None  # of a reset None, and so are the flags
    terminated: Any = None
    truncated: Any = None
    objects: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, observation: Any, *rest: Any) -> "Moment":
        """The moment of an answer, (observation, info) or the five of a step."""
        *paid, info = rest
        objects = (observation, info, *paid)
        reward, terminated, truncated = copy.deepcopy(paid) if paid else (None, None, None)
        kept = copy.deepcopy(observation), copy.deepcopy(info)
        return cls(*kept, reward, terminated, truncated, objects)

    @property
    def shown(self) -> tuple[Any, ...]:
        """All but the info."""
        return self.observation, self.reward, self.terminated, self.truncated

    @property
    def over(self) -> bool:
        return bool(self.terminated or self.truncated)


def action_of(space: Any, code: int) -> Any:
    """The action that a code stands for in a space, always the same one."""
    space = copy.deepcopy(space)
    space.seed(code)
    return space.sample()


def plays(length: int = 30) -> st.SearchStrategy[Play]:
    """Plays of up to `length` steps; those of one step with code 0 are the smallest."""
    codes = st.lists(st.integers(0, 99), min_size=1, max_size=6).map(tuple)
    return st.builds(Play, st.integers(0, 2**31 - 1), codes, st.integers(1, length))


def moments(environment: Any, play: Play) -> Iterator[Moment]:
    """A seeded reset and the steps of a play; an end is followed by a reset without a seed."""
    yield Moment.of(*environment.reset(seed=play.seed))
    over = False
    for action in play.actions(environment.action_space):
        if over:
            yield Moment.of(*environment.reset())
        moment = Moment.of(*environment.step(action))
        over = moment.over
        yield moment


def assert_same(text: str, expected: Any, got: Any) -> None:
    """Two lists of moments, or of parts of them, are the same, bit for bit."""
    for index, (one, other) in enumerate(zip(expected, got, strict=False)):
        if not identical(one, other):
            raise Mismatch(f"{text}, at moment {index}", expected=one, got=other)
    if len(expected) != len(got):
        raise Mismatch(f"{text}: the number of moments", expected=len(expected), got=len(got))


def is_flag(value: Any) -> bool:
    """Whether a value is a boolean of Python or of NumPy."""
    return isinstance(value, bool | np.bool_)
