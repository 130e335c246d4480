"""The experiments of module 11: shaping, truncation and memory on the key-door task.

`python experiments/agentic.py` prints what the tests hold to their thresholds;
`--first-seed N` runs the same with other seeds than the registered ones.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import typer
from intervals import bootstrap, mean
from rich.console import Console
from rich.table import Table
from torch import Tensor

from rlcheck.agents import (
    ActorCritic,
    ActorCriticSettings,
    Batch,
    FeedForwardActorCritic,
    RecurrentActorCritic,
    area_under_curve,
    collect_batch,
    exact_success_probability,
    train_actor_critic,
)
from rlcheck.envs import ACTIONS, OBSERVATIONS, KeyDoorAgentEnv
from rlcheck.envs.keydoor_agent import COLORS, OBSERVATION_INDEX, START, State, potential
from rlcheck.envs.keydoor_agent_solution import (
    BeliefSolution,
    FiniteMemoryPolicy,
    Reward,
    base_reward,
    best_memoryless_policy,
    memoryless_policy,
    policy_value,
    potential_reward,
    uniform_policy,
)

REGISTERED: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "registered" / "agentic.toml").read_text(encoding="utf-8")
)
TASK_HORIZON: int = REGISTERED["task_horizon"]


class Run(NamedTuple):
    """What one training came to."""

    model: ActorCritic
    curve: list[dict[str, Any]]
    success: float  # of the greedy policy, a mean over both targets: exact
    exact_success: float  # of the policy that samples, exactly

    @property
    def area(self) -> float:
        """Mean success of the greedy policy over training."""
        return area_under_curve(self.curve)


@cache
def run(seed: int, reward_mode: str, updates: int, *, lam: float = 0.8, memory: bool = True) -> Run:
    """Train with a seed, and evaluate exactly."""
    model, curve = train_actor_critic(
        seed=seed,
        reward_mode=reward_mode,
        updates=updates,
        episodes_per_update=REGISTERED["episodes_per_update"],
        evaluation_interval=max(updates // 10, 1),
        evaluation_episodes=REGISTERED["evaluation_episodes"],
        task_horizon=TASK_HORIZON,
        model=None if memory else without_memory(seed),
        settings=ActorCriticSettings(lam=lam),
    )
    exact = exact_success_probability(model, task_horizon=TASK_HORIZON)
    return Run(model, curve, float(greedy_episodes(model).success.mean()), exact)


def greedy_episodes(
    model: ActorCritic, environment: type[KeyDoorAgentEnv] = KeyDoorAgentEnv, gamma: float = 0.99
) -> Batch:
    """The greedy policy's two episodes, one for each target: there are no others."""
    envs = [environment(TASK_HORIZON) for _ in COLORS]
    return collect_batch(model, envs, greedy=True, targets=COLORS, gamma=gamma)


