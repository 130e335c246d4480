"""Environments with a mistake each, which the laws of the key-door agent must notice.

A description completes the sentence "It behaves as if it …".
"""

import functools
import random

from properties.alternatives.wrong_environments import Wrong, declaring
from properties.alternatives.wrong_habits import declare_habits
from properties.environments import Answer
from rlcheck.envs import keydoor_agent as rules
from rlcheck.envs.keydoor_agent import (
    ACTIONS,
    BROKEN,
    COLORS,
    FINISHED,
    MILESTONES,
    NOTES,
    NOTHING,
    OPENED,
    START,
    TAKEN,
    KeyDoorAgentEnv,
    Outcome,
    State,
    initial_state,
    potential,
    transition,
)

as_reset = functools.wraps(KeyDoorAgentEnv.reset)  # which Gymnasium's checker reads
WRONG: list[Wrong] = []
wrong = declaring(WRONG)


class Altered(KeyDoorAgentEnv):
    """An environment whose answers are altered on their way out."""

    def alter(self, answer: Answer, gamma: float) -> Answer:
        return answer

    def step(self, action, gamma=None):
        gamma = self.gamma if gamma is None else gamma
        return tuple(self.alter(Answer(*super().step(action, gamma)), gamma))


class Ruled(KeyDoorAgentEnv):
    """An environment with other rules, or another potential."""

    transition = staticmethod(transition)
    potential = staticmethod(potential)

    def step(self, action, gamma=None):
        rules.transition, rules.potential = self.transition, self.potential
        try:
            return super().step(action, gamma)
        finally:
            rules.transition, rules.potential = transition, potential


def shaped_to(answer: Answer, gamma: float, after: float) -> Answer:
    """The answer with another potential after the step."""
    shaped = answer.reward + gamma * after - answer.info["potential_before"]
    return answer.informing(potential_after=after, shaped_reward=shaped)


# Ends


@wrong("takes the task's horizon for a time limit from outside")
class HorizonTruncates(Altered):
    def alter(self, answer, gamma):
        up = answer.info["stop_reason"] == "task_horizon"
        return answer._replace(terminated=False, truncated=True) if up else answer


@wrong("ends the task where the collector cuts it")
class LimitTerminates(Altered):
    def alter(self, answer, gamma):
        return answer._replace(terminated=answer.over, truncated=False)


@wrong("sets both flags where the horizon and the collector's limit fall on one step")
class BothFlagsOnATie(Altered):
    def alter(self, answer, gamma):
        tie = self._steps == self.task_horizon == self.collector_limit
        return answer._replace(truncated=True) if tie else answer


@wrong("sets the flag of a termination at a cut too")
class BothFlagsAtACut(Altered):
    def alter(self, answer, gamma):
        return answer._replace(terminated=answer.over)


@wrong("lets the collector's limit go before a horizon on the same step")
class LimitBeforeHorizon(KeyDoorAgentEnv):
    def _stop_reason(self, state):
        reason = super()._stop_reason(state)
        cut = reason == "task_horizon" and self._steps == self.collector_limit
        return "collector_limit" if cut else reason


@wrong(
    "lets the collector's limit go before a finish on the same step",
    report="openai/spinningup#233, DLR-RM/stable-baselines3#1276, takuseno/d3rlpy#463",
)
class LimitBeforeFinish(KeyDoorAgentEnv):
    def _stop_reason(self, state):
        cut = self._steps == self.collector_limit
        return "collector_limit" if cut else super()._stop_reason(state)


@wrong("lets the horizon go before a finish on the same step")
class HorizonBeforeFinish(KeyDoorAgentEnv):
    def _stop_reason(self, state):
        up = self._steps >= self.task_horizon
        return "task_horizon" if up else super()._stop_reason(state)


@wrong("allows one step more than the horizon")
class HorizonOffByOne(KeyDoorAgentEnv):
    def _stop_reason(self, state):
        reason = super()._stop_reason(state)
        return None if reason == "task_horizon" and self._steps == self.task_horizon else reason


@wrong("cuts one step after the collector's limit")
class LimitOffByOne(KeyDoorAgentEnv):
    def _stop_reason(self, state):
        reason = super()._stop_reason(state)
        if reason == "collector_limit":
            return None
        late = reason is None and self.collector_limit and self._steps > self.collector_limit
        return "collector_limit" if late else reason


