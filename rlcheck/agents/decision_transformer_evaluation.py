"""What a decision transformer achieves when it is asked for a return."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcheck._inputs import integer, scalar
from rlcheck.agents._fitting import draw_seeds
from rlcheck.agents._options import switch
from rlcheck.agents.actor_critic import one_thread
from rlcheck.agents.decision_transformer_network import DecisionTransformer
from rlcheck.agents.decision_transformer_windows import Windows

__all__ = ["evaluate_decision_transformer"]


def evaluate_decision_transformer(
    env: Any,
    model: DecisionTransformer,
    *,
    target_return: float,
    episodes: int,
    seed: int,
    context_steps: int,
    greedy: bool = True,
) -> dict[str, Any]:
    """Ask for a return in every episode, and see what comes of it.

    R_0 = target,  R_{t+1} = R_t − r_t

    All episodes go on together, in copies of the environment, which itself stays as it is.

    Args:
        env: a `KeyDoorGrid`, or another environment with vector observations, discrete actions and
            info["success"].
        model: what acts, on the last K steps of its episode.
        target_return: what is asked for, finite.
        episodes: how many, ≥ 1.
        seed: an integer ≥ 0; the seeds of the episodes, and actions that are drawn, come from it.
        context_steps: K ≥ 1.
        greedy: whether the likeliest action is taken (the first one in a tie), or one is drawn.

    Returns:
        `target_return`, `mean_return` (undiscounted), `success_rate`, `mean_steps`, and `returns`
        and `steps`, one entry an episode.

    Raises:
        ValueError: a number is out of range, or an episode goes on beyond `model.max_steps`.
    """
    target = scalar("target_return", target_return)
    episodes = integer("episodes", episodes, minimum=1)
    context_steps = integer("context_steps", context_steps, minimum=1)
    actions_seed, *seeds = draw_seeds(seed, episodes + 1)
    generator = None if switch("greedy", greedy) else torch.Generator().manual_seed(actions_seed)
    play = _Play(env, model, seeds, target)
    with one_thread(), torch.no_grad():
        while len(play.running):
            logits = model(play.windows(context_steps))[:, -1]  # [running, A]
            play.step(_choose(logits, generator))
    return {
        "target_return": target,
        "mean_return": float(play.returns.mean()),
        "success_rate": float(play.success.mean()),
        "mean_steps": float(play.steps.mean()),
        "returns": play.returns.tolist(),
        "steps": play.steps.tolist(),
    }


def _choose(logits: Tensor, generator: torch.Generator | None) -> list[int]:
    if generator is None:
        return logits.argmax(dim=1).tolist()
    drawn = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)
    return drawn.squeeze(1).tolist()


class _Play:
    """N episodes that began together, and what was seen, done and asked for in each step."""

    def __init__(
        self, env: Any, model: DecisionTransformer, seeds: list[int], target: float
    ) -> None:
        shape = (len(seeds), model.max_steps)
        self.envs = [copy.deepcopy(env) for _ in seeds]
        self.states = np.full((*shape, model.state_dim), np.nan, np.float32)
        self.actions = np.zeros(shape, np.int64)
        self.returns_to_go = np.full(shape, np.nan)
        self.returns_to_go[:, 0] = target
        self.returns = np.zeros(len(seeds))
        self.success = np.zeros(len(seeds), np.bool_)
        self.steps = np.zeros(len(seeds), np.int64)
        self.running, self.time = np.arange(len(seeds)), 0
        for number, seed in enumerate(seeds):
            seen, _ = self.envs[number].reset(seed=seed)
            if np.shape(seen) != (model.state_dim,):
                raise ValueError(
                    f"env has observations of shape {np.shape(seen)}; the model reads "
                    f"({model.state_dim},)"
                )
            self.states[number, 0] = seen

    def windows(self, context_steps: int) -> Windows:
        """The last K steps of the episodes that go on; the action that is due is not known yet."""
        if self.time == self.states.shape[1]:
            raise ValueError(
                f"env has an episode of more than {self.time} steps; the model knows no time steps "
                f"beyond its max_steps, {self.time}"
            )
        times = np.arange(max(self.time + 1 - context_steps, 0), self.time + 1)
        rows = self.running[:, np.newaxis]
        shape = len(rows), len(times)
        return Windows(
            torch.from_numpy(self.returns_to_go[rows, times]).float(),
            torch.from_numpy(self.states[rows, times]),
            torch.from_numpy(self.actions[rows, times]),
            torch.from_numpy(times).expand(shape),
            torch.ones(shape, dtype=torch.bool),
        )

    def step(self, actions: list[int]) -> None:
        """One step of the episodes that go on; a reward received is no longer asked for."""
        going = []
        for number, action in zip(self.running.tolist(), actions, strict=True):
            seen, reward, terminated, truncated, info = self.envs[number].step(action)
            self.actions[number, self.time] = action
            self.returns[number] += reward
            self.steps[number] += 1
            self.success[number] = info["success"]
            if not (terminated or truncated):
                going.append(number)
                self._record(number, seen, reward)
        self.running, self.time = np.array(going, np.intp), self.time + 1

    def _record(self, number: int, seen: Any, reward: float) -> None:
        following = self.time + 1
        if following < self.states.shape[1]:
            self.states[number, following] = seen
            asked = self.returns_to_go[number, self.time]
            self.returns_to_go[number, following] = asked - reward
