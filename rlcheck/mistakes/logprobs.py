"""What people get wrong in log-probabilities of tokens and sequences."""

import numpy as np

from rlcheck import logprobs as reference
from rlcheck.mistakes.registry import mistake


def floats(values):
    return np.asarray(values, dtype=np.float64)


def masked(values, mask):
    """The values where the mask is 1, and 0 elsewhere."""
    return np.where(np.asarray(mask) == 1, floats(values), 0.0)


# --- stable_log_softmax ---------------------------------------------------------------------


@mistake("stable_log_softmax", "exponentiates the logits without taking off their maximum")
def overflows(logits, axis=-1):
    x = floats(logits)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


@mistake(
    "stable_log_softmax",
    "adds the maximum back to the normaliser before it subtracts, which large logits swallow",
    report="ml-explore/mlx#4169",
)
def subtracts_a_whole_logsumexp(logits, axis=-1):
    x = floats(logits)
    top = x.max(axis=axis, keepdims=True)
    with np.errstate(over="ignore"):
        return x - (top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True)))


@mistake(
    "stable_log_softmax",
    "takes the logarithm of a softmax whose small probabilities have become 0",
)
def takes_the_log_of_a_softmax(logits, axis=-1):
    with np.errstate(divide="ignore", over="ignore"):
        return np.log(np.exp(reference.stable_log_softmax(logits, axis)))


@mistake("stable_log_softmax", "adds 1e-12 to the probabilities inside the logarithm")
def adds_an_epsilon(logits, axis=-1):
    return np.log(np.exp(reference.stable_log_softmax(logits, axis)) + 1e-12)


@mistake(
    "stable_log_softmax",
    "computes in half precision",
    report="genlm/genlm-backend#66, meta-pytorch/torchforge#237, huggingface/trl#7084",
)
def computes_in_half_precision(logits, axis=-1):
    x = floats(logits).astype(np.float16).astype(np.float64)
    below = (x - x.max(axis=axis, keepdims=True)).astype(np.float16)
    normaliser = np.log(np.exp(below).sum(axis=axis, keepdims=True, dtype=np.float32))
    return (below - normaliser).astype(np.float16).astype(np.float64)


@mistake("stable_log_softmax", "rounds float64 logits to float32")
def computes_in_single_precision(logits, axis=-1):
    x = floats(logits).astype(np.float32).astype(np.float64)
    return reference.stable_log_softmax(
        np.clip(x, -1e38, 1e38) + np.where(x == -np.inf, x, 0), axis
    )


@mistake("stable_log_softmax", "takes every axis but the last for the first")
def knows_two_axes(logits, axis=-1):
    x = reference.logit_rows("logits", logits, axis)
    return reference.stable_log_softmax(x, -1 if axis in (-1, x.ndim - 1) else 0)


@mistake("stable_log_softmax", "always normalises along the last axis")
def ignores_the_axis(logits, axis=-1):
    return reference.stable_log_softmax(logits)


@mistake("stable_log_softmax", "normalises all rows together")
def normalises_the_whole_batch(logits, axis=-1):
    x = reference.logit_rows("logits", logits, axis)
    return reference.stable_log_softmax(x.ravel()).reshape(x.shape) if x.size else x


@mistake("stable_log_softmax", "takes off the maximum of the whole batch, not that of the row")
def takes_off_the_maximum_of_the_batch(logits, axis=-1):
    x = reference.logit_rows("logits", logits, axis)
    below = x - x.max(initial=-np.inf)
    return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


@mistake(
    "stable_log_softmax",
    "lets the normaliser of row i broadcast to column i when there are as many rows as columns",
)
def broadcasts_along_the_wrong_axis(logits, axis=-1):
    right = reference.stable_log_softmax(logits, axis)
    if right.ndim != 2 or right.shape[0] != right.shape[1]:
        return right
    below = floats(logits) - np.max(logits, axis=axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=axis))


@mistake("stable_log_softmax", "measures log-probabilities in bits")
def uses_base_two(logits, axis=-1):
    return reference.stable_log_softmax(logits, axis) / np.log(2)


@mistake("stable_log_softmax", "returns probabilities, not their logarithms")
def returns_probabilities(logits, axis=-1):
    return np.exp(reference.stable_log_softmax(logits, axis))


