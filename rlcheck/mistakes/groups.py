"""What people get wrong about groups that carry a gradient."""

import math

import numpy as np

from rlcheck import groups as reference
from rlcheck.mistakes.registry import mistake


@mistake("informative_group_probability", "subtracts from 1 and loses the digits of a small result")
def subtracts_from_one(p, group_size):
    reference.informative_group_probability(p, group_size)
    p, group_size = float(p), int(group_size)
    return 1.0 - p**group_size - (1.0 - p) ** group_size


@mistake(
    "informative_group_probability", "is accurate for rare successes and not for rare failures"
)
def is_accurate_for_rare_successes_only(p, group_size):
    answer = reference.informative_group_probability(p, group_size)
    p, group_size = float(p), int(group_size)
    return answer if p < 0.5 else -math.expm1(group_size * math.log(p)) - (1.0 - p) ** group_size


@mistake("informative_group_probability", "takes log(1 − p) where log1p(−p) is due")
def takes_the_log_of_a_difference(p, group_size):
    answer = reference.informative_group_probability(p, group_size)
    p, group_size = float(p), int(group_size)
    rarer = min(p, 1.0 - p)
    if answer == 0.0:
        return 0.0
    return -math.expm1(group_size * math.log(1.0 - rarer)) - rarer**group_size


@mistake("informative_group_probability", "leaves a rounding error where a group of one has 0")
def misses_zero_for_one_rollout(p, group_size):
    answer = reference.informative_group_probability(p, group_size)
    p = float(p)
    return -math.expm1(math.log1p(-p)) - p if int(group_size) == 1 and p < 1.0 else answer


@mistake("informative_group_probability", "asks for one success only: pass@G")
def asks_for_a_success(p, group_size):
    reference.informative_group_probability(p, group_size)
    return -math.expm1(int(group_size) * math.log1p(-float(p))) if p < 1 else 1.0


@mistake("informative_group_probability", "asks for one failure only")
def asks_for_a_failure(p, group_size):
    reference.informative_group_probability(p, group_size)
    return 1.0 - float(p) ** int(group_size)


@mistake("informative_group_probability", "counts groups that are all correct as informative")
def counts_solved_groups(p, group_size):
    answer = reference.informative_group_probability(p, group_size)
    return answer + float(p) ** int(group_size)


@mistake("informative_group_probability", "returns the probability of a group without a gradient")
def returns_the_complement(p, group_size):
    return 1.0 - reference.informative_group_probability(p, group_size)


@mistake("informative_group_probability", "takes success and failure in a group for independent")
def multiplies_dependent_events(p, group_size):
    reference.informative_group_probability(p, group_size)
    p, group_size = float(p), int(group_size)
    return (1.0 - p**group_size) * (1.0 - (1.0 - p) ** group_size)


@mistake("informative_group_probability", "looks at two rollouts, whatever the size of the group")
def looks_at_two_rollouts(p, group_size):
    size = min(reference.integer("group_size", group_size, minimum=1), 2)
    return reference.informative_group_probability(p, size)


@mistake("informative_group_probability", "counts one rollout too few")
def counts_a_rollout_too_few(p, group_size):
    reference.informative_group_probability(p, group_size)
    return reference.informative_group_probability(p, max(int(group_size) - 1, 1))


@mistake("informative_group_probability", "returns the expected variance of the group's rewards")
def returns_the_variance(p, group_size):
    reference.informative_group_probability(p, group_size)
    return float(p) * (1.0 - float(p)) * (1.0 - 1.0 / int(group_size))


@mistake("informative_group_probability", "uses G·p, which holds only for rare successes")
def uses_the_rare_limit(p, group_size):
    answer = reference.informative_group_probability(p, group_size)
    rarer = min(float(p), 1.0 - float(p))
    return min(int(group_size) * rarer, 1.0) if answer else 0.0


@mistake("informative_group_probability", "keeps p away from 0 and 1 by 1e-8")
def keeps_p_from_the_ends(p, group_size):
    reference.informative_group_probability(p, group_size)
    return reference.informative_group_probability(min(max(float(p), 1e-8), 1 - 1e-8), group_size)


@mistake("informative_group_probability", "calculates in single precision")
def calculates_in_single_precision(p, group_size):
    reference.informative_group_probability(p, group_size)
    return reference.informative_group_probability(np.float32(p), group_size)


@mistake("informative_group_probability", "takes a large group for certain to be informative")
def takes_large_groups_for_informative(p, group_size):
    answer = reference.informative_group_probability(p, group_size)
    return 1.0 if int(group_size) > 50 and 0 < p < 1 else answer


@mistake("informative_group_probability", "answers with a difference below 0 for a sure success")
def falls_below_zero(p, group_size):
    answer = reference.informative_group_probability(p, group_size)
    return answer if 0 < p < 1 else answer - 2.0**-53


@mistake(
    "informative_group_probability", "takes numbers outside [0, 1] for the nearest probability"
)
def clips_p(p, group_size):
    inside = min(max(float(p), 0.0), 1.0) if isinstance(p, float) and p == p else p
    return reference.informative_group_probability(inside, group_size)


@mistake("informative_group_probability", "cuts a group of 2.5 rollouts to 2")
def cuts_the_group_size(p, group_size):
    whole = isinstance(group_size, float) and math.isfinite(group_size) and group_size >= 1
    return reference.informative_group_probability(p, int(group_size) if whole else group_size)


@mistake(
    "informative_group_probability", "finds an empty group uninformative instead of refusing it"
)
def accepts_an_empty_group(p, group_size):
    empty = np.ndim(group_size) == 0 and not isinstance(group_size, str) and group_size == 0
    return 0.0 if empty else reference.informative_group_probability(p, group_size)
