"""The laws of the key-door grid, and of many at once, notice all that is wrong, each something."""

import pytest

pytest.importorskip("gymnasium")

from properties import test_keydoor_grid as grid
from properties import test_keydoor_grid_vector as vector
from properties.alternatives import keydoor_grid_vector_wrong, keydoor_grid_wrong
from properties.project.environment_matrix import (
    NOTICED,
    assert_described_once,
    gaps,
    laws_in,
    live,
)
from rlcheck.envs import KeyDoorGrid

SEEDS = (1, 2, 3)  # beside one that is drawn anew for each run
WRONG = keydoor_grid_wrong.WRONG
MATRICES = {
    "one": (laws_in(grid), WRONG),
    "vector": (laws_in(vector), keydoor_grid_vector_wrong.WRONG),
}
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


@pytest.mark.parametrize("form", MATRICES)
def test_every_wrong_grid_is_noticed_and_every_law_notices_one(
    form: str, pytestconfig: pytest.Config
) -> None:
    assert gaps(*MATRICES[form], int(pytestconfig.getoption("--hypothesis-seed"))) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", MATRICES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_wrong_grid_is_noticed_at_more_seeds(form: str, seed: int) -> None:
    assert gaps(*MATRICES[form], seed) == []


@pytest.mark.parametrize("name", SEEN_IN_A_LIFE)
def test_a_life_of_any_calls_shows_what_is_kept(name: str) -> None:
    (wrong,) = (wrong for wrong in WRONG if wrong.name == name)
    with pytest.raises(NOTICED):
        live(grid.life_of, wrong.environment)


def test_the_right_grid_survives_the_same_lives() -> None:
    live(grid.life_of, KeyDoorGrid)


def test_wrong_grids_are_described_once() -> None:
    assert_described_once(WRONG, at_least=50)
    assert_described_once(keydoor_grid_vector_wrong.WRONG, at_least=25)
