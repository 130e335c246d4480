"""Grids with a mistake each, which the laws of the key-door grid must notice.

A description completes the sentence "It behaves as if it …".
"""

import functools
import random
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from properties.alternatives.wrong_environments import Wrong, declaring
from properties.alternatives.wrong_habits import declare_habits
from properties.environments import Answer
from rlcheck.envs.drawing import grid_text
from rlcheck.envs.keydoor_grid import (
    DOOR,
    GOAL,
    KEY,
    MOVES,
    STARTS,
    TRAPS,
    WALLS,
    GridState,
    KeyDoorGrid,
    grid_tables,
)

WRONG: list[Wrong] = []
wrong = declaring(WRONG)
as_reset = functools.wraps(KeyDoorGrid.reset)  # which Gymnasium's checker reads
STATES = grid_tables().states
INDEX = {state: number for number, state in enumerate(STATES)}


class Altered(KeyDoorGrid):
    """A grid whose answers are altered on their way out."""

    def alter(self, answer: Answer) -> Answer:
        return answer

    def step(self, action):
        return tuple(self.alter(Answer(*super().step(action))))


class Tabled(KeyDoorGrid):
    """A grid with other tables."""

    changes: ClassVar[dict[str, Any]]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._tables = self._tables._replace(**self.changes)


def leading(rule: Any) -> Any:
    """The table of next states with what a rule says of (state, action, next) in its place."""
    table = grid_tables().next_state.copy()
    for number, state in enumerate(STATES):
        if not grid_tables().terminal[number]:
            for action in range(4):
                after = rule(state, action, STATES[table[number, action]])
                table[number, action] = INDEX[after]
    return table


def ahead(state: GridState, action: int) -> tuple[int, int]:
    """The cell that an action is directed at."""
    return state.row + MOVES[action][0], state.column + MOVES[action][1]


def paying(changes: dict[tuple[int, int], float]) -> Any:
    """The table of rewards with others for steps that lead to some cells."""
    table = grid_tables().reward.copy()
    for number in np.flatnonzero(~grid_tables().terminal):
        for action in range(4):
            cell = STATES[grid_tables().next_state[number, action]].cell
            table[number, action] = changes.get(cell, table[number, action])
    return table


# Ends


@wrong("ends the task where the limit cuts it")
class LimitTerminates(Altered):
    def alter(self, answer):
        return answer._replace(terminated=answer.over, truncated=False)


@wrong("sets both flags where the goal or a trap is reached as the limit is")
class BothFlagsOnATie(Altered):
    def alter(self, answer):
        return answer._replace(truncated=self._steps >= self.step_limit)


@wrong("lets the limit go before an end on the same step", report="openai/spinningup#233")
class LimitBeforeEnd(Altered):
    def alter(self, answer):
        if self._steps < self.step_limit:
            return answer
        return answer._replace(terminated=False, truncated=True)


@wrong("calls the goal a truncation")
class GoalTruncates(Altered):
    def alter(self, answer):
        goal = answer.info["success"]
        return answer._replace(terminated=False, truncated=True) if goal else answer


@wrong("allows one step more than the limit")
class LimitOffByOne(KeyDoorGrid):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.step_limit += 1


@wrong("cuts after 100 steps where no limit is told")
class DefaultLimit(KeyDoorGrid):
    def __init__(self, seed=None, step_limit=100, render_mode=None):
        super().__init__(seed, step_limit, render_mode)


@wrong("cuts by the 60th step, whatever the limit")
class LimitCapped(KeyDoorGrid):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.step_limit = min(self.step_limit, 60)


@wrong("counts steps in eight bits")
class ClockOfEightBits(Altered):
    def alter(self, answer):
        self._steps = int(np.array(self._steps).astype(np.int8))
        return answer


@wrong("gives the time as the reason for a trap on the last step")
class TrapOnTheLimitIsTime(Altered):
    def alter(self, answer):
        late = answer.terminated and self._steps >= self.step_limit
        timed = late and not answer.info["success"]
        return answer.informing(stop_reason="timeout") if timed else answer


@wrong("never cuts an episode")
class NoLimit(KeyDoorGrid):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.step_limit = 10**9


@wrong("drops the reason of a cut", report="OpenRLHF/OpenRLHF#1327")
class CutWithoutReason(Altered):
    def alter(self, answer):
        return answer.informing(stop_reason=None) if answer.truncated else answer


@wrong("calls every termination a success")
class EveryEndSucceeds(Altered):
    def alter(self, answer):
        return answer.informing(success=answer.terminated)


@wrong("calls a trap a timeout")
class TrapIsTimeout(Altered):
    def alter(self, answer):
        trap = answer.info["stop_reason"] == "trap"
        return answer.informing(stop_reason="timeout") if trap else answer


