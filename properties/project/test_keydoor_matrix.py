"""The laws of the key-door agent notice every wrong environment, and each of them notices one."""

import pytest

pytest.importorskip("gymnasium")

from properties import test_keydoor_agent as keydoor
from properties.alternatives.keydoor_wrong import WRONG
from properties.project.environment_matrix import (
    NOTICED,
    assert_described_once,
    gaps,
    laws_in,
    live,
)
from rlcheck.envs import KeyDoorAgentEnv

SEEDS = (1, 2, 3)  # beside one that is drawn anew for each run
LAWS = laws_in(keydoor)
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


def test_every_wrong_environment_is_noticed_and_every_law_notices_one(
    pytestconfig: pytest.Config,
) -> None:
    assert gaps(LAWS, WRONG, int(pytestconfig.getoption("--hypothesis-seed"))) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_wrong_environment_is_noticed_at_more_seeds(seed: int) -> None:
    assert gaps(LAWS, WRONG, seed) == []


@pytest.mark.parametrize("name", SEEN_IN_A_LIFE)
def test_a_life_of_any_calls_shows_what_is_kept(name: str) -> None:
    (wrong,) = (wrong for wrong in WRONG if wrong.name == name)
    with pytest.raises(NOTICED):
        live(keydoor.life_of, wrong.environment)


def test_the_right_environment_survives_the_same_lives() -> None:
    live(keydoor.life_of, KeyDoorAgentEnv)


def test_wrong_environments_are_described_once() -> None:
    assert_described_once(WRONG, at_least=20)
