"""Imitation on the key-door grid: behaviour cloning, DAgger, and mistakes that compound.

`python experiments/imitation.py` prints what the tests hold to their thresholds;
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
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from rlcheck.agents.compounding import MistakeCurve, mistakes_by_step
from rlcheck.agents.dagger import Label, dagger_experiment, expert_labels
from rlcheck.envs.keydoor_grid import STARTS, grid_tables
from rlcheck.envs.keydoor_grid_solution import (
    policy_values,
    rollout_returns,
    solve_grid,
    uniform_policy,
)
from rlcheck.torch import stable_log_softmax

REGISTERED: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "registered" / "imitation.toml").read_text(encoding="utf-8")
)
PROTOCOL: dict[str, int] = REGISTERED["protocol"]
SHOWN = [STARTS.index(tuple(cell)) for cell in REGISTERED["one_start"]["expert_starts"]]
UNSEEN = [index for index in range(len(STARTS)) if index not in SHOWN]


def own_labels(states: NDArray[np.intp], actions: NDArray[np.intp]) -> NDArray[np.intp]:
    """What the learner did itself: a mistake, since it learns nothing from them."""
    return actions


LABELS: dict[str, Label] = {"expert": expert_labels, "own": own_labels}


class Run(NamedTuple):
    """What one experiment came to."""

    records: list[dict[str, Any]]
    scores: NDArray[np.float64]  # [rounds + 1, S, 4]

    @property
    def success(self) -> float:
        """Of the last round's greedy policy, over all starts."""
        return self.records[-1]["success_rate"]

    @property
    def unseen_mistakes(self) -> float:
        """Mistakes of an episode of round 0: starts that were not shown, minus the one shown."""
        return self.mistakes(0, UNSEEN).expected - self.mistakes(0, SHOWN).expected

    @property
    def rate_growth(self) -> float:
        """Chance of a mistake after the first one minus before it; round 0, start shown."""
        curve = self.mistakes(0, SHOWN)
        return curve.rate_after - curve.rate_before

    @property
    def gain(self) -> float:
        """The same, minus that of behaviour cloning."""
        return self.success - self.records[0]["success_rate"]

    def policy(self, number: int) -> NDArray[np.float64]:
        """[S, 4] probabilities of a round's policy."""
        return stable_log_softmax(torch.from_numpy(self.scores[number])).exp().numpy()

    def mistakes(self, number: int, starts: list[int]) -> MistakeCurve:
        """Of a round's policy, which draws its actions, from some of the starts."""
        return mistakes_by_step(self.policy(number), grid_tables().start[starts])

    def loss(self, number: int, starts: list[int]) -> float:
        """V* − V^π of a round's policy, which draws its actions: the mean over some starts."""
        lost = solve_grid().values - policy_values(self.policy(number))
        return float(lost[grid_tables().start[starts]].mean())

    def step_growth(self) -> float:
        """How the rate of mistakes from the shown start grows: last steps minus first ones.

        Both are as many as the optimal path has, and of the episodes that are not over then.
        """
        length = int(rollout_returns(solve_grid().policy).steps[SHOWN].min())
        rate = self.mistakes(0, SHOWN).rate
        return float(rate[-length:].mean() - rate[:length].mean())


@cache
def run(seed: int, claim: str, labels: str = "expert") -> Run:
    """One experiment in the setting of a claim."""
    starts = REGISTERED[claim].get("expert_starts")
    cells = None if starts is None else [tuple(cell) for cell in starts]
    result = dagger_experiment(seed=seed, expert_starts=cells, label=LABELS[labels], **PROTOCOL)
    return Run(result["records"], result["scores"])


def gains_where_there_is_room(claim: str, seeds: list[int]) -> list[float]:
    """Gains over round 0 of the seeds whose round 0 stays below the threshold."""
    threshold = REGISTERED[claim]["success"]
    runs = [run(seed, claim) for seed in seeds]
    return [each.gain for each in runs if each.records[0]["success_rate"] < threshold]


def random_success() -> float:
    """Chance that the uniform policy reaches the goal in time, exactly."""
    return mistakes_by_step(uniform_policy(), grid_tables().start).success


def seeds_of(claim: str, first_seed: int | None) -> list[int]:
    """The registered seeds of a claim, or as many others."""
    registered: list[int] = REGISTERED[claim]["seeds"]
    return registered if first_seed is None else [first_seed + i for i in range(len(registered))]


def main(first_seed: int | None = None) -> None:
    """Print every figure that the tests hold to a threshold."""
    table = Table("claim", "measured", "value")

    def say(claim: str, measured: str, values: list[float]) -> None:
        table.add_row(claim, f"{measured}, mean", str(bootstrap(values, mean)))

    for claim in ("one_start", "drawn_starts"):
        seeds = seeds_of(claim, first_seed)
        runs = [run(seed, claim) for seed in seeds]
        for number in range(PROTOCOL["rounds"] + 1):
            say(
                claim, f"success, round {number}", [r.records[number]["success_rate"] for r in runs]
            )
        gains = gains_where_there_is_room(claim, seeds)
        say(claim, f"gain where round 0 leaves room ({len(gains)} seeds)", gains)
        say(claim, "agreement, last round", [r.records[-1]["agreement"] for r in runs])
    runs = [run(seed, "one_start") for seed in seeds_of("one_start", first_seed)]
    for name, starts in (("start shown", SHOWN), ("starts not shown", UNSEEN)):
        for number in (0, PROTOCOL["rounds"]):
            curves = [r.mistakes(number, starts) for r in runs]
            claim = f"round {number}, {name}"
            say(claim, "mistakes of an episode", [c.expected for c in curves])
            say(claim, "success, sampled, exact", [c.success for c in curves])
            say(claim, "V* − V^π", [r.loss(number, starts) for r in runs])
            if number == 0:
                say(claim, "rate before the first mistake", [c.rate_before for c in curves])
                say(claim, "rate after it", [c.rate_after for c in curves])
                for step in (0, 5, 11, 20, 40, 59):
                    say(claim, f"rate at step {step}", [c.rate[step] for c in curves])
    say("round 0, start shown", "growth of the rate", [r.step_growth() for r in runs])
    say(
        "round 0, start shown",
        "rate after the first mistake minus before it",
        [r.rate_growth for r in runs],
    )
    say("round 0", "mistakes, starts not shown minus shown", [r.unseen_mistakes for r in runs])
    own = [run(seed, "one_start", "own") for seed in seeds_of("one_start", first_seed)]
    say("own labels", "success, last round", [r.success for r in own])
    say("own labels", "gain", [r.gain for r in own])
    table.add_row("uniform policy", "success, exact", f"{random_success():.4f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