@mistake("stable_log_softmax", "gives impossible tokens the finite logit −1e9")
def makes_impossible_tokens_possible(logits, axis=-1):
    x = reference.logit_rows("logits", logits, axis)
    return reference.stable_log_softmax(np.where(x == -np.inf, -1e9, x), axis)


@mistake("stable_log_softmax", "takes off the mean of the logits, not their maximum")
def takes_off_the_mean(logits, axis=-1):
    x = reference.logit_rows("logits", logits, axis)
    below = x - x.mean(axis=axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


@mistake("stable_log_softmax", "answers integer logits with integers")
def keeps_the_integer_dtype(logits, axis=-1):
    right = reference.stable_log_softmax(logits, axis)
    dtype = np.asarray(logits).dtype
    return right.astype(dtype) if dtype.kind in "iu" else right


@mistake("stable_log_softmax", "takes the maximum off the caller's own array")
def changes_the_logits(logits, axis=-1):
    answer = reference.stable_log_softmax(logits, axis)
    if isinstance(logits, np.ndarray) and logits.size:
        logits -= logits.max(axis=axis, keepdims=True)
    return answer


@mistake("stable_log_softmax", "warns where a difference of logits is beyond float64")
def warns_of_an_overflow(logits, axis=-1):
    x = reference.logit_rows("logits", logits, axis)
    np.asarray(x * 2, dtype=np.float64)
    return reference.stable_log_softmax(x, axis)


@mistake("stable_log_softmax", "answers NaN where it should refuse")
def answers_nan(logits, axis=-1):
    x = floats(logits)
    with np.errstate(all="ignore"):
        below = x - x.max(axis=axis, keepdims=True)
        return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


# --- causal_response_logprobs ---------------------------------------------------------------


def scores(logits, ids, mask):
    """The answer where nothing is refused: [B, L] logits, ids and mask already aligned."""
    logits, ids = floats(logits), np.asarray(ids).astype(np.int64)
    blank = np.zeros((len(logits), 1, *logits.shape[2:]))
    first = np.zeros((len(ids), 1), dtype=np.int64)
    padded = np.concatenate((logits, blank), axis=1)
    answer = reference.causal_response_logprobs(
        padded, np.concatenate((first, ids), axis=1), np.zeros((len(ids), ids.shape[1] + 1))
    )
    return answer.selected, np.asarray(mask) == 1


@mistake(
    "causal_response_logprobs",
    "scores each token by the logits at its own position",
    report="wyf3/llm_related#33",
)
def scores_with_the_tokens_own_logits(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    own = scores(floats(logits)[:, 1:], np.asarray(input_ids)[:, 1:], right.shifted_mask)
    return own[0], right.shifted_mask


@mistake("causal_response_logprobs", "asks the logits at t for the token at t")
def scores_the_token_that_was_read(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    own = scores(floats(logits)[:, :-1], np.asarray(input_ids)[:, :-1], right.shifted_mask)
    return own[0], right.shifted_mask


@mistake(
    "causal_response_logprobs",
    "shifts the log-probabilities, but not the mask",
    report="verl-project/verl#3287",
)
def leaves_the_mask_where_it_is(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    return right.selected, np.asarray(response_mask)[:, :-1] == 1


@mistake("causal_response_logprobs", "returns the mask of all L tokens")
def returns_the_whole_mask(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    return right.selected, np.asarray(response_mask) == 1


@mistake(
    "causal_response_logprobs",
    "returns the logits of the tokens, not normalised",
    report="huggingface/transformers#21321, huggingface/transformers#24801",
)
def returns_raw_logits(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    x = floats(logits)[:, :-1]
    ids = np.clip(np.asarray(input_ids).astype(np.int64)[:, 1:], 0, x.shape[2] - 1)
    raw = np.take_along_axis(x, ids[..., np.newaxis], axis=2)[..., 0]
    return np.where(np.isnan(right.selected), np.nan, raw), right.shifted_mask


@mistake(
    "causal_response_logprobs",
    "subtracts a whole logsumexp, so that a common offset of the logits swallows it",
    report="ml-explore/mlx#4169",
)
def loses_the_normaliser(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    top = floats(logits)[:, :-1].max(axis=2)
    with np.errstate(invalid="ignore"):
        return (right.selected + top) - top, right.shifted_mask


@mistake(
    "causal_response_logprobs",
    "rounds the log-probabilities to half precision",
    report="genlm/genlm-backend#66",
)
def answers_in_half_precision(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    with np.errstate(over="ignore"):
        return right.selected.astype(np.float16).astype(np.float64), right.shifted_mask


@mistake("causal_response_logprobs", "scores the id −100 as the last token of the vocabulary")
def counts_ids_from_the_end(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    ids, width = np.asarray(input_ids).astype(np.int64), np.shape(logits)[2]
    wrapped = np.where(ids < 0, width - 1, ids)
    return reference.causal_response_logprobs(logits, wrapped, response_mask)[0], right.shifted_mask


@mistake("causal_response_logprobs", "moves ids beyond the vocabulary to its ends")
def clips_the_ids(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    ids = np.clip(np.asarray(input_ids).astype(np.int64), 0, np.shape(logits)[2] - 1)
    return reference.causal_response_logprobs(logits, ids, response_mask)[0], right.shifted_mask


@mistake("causal_response_logprobs", "scores unknown ids and broken rows with 0")
def scores_the_unknown_with_zero(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    return np.nan_to_num(right.selected, nan=0.0, neginf=-np.inf), right.shifted_mask


@mistake("causal_response_logprobs", "sets the log-probabilities outside the mask to 0")
def blanks_what_the_mask_excludes(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    return np.where(right.shifted_mask, right.selected, 0.0), right.shifted_mask


@mistake("causal_response_logprobs", "drops the axis of a batch of one")
def squeezes_the_batch(logits, input_ids, response_mask):
    return [
        np.squeeze(part)
        for part in reference.causal_response_logprobs(logits, input_ids, response_mask)
    ]


@mistake("causal_response_logprobs", "scores the first token too, by the last logits")
def wraps_around(logits, input_ids, response_mask):
    reference.causal_response_logprobs(logits, input_ids, response_mask)
    ids = np.roll(np.asarray(input_ids).astype(np.int64), -1, axis=1)
    return scores(logits, ids, np.roll(np.asarray(response_mask), -1, axis=1))


@mistake("causal_response_logprobs", "refuses an unknown id even outside the mask")
def refuses_labels(logits, input_ids, response_mask):
    ids = np.asarray(input_ids).astype(np.int64)
    if ids.size and (ids.min() < 0 or ids.max() >= np.shape(logits)[2]):
        raise ValueError("input_ids are out of range")
    return reference.causal_response_logprobs(logits, input_ids, response_mask)


@mistake("causal_response_logprobs", "normalises over the positions, not over the vocabulary")
def normalises_along_time(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    x = floats(logits)[:, :-1]
    if not x.size:
        return right
    ids = np.clip(np.asarray(input_ids).astype(np.int64)[:, 1:], 0, x.shape[2] - 1)
    with np.errstate(all="ignore"):
        below = x - x.max(axis=1, keepdims=True)
        logprobs = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
    picked = np.take_along_axis(logprobs, ids[..., np.newaxis], axis=2)[..., 0]
    return np.where(np.isnan(right.selected), np.nan, picked), right.shifted_mask


@mistake("causal_response_logprobs", "replaces −100 in the caller's ids by 0")
def changes_the_ids(logits, input_ids, response_mask):
    answer = reference.causal_response_logprobs(logits, input_ids, response_mask)
    if isinstance(input_ids, np.ndarray):
        input_ids[input_ids == -100] = 0
    return answer


@mistake("causal_response_logprobs", "scores whatever stands under the mask and refuses nothing")
def scores_anything(logits, input_ids, response_mask):
    blank = np.zeros(np.shape(response_mask))
    right = reference.causal_response_logprobs(logits, input_ids, blank)
    return right.selected, np.asarray(response_mask)[:, 1:] == 1


# --- masked_sequence_metrics ----------------------------------------------------------------


@mistake(
    "masked_sequence_metrics",
    "multiplies by the mask, so that NaN and infinities leak through it",
    report="verl-project/verl#2377, OpenRLHF/OpenRLHF#1240",
)
def multiplies_by_the_mask(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = (floats(selected) * floats(mask)).sum(axis=1)
        perplexity = np.exp(-sums / right.token_count)
    return right.token_count, sums, perplexity


@mistake(
    "masked_sequence_metrics",
    "sums over padding tokens too",
    report="0xallam/Direct-Preference-Optimization#4",
)
def sums_over_padding(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = floats(selected).sum(axis=1)
        return right.token_count, sums, np.exp(-sums / right.token_count)


@mistake(
    "masked_sequence_metrics",
    "divides by the padded length",
    report="areal-project/AReaL#1346, ServiceNow/Fast-LLM#426",
)
def divides_by_the_padded_length(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    perplexity = np.exp(-right.sum_logprob / max(np.shape(mask)[1], 1))
    return right._replace(perplexity=np.where(right.token_count > 0, perplexity, np.nan))


@mistake(
    "masked_sequence_metrics",
    "counts from the first active token to the last, gaps between them included",
    report="OpenRLHF/OpenRLHF#1252",
)
def counts_the_span(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    where = [np.flatnonzero(row) for row in np.asarray(mask)]
    spans = [int(i[-1] - i[0]) + 1 if len(i) else 0 for i in where]
    return right._replace(token_count=np.array(spans, dtype=np.int64))


@mistake("masked_sequence_metrics", "reports a sequence without tokens as perfectly predicted")
def calls_nothing_certain(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    return right._replace(perplexity=np.where(right.token_count > 0, right.perplexity, 1.0))


@mistake("masked_sequence_metrics", "counts at least one token in every sequence")
def counts_at_least_one(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    return right._replace(token_count=np.maximum(right.token_count, 1))


@mistake(
    "masked_sequence_metrics",
    "gives a sequence without tokens the sum NaN",
    report="huggingface/trl#3248, verl-project/verl#782, NousResearch/atropos#236",
)
def sums_nothing_to_nan(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    return right._replace(sum_logprob=np.where(right.token_count > 0, right.sum_logprob, np.nan))


@mistake("masked_sequence_metrics", "forgets the minus sign in the perplexity")
def inverts_the_perplexity(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    with np.errstate(divide="ignore"):
        return right._replace(perplexity=1.0 / right.perplexity)


@mistake("masked_sequence_metrics", "takes 2 to the power of the mean in nats")
def mixes_bits_with_nats(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    return right._replace(perplexity=right.perplexity ** np.log(2))


@mistake("masked_sequence_metrics", "averages the inverse probabilities of the tokens")
def averages_inverse_probabilities(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = np.where(np.asarray(mask) == 1, np.exp(-masked(selected, mask)), 0.0)
        return right._replace(perplexity=inverse.sum(axis=1) / right.token_count)


@mistake("masked_sequence_metrics", "gives the perplexity of the sum, not of the mean")
def forgets_the_mean(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    with np.errstate(over="ignore"):
        perplexity = np.exp(-right.sum_logprob)
    return right._replace(perplexity=np.where(right.token_count > 0, perplexity, np.nan))


@mistake("masked_sequence_metrics", "gives every sequence the perplexity of the whole batch")
def pools_the_batch(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    with np.errstate(all="ignore"):
        pooled = np.exp(-right.sum_logprob.sum() / max(right.token_count.sum(), 1))
    return right._replace(perplexity=np.where(right.token_count > 0, pooled, np.nan))


@mistake(
    "masked_sequence_metrics",
    "sums over the sequences, not over the tokens, when there are as many of both",
)
def sums_along_the_batch(selected, mask):
    rows, length = np.shape(mask)
    if rows != length:
        return reference.masked_sequence_metrics(selected, mask)
    return reference.masked_sequence_metrics(floats(selected).T, np.asarray(mask).T)


@mistake("masked_sequence_metrics", "does not count tokens that were certain")
def counts_nonzero_logprobs(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    return right._replace(token_count=(masked(selected, mask) != 0).sum(axis=1))


@mistake("masked_sequence_metrics", "skips the first active token")
def skips_the_first_token(selected, mask):
    flags = np.asarray(mask) == 1
    return reference.masked_sequence_metrics(selected, flags & (flags.cumsum(axis=1) > 1))


@mistake(
    "masked_sequence_metrics", "takes the mask for a padding mask: 1 where a token is left out"
)
def reads_the_mask_inverted(selected, mask):
    inverted = np.asarray(mask) == 0
    blank = np.nan_to_num(floats(selected), nan=0.0, posinf=0.0)
    return reference.masked_sequence_metrics(blank, inverted)


@mistake("masked_sequence_metrics", "writes zeros into the caller's masked positions")
def changes_the_logprobs(selected, mask):
    answer = reference.masked_sequence_metrics(selected, mask)
    if isinstance(selected, np.ndarray):
        selected[np.asarray(mask) == 0] = 0
    return answer


@mistake("masked_sequence_metrics", "skips NaN wherever it stands, under the mask too")
def skips_nan(selected, mask):
    x = floats(selected)
    flags = np.broadcast_to(np.asarray(mask) != 0, x.shape)
    return reference.masked_sequence_metrics(np.nan_to_num(x, nan=0.0), flags)


@mistake("masked_sequence_metrics", "answers the largest float where perplexity is beyond float64")
def keeps_the_perplexity_finite(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    return right._replace(perplexity=np.minimum(right.perplexity, np.finfo(np.float64).max))


# --- sequence_logprob_ratio -----------------------------------------------------------------


def log_ratios(new, old, mask):
    """Masked log-ratios [..., T], 0 where the mask is 0, and the mask."""
    flags = np.ones(np.shape(new), dtype=bool) if mask is None else np.asarray(mask) == 1
    reference.sequence_logprob_ratio(new, old, mask)  # refuses what is to be refused
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(flags, floats(new) - floats(old), 0.0), flags


def exponential(sums):
    with np.errstate(over="ignore"):
        return np.exp(sums)


@mistake(
    "sequence_logprob_ratio", "takes the geometric mean of the token ratios, not their product"
)
def averages_the_log_ratios(new_logprobs, old_logprobs, mask=None):
    terms, flags = log_ratios(new_logprobs, old_logprobs, mask)
    return exponential(terms.sum(axis=-1) / np.maximum(flags.sum(axis=-1), 1))


@mistake("sequence_logprob_ratio", "averages the token ratios, not multiplying them")
def averages_the_ratios(new_logprobs, old_logprobs, mask=None):
    terms, flags = log_ratios(new_logprobs, old_logprobs, mask)
    ratios = np.where(flags, exponential(terms), 0.0).sum(axis=-1)
    return np.where(flags.any(axis=-1), ratios / np.maximum(flags.sum(axis=-1), 1), 1.0)


@mistake("sequence_logprob_ratio", "clamps the summed log-ratio to [−20, 20]")
def clamps_the_log_ratio(new_logprobs, old_logprobs, mask=None):
    terms, _ = log_ratios(new_logprobs, old_logprobs, mask)
    return exponential(np.clip(terms.sum(axis=-1), -20.0, 20.0))


@mistake("sequence_logprob_ratio", "divides the old probability by the new one")
def inverts_the_ratio(new_logprobs, old_logprobs, mask=None):
    terms, _ = log_ratios(new_logprobs, old_logprobs, mask)
    return exponential(-terms.sum(axis=-1))


@mistake(
    "sequence_logprob_ratio",
    "multiplies by the mask, so that NaN and infinities leak through it",
    report="OpenRLHF/OpenRLHF#1240",
)
def multiplies_the_log_ratio_by_the_mask(new_logprobs, old_logprobs, mask=None):
    log_ratios(new_logprobs, old_logprobs, mask)
    flags = 1.0 if mask is None else floats(mask)
    with np.errstate(invalid="ignore", over="ignore"):
        return exponential(((floats(new_logprobs) - floats(old_logprobs)) * flags).sum(axis=-1))


@mistake(
    "sequence_logprob_ratio",
    "ignores the mask",
    report="0xallam/Direct-Preference-Optimization#4",
)
def ignores_the_mask(new_logprobs, old_logprobs, mask=None):
    log_ratios(new_logprobs, old_logprobs, mask)
    with np.errstate(invalid="ignore", over="ignore"):
        return exponential((floats(new_logprobs) - floats(old_logprobs)).sum(axis=-1))


@mistake(
    "sequence_logprob_ratio",
    "pairs each new log-probability with the old one of the next token",
    report="PrimeIntellect-ai/prime-rl#1525",
)
def shifts_the_new_logprobs(new_logprobs, old_logprobs, mask=None):
    _, flags = log_ratios(new_logprobs, old_logprobs, mask)
    rolled = np.roll(np.where(flags, floats(new_logprobs), 0.0), -1, axis=-1)
    return exponential(np.where(flags, rolled - floats(old_logprobs), 0.0).sum(axis=-1))


@mistake(
    "sequence_logprob_ratio",
    "centres the log-ratios across the batch",
    report="MakazhanAlpamys/Soup#723",
)
def centres_across_the_batch(new_logprobs, old_logprobs, mask=None):
    terms, flags = log_ratios(new_logprobs, old_logprobs, mask)
    if terms.ndim < 2 or not terms.size:
        return exponential(terms.sum(axis=-1))
    with np.errstate(invalid="ignore"):
        centred = terms - terms.mean(axis=tuple(range(terms.ndim - 1)), keepdims=True)
    return exponential(np.where(flags, centred, 0.0).sum(axis=-1))


@mistake(
    "sequence_logprob_ratio",
    "sums over the sequences, not over the tokens, when there are as many of both",
    report="hiyouga/EasyR1#596",
)
def runs_along_the_wrong_axis(new_logprobs, old_logprobs, mask=None):
    terms, _ = log_ratios(new_logprobs, old_logprobs, mask)
    square = terms.ndim > 1 and terms.shape[-1] == terms.shape[-2]
    return exponential(terms.sum(axis=-2 if square else -1))


@mistake("sequence_logprob_ratio", "multiplies the ratios of all sequences of the batch")
def sums_the_whole_batch(new_logprobs, old_logprobs, mask=None):
    terms, _ = log_ratios(new_logprobs, old_logprobs, mask)
    return float(exponential(terms.sum()))


@mistake("sequence_logprob_ratio", "returns the log-ratio")
def returns_the_log_ratio(new_logprobs, old_logprobs, mask=None):
    terms, _ = log_ratios(new_logprobs, old_logprobs, mask)
    return terms.sum(axis=-1)


@mistake("sequence_logprob_ratio", "answers the largest float where the ratio is beyond float64")
def keeps_the_ratio_finite(new_logprobs, old_logprobs, mask=None):
    return np.nan_to_num(reference.sequence_logprob_ratio(new_logprobs, old_logprobs, mask))


@mistake("sequence_logprob_ratio", "refuses a token that the new policy has made impossible")
def refuses_impossible_tokens(new_logprobs, old_logprobs, mask=None):
    terms, _ = log_ratios(new_logprobs, old_logprobs, mask)
    if not np.isfinite(terms).all():
        raise ValueError("new_logprobs must be finite")
    return reference.sequence_logprob_ratio(new_logprobs, old_logprobs, mask)


@mistake("sequence_logprob_ratio", "caps the ratio at the largest float")
def caps_the_ratio(new_logprobs, old_logprobs, mask=None):
    right = reference.sequence_logprob_ratio(new_logprobs, old_logprobs, mask)
    return np.minimum(right, np.finfo(np.float64).max)


@mistake("sequence_logprob_ratio", "gives a sequence without active tokens the ratio 0")
def calls_nothing_impossible(new_logprobs, old_logprobs, mask=None):
    terms, flags = log_ratios(new_logprobs, old_logprobs, mask)
    return np.where(flags.any(axis=-1), exponential(terms.sum(axis=-1)), 0.0)


@mistake("sequence_logprob_ratio", "computes in float32")
def computes_the_ratio_in_single_precision(new_logprobs, old_logprobs, mask=None):
    terms, _ = log_ratios(new_logprobs, old_logprobs, mask)
    with np.errstate(over="ignore"):
        return exponential(terms.astype(np.float32).sum(axis=-1).astype(np.float64))


@mistake("sequence_logprob_ratio", "subtracts the old log-probabilities in the caller's array")
def changes_the_new_logprobs(new_logprobs, old_logprobs, mask=None):
    answer = reference.sequence_logprob_ratio(new_logprobs, old_logprobs, mask)
    if isinstance(new_logprobs, np.ndarray):
        new_logprobs -= np.asarray(old_logprobs, dtype=new_logprobs.dtype)
    return answer


@mistake("sequence_logprob_ratio", "lets a mask or an old policy of another length broadcast")
def broadcasts(new_logprobs, old_logprobs, mask=None):
    new, old = np.broadcast_arrays(floats(new_logprobs), floats(old_logprobs))
    flags = None if mask is None else np.broadcast_to(np.asarray(mask), new.shape)
    return reference.sequence_logprob_ratio(new, old, flags)


@mistake("sequence_logprob_ratio", "takes an old log-probability of −inf for 0")
def hides_impossible_samples(new_logprobs, old_logprobs, mask=None):
    old = np.nan_to_num(floats(old_logprobs), nan=0.0, neginf=0.0, posinf=0.0)
    return reference.sequence_logprob_ratio(new_logprobs, old, mask)
