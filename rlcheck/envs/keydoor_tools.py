"""The key-door task as text tools, for trainers of language models.

`KeyDoorTools` offers the task of `KeyDoorAgentEnv` as methods that a model calls: TRL's
`GRPOTrainer` takes the class itself as its `environment_factory`, and any trainer that can call
Python functions can use it. Nothing here needs torch or TRL. See docs/trl.md.
"""

import random
from typing import Any, NamedTuple

from gymnasium.error import ResetNeeded

from rlcheck._inputs import integer, unit_interval
from rlcheck.envs.keydoor_agent import ACTIONS, COLORS, KeyDoorAgentEnv, transition
from rlcheck.returns import discounted_return

__all__ = ["OVER", "PROMPT", "REWARD_MODES", "SYSTEM_PROMPT", "Call", "KeyDoorTools", "prompts"]

REWARD_MODES = ("sparse", "potential")

SYSTEM_PROMPT = "You act in a small world by calling tools, one at a time, and read what happens."
PROMPT = (
    "A note names a color, red or blue. Inspect the note, pick up the key of that color, open the "
    "door of that color, then finish. The note can be read only once. A wrong key, or a key tried "
    "in the wrong door, cannot be undone, and the number of calls is limited. Once the episode is "
    "over, answer in words, without a tool call."
)
OVER = "The episode is over. Nothing changes any more."


class Call(NamedTuple):
    """One tool call that the environment has seen, for audits of a transcript.

    `arguments` are the model's, `action` is what the environment was given: one that changes
    nothing but the time where the color was unknown. `reward` is the step's, base or shaped.
    """

    tool: str
    arguments: dict[str, Any]
    action: str
    observation: str
    valid: bool
    reward: float
    terminated: bool
    truncated: bool
    stop_reason: str | None


