"""What people get wrong about groups: which carry a gradient, and what their rewards are worth."""

import itertools
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


# --- group_advantages --------------------------------------------------------------------------

DEFAULTS = {"scale": "std", "ddof": 1, "eps": 1e-6, "valid": None}


def grouped(rewards, group_ids):
    """[N] rewards as floats, and the rows of each group in order of appearance."""
    rows = {}
    for i, name in enumerate(group_ids):
        rows.setdefault(name, []).append(i)
    return np.array(rewards, dtype=np.float64), [np.array(members) for members in rows.values()]


def mapped(advantages, rewards, group_ids, *, valid=None, refuse=True, **options):
    """[N] `advantages(x, pool, scale, ddof, eps)` of each group's valid rewards x.

    `pool` holds all valid rewards. Refuses what is to be refused.
    """
    if refuse:
        reference.group_advantages(rewards, group_ids, valid=valid, **options)
    options = {**DEFAULTS, **options}
    del options["valid"]
    x, groups = grouped(rewards, group_ids)
    counts = np.ones(len(x), bool) if valid is None else np.array(valid).astype(bool)
    out = np.zeros(len(x))
    with np.errstate(all="ignore"):
        for rows in groups:
            rows = rows[counts[rows]]
            if len(rows):
                out[rows] = advantages(x[rows], x[counts], **options)
    return out


def spread_of(x, pool, scale, ddof):
    """The standard deviation that is due; of one reward, 0."""
    y = pool if scale == "batch" else x
    return np.std(y, ddof=min(ddof, len(y) - 1))


def equal(x):
    return x.min() == x.max()


def dividing(divide):
    """Advantages of a group from its centred rewards; 0 where there is nothing to divide."""

    def advantages(x, pool, scale, ddof, eps):
        if equal(x):
            return np.zeros(len(x))
        centred = x - x.mean()
        return centred if scale == "none" else divide(centred, x, pool, scale, ddof, eps)

    return advantages


