"""Module 5: what a decision transformer achieves, against what it is asked for.

`python experiments/decision_transformer.py` prints what the tests hold to their thresholds, and
saves the figure; `--first-seed N` runs the same with other seeds than the registered ones.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import typer
from intervals import Interval, bootstrap, mean
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from scipy import stats

from rlcheck.agents.datasets import GridEpisode, collect_offline_dataset
from rlcheck.agents.decision_transformer import train_decision_transformer
from rlcheck.agents.decision_transformer_evaluation import evaluate_decision_transformer
from rlcheck.agents.decision_transformer_network import DecisionTransformer
from rlcheck.envs.keydoor_grid import KeyDoorGrid
from rlcheck.envs.keydoor_grid_solution import rollout_returns, solve_grid

REGISTERED: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "registered" / "decision_transformer.toml").read_text("utf-8")
)
TRAINING: dict[str, int] = REGISTERED["training"]
EVALUATION: dict[str, int] = REGISTERED["evaluation"]
SEEDS: list[int] = REGISTERED["seeds"]
TARGETS: list[float] = REGISTERED["targets"]


@cache
def log(seed: int) -> list[GridEpisode]:
    """The mixed log of a seed: returns from about −1.6 to 0.88, and hardly any from −0.6 to 0.4."""
    episodes, _ = collect_offline_dataset(
        seed=seed, episodes=REGISTERED["episodes"], profile="mixed"
    )
    return episodes


def shuffled(seed: int) -> list[GridEpisode]:
    """The same, with returns that say nothing: permuted, and paid with the last reward."""
    episodes = log(seed)
    returns = np.random.default_rng(seed).permutation([e.return_ for e in episodes])
    return [_paying(e, float(r)) for e, r in zip(episodes, returns, strict=True)]


def _paying(episode: GridEpisode, total: float) -> GridEpisode:
    *before, last = episode.transitions
    paid = last._replace(reward=last.reward + total - episode.return_)
    return replace(episode, transitions=(*before, paid))


def without_success(seed: int) -> list[GridEpisode]:
    """The episodes of the log that did not reach the goal: no return above −0.6."""
    return [episode for episode in log(seed) if not episode.success]


LOGS = {"log": log, "shuffled": shuffled, "without success": without_success}


@cache
def trained(seed: int, kind: str) -> DecisionTransformer:
    """A model of one of the LOGS."""
    model, _ = train_decision_transformer(
        LOGS[kind](seed),
        seed=seed,
        state_dim=KeyDoorGrid.observation_dim,
        action_dim=KeyDoorGrid.action_dim,
        **TRAINING,
    )
    return model


@cache
def achieved(seed: int, target: float, *, greedy: bool, kind: str = "log") -> float:
    """Mean return of a model that is asked for a target."""
    metrics = evaluate_decision_transformer(
        KeyDoorGrid(),
        trained(seed, kind),
        target_return=target,
        context_steps=TRAINING["context_steps"],
        greedy=greedy,
        **EVALUATION,
    )
    return float(metrics["mean_return"])


def curve(seeds: Sequence[int], *, greedy: bool, kind: str = "log") -> np.ndarray:
    """[seeds, targets] mean returns achieved."""
    return np.array([[achieved(s, t, greedy=greedy, kind=kind) for t in TARGETS] for s in seeds])


def over_seeds(seeds: Sequence[int], target: float, *, greedy: bool, kind: str = "log") -> Interval:
    """What is achieved of a target, the mean over seeds."""
    return bootstrap([achieved(s, target, greedy=greedy, kind=kind) for s in seeds], mean)


def rise(seeds: Sequence[int], low: float, high: float, *, kind: str = "log") -> Interval:
    """How much more is achieved when more is asked for, with actions that are drawn."""
    gains = [
        achieved(s, high, greedy=False, kind=kind) - achieved(s, low, greedy=False, kind=kind)
        for s in seeds
    ]
    return bootstrap(gains, mean)


def gain_beyond(seeds: Sequence[int], target: float, *, greedy: bool) -> Interval:
    """How much more is achieved when more is asked for than any episode of the log returned."""
    within = REGISTERED["trend"]["high"]
    gains = [achieved(s, target, greedy=greedy) - achieved(s, within, greedy=greedy) for s in seeds]
    return bootstrap(gains, mean)


def rank_correlation(seed: int) -> float:
    """Spearman's, of achieved with asked, over the targets that the log reaches; drawn actions."""
    asked = [target for target in TARGETS if target <= REGISTERED["trend"]["high"]]
    got = [achieved(seed, target, greedy=False) for target in asked]
    return float(stats.spearmanr(asked, got).statistic)


