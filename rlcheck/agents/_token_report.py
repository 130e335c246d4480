"""What a log of the toy language holds, and what answers and policies are worth."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlcheck.agents._token_language import (
    ANSWERS,
    END,
    PROMPTS,
    TokenEpisode,
    answer_reward,
    encode,
)
from rlcheck.agents._token_networks import TokenCritic, TokenScores
from rlcheck.agents._token_solution import expected_rewards, support_values, value_errors

__all__ = ["describe_log", "describe_truth", "evaluate_answers", "is_good"]


def describe_log(episodes: Sequence[TokenEpisode]) -> dict[str, Any]:
    """What a log holds, in lists."""
    good = np.array([is_good(episode.prompt, episode.tokens) for episode in episodes])
    prompts = np.array([episode.prompt for episode in episodes])
    shares = [float(good[prompts == number].mean()) for number in range(len(PROMPTS))]
    return {
        "prompts": list(PROMPTS),
        "prompt_index": prompts.tolist(),
        "sequences": [episode.tokens for episode in episodes],
        "rewards": [episode.reward for episode in episodes],
        "good_share": shares,
        "bad_share": [1.0 - share for share in shares],
    }


def is_good(prompt: int, tokens: Sequence[int]) -> bool:
    """Whether an answer is the good one, end token included."""
    return tuple(tokens) == (*encode(ANSWERS[PROMPTS[prompt]][0].text), END)


def evaluate_answers(sequences: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """What answers to all prompts are worth."""
    rewards = [answer_reward(number, tokens) for number, tokens in enumerate(sequences)]
    matches = [is_good(number, tokens) for number, tokens in enumerate(sequences)]
    return {
        "mean_reward": float(np.mean(rewards)),
        "exact_match": float(np.mean(matches)),
        "sequences": list(sequences),
        "rewards": rewards,
    }


def describe_truth(
    episodes: Sequence[TokenEpisode],
    methods: dict[str, TokenScores],
    critic: TokenCritic,
    *,
    gamma: float,
    expectile: float,
) -> dict[str, Any]:
    """What the log supports, what policies are worth that sample their words, all exactly."""
    best = support_values(episodes, gamma=1.0, expectile=1.0)
    errors = value_errors(critic, episodes, gamma=gamma, expectile=expectile)
    return {
        "optimal_rewards": [best[number, ()].v for number in range(len(PROMPTS))],
        "expected_rewards": {
            name: expected_rewards(scores).tolist() for name, scores in methods.items()
        },
        "q_error": float(np.abs(errors.q).max()),
        "v_error": float(np.abs(errors.v).max()),
    }