@wrong("drops the reason of a cut", report="OpenRLHF/OpenRLHF#1327")
class CutWithoutReason(Altered):
    def alter(self, answer, gamma):
        return answer.informing(stop_reason=None) if answer.truncated else answer


@wrong("calls every finish a success")
class EveryFinishSucceeds(Altered):
    def alter(self, answer, gamma):
        failed = answer.info["stop_reason"] == "failure"
        return answer.informing(stop_reason="success") if failed else answer


@wrong("calls it a failure when time is up")
class TimeUpIsFailure(Altered):
    def alter(self, answer, gamma):
        up = answer.info["stop_reason"] == "task_horizon"
        return answer.informing(stop_reason="failure") if up else answer


@wrong("begins anew at the horizon without a word", report="Emerge-Lab/PufferDrive#208")
class HiddenReset(Altered):
    def alter(self, answer, gamma):
        if answer.info["stop_reason"] != "task_horizon":
            return answer
        self.reset(target=self.target)
        return answer._replace(terminated=False).informing(stop_reason=None)


# Steps outside an episode, and resets


@wrong("answers an end with the next episode's start", report="pytorch/rl#3771")
class AnswersWithTheNextStart(Altered):
    def alter(self, answer, gamma):
        return answer._replace(observation=START) if answer.over else answer


@wrong("goes on with an episode that has not ended when it is reset")
class ResetGoesOn(KeyDoorAgentEnv):
    @as_reset
    def reset(self, **asked):
        left, steps = self._state, self._steps
        begun = super().reset(**asked)
        if left is not None and not left.finished and left.target == self.target:
            self._state, self._steps = left, min(steps, self.task_horizon - 1)
        return begun


@wrong("keeps the key when it is reset")
class KeyKept(KeyDoorAgentEnv):
    @as_reset
    def reset(self, **asked):
        left = self._state
        begun = super().reset(**asked)
        if left is not None:
            self._state = self._state._replace(key=left.key)
        return begun


@wrong("keeps the doors open when it is reset")
class DoorKept(KeyDoorAgentEnv):
    @as_reset
    def reset(self, **asked):
        left = self._state
        begun = super().reset(**asked)
        if left is not None:
            self._state = self._state._replace(door=left.door)
        return begun


@wrong("keeps the note as read when it is reset")
class NoteKept(KeyDoorAgentEnv):
    @as_reset
    def reset(self, **asked):
        left = self._state
        begun = super().reset(**asked)
        if left is not None:
            self._state = self._state._replace(inspected=left.inspected)
        return begun


@wrong("appends an episode to the transcript of the last one")
class TranscriptKept(KeyDoorAgentEnv):
    @as_reset
    def reset(self, **asked):
        lines = self._transcript
        begun = super().reset(**asked)
        self._transcript = lines + self._transcript
        return begun


@wrong("shapes a first step with the potential that the last episode left")
class PotentialKept(Altered):
    _left = 0.0

    def alter(self, answer, gamma):
        if self._steps == 1:
            answer = answer.informing(potential_before=self._left)
        self._left = answer.info["potential_after"]
        return shaped_to(answer, gamma, self._left)


# Seeds and targets


@wrong("draws targets from the generator that the whole program shares")
class SharedGenerator(KeyDoorAgentEnv):
    @as_reset
    def reset(self, *, target=None, options=None, **asked):
        drawn = random.choice(COLORS)
        return super().reset(target=target if options else target or drawn, options=options)


@wrong("draws red nine times in ten")
class MostlyRed(KeyDoorAgentEnv):
    @as_reset
    def reset(self, *, target=None, options=None, seed=None):
        begun = super().reset(target=target, options=options, seed=seed)
        if target is None and not options:
            self._state = initial_state(COLORS[int(self.np_random.random() < 0.1)])
        return begun


@wrong("ignores the target that options ask for")
class OptionIgnored(KeyDoorAgentEnv):
    @as_reset
    def reset(self, *, options=None, **asked):
        return super().reset(**asked)


@wrong("ignores options that it does not know")
class OptionsUnchecked(KeyDoorAgentEnv):
    @as_reset
    def reset(self, *, options=None, **asked):
        known = {name: value for name, value in (options or {}).items() if name == "target"}
        return super().reset(options=known, **asked)


