"""The experiments with offline RL of tokens: imitation, implicit language Q-learning, controls.

`python experiments/token_offline.py` prints what the tests hold to their thresholds;
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

from rlcheck.agents._token_language import PROMPTS, WORDS, TokenEpisode, draw_answers, token_batch
from rlcheck.agents._token_learners import (
    TokenLearners,
    TokenOfflineSettings,
    train_token_learners,
)
from rlcheck.agents._token_networks import TokenScores, decode, reweighted
from rlcheck.agents._token_report import evaluate_answers
from rlcheck.agents._token_solution import (
    ValueErrors,
    expected_rewards,
    support_values,
    value_errors,
)

REGISTERED: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "registered" / "token_offline.toml").read_text(encoding="utf-8")
)
MEAN_EXPECTILE = 0.5


class Run(NamedTuple):
    """What one training came to."""

    episodes: list[TokenEpisode]
    learners: TokenLearners

    @property
    def errors(self) -> ValueErrors:
        """The critic's distance from the exact values of its expectile."""
        gamma, expectile = self.learners.settings.gamma, self.learners.settings.expectile
        return value_errors(self.learners.critic, self.episodes, gamma=gamma, expectile=expectile)

    @property
    def worst_error(self) -> float:
        """The largest distance of Q or V from the exact value, wherever the log has been."""
        return float(np.abs(np.concatenate(self.errors)).max())

    @property
    def mean_error(self) -> float:
        """The mean distance of Q and V."""
        return float(np.abs(np.concatenate(self.errors)).mean())

    def start_values(self, expectile: float) -> np.ndarray:
        """[P] exact values of the prompts, undiscounted: 1 is the optimum, ½ the log's average."""
        values = support_values(self.episodes, gamma=1.0, expectile=expectile)
        return np.array([values[number, ()].v for number in range(len(PROMPTS))])


@cache
def run(seed: int, *, expectile: float | None = None, ends_bootstrap: bool = False) -> Run:
    """Train with a seed; all its critics stand beside one imitation.

    Args:
        seed: of the log and of the learners.
        expectile: None for the default.
        ends_bootstrap: the planted mistake: no token counts as the end of an answer, so that its
            target adds the value of what stands in the buffer after it.
    """
    episodes = draw_answers(seed=seed, episodes_per_prompt=REGISTERED["episodes_per_prompt"])
    batch = token_batch(episodes)
    plain = expectile is None and not ends_bootstrap
    settings = TokenOfflineSettings()
    if expectile is not None:
        settings = TokenOfflineSettings(expectile=expectile)
    if ends_bootstrap:
        batch = batch._replace(terminated=torch.zeros_like(batch.terminated))
    learners = train_token_learners(
        batch,
        seed=seed,
        bc_epochs=REGISTERED["bc_epochs"] if plain else 0,
        iql_epochs=REGISTERED["iql_epochs"],
        settings=settings,
    )
    return Run(episodes, learners if plain else learners._replace(policy=imitation(seed)))


def imitation(seed: int) -> TokenScores:
    """The policy that imitates the log of a seed."""
    return run(seed).learners.policy


def exact_match(scores: TokenScores) -> float:
    """The share of prompts whose most likely answer is the good one."""
    return float(evaluate_answers(decode(scores))["exact_match"])


def expected_reward(scores: TokenScores) -> float:
    """Exact reward of the policy that samples its words, a mean over the prompts."""
    return float(expected_rewards(scores).mean())


def without_advantages(seed: int) -> TokenScores:
    """The reweighted policy at β = 0."""
    learners = run(seed).learners
    return reweighted(learners.policy, learners.critic, beta=0.0, max_weight=100.0)


def imitation_error(seed: int) -> float:
    """The largest distance of the imitation's exact reward from the log's, over the prompts."""
    log = run(seed).start_values(MEAN_EXPECTILE)
    return float(np.abs(expected_rewards(imitation(seed)) - log).max())


def share_earned(seed: int) -> float:
    """What the reweighted policy earns when words are sampled, as a share of the optimum."""
    return expected_reward(run(seed).learners.improved) / float(run(seed).start_values(1.0).mean())


def random_policy(ids: torch.Tensor) -> torch.Tensor:
    """Every word is as likely as any other."""
    return torch.zeros(*ids.shape, len(WORDS))


def seeds_of(claim: str, first_seed: int | None = None) -> list[int]:
    """The registered seeds of a claim, or as many others."""
    registered: list[int] = REGISTERED[claim]["seeds"]
    return registered if first_seed is None else [first_seed + i for i in range(len(registered))]


def main(first_seed: int | None = None) -> None:
    """Print every figure that the tests hold to a threshold."""
    table = Table("method", "measured", "value")

    def say(method: str, measured: str, value: object) -> None:
        table.add_row(method, measured, str(value))

    def say_policies(method: str, policies: list[TokenScores]) -> None:
        say(method, "exact match, mean", bootstrap([exact_match(p) for p in policies], mean))
        rewards = [expected_reward(p) for p in policies]
        say(method, "expected reward, exact, mean", bootstrap(rewards, mean))

    def say_errors(method: str, runs: list[Run]) -> None:
        worst = [each.worst_error for each in runs]
        say(method, "worst error of a value", f"{min(worst):.3f} to {max(worst):.3f} over seeds")
        errors = [each.mean_error for each in runs]
        say(method, "mean error of a value", f"{min(errors):.4f} to {max(errors):.4f} over seeds")

    seeds = seeds_of("improvement", first_seed)
    runs = [run(seed) for seed in seeds]
    say_policies("behavior cloning", [imitation(seed) for seed in seeds])
    say_policies("ILQL", [each.learners.improved for each in runs])
    gains = [
        exact_match(each.learners.improved) - exact_match(each.learners.policy) for each in runs
    ]
    say("ILQL", "exact match gained, mean", bootstrap(gains, mean))
    say("ILQL", "share of the optimum, mean", bootstrap([share_earned(s) for s in seeds], mean))
    worst = max(imitation_error(seed) for seed in seeds)
    say("behavior cloning", "reward, distance from the log's, largest", f"{worst:.3f}")
    say_errors("ILQL", runs)
    for name, expectile in (("the log", MEAN_EXPECTILE), ("optimum on the log", 1.0)):
        worths = [float(each.start_values(expectile).mean()) for each in runs]
        say(name, "expected reward, exact, mean", bootstrap(worths, mean))
    seeds = seeds_of("controls", first_seed)
    say_policies("β = 0", [without_advantages(seed) for seed in seeds])
    for name, options in (
        ("expectile ½", {"expectile": MEAN_EXPECTILE}),
        ("ends bootstrap", {"ends_bootstrap": True}),
    ):
        controls = [run(seed, **options) for seed in seeds]
        say_policies(name, [each.learners.improved for each in controls])
        say_errors(name, controls)
    say("random policy", "exact match", exact_match(random_policy))
    say("random policy", "expected reward, exact", f"{expected_reward(random_policy):.2e}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