@wrong("goes on from a trap")
class TrapsGoOn(Tabled):
    changes: ClassVar = {"terminal": np.array([state.cell == GOAL for state in STATES])}


@wrong("needs the key in hand at a trap to end there")
class TrapsEndWithTheKey(Tabled):
    changes: ClassVar = {
        "terminal": np.array([s.cell == GOAL or (s.cell in TRAPS and s.has_key) for s in STATES])
    }


# Steps outside an episode, and resets


@wrong("answers an end with the next episode's start", report="pytorch/rl#3771")
class AnswersWithTheNextStart(Altered):
    def alter(self, answer):
        begun = grid_tables().observation[grid_tables().start[0]].copy()
        return answer._replace(observation=begun) if answer.over else answer


@wrong("keeps the key when it is reset")
class KeyKept(KeyDoorGrid):
    @as_reset
    def reset(self, **asked):
        had = self._state is not None and self.state.has_key
        observation, info = super().reset(**asked)
        self._state = INDEX[self.state._replace(has_key=had)]
        return observation, info


@wrong("begins with the key where a start is asked for")
class KeyGiven(KeyDoorGrid):
    @as_reset
    def reset(self, *, start=None, **asked):
        super().reset(start=start, **asked)
        self._state = INDEX[self.state._replace(has_key=start is not None)]
        return self._observe(), {"state": self.state}


@wrong("goes on with an episode that has not ended when it is reset")
class ResetGoesOn(KeyDoorGrid):
    @as_reset
    def reset(self, **asked):
        left, over = self._state, self._over
        begun = super().reset(**asked)
        if left is not None and not over:
            self._state = left
        return begun


# Seeds and starts


@wrong("draws starts from the generator that the whole program shares")
class SharedGenerator(KeyDoorGrid):
    @as_reset
    def reset(self, *, start=None, options=None, **asked):
        drawn = random.choice(STARTS)
        start = drawn if start is None and not options else start
        return super().reset(start=start, options=options)


@wrong("never draws the last start")
class LastStartLeftOut(KeyDoorGrid):
    @as_reset
    def reset(self, *, start=None, options=None, seed=None):
        begun = super().reset(start=start, options=options, seed=seed)
        if start is None and not options and self.state.cell == STARTS[-1]:
            return super().reset(start=STARTS[0])
        return begun


@wrong("draws the first start seven times in ten")
class MostlyTheFirst(KeyDoorGrid):
    @as_reset
    def reset(self, *, start=None, options=None, seed=None):
        begun = super().reset(start=start, options=options, seed=seed)
        if start is None and not options and self.np_random.random() < 0.6:
            return super().reset(start=STARTS[0])
        return begun


@wrong("ignores the start that options ask for")
class OptionIgnored(KeyDoorGrid):
    @as_reset
    def reset(self, *, options=None, **asked):
        return super().reset(**asked)


@wrong("ignores options that it does not know")
class OptionsUnchecked(KeyDoorGrid):
    @as_reset
    def reset(self, *, options=None, **asked):
        known = {name: value for name, value in (options or {}).items() if name == "start"}
        return super().reset(options=known, **asked)


@wrong("begins on any free cell that is asked for")
class AnyCellStarts(KeyDoorGrid):
    @as_reset
    def reset(self, *, start=None, **asked):
        if isinstance(start, tuple) and GridState(*(*start, 0, 0)[:2], False) in INDEX:
            super().reset(**asked)
            self._state = INDEX[GridState(*start[:2], False)]
            return self._observe(), {"state": self.state}
        return super().reset(start=start, **asked)


# Moves


@wrong("walks through the shut door")
class DoorStandsOpen(Tabled):
    changes: ClassVar = {
        "next_state": leading(
            lambda state, action, after: (
                GridState(state.row, state.column + MOVES[action][1] * 2, False)
                if ahead(state, action) == DOOR and not state.has_key
                else after
            )
        )
    }


@wrong("keeps the door shut for good")
class DoorStaysShut(Tabled):
    changes: ClassVar = {
        "next_state": leading(
            lambda state, action, after: state if ahead(state, action) == DOOR else after
        )
    }


@wrong("uses the key up at the door")
class KeyUsedUp(Tabled):
    changes: ClassVar = {
        "next_state": leading(
            lambda state, action, after: (
                after._replace(has_key=False) if state.cell == DOOR != after.cell else after
            )
        )
    }


@wrong("loses the key at a move that goes nowhere")
class KeyLostAtAWall(Tabled):
    changes: ClassVar = {
        "next_state": leading(
            lambda state, action, after: (
                state._replace(has_key=False)
                if state == after and state.cell not in (KEY, DOOR)
                else after
            )
        )
    }