@wrong("reads a target without regard to case and spaces")
class TargetTidied(KeyDoorAgentEnv):
    @as_reset
    def reset(self, *, target=None, **asked):
        target = target.strip().lower() if isinstance(target, str) else target
        return super().reset(target=target, **asked)


# What the agent is shown


@wrong("shows the colour at every inspect")
class NoteEachTime(Ruled):
    @staticmethod
    def transition(state: State, action: str) -> Outcome:
        fresh = state._replace(inspected=False) if action == "inspect" else state
        return transition(fresh, action)


@wrong("has the same note for both colours")
class NoteIsRed(Altered):
    def alter(self, answer, gamma):
        read = answer.observation in NOTES.values()
        return answer._replace(observation=NOTES["red"]) if read else answer


@wrong("tells by its first observation which colour is wanted")
class StartTells(KeyDoorAgentEnv):
    @as_reset
    def reset(self, **asked):
        _, info = super().reset(**asked)
        return NOTES[self.target], info


@wrong("tells at a pickup whether the key is the right one")
class PickupTells(Altered):
    def alter(self, answer, gamma):
        told = answer.observation == TAKEN and self._state.key != self.target
        return answer._replace(observation=NOTHING) if told else answer


@wrong("tells at a finish whether it succeeds")
class FinishTells(Altered):
    def alter(self, answer, gamma):
        told = answer.observation == FINISHED and answer.reward == 0
        return answer._replace(observation=NOTHING) if told else answer


@wrong("tells the target in the info of every step")
class InfoTells(Altered):
    def alter(self, answer, gamma):
        return answer.informing(target=self.target)


@wrong("shows a text that is none of its observations")
class UnknownText(Altered):
    def alter(self, answer, gamma):
        opened = answer.observation == OPENED
        return answer._replace(observation="It opens!") if opened else answer


@wrong("calls every action valid")
class AlwaysValid(Altered):
    def alter(self, answer, gamma):
        return answer.informing(valid=True)


@wrong("shows the last line of the transcript only")
class LastLineOnly(KeyDoorAgentEnv):
    def render(self):
        return self._transcript[-1] if self.render_mode else None


# Rules


@wrong("opens a door with any key")
class AnyKeyOpens(Ruled):
    @staticmethod
    def transition(state: State, action: str) -> Outcome:
        verb, _, color = action.partition("_")
        if verb == "open" and state.key in COLORS and state.door is None:
            return Outcome(state._replace(door=color), OPENED, True)
        return transition(state, action)


@wrong("exchanges the key at a second pickup")
class KeyExchanged(Ruled):
    @staticmethod
    def transition(state: State, action: str) -> Outcome:
        if action.startswith("pickup") and state.key in COLORS and state.door is None:
            state = state._replace(key=None)
        return transition(state, action)


@wrong("leaves a key whole that was tried in the wrong door")
class KeyNeverBreaks(Ruled):
    @staticmethod
    def transition(state: State, action: str) -> Outcome:
        outcome = transition(state, action)
        return outcome._replace(state=state) if outcome.observation == BROKEN else outcome


@wrong("opens doors without a key")
class NoKeyNeeded(Ruled):
    @staticmethod
    def transition(state: State, action: str) -> Outcome:
        verb, _, color = action.partition("_")
        if verb == "open" and state.key is None and state.door is None:
            return Outcome(state._replace(door=color), OPENED, True)
        return transition(state, action)


@wrong("finishes only where a door is open")
class FinishNeedsADoor(Ruled):
    @staticmethod
    def transition(state: State, action: str) -> Outcome:
        if action == "finish" and state.door is None:
            return Outcome(state, NOTHING, False)
        return transition(state, action)


@wrong("takes no time for an action that is not valid")
class InvalidIsFree(Altered):
    def alter(self, answer, gamma):
        self._steps -= not answer.info["valid"]
        return answer


@wrong("loses all progress at an action that is not valid")
class InvalidLosesProgress(Altered):
    def alter(self, answer, gamma):
        if not answer.info["valid"]:
            self._state = initial_state(self.target)
        return answer


# Rewards


@wrong("rewards a failure with −1")
class FailurePunished(Altered):
    def alter(self, answer, gamma):
        failed = answer.info["stop_reason"] == "failure"
        return answer._replace(reward=-1.0) if failed else answer


