"""Deep Q-learning on the key-door grid, with one network or two to choose and to value actions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rlcheck._inputs import integer, unit_interval
from rlcheck.agents._options import chosen_settings, switch
from rlcheck.agents.actor_critic import one_thread
from rlcheck.agents.exploration import CountedExploration
from rlcheck.agents.overestimation import max_q_overestimation
from rlcheck.agents.q_learner import DqnSettings, QLearner, TargetRule
from rlcheck.agents.q_networks import evaluate_grid_policy, grid_scores
from rlcheck.agents.replay import ReplayBuffer
from rlcheck.envs.keydoor_grid import KeyDoorGrid, grid_tables
from rlcheck.torch import double_dqn_targets

__all__ = ["train_online_dqn"]


def train_online_dqn(
    *,
    seed: int,
    episodes: int = 130,
    double: bool = False,
    evaluation_episodes: int = 4,
    evaluation_interval: int = 10,
    stop_at_success: float | None = None,
    settings: DqnSettings | None = None,
    environment: type[KeyDoorGrid] = KeyDoorGrid,
    targets: TargetRule | None = None,
) -> dict[str, Any]:
    """Train a network on episodes of its own, and evaluate its greedy policy.

    It acts greedily on Q + c U (`CountedExploration`), but for a share ε of random actions, and
    learns from windows of a `ReplayBuffer` what `QLearner` says. With `double` the network chooses
    the action that its slow copy values; otherwise the copy does both.

    It is deterministic: one seed gives one result on one machine, whatever torch's global generator
    holds. A bar shows the progress on a terminal.

    Args:
        seed: an integer ≥ 0; initial weights, starts, actions and windows are drawn from it.
        episodes: of training, ≥ 1.
        double: choose with one network and value with the other.
        evaluation_episodes: ≥ 1. The evaluation is exact and covers every start: neither the grid
            nor the greedy policy draws anything, and more episodes would repeat the same ones.
        evaluation_interval: episodes between two evaluations, ≥ 1; the last one is evaluated too.
        stop_at_success: end training after an evaluation with this success rate or a higher one.
        settings: None for the defaults.
        environment: the class of the environment that is trained on.
        targets: the rule of the targets, in the place of the one that `double` asks for.

    Returns:
        `evaluation` of the trained network (see `evaluate_grid_policy`, and `overestimation` as
        `max_q_overestimation`; `value` is discounted as training is, by `settings.gamma`, 0.95
        unless told otherwise, where offline learners have 0.99), `success` [episodes] 0 or 1,
        `network`, `q_values` [S, 4], `steps` of the environment, `updates` of the network, and
        `curve`: rows of `episode`, `environment_steps`, `update` and what the evaluation has.

    Raises:
        ValueError: a number is out of range; the text names it.
        TypeError: `double` is no boolean, or the settings are of another kind.

    Reference:
        Mnih et al. (2015), Human-level control through deep reinforcement learning; van Hasselt,
        Guez and Silver (2016), Deep reinforcement learning with double Q-learning, equation 4.
    """
    episodes = integer("episodes", episodes, minimum=1)
    interval = integer("evaluation_interval", evaluation_interval, minimum=1)
    integer("evaluation_episodes", evaluation_episodes, minimum=1)
    enough = 2.0 if stop_at_success is None else unit_interval("stop_at_success", stop_at_success)
    double = switch("double", double)
    rule = targets or (double_dqn_targets if double else None)
    seed = integer("seed", seed, minimum=0)
    agent = _Agent(seed, chosen_settings(settings, DqnSettings), environment, rule)
    curve, success = [], []
    name = f"{'double ' if double else ''}DQN, seed {seed}"
    with one_thread():
        for episode in tqdm(range(1, episodes + 1), desc=name, disable=None):
            agent.learner.slow_down(1 - (episode - 1) / episodes)
            success.append(agent.play())
            if episode % interval and episode < episodes:
                continue
            evaluation = agent.evaluate()
            curve.append({"episode": episode, **agent.progress, **evaluation})
            if evaluation["success_rate"] >= enough:
                break
    return {
        "evaluation": evaluation,
        "success": np.array(success),
        "network": agent.learner.network,
        "q_values": agent.q_values,
        "steps": agent.steps,
        "updates": agent.learner.updates,
        "curve": curve,
    }


class _Agent:
    """Acts in an environment, remembers what happened, and lets the learner learn from it."""

    def __init__(
        self,
        seed: int,
        settings: DqnSettings,
        environment: type[KeyDoorGrid],
        rule: TargetRule | None,
    ) -> None:
        streams = np.random.SeedSequence(seed).spawn(4)
        weights, starts = (int(stream.generate_state(1)[0]) for stream in streams[:2])
        self.acting, self.sampling = (np.random.default_rng(stream) for stream in streams[2:])
        self.settings, self.env = settings, environment(seed=starts)
        self.index = {state: number for number, state in enumerate(grid_tables().states)}
        self.learner = QLearner(weights, settings, rule)
        self.exploration = CountedExploration(len(self.index), KeyDoorGrid.action_dim)
        self.memory = ReplayBuffer(
            settings.capacity,
            observation_shape=(KeyDoorGrid.observation_dim,),
            n_step=settings.n_step,
            gamma=settings.gamma,
        )
        self.pairs = np.zeros((settings.capacity, 2), np.intp)  # the states and actions in memory
        self.q_values = grid_scores(self.learner.network)  # of all states: a step looks its up
        self.steps = 0

    @property
    def progress(self) -> dict[str, int]:
        return {"environment_steps": self.steps, "update": self.learner.updates}

    def play(self) -> float:
        """One episode; 1 if it reached the goal, else 0."""
        observation, info = self.env.reset()
        over = False
        while not over:
            seen, state = observation, self.index[info["state"]]
            action = self._act(state)
            observation, reward, terminated, truncated, info = self.env.step(action)
            over = terminated or truncated
            self.memory.add(seen, action, reward, observation, terminated, truncated)
            self.exploration.observe(state, action, self.index[info["state"]], terminated)
            self.pairs[self.steps % len(self.pairs)] = state, action
            self.steps += 1
            self._learn()
        return float(info["success"])

    def _act(self, state: int) -> int:
        if self.acting.random() < self.settings.epsilon:
            return int(self.acting.integers(KeyDoorGrid.action_dim))
        worth = self.q_values[state] + self.settings.exploration * self.exploration.values[state]
        return int(worth.argmax())

    def _learn(self) -> None:
        if self.steps < self.settings.warm_up or self.steps % self.settings.train_interval:
            return
        weights = self._weights() if self.settings.balanced else None
        batch = self.memory.sample(self.settings.batch_size, self.sampling, weights=weights)
        self.learner.learn(batch)
        self.q_values = grid_scores(self.learner.network)

    def _weights(self) -> NDArray[np.float64]:
        """[len] one over how often a stored step's action was taken in its state."""
        slots = np.arange(self.steps - len(self.memory), self.steps) % len(self.pairs)
        weights: NDArray[np.float64] = 1 / self.exploration.counts[tuple(self.pairs[slots].T)]
        return weights

    def evaluate(self) -> dict[str, float]:
        gamma = self.settings.gamma
        return evaluate_grid_policy(self.q_values, gamma=gamma) | {
            "overestimation": max_q_overestimation(self.q_values, gamma=gamma)
        }