class KeyDoorTools:
    """The key-door task for a model that calls tools: inspect, pickup, open_door and finish.

    Every call costs a step, also one with an unknown color: it raises an error that tells the
    model the colors. A call that never arrives here (an unknown tool, a missing argument, broken
    JSON) costs tokens only. Once the episode is over, calls change nothing and answer OVER.

    The episode's reward is the discounted sum of the rewards of its T steps:

        sparse:     R = Σ_t γ^t r_t, that is γ^(T−1) for a success and 0 for all else
        potential:  R = Σ_t γ^t (r_t + γ Φ(s_{t+1}) − Φ(s_t)) = sparse + γ^T Φ(s_T) − Φ(s_0)

    with Φ(s_T) = 0 where the task itself ended. Φ(s_0) is common to a group of rollouts, and 0
    here: what potentials add to an episode's reward is γ^T Φ(s_T) for an episode that was left or
    cut before its end, in place of the value that nobody estimates. For γ > ½ that is less than
    the success would be worth, γ³. With γ = 1 all rewards are exact in binary, so that equal
    outcomes have equal rewards to the last bit.

    Instances may be used again: `reset` clears all that an episode leaves.

    Args:
        task_horizon: calls after which the task itself is over, an integer ≥ 1.
        collector_limit: calls after which the episode is cut from outside, or None for never.
        reward_mode: "sparse" or "potential".
        gamma: γ, the discount of one call, in [0, 1].

    Raises:
        ValueError: an argument is out of range; the text names it and its value.
        TypeError: gamma is no number.

    Reference:
        Ng, Harada and Russell (1999), Policy invariance under reward transformations.
    """

    def __init__(
        self,
        task_horizon: int = 8,
        collector_limit: int | None = None,
        reward_mode: str = "sparse",
        gamma: float = 1.0,
    ) -> None:
        if reward_mode not in REWARD_MODES:
            raise ValueError(
                f"reward_mode is {reward_mode!r}; it must be one of {', '.join(REWARD_MODES)}"
            )
        self._env = KeyDoorAgentEnv(task_horizon, collector_limit)
        self._shaped = reward_mode == "potential"
        self._gamma = unit_interval("gamma", gamma)
        self._log: list[Call] | None = None

    # Trainers offer every public method to the model as a tool. Properties are none.

    @property
    def log(self) -> tuple[Call, ...]:
        """The calls of this episode that cost a step, in order."""
        if self._log is None:
            raise ResetNeeded("call reset() first")
        return tuple(self._log)

    @property
    def over(self) -> bool:
        """Whether the episode has ended: finished, out of time, or cut by the collector."""
        return bool(self.log) and (self.log[-1].terminated or self.log[-1].truncated)

    @property
    def target(self) -> str:
        """The color of this episode, which the model must find out."""
        return self._env.target

    def reset(self, *, target: str | None = None, seed: int | None = None, **columns: Any) -> str:
        """Begin an episode.

        Args:
            target: "red" or "blue"; None draws one of them with equal chance.
            seed: seeds the draws of this and the following episodes; None goes on drawing.
            columns: the other columns of the dataset's row, which the task does not need.

        Returns:
            The first observation, after an empty line: trainers append it to the user's message
            as it is.

        Raises:
            ValueError: the target is neither color, or the seed no integer ≥ 0.
        """
        observation, _ = self._env.reset(seed=seed, target=target)
        self._log = []
        return f"\n\n{observation}"

    def inspect(self) -> str:
        """Read the note. It can be read only once.

        Returns:
            What you see.
        """
        return OVER if self.over else self._step("inspect", {}, "inspect")

    def pickup(self, color: str) -> str:
        """Pick up a key. You can hold one key only, and never put it down.

        Args:
            color: The color of the key. (choices: ["red", "blue"])

        Returns:
            What you see.
        """
        return self._colored("pickup", color, f"pickup_{color}")

    def open_door(self, color: str) -> str:
        """Try your key in the lock of a door. A key of another color breaks.

        Args:
            color: The color of the door. (choices: ["red", "blue"])

        Returns:
            What you see.
        """
        return self._colored("open_door", color, f"open_{color}")

    def finish(self) -> str:
        """Finish the episode. It is a success if the right door is open.

        Returns:
            What you see.
        """
        return OVER if self.over else self._step("finish", {}, "finish")

    def get_reward(self) -> float:
        """The reward of the episode so far; it stays as it is once the episode is over."""
        return discounted_return([call.reward for call in self.log], self._gamma)

    def _colored(self, tool: str, color: Any, action: str) -> str:
        if self.over:
            return OVER
        if color in COLORS:
            return self._step(tool, {"color": color}, action)
        # A call that cost nothing would let a policy wait for as long as it likes.
        observation = self._step(tool, {"color": color}, self._idle_action())
        raise ValueError(
            f"color is {color!r}; it must be one of {', '.join(COLORS)}. {observation}"
        )

    def _idle_action(self) -> str:
        """An action that only passes the time; every state has one: a second key, or no key yet."""
        state = self._env._state
        assert state is not None
        return next(action for action in ACTIONS if not transition(state, action).valid)

    def _step(self, tool: str, arguments: dict[str, Any], action: str) -> str:
        assert self._log is not None
        observation, base_reward, terminated, truncated, info = self._env.step(action, self._gamma)
        reward = info["shaped_reward"] if self._shaped else base_reward
        self._log.append(
            Call(
                tool,
                arguments,
                action,
                observation,
                info["valid"],
                reward,
                terminated,
                truncated,
                info["stop_reason"],
            )
        )
        return observation


def prompts(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of a dataset for training, as `datasets.Dataset.from_list` takes them.

    A trainer repeats a row for every rollout of its group, so the rollouts of a group share their
    target and can be compared.

    Args:
        count: how many rows, ≥ 0.
        seed: seeds the draws of the targets and the seeds.

    Returns:
        Rows with `prompt`, a conversation of SYSTEM_PROMPT and PROMPT, `target` and `seed`; the
        last two reach `KeyDoorTools.reset`.
    """
    count = integer("count", count, minimum=0)
    draw = random.Random(integer("seed", seed, minimum=0))
    return [
        {
            "prompt": [
                {"role": "system", "content": SYSTEM_PROMPT},
                {"role": "user", "content": PROMPT},
            ],
            "target": draw.choice(COLORS),
            "seed": draw.randrange(2**31),
        }
        for _ in range(count)
    ]
