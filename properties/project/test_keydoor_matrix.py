"""The laws of the key-door agent notice every wrong environment, and each of them notices one."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import Phase, settings

pytest.importorskip("gymnasium")

from hypothesis.stateful import run_state_machine_as_test

from properties import test_keydoor_agent as keydoor
from properties.alternatives.keydoor_wrong import WRONG, Wrong
from rlcheck.envs import KeyDoorAgentEnv
from rlcheck.grading.laws import EXAMPLES, Law, explore

SEEDS = range(1, 11)
FEW_EXAMPLES = 12  # most fall at once
LAWS = {
    name.removeprefix("test_"): test.law
    for name, test in vars(keydoor).items()
    if isinstance(getattr(test, "law", None), Law)
}
NOTICED = (Exception, pytest.fail.Exception)  # which `pytest.raises` raises, and is no Exception
# What only a longer life of an environment can show.
SEEN_IN_A_LIFE = (
    "BeginsByItself",
    "BeginsWithoutReset",
    "ClockKept",
    "GoesOnAfterTheEnd",
    "KeyKept",
    "NoteKept",
    "PotentialKept",
    "RefusedResetBegins",
    "RefusedStepCounts",
    "ResetGoesOn",
    "SeedIgnored",
    "TranscriptKept",
)


class Enough(BaseException):
    """Ends the drawing early; Hypothesis lets it through."""


def noticed(
    law: Law, wrong: Iterable[Wrong], seed: int, examples: int, *, one: bool = False
) -> set[str]:
    """The wrong environments that a law notices, all on the same examples; `one` is enough."""
    alive = {each.name: each.environment for each in wrong}
    found: set[str] = set()

    def visit(**drawn: Any) -> None:
        for name, environment in list(alive.items()):
            try:
                law.body(environment, **drawn)
            except NOTICED:
                found.add(name)
                del alive[name]
        if not alive or (one and found):
            raise Enough

    if alive:
        with contextlib.suppress(Enough):
            explore(law, visit, random_seed=seed, examples=examples)
    return found


def gaps(seed: int) -> list[str]:
    """The wrong environments that no law notices, and the laws that notice none."""
    alive = {wrong.name: wrong for wrong in WRONG}
    idle = set(LAWS)
    for examples in (FEW_EXAMPLES, EXAMPLES):
        for name, law in LAWS.items():
            found = noticed(law, alive.values(), seed, examples)
            if name in idle and not found:
                found = noticed(law, WRONG, seed, examples, one=True)
            if found:
                idle.discard(name)
            alive = {name: wrong for name, wrong in alive.items() if name not in found}
    missed = [f"no law notices that it {wrong.description}" for wrong in alive.values()]
    return [*missed, *(f"{name} notices no wrong environment" for name in sorted(idle))]


def live(environment: Callable[..., Any]) -> None:
    """A few lives of any calls, always the same ones, with nothing made small."""
    few = settings(
        max_examples=60,
        stateful_step_count=30,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=False,
    )
    run_state_machine_as_test(keydoor.life_of(environment), settings=few)


def test_every_wrong_environment_is_noticed_and_every_law_notices_one(
    pytestconfig: pytest.Config,
) -> None:
    assert gaps(int(pytestconfig.getoption("--hypothesis-seed"))) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_wrong_environment_is_noticed_at_ten_seeds(seed: int) -> None:
    assert gaps(seed) == []


@pytest.mark.parametrize("name", SEEN_IN_A_LIFE)
def test_a_life_of_any_calls_shows_what_is_kept(name: str) -> None:
    (wrong,) = (wrong for wrong in WRONG if wrong.name == name)
    with pytest.raises(NOTICED):
        live(wrong.environment)


def test_the_right_environment_survives_the_same_lives() -> None:
    live(KeyDoorAgentEnv)


def test_wrong_environments_are_described_once() -> None:
    assert len(WRONG) >= 20
    assert len({wrong.name for wrong in WRONG}) == len(WRONG)
    descriptions = {wrong.description for wrong in WRONG}
    assert len(descriptions) == len(WRONG)
    assert all(text[0].islower() and not text.endswith(".") for text in descriptions)
