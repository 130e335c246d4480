"""What people get wrong in the Kullback-Leibler divergence and its estimators."""

import numpy as np

from rlcheck import kl as reference
from rlcheck.logprobs import stable_log_softmax
from rlcheck.mistakes.registry import mistake

# --- exact_kl_from_logits -------------------------------------------------------------------


def logs(q_logits, p_logits, axis):
    """log q and log p; refuses what is to be refused."""
    reference.exact_kl_from_logits(q_logits, p_logits, axis)
    return stable_log_softmax(q_logits, axis), stable_log_softmax(p_logits, axis)


def contributions(log_q, log_p):
    """q (log q − log p), 0 where q = 0."""
    possible = log_q > -np.inf
    with np.errstate(invalid="ignore"):
        return np.where(possible, np.exp(log_q) * (log_q - log_p), 0.0)


@mistake("exact_kl_from_logits", "takes the mean under p: KL(p‖q), the other direction")
def swaps_the_direction(q_logits, p_logits, axis=-1):
    reference.exact_kl_from_logits(q_logits, p_logits, axis)
    return reference.exact_kl_from_logits(p_logits, q_logits, axis)


@mistake("exact_kl_from_logits", "averages both directions")
def symmetrises(q_logits, p_logits, axis=-1):
    there = reference.exact_kl_from_logits(q_logits, p_logits, axis)
    return (there + reference.exact_kl_from_logits(p_logits, q_logits, axis)) / 2


@mistake("exact_kl_from_logits", "computes 0 · −∞ for a token that q excludes, which is NaN")
def multiplies_zero_by_infinity(q_logits, p_logits, axis=-1):
    log_q, log_p = logs(q_logits, p_logits, axis)
    with np.errstate(invalid="ignore"):
        return np.maximum((np.exp(log_q) * (log_q - log_p)).sum(axis=axis), 0.0)


@mistake("exact_kl_from_logits", "leaves out tokens that p excludes")
def leaves_out_what_p_excludes(q_logits, p_logits, axis=-1):
    log_q, log_p = logs(q_logits, p_logits, axis)
    terms = np.where(log_p > -np.inf, contributions(log_q, log_p), 0.0)
    return np.maximum(terms.sum(axis=axis), 0.0)


@mistake("exact_kl_from_logits", "takes p for 0 where its probability underflows")
def underflows(q_logits, p_logits, axis=-1):
    log_q, log_p = logs(q_logits, p_logits, axis)
    with np.errstate(divide="ignore"):
        rounded = np.log(np.exp(log_p))
    return np.maximum(contributions(log_q, rounded).sum(axis=axis), 0.0)


@mistake("exact_kl_from_logits", "adds 1e-8 to both probabilities inside the logarithm")
def smooths(q_logits, p_logits, axis=-1):
    log_q, log_p = logs(q_logits, p_logits, axis)
    q, p = np.exp(log_q), np.exp(log_p)
    return np.maximum((q * (np.log(q + 1e-8) - np.log(p + 1e-8))).sum(axis=axis), 0.0)


@mistake("exact_kl_from_logits", "lets rounding make the divergence of near equals negative")
def goes_below_zero(q_logits, p_logits, axis=-1):
    return contributions(*logs(q_logits, p_logits, axis)).sum(axis=axis)


@mistake("exact_kl_from_logits", "adds up the absolute values of the terms")
def adds_absolute_values(q_logits, p_logits, axis=-1):
    return np.abs(contributions(*logs(q_logits, p_logits, axis))).sum(axis=axis)


@mistake("exact_kl_from_logits", "measures in bits")
def measures_in_bits(q_logits, p_logits, axis=-1):
    return reference.exact_kl_from_logits(q_logits, p_logits, axis) / np.log(2)


@mistake("exact_kl_from_logits", "divides by the number of tokens")
def averages_over_the_vocabulary(q_logits, p_logits, axis=-1):
    return reference.exact_kl_from_logits(q_logits, p_logits, axis) / np.shape(q_logits)[axis]


@mistake("exact_kl_from_logits", "sums over the whole batch")
def sums_over_the_batch(q_logits, p_logits, axis=-1):
    return float(np.sum(reference.exact_kl_from_logits(q_logits, p_logits, axis)))


@mistake("exact_kl_from_logits", "always sums along the last axis")
def always_sums_the_last_axis(q_logits, p_logits, axis=-1):
    reference.exact_kl_from_logits(q_logits, p_logits, axis)
    return reference.exact_kl_from_logits(q_logits, p_logits)


@mistake(
    "exact_kl_from_logits",
    "works along the wrong axis when a batch has as many rows as tokens",
)
def turns_square_batches(q_logits, p_logits, axis=-1):
    right = reference.exact_kl_from_logits(q_logits, p_logits, axis)
    shape = np.shape(q_logits)
    if len(shape) != 2 or shape[0] != shape[1]:
        return right
    return reference.exact_kl_from_logits(np.transpose(q_logits), np.transpose(p_logits), axis)


