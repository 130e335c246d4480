"""Offline RL of tokens: what imitation answers, and what values of tokens make of the same log."""

from typing import Any

from rlcheck._inputs import integer
from rlcheck.agents._token_language import PROMPTS, draw_answers, token_batch, token_text
from rlcheck.agents._token_learners import TokenOfflineSettings, train_token_learners
from rlcheck.agents._token_networks import TokenScores, decode
from rlcheck.agents._token_report import describe_log, describe_truth, evaluate_answers

__all__ = ["PROMPTS", "TokenOfflineSettings", "language_offline_experiment", "token_text"]


def language_offline_experiment(
    *,
    seed: int,
    episodes_per_prompt: int = 48,
    bc_epochs: int = 40,
    iql_epochs: int = 100,
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
        "exact": describe_truth(
            episodes,
            methods,
            learners.critic,
            gamma=learners.settings.gamma,
            expectile=learners.settings.expectile,
        ),
    }