def random_return(seed: int) -> float:
    """Mean return of uniform actions."""
    number = REGISTERED["top"]["random_episodes"]
    episodes, _ = collect_offline_dataset(seed=seed, episodes=number, profile="random")
    return mean([episode.return_ for episode in episodes])


def optimum() -> float:
    """The best mean return over the starts."""
    return float(rollout_returns(solve_grid().policy).returns.mean())


def figure(seeds: Sequence[int] = SEEDS) -> Figure:
    """Achieved against asked, with the range over seeds, above the returns in the log."""
    drawing = Figure(figsize=(7, 6), layout="constrained")
    above, below = drawing.subplots(2, sharex=True, height_ratios=(3, 1))
    for greedy, label in ((True, "likeliest action"), (False, "drawn action")):
        results = curve(seeds, greedy=greedy)
        above.plot(TARGETS, results.mean(axis=0), marker="o", label=label)
        above.fill_between(TARGETS, results.min(axis=0), results.max(axis=0), alpha=0.2)
    above.axline((0, 0), slope=1, color="gray", linestyle=":", label="as asked")
    above.axhline(optimum(), color="gray", linestyle="--", label="optimum")
    above.set(ylabel="return achieved", ylim=(-1.7, 1.1))
    above.legend(title=f"mean and range of {len(seeds)} seeds")
    below.hist([e.return_ for s in seeds for e in log(s)], bins=60, color="gray")
    below.set(xlabel="return asked for", ylabel="episodes of the logs")
    return drawing


def seeds_of(first_seed: int | None) -> list[int]:
    """The registered seeds, or as many others."""
    return SEEDS if first_seed is None else [first_seed + i for i in range(len(SEEDS))]


def main(first_seed: int | None = None, save: Path | None = None) -> None:
    """Print return achieved against return asked for, and save the figure where --save says."""
    seeds = seeds_of(first_seed)
    kinds = [("log", True), ("log", False), ("shuffled", False), ("without success", False)]
    table = Table("asked", *(f"{k}, {'likeliest' if g else 'drawn'}" for k, g in kinds))
    for target in TARGETS:
        found = [over_seeds(seeds, target, greedy=greedy, kind=kind) for kind, greedy in kinds]
        table.add_row(str(target), *map(str, found))
    Console().print(table)
    trend = REGISTERED["trend"]
    for kind in LOGS:
        found = rise(seeds, trend["low"], trend["high"], kind=kind)
        Console().print(f"rise from {trend['low']} to {trend['high']}, drawn, {kind}: {found}")
    for target in REGISTERED["beyond"]["targets"]:
        for greedy, name in ((True, "likeliest"), (False, "drawn")):
            found = gain_beyond(seeds, target, greedy=greedy)
            Console().print(
                f"gain of asking for {target} instead of {trend['high']}, {name}: {found}"
            )
    ranks = bootstrap([rank_correlation(seed) for seed in seeds], mean)
    Console().print(f"rank correlation, drawn: {ranks}")
    Console().print(f"uniform actions: {bootstrap([random_return(s) for s in seeds], mean)}")
    Console().print(f"optimum: {optimum():.4f}")
    if save is not None:
        figure(seeds).savefig(save)


if __name__ == "__main__":
    typer.run(main)