@mistake("exact_kl_from_logits", "takes the mean difference of logits, without the normalisers")
def forgets_the_normalisers(q_logits, p_logits, axis=-1):
    q = np.exp(logs(q_logits, p_logits, axis)[0])
    with np.errstate(invalid="ignore"):
        gaps = np.asarray(q_logits, dtype=np.float64) - np.asarray(p_logits, dtype=np.float64)
    return np.maximum(np.where(q > 0, q * gaps, 0.0).sum(axis=axis), 0.0)


@mistake("exact_kl_from_logits", "exponentiates logits without taking off their maximum")
def exponentiates_raw_logits(q_logits, p_logits, axis=-1):
    reference.exact_kl_from_logits(q_logits, p_logits, axis)
    with np.errstate(all="ignore"):
        weights = [np.exp(np.asarray(x, dtype=np.float64)) for x in (q_logits, p_logits)]
        q, p = (w / w.sum(axis=axis, keepdims=True) for w in weights)
        return np.maximum(np.where(q > 0, q * np.log(q / p), 0.0).sum(axis=axis), 0.0)


@mistake(
    "exact_kl_from_logits",
    "rounds log-probabilities to float32",
    report="huggingface/trl#7084",
)
def rounds_to_single_precision(q_logits, p_logits, axis=-1):
    rounded = (x.astype(np.float32).astype(np.float64) for x in logs(q_logits, p_logits, axis))
    return np.maximum(contributions(*rounded).sum(axis=axis), 0.0)


@mistake("exact_kl_from_logits", "takes the maximum off the caller's logits")
def changes_the_logits(q_logits, p_logits, axis=-1):
    answer = reference.exact_kl_from_logits(q_logits, p_logits, axis)
    if isinstance(p_logits, np.ndarray) and p_logits.size:
        p_logits -= p_logits.max(axis=axis, keepdims=True)
    return answer


@mistake("exact_kl_from_logits", "lets one row of p serve a whole batch, and NaN pass")
def broadcasts_p(q_logits, p_logits, axis=-1):
    q, p = (np.asarray(x, dtype=np.float64) for x in (q_logits, p_logits))
    with np.errstate(all="ignore"):
        log_q, log_p = (
            x
            - x.max(axis=axis, keepdims=True)
            - np.log(np.exp(x - x.max(axis=axis, keepdims=True)).sum(axis=axis, keepdims=True))
            for x in (q, p)
        )
    return np.maximum(contributions(log_q, log_p).sum(axis=axis), 0.0)


# --- kl_estimator_moments -------------------------------------------------------------------


def weighted(p, q):
    """q and log r where q > 0, and the right answer; refuses what is to be refused."""
    right = reference.kl_estimator_moments(p, q)
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return q[q > 0], np.log(p[q > 0]) - np.log(q[q > 0]), right


def described(q, k1, k2, k3, right):
    """Means and standard deviations of three variables under q."""
    answer = dict(right)
    with np.errstate(all="ignore"):
        for name, k in (("k1", k1), ("k2", k2), ("k3", k3)):
            mean = (q * k).sum()
            answer[f"{name}_mean"] = mean
            answer[f"{name}_std"] = np.sqrt((q * (k - mean) ** 2).sum())
    return answer if np.isfinite(right["exact_kl"]) else right


@mistake("kl_estimator_moments", "draws the samples from p", report="hpcaitech/ColossalAI#3696")
def samples_from_p(p, q):
    right = reference.kl_estimator_moments(p, q)
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    both = (p > 0) & (q > 0)
    p, log_r = p[both], np.log(p[both]) - np.log(q[both])
    with np.errstate(over="ignore"):
        return described(p, -log_r, log_r**2 / 2, np.expm1(log_r) - log_r, right)


@mistake(
    "kl_estimator_moments",
    "takes r for q/p in k3",
    report="hpcaitech/ColossalAI#3696",
)
def inverts_the_ratio_of_k3(p, q):
    q, log_r, right = weighted(p, q)
    with np.errstate(over="ignore", invalid="ignore"):
        return described(q, -log_r, log_r**2 / 2, np.expm1(-log_r) + log_r, right)


@mistake(
    "kl_estimator_moments", "takes p for the distribution that is sampled: its arguments swapped"
)
def swaps_the_arguments(p, q):
    reference.kl_estimator_moments(p, q)
    return reference.kl_estimator_moments(q, p)


@mistake("kl_estimator_moments", "leaves out the ½ of k2", report="one-covenant/grail#42")
def doubles_k2(p, q):
    right = reference.kl_estimator_moments(p, q)
    return {name: 2 * x if name.startswith("k2") else x for name, x in right.items()}


@mistake("kl_estimator_moments", "takes k1 for log r, with the wrong sign")
def negates_k1(p, q):
    right = reference.kl_estimator_moments(p, q)
    return {**right, "k1_mean": -right["k1_mean"]}


