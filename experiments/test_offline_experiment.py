"""Module 5, offline: constraints help, maxima mislead, and a log knows what it shows.

Seeds and thresholds stand in registered/offline.toml.
"""

import numpy as np
import pytest
from intervals import bootstrap, mean
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from offline import (
    BETTER,
    CLONING,
    CQL,
    IQL,
    OPTIMUM,
    REGISTERED,
    UNCONSTRAINED,
    calibration,
    maximising_evaluation_error,
    measured,
    plot_calibration,
    run,
    terminal_bootstrapping_error,
)

from rlcheck.envs.keydoor_grid_solution import start_value, uniform_policy

METHODS, OVER, FQE = (REGISTERED[name] for name in ("methods", "overestimation", "fqe"))
SEEDS = METHODS["seeds"]


def points():
    return calibration(SEEDS, FQE["seeds"])


@pytest.mark.parametrize("name", BETTER)
@pytest.mark.parametrize(("other", "key"), [(UNCONSTRAINED, "value"), (CLONING, "sampled_value")])
def test_a_constrained_learner_beats_the_unconstrained_one_and_what_cloning_draws(name, other, key):
    gain = bootstrap(measured(name, "value", SEEDS) - measured(other, key, SEEDS), mean)
    assert gain.low > METHODS["gain_low"], gain
    assert gain.value >= METHODS["gain"], gain


def test_implicit_q_learning_beats_the_cloned_policy_when_both_draw_their_actions():
    gain = measured(IQL, "sampled_value", SEEDS) - measured(CLONING, "sampled_value", SEEDS)
    interval = bootstrap(gain, mean)
    assert interval.low > METHODS["gain_low"], interval
    assert interval.value >= METHODS["gain"], interval


def test_what_cloning_finds_likeliest_leaves_nothing_to_gain():
    loss = bootstrap(OPTIMUM - measured(CLONING, "value", SEEDS), mean)
    assert loss.value <= METHODS["likeliest_loss"], loss


def test_no_policy_is_better_than_the_exact_optimum():
    values = [row["value"] for seed in SEEDS for row in run(seed)["results"].values()]
    assert max(values) <= OPTIMUM + 1e-9


def test_the_unconstrained_learner_expects_too_much():
    expected = measured(UNCONSTRAINED, "estimated_value", SEEDS)
    above = bootstrap(expected - OPTIMUM, mean)
    assert above.low > OVER["optimistic_low"], above
    own = bootstrap(expected - measured(UNCONSTRAINED, "value", SEEDS), mean)
    assert own.low > OVER["own_low"], own


@pytest.mark.parametrize("name", [CQL, IQL])
def test_a_constrained_learner_does_not(name):
    above = bootstrap(measured(name, "estimated_value", SEEDS) - OPTIMUM, mean)
    assert above.value <= OVER["constrained"], above


def test_fitted_evaluation_is_right_for_every_policy_that_the_log_supports():
    inside = [point for point in points() if point.supported]
    assert len(inside) >= FQE["policies"]
    assert np.ptp([point.exact for point in inside]) >= FQE["spread"]
    assert max(abs(point.error) for point in inside) <= FQE["error"], inside


def test_a_random_policy_misses():
    worst = min(mean(measured(name, "value", SEEDS)) for name in BETTER)
    assert start_value(uniform_policy()) < worst - METHODS["gain"]
    assert OPTIMUM - start_value(uniform_policy()) > METHODS["likeliest_loss"]


def test_an_evaluation_that_maximises_overestimates():
    errors = [maximising_evaluation_error(seed) for seed in FQE["seeds"]]
    assert min(errors) >= FQE["maximising_error"], errors


def test_an_evaluation_that_bootstraps_through_terminals_misses():
    errors = [abs(terminal_bootstrapping_error(seed)) for seed in FQE["seeds"]]
    assert min(errors) >= FQE["terminal_error"], errors


def test_the_calibration_is_drawn():
    figure = plot_calibration(points())
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    drawn = [marks for marks in axes.collections if isinstance(marks, PathCollection)]
    assert sum(len(marks.get_offsets()) for marks in drawn) == len(points())