def without_memory(seed: int) -> FeedForwardActorCritic:
    """A policy of the current observation alone, with weights drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return FeedForwardActorCritic()


@torch.no_grad()
def as_table(model: FeedForwardActorCritic) -> FiniteMemoryPolicy:
    """The same policy as a table, which the exact solution evaluates."""
    seen = torch.arange(len(OBSERVATIONS)).unsqueeze(1)  # [O, 1]
    logits, _, _ = model(seen, torch.full_like(seen, model.no_action))
    return memoryless_policy(logits.squeeze(1).double().softmax(dim=-1))


# Rewards that look like shaping and are not.


def milestones(state: State) -> float:
    """Milestones reached so far, 0 to 4: finishing counts as the last one, whatever was opened."""
    if state.finished:
        return 4.0
    return 4 * potential(state)


def terminal_potential(gamma: float) -> Reward:
    """r + γ Φ(s′) − Φ(s) with milestones as Φ, also where s′ is terminal."""

    def reward(state: State, after: State, terminal: bool) -> float:
        return base_reward(state, after, terminal) + gamma * milestones(after) - milestones(state)

    return reward


def paying_loop(gamma: float) -> Reward:
    """r + Φ(s′) with milestones as Φ, at every step: waiting with an open door pays again."""

    def reward(state: State, after: State, terminal: bool) -> float:
        return base_reward(state, after, terminal) + 4 * potential(after)

    return reward


def environment_paying(reward_of: Any) -> type[KeyDoorAgentEnv]:
    """The environment, with another reward in the place of the shaped one."""

    class Paying(KeyDoorAgentEnv):
        """Pays what it was told to."""

        def step(self, action: Any, gamma: float | None = None) -> Any:
            gamma = self.gamma if gamma is None else gamma
            before = self._state
            observation, base, terminated, truncated, info = super().step(action, gamma)
            info["shaped_reward"] = reward_of(gamma)(before, self._state, terminated)
            return observation, base, terminated, truncated, info

    return Paying


REWARDS = {
    "potential": potential_reward,
    "terminal potential": terminal_potential,
    "paying loop": paying_loop,
}


def solution(name: str) -> BeliefSolution:
    """The exact solution for a reward."""
    gamma = REGISTERED["broken_shaping"]["gamma"]
    return BeliefSolution(TASK_HORIZON, gamma=gamma, reward=REWARDS[name](gamma))


def exact_base_value(name: str) -> float:
    """The base value, exactly, of a policy that is optimal for a reward."""
    chosen = solution(name)
    return policy_value(chosen.policy(), task_horizon=TASK_HORIZON, gamma=chosen.gamma)


class Learned(NamedTuple):
    """What the greedy policy that is learned from a reward is worth, discounted."""

    base: float
    own: float  # by the reward that it was trained on


@cache
def learned_value(name: str, seed: int) -> Learned:
    """Train on a reward; "potential" is the environment's own."""
    gamma = REGISTERED["broken_shaping"]["gamma"]
    updates = REGISTERED["broken_shaping"]["updates"]
    paying = KeyDoorAgentEnv if name == "potential" else environment_paying(REWARDS[name])
    model, _ = train_actor_critic(
        seed=seed,
        reward_mode="potential",
        updates=updates,
        episodes_per_update=REGISTERED["episodes_per_update"],
        evaluation_interval=updates,
        evaluation_episodes=1,
        task_horizon=TASK_HORIZON,
        environment=paying,
        settings=ActorCriticSettings(gamma=gamma),
    )
    batch = greedy_episodes(model, paying, gamma)
    discounts = gamma ** np.arange(batch.active.shape[1])
    return Learned(
        *(float((r @ discounts).mean()) for r in (batch.base_rewards, batch.shaped_rewards))
    )


# The value of a known policy, learned from episodes that the collector cuts.


def lazy_policy(pace: float) -> FiniteMemoryPolicy:
    """Does the right thing with probability `pace`, and otherwise an action that is not valid.

    Its memory is what it has done and the colour it has read; time plays no part in it.
    """
    memories = ["start", *(f"{done} {c}" for done in ("read", "took", "opened") for c in COLORS)]
    index = {name: i for i, name in enumerate(memories)}
    probabilities = np.zeros((len(memories), len(ACTIONS)))
    following = np.tile(
        np.arange(len(memories))[:, None, None], (1, len(ACTIONS), len(OBSERVATIONS))
    )

    def act(memory: str, right: str, idle: str) -> None:
        for action, chance in ((right, pace), (idle, 1 - pace)):
            probabilities[index[memory], ACTIONS.index(action)] += chance

    act("start", "inspect", "open_red")
    for color in COLORS:
        act(f"read {color}", f"pickup_{color}", "inspect")
        act(f"took {color}", f"open_{color}", "inspect")
        act(f"opened {color}", "finish", "inspect")
        seen = OBSERVATIONS.index(f"The note says: {color}.")
        following[index["start"], ACTIONS.index("inspect"), seen] = index[f"read {color}"]
        following[index[f"read {color}"], ACTIONS.index(f"pickup_{color}")] = index[f"took {color}"]
        following[index[f"took {color}"], ACTIONS.index(f"open_{color}")] = index[f"opened {color}"]
    return FiniteMemoryPolicy(probabilities, following)


class TableActor(RecurrentActorCritic):
    """Acts by a table, and learns values with a GRU."""

    def __init__(self, policy: FiniteMemoryPolicy) -> None:
        super().__init__()
        self.table = torch.tensor(policy.probabilities).log().float().clamp(min=-1e9)  # [M, A]
        self.next_memory = torch.tensor(policy.next_memory)  # [M, A, O]
        self.first = policy.start

    def forward(
        self, observations: Tensor, previous_actions: Tensor, state: Any = None
    ) -> tuple[Tensor, Tensor, Any]:
        hidden, memory = (None, None) if state is None else state
        features, hidden = self.features(observations, previous_actions, hidden)
        logits = []
        for observed, acted in zip(observations.T, previous_actions.T, strict=True):
            if memory is None:
                memory = torch.full_like(observed, self.first)
            else:
                memory = self.next_memory[memory, acted, observed]
            logits.append(self.table[memory])
        return torch.stack(logits, dim=1), self.value(features).squeeze(-1), (hidden, memory)


class TruncationTerminates(KeyDoorAgentEnv):
    """Reports the collector's limit as the end of the task."""

    def step(self, action: Any, gamma: float | None = None) -> Any:
        observation, base, terminated, truncated, info = super().step(action, gamma)
        return observation, base, terminated or truncated, False, info