@mistake("kl_estimator_moments", "takes the absolute value of k1")
def takes_k1_absolutely(p, q):
    q, log_r, right = weighted(p, q)
    with np.errstate(over="ignore", invalid="ignore"):
        changed = described(q, np.abs(log_r), log_r**2 / 2, log_r, right)
    return {**right, "k1_mean": changed["k1_mean"], "k1_std": changed["k1_std"]}


@mistake("kl_estimator_moments", "leaves out the −1 of k3")
def forgets_the_minus_one(p, q):
    right = reference.kl_estimator_moments(p, q)
    return {**right, "k3_mean": right["k3_mean"] + 1.0}


@mistake("kl_estimator_moments", "takes k3 for unbiased whatever q fails to sample")
def takes_k3_for_unbiased(p, q):
    right = reference.kl_estimator_moments(p, q)
    return {**right, "k3_mean": right["exact_kl"]}


@mistake("kl_estimator_moments", "leaves out samples that p excludes")
def leaves_out_impossible_samples(p, q):
    right = reference.kl_estimator_moments(p, q)
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    shared = (p > 0) | (q == 0)
    if shared.all() or not q[shared].sum():
        return right
    return reference.kl_estimator_moments(p[shared] / p.sum(), q[shared] / q[shared].sum())


@mistake("kl_estimator_moments", "computes 0 · log 0 for a token that q never samples")
def computes_with_zero(p, q):
    right = reference.kl_estimator_moments(p, q)
    unseen = (np.asarray(q) == 0).any() and np.isfinite(right["exact_kl"])
    return dict.fromkeys(right, np.nan) if unseen else right


@mistake("kl_estimator_moments", "gives variances, not standard deviations")
def gives_variances(p, q):
    right = reference.kl_estimator_moments(p, q)
    return {name: x * x if name.endswith("std") else x for name, x in right.items()}


@mistake("kl_estimator_moments", "gives the root mean square, not centred at the mean")
def does_not_centre(p, q):
    right = reference.kl_estimator_moments(p, q)
    means = {name: right[name.replace("std", "mean")] for name in right}
    return {n: np.hypot(x, means[n]) if n.endswith("std") else x for n, x in right.items()}


@mistake("kl_estimator_moments", "weighs all tokens alike in the standard deviations")
def weighs_all_alike(p, q):
    q, log_r, right = weighted(p, q)
    if not np.isfinite(right["exact_kl"]):
        return right
    with np.errstate(over="ignore", invalid="ignore"):
        k3 = np.expm1(log_r) - log_r
        spreads = [np.std(k) for k in (log_r, log_r**2 / 2, k3)]
    return {**right, "k1_std": spreads[0], "k2_std": spreads[1], "k3_std": spreads[2]}


@mistake(
    "kl_estimator_moments",
    "takes the difference of E[k²] and E[k]², which cancels",
    report="NousResearch/atropos#481",
)
def cancels_in_the_variance(p, q):
    q, log_r, right = weighted(p, q)
    if not np.isfinite(right["exact_kl"]):
        return right
    answer = dict(right)
    with np.errstate(all="ignore"):
        for name, k in (("k1", -log_r), ("k2", log_r**2 / 2), ("k3", np.expm1(log_r) - log_r)):
            answer[f"{name}_std"] = np.sqrt(max((q * k * k).sum() - (q * k).sum() ** 2, 0.0))
    return answer


@mistake("kl_estimator_moments", "clamps the log-ratio to [−10, 10]", report="huggingface/trl#6637")
def clamps_the_log_ratio(p, q):
    q, log_r, right = weighted(p, q)
    log_r = np.clip(log_r, -10.0, 10.0)
    return described(q, -log_r, log_r**2 / 2, np.expm1(log_r) - log_r, right)


@mistake("kl_estimator_moments", "measures k1 in bits")
def measures_k1_in_bits(p, q):
    right = reference.kl_estimator_moments(p, q)
    return {n: x / np.log(2) if n.startswith("k1") else x for n, x in right.items()}


@mistake("kl_estimator_moments", "adds 1e-6 to every probability, so that nothing is impossible")
def smooths_the_probabilities(p, q):
    reference.kl_estimator_moments(p, q)
    p, q = (np.asarray(x, dtype=np.float64) + 1e-6 for x in (p, q))
    return reference.kl_estimator_moments(p / p.sum(), q / q.sum())


@mistake("kl_estimator_moments", "normalises the caller's vector in place")
def changes_the_probabilities(p, q):
    answer = reference.kl_estimator_moments(p, q)
    if isinstance(q, np.ndarray):
        q[q == 0] = 1
    return answer


@mistake("kl_estimator_moments", "normalises vectors that are no distributions")
def normalises_anything(p, q):
    p, q = (np.nan_to_num(np.abs(np.asarray(x, dtype=np.float64)), posinf=1.0) for x in (p, q))
    return reference.kl_estimator_moments(p / p.sum(), q / q.sum())
