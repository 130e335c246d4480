"""The key-door task for an agent with tools: partially observed, in text.

A note names a colour, red or blue. The agent inspects the note, takes the key of that colour, opens
the door of that colour and finishes. The note can be read once, and nothing that the agent sees
later tells the colour again: it must be remembered. A wrong key, and a key tried in the wrong door,
cannot be undone.

The rules are the function `transition`; the environment, its vectorised use and the exact solution
all call it.
"""

import operator
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from rlcheck._inputs import checked_seed, integer, unit_interval

__all__ = [
    "ACTIONS",
    "COLORS",
    "ENVIRONMENT_VERSION",
    "OBSERVATIONS",
    "OBSERVATION_INDEX",
    "START",
    "KeyDoorAgentEnv",
    "Outcome",
    "State",
    "initial_state",
    "potential",
    "transition",
]

ENVIRONMENT_VERSION = "KeyDoorAgent-v0"
COLORS = ("red", "blue")
ACTIONS = ("inspect", "pickup_red", "pickup_blue", "open_red", "open_blue", "finish")
MILESTONES = 4  # inspect, the right key, the right door, finish

START = "You see a note, a red key, a blue key, a red door and a blue door."
NOTES = {"red": "The note says: red.", "blue": "The note says: blue."}
TAKEN = "You take a key."
OPENED = "The door opens."
BROKEN = "The key breaks in the lock."
NOTHING = "Nothing happens."
FINISHED = "You finish."
TIME_IS_UP = "Time is up."
OBSERVATIONS = (START, *NOTES.values(), TAKEN, OPENED, BROKEN, NOTHING, FINISHED, TIME_IS_UP)
OBSERVATION_INDEX = {text: index for index, text in enumerate(OBSERVATIONS)}