@mistake("group_advantages", "lets a rollout that is alone in its group keep its reward")
def keeps_a_lonely_reward(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    alone = mapped(lambda x, *_, **__: x * (len(x) == 1), rewards, group_ids, **options)
    return np.where(alone != 0, alone, right)


@mistake(
    "group_advantages",
    "divides by n − 1 = 0 in a group of one",
    report="axolotl-ai-cloud/axolotl#3353",
)
def divides_a_lonely_reward_by_zero(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    unset = {**DEFAULTS, **options}
    if unset["scale"] != "std" or unset["ddof"] == 0:
        return right
    alone = mapped(lambda x, *_, **__: float(len(x) == 1), rewards, group_ids, **options)
    return np.where(alone, np.nan, right)


@mistake(
    "group_advantages",
    "divides by n − 1 = 0 where only one reward of the batch is valid",
    report="alibaba/ROLL#475, alibaba/ROLL#476",
)
def whitens_one_reward(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    unset = {**DEFAULTS, **options}
    valid = np.ones(len(right)) if unset["valid"] is None else np.array(unset["valid"], float)
    if unset["scale"] != "batch" or unset["ddof"] == 0 or valid.sum() != 1:
        return right
    return np.where(valid, np.nan, right)


@mistake(
    "group_advantages",
    "pools all prompts where their groups have different sizes",
    report="THUDM/slime#1918, radixark/miles#1573",
)
def pools_uneven_groups(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    uneven = len({len(rows) for rows in grouped(rewards, group_ids)[1]}) > 1
    return reference.group_advantages(rewards, [0] * len(right), **options) if uneven else right


@mistake("group_advantages", "cuts the batch into consecutive groups, and never looks at the ids")
def cuts_consecutive_groups(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    total, names = len(rewards), max(len(set(group_ids)), 1)
    size = total // names if total % names == 0 else total
    return reference.group_advantages(rewards, np.arange(total) // max(size, 1), **options)


@mistake("group_advantages", "takes each run of equal ids for a group")
def takes_runs_for_groups(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    runs = [i for i, (_, run) in enumerate(itertools.groupby(group_ids)) for _ in run]
    return reference.group_advantages(rewards, runs, **options)


@mistake("group_advantages", "lists the advantages group by group, not in the order of the rows")
def lists_group_by_group(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    _, groups = grouped(rewards, group_ids)
    return right[np.concatenate(groups)] if groups else right


@mistake("group_advantages", "cuts fractional ids to whole numbers")
def cuts_ids_to_integers(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    names = [int(name) if isinstance(name, float) else name for name in group_ids]
    return reference.group_advantages(rewards, names, **options)


@mistake("group_advantages", "keeps ids in single precision, where large ones are the same")
def keeps_ids_in_single_precision(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    names = [name if isinstance(name, str) else float(np.float32(name)) for name in group_ids]
    return reference.group_advantages(rewards, names, **options)


@mistake("group_advantages", "reads ids that look like numbers as numbers")
def reads_texts_as_numbers(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    try:
        names = [float(name) for name in group_ids]
    except ValueError:
        names = group_ids
    return reference.group_advantages(rewards, names, **options)


@mistake("group_advantages", "tells prompts apart by their first eight characters")
def tells_prompts_by_their_beginning(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    return reference.group_advantages(rewards, [str(name)[:8] for name in group_ids], **options)


@mistake("group_advantages", "takes the distance to the mean of the batch, not of the group")
def centres_at_the_mean_of_the_batch(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)

    def advantages(x, pool, scale, ddof, eps):
        if len(pool) == 1:
            return 0.0
        return (x - pool.mean()) / (
            1.0 if scale == "none" else spread_of(x, pool, scale, ddof) + eps
        )

    return mapped(advantages, rewards, group_ids, **options)


@mistake("group_advantages", "takes the distance to the median of the group")
def centres_at_the_median(rewards, group_ids, **options):
    def advantages(x, pool, scale, ddof, eps):
        divisor = 1.0 if scale == "none" or equal(x) else spread_of(x, pool, scale, ddof) + eps
        return (x - np.median(x)) / divisor

    return mapped(advantages, rewards, group_ids, **options)


@mistake(
    "group_advantages",
    "takes the distance to the mean of the others",
    report="redai-studio/Relax#174",
)
def leaves_its_own_reward_out(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    size = mapped(lambda x, *_, **__: float(len(x)), rewards, group_ids, **options)
    return right * size / np.maximum(size - 1, 1)


@mistake("group_advantages", "takes the reward from the mean: every sign is turned")
def turns_every_sign(rewards, group_ids, **options):
    return -reference.group_advantages(rewards, group_ids, **options)


@mistake(
    "group_advantages",
    "divides by the standard deviation of the others, which is 0 for the odd one",
    report="NVIDIA-NeMo/RL#1518, NVIDIA-NeMo/RL#1519",
)
def divides_by_the_deviation_of_the_others(rewards, group_ids, **options):
    def divide(centred, x, pool, scale, ddof, eps):
        if scale == "batch" or len(x) <= 2:
            return centred / (spread_of(x, pool, scale, ddof) + eps)
        others = [np.std(np.delete(x, i), ddof=ddof) for i in range(len(x))]
        return centred / (np.array(others) + eps)

    return mapped(dividing(divide), rewards, group_ids, **options)


@mistake(
    "group_advantages",
    "keeps the variance above ε, so that the standard deviation stays above √ε",
    report="verl-project/verl#6348",
)
def floors_the_variance(rewards, group_ids, **options):
    def divide(centred, x, pool, scale, ddof, eps):
        return centred / np.sqrt(np.maximum(spread_of(x, pool, scale, ddof) ** 2, eps))

    return mapped(dividing(divide), rewards, group_ids, **options)


@mistake("group_advantages", "adds ε to the variance, inside the root")
def adds_eps_inside_the_root(rewards, group_ids, **options):
    def divide(centred, x, pool, scale, ddof, eps):
        return centred / np.sqrt(spread_of(x, pool, scale, ddof) ** 2 + eps)

    return mapped(dividing(divide), rewards, group_ids, **options)


@mistake("group_advantages", "raises the standard deviation to ε where it should add ε")
def raises_the_deviation_to_eps(rewards, group_ids, **options):
    def divide(centred, x, pool, scale, ddof, eps):
        return centred / np.maximum(spread_of(x, pool, scale, ddof), eps)

    return mapped(dividing(divide), rewards, group_ids, **options)


@mistake("group_advantages", "leaves ε out")
def leaves_eps_out(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    return reference.group_advantages(rewards, group_ids, **{**options, "eps": 0.0})


@mistake(
    "group_advantages",
    "takes the difference of E[r²] and E[r]², which cancels",
    report="NousResearch/atropos#481",
)
def cancels_in_the_variance_of_rewards(rewards, group_ids, **options):
    def advantages(x, pool, scale, ddof, eps):
        if scale == "none":
            return 0.0 if equal(x) else x - x.mean()
        y = pool if scale == "batch" else x
        variance = (y * y).mean() - y.mean() ** 2
        if len(y) > 1 and ddof:
            variance = variance * len(y) / (len(y) - 1)
        return (x - x.mean()) / (np.sqrt(variance) + eps)

    return mapped(advantages, rewards, group_ids, **options)


@mistake(
    "group_advantages",
    "decides whether rewards are equal by the rounded mean and deviation",
    report="verl-project/verl#4597, NVIDIA-NeMo/RL#4161",
)
def trusts_the_rounded_mean(rewards, group_ids, **options):
    def advantages(x, pool, scale, ddof, eps):
        if scale == "none":
            return x - x.mean()
        deviation = spread_of(x, pool, scale, ddof)
        return (x - x.mean()) / (deviation + eps) if deviation > 0 else 0.0

    return mapped(advantages, rewards, group_ids, **options)


@mistake("group_advantages", "divides 0 by 0 where rewards are equal and ε is 0")
def divides_zero_by_zero(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    unset = {**DEFAULTS, **options}
    if unset["eps"] > 0 or unset["scale"] == "none":
        return right
    still = mapped(lambda x, *_, **__: float(equal(x)), rewards, group_ids, **options)
    return np.where(still, np.nan, right)


@mistake(
    "group_advantages",
    "counts a missing reward as 0 in the mean",
    report="huggingface/trl#5775",
)
def counts_missing_rewards_as_zero(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    valid = options.pop("valid", None)
    counts = np.ones(len(rewards), bool) if valid is None else np.array(valid).astype(bool)
    filled = np.where(counts, np.array(rewards, dtype=np.float64), 0.0)
    return np.where(counts, reference.group_advantages(filled, group_ids, **options), 0.0)


@mistake(
    "group_advantages",
    "lets rejected rollouts shift the mean and the deviation",
    report="verl-project/verl#6452, OpenRLHF/OpenRLHF#1239",
)
def lets_rejected_rollouts_in(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    x, valid = np.array(rewards, dtype=np.float64), options.pop("valid", None)
    if valid is None:
        return reference.group_advantages(x, group_ids, **options)
    everyone = reference.group_advantages(x, group_ids, valid=np.isfinite(x), **options)
    return np.where(np.array(valid).astype(bool), everyone, 0.0)


@mistake("group_advantages", "lets rejected rollouts count in the deviation of the batch")
def lets_rejected_rollouts_into_the_deviation(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    unset = {**DEFAULTS, **options}
    if unset["scale"] != "batch" or unset["valid"] is None or np.all(unset["valid"]):
        return right
    x = np.array(rewards, dtype=np.float64)
    centred = reference.group_advantages(x, group_ids, scale="none", valid=unset["valid"])
    with np.errstate(all="ignore"):
        return centred / (np.std(x, ddof=min(unset["ddof"], len(x) - 1)) + unset["eps"])


@mistake("group_advantages", "gives rollouts that do not count an advantage over those that do")
def rates_rejected_rollouts(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    x, groups = grouped(rewards, group_ids)
    counts = (
        np.ones(len(x), bool) if options.get("valid") is None else np.array(options["valid"]) > 0
    )
    with np.errstate(all="ignore"):
        for rows in groups:
            mean = x[rows][counts[rows]].mean() if counts[rows].any() else 0.0
            right[rows] = np.where(counts[rows], right[rows], x[rows] - mean)
    return right


@mistake(
    "group_advantages",
    "divides by the group's mean, which turns the signs where that is negative",
    report="huggingface/trl#5026",
)
def divides_by_the_mean(rewards, group_ids, **options):
    def divide(centred, x, pool, scale, ddof, eps):
        return centred / ((pool if scale == "batch" else x).mean() + eps)

    return mapped(dividing(divide), rewards, group_ids, **options)


@mistake(
    "group_advantages", "divides the squares by n whatever ddof is", report="redai-studio/Relax#174"
)
def always_divides_by_n(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    return reference.group_advantages(rewards, group_ids, **{**options, "ddof": 0})


@mistake("group_advantages", "divides the squares by n − 1 whatever ddof is")
def always_divides_by_n_minus_1(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    return reference.group_advantages(rewards, group_ids, **{**options, "ddof": 1})


@mistake("group_advantages", "takes ddof 0 where it is left out, as NumPy does")
def defaults_to_ddof_0(rewards, group_ids, **options):
    return reference.group_advantages(rewards, group_ids, **{"ddof": 0, **options})


@mistake("group_advantages", "takes ε = 1e-4 where it is left out")
def defaults_to_a_larger_eps(rewards, group_ids, **options):
    return reference.group_advantages(rewards, group_ids, **{"eps": 1e-4, **options})


@mistake("group_advantages", "only centres where the scale is left out")
def defaults_to_no_scale(rewards, group_ids, **options):
    return reference.group_advantages(rewards, group_ids, **{"scale": "none", **options})


@mistake("group_advantages", "divides each group by the standard deviation of the batch")
def always_scales_by_the_batch(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    scale = "none" if options.get("scale") == "none" else "batch"
    return reference.group_advantages(rewards, group_ids, **{**options, "scale": scale})


@mistake("group_advantages", "scales by the group even where the batch is asked for")
def always_scales_by_the_group(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    scale = "none" if options.get("scale") == "none" else "std"
    return reference.group_advantages(rewards, group_ids, **{**options, "scale": scale})


@mistake("group_advantages", 'divides by the standard deviation with scale "none" too')
def always_scales(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    scale = "batch" if options.get("scale") == "batch" else "std"
    return reference.group_advantages(rewards, group_ids, **{**options, "scale": scale})


def rescaled(rewards, group_ids, options, deviation):
    """Centred advantages over `deviation(rewards, groups, ddof)` where the batch is asked for."""
    right = reference.group_advantages(rewards, group_ids, **options)
    unset = {**DEFAULTS, **options}
    if unset["scale"] != "batch" or unset["valid"] is not None or not len(right):
        return right
    centred = reference.group_advantages(rewards, group_ids, scale="none")
    with np.errstate(all="ignore"):
        divisor = deviation(*grouped(rewards, group_ids), unset["ddof"]) + unset["eps"]
    return np.where(centred == 0, 0.0, centred / (divisor or 1.0))


@mistake("group_advantages", "takes the batch's deviation of centred rewards, not of raw ones")
def whitens_centred_rewards(rewards, group_ids, **options):
    def deviation(x, groups, ddof):
        centred = reference.group_advantages(x, group_ids, scale="none")
        return spread_of(centred, centred, "batch", ddof)

    return rescaled(rewards, group_ids, options, deviation)


@mistake("group_advantages", "averages the deviations of the groups for that of the batch")
def averages_the_deviations(rewards, group_ids, **options):
    def deviation(x, groups, ddof):
        return np.mean([np.std(x[rows], ddof=min(ddof, len(rows) - 1)) for rows in groups])

    return rescaled(rewards, group_ids, options, deviation)


@mistake("group_advantages", "leaves groups of equal rewards out of the deviation of the batch")
def leaves_equal_groups_out(rewards, group_ids, **options):
    def deviation(x, groups, ddof):
        varied = [x[rows] for rows in groups if not equal(x[rows])]
        return np.std(np.concatenate(varied), ddof=ddof) if varied else 1.0

    return rescaled(rewards, group_ids, options, deviation)


@mistake("group_advantages", "divides by the mean absolute deviation")
def divides_by_the_absolute_deviation(rewards, group_ids, **options):
    def divide(centred, x, pool, scale, ddof, eps):
        y = pool if scale == "batch" else x
        return centred / (np.abs(y - y.mean()).mean() + eps)

    return mapped(dividing(divide), rewards, group_ids, **options)


@mistake("group_advantages", "divides by the range of the rewards")
def divides_by_the_range(rewards, group_ids, **options):
    def divide(centred, x, pool, scale, ddof, eps):
        return centred / (np.ptp(pool if scale == "batch" else x) + eps)

    return mapped(dividing(divide), rewards, group_ids, **options)


@mistake("group_advantages", "divides by the variance")
def divides_by_the_variance(rewards, group_ids, **options):
    def divide(centred, x, pool, scale, ddof, eps):
        return centred / (spread_of(x, pool, scale, ddof) ** 2 + eps)

    return mapped(dividing(divide), rewards, group_ids, **options)


@mistake("group_advantages", "clips the advantages to [−5, 5]")
def clips_the_advantages(rewards, group_ids, **options):
    return np.clip(reference.group_advantages(rewards, group_ids, **options), -5.0, 5.0)


@mistake("group_advantages", "works in single precision, where a large offset leaves no digits")
def centres_in_single_precision(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    with np.errstate(over="ignore"):
        single = np.array(rewards, dtype=np.float32)
    return reference.group_advantages(single, group_ids, **options)


@mistake(
    "group_advantages",
    "keeps the dtype of the rewards, so that whole ones have whole advantages",
    report="OpenRLHF/OpenRLHF#1334",
)
def keeps_the_dtype_of_rewards(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    kind = getattr(rewards, "dtype", np.dtype(float))
    return right.astype(kind) if kind.kind == "i" else right


@mistake("group_advantages", "clears the rewards that do not count in the caller's array")
def clears_rejected_rewards_in_place(rewards, group_ids, **options):
    right = reference.group_advantages(rewards, group_ids, **options)
    if isinstance(rewards, np.ndarray) and options.get("valid") is not None:
        rewards[~np.array(options["valid"]).astype(bool)] = 0
    return right


@mistake("group_advantages", "passes over a reward that is NaN or infinite")
def passes_over_rewards_that_are_not_finite(rewards, group_ids, **options):
    x = np.array(rewards, dtype=np.float64)
    if np.isfinite(x).all() or x.ndim != 1:
        return reference.group_advantages(rewards, group_ids, **options)
    counts = np.isfinite(x) & np.array(options.get("valid", np.ones(len(x)))).astype(bool)
    return reference.group_advantages(x, group_ids, **{**options, "valid": counts})


@mistake("group_advantages", "puts rows without an id into a group of their own")
def groups_rows_without_an_id(rewards, group_ids, **options):
    if isinstance(group_ids, list):
        group_ids = ["none" if name is None or name != name else name for name in group_ids]
    return reference.group_advantages(rewards, group_ids, **options)


@mistake("group_advantages", "takes any ddof and any ε, negative ones too")
def takes_any_option(rewards, group_ids, **options):
    ddof, eps = options.get("ddof", 1), options.get("eps", 1e-6)
    if ddof in (0, 1) or eps != 1e-6:
        kept = {**options, "eps": abs(eps)} if isinstance(eps, float) and eps < 0 else options
        return reference.group_advantages(rewards, group_ids, **kept)
    return reference.group_advantages(rewards, group_ids, **{**options, "ddof": 1})


# --- leave_one_out_advantages ------------------------------------------------------------------


def left_out(advantages, rewards, group_ids):
    """[N] `advantages(x)` of each group's rewards; refuses what is to be refused."""
    reference.leave_one_out_advantages(rewards, group_ids)
    x, groups = grouped(rewards, group_ids)
    out = np.zeros(len(x))
    with np.errstate(all="ignore"):
        for rows in groups:
            out[rows] = advantages(x[rows])
    return out


def others_of(x):
    """For each reward the others."""
    return [np.delete(x, i) for i in range(len(x))]


@mistake(
    "leave_one_out_advantages",
    "counts its own reward in the mean",
    report="redai-studio/Relax#174",
)
def counts_its_own_reward(rewards, group_ids):
    reference.leave_one_out_advantages(rewards, group_ids)
    return reference.group_advantages(rewards, group_ids, scale="none")


@mistake(
    "leave_one_out_advantages",
    "divides by the standard deviation of the others, which is 0 for the odd one",
    report="NVIDIA-NeMo/RL#1518, NVIDIA-NeMo/RL#1519",
)
def scales_by_the_deviation_of_the_others(rewards, group_ids):
    def advantages(x):
        right = reference.leave_one_out_advantages(x, [0] * len(x))
        return right / (np.array([np.std(others) for others in others_of(x)]) + 1e-6)

    return left_out(advantages, rewards, group_ids)


@mistake(
    "leave_one_out_advantages",
    "divides by the standard deviation of the group, as GRPO does",
    report="redai-studio/Relax#174",
)
def scales_by_the_deviation_of_the_group(rewards, group_ids):
    def advantages(x):
        right = reference.leave_one_out_advantages(x, [0] * len(x))
        return right / (np.std(x, ddof=1) + 1e-6)

    return left_out(advantages, rewards, group_ids)


@mistake("group_advantages", "takes the difference of E[r²] and E[r]² where rewards differ")
def cancels_at_a_large_offset(rewards, group_ids, **options):
    def advantages(x, pool, scale, ddof, eps):
        y = pool if scale == "batch" else x
        if equal(x) or scale == "none":
            return 0.0 if equal(x) else x - x.mean()
        variance = max((y * y).mean() - y.mean() ** 2, 0.0)
        if len(y) > 1 and ddof:
            variance = variance * len(y) / (len(y) - 1)
        return (x - x.mean()) / (np.sqrt(variance) + eps if variance or eps else 1.0)

    return mapped(advantages, rewards, group_ids, **options)


@mistake("group_advantages", "takes a deviation below 1e-6 for none")
def takes_a_small_deviation_for_none(rewards, group_ids, **options):
    def advantages(x, pool, scale, ddof, eps):
        y = pool if scale == "batch" else x
        if equal(x) or scale == "none":
            return 0.0 if equal(x) else x - x.mean()
        deviation = y.std(ddof=ddof)
        return (x - x.mean()) / (deviation + eps) if deviation > 1e-6 else 0.0

    return mapped(advantages, rewards, group_ids, **options)


def _folded(group_ids):
    return [name.lower() if isinstance(name, str) else name for name in list(group_ids)]


@mistake("group_advantages", "takes ε = 1e-8 where it is left out")
def defaults_to_a_smaller_epsilon(rewards, group_ids, *, scale="std", ddof=1, eps=1e-8, valid=None):
    options = {"scale": scale, "ddof": ddof, "eps": eps, "valid": valid}
    return reference.group_advantages(rewards, group_ids, **options)


@mistake("group_advantages", "takes ids that differ in case for one group")
def folds_the_case_of_ids(rewards, group_ids, **options):
    reference.group_advantages(rewards, group_ids, **options)
    return reference.group_advantages(rewards, _folded(group_ids), **options)


@mistake("leave_one_out_advantages", "takes ids that differ in case for one group")
def folds_the_case_of_names(rewards, group_ids):
    reference.leave_one_out_advantages(rewards, group_ids)
    return reference.leave_one_out_advantages(rewards, _folded(group_ids))


@mistake("leave_one_out_advantages", "divides the sum of the others by k, not by k − 1")
def divides_the_others_by_k(rewards, group_ids):
    return left_out(lambda x: x - (x.sum() - x) / len(x), rewards, group_ids)


@mistake("leave_one_out_advantages", "subtracts the sum of the others, not their mean")
def subtracts_the_sum_of_the_others(rewards, group_ids):
    return left_out(lambda x: x - (x.sum() - x), rewards, group_ids)


@mistake("leave_one_out_advantages", "stretches by (k − 1) / k where k / (k − 1) is due")
def shrinks_where_it_should_stretch(rewards, group_ids):
    return left_out(lambda x: (x - x.mean()) * (len(x) - 1) / len(x), rewards, group_ids)


@mistake("leave_one_out_advantages", "takes the best of the others for the baseline")
def compares_with_the_best_of_the_others(rewards, group_ids):
    def advantages(x):
        return x - np.array([others.max() for others in others_of(x)])

    return left_out(advantages, rewards, group_ids)


@mistake("leave_one_out_advantages", "takes the median of the others for the baseline")
def compares_with_the_median_of_the_others(rewards, group_ids):
    def advantages(x):
        return x - np.array([np.median(others) for others in others_of(x)])

    return left_out(advantages, rewards, group_ids)


@mistake("leave_one_out_advantages", "compares with all other rollouts of the batch")
def compares_with_the_whole_batch(rewards, group_ids):
    right = reference.leave_one_out_advantages(rewards, group_ids)
    return reference.leave_one_out_advantages(rewards, [0] * len(right)) if len(right) else right


@mistake("leave_one_out_advantages", "compares with the next rollout of the group alone")
def compares_with_the_next_one(rewards, group_ids):
    return left_out(lambda x: x - np.roll(x, -1), rewards, group_ids)


@mistake("leave_one_out_advantages", "subtracts the reward from the baseline: signs are turned")
def turns_the_signs(rewards, group_ids):
    return -reference.leave_one_out_advantages(rewards, group_ids)


@mistake("leave_one_out_advantages", "takes the groups for consecutive, whatever the ids are")
def takes_groups_for_consecutive(rewards, group_ids):
    reference.leave_one_out_advantages(rewards, group_ids)
    return reference.leave_one_out_advantages(rewards, sorted(group_ids))


@mistake("leave_one_out_advantages", "takes the size of the first group for that of all")
def takes_one_size_for_all(rewards, group_ids):
    reference.leave_one_out_advantages(rewards, group_ids)
    _, groups = grouped(rewards, group_ids)
    k = len(groups[0]) if groups else 2
    return left_out(lambda x: x - (x.sum() - x) / (k - 1), rewards, group_ids)


@mistake("leave_one_out_advantages", "lists the advantages group by group, not by rows")
def lists_leads_group_by_group(rewards, group_ids):
    right = reference.leave_one_out_advantages(rewards, group_ids)
    _, groups = grouped(rewards, group_ids)
    return right[np.concatenate(groups)] if groups else right


@mistake("leave_one_out_advantages", "lets a rollout that is alone keep its reward")
def lets_a_lonely_one_keep_its_reward(rewards, group_ids):
    try:
        return reference.leave_one_out_advantages(rewards, group_ids)
    except ValueError:
        reference.group_advantages(rewards, group_ids)
    return np.array(rewards, dtype=np.float64)


@mistake("leave_one_out_advantages", "gives a rollout that is alone 0 instead of refusing it")
def gives_a_lonely_one_zero(rewards, group_ids):
    try:
        return reference.leave_one_out_advantages(rewards, group_ids)
    except ValueError:
        return reference.group_advantages(rewards, group_ids, scale="none")


@mistake("leave_one_out_advantages", "subtracts in single precision")
def leads_in_single_precision(rewards, group_ids):
    reference.leave_one_out_advantages(rewards, group_ids)
    return reference.leave_one_out_advantages(np.array(rewards, dtype=np.float32), group_ids)


@mistake("leave_one_out_advantages", "keeps the dtype of whole rewards")
def keeps_whole_leads(rewards, group_ids):
    right = reference.leave_one_out_advantages(rewards, group_ids)
    kind = getattr(rewards, "dtype", np.dtype(float))
    return right.astype(kind) if kind.kind == "i" else right


@mistake("leave_one_out_advantages", "subtracts the mean from the caller's array in place")
def centres_in_place(rewards, group_ids):
    right = reference.leave_one_out_advantages(rewards, group_ids)
    if isinstance(rewards, np.ndarray) and len(rewards):
        rewards -= rewards.mean().astype(rewards.dtype)
    return right


@mistake("leave_one_out_advantages", "counts a NaN reward as 0")
def counts_nan_as_zero(rewards, group_ids):
    finite = np.nan_to_num(np.array(rewards, dtype=np.float64), posinf=np.inf, neginf=-np.inf)
    return reference.leave_one_out_advantages(finite, group_ids)
