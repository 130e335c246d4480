"""Module 5, tokens: values learned from a log find its rare good answers, and imitation does not.

Seeds and thresholds stand in registered/token_offline.toml.
"""

import numpy as np
import pytest
from intervals import bootstrap, mean
from token_offline import (
    MEAN_EXPECTILE,
    REGISTERED,
    exact_match,
    expected_reward,
    imitation,
    imitation_error,
    random_policy,
    run,
    seeds_of,
    share_earned,
    without_advantages,
)

from rlcheck.agents._token_networks import decode
from rlcheck.agents._token_solution import expected_rewards

IMPROVEMENT, VALUES = REGISTERED["improvement"], REGISTERED["values"]
IMITATION, CONTROLS = REGISTERED["imitation"], REGISTERED["controls"]


def improved(seed, **options):
    return run(seed, **options).learners.improved


def test_values_of_tokens_find_the_good_answers():
    matches = bootstrap([exact_match(improved(s)) for s in seeds_of("improvement")], mean)
    assert matches.value >= IMPROVEMENT["exact_match"], matches
    assert matches.low >= IMPROVEMENT["exact_match_low"], matches


def test_they_find_more_of_them_than_imitation():
    seeds = seeds_of("improvement")
    gains = [exact_match(improved(seed)) - exact_match(imitation(seed)) for seed in seeds]
    gain = bootstrap(gains, mean)
    assert gain.value >= IMPROVEMENT["gain"], gain
    assert gain.low >= IMPROVEMENT["gain_low"], gain


def test_the_policy_that_samples_its_words_earns_most_of_the_exact_optimum():
    share = bootstrap([share_earned(seed) for seed in seeds_of("improvement")], mean)
    assert share.low >= IMPROVEMENT["earned_low"], share
    assert share.high <= 1 + 1e-6, share


def test_imitation_earns_what_the_log_earned():
    for seed in seeds_of("improvement"):
        assert imitation_error(seed) <= IMITATION["error"], (seed, imitation_error(seed))


def test_learned_values_are_the_exact_ones():
    for seed in seeds_of("improvement"):
        assert run(seed).worst_error <= VALUES["worst_error"], (seed, run(seed).worst_error)
        assert run(seed).mean_error <= VALUES["mean_error"], (seed, run(seed).mean_error)


@pytest.mark.parametrize("sample_seed", [None, 0])
def test_without_advantages_it_is_imitation(sample_seed):
    for seed in seeds_of("controls"):
        plain, twin = imitation(seed), without_advantages(seed)
        assert decode(twin, sample_seed=sample_seed) == decode(plain, sample_seed=sample_seed)
        np.testing.assert_allclose(expected_rewards(twin), expected_rewards(plain), rtol=1e-5)


def test_imitation_misses():
    matches = bootstrap([exact_match(imitation(s)) for s in seeds_of("improvement")], mean)
    assert matches.high <= CONTROLS["exact_match"], matches


def test_mean_values_miss():
    seeds = seeds_of("controls")
    matches = bootstrap([exact_match(improved(s, expectile=MEAN_EXPECTILE)) for s in seeds], mean)
    assert matches.high <= CONTROLS["exact_match"], matches


def test_values_that_bootstrap_through_the_end_miss():
    errors = [run(seed, ends_bootstrap=True).worst_error for seed in seeds_of("controls")]
    assert min(errors) >= CONTROLS["biased_error"], errors


def test_a_random_policy_misses():
    assert exact_match(random_policy) <= CONTROLS["random"]
    assert expected_reward(random_policy) <= CONTROLS["random"]
