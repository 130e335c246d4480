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
    exact_start_value,
    greedy_episodes,
    learned_start_value,
    learned_value,
    run,
    solution,
)
from intervals import bootstrap, mean

from rlcheck.agents import RecurrentActorCritic, exact_success_probability
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


def test_a_random_policy_misses():
    uniform = policy_value(uniform_policy(), task_horizon=TASK_HORIZON)
    assert uniform < SHAPING["success_low"]
    untrained = RecurrentActorCritic()  # its policy is uniform, whatever its weights
    assert greedy_episodes(untrained).success.mean() < SHAPING["success_low"]
    exact = exact_success_probability(untrained, task_horizon=TASK_HORIZON)
    assert exact == pytest.approx(uniform, abs=1e-6)


def test_true_shaping_leads_to_the_optimum():
    optimum = BeliefSolution(TASK_HORIZON, gamma=BROKEN["gamma"]).start_value
    assert exact_base_value("potential") == pytest.approx(optimum, abs=1e-12)
    loss = bootstrap([optimum - learned_value("potential", s).base for s in BROKEN["seeds"]], mean)
    assert loss.high <= BROKEN["shaped_loss"], loss


@pytest.mark.parametrize("reward", ["terminal potential", "paying loop"])
def test_broken_shaping_leads_elsewhere(reward):
    optimum = BeliefSolution(TASK_HORIZON, gamma=BROKEN["gamma"]).start_value
    assert optimum - exact_base_value(reward) >= BROKEN["broken_loss"]
    learned = [learned_value(reward, seed) for seed in BROKEN["seeds"]]
    loss = bootstrap([optimum - value.base for value in learned], mean)
    assert loss.low >= BROKEN["broken_loss"], loss
    reached = bootstrap([value.own / solution(reward).start_value for value in learned], mean)
    assert reached.low >= BROKEN["own_optimum"], (
        reached
    )  # it is learned, and not a failure to learn


def test_values_are_right_where_a_truncation_bootstraps():
    exact = exact_start_value(ends_at_the_limit=False)
    errors = [learned_start_value(s, KeyDoorAgentEnv) - exact for s in TRUNCATION["seeds"]]
    assert max(map(abs, errors)) <= TRUNCATION["error"], errors


def test_values_are_those_of_a_shorter_task_where_a_truncation_counts_as_termination():
    exact, shorter = (exact_start_value(ends_at_the_limit=cut) for cut in (False, True))
    values = [learned_start_value(seed, TruncationTerminates) for seed in TRUNCATION["seeds"]]
    assert max(values) - exact <= TRUNCATION["biased_error"], values
    assert max(abs(value - shorter) for value in values) <= TRUNCATION["shorter_error"], values


def test_a_policy_without_memory_reaches_its_own_optimum_and_no_more():
    optimum, _ = best_memoryless_policy(TASK_HORIZON)
    runs = [run(s, "potential", MEMORY["updates"], memory=False) for s in MEMORY["seeds"]]
    exact = [policy_value(as_table(each.model), task_horizon=TASK_HORIZON) for each in runs]
    assert max(exact) <= optimum + 1e-9
    assert mean(exact) >= MEMORY["reached"], exact
    assert exact == pytest.approx([each.exact_success for each in runs], abs=1e-6)
    assert mean([each.exact_success for each in shaped_runs()]) >= MEMORY["with_memory"]