@wrong("rewards the door in place of the finish")
class DoorRewarded(Altered):
    def alter(self, answer, gamma):
        opened = answer.observation == OPENED and self._state.door == self.target
        return answer._replace(reward=float(opened))


@wrong("rewards a finish with the right key in hand")
class KeySuffices(Altered):
    def alter(self, answer, gamma):
        held = self._state.finished and self._state.key == self.target
        return answer._replace(reward=float(held))


@wrong("rewards only those who have read the note")
class NoteRequired(Altered):
    def alter(self, answer, gamma):
        return answer if self._state.inspected else answer._replace(reward=0.0)


@wrong("charges for every step")
class StepCost(Altered):
    def alter(self, answer, gamma):
        return answer._replace(reward=answer.reward - 0.01)


@wrong("answers with the shaped reward in place of the base reward")
class ShapedForBase(Altered):
    def alter(self, answer, gamma):
        return answer._replace(reward=answer.info["shaped_reward"])


@wrong("rewards with booleans")
class BooleanReward(Altered):
    def alter(self, answer, gamma):
        return answer._replace(reward=bool(answer.reward))


# Shaping


@wrong("shapes without the discount", report="anthonytorlucci/rlevo#646")
class ShapedWithoutGamma(Altered):
    def alter(self, answer, gamma):
        return shaped_to(answer, 1.0, answer.info["potential_after"])


@wrong("shapes with γ = 0.99 whatever is asked for")
class GammaFixed(Altered):
    def alter(self, answer, gamma):
        return shaped_to(answer, 0.99, answer.info["potential_after"])


@wrong("shapes with γ = 1 unless another is asked for")
class OtherDefaultGamma(KeyDoorAgentEnv):
    def step(self, action, gamma=1.0):
        return super().step(action, gamma)


@wrong("pays the potential itself at every step", report="johnsutor/so101-nexus#123")
class PotentialPaid(Altered):
    def alter(self, answer, gamma):
        return answer.informing(shaped_reward=answer.reward + answer.info["potential_after"])


@wrong("keeps the potential of a terminal state")
class TerminalKeepsPotential(Altered):
    def alter(self, answer, gamma):
        kept = potential(self._state._replace(finished=False))
        return shaped_to(answer, gamma, kept) if answer.terminated else answer


@wrong("keeps the potential where time is up")
class TimeUpKeepsPotential(Altered):
    def alter(self, answer, gamma):
        up = answer.info["stop_reason"] == "task_horizon"
        return shaped_to(answer, gamma, potential(self._state)) if up else answer


@wrong("has no potential where the collector cuts")
class CutLosesPotential(Altered):
    def alter(self, answer, gamma):
        return shaped_to(answer, gamma, 0.0) if answer.truncated else answer


@wrong("counts a wrong key as a milestone")
class WrongKeyCounts(Ruled):
    @staticmethod
    def potential(state: State) -> float:
        counted = state.inspected + (state.key is not None) + (state.door is not None)
        return 0.0 if state.finished else counted / MILESTONES


# What is refused


@wrong("takes an unknown action for one that changes nothing")
class UnknownActionWaits(KeyDoorAgentEnv):
    def step(self, action, gamma=None):
        if self._state is not None and isinstance(action, str) and action not in ACTIONS:
            action = next(name for name in ACTIONS if not transition(self._state, name).valid)
        return super().step(action, gamma)


@wrong("counts actions from the end where their index is negative")
class NegativeIndex(KeyDoorAgentEnv):
    def step(self, action, gamma=None):
        return super().step(ACTIONS[action] if action == -1 else action, gamma)


@wrong("counts actions from 1")
class IndexFromOne(KeyDoorAgentEnv):
    def step(self, action, gamma=None):
        return super().step(action if isinstance(action, str) else int(action) - 1, gamma)


@wrong("shapes with any number for γ")
class GammaUnchecked(Altered):
    def step(self, action, gamma=None):
        answer = Answer(*KeyDoorAgentEnv.step(self, action))
        return tuple(shaped_to(answer, gamma, answer.info["potential_after"]))


@wrong("takes True for a limit of one step, and rounds 1.5 down")
class LimitsRounded(KeyDoorAgentEnv):
    def __init__(self, task_horizon=8, collector_limit=None, **kwargs):
        limit = None if collector_limit is None else int(collector_limit)
        super().__init__(int(task_horizon), limit, **kwargs)


declare_habits(wrong, KeyDoorAgentEnv)
