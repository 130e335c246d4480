"""DQN and Double DQN solve the key-door grid; on shared batches two overestimate less than one.

Seeds and thresholds stand in registered/online_dqn.toml.
"""

import pytest
from online_dqn import (
    LEARNERS,
    REGISTERED,
    optimal_return,
    overestimation,
    overestimation_by_swapping,
    random_success,
    run,
    same_data_overestimation,
    same_data_saved,
    share_of_optimum,
    success,
    terminal_biases,
)

LEARNING, CONVERGENCE = REGISTERED["learning"], REGISTERED["convergence"]
SAME_DATA = REGISTERED["same_data"]
OVERESTIMATION, TERMINALS = REGISTERED["overestimation"], REGISTERED["terminals"]


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_greedy_policy_reaches_the_goal(learner):
    measured = success(learner)
    assert measured.value >= LEARNING["success"], measured
    assert measured.low >= LEARNING["success_low"], measured


def test_random_actions_do_not():
    assert random_success() <= LEARNING["random_success"]


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_return_comes_near_the_exact_optimum(learner):
    share = share_of_optimum(learner)
    assert share.value >= CONVERGENCE["share"], share
    assert share.high <= 1 + 1e-9  # nothing is better than the optimum


def test_no_greedy_policy_is_better_than_the_optimum():
    for learner in LEARNERS:
        for seed in LEARNING["seeds"]:
            reached = run(seed, learner, LEARNING["episodes"])["evaluation"]["mean_return"]
            assert reached <= optimal_return() + 1e-9


def test_one_network_overestimates_where_rewards_are_noisy():
    measured = overestimation("DQN")
    assert measured.low > OVERESTIMATION["overestimation_low"], measured


def test_one_network_overestimates_on_data_that_it_shares():
    measured = same_data_overestimation("DQN")
    assert measured.low > SAME_DATA["overestimation_low"], measured


def test_two_networks_overestimate_less_on_the_same_data():
    saved = same_data_saved()
    assert saved.low > SAME_DATA["saved_low"], saved


def test_networks_swapped_overestimate_more_on_the_way():
    added = overestimation_by_swapping()
    assert added.low > OVERESTIMATION["swapped_low"], added


def test_values_are_unbiased_where_terminals_end_the_sum():
    biases = terminal_biases("DQN")
    assert max(map(abs, biases)) <= TERMINALS["bias"], biases


def test_values_are_too_large_where_terminals_bootstrap():
    biases = terminal_biases("terminals bootstrap")
    assert min(biases) >= TERMINALS["planted_bias"], biases
