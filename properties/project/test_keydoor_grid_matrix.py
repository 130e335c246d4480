"""The laws of the key-door grid notice every wrong grid, and each of them notices one."""

import pytest

pytest.importorskip("gymnasium")

from properties import test_keydoor_grid as grid
from properties.alternatives.keydoor_grid_wrong import WRONG
from properties.project.environment_matrix import (
    NOTICED,
    assert_described_once,
    gaps,
    laws_in,
    live,
)
from rlcheck.envs import KeyDoorGrid

SEEDS = range(1, 11)
LAWS = laws_in(grid)
# What only a longer life of an environment can show.
SEEN_IN_A_LIFE = (
    "BeginsByItself",
    "ClockKept",
    "GoesOnAfterTheEnd",
    "KeyKept",
    "KeyUsedUp",
    "RefusedResetBegins",
    "RefusedStepCounts",
    "ResetGoesOn",
    "SeedIgnored",
)


def test_every_wrong_grid_is_noticed_and_every_law_notices_one(
    pytestconfig: pytest.Config,
) -> None:
    assert gaps(LAWS, WRONG, int(pytestconfig.getoption("--hypothesis-seed"))) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_wrong_grid_is_noticed_at_ten_seeds(seed: int) -> None:
    assert gaps(LAWS, WRONG, seed) == []


@pytest.mark.parametrize("name", SEEN_IN_A_LIFE)
def test_a_life_of_any_calls_shows_what_is_kept(name: str) -> None:
    (wrong,) = (wrong for wrong in WRONG if wrong.name == name)
    with pytest.raises(NOTICED):
        live(grid.life_of, wrong.environment)


def test_the_right_grid_survives_the_same_lives() -> None:
    live(grid.life_of, KeyDoorGrid)


def test_wrong_grids_are_described_once() -> None:
    assert_described_once(WRONG, at_least=50)
