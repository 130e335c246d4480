"""The laws of any environment: an honest one keeps them, and each catches a planted fault."""

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from typer.testing import CliRunner

from rlcheck.grading.cli import app
from rlcheck.grading.environments import laws, vector_laws
from rlcheck.grading.environments.check import Environments, check_env
from rlcheck.grading.environments.page import EXAMPLES, Judged, Page, judge, known, markdown
from rlcheck.grading.findings import Finding, laws_in
from rlcheck.grading.report import EXIT_FAILED, EXIT_PASSED, EXIT_UNLOADABLE

LIMIT = 12


class Walk(gym.Env):
    """A random walk on the line that ends outside of [−3, 3]."""

    observation_space = gym.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = self.np_random.normal()
        return self.shown(), {"x": self.x}

    def step(self, action: int) -> tuple[Any, ...]:
        self.x += 2 * action - 1 + self.np_random.normal()
        return self.shown(), -1.0, bool(abs(self.x) > 3), False, {"x": self.x}

    def shown(self) -> Any:
        return np.array([self.x], np.float32)


class IntegerFlags(Walk):
    def step(self, action: int) -> tuple[Any, ...]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, int(terminated), truncated, info


class RewardAtTheEndIsNaN(Walk):
    def step(self, action: int) -> tuple[Any, ...]:
        observation, _, terminated, *rest = super().step(action)
        return observation, np.nan if terminated else -1.0, terminated, *rest


class ObservesOutsideItsSpace(Walk):
    def shown(self) -> Any:
        return np.array([self.x, 0.0], np.float32)


class HasAGeneratorOfItsOwn(Walk):
    def step(self, action: int) -> tuple[Any, ...]:
        self.x += np.random.default_rng().normal()
        return super().step(action)


class TellsWhichStepOfAll(Walk):
    steps = itertools.count()

    def step(self, action: int) -> tuple[Any, ...]:
        *rest, info = super().step(action)
        return *rest, {**info, "step": next(self.steps)}


class KeepsItsSpeed(Walk):
    speed = 0.0

    def step(self, action: int) -> tuple[Any, ...]:
        self.speed += action
        self.x += self.speed
        return super().step(action)


class SharesItsPlace(Walk):
    place: dict[str, float] = {}  # noqa: RUF012

    @property
    def x(self) -> float:
        return self.place["x"]

    @x.setter
    def x(self, value: float) -> None:
        self.place["x"] = value


class BeginsAnewWithoutASeed(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=0 if seed is None else seed)


class KnowsOneSeed(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=None if seed is None else 7)


