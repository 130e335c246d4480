"""Five ways to learn from one log of the key-door grid, each held against the exact solution."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from rlcheck._inputs import Floats, integer
from rlcheck.agents._fitting import FittingSettings, draw_seeds, logged_steps
from rlcheck.agents._options import chosen_settings
from rlcheck.agents.behavior_cloning import behavior_cloning
from rlcheck.agents.cql import conservative_q_learning
from rlcheck.agents.datasets import GridEpisode, GridTransition, collect_offline_dataset
from rlcheck.agents.fqe import estimated_start_value, fitted_q_evaluation, policy_support
from rlcheck.agents.iql import implicit_q_learning
from rlcheck.agents.offline_dqn import offline_dqn
from rlcheck.agents.q_networks import evaluate_grid_policy, grid_scores
from rlcheck.agents.support_masked import support_masked_dqn
from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.envs.keydoor_grid_solution import greedy_policy, start_value
from rlcheck.envs.keydoor_grid_vector import KeyDoorGridVector

__all__ = ["METHODS", "evaluate_by_log", "offline_experiment"]

METHODS = ("behavior cloning", "offline DQN", "support-masked DQN", "CQL", "IQL")
FQE_TARGET_INTERVAL = 10  # a policy that walks in circles takes hundreds of targets to evaluate


def offline_experiment(
    *,
    seed: int,
    dataset_episodes: int = 80,
    train_epochs: int = 300,
    evaluation_episodes: int = 100,
    profile: str = "mixed",
    settings: FittingSettings | None = None,
) -> dict[str, Any]:
    """Log episodes, learn from them in five ways, and say what each policy is worth.

    Args:
        seed: an integer ≥ 0; everything is drawn from it.
        dataset_episodes: of the log, ≥ 1.
        train_epochs: how often each learner goes through the log, ≥ 0. About 2,000 gradient steps,
            which are 300 epochs of 80 episodes, fit the cells that the log seldom enters.
        evaluation_episodes: ≥ 1, of the greedy policies in the simulator, from starts that are
            drawn, for `simulated_return`; everything else is exact and needs none.
        profile: of `collect_offline_dataset`.
        settings: None for the defaults; all learners share them, and gamma must be < 1.

    Returns:
        `results`: for each of `METHODS` what its greedy policy achieves over all starts, exactly,
        as `success_rate`, `mean_return`, `mean_steps`, `value`, discounted by `settings.gamma`,
        0.99 unless told otherwise; `simulated_return`;
        `estimated_value`, what the learner itself expects at the starts (NaN of cloning); and
        `sampled_value`, the exact value where actions are drawn (NaN of methods without a policy).
        `fqe`: for each method `estimate` by `fitted_q_evaluation`, `exact`, `path_support` and
        `log_support` as `policy_support` has them.
        `scores`: for each method [S, 4], of which the greedy policy takes the largest.
        `dataset`: what the log is made of.

    Raises:
        ValueError: the profile is unknown, or a number is out of range; the text names it.
        TypeError: the settings are of another kind.
    """
    settings = _discounted(settings)
    evaluation_episodes = integer("evaluation_episodes", evaluation_episodes, minimum=1)
    train_epochs = integer("train_epochs", train_epochs, minimum=0)
    dataset_episodes = integer("dataset_episodes", dataset_episodes, minimum=1)
    log_seed, learning, evaluation, simulation = draw_seeds(seed, 4)
    episodes, transitions = collect_offline_dataset(
        seed=log_seed, episodes=dataset_episodes, profile=profile
    )
    learned = _learn(transitions, seed=learning, epochs=train_epochs, settings=settings)
    results, estimates = {}, {}
    for name, (scores, expected, draws) in learned.items():
        policy = greedy_policy(scores)
        results[name] = evaluate_grid_policy(scores, gamma=settings.gamma) | {
            "simulated_return": _simulate(policy, evaluation_episodes, simulation),
            "estimated_value": expected,
            "sampled_value": start_value(_softmax(scores), gamma=settings.gamma)
            if draws
            else math.nan,
        }
        estimates[name] = evaluate_by_log(
            transitions, policy, seed=evaluation, epochs=train_epochs, settings=settings
        )
    return {
        "results": results,
        "fqe": estimates,
        "scores": {name: outcome.scores for name, outcome in learned.items()},
        "dataset": _describe(episodes, transitions),
    }


def evaluate_by_log(
    transitions: Sequence[GridTransition],
    policy: Floats,
    *,
    seed: int,
    epochs: int,
    settings: FittingSettings | None = None,
) -> dict[str, float]:
    """The value of a policy at the starts: estimated from a log, and exact.

    Args:
        transitions: the log.
        policy: [S, 4] probabilities of the actions.
        seed: an integer ≥ 0.
        epochs: how often the log is gone through, ≥ 0.
        settings: None for the defaults; the target network is renewed every 10 steps whatever they
            say, since a policy that walks in circles takes hundreds of targets to evaluate.

    Returns:
        `estimate`, `exact`, `path_support`, `log_support`.

    Raises:
        ValueError: gamma is 1, or as in `fitted_q_evaluation`.
    """
    settings = replace(_discounted(settings), target_interval=FQE_TARGET_INTERVAL)
    network, _ = fitted_q_evaluation(
        transitions, policy, seed=seed, epochs=epochs, settings=settings
    )
    support = policy_support(policy, transitions)
    return {
        "estimate": estimated_start_value(network, policy),
        "exact": start_value(policy, gamma=settings.gamma),
        "path_support": support.path,
        "log_support": support.log,
    }


def _discounted(settings: FittingSettings | None) -> FittingSettings:
    """Settings that a policy's exact value can be told by, which takes a discount below 1."""
    settings = chosen_settings(settings, FittingSettings)
    if settings.gamma == 1:
        raise ValueError("settings.gamma is 1; it must be < 1, since the task has no horizon")
    return settings


