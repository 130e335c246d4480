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


@mistake("kl_estimator_moments", "clamps the log-ratio to [−10, 10]")
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


# --- kl_penalty_terms -----------------------------------------------------------------------


def log_ratio(logprobs, ref_logprobs, estimator):
    """log r = log ref − log policy; refuses what is to be refused."""
    reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return np.asarray(ref_logprobs, np.float64) - np.asarray(logprobs, np.float64)


def estimates(x, estimator):
    """The estimates of given log-ratios."""
    return reference.kl_penalty_terms(np.zeros(np.shape(x)), x, estimator)


@mistake(
    "kl_penalty_terms", "takes r for policy / ref in all three", report="hpcaitech/ColossalAI#3696"
)
def turns_the_ratio_round(logprobs, ref_logprobs, estimator):
    reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return reference.kl_penalty_terms(ref_logprobs, logprobs, estimator)


@mistake(
    "kl_penalty_terms", "takes r for policy / ref in k3 alone", report="hpcaitech/ColossalAI#3696"
)
def turns_the_ratio_of_k3_round(logprobs, ref_logprobs, estimator):
    x = log_ratio(logprobs, ref_logprobs, estimator)
    return estimates(-x if estimator == "k3" else x, estimator)


@mistake("kl_penalty_terms", "gives log r for k1: its sign is turned")
def turns_the_sign_of_k1(logprobs, ref_logprobs, estimator):
    x = log_ratio(logprobs, ref_logprobs, estimator)
    return x if estimator == "k1" else estimates(x, estimator)


@mistake("kl_penalty_terms", "leaves the ½ of k2 out", report="one-covenant/grail#42")
def leaves_the_half_out(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return 2 * terms if estimator == "k2" else terms


@mistake(
    "kl_penalty_terms",
    "counts every term twice, as where the reward and the loss both hold it",
    report="NVIDIA-NeMo/RL#2530",
)
def counts_the_penalty_twice(logprobs, ref_logprobs, estimator):
    return 2 * reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)


@mistake("kl_penalty_terms", "clamps all three estimates to [−10, 10]")
def clamps_all_terms(logprobs, ref_logprobs, estimator):
    return np.clip(reference.kl_penalty_terms(logprobs, ref_logprobs, estimator), -10.0, 10.0)