class State(NamedTuple):
    """What there is to know of the task, but for the time.

    `key` is None, a colour, or "broken"; `door` is None or the colour of the one that is open.
    """

    target: str
    inspected: bool = False
    key: str | None = None
    door: str | None = None
    finished: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the agent finished with the right door open."""
        return self.finished and self.door == self.target


class Outcome(NamedTuple):
    """What an action leads to. One that is not valid changes nothing but the time."""

    state: State
    observation: str
    valid: bool


def initial_state(target: str) -> State:
    """The state before the first step, for a target colour."""
    if target not in COLORS:
        raise ValueError(f"target is {target!r}; it must be one of {', '.join(COLORS)}")
    return State(target)


@cache
def transition(state: State, action: str) -> Outcome:
    """What an action leads to in a state. Deterministic; the target never changes.

    Args:
        state: a state that is not finished.
        action: one of ACTIONS.

    Returns:
        Outcome(state, observation, valid).
    """
    verb, _, color = action.partition("_")
    if verb == "inspect" and not state.inspected:
        return Outcome(state._replace(inspected=True), NOTES[state.target], True)
    if verb == "pickup" and state.key is None:
        return Outcome(state._replace(key=color), TAKEN, True)
    if verb == "open" and state.key in COLORS and state.door is None:
        if state.key == color:
            return Outcome(state._replace(door=color), OPENED, True)
        return Outcome(state._replace(key="broken"), BROKEN, True)
    if verb == "finish":
        return Outcome(state._replace(finished=True), FINISHED, True)
    return Outcome(state, NOTHING, False)


@cache
def potential(state: State) -> float:
    """Φ: the milestones reached, as a part of all four; 0 once the way is lost, and at the end.

    Range [0, 3/4]. It reads the hidden target: it shapes rewards, the agent never sees it.
    """
    lost = state.key not in (None, state.target)
    if state.finished or lost:
        return 0.0
    return (state.inspected + (state.key is not None) + (state.door is not None)) / MILESTONES


class KeyDoorAgentEnv(gym.Env[str, np.int64]):
    """The key-door task as a Gymnasium environment, with text observations.

    Observations are the texts of OBSERVATIONS, actions the names in ACTIONS or their indices. The
    base reward is 1 for finishing with the right door open, and 0 for everything else. `finish`
    ends the episode in any case.

    The shaped reward in `info` is r + γ Φ(s′) − Φ(s), with Φ(s′) = 0 where s′ is terminal; a
    truncation is not terminal.

    Args:
        task_horizon: steps after which the task itself is over, an integer ≥ 1. Reaching it is a
            true termination.
        collector_limit: steps after which whoever collects the data cuts the episode, an integer
            ≥ 1, or None for never. It is outside the task: the episode is truncated and its value
            bootstraps. A step that reaches both limits ended the task: it terminates only.
        seed: seeds the first reset, unless that brings a seed of its own.
        render_mode: "ansi" for a transcript of the episode, or None.
        gamma: discount of the shaped reward where `step` is given none, as through wrappers, in
            [0, 1].

    Raises:
        ValueError: an argument is out of range; the text names it and its value.

    Reference:
        Ng, Harada and Russell (1999), Policy invariance under reward transformations; Pardo et al.
        (2018), Time limits in reinforcement learning.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  as Gymnasium has it
    ACTIONS = ACTIONS

    def __init__(
        self,
        task_horizon: int = 8,
        collector_limit: int | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
        gamma: float = 0.99,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; it must be None or 'ansi'")
        self.task_horizon = _steps("task_horizon", task_horizon)
        self.collector_limit = (
            None if collector_limit is None else _steps("collector_limit", collector_limit)
        )
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(len(ACTIONS))
        self.observation_space = gym.spaces.Text(
            max_length=max(map(len, OBSERVATIONS)), charset=frozenset("".join(OBSERVATIONS))
        )
        self.gamma = unit_interval("gamma", gamma)
        self._seed = checked_seed(seed)
        self._state: State | None = None
        self._steps = 0
        self._transcript: list[str] = []

    @property
    def target(self) -> str:
        """The colour of this episode, hidden from the agent until it inspects."""
        if self._state is None:
            raise ResetNeeded("reset() must be called before the target is known")
        return self._state.target

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        target: str | None = None,
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: seeds the draws of this and the following episodes; None goes on drawing.
            options: {"target": colour} asks for a target as `target` does, through wrappers.
            target: "red" or "blue"; None draws one of them with equal chance.

        Returns:
            (observation, info), with info["potential"] Φ of the first state.

        Raises:
            ValueError: the target is neither colour, an option is unknown, `options` asks for
                another target than `target`, or the seed is no integer ≥ 0.
        """
        options = dict(options or {})
        asked = options.pop("target", None)
        if options:
            raise ValueError(f"options holds {list(options)}; only 'target' is known")
        if target is not None:
            if asked not in (None, target):
                raise ValueError(f"target is {target!r}, but options asks for {asked!r}")
            asked = target
        if asked is not None:
            initial_state(asked)  # refuses before anything is changed
        super().reset(seed=self._seed if seed is None else checked_seed(seed))
        self._seed = None
        drawn = COLORS[int(self.np_random.integers(len(COLORS)))]
        self._state = initial_state(drawn if asked is None else asked)
        self._steps = 0
        self._over = False
        self._transcript = [START]
        return START, {"potential": potential(self._state)}

    def step(
        self, action: int | str | np.int64, gamma: float | None = None
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one action.

        Args:
            action: a name in ACTIONS or its index.
            gamma: discount of the shaped reward, in [0, 1]; None takes the environment's, 0.99 by
                default.

        Returns:
            (observation, base_reward, terminated, truncated, info); info has `potential_before`
            Φ(s), `potential_after` Φ(s′), 0 if terminal, `shaped_reward`, `valid`, and
            `stop_reason`: "success", "failure", "task_horizon", "collector_limit", or None while
            the episode goes on.

        Raises:
            gymnasium.error.ResetNeeded: no episode has begun, or it is over.
            ValueError: the action is unknown, or gamma is out of range.
            TypeError: gamma is no number.
        """
        if self._state is None or self._over:
            raise ResetNeeded("the episode is over, or none has begun: call reset() before step()")
        gamma = self.gamma if gamma is None else unit_interval("gamma", gamma)
        name = _action_name(action)
        before = potential(self._state)
        state, observation, valid = transition(self._state, name)
        self._state = state
        self._steps += 1
        stop_reason = self._stop_reason(state)
        terminated = stop_reason is not None and stop_reason != "collector_limit"
        if stop_reason == "task_horizon":
            observation = TIME_IS_UP
        after = 0.0 if terminated else potential(state)
        base_reward = float(state.succeeded)
        self._over = stop_reason is not None
        if self.render_mode is not None:
            self._transcript.append(f"{self._steps}. {name}: {observation}")
        info = {
            "potential_before": before,
            "potential_after": after,
            "shaped_reward": base_reward + gamma * after - before,
            "stop_reason": stop_reason,
            "valid": valid,
        }
        return observation, base_reward, terminated, stop_reason == "collector_limit", info

    def _stop_reason(self, state: State) -> str | None:
        if state.finished:
            return "success" if state.succeeded else "failure"
        if self._steps >= self.task_horizon:
            return "task_horizon"
        if self._steps == self.collector_limit:
            return "collector_limit"
        return None

    def render(self) -> str | None:
        """The episode so far, a line a step, in the mode "ansi"; None without a mode."""
        return "\n".join(self._transcript) if self.render_mode is not None else None


_NAMES: dict[Any, str] = {name: name for name in ACTIONS} | dict(enumerate(ACTIONS))


def _action_name(action: Any) -> str:
    """The name of an action that is given as a name or an index."""
    try:
        return _NAMES[action if isinstance(action, int | str) else operator.index(action)]
    except (KeyError, TypeError):
        raise ValueError(
            f"action is {action!r}; it must be an index from 0 to {len(ACTIONS) - 1} "
            f"or one of {', '.join(ACTIONS)}"
        ) from None


def _steps(name: str, value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError(f"{name} is {value}; it must be an integer ≥ 1")
    return integer(name, value, minimum=1)