class _Learned(NamedTuple):
    scores: Floats  # [S, 4]
    expected: float  # what the learner thinks a start is worth
    draws: bool  # whether the scores are logits of a policy that draws its actions


def _learn(
    transitions: Sequence[GridTransition], *, seed: int, epochs: int, settings: FittingSettings
) -> dict[str, _Learned]:
    """Every method on the same log, with the same initial weights and orders."""
    steps = logged_steps(transitions)
    behavior, _ = behavior_cloning(
        steps.observations,
        steps.actions,
        seed=seed,
        epochs=epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
    )
    common: dict[str, Any] = {"seed": seed, "epochs": epochs, "settings": settings}
    unconstrained, _ = offline_dqn(transitions, **common)
    masked = support_masked_dqn(transitions, behavior=behavior, **common).network
    conservative, _ = conservative_q_learning(transitions, **common)
    implicit = implicit_q_learning(transitions, **common)
    learned = [_Learned(grid_scores(behavior), math.nan, True)]
    for network in (unconstrained, masked, conservative):
        scores = grid_scores(network)
        learned.append(_Learned(scores, _at_starts(scores.max(axis=1)), False))
    expected = _at_starts(grid_scores(implicit.value_network)[:, 0])
    learned.append(_Learned(grid_scores(implicit.policy), expected, True))
    return dict(zip(METHODS, learned, strict=True))


def _softmax(logits: Floats) -> Floats:
    chances: Floats = torch.from_numpy(logits).softmax(dim=1).numpy()
    return chances


def _at_starts(values: Floats) -> float:
    return float(values[grid_tables().start].mean())


def _simulate(policy: Floats, episodes: int, seed: int) -> float:
    """Mean undiscounted return of episodes in the simulator, from starts that are drawn."""
    grids = KeyDoorGridVector(episodes, seed=seed)
    grids.reset()
    actions, going, total = policy.argmax(axis=1), np.ones(episodes, bool), 0.0
    while going.any():
        _, rewards, terminated, truncated, _ = grids.step(actions[grids.states])
        total += rewards[going].sum()
        going &= ~(terminated | truncated)
    return float(total / episodes)


def _describe(
    episodes: Sequence[GridEpisode], transitions: Sequence[GridTransition]
) -> dict[str, Any]:
    """What a log is made of."""
    live = int((~grid_tables().terminal).sum())
    return {
        "episodes": len(episodes),
        "transitions": len(transitions),
        "mean_return": float(np.mean([episode.return_ for episode in episodes])),
        "success_rate": float(np.mean([episode.success for episode in episodes])),
        "episodes_by_randomness": dict(Counter(episode.randomness for episode in episodes)),
        "state_support": len({step.state for step in transitions}) / live,
        "pair_support": len({(step.state, step.action) for step in transitions}) / (4 * live),
    }