def exact_start_value(*, ends_at_the_limit: bool) -> float:
    """The value of the lazy policy, in the task or in one that ends where the collector cuts."""
    options = REGISTERED["truncation"]
    horizon = options["collector_limit" if ends_at_the_limit else "task_horizon"]
    gamma = ActorCriticSettings().gamma
    return policy_value(lazy_policy(options["pace"]), task_horizon=horizon, gamma=gamma)


@cache
def learned_start_value(seed: int, environment: type[KeyDoorAgentEnv]) -> float:
    """The value of the lazy policy at the start, learned from cut episodes."""
    options = REGISTERED["truncation"]
    policy = lazy_policy(options["pace"])
    settings = ActorCriticSettings(
        policy_weight=0.0,
        entropy_weight=0.0,
        learning_rate=options["learning_rate"],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        actor = TableActor(policy)
    train_actor_critic(
        seed=seed,
        reward_mode="sparse",
        updates=options["updates"],
        episodes_per_update=REGISTERED["episodes_per_update"],
        evaluation_interval=options["updates"],
        evaluation_episodes=1,
        task_horizon=options["task_horizon"],
        collector_limit=options["collector_limit"],
        model=actor,
        environment=environment,
        settings=settings,
    )
    with torch.no_grad():
        first = torch.tensor([[OBSERVATION_INDEX[START]]])
        _, values, _ = actor(first, torch.full_like(first, actor.no_action))
    return float(values)


def seeds_of(claim: str, first_seed: int | None) -> list[int]:
    """The registered seeds of a claim, or as many others."""
    registered: list[int] = REGISTERED[claim]["seeds"]
    return registered if first_seed is None else [first_seed + i for i in range(len(registered))]


def main(first_seed: int | None = None) -> None:
    """Print every figure that the tests hold to a threshold."""
    table = Table("claim", "measured", "value")

    def say(claim: str, measured: str, value: object) -> None:
        table.add_row(claim, measured, str(value))

    shaping, seeds = REGISTERED["shaping"], seeds_of("shaping", first_seed)
    potential_runs = [run(seed, "potential", shaping["updates"]) for seed in seeds]
    say("shaping", "success, greedy, IQM", bootstrap([r.success for r in potential_runs]))
    say(
        "shaping",
        "success, sampled, exact, IQM",
        bootstrap([r.exact_success for r in potential_runs]),
    )
    for lam in shaping["sparse_lam"]:
        sparse = [run(seed, "sparse", shaping["updates"], lam=lam) for seed in seeds]
        gains = [p.area - s.area for p, s in zip(potential_runs, sparse, strict=True)]
        say(f"sparse, λ = {lam}", "success, greedy, IQM", bootstrap([r.success for r in sparse]))
        say(f"sparse, λ = {lam}", "area lost to potential, mean", bootstrap(gains, mean))
    for mode in ("sparse", "potential"):
        runs = [run(s, mode, REGISTERED["long"]["updates"]) for s in seeds_of("long", first_seed)]
        say(f"long, {mode}", "success, greedy, IQM", bootstrap([r.success for r in runs]))
    for name in REWARDS:
        values = [learned_value(name, seed) for seed in seeds_of("broken_shaping", first_seed)]
        say(name, "base value learned, mean", bootstrap([value.base for value in values], mean))
        say(name, "base value of its own optimum, exact", f"{exact_base_value(name):.3f}")
        say(name, "own value learned, mean", bootstrap([value.own for value in values], mean))
        say(name, "own optimum, exact", f"{solution(name).start_value:.3f}")
    for name, environment in (
        ("truncation bootstraps", KeyDoorAgentEnv),
        ("truncation terminates", TruncationTerminates),
    ):
        seeds = seeds_of("truncation", first_seed)
        values = [learned_start_value(seed, environment) for seed in seeds]
        exact = exact_start_value(ends_at_the_limit=environment is TruncationTerminates)
        say(name, "value at the start learned, mean", bootstrap(values, mean))
        say(name, "value of the task that this is, exact", f"{exact:.3f}")
    runs = [
        run(seed, "potential", REGISTERED["memory"]["updates"], memory=False)
        for seed in seeds_of("memory", first_seed)
    ]
    best, _ = best_memoryless_policy(TASK_HORIZON)
    say(
        "no memory",
        "success, sampled, exact, mean",
        bootstrap([r.exact_success for r in runs], mean),
    )
    say("no memory", "its exact optimum", best)
    uniform = policy_value(uniform_policy(), task_horizon=TASK_HORIZON)
    say("uniform policy", "success, exact", f"{uniform:.4f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
