"""Steps of episodes that are drawn, and written to a buffer or a dataset one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from hypothesis import strategies as st

__all__ = ["Case", "Step", "cases"]

ENDINGS = ("terminated", "truncated")


class Step(NamedTuple):
    """One written step; each state has a number of its own, and an episode begins in a new one."""

    number: int
    observation: float
    reward: int
    next_observation: float
    terminated: bool
    truncated: bool

    @property
    def ends(self) -> bool:
        """Whether its episode ends."""
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Case:
    """Episodes that are written one after the other, as (rewards, how it ends)."""

    episodes: tuple[tuple[tuple[int, ...], str], ...]
    n: int = 1
    gamma: float = 0.5
    room: int = 0  # for steps beyond those that are written

    @cached_property
    def steps(self) -> list[Step]:
        """All steps in the order of writing."""
        found: list[Step] = []
        state = 1.0
        for rewards, ending in self.episodes:
            for place, reward in enumerate(rewards, start=1):
                last = ending if place == len(rewards) else ""
                flags = last in ("terminated", "both"), last in ("truncated", "both")
                found.append(Step(len(found), state, reward, state + 1, *flags))
                state += 1
            state += 1
        return found

    @property
    def longest(self) -> int:
        """Steps of the longest episode."""
        return max(len(rewards) for rewards, _ in self.episodes)

    def whole(self, start: int) -> list[Step]:
        """The steps from one on: n, or to the end of its episode, or to the newest."""
        steps = self.steps[start : start + self.n]
        end = next((i for i, step in enumerate(steps, start=1) if step.ends), self.n)
        return steps[:end]


def _case(
    episodes: list[tuple[tuple[int, ...], str]], goes_on: bool, n: int, gamma: float, room: int
) -> Case:
    if goes_on:
        episodes = [*episodes[:-1], (episodes[-1][0], "going on")]
    shortest = min(len(rewards) for rewards, _ in episodes)
    return Case(tuple(episodes), min(n, shortest), gamma, room)


def cases(
    shortest: int = 2, longest: int = 5, endings: Sequence[str] = ENDINGS, goes_on: bool = True
) -> st.SearchStrategy[Case]:
    """Two to four episodes; n is at most the steps of the shortest one.

    Args:
        shortest: steps of an episode, at least.
        longest: steps of an episode, at most.
        endings: how they end, all but the last, which may go on.
        goes_on: whether it may.
    """
    rewards = st.lists(st.integers(-8, 8), min_size=shortest, max_size=longest).map(tuple)
    episodes = st.lists(st.tuples(rewards, st.sampled_from(list(endings))), min_size=2, max_size=4)
    gamma = st.sampled_from([0.5, 0.75])
    last = st.booleans() if goes_on else st.just(False)
    return st.builds(_case, episodes, last, st.integers(1, 3), gamma, st.integers(0, 3))
