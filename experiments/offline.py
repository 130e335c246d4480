"""Offline learning on the key-door grid: five methods, and what a log can say of a policy.

`python experiments/offline.py` prints what the tests hold to their thresholds; `--first-seed N`
runs the same with other seeds than the registered ones; `--figure FILE` saves the calibration.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from intervals import bootstrap, mean
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from rlcheck.agents.datasets import GridTransition, collect_offline_dataset
from rlcheck.agents.fqe import estimated_start_value
from rlcheck.agents.offline import METHODS, evaluate_by_log, offline_experiment
from rlcheck.agents.offline_dqn import offline_dqn
from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.envs.keydoor_grid_solution import (
    greedy_policy,
    solve_grid,
    start_value,
    uniform_policy,
)

REGISTERED: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "registered" / "offline.toml").read_text(encoding="utf-8")
)
LOG: dict[str, Any] = REGISTERED["log"]
EPOCHS: int = REGISTERED["train_epochs"]
CLONING, UNCONSTRAINED, MASKED, CQL, IQL = METHODS
BETTER = (MASKED, CQL, IQL)
OPTIMUM = start_value(solve_grid().policy)

Policy = NDArray[np.float64]


class Point(NamedTuple):
    """A policy's value at the starts, by the log and exactly."""

    seed: int
    name: str
    estimate: float
    exact: float
    path_support: float
    log_support: float

    @property
    def error(self) -> float:
        """Estimate less exact value."""
        return self.estimate - self.exact

    @property
    def supported(self) -> bool:
        """Whether the log shows what the policy does wherever the log goes."""
        return self.log_support == 1.0


@cache
def run(seed: int) -> dict[str, Any]:
    """Every method on one log."""
    return offline_experiment(
        seed=seed, dataset_episodes=LOG["episodes"], profile=LOG["profile"], train_epochs=EPOCHS
    )


def measured(name: str, key: str, seeds: list[int]) -> NDArray[np.float64]:
    """[seeds] one metric of one method."""
    return np.array([run(seed)["results"][name][key] for seed in seeds])


# Values by the log.


@cache
def log_of(seed: int) -> list[GridTransition]:
    """A log for evaluation alone."""
    _, transitions = collect_offline_dataset(seed=seed, **LOG)
    return transitions


def counts(transitions: list[GridTransition]) -> NDArray[np.float64]:
    """[S, 4] how often the log shows a pair."""
    tables = grid_tables()
    table = np.zeros(tables.next_state.shape)
    for step in transitions:
        table[step.state, step.action] += 1
    return table


def mixture(transitions: list[GridTransition], share: float) -> Policy:
    """(1 − share) of the action that the log shows most, and a share of what it shows at all.

    The log supports it, whatever the share: only in states without any action it is uniform.
    """
    table = counts(transitions)
    table[table.sum(axis=1) == 0] = 1.0
    behavior = table / table.sum(axis=1, keepdims=True)
    return (1 - share) * greedy_policy(table) + share * behavior


@cache
def evaluated_mixtures(seed: int) -> list[Point]:
    """Policies of several values that the log supports."""
    transitions = log_of(seed)
    return [
        Point(
            seed,
            f"{share:.0%} behavior",
            **evaluate_by_log(transitions, mixture(transitions, share), seed=seed, epochs=EPOCHS),
        )
        for share in REGISTERED["fqe"]["shares"]
    ]


def calibration(method_seeds: list[int], mixture_seeds: list[int]) -> list[Point]:
    """The policies of all methods, and the mixtures."""
    learned = [Point(s, name, **row) for s in method_seeds for name, row in run(s)["fqe"].items()]
    return learned + [point for s in mixture_seeds for point in evaluated_mixtures(s)]


# What is wrong on purpose.


@cache
def maximising_evaluation_error(seed: int) -> float:
    """Estimate less exact value of the behaviour, where the evaluation maximises over actions."""
    transitions = log_of(seed)
    behavior = mixture(transitions, 1.0)
    network, _ = offline_dqn(transitions, seed=seed, epochs=EPOCHS)
    return estimated_start_value(network, behavior) - start_value(behavior)


@cache
def terminal_bootstrapping_error(seed: int) -> float:
    """Estimate less exact value of the log's favourite actions, where no step is terminal."""
    transitions = log_of(seed)
    endless = [step._replace(terminated=False) for step in transitions]
    favourite = mixture(transitions, 0.0)
    row = evaluate_by_log(endless, favourite, seed=seed, epochs=EPOCHS)
    return row["estimate"] - row["exact"]


