"""Steps a second of the actor-critic, and what it reaches, beside sb3-contrib's recurrent PPO.

Both learn the key-door task from shaped rewards, on one thread, with as many environments at once,
the same discounts, learning rate, epochs, entropy weight and width, and both see the observation
and the previous action. Recurrent PPO collects as many steps from each environment as the task
has; a run goes on until it has taken at least the same number of steps. Success is that of the
greedy policy on both targets. Where sb3-contrib is not installed, its rows are left out.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

from rlcheck.agents import (
    ActorCriticSettings,
    RecurrentActorCritic,
    collect_batch,
    train_actor_critic,
)
from rlcheck.envs import ACTIONS, OBSERVATIONS, KeyDoorAgentEnv, ObservationIndex
from rlcheck.envs.keydoor_agent import COLORS

ENVIRONMENTS, TASK_HORIZON = 48, 8
SETTINGS = ActorCriticSettings()
HIDDEN = 32


class Result(NamedTuple):
    """What a run took and reached."""

    steps: int
    seconds: float
    success: float


def rlcheck_run(seed: int, updates: int) -> Result:
    """Training without evaluations on the way; its few before and after are in the time."""
    began = time.perf_counter()
    model, curve = train_actor_critic(
        seed=seed,
        reward_mode="potential",
        updates=updates,
        episodes_per_update=ENVIRONMENTS,
        evaluation_interval=updates,
        evaluation_episodes=1,
        task_horizon=TASK_HORIZON,
    )
    seconds = time.perf_counter() - began
    envs = [KeyDoorAgentEnv(TASK_HORIZON) for _ in COLORS]
    success = collect_batch(model, envs, greedy=True, targets=COLORS).success.mean()
    return Result(curve[-1]["environment_steps"], seconds, float(success))


class ShapedWithPreviousAction(gym.Wrapper[Any, Any, Any, Any]):
    """The shaped reward as the reward; observation and previous action as units of a vector."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.width = len(OBSERVATIONS) + len(ACTIONS) + 1
        self.observation_space = gym.spaces.Box(0.0, 1.0, (self.width,), np.float32)

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        return self.vector(observation, len(ACTIONS)), info

    def step(self, action: Any) -> Any:
        observation, _, terminated, truncated, info = self.env.step(action)
        seen = self.vector(observation, action)
        return seen, info["shaped_reward"], terminated, truncated, info

    def vector(self, observation: Any, previous_action: Any) -> Any:
        seen = np.zeros(self.width, np.float32)
        seen[[observation, len(OBSERVATIONS) + previous_action]] = 1.0
        return seen


def recurrent_ppo_run(seed: int, steps: int) -> Result:
    """The same task with sb3-contrib."""
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    def make() -> Any:
        return ShapedWithPreviousAction(ObservationIndex(KeyDoorAgentEnv(TASK_HORIZON)))

    began = time.perf_counter()
    learner = RecurrentPPO(
        "MlpLstmPolicy",
        DummyVecEnv([make] * ENVIRONMENTS),
        n_steps=TASK_HORIZON,
        batch_size=ENVIRONMENTS * TASK_HORIZON,
        n_epochs=SETTINGS.epochs,
        learning_rate=SETTINGS.learning_rate,
        gamma=SETTINGS.gamma,
        gae_lambda=SETTINGS.lam,
        ent_coef=SETTINGS.entropy_weight,
        max_grad_norm=SETTINGS.max_gradient_norm,
        policy_kwargs={
            "lstm_hidden_size": HIDDEN,
            "net_arch": [],
            "shared_lstm": True,
            "enable_critic_lstm": False,
        },
        seed=seed,
        device="cpu",
    )
    learner.learn(steps)
    seconds = time.perf_counter() - began
    return Result(
        learner.num_timesteps, seconds, float(np.mean([_ppo_success(learner, c) for c in COLORS]))
    )


def _ppo_success(learner: Any, target: str) -> bool:
    env = ShapedWithPreviousAction(ObservationIndex(KeyDoorAgentEnv(TASK_HORIZON)))
    observation, _ = env.reset(options={"target": target})
    state, ended, first = None, False, True
    while not ended:
        action, state = learner.predict(
            observation, state=state, episode_start=np.array([first]), deterministic=True
        )
        observation, _, ended, _, info = env.step(int(action))
        first = False
    return bool(info["stop_reason"] == "success")


def parts() -> dict[str, float]:
    """Steps a second of collection alone, of a policy that is uniform."""
    model, envs = (
        RecurrentActorCritic(hidden_size=HIDDEN),
        [KeyDoorAgentEnv(TASK_HORIZON, seed=seed) for seed in range(ENVIRONMENTS)],
    )
    generator = torch.Generator().manual_seed(0)
    collect_batch(model, envs, generator=generator)
    began, steps = time.perf_counter(), 0
    for _ in range(30):
        steps += int(collect_batch(model, envs, generator=generator).active.sum())
    return {"collection alone": steps / (time.perf_counter() - began)}


def main(seeds: int = 3, first_seed: int = 1) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    rlcheck_run(0, 2)  # warms up
    table = Table("learner", "updates", "steps", "seconds", "steps / s", "ratio", "success")
    for updates in (30, 300):
        ours = [rlcheck_run(seed, updates) for seed in range(first_seed, first_seed + seeds)]
        budget = int(median(result.steps for result in ours))
        learners: dict[str, Callable[[], list[Result]]] = {
            "rlcheck": lambda ours=ours: ours,
            "sb3-contrib RecurrentPPO": lambda budget=budget: [
                recurrent_ppo_run(seed, budget) for seed in range(first_seed, first_seed + seeds)
            ],
        }
        rates: list[float] = []
        for name, results_of in learners.items():
            try:
                results = results_of()
            except ImportError:
                continue
            seconds = median(result.seconds for result in results)
            rates.append(median(result.steps / result.seconds for result in results))
            table.add_row(
                name,
                str(updates) if name == "rlcheck" else "",
                f"{median(result.steps for result in results):,.0f}",
                f"{seconds:.2f}",
                f"{rates[-1]:,.0f}",
                f"{rates[-1] / rates[0]:.2f}",
                " ".join(f"{result.success:g}" for result in results),
            )
    console = Console()
    console.print(table)
    for name, rate in parts().items():
        console.print(f"{name}: {rate:,.0f} steps a second")


if __name__ == "__main__":
    typer.run(main)
