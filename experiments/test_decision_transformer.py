"""Module 5: a decision transformer follows what it is asked for within its log, and not beyond.

Seeds and thresholds stand in registered/decision_transformer.toml.
"""

import pytest
from decision_transformer import (
    REGISTERED,
    SEEDS,
    TARGETS,
    achieved,
    figure,
    gain_beyond,
    log,
    optimum,
    over_seeds,
    random_return,
    rank_correlation,
    rise,
    shuffled,
    without_success,
)
from intervals import bootstrap, mean

TOP, TREND, BEYOND = (REGISTERED[name] for name in ("top", "trend", "beyond"))


@pytest.mark.parametrize("target", TOP["targets"])
def test_near_the_top_of_the_log_what_is_asked_for_is_achieved(target):
    found = over_seeds(SEEDS, target, greedy=True)
    assert found.low >= target - TOP["error"], found
    assert found.high <= target + TOP["error"], found


@pytest.mark.parametrize("target", TOP["targets"])
def test_uniform_actions_miss_the_top(target):
    found = bootstrap([random_return(seed) for seed in SEEDS], mean)
    assert found.high < target - TOP["error"], found


def test_more_is_achieved_where_more_is_asked_for():
    found = rise(SEEDS, TREND["low"], TREND["high"])
    assert found.low >= TREND["rise"], found


def test_what_is_achieved_ranks_as_what_is_asked_for():
    found = bootstrap([rank_correlation(seed) for seed in SEEDS], mean)
    assert found.low >= TREND["rank_correlation"], found


def test_a_model_of_shuffled_returns_does_not_follow():
    found = rise(SEEDS, TREND["low"], TREND["high"], kind="shuffled")
    assert found.low >= -TREND["shuffled_rise"], found
    assert found.high <= TREND["shuffled_rise"] < TREND["rise"], found


@pytest.mark.parametrize("greedy", [True, False], ids=["likeliest", "drawn"])
@pytest.mark.parametrize("target", BEYOND["targets"])
def test_a_return_beyond_the_log_is_a_request_and_no_promise(target, greedy):
    gain, found = (of(SEEDS, target, greedy=greedy) for of in (gain_beyond, over_seeds))
    assert gain.high <= BEYOND["gain"], gain
    assert target - found.high >= BEYOND["gap"], found


def test_a_log_of_failures_does_not_give_the_return_that_the_task_would():
    found = over_seeds(SEEDS, TREND["high"], greedy=False, kind="without success")
    assert optimum() >= TREND["high"]
    assert found.high <= BEYOND["without_success"], found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_logs_are_what_the_claims_say(seed):
    returns = [episode.return_ for episode in log(seed)]
    assert max(TOP["targets"]) < max(returns) < min(BEYOND["targets"])
    assert min(returns) < TREND["low"]
    assert sorted(e.return_ for e in shuffled(seed)) == pytest.approx(sorted(returns))
    assert max(e.return_ for e in without_success(seed)) < min(TOP["targets"]) - TOP["error"]


def test_the_figure_shows_both_curves_over_all_targets():
    above, below = figure(SEEDS[:1]).axes
    curves = {line.get_label(): line for line in above.get_lines()}
    for label, greedy in (("likeliest action", True), ("drawn action", False)):
        asked, got = curves[label].get_data()
        assert asked.tolist() == TARGETS
        assert got.tolist() == [achieved(SEEDS[0], t, greedy=greedy) for t in TARGETS]
    assert sum(bar.get_height() for bar in below.patches) == REGISTERED["episodes"]
