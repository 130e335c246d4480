"""Module 11: shaping speeds learning, a truncation is no termination, memory is needed.

Seeds and thresholds stand in registered/agentic.toml.
"""

import pytest
from agentic import (
    REGISTERED,
    TASK_HORIZON,
    TruncationTerminates,
    as_table,
    exact_base_value,
    learned_base_value,
    run,
    start_value_error,
)
from intervals import bootstrap, mean, wilson

from rlcheck.agents import RecurrentActorCritic, evaluate_policy
from rlcheck.envs import KeyDoorAgentEnv
from rlcheck.envs.keydoor_agent_solution import (
    BeliefSolution,
    best_memoryless_policy,
    policy_value,
    uniform_policy,
)

SHAPING, LONG = REGISTERED["shaping"], REGISTERED["long"]
BROKEN, TRUNCATION, MEMORY = (REGISTERED[n] for n in ("broken_shaping", "truncation", "memory"))


def shaped_runs():
    return [run(seed, "potential", SHAPING["updates"]) for seed in SHAPING["seeds"]]


def test_potential_shaping_reaches_the_threshold():
    success = bootstrap([each.success for each in shaped_runs()])
    assert success.value >= SHAPING["success"], success
    assert success.low >= SHAPING["success_low"], success


def test_the_policy_that_samples_its_actions_reaches_it_too():
    success = bootstrap([each.exact_success for each in shaped_runs()])
    assert success.value >= SHAPING["success"], success
    assert success.low >= SHAPING["success_low"], success


@pytest.mark.parametrize("lam", SHAPING["sparse_lam"])
def test_potential_shaping_learns_faster_than_the_sparse_reward(lam):
    sparse = [run(seed, "sparse", SHAPING["updates"], lam=lam) for seed in SHAPING["seeds"]]
    pairs = zip(shaped_runs(), sparse, strict=True)
    gain = bootstrap([shaped.area - plain.area for shaped, plain in pairs], mean)
    assert gain.low > SHAPING["area_gain_low"], gain


@pytest.mark.parametrize("reward_mode", ["sparse", "potential"])
def test_both_rewards_reach_the_threshold_in_time(reward_mode):
    runs = [run(seed, reward_mode, LONG["updates"]) for seed in LONG["seeds"]]
    success = bootstrap([each.success for each in runs])
    assert success.value >= LONG["success"], success


def test_no_policy_is_better_than_the_exact_optimum():
    optimum = BeliefSolution(TASK_HORIZON).start_value
    assert optimum == 1.0
    assert all(each.exact_success <= optimum + 1e-6 for each in shaped_runs())


def test_a_random_policy_misses():
    untrained = RecurrentActorCritic()  # its policy is uniform, whatever its weights
    metrics = evaluate_policy(
        untrained, greedy=False, task_horizon=TASK_HORIZON, **REGISTERED["evaluation"]
    )
    exact = policy_value(uniform_policy(), task_horizon=TASK_HORIZON)
    episodes = REGISTERED["evaluation"]["episodes"]
    rate = wilson(round(metrics["success_rate"] * episodes), episodes)
    assert rate.high < SHAPING["success_low"], rate
    assert exact < SHAPING["success_low"], exact


def test_true_shaping_leads_to_the_optimum():
    optimum = BeliefSolution(TASK_HORIZON, gamma=BROKEN["gamma"]).start_value
    assert exact_base_value("potential") == pytest.approx(optimum, abs=1e-12)
    loss = bootstrap([optimum - learned_base_value("potential", s) for s in BROKEN["seeds"]], mean)
    assert loss.high <= BROKEN["shaped_loss"], loss


@pytest.mark.parametrize("reward", ["terminal potential", "paying loop"])
def test_broken_shaping_leads_elsewhere(reward):
    optimum = BeliefSolution(TASK_HORIZON, gamma=BROKEN["gamma"]).start_value
    assert optimum - exact_base_value(reward) >= BROKEN["broken_loss"]
    loss = bootstrap([optimum - learned_base_value(reward, s) for s in BROKEN["seeds"]], mean)
    assert loss.low >= BROKEN["broken_loss"], loss


def test_values_are_right_where_a_truncation_bootstraps():
    errors = [start_value_error(seed, KeyDoorAgentEnv) for seed in TRUNCATION["seeds"]]
    assert max(map(abs, errors)) <= TRUNCATION["error"], errors


def test_values_are_too_low_where_a_truncation_counts_as_termination():
    errors = [start_value_error(seed, TruncationTerminates) for seed in TRUNCATION["seeds"]]
    assert max(errors) <= TRUNCATION["biased_error"], errors


def test_a_policy_without_memory_stays_below_its_optimum_and_memory_does_not():
    optimum, _ = best_memoryless_policy(TASK_HORIZON)
    runs = [run(s, "potential", MEMORY["updates"], memory=False) for s in MEMORY["seeds"]]
    exact = [policy_value(as_table(each.model), task_horizon=TASK_HORIZON) for each in runs]
    assert max(exact) <= optimum + 1e-9
    assert mean(exact) >= MEMORY["reached"], exact
    assert min(each.exact_success for each in shaped_runs()) > optimum
