"""Vectors of grids with a mistake each, which the laws of the vector must notice.

A description completes the sentence "It behaves as if it …".
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from properties.alternatives.wrong_environments import Wrong, declaring
from rlcheck.envs import KeyDoorGridVector
from rlcheck.envs.keydoor_grid import grid_tables

WRONG: list[Wrong] = []
wrong = declaring(WRONG)


class Answers(NamedTuple):
    """What a step answers."""

    observations: Any
    rewards: Any
    terminated: Any
    truncated: Any
    info: dict[str, Any]

    def informing(self, **changes: Any) -> "Answers":
        """The same with other fields in its info."""
        return self._replace(info=self.info | changes)


class Altered(KeyDoorGridVector):
    """A vector whose answers are altered on their way out."""

    def alter(self, answers: Answers) -> Answers:
        return answers

    def step(self, actions):
        return tuple(self.alter(Answers(*super().step(actions))))


# Ends and resets


@wrong("shows what an episode ended in, in place of the next start")
class ShowsTheEnd(Altered):
    def alter(self, answers):
        return answers._replace(observations=answers.info["final_obs"].copy())


@wrong("gives the next start for what an episode ended in")
class FinalIsNext(Altered):
    def alter(self, answers):
        return answers.informing(final_obs=answers.observations.copy())


@wrong("marks terminations only as ends")
class CutsUnmarked(Altered):
    def alter(self, answers):
        return answers.informing(_final_obs=answers.terminated.copy())


@wrong("says of no grid that its episode ended")
class NoMask(Altered):
    def alter(self, answers):
        return answers.informing(_final_obs=np.zeros(self.num_envs, bool))


@wrong("tells nothing of the ends but what was seen")
class NoFinalInfo(Altered):
    def alter(self, answers):
        left = {name: v for name, v in answers.info.items() if "final_info" not in name}
        return answers._replace(info=left)


@wrong("calls a cut a termination")
class CutsTerminate(Altered):
    def alter(self, answers):
        over = answers.terminated | answers.truncated
        return answers._replace(terminated=over, truncated=np.zeros_like(over))


@wrong("sets both flags where the limit falls on an end")
class BothFlagsOnATie(Altered):
    def step(self, actions):
        tied = self._steps + 1 >= self.step_limit
        answers = Answers(*super().step(actions))
        return tuple(answers._replace(truncated=answers.truncated | (answers.terminated & tied)))


@wrong("counts the steps of all grids together")
class OneClock(KeyDoorGridVector):
    def step(self, actions):
        self._steps[:] = self._steps.max(initial=0)
        return super().step(actions)


@wrong("goes on counting steps after an end")
class ClockKeptAtAnEnd(KeyDoorGridVector):
    def step(self, actions):
        before = self._steps.copy()
        answers = super().step(actions)
        self._steps = np.where(answers[2], before + 1, self._steps)
        return answers


@wrong("keeps the clock running when it is reset")
class ClockKept(KeyDoorGridVector):
    def reset(self, **asked):
        steps = self._steps
        begun = super().reset(**asked)
        self._steps = steps
        return begun


@wrong("resets all grids where one ends")
class AllEndTogether(KeyDoorGridVector):
    def step(self, actions):
        shown, *others, info = super().step(actions)
        if info["_final_obs"].any():
            shown, _ = self.reset()
        return shown, *others, info


@wrong("resets at the step after the end")
class NextStep(KeyDoorGridVector):
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  as Gymnasium has it


@wrong("keeps the key where an episode ends")
class KeyKeptAtAnEnd(KeyDoorGridVector):
    def step(self, actions):
        answers = super().step(actions)
        ended = answers[4]["_final_obs"] & (answers[4]["final_obs"][:, -1] == 1)
        states = grid_tables().states
        index = {state: number for number, state in enumerate(states)}
        for i in np.flatnonzero(ended):
            self.states[i] = index[states[self.states[i]]._replace(has_key=True)]
        return grid_tables().observation[self.states], *answers[1:]


@wrong("calls every termination a success")
class EveryEndSucceeds(Altered):
    def alter(self, answers):
        return answers.informing(success=answers.terminated.copy())


@wrong("gives no reason for a cut")
class CutWithoutReason(Altered):
    def alter(self, answers):
        reasons = np.where(answers.truncated, None, answers.info["stop_reason"])
        return answers.informing(stop_reason=reasons)


@wrong("pays the reward of the step before")
class RewardLate(KeyDoorGridVector):
    _late = None

    def step(self, actions):
        shown, rewards, *others = super().step(actions)
        paid, self._late = self._late, rewards
        return shown, rewards if paid is None else paid, *others


@wrong("rewards in single precision")
class SinglePrecision(Altered):
    def alter(self, answers):
        return answers._replace(rewards=answers.rewards.astype(np.float32))


# Seeds and starts


@wrong("begins all grids on the same start")
class OneStartForAll(KeyDoorGridVector):
    def _draw(self, number):
        return np.full(number, super()._draw(1)[0])


@wrong("begins the stream anew at every reset")
class StreamRepeats(KeyDoorGridVector):
    _last = None

    def reset(self, *, seed=None, options=None):
        self._last = self._last if seed is None else seed
        return super().reset(seed=self._last, options=options)


@wrong("ignores the constructor's seed")
class ConstructorsSeedIgnored(KeyDoorGridVector):
    def __init__(self, num_envs, seed=None, step_limit=60):
        super().__init__(num_envs, step_limit=step_limit)


@wrong("comes back to the constructor's seed after a reset with another one")
class ConstructorsSeedDueLater(KeyDoorGridVector):
    def reset(self, *, seed=None, options=None):
        due = self._seed
        begun = super().reset(seed=seed, options=options)
        self._seed = due if seed is not None else None
        return begun


@wrong("draws from a generator of its own after ends")
class EndsUnseeded(KeyDoorGridVector):
    def _draw(self, number):
        if self._steps.any():
            return grid_tables().start[np.random.default_rng().integers(4, size=number)]
        return super()._draw(number)


@wrong("begins at the first start after an end")
class FirstStartAfterEnds(KeyDoorGridVector):
    def _draw(self, number):
        drawn = super()._draw(number)
        return np.full(number, grid_tables().start[0]) if self._steps.any() else drawn


@wrong("ignores the starts that options ask for")
class OptionIgnored(KeyDoorGridVector):
    def _starts(self, asked):
        super()._starts(asked)
        return self._draw(self.num_envs)


@wrong("takes the first start that is asked for, for all grids")
class FirstAskedForAll(KeyDoorGridVector):
    def _starts(self, asked):
        return np.full(self.num_envs, super()._starts(asked)[0])


@wrong("draws before it refuses a start")
class RefusedResetDraws(KeyDoorGridVector):
    def _starts(self, asked):
        self._draw(self.num_envs)
        return super()._starts(asked)


# Copies, and what is refused


@wrong("hands out the mask of ends as its flag of terminations")
class SharedFlags(Altered):
    def alter(self, answers):
        if answers.truncated.any():
            return answers
        return answers.informing(_final_obs=answers.terminated)


@wrong("keeps one array of rewards for itself and the caller")
class SharedRewards(KeyDoorGridVector):
    _total = None

    def step(self, actions):
        shown, rewards, *others = super().step(actions)
        if self._total is None:
            self._total, self._paid = np.zeros(self.num_envs), np.zeros(self.num_envs)
        self._paid += rewards  # what was paid before is taken off again, unless it was changed
        self._paid -= self._total
        self._total = rewards
        return shown, self._paid, *others


@wrong("overwrites the actions that it is given")
class ActionsOverwritten(KeyDoorGridVector):
    def step(self, actions):
        answers = super().step(actions)
        if isinstance(actions, np.ndarray):
            actions[:] = 0
        return answers


@wrong("counts actions from the end where they are negative")
class NegativeActions(KeyDoorGridVector):
    def step(self, actions):
        if isinstance(actions, list) and -1 in actions:
            actions = [action % 4 for action in actions]
        return super().step(actions)


@wrong("takes one action for all grids")
class OneActionForAll(KeyDoorGridVector):
    def step(self, actions):
        return super().step([actions] * self.num_envs if isinstance(actions, int) else actions)


@wrong("needs no first reset")
class BeginsWithoutReset(KeyDoorGridVector):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.reset()


@wrong("ignores options that it does not know")
class OptionsUnchecked(KeyDoorGridVector):
    def reset(self, *, seed=None, options=None):
        known = {name: value for name, value in (options or {}).items() if name == "start"}
        return super().reset(seed=seed, options=known)


@wrong("takes True for one grid, and rounds 1.5 down")
class NumbersRounded(KeyDoorGridVector):
    def __init__(self, num_envs, seed=None, step_limit=60):
        super().__init__(int(num_envs), seed, int(step_limit))


@wrong("has the actions of a single grid for all")
class ActionSpaceOfOne(KeyDoorGridVector):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.action_space = self.single_action_space


@wrong("takes booleans for actions")
class BooleansAct(KeyDoorGridVector):
    def step(self, actions):
        return super().step([int(a) if isinstance(a, bool) else a for a in actions])


# Counting, and what vectors share


@wrong("cuts after 100 steps where no limit is told")
class DefaultLimit(KeyDoorGridVector):
    def __init__(self, num_envs, seed=None, step_limit=100):
        super().__init__(num_envs, seed, step_limit)


@wrong("cuts by the 60th step, whatever the limit")
class LimitCapped(KeyDoorGridVector):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.step_limit = min(self.step_limit, 60)


@wrong("counts steps in eight bits")
class ClockOfEightBits(KeyDoorGridVector):
    def reset(self, **asked):
        begun = super().reset(**asked)
        self._steps = self._steps.astype(np.int8)
        return begun


@wrong("gives the time as the reason for a trap on the last step")
class TrapOnTheLimitIsTime(KeyDoorGridVector):
    def step(self, actions):
        tied = self._steps + 1 >= self.step_limit
        answers = Answers(*super().step(actions))
        timed = answers.terminated & tied & ~answers.info["success"]
        answers.info["stop_reason"][timed] = "timeout"
        return tuple(answers)


@wrong("is where the vector is that stepped last")
class SharedStates(KeyDoorGridVector):
    _of_all: ClassVar[Any] = None

    @property
    def states(self):
        return SharedStates._of_all

    @states.setter
    def states(self, states):
        SharedStates._of_all = states


@wrong("pays nothing beyond the 64th grid")
class PaysTheFirst(Altered):
    def alter(self, answers):
        answers.rewards[64:] = 0.0
        return answers


@wrong("changes its states in place")
class StatesInPlace(KeyDoorGridVector):
    def step(self, actions):
        before = self.states
        answers = super().step(actions)
        before[:] = self.states
        self.states = before
        return answers


@wrong("says in its final info of every grid that it ended")
class FinalInfoEverywhere(Altered):
    def alter(self, answers):
        answers.info["final_info"]["_success"][:] = True
        return answers


@wrong("seeds NumPy's global generator")
class SeedsNumPy(KeyDoorGridVector):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.seed(seed % 2**32)  # noqa: NPY002  the mistake
        return super().reset(seed=seed, options=options)


@wrong("ignores a later seed where starts are asked for")
class SeedIgnoredWithAStart(KeyDoorGridVector):
    def reset(self, *, seed=None, options=None):
        drawing = self._np_random is not None
        return super().reset(seed=None if options and drawing else seed, options=options)


@wrong("takes the starts out of the options that it is given")
class OptionsEmptied(KeyDoorGridVector):
    def reset(self, *, seed=None, options=None):
        begun = super().reset(seed=seed, options=options)
        if options:
            options.clear()
        return begun