class SeedsWhatAllShare(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            np.random.seed(seed % 1000)  # noqa: NPY002
        return super().reset(seed=seed)


class WritesIntoWhatItReturned(Walk):
    buffer = None

    def shown(self) -> Any:
        if self.buffer is None:
            self.buffer = np.zeros(1, np.float32)
        self.buffer[0] = self.x
        return self.buffer


class EndsAtTheLimit(TimeLimit):
    """A limit of time that is scored as a death."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, False, info


class ForgetsTheFinalObservation(SyncVectorEnv):
    """A vector whose final observation is that of the next episode."""

    def step(self, actions: Any) -> Any:
        observations, *rest, infos = super().step(actions)
        if "final_obs" in infos:
            for index in np.flatnonzero(infos["_final_obs"]):
                infos["final_obs"][index] = observations[index].copy()
        return observations, *rest, infos


class WritesIntoItsBatch(SyncVectorEnv):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, copy=False, **kwargs)


def environments(
    single: type[gym.Env], limited: Callable[..., Any] = TimeLimit, many: Any = SyncVectorEnv
) -> Environments:
    def one(max_episode_steps: int = LIMIT) -> Any:
        return single() if max_episode_steps < 0 else limited(single(), max_episode_steps)

    def vector(mode: str, autoreset: AutoresetMode) -> Any:
        return many([one] * vector_laws.N, autoreset_mode=autoreset)

    return Environments(one, vector)


ALIKE = "a_vector_answers_as_single_environments_do"
FAULTS = {
    IntegerFlags: "flags_are_booleans",
    RewardAtTheEndIsNaN: "rewards_are_finite_numbers",
    ObservesOutsideItsSpace: "observations_lie_in_the_space",
    HasAGeneratorOfItsOwn: "one_seed_gives_one_trajectory",
    TellsWhichStepOfAll: "one_seed_gives_the_same_infos",
    KeepsItsSpeed: "an_episode_is_what_it_is_in_a_new_environment",
    SharesItsPlace: "environments_that_step_in_turns_know_nothing_of_each_other",
    BeginsAnewWithoutASeed: "a_reset_without_a_seed_goes_on_drawing",
    KnowsOneSeed: "other_seeds_give_other_episodes",
    SeedsWhatAllShare: "global_generators_are_left_alone",
    WritesIntoWhatItReturned: "what_was_returned_stays_as_it_was",
}


def broken(judged: Environments, *, vector: bool = False) -> set[str]:
    found = check_env(judged, examples=20, seed=1, vector=vector)
    return {finding.law.partition(" ")[0] for finding in found if finding.status != "passed"}


def test_an_honest_environment_keeps_every_law() -> None:
    assert broken(environments(Walk), vector=True) == set()


@pytest.mark.parametrize(("fault", "law"), FAULTS.items(), ids=lambda v: getattr(v, "__name__", v))
def test_a_fault_breaks_the_law_that_it_is_about(fault: type[gym.Env], law: str) -> None:
    assert law in broken(environments(fault))


def test_a_time_limit_that_terminates_is_caught() -> None:
    assert broken(environments(Walk, EndsAtTheLimit)) == {"a_time_limit_truncates_at_its_step"}


@pytest.mark.parametrize(
    ("many", "law"),
    [
        (ForgetsTheFinalObservation, ALIKE),
        (WritesIntoItsBatch, "what_a_vector_returned_stays_as_it_was"),
    ],
)
def test_a_vectors_fault_is_caught(many: type[SyncVectorEnv], law: str) -> None:
    found = check_env(environments(Walk, many=many), examples=100, seed=1)
    assert {f.law.partition(" ")[0] for f in found if f.status != "passed"} == {law}


def test_every_law_catches_a_fault() -> None:
    own = {law.name for law in laws_in(laws)}
    assert own == {*FAULTS.values(), "a_time_limit_truncates_at_its_step"}
    assert {law.name for law in laws_in(vector_laws)} == {
        ALIKE,
        "what_a_vector_returned_stays_as_it_was",
    }


def test_on_the_command_line(tmp_path: Path) -> None:
    gym.register("planted/IntegerFlags-v0", IntegerFlags, max_episode_steps=LIMIT)
    path = tmp_path / "found.json"
    few = ["--examples", "3", "--no-vector", "--report", str(path)]
    passed = CliRunner().invoke(app, ["check-env", "CartPole-v1", *few])
    assert (passed.exit_code, passed.output) == (EXIT_PASSED, "CartPole-v1: 12 of 12 laws\n")
    failed = CliRunner().invoke(app, ["check-env", "planted/IntegerFlags-v0", *few])
    found = json.loads(path.read_text())["environments"]["planted/IntegerFlags-v0"]["findings"]
    assert failed.exit_code == EXIT_FAILED
    assert {f["law"]: f["status"] for f in found}["flags_are_booleans"] == "failed"
    absent = CliRunner().invoke(app, ["check-env", "NoSuch-v0", "CartPole-v1", *few])
    assert absent.exit_code == EXIT_UNLOADABLE
    assert "NoSuch-v0 cannot be made: NameNotFound" in absent.output
    assert "CartPole-v1: 12 of 12 laws" in absent.output


class Still(Walk):
    """Nothing in it is left to chance."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = 0.0
        return self.shown(), {}

    def step(self, action: int) -> tuple[Any, ...]:
        self.x += 2 * action - 1
        return self.shown(), -1.0, bool(abs(self.x) > 3), False, {}


class Hangs(Walk):
    def step(self, action: int) -> tuple[Any, ...]:
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue


def test_a_law_of_chance_is_not_applicable_where_there_is_none() -> None:
    found = check_env(environments(Still), examples=5, vector=False)
    statuses = {finding.law: finding.status for finding in found}
    chance = {"a_reset_without_a_seed_goes_on_drawing", "other_seeds_give_other_episodes"}
    assert {law for law, status in statuses.items() if status == "not_applicable"} == chance
    assert {status for law, status in statuses.items() if law not in chance} == {"passed"}


def test_an_environment_that_hangs_is_given_up() -> None:
    found = check_env(environments(Hangs), examples=2, vector=False, seconds=0.2)
    assert {finding.status for finding in found} == {"timed_out"}
    assert found[0].message == "the law took more than 0.2 s"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for group in known().group for name in group.environments])
def test_an_environment_keeps_all_but_what_is_declared(name: str) -> None:
    declared = {law for e in known().declared if name in e.environments for law in e.laws}
    found = judge(name, "", EXAMPLES, seed=0)
    assert {finding.law: finding.message for finding in found.broken}.keys() == declared


def test_the_page_shows_what_is_kept_and_what_is_not() -> None:
    name, law = known().declared[0].environments[0], known().declared[0].laws[0]
    finding = Finding(law, "A sentence.", "failed", 3, "flags", "True", "1", "mode=SAME_STEP")
    judged = [Judged(name, "A", 16, ["other"], [finding]), Judged("CartPole-v1", "B", 16, [], [])]
    text = markdown(Page({"gymnasium": "1.2.3"}, "2026-01-02", 60, 0, judged))
    assert f"| `{name}` | A | 14 | 1 | `{law}` |" in text
    assert "| `CartPole-v1` | B | 16 |  |  |" in text
    assert known().declared[0].reason in text
    assert "expected `True`, got `1`" in text
    assert all(f"`{each.name}`: " in text for each in (*laws_in(laws), *laws_in(vector_laws)))
