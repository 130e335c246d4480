"""Exploration by counts: it is worth a detour to find out what an action does."""

import numpy as np
from numpy.typing import NDArray

from rlcheck._inputs import Floats, integer, unit_interval

__all__ = ["CountedExploration"]


class CountedExploration:
    """How near the next action is that was taken too seldom to be known.

    U(s, a) = 1                             where (s, a) was taken fewer than m times,
              γ (1 − d) max_a' U(s', a')    elsewhere, with what (s, a) last led to

    An agent that acts on Q + c U walks to what it does not know, learns Q from the rewards alone,
    and acts on Q once everything within reach is known: then U is 0. The two tables are over
    states and actions, so this is for tasks with few of them in which an action has one outcome.

    Args:
        states: S ≥ 1, how many there are.
        actions: A ≥ 1.
        known: m ≥ 1.
        gamma: how much less a detour is worth for each step it takes, in [0, 1).

    Raises:
        ValueError: a number is out of range; the text names it.

    Reference:
        Brafman and Tennenholtz (2002), R-MAX: a general polynomial time algorithm for near-optimal
        reinforcement learning.
    """

    def __init__(self, states: int, actions: int, *, known: int = 1, gamma: float = 0.95) -> None:
        shape = integer("states", states, minimum=1), integer("actions", actions, minimum=1)
        self.known, self.gamma = integer("known", known, minimum=1), unit_interval("gamma", gamma)
        if self.gamma == 1:
            raise ValueError("gamma is 1; it must be < 1, or all detours are worth the same")
        self.counts = np.zeros(shape, np.int64)  # [S, A]
        self.values: Floats = np.ones(shape)  # [S, A] U
        self._next_state = np.zeros(shape, np.intp)
        self._terminal: NDArray[np.bool_] = np.zeros(shape, np.bool_)

    def observe(self, state: int, action: int, next_state: int, terminal: bool) -> None:
        """Count a step, remember what it led to, and pass the news on by one step everywhere."""
        self.counts[state, action] += 1
        self._next_state[state, action] = next_state
        self._terminal[state, action] = terminal
        following = self.values.max(axis=1)[self._next_state]  # [S, A]
        detour = self.gamma * np.where(self._terminal, 0.0, following)
        self.values = np.where(self.counts < self.known, 1.0, detour)