@wrong("comes out on the other side of the border")
class BorderWraps(Tabled):
    changes: ClassVar = {
        "next_state": leading(
            lambda state, action, after: (
                GridState(ahead(state, action)[0] % 7, ahead(state, action)[1] % 7, state.has_key)
                if not set(ahead(state, action)) <= set(range(7)) and state.column not in (1, 3)
                else after
            )
        )
    }


@wrong("ends the episode at a wall")
class WallsHurt(Altered):
    def step(self, action):
        before = None if self._state is None else self.state
        answer = Answer(*super().step(action))
        if ahead(before, int(action)) in WALLS:
            self._over = True
            return tuple(answer._replace(terminated=True))
        return tuple(answer)


@wrong("does not charge for a move that goes nowhere")
class BlockedIsFree(KeyDoorGrid):
    def step(self, action):
        before = self._state
        answer = Answer(*super().step(action))
        return tuple(answer._replace(reward=0.0) if before == self._state else answer)


@wrong("does not count a move that goes nowhere")
class BlockedIsUncounted(KeyDoorGrid):
    def step(self, action):
        before = self._state
        answer = super().step(action)
        self._steps -= before == self._state
        return answer


@wrong("exchanges left and right")
class LeftForRight(Tabled):
    changes: ClassVar = {
        "next_state": grid_tables().next_state[:, [0, 3, 2, 1]],
        "reward": grid_tables().reward[:, [0, 3, 2, 1]],
    }


@wrong("counts rows from the bottom")
class UpIsDown(Tabled):
    changes: ClassVar = {
        "next_state": grid_tables().next_state[:, [2, 1, 0, 3]],
        "reward": grid_tables().reward[:, [2, 1, 0, 3]],
    }


@wrong("slips to the side once in ten steps")
class Slips(KeyDoorGrid):
    def step(self, action):
        slips = self._state is not None and self.np_random.random() < 0.1
        return super().step((action + 1) % 4 if slips else action)


# Rewards


@wrong("costs nothing on the way")
class FreeSteps(Tabled):
    changes: ClassVar = {"reward": np.where(abs(grid_tables().reward) < 0.1, 0.0, 1.0)}


@wrong("does not charge for the step that ends an episode")
class LastStepFree(Altered):
    def alter(self, answer):
        return answer._replace(reward=round(answer.reward)) if answer.terminated else answer


@wrong("pays for the goal in place of charging for the traps")
class TrapsPay(Tabled):
    changes: ClassVar = {"reward": paying(dict.fromkeys(TRAPS, 0.99))}


@wrong("pays for the key")
class KeyPays(KeyDoorGrid):
    def step(self, action):
        had = self._state is not None and self.state.has_key
        answer = Answer(*super().step(action))
        gained = self.state.has_key and not had
        return tuple(answer._replace(reward=answer.reward + 0.1) if gained else answer)


@wrong("charges for a timeout as for a trap")
class TimeoutCosts(Altered):
    def alter(self, answer):
        return answer._replace(reward=-1.01) if answer.truncated else answer


@wrong("rewards with numbers of single precision")
class SinglePrecisionReward(Altered):
    def alter(self, answer):
        return answer._replace(reward=np.float32(answer.reward))


# What is shown


@wrong("hides the key from what is observed")
class KeyUnseen(Altered):
    def alter(self, answer):
        answer.observation[-1] = 0.0
        return answer


@wrong("shows the row in the place of the column and the column in that of the row")
class Transposed(KeyDoorGrid):
    def _observe(self):
        seen = super()._observe()
        return np.concatenate([seen[7:14], seen[:7], seen[14:]])


@wrong("shows where it was before the step")
class LagsBehind(KeyDoorGrid):
    def step(self, action):
        before = None if self._state is None else self._observe()
        return before, *super().step(action)[1:]


@wrong("observes in double precision")
class DoublePrecision(KeyDoorGrid):
    def _observe(self):
        return super()._observe().astype(np.float64)


@wrong("returns the same array at every step")
class SameArray(KeyDoorGrid):
    _shown = None

    def _observe(self):
        if self._shown is None:
            self._shown = super()._observe()
        self._shown[:] = super()._observe()
        return self._shown


@wrong("returns the tables themselves")
class SharedTable(KeyDoorGrid):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._tables = self._tables._replace(observation=self._tables.observation.copy())

    def _observe(self):
        return self._tables.observation[self._state]


@wrong("tells in info whether the step was blocked")
class InfoTells(Altered):
    def alter(self, answer):
        return answer.informing(blocked=False)