MARKS = {  # whether the log supports the policy, and whether the axes hold the estimate
    (True, True): ("o", "supported by the log"),
    (True, False): ("s", "supported by the log, beyond the axes"),
    (False, True): ("x", "not supported by the log"),
    (False, False): ("d", "not supported by the log, beyond the axes"),
}


def plot_calibration(points: list[Point], *, error: float | None = None) -> Figure:
    """Estimated against exact values; what lies beyond the axes stands at their edge.

    Args:
        points: as `calibration` has them.
        error: half the width of the band around the diagonal; None for the registered one.
    """
    error = REGISTERED["fqe"]["error"] if error is None else error
    low, high = -1.4, 1.4
    figure = Figure(figsize=(5.2, 6.0), layout="constrained")
    axes = figure.add_subplot()
    ends = np.array([low, high])
    axes.fill_between(ends, ends - error, ends + error, alpha=0.2, label=f"within {error:g}")
    axes.plot(ends, ends, linewidth=1)
    for kind, (marker, label) in MARKS.items():
        chosen = [p for p in points if (p.supported, low <= p.estimate <= high) == kind]
        if chosen:
            axes.scatter(
                [point.exact for point in chosen],
                np.clip([point.estimate for point in chosen], low, high),
                marker=marker,
                label=f"{label} ({len(chosen)})",
                clip_on=False,
                zorder=3,
            )
    axes.set(
        xlim=(low, high),
        ylim=(low, high),
        xlabel="exact value at the starts",
        ylabel="value estimated from the log",
    )
    figure.legend(loc="outside upper center")
    return figure


def seeds_of(claim: str, first_seed: int | None) -> list[int]:
    """The registered seeds of a claim, or as many others."""
    registered: list[int] = REGISTERED[claim]["seeds"]
    return registered if first_seed is None else [first_seed + i for i in range(len(registered))]


def main(first_seed: int | None = None, figure: Path | None = None) -> None:
    """Print every figure that the tests hold to a threshold."""
    table = Table("claim", "measured", "value")

    def say(claim: str, what: str, value: object) -> None:
        table.add_row(claim, what, str(value))

    seeds = seeds_of("methods", first_seed)
    for name in METHODS:
        say(name, "value, mean", bootstrap(measured(name, "value", seeds), mean))
        say(name, "success, mean", bootstrap(measured(name, "success_rate", seeds), mean))
    for name in (CLONING, IQL):
        sampled = bootstrap(measured(name, "sampled_value", seeds), mean)
        say(name, "value of drawn actions, mean", sampled)
    drawn = [measured(name, "sampled_value", seeds) for name in (IQL, CLONING)]
    gain = bootstrap(drawn[0] - drawn[1], mean)
    say(IQL, "gain over cloning where both draw, mean", gain)
    for name in BETTER:
        own = measured(name, "value", seeds)
        for other, key in ((UNCONSTRAINED, "value"), (CLONING, "sampled_value")):
            gain = bootstrap(own - measured(other, key, seeds), mean)
            say(name, f"gain over {other}, {key}, mean", gain)
        gain = bootstrap(own - measured(CLONING, "value", seeds), mean)
        say(name, "gain over cloning's likeliest actions, mean", gain)
    for name in METHODS[1:]:
        expected = measured(name, "estimated_value", seeds)
        say(name, "expected less optimal value, mean", bootstrap(expected - OPTIMUM, mean))
        own = bootstrap(expected - measured(name, "value", seeds), mean)
        say(name, "expected less its own value, mean", own)
    seeds = seeds_of("fqe", first_seed)
    points = calibration(seeds_of("methods", first_seed), seeds)
    inside = [point for point in points if point.supported]
    outside = [point for point in points if not point.supported]
    say("FQE, supported", "policies", len(inside))
    say("FQE, supported", "largest error", max(abs(point.error) for point in inside))
    for name in dict.fromkeys(point.name for point in outside):
        errors = [f"{point.error:+.2f}" for point in outside if point.name == name]
        say("FQE, not supported", f"errors, {name}", " ".join(errors))
    for name, error in (
        ("maximises", maximising_evaluation_error),
        ("bootstraps through terminals", terminal_bootstrapping_error),
    ):
        errors = [error(seed) for seed in seeds]
        say(f"FQE that {name}", "errors", " ".join(f"{each:+.2f}" for each in errors))
    say("uniform policy", "value, exact", f"{start_value(uniform_policy()):.3f}")
    say("optimum", "value, exact", f"{OPTIMUM:.3f}")
    Console().print(table)
    if figure is not None:
        plot_calibration(points).savefig(figure)


if __name__ == "__main__":
    typer.run(main)
