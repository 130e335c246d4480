"""Offline RL of tokens: what imitation answers, and what values of tokens make of the same log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from rlcheck._inputs import integer, scalar, unit_interval
from rlcheck.agents._token_language import (
    ANSWERS,
    END,
    PROMPTS,
    TokenBatch,
    TokenEpisode,
    answer_reward,
    draw_answers,
    encode,
    token_batch,
    token_text,
)
from rlcheck.agents._token_learning import (
    TokenCritic,
    TokenPolicy,
    TokenScores,
    cloning_loss,
    critic_loss,
    decode,
    fit,
    reweighted,
)
from rlcheck.agents._token_solution import expected_rewards, support_values, value_errors

__all__ = [
    "PROMPTS",
    "TokenLearners",
    "TokenOfflineSettings",
    "evaluate_answers",
    "language_offline_experiment",
    "token_text",
    "train_token_learners",
]


@dataclass(frozen=True)
class TokenOfflineSettings:
    """What the learners need to be told.

    An epoch is `updates_per_epoch` updates, each with the whole log.

    Raises:
        ValueError: a number is out of range; the text names it.
    """

    gamma: float = 0.99
    expectile: float = 0.9
    beta: float = 8.0
    max_weight: float = 100.0
    learning_rate: float = 0.01
    updates_per_epoch: int = 8
    hidden_size: int = 48

    def __post_init__(self) -> None:
        unit_interval("gamma", self.gamma)
        if not 0.0 < scalar("expectile", self.expectile) < 1.0:
            raise ValueError(f"expectile is {self.expectile}; it must lie in (0, 1)")
        if scalar("beta", self.beta) < 0:
            raise ValueError(f"beta is {self.beta}; it must be ≥ 0")
        for name in ("max_weight", "learning_rate"):
            if scalar(name, getattr(self, name)) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be > 0")
        for name in ("updates_per_epoch", "hidden_size"):
            object.__setattr__(self, name, integer(name, getattr(self, name), minimum=1))


class TokenLearners(NamedTuple):
    """A policy that imitates a log, and a critic of the log's tokens."""

    policy: TokenPolicy
    critic: TokenCritic
    settings: TokenOfflineSettings

    @property
    def improved(self) -> TokenScores:
        """The policy, reweighted by the critic."""
        settings = self.settings
        return reweighted(
            self.policy, self.critic, beta=settings.beta, max_weight=settings.max_weight
        )


def train_token_learners(
    batch: TokenBatch,
    *,
    seed: int,
    bc_epochs: int,
    iql_epochs: int,
    settings: TokenOfflineSettings | None = None,
) -> TokenLearners:
    """Train both learners on a fixed log; neither reads the other.

    Args:
        batch: of the log.
        seed: an integer ≥ 0, of the initial weights.
        bc_epochs: of the policy, ≥ 0.
        iql_epochs: of the critic, ≥ 0.
        settings: None for the defaults.

    Raises:
        ValueError: a number is out of range; the text names it.
    """
    settings = settings or TokenOfflineSettings()
    bc_epochs = integer("bc_epochs", bc_epochs, minimum=0)
    iql_epochs = integer("iql_epochs", iql_epochs, minimum=0)
    weights = np.random.SeedSequence(integer("seed", seed, minimum=0)).generate_state(2).tolist()
    policy = TokenPolicy(seed=weights[0], hidden_size=settings.hidden_size)
    critic = TokenCritic(seed=weights[1], hidden_size=settings.hidden_size)

    def imitate() -> Tensor:
        return cloning_loss(policy(batch.ids), batch)

    def regress() -> Tensor:
        gamma, expectile = settings.gamma, settings.expectile
        return critic_loss(critic(batch.ids), batch, gamma=gamma, expectile=expectile)

    for name, model, loss, epochs in (
        ("imitation", policy, imitate, bc_epochs),
        ("critic", critic, regress, iql_epochs),
    ):
        fit(
            model,
            loss,
            epochs=epochs,
            updates_per_epoch=settings.updates_per_epoch,
            learning_rate=settings.learning_rate,
            description=f"{name}, seed {seed}",
        )
    return TokenLearners(policy, critic, settings)


def language_offline_experiment(
    *,
    seed: int,
    episodes_per_prompt: int = 48,
    bc_epochs: int = 30,
    iql_epochs: int = 60,
    sample_seed: int | None = None,
    settings: TokenOfflineSettings | None = None,
) -> dict[str, Any]:
    """Imitation against implicit language Q-learning, on one log of good and bad answers.

    Wrong answers and evasions are more common in the log than good answers, and imitation learns
    to prefer them. The other method decodes with log π(a | s) + β (Q(s, a) − V(s)), where π is the
    imitation and Q and V are fitted to the same log by expectile regression, token by token, from
    a reward that is paid at the end of the answer. It is deterministic: one seed gives one result
    on one machine, whatever torch's global generator holds.

    Args:
        seed: an integer ≥ 0; log and initial weights are drawn from it.
        episodes_per_prompt: answers in the log for each prompt, ≥ 2.
        bc_epochs: of the imitation, ≥ 0.
        iql_epochs: of the critic, ≥ 0.
        sample_seed: None decodes the most likely words; else words are drawn, from this seed.
        settings: None for the defaults.

    Returns:
        - `dataset`: what the log holds: `prompts` (texts), `prompt_index`, `sequences` (tokens) and
          `rewards` of its answers, `good_share` and `bad_share` for each prompt;
        - `evaluation`: "behavior cloning" and "ILQL" → `mean_reward`, `exact_match` (share of the
          prompts that get the good answer), `sequences` and `rewards`, one for each prompt;
        - `exact`: `optimal_rewards` that the log supports, `expected_rewards` of each method when
          it samples its words, one for each prompt; `q_error` and `v_error`, the largest distance
          of the critic from the exact values of its expectile on the log.

    Raises:
        ValueError: a number is out of range; the text names it.

    Reference:
        Snell, Kostrikov, Su, Yang and Levine (2022), Offline RL for natural language generation
        with implicit language Q learning.
    """
    episodes = draw_answers(seed=seed, episodes_per_prompt=episodes_per_prompt)
    if sample_seed is not None:
        sample_seed = integer("sample_seed", sample_seed, minimum=0)
    learners = train_token_learners(
        token_batch(episodes),
        seed=seed,
        bc_epochs=bc_epochs,
        iql_epochs=iql_epochs,
        settings=settings,
    )
    methods: dict[str, TokenScores] = {
        "behavior cloning": learners.policy,
        "ILQL": learners.improved,
    }
    return {
        "dataset": describe_log(episodes),
        "evaluation": {
            name: evaluate_answers(decode(scores, sample_seed=sample_seed))
            for name, scores in methods.items()
        },
        "exact": _exact(episodes, methods, learners),
    }


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


def _exact(
    episodes: Sequence[TokenEpisode], methods: dict[str, TokenScores], learners: TokenLearners
) -> dict[str, Any]:
    best = support_values(episodes, gamma=1.0, expectile=1.0)
    settings = learners.settings
    errors = value_errors(
        learners.critic, episodes, gamma=settings.gamma, expectile=settings.expectile
    )
    return {
        "optimal_rewards": [best[number, ()].v for number in range(len(PROMPTS))],
        "expected_rewards": {
            name: expected_rewards(scores).tolist() for name, scores in methods.items()
        },
        "q_error": float(np.abs(errors.q).max()),
        "v_error": float(np.abs(errors.v).max()),
    }