@mistake("kl_penalty_terms", "clamps k3 to [−10, 10]")
def clamps_k3(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return np.clip(terms, -10.0, 10.0) if estimator == "k3" else terms


@mistake(
    "kl_penalty_terms",
    "clamps the log-ratio to [−20, 20] before k3",
)
def clamps_the_exponent_of_k3(logprobs, ref_logprobs, estimator):
    x = log_ratio(logprobs, ref_logprobs, estimator)
    return estimates(np.clip(x, -20.0, 20.0) if estimator == "k3" else x, estimator)


@mistake(
    "kl_penalty_terms",
    "works in single precision, where r overflows at a log-ratio of 89",
    report="huggingface/trl#6637, huggingface/trl#5984",
)
def overflows_in_single_precision(logprobs, ref_logprobs, estimator):
    x = log_ratio(logprobs, ref_logprobs, estimator)
    with np.errstate(over="ignore"):
        r = np.exp(np.asarray(x, np.float32)).astype(np.float64)
    return r - 1.0 - x if estimator == "k3" else estimates(x, estimator)


@mistake("kl_penalty_terms", "computes exp(x) − 1 − x as it stands, which cancels near 0")
def cancels_near_zero(logprobs, ref_logprobs, estimator):
    x = log_ratio(logprobs, ref_logprobs, estimator)
    with np.errstate(over="ignore"):
        return np.exp(x) - 1.0 - x if estimator == "k3" else estimates(x, estimator)


@mistake("kl_penalty_terms", "raises what rounding leaves of k3 near 0 to 1e-12")
def keeps_k3_above_a_floor(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return np.maximum(terms, 1e-12) if estimator == "k3" else terms


@mistake("kl_penalty_terms", "gives ½ log² r for k3, which it is only near 0")
def takes_k2_for_k3(logprobs, ref_logprobs, estimator):
    x = log_ratio(logprobs, ref_logprobs, estimator)
    return estimates(x, "k2" if estimator == "k3" else estimator)


@mistake("kl_penalty_terms", "gives k3 whichever estimator is asked for")
def always_gives_k3(logprobs, ref_logprobs, estimator):
    return estimates(log_ratio(logprobs, ref_logprobs, estimator), "k3")


@mistake("kl_penalty_terms", "takes the absolute value of k1")
def gives_the_size_of_k1(logprobs, ref_logprobs, estimator):
    return np.abs(reference.kl_penalty_terms(logprobs, ref_logprobs, estimator))


@mistake("kl_penalty_terms", "raises negative terms of k1 to 0")
def cuts_k1_at_zero(logprobs, ref_logprobs, estimator):
    return np.maximum(reference.kl_penalty_terms(logprobs, ref_logprobs, estimator), 0.0)


@mistake("kl_penalty_terms", "forgets the −1 of k3")
def forgets_to_take_one_off(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return terms + 1.0 if estimator == "k3" else terms


@mistake("kl_penalty_terms", "gives r − 1 for k3, without the logarithm")
def forgets_the_logarithm_of_k3(logprobs, ref_logprobs, estimator):
    x = log_ratio(logprobs, ref_logprobs, estimator)
    with np.errstate(over="ignore"):
        return np.expm1(x) if estimator == "k3" else estimates(x, estimator)


@mistake("kl_penalty_terms", "weighs each term by the policy's probability, as a full sum would")
def weighs_samples_again(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return np.exp(np.asarray(logprobs, np.float64)) * terms


@mistake("kl_penalty_terms", "averages the terms of all tokens")
def averages_over_the_tokens(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return np.full(np.shape(terms), np.mean(terms)) if np.size(terms) else terms


@mistake("kl_penalty_terms", "adds the terms along the last axis, as if a row were one action")
def adds_the_terms_of_a_row(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return np.sum(terms, axis=-1) if np.ndim(terms) > 1 else terms


@mistake("kl_penalty_terms", "reads a square table of the reference by columns")
def turns_a_square_reference(logprobs, ref_logprobs, estimator):
    reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    square = np.ndim(ref_logprobs) == 2 and len(set(np.shape(ref_logprobs))) == 1
    ref = np.transpose(ref_logprobs) if square else ref_logprobs
    return reference.kl_penalty_terms(logprobs, ref, estimator)


@mistake("kl_penalty_terms", "takes logarithms to base 2")
def takes_binary_logarithms(logprobs, ref_logprobs, estimator):
    x = log_ratio(logprobs, ref_logprobs, estimator)
    return estimates(x, estimator) if estimator == "k3" else estimates(x / np.log(2.0), estimator)


@mistake("kl_penalty_terms", "rounds the terms to the dtype of integer inputs")
def keeps_the_integers_of_logprobs(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    kind = getattr(logprobs, "dtype", np.dtype(float))
    return np.nan_to_num(terms, posinf=0.0).astype(kind) if kind.kind == "i" else terms


@mistake("kl_penalty_terms", "rounds the terms to single precision")
def rounds_terms_to_single_precision(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return np.asarray(terms, np.float32).astype(np.float64)


@mistake("kl_penalty_terms", "subtracts the policy from the caller's reference in place")
def subtracts_in_place(logprobs, ref_logprobs, estimator):
    terms = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    if isinstance(ref_logprobs, np.ndarray) and ref_logprobs.dtype.kind == "f":
        ref_logprobs -= np.asarray(logprobs, ref_logprobs.dtype)
    return terms


@mistake("kl_penalty_terms", "gives 0 where a log-probability is NaN or infinite")
def passes_over_what_is_not_finite(logprobs, ref_logprobs, estimator):
    pair = [np.asarray(x, np.float64) for x in (logprobs, ref_logprobs)]
    finite = np.isfinite(pair[0]) & np.isfinite(pair[1])
    return reference.kl_penalty_terms(*(np.where(finite, x, 0.0) for x in pair), estimator)


@mistake("kl_penalty_terms", "takes an unknown estimator for k1")
def falls_back_to_k1(logprobs, ref_logprobs, estimator):
    known = estimator if estimator in ("k2", "k3") else "k1"
    return reference.kl_penalty_terms(logprobs, ref_logprobs, known)


@mistake("kl_penalty_terms", "lets one row of the reference stand for all rows")
def repeats_the_reference(logprobs, ref_logprobs, estimator):
    same = np.ndim(ref_logprobs) < np.ndim(logprobs)
    ref = np.broadcast_to(ref_logprobs, np.shape(logprobs)) if same else ref_logprobs
    return reference.kl_penalty_terms(logprobs, ref, estimator)
