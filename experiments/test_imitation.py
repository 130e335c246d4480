"""DAgger repairs what behaviour cloning of four episodes gets wrong, and mistakes compound.

Seeds and thresholds stand in registered/imitation.toml.
"""

import pytest
from imitation import (
    PROTOCOL,
    REGISTERED,
    SHOWN,
    UNSEEN,
    gains_where_there_is_room,
    random_success,
    run,
)
from intervals import bootstrap, mean

from rlcheck.envs.keydoor_grid import grid_tables
from rlcheck.envs.keydoor_grid_solution import solve_grid

COMPOUNDING, CONTROLS = REGISTERED["compounding"], REGISTERED["controls"]
SEEDS, LAST = REGISTERED["one_start"]["seeds"], PROTOCOL["rounds"]


def one_start_runs():
    return [run(seed, "one_start") for seed in SEEDS]


@pytest.mark.parametrize("claim", ["one_start", "drawn_starts"])
def test_dagger_succeeds_from_all_starts(claim):
    asked = REGISTERED[claim]
    success = bootstrap([run(seed, claim).success for seed in asked["seeds"]], mean)
    assert success.value >= asked["success"], success
    assert success.low >= asked["success_low"], success


@pytest.mark.parametrize("claim", ["one_start", "drawn_starts"])
def test_dagger_gains_where_behaviour_cloning_leaves_room(claim):
    asked = REGISTERED[claim]
    gain = bootstrap(gains_where_there_is_room(claim, asked["seeds"]), mean)
    assert gain.low > asked["gain_low"], gain


def test_no_policy_is_better_than_the_exact_optimum():
    optimum = solve_grid().values[grid_tables().start].mean()
    values = [row[name] for r in one_start_runs() for row in r.records for name in VALUES]
    assert max(values) <= optimum + 1e-9
    assert max(values) >= optimum - COMPOUNDING["dagger_loss_high"]


VALUES = ("value", "sampled_value")


def test_a_cloned_policy_errs_little_where_it_was_shown():
    runs = one_start_runs()
    assert max(r.mistakes(0, SHOWN).rate_before for r in runs) <= COMPOUNDING["rate_before"]
    assert max(r.loss(0, SHOWN) for r in runs) <= COMPOUNDING["shown_loss"]


def test_one_mistake_leads_to_more_of_them():
    growth = bootstrap([r.rate_growth for r in one_start_runs()], mean)
    assert growth.low >= COMPOUNDING["rate_growth_low"], growth


def test_disagreement_grows_with_the_step_index():
    growth = bootstrap([r.step_growth() for r in one_start_runs()], mean)
    assert growth.low >= COMPOUNDING["step_growth_low"], growth


def test_mistakes_compound_on_starts_that_were_not_shown():
    runs = one_start_runs()
    more = bootstrap([r.unseen_mistakes for r in runs], mean)
    assert more.low >= COMPOUNDING["unseen_mistakes_low"], more
    loss = bootstrap([r.loss(0, UNSEEN) for r in runs], mean)
    assert loss.low >= COMPOUNDING["unseen_loss_low"], loss


def test_dagger_leaves_little_to_lose_on_them():
    loss = bootstrap([r.loss(LAST, UNSEEN) for r in one_start_runs()], mean)
    assert loss.high <= COMPOUNDING["dagger_loss_high"], loss


def test_a_learner_that_labels_itself_does_not_improve():
    runs = [run(seed, "one_start", "own") for seed in SEEDS]
    success = bootstrap([each.success for each in runs], mean)
    assert success.high <= CONTROLS["own_labels_success_high"], success
    gain = bootstrap([each.gain for each in runs], mean)
    assert gain.high <= CONTROLS["own_labels_gain_high"], gain


def test_a_random_policy_misses():
    assert random_success() <= CONTROLS["random_success"]