@wrong("names states by their number")
class StateNumber(Altered):
    def alter(self, answer):
        return answer.informing(state=self._state)


@wrong("shows the key in its text after it is taken")
class TextKeepsTheKey(KeyDoorGrid):
    def render(self):
        if self.render_mode != "ansi":
            return super().render()
        shown = grid_text(self.state._replace(has_key=False))
        return shown.replace("without", "with") if self.state.has_key else shown


@wrong("shows the agent at its start")
class PictureStands(KeyDoorGrid):
    def render(self):
        kept, self._state = self._state, int(self._tables.start[0])
        try:
            return super().render()
        finally:
            self._state = kept


@wrong("renders text without a mode")
class RendersUnasked(KeyDoorGrid):
    def render(self):
        return grid_text(self.state) if self.render_mode is None else super().render()


@wrong("flickers in its pictures")
class PictureFlickers(KeyDoorGrid):
    def render(self):
        picture = super().render()
        if self.render_mode == "rgb_array":
            picture[0, 0] = self._steps
        return picture


# What is refused


@wrong("takes an unknown action for the last one")
class ActionsClipped(KeyDoorGrid):
    def step(self, action):
        return super().step(np.clip(action, 0, 3) if isinstance(action, int) else action)


@wrong("counts actions from the end where their number is negative")
class NegativeAction(KeyDoorGrid):
    def step(self, action):
        return super().step(3 if isinstance(action, int) and action == -1 else action)


@wrong("rounds actions down")
class ActionsRounded(KeyDoorGrid):
    def step(self, action):
        return super().step(int(action) if isinstance(action, float) and action > 0 else action)


@wrong("takes Python's integers only for actions")
class PythonsIntegersOnly(KeyDoorGrid):
    def step(self, action):
        if not isinstance(action, int):
            raise ValueError(f"action is {action!r}")
        return super().step(action)


@wrong("takes True for a limit of one step, and rounds 1.5 down")
class LimitRounded(KeyDoorGrid):
    def __init__(self, seed=None, step_limit=60, **kwargs):
        super().__init__(seed, int(step_limit), **kwargs)


@wrong("refuses without a word of what is wrong")
class RefusesSilently(KeyDoorGrid):
    @as_reset
    def reset(self, **asked):
        try:
            return super().reset(**asked)
        except ValueError:
            raise ValueError("wrong start") from None


@wrong("takes True for the action 1")
class BooleansAct(KeyDoorGrid):
    def step(self, action):
        return super().step(int(action) if isinstance(action, bool | np.bool_) else action)


# What environments share, or take from elsewhere


@wrong("is where the grid is that stepped last")
class SharedState(KeyDoorGrid):
    _of_all: ClassVar[int | None] = None

    @property
    def _state(self):
        return SharedState._of_all

    @_state.setter
    def _state(self, state):
        SharedState._of_all = state


@wrong("counts the steps of all grids together")
class SharedClock(KeyDoorGrid):
    _of_all: ClassVar[int] = 0

    @property
    def _steps(self):
        return SharedClock._of_all

    @_steps.setter
    def _steps(self, steps):
        SharedClock._of_all = steps


@wrong("is its own copy")
class CopiesAreItself(KeyDoorGrid):
    def __deepcopy__(self, memo):
        return self


@wrong("seeds NumPy's global generator")
class SeedsNumPy(KeyDoorGrid):
    @as_reset
    def reset(self, *, seed=None, **asked):
        if seed is not None:
            np.random.seed(seed % 2**32)  # noqa: NPY002  the mistake
        return super().reset(seed=seed, **asked)


@wrong("ignores a later seed where a start is asked for")
class SeedIgnoredWithAStart(KeyDoorGrid):
    @as_reset
    def reset(self, *, start=None, seed=None, options=None):
        asked = start is not None or bool(options)
        drawing = self._np_random is not None
        told = None if asked and drawing else seed
        return super().reset(start=start, seed=told, options=options)


@wrong("takes the start out of the options that it is given")
class OptionsEmptied(KeyDoorGrid):
    @as_reset
    def reset(self, *, options=None, **asked):
        begun = super().reset(options=options, **asked)
        if options:
            options.clear()
        return begun


@wrong("hands out one picture of a state again and again")
class PicturesShared(KeyDoorGrid):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._pictures = {}

    def render(self):
        if self.render_mode != "rgb_array":
            return super().render()
        if self.state not in self._pictures:
            self._pictures[self.state] = super().render()
        return self._pictures[self.state]


@wrong("says that observations may be anything from -10 to 10")
class WiderSpace(KeyDoorGrid):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.observation_space = gym.spaces.Box(-10.0, 10.0, (15,), np.float32)


declare_habits(wrong, KeyDoorGrid)
