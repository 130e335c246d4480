"""What a policy on the key-door task is worth: sampled, and exactly."""

import numpy as np
import torch

from rlcheck._inputs import integer, unit_interval
from rlcheck.agents.collection import collect_batch
from rlcheck.agents.networks import ActorCritic
from rlcheck.envs.keydoor_agent import (
    ACTIONS,
    COLORS,
    OBSERVATION_INDEX,
    KeyDoorAgentEnv,
    State,
    initial_state,
    transition,
)

__all__ = ["evaluate_policy", "exact_success_probability"]

EVALUATION = 11  # sets these streams apart from those that training draws from


def evaluate_policy(
    model: ActorCritic,
    *,
    episodes: int,
    seed: int,
    greedy: bool = True,
    task_horizon: int = 8,
    gamma: float = 0.99,
) -> dict[str, float]:
    """What a policy achieves in episodes that the task alone ends.

    Args:
        model: the policy.
        episodes: how many, ≥ 1.
        seed: an integer ≥ 0; the targets, and sampled actions, are drawn from it.
        greedy: take the likeliest action instead of sampling.
        task_horizon: steps of the task.
        gamma: discount of the return.

    Returns:
        `success_rate`, `mean_turns` (steps of an episode), `invalid_action_rate` (of all steps)
        and `mean_return` (discounted base reward; the optimum is γ³ for γ ≥ ½).

    Raises:
        ValueError: a number is out of range; the text names it.
    """
    count = integer("episodes", episodes, minimum=1)
    gamma = unit_interval("gamma", gamma)
    stream = np.random.SeedSequence((integer("seed", seed, minimum=0), EVALUATION))
    actions, *targets = (int(state) for state in stream.generate_state(count + 1))
    batch = collect_batch(
        model,
        [KeyDoorAgentEnv(task_horizon, seed=state) for state in targets],
        greedy=greedy,
        gamma=gamma,
        generator=torch.Generator().manual_seed(actions),
    )
    discounts = gamma ** np.arange(batch.active.shape[1])
    return {
        "success_rate": float(batch.success.mean()),
        "mean_turns": float(batch.active.sum(axis=1).mean()),
        "invalid_action_rate": float(1 - batch.valid.sum() / batch.active.sum()),
        "mean_return": float((batch.base_rewards @ discounts).mean()),
    }


@torch.no_grad()
def exact_success_probability(
    model: ActorCritic, *, task_horizon: int = 8, cutoff: float = 1e-9
) -> float:
    """The probability that a policy which samples its actions succeeds.

    Σ over the courses of actions that succeed of Π_t π(a_t | o_0 a_0 … o_t), a mean over targets.
    Courses that can no longer succeed are dropped, and those of a probability below `cutoff`.

    Args:
        model: the policy.
        task_horizon: steps of the task, ≥ 1. The work grows exponentially with it.
        cutoff: a lower bound of the probability of the courses that are followed, in [0, 1].

    Returns:
        The probability; too small by at most `cutoff` times the number of courses dropped for it.

    Raises:
        ValueError: the horizon or the cutoff is out of range.
    """
    horizon = integer("task_horizon", task_horizon, minimum=1)
    cutoff = unit_interval("cutoff", cutoff)
    return sum(_success(model, initial_state(color), horizon, cutoff) for color in COLORS) / len(
        COLORS
    )


def _success(model: ActorCritic, start: State, horizon: int, cutoff: float) -> float:
    states, chances = [start], np.ones(1)
    observed, acted = [0], [model.no_action]
    memory, total = None, 0.0
    for _ in range(horizon):
        logits, _, memory = model(
            torch.tensor(observed).unsqueeze(1), torch.tensor(acted).unsqueeze(1), memory
        )
        reached = chances[:, np.newaxis] * logits.squeeze(1).double().softmax(dim=-1).numpy()
        kept: list[tuple[int, int, State, int]] = []
        for row, action in np.argwhere(reached >= cutoff).tolist():
            outcome = transition(states[row], ACTIONS[action])
            after = outcome.state
            if after.succeeded:
                total += reached[row, action]
            elif not after.finished and after.key in (None, after.target):
                kept.append((row, action, after, OBSERVATION_INDEX[outcome.observation]))
        if not kept:
            break
        rows, acted, states, observed = (list(column) for column in zip(*kept, strict=True))
        chances = reached[rows, acted]
        memory = memory[:, rows]
    return float(total)
