"""What people get wrong in the surrogate losses of PPO, GRPO and GSPO."""

import numpy as np

from rlcheck import policy_gradients as reference
from rlcheck.mistakes.registry import mistake

# --- importance ratios -------------------------------------------------------------------------


def _log_ratios(new_logprobs, old_logprobs, mask, level="token"):
    """[B, T] log-ratios, 0 where the mask is 0, and the mask as booleans."""
    reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    on = np.asarray(mask, bool)
    new, old = np.asarray(new_logprobs, float), np.asarray(old_logprobs, float)
    return np.where(on, new, 0.0) - np.where(on, old, 0.0), on


def _exp(log_ratios, on):
    """[B, T] ratios of log-ratios of the same shape, or one for each row."""
    with np.errstate(over="ignore"):
        return np.where(on, np.exp(log_ratios), 1.0)


def _row_means(log_ratios, on):
    """[B, 1] mean log-ratio of each row's active tokens."""
    return log_ratios.sum(axis=1, keepdims=True) / np.maximum(on.sum(axis=1, keepdims=True), 1)


@mistake("importance_ratios", "divides the old probability by the new one")
def turns_the_ratio_over(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    return _exp(-_row_means(log_ratios, on) if level == "sequence" else -log_ratios, on)


@mistake("importance_ratios", "returns log-ratios without the exponential")
def returns_log_ratios(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    return np.where(on, _row_means(log_ratios, on), 1.0) if level == "sequence" else log_ratios


@mistake("importance_ratios", "linearises the exponential: 1 + log-ratio")
def linearises(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    return np.where(on, 1 + (_row_means(log_ratios, on) if level == "sequence" else log_ratios), 1)


@mistake("importance_ratios", "takes powers of 2 where it should take those of e")
def takes_powers_of_two(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    return _exp(
        np.log(2.0) * (_row_means(log_ratios, on) if level == "sequence" else log_ratios), on
    )


@mistake("importance_ratios", "adds the log-ratios of a sequence up where it should average them")
def adds_up_the_sequence(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    return _exp(log_ratios.sum(axis=1, keepdims=True) if level == "sequence" else log_ratios, on)


@mistake("importance_ratios", "divides the log-ratio of a sequence by the padded width")
def averages_over_the_padded_width(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    width = max(log_ratios.shape[1], 1)
    whole = log_ratios.sum(axis=1, keepdims=True) / width
    return _exp(whole if level == "sequence" else log_ratios, on)


@mistake("importance_ratios", "divides by the position of the last active token, gaps included")
def averages_over_the_span(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    last = (np.arange(1, on.shape[1] + 1) * on).max(axis=1, keepdims=True, initial=1)
    whole = log_ratios.sum(axis=1, keepdims=True) / last
    return _exp(whole if level == "sequence" else log_ratios, on)


@mistake("importance_ratios", "averages the ratios of a sequence, not their logarithms")
def averages_the_ratios(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    ratios = np.where(on, _exp(log_ratios, on), 0.0)
    return (
        np.where(on, _row_means(ratios, on), 1.0) if level == "sequence" else _exp(log_ratios, on)
    )


@mistake("importance_ratios", "averages the log-ratios over all sequences of the batch")
def averages_over_the_whole_batch(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    whole = log_ratios.sum() / max(on.sum(), 1)
    return _exp(whole if level == "sequence" else log_ratios, on)


@mistake("importance_ratios", "averages over the tokens up to each one, not over all of the row")
def averages_over_the_prefix(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    so_far = np.cumsum(log_ratios, axis=1) / np.maximum(np.cumsum(on, axis=1), 1)
    return _exp(so_far if level == "sequence" else log_ratios, on)


@mistake(
    "importance_ratios",
    "spreads the ratios of sequences along the wrong axis where there are as many as tokens",
    report="hiyouga/EasyR1#596",
)
def spreads_along_the_wrong_axis(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    means = _row_means(log_ratios, on)
    means = means.T if on.shape[0] == on.shape[1] else means
    return _exp(means if level == "sequence" else log_ratios, on)


@mistake(
    "importance_ratios",
    "centres the log-ratios across the batch before it masks them",
    report="MakazhanAlpamys/Soup#723",
)
def centres_across_the_batch(new_logprobs, old_logprobs, mask, *, level="token"):
    _, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    log_ratios = np.asarray(new_logprobs, float) - np.asarray(old_logprobs, float)
    if level == "sequence" and log_ratios.size:
        log_ratios = log_ratios - log_ratios.mean(axis=0)
    log_ratios = np.where(on, log_ratios, 0.0)
    return _exp(_row_means(log_ratios, on) if level == "sequence" else log_ratios, on)


@mistake(
    "importance_ratios",
    "shifts the new log-probabilities by one token, but not the old ones",
    report="PrimeIntellect-ai/prime-rl#1525",
)
def shifts_the_new_policy(new_logprobs, old_logprobs, mask, *, level="token"):
    _log_ratios(new_logprobs, old_logprobs, mask, level)
    new = np.where(np.asarray(mask, bool), np.asarray(new_logprobs, float), 0.0)
    return reference.importance_ratios(np.roll(new, -1, axis=1), old_logprobs, mask, level=level)


@mistake(
    "importance_ratios",
    "decides token by token where a decision for the sequence is due",
)
def ignores_the_level(new_logprobs, old_logprobs, mask, *, level="token"):
    return _exp(*_log_ratios(new_logprobs, old_logprobs, mask, level))


@mistake("importance_ratios", "takes sequences for the level that was left out")
def defaults_to_sequences(new_logprobs, old_logprobs, mask, *, level="sequence"):
    return reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)


@mistake("importance_ratios", "keeps log-ratios of tokens within ±20")
def clamps_log_ratios_at_twenty(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    log_ratios = np.clip(log_ratios, -20.0, 20.0)
    return _exp(_row_means(log_ratios, on) if level == "sequence" else log_ratios, on)


@mistake("importance_ratios", "cuts the log-ratio of a sequence off at 10")
def cuts_sequences_off_at_ten(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    whole = np.minimum(_row_means(log_ratios, on), 10.0)
    return _exp(whole if level == "sequence" else log_ratios, on)


@mistake("importance_ratios", "lets no log-probability fall below -100")
def floors_the_logprobs(new_logprobs, old_logprobs, mask, *, level="token"):
    _log_ratios(new_logprobs, old_logprobs, mask, level)
    new, old = np.maximum(new_logprobs, -100.0), np.maximum(old_logprobs, -100.0)
    return reference.importance_ratios(new, old, mask, level=level)


@mistake("importance_ratios", "gives 0 where the mask is 0")
def zeroes_masked_ratios(new_logprobs, old_logprobs, mask, *, level="token"):
    ratios = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    return np.where(np.asarray(mask, bool), ratios, 0.0)


@mistake("importance_ratios", "spreads the ratio of a sequence over its masked tokens too")
def spreads_over_masked_tokens(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    whole = np.broadcast_to(_row_means(log_ratios, on), on.shape)
    return _exp(whole, True) if level == "sequence" else _exp(log_ratios, on)


@mistake("importance_ratios", "gives masked tokens their own ratio, not 1")
def leaves_masked_ratios(new_logprobs, old_logprobs, mask, *, level="token"):
    ratios = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    own = np.asarray(new_logprobs, float) - np.asarray(old_logprobs, float)
    return np.where(np.asarray(mask, bool), ratios, _exp(own, True))


@mistake("importance_ratios", "multiplies by the mask, so that a masked NaN or infinity leaks")
def multiplies_by_the_mask(new_logprobs, old_logprobs, mask, *, level="token"):
    _, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    log_ratios = (np.asarray(new_logprobs, float) - np.asarray(old_logprobs, float)) * on
    return np.exp(_row_means(log_ratios, on) * on if level == "sequence" else log_ratios)


@mistake("importance_ratios", "refuses NaN where the mask is 0")
def refuses_masked_nan(new_logprobs, old_logprobs, mask, *, level="token"):
    if np.isnan(np.asarray(new_logprobs, float)).any():
        raise ValueError("new_logprobs must hold no NaN")
    return reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)


@mistake("importance_ratios", "divides by 0 in a row without active tokens, which becomes NaN")
def divides_by_no_tokens(new_logprobs, old_logprobs, mask, *, level="token"):
    _, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    ratios = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    nothing = (level == "sequence") & ~on.any(axis=1, keepdims=True)
    return np.where(nothing, np.nan, ratios)


@mistake("importance_ratios", "adds 1e-8 to the number of tokens that it divides by")
def pads_the_number_of_tokens(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    whole = log_ratios.sum(axis=1, keepdims=True) / (on.sum(axis=1, keepdims=True) + 1e-8)
    return _exp(whole if level == "sequence" else log_ratios, on)


@mistake(
    "importance_ratios",
    "takes a ratio of 1 for the last sequence of a batch, as if it were fresh",
    report="huggingface/trl#3493",
)
def takes_the_last_sequence_for_fresh(new_logprobs, old_logprobs, mask, *, level="token"):
    ratios = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    leftover = np.arange(len(ratios)) == max(len(ratios) - 1, 1)
    return np.where(leftover[:, np.newaxis], 1.0, ratios)


@mistake(
    "importance_ratios",
    "scores a token that ends the sequence although the mask excludes it",
    report="NovaSky-AI/SkyRL#758",
)
def scores_the_last_token(new_logprobs, old_logprobs, mask, *, level="token"):
    _log_ratios(new_logprobs, old_logprobs, mask, level)
    on = np.array(mask, bool)
    on[:, -1:] |= True
    new, old = np.asarray(new_logprobs, float), np.asarray(old_logprobs, float)
    on &= np.isfinite(new) & np.isfinite(old) | np.asarray(mask, bool)
    return reference.importance_ratios(new, old, on, level=level)


@mistake(
    "importance_ratios",
    "scores with old log-probabilities of another forward pass, in half precision",
    report="CarperAI/trlx#107, huggingface/trl#454",
)
def rounds_the_old_policy(new_logprobs, old_logprobs, mask, *, level="token"):
    _log_ratios(new_logprobs, old_logprobs, mask, level)
    old = np.asarray(old_logprobs, float)
    coarse = np.where(np.abs(old) < 6e4, old, 0.0).astype(np.float16)
    rounded = np.where(np.abs(old) < 6e4, coarse, old)
    return reference.importance_ratios(new_logprobs, rounded, mask, level=level)


@mistake("importance_ratios", "squares the ratio: it weighs by it once more")
def squares_the_ratio(new_logprobs, old_logprobs, mask, *, level="token"):
    with np.errstate(over="ignore"):
        return reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level) ** 2


@mistake("importance_ratios", "divides probabilities, which are 0 far below 1")
def divides_probabilities(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    if level == "sequence":
        return _exp(_row_means(log_ratios, on), on)
    new, old = np.asarray(new_logprobs, float), np.asarray(old_logprobs, float)
    return np.where(on, np.exp(np.where(on, new, 0.0)) / np.exp(np.where(on, old, 0.0)), 1.0)


@mistake("importance_ratios", "multiplies the ratios of a sequence, which may leave float64")
def multiplies_the_ratios(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    count = np.maximum(on.sum(axis=1, keepdims=True), 1)
    ratios = _exp(log_ratios, on)
    if level == "token":
        return ratios
    with np.errstate(all="ignore"):
        return np.where(on, np.prod(ratios, axis=1, keepdims=True) ** (1 / count), 1.0)


@mistake("importance_ratios", "answers the largest float where the ratio is beyond float64")
def keeps_ratios_finite(new_logprobs, old_logprobs, mask, *, level="token"):
    ratios = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    return np.nan_to_num(ratios)


@mistake("importance_ratios", "warns of overflow")
def warns_of_overflowing_ratios(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    means = _row_means(log_ratios, on)
    return np.where(on, np.exp(means if level == "sequence" else log_ratios), 1.0)


@mistake("importance_ratios", "works in single precision")
def exponentiates_in_single_precision(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    log_ratios = _row_means(log_ratios, on) if level == "sequence" else log_ratios
    with np.errstate(over="ignore"):
        return _exp(np.asarray(log_ratios, np.float32), on).astype(np.float64)


@mistake("importance_ratios", "keeps the integer dtype of the log-probabilities")
def keeps_the_integers_of_logprobs(new_logprobs, old_logprobs, mask, *, level="token"):
    ratios = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    kind = getattr(new_logprobs, "dtype", np.dtype(float))
    return ratios.astype(kind) if kind.kind == "i" else ratios


@mistake("importance_ratios", "subtracts the old log-probabilities in place")
def subtracts_in_place(new_logprobs, old_logprobs, mask, *, level="token"):
    ratios = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    if isinstance(new_logprobs, np.ndarray):
        new_logprobs -= np.asarray(old_logprobs).astype(new_logprobs.dtype)
    return ratios


@mistake("importance_ratios", "accepts an old log-probability of -inf")
def accepts_an_impossible_sample(new_logprobs, old_logprobs, mask, *, level="token"):
    old = np.asarray(old_logprobs, float)
    old = np.where(old == -np.inf, -1e300, old)
    return reference.importance_ratios(new_logprobs, old, mask, level=level)


@mistake("importance_ratios", "refuses a token that the new policy never takes")
def refuses_what_became_impossible(new_logprobs, old_logprobs, mask, *, level="token"):
    ratios = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    if (np.asarray(mask, bool) & (np.asarray(new_logprobs, float) == -np.inf)).any():
        raise ValueError("new_logprobs must be finite")
    return ratios


@mistake("importance_ratios", "leaves tokens that became impossible out of the mean of a sequence")
def leaves_impossible_tokens_out(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratios, on = _log_ratios(new_logprobs, old_logprobs, mask, level)
    if level == "token":
        return _exp(log_ratios, on)
    kept = on & np.isfinite(log_ratios)
    return _exp(_row_means(np.where(kept, log_ratios, 0.0), kept), on)


@mistake("importance_ratios", "takes one mask [T] for all rows")
def takes_a_mask_for_all_rows(new_logprobs, old_logprobs, mask, *, level="token"):
    if np.ndim(mask) == 1 and np.ndim(new_logprobs) == 2:
        mask = np.tile(np.asarray(mask), (len(new_logprobs), 1))
    return reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)


@mistake("importance_ratios", "is NaN where a log-probability is NaN, under the mask too")
def lets_nan_through(new_logprobs, old_logprobs, mask, *, level="token"):
    with np.errstate(all="ignore"):
        new = np.asarray(new_logprobs, float)
        clean = np.where(np.isnan(new), -1.0, new)
    ratios = reference.importance_ratios(clean, old_logprobs, mask, level=level)
    return np.where(np.isnan(new) & np.asarray(mask, bool), np.nan, ratios)


# --- clipped terms -----------------------------------------------------------------------------


def _read(ratios, advantages, **options):
    reference.clipped_policy_terms(ratios, advantages, **options)
    return np.asarray(ratios, float), np.asarray(advantages, float)


def _dual(terms, advantages, dual_clip):
    """Terms, bounded by −cA where A < 0."""
    if dual_clip is None:
        return terms
    return np.where(advantages < 0, np.minimum(terms, -dual_clip * advantages), terms)


def _times(ratios, advantages):
    with np.errstate(all="ignore"):
        return np.where(advantages == 0, 0.0, ratios * advantages)


def _surrogate(ratios, advantages, low, high, dual_clip=None):
    """The terms, with no check of the options."""
    clipped = np.minimum(np.maximum(ratios, 1 - low), 1 + high)
    terms = 0.0 - np.minimum(_times(ratios, advantages), clipped * advantages)
    return _dual(terms, advantages, dual_clip)


@mistake("clipped_policy_terms", "returns the objective to be maximised, not the loss")
def returns_the_objective(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    return -reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )


@mistake("clipped_policy_terms", "takes the larger of the two objectives: it is optimistic")
def takes_the_larger(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    clipped = np.clip(r, 1 - clip_low, 1 + clip_high) * a
    return _dual(0.0 - np.maximum(_times(r, a), clipped), a, dual_clip)


@mistake("clipped_policy_terms", "never clips")
def never_clips(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _dual(0.0 - _times(r, a), a, dual_clip)


@mistake("clipped_policy_terms", "always clips, also where the policy became worse")
def always_clips(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _dual(0.0 - np.clip(r, 1 - clip_low, 1 + clip_high) * a, a, dual_clip)


@mistake("clipped_policy_terms", "bounds large ratios by 1 + high for negative advantages too")
def bounds_costs_by_the_window(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(np.minimum(r, 1 + clip_high), a, clip_low, clip_high, dual_clip)


@mistake(
    "clipped_policy_terms", "lets no ratio fall below 1 - low, for positive advantages neither"
)
def lifts_small_ratios(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(np.maximum(r, 1 - clip_low), a, clip_low, clip_high, dual_clip)


@mistake("clipped_policy_terms", "clips on the other side: the sign of the advantage is turned")
def clips_on_the_other_side(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    bound = np.where(a > 0, 1 - clip_low, 1 + clip_high) * a
    return _dual(0.0 - np.minimum(_times(r, a), bound), a, dual_clip)


@mistake("clipped_policy_terms", "clips gains alone, and no ratio below 1 - low")
def clips_gains_alone(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    terms = 0.0 - _times(np.where(a > 0, np.minimum(r, 1 + clip_high), r), a)
    return _dual(terms, a, dual_clip)


@mistake("clipped_policy_terms", "takes the lower clip for both sides")
def takes_the_lower_clip_twice(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, a, clip_low, clip_low, dual_clip)


@mistake("clipped_policy_terms", "takes the upper clip for both sides")
def takes_the_upper_clip_twice(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, a, clip_high, clip_high, dual_clip)


@mistake("clipped_policy_terms", "exchanges the lower clip and the upper one")
def exchanges_the_clips(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, a, clip_high, clip_low, dual_clip)


@mistake("clipped_policy_terms", "bounds the log-ratio: its window is exp(-low) to exp(high)")
def clips_in_log_space(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    with np.errstate(over="ignore"):
        return _surrogate(r, a, 1 - np.exp(-clip_low), np.expm1(min(clip_high, 700)), dual_clip)


@mistake("clipped_policy_terms", "takes the reciprocal of 1 + high for the lower bound")
def mirrors_the_upper_bound(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, a, 1 - 1 / (1 + clip_high), clip_high, dual_clip)


@mistake("clipped_policy_terms", "takes 0.28 for the upper clip that was left out")
def defaults_to_a_higher_clip(ratios, advantages, *, clip_low=0.2, clip_high=0.28, dual_clip=None):
    return reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )


@mistake("clipped_policy_terms", "drops tokens whose ratio has left the window")
def drops_clipped_tokens(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    outside = np.where(a > 0, r > 1 + clip_high, r < 1 - clip_low)
    return np.where(outside, 0.0, _surrogate(r, a, clip_low, clip_high, dual_clip))


@mistake(
    "clipped_policy_terms",
    "applies the dual clip to positive advantages too",
    report="thu-ml/tianshou#433",
)
def bounds_gains_by_the_dual_clip(
    ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None
):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    terms = _surrogate(r, a, clip_low, clip_high)
    return terms if dual_clip is None else np.minimum(terms, -dual_clip * a)


@mistake(
    "clipped_policy_terms",
    "never reads the dual clip",
    report="THUDM/slime#2247, RLinf/RLinf#316",
)
def ignores_the_dual_clip(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, a, clip_low, clip_high)


@mistake("clipped_policy_terms", "takes 3 for the dual clip that was left out")
def defaults_to_a_dual_clip(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=3.0):
    return reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )


@mistake("clipped_policy_terms", "raises losses to -cA with a dual clip: the bound is turned over")
def turns_the_dual_clip_over(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    terms = _surrogate(r, a, clip_low, clip_high)
    return terms if dual_clip is None else np.where(a < 0, np.maximum(terms, -dual_clip * a), terms)


@mistake("clipped_policy_terms", "bounds the loss by the dual clip itself, without the advantage")
def forgets_the_advantage_in_the_dual_clip(
    ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None
):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    terms = _surrogate(r, a, clip_low, clip_high)
    return terms if dual_clip is None else np.where(a < 0, np.minimum(terms, dual_clip), terms)


@mistake("clipped_policy_terms", "bounds the ratio by 1 + c with a dual clip c")
def adds_one_to_the_dual_clip(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, a, clip_low, clip_high, None if dual_clip is None else 1 + dual_clip)


@mistake(
    "clipped_policy_terms",
    "multiplies the ratio into the advantage before it multiplies both again",
    report="PufferAI/PufferLib#306",
)
def multiplies_the_ratio_twice(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, _times(r, a), clip_low, clip_high, dual_clip)


@mistake(
    "clipped_policy_terms",
    "accepts a negative clip, which turns the window over",
    report="anthonytorlucci/rlevo#469",
)
def accepts_a_negative_clip(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    if all(isinstance(c, float) and c < 0 for c in (clip_low, clip_high)):
        r, a = _read(ratios, advantages, dual_clip=dual_clip)
        return _surrogate(r, a, clip_low, clip_high, dual_clip)
    return reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )


@mistake("clipped_policy_terms", "accepts a lower clip of 1 and more, below which nothing is cut")
def accepts_a_wide_lower_clip(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    if isinstance(clip_low, float) and clip_low >= 1:
        clip_low = 1 - 1e-16
    return reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )


@mistake("clipped_policy_terms", "accepts a dual clip of 1 and less")
def accepts_a_small_dual_clip(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high)
    return _surrogate(r, a, clip_low, clip_high, dual_clip)


@mistake("clipped_policy_terms", "accepts a negative ratio")
def accepts_a_negative_ratio(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    try:
        r = np.maximum(np.asarray(ratios, float), 0.0)
    except (TypeError, ValueError):
        r = ratios
    return reference.clipped_policy_terms(
        r, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )


@mistake("clipped_policy_terms", "spreads advantages of another shape over the ratios")
def spreads_the_advantages(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    if np.ndim(advantages) < np.ndim(ratios) and advantages is not None:
        advantages = np.broadcast_to(np.asarray(advantages, float), np.shape(ratios))
    return reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )


@mistake("clipped_policy_terms", "makes NaN of an infinite ratio and an advantage of 0")
def multiplies_zero_by_infinity(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    terms = reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
    r, a = np.asarray(ratios, float), np.asarray(advantages, float)
    return np.where((r == np.inf) & (a == 0), np.nan, terms)


@mistake("clipped_policy_terms", "cuts ratios off at exp(20)")
def cuts_ratios_off(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(np.minimum(r, np.exp(20.0)), a, clip_low, clip_high, dual_clip)


@mistake("clipped_policy_terms", "refuses an infinite ratio")
def refuses_an_infinite_ratio(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    if np.isinf(r).any():
        raise ValueError("ratios must be finite")
    return _surrogate(r, a, clip_low, clip_high, dual_clip)


@mistake("clipped_policy_terms", "subtracts the mean from the advantages")
def centres_the_advantages(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    centred = a - a.mean() if a.size > 1 else a
    return _surrogate(r, centred, clip_low, clip_high, dual_clip)


@mistake("clipped_policy_terms", "keeps advantages within ±5")
def bounds_the_advantages(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, np.clip(a, -5.0, 5.0), clip_low, clip_high, dual_clip)


@mistake("clipped_policy_terms", "reads the signs of the advantages alone")
def reads_signs_alone(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    return _surrogate(r, np.sign(a), clip_low, clip_high, dual_clip)


@mistake("clipped_policy_terms", "pairs ratios with transposed advantages where a table is square")
def transposes_square_tables(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    square = a.ndim == 2 and a.shape[0] == a.shape[1]
    return _surrogate(r, a.T if square else a, clip_low, clip_high, dual_clip)


@mistake("clipped_policy_terms", "decides by the mean advantage of the row which side it clips")
def decides_by_the_row(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    r, a = _read(ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip)
    row = a.mean(axis=-1, keepdims=True) if a.size else a
    kept = np.where(row > 0, np.minimum(r, 1 + clip_high), np.maximum(r, 1 - clip_low))
    return _dual(0.0 - _times(kept, a), a, dual_clip)


@mistake("clipped_policy_terms", "returns the mean of the terms")
def returns_the_mean(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    terms = reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
    return float(terms.mean()) if terms.size else terms


@mistake("clipped_policy_terms", "works in single precision")
def clips_in_single_precision(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    terms = reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
    with np.errstate(over="ignore"):
        return terms.astype(np.float32).astype(np.float64)


@mistake("clipped_policy_terms", "answers the largest float where a term is beyond float64")
def keeps_terms_finite(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    return np.nan_to_num(
        reference.clipped_policy_terms(
            ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
        )
    )


@mistake("clipped_policy_terms", "keeps the integer dtype of the advantages")
def keeps_the_integers_of_advantages(
    ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None
):
    terms = reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
    kind = getattr(advantages, "dtype", np.dtype(float))
    return terms.astype(kind) if kind.kind == "i" else terms


@mistake("clipped_policy_terms", "clips the caller's ratios in place")
def clips_in_place(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    terms = reference.clipped_policy_terms(
        ratios, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
    if isinstance(ratios, np.ndarray):
        ratios[:] = np.clip(ratios, 1 - clip_low, 1 + clip_high)
    return terms


# --- aggregation -------------------------------------------------------------------------------

MEAN, ROWS, SUM, NORM = reference.MODES


def _active(losses, mask, mode, max_length):
    """[B, T] losses, 0 where the mask is 0, and the mask as booleans."""
    reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    on = np.asarray(mask, bool)
    return np.where(on, np.asarray(losses, float), 0.0), on


def _row_sums(kept, on):
    """[B] the sums and the counts of the rows."""
    return kept.sum(axis=1), on.sum(axis=1)


@mistake(
    "aggregate_token_losses",
    "averages the means of two micro-batches, whatever the number of their tokens",
    report="verl-project/verl#7321, verl-project/verl#2776, allenai/open-instruct#1161, "
    "allenai/open-instruct#1137, huggingface/trl#3231",
)
def averages_the_means_of_micro_batches(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    half = (len(on) + 1) // 2
    if mode != MEAN or len(on) < 2:
        return reference.aggregate_token_losses(kept, on, mode, max_length=max_length)
    parts = ((kept[:half], on[:half]), (kept[half:], on[half:]))
    return float(np.mean([reference.aggregate_token_losses(*part, mode) for part in parts]))


@mistake("aggregate_token_losses", "averages rows first under token-mean")
def averages_rows_first(losses, mask, mode, *, max_length=None):
    mode_of = ROWS if mode == MEAN else mode
    return reference.aggregate_token_losses(losses, mask, mode_of, max_length=max_length)


@mistake("aggregate_token_losses", "weighs rows by their lengths under seq-mean-token-mean")
def weighs_rows_by_length(losses, mask, mode, *, max_length=None):
    mode_of = MEAN if mode == ROWS else mode
    return reference.aggregate_token_losses(losses, mask, mode_of, max_length=max_length)


@mistake(
    "aggregate_token_losses",
    "divides by the tokens of a generation batch, twice those of the optimiser's window",
    report="huggingface/trl#6024",
)
def divides_by_the_generation_batch(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return loss / 2 if mode == MEAN else loss


@mistake(
    "aggregate_token_losses",
    "divides the mean over tokens by the number of rows again",
    report="modelscope/ms-swift#10117, huggingface/trl#5619",
)
def divides_by_the_rows_again(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return loss / max(len(mask), 1) if mode == MEAN else loss


@mistake(
    "aggregate_token_losses",
    "divides the sum over all rows by max_length alone, so that it grows with the batch",
    report="verl-project/verl#3741, verl-project/verl#4510, verl-project/verl#5366, "
    "huggingface/trl#3138, huggingface/trl#3256",
)
def forgets_the_batch_in_the_norm(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return loss * max(len(mask), 1) if mode == NORM else loss


@mistake("aggregate_token_losses", "adds the rows up under seq-mean-token-sum")
def adds_the_rows_up(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return loss * max(len(mask), 1) if mode == SUM else loss


@mistake(
    "aggregate_token_losses",
    "adds masked losses up too, and divides by the active tokens",
    report="alibaba/ROLL#444",
)
def adds_masked_losses_up(losses, mask, mode, *, max_length=None):
    _, on = _active(losses, mask, mode, max_length)
    if mode == MEAN and on.any():
        return float(np.asarray(losses, float).sum() / on.sum())
    return reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)


@mistake(
    "aggregate_token_losses",
    "divides by 0 where no token is active",
    report="huggingface/trl#3248, verl-project/verl#782, NousResearch/atropos#236, "
    "unslothai/unsloth-zoo#1262, huggingface/trl#5826",
)
def divides_by_no_token(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    loss = reference.aggregate_token_losses(kept, on, mode, max_length=max_length)
    return loss if on.any() or mode not in (MEAN, ROWS) else float("nan")


@mistake("aggregate_token_losses", "divides by 0 in each row without tokens under the row means")
def divides_by_an_empty_row(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    loss = reference.aggregate_token_losses(kept, on, mode, max_length=max_length)
    return float("nan") if mode == ROWS and on.any() and not on.any(axis=1).all() else loss


@mistake("aggregate_token_losses", "is NaN where there is no row at all")
def divides_by_no_row(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return loss if len(mask) or mode not in (SUM, NORM) else float("nan")


@mistake(
    "aggregate_token_losses",
    "multiplies by the mask, so that a masked NaN or infinity leaks",
    report="verl-project/verl#2377, OpenRLHF/OpenRLHF#1240",
)
def multiplies_losses_by_the_mask(losses, mask, mode, *, max_length=None):
    _, on = _active(losses, mask, mode, max_length)
    product = np.asarray(losses, float) * on
    if np.isnan(product).any():
        return float("nan")
    return reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)


@mistake("aggregate_token_losses", "refuses NaN and infinities where the mask is 0")
def refuses_masked_losses(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    if not np.isfinite(np.asarray(losses, float)).all():
        raise ValueError("losses must be finite")
    return loss


@mistake(
    "aggregate_token_losses",
    "averages a row over its padded width, masked losses included",
    report="areal-project/AReaL#1346",
)
def averages_the_padding_in(losses, mask, mode, *, max_length=None):
    _, on = _active(losses, mask, mode, max_length)
    rows = on.any(axis=1)
    if mode == ROWS and rows.any():
        return float(np.asarray(losses, float)[rows].mean())
    return reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)


@mistake(
    "aggregate_token_losses",
    "divides by all tokens, masked ones too",
    report="ServiceNow/Fast-LLM#426",
)
def divides_by_all_tokens(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    if mode == MEAN:
        return float(kept.sum() / max(on.size, 1))
    return reference.aggregate_token_losses(kept, on, mode, max_length=max_length)


@mistake("aggregate_token_losses", "divides each row by the padded width under the row means")
def divides_rows_by_the_padded_width(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    if mode == ROWS:
        return float(kept.sum() / max(on.any(axis=1).sum(), 1) / max(on.shape[1], 1))
    return reference.aggregate_token_losses(kept, on, mode, max_length=max_length)


@mistake("aggregate_token_losses", "counts fully masked rows in the mean over rows")
def counts_masked_rows(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    loss = reference.aggregate_token_losses(kept, on, mode, max_length=max_length)
    return loss * int(on.any(axis=1).sum()) / max(len(on), 1) if mode == ROWS else loss


@mistake("aggregate_token_losses", "leaves fully masked rows out of the mean of sums")
def leaves_masked_rows_out(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    loss = reference.aggregate_token_losses(kept, on, mode, max_length=max_length)
    return loss * len(on) / max(int(on.any(axis=1).sum()), 1) if mode == SUM else loss


@mistake("aggregate_token_losses", "leaves fully masked rows out of the norm")
def leaves_masked_rows_out_of_the_norm(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    loss = reference.aggregate_token_losses(kept, on, mode, max_length=max_length)
    return loss * len(on) / max(int(on.any(axis=1).sum()), 1) if mode == NORM else loss


@mistake("aggregate_token_losses", "divides by the padded width in place of max_length")
def takes_the_width_for_max_length(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    width = max(on.shape[1], 1) if mode == NORM else None
    return reference.aggregate_token_losses(kept, on, mode, max_length=width)


@mistake("aggregate_token_losses", "divides by the longest row's tokens in place of max_length")
def takes_the_longest_row_for_max_length(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    longest = int(on.sum(axis=1).max(initial=1)) if mode == NORM else None
    return reference.aggregate_token_losses(kept, on, mode, max_length=longest)


@mistake("aggregate_token_losses", "divides by max_length or the row's tokens, the larger of both")
def divides_by_the_larger_length(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    if mode != NORM:
        return reference.aggregate_token_losses(kept, on, mode)
    sums, counts = _row_sums(kept, on)
    return float((sums / np.maximum(counts, max_length)).sum() / max(len(on), 1))


@mistake("aggregate_token_losses", "never divides by max_length")
def never_divides_by_max_length(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    return reference.aggregate_token_losses(kept, on, SUM if mode == NORM else mode)


@mistake("aggregate_token_losses", "adds 1e-8 to the tokens that it divides by")
def pads_the_tokens(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    count = np.asarray(mask, bool).sum()
    return float(loss * count / (count + 1e-8)) if mode == MEAN else loss


@mistake("aggregate_token_losses", "adds 1e-8 to the tokens of each row")
def pads_the_tokens_of_rows(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    if mode != ROWS:
        return reference.aggregate_token_losses(kept, on, mode, max_length=max_length)
    sums, counts = _row_sums(kept, on)
    return float((sums / (counts + 1e-8)).sum() / max(int((counts > 0).sum()), 1))


@mistake("aggregate_token_losses", "aggregates over columns where it should over rows")
def aggregates_over_columns(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    return reference.aggregate_token_losses(kept.T, on.T, mode, max_length=max_length)


@mistake(
    "aggregate_token_losses",
    "divides by the tokens of a column where there are as many rows as columns",
)
def divides_along_the_wrong_axis(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    if mode != ROWS or on.shape[0] != on.shape[1] or not on.any():
        return reference.aggregate_token_losses(kept, on, mode, max_length=max_length)
    rows, count = int(on.any(axis=1).sum()), np.maximum(on.sum(axis=1), 1)
    return float((kept / count).sum() / rows)


@mistake("aggregate_token_losses", "takes losses of 0 for masked ones")
def skips_losses_of_zero(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    return reference.aggregate_token_losses(kept, on & (kept != 0), mode, max_length=max_length)


@mistake("aggregate_token_losses", "averages all losses where the mask excludes each of them")
def averages_what_is_masked(losses, mask, mode, *, max_length=None):
    _, on = _active(losses, mask, mode, max_length)
    values = np.asarray(losses, float)
    if on.any() or not on.size or not np.isfinite(values).all():
        return reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return reference.aggregate_token_losses(values, ~on, mode, max_length=max_length)


@mistake("aggregate_token_losses", "counts everything from a row's first active token to its last")
def fills_the_gaps_of_the_mask(losses, mask, mode, *, max_length=None):
    _, on = _active(losses, mask, mode, max_length)
    begun = np.maximum.accumulate(on, axis=1)
    span = begun & np.maximum.accumulate(on[:, ::-1], axis=1)[:, ::-1]
    kept = np.nan_to_num(np.asarray(losses, float), posinf=0.0, neginf=0.0)
    return reference.aggregate_token_losses(kept, span, mode, max_length=max_length)


@mistake("aggregate_token_losses", "drops the first active token of each row")
def drops_the_first_token(losses, mask, mode, *, max_length=None):
    kept, on = _active(losses, mask, mode, max_length)
    later = on & (np.cumsum(on, axis=1) > 1)
    return reference.aggregate_token_losses(kept, later, mode, max_length=max_length)


@mistake("aggregate_token_losses", "turns the sign")
def turns_the_sign_of_the_loss(losses, mask, mode, *, max_length=None):
    return -reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)


@mistake("aggregate_token_losses", "works in single precision")
def aggregates_in_single_precision(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(loss))


@mistake("aggregate_token_losses", "divides integers without a remainder")
def divides_integers(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    kind = getattr(losses, "dtype", np.dtype(float))
    return float(np.floor(loss)) if kind.kind == "i" else loss


@mistake("aggregate_token_losses", "sets masked losses to 0 in the caller's array")
def masks_in_place(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    if isinstance(losses, np.ndarray):
        losses[~np.asarray(mask, bool)] = 0
    return loss


@mistake("aggregate_token_losses", "answers the largest float where the loss is beyond float64")
def keeps_the_loss_finite(losses, mask, mode, *, max_length=None):
    loss = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return float(np.nan_to_num(loss))


@mistake("aggregate_token_losses", "ignores a max_length that its mode does not take")
def ignores_a_stray_max_length(losses, mask, mode, *, max_length=None):
    kept = max_length if mode == NORM else None
    return reference.aggregate_token_losses(losses, mask, mode, max_length=kept)


@mistake("aggregate_token_losses", "takes the padded width for a max_length that was left out")
def guesses_max_length(losses, mask, mode, *, max_length=None):
    if mode == NORM and max_length is None:
        max_length = max(np.shape(losses)[1], 1)
    return reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)


@mistake("aggregate_token_losses", "leaves NaN and infinities out, active ones too")
def leaves_nan_out(losses, mask, mode, *, max_length=None):
    try:
        finite = np.isfinite(np.asarray(losses, float)) & np.asarray(mask, bool)
    except (TypeError, ValueError):
        finite = mask
    return reference.aggregate_token_losses(losses, finite, mode, max_length=max_length)


@mistake("aggregate_token_losses", "takes an unknown mode for token-mean")
def falls_back_to_token_mean(losses, mask, mode, *, max_length=None):
    known = mode if mode in reference.MODES else MEAN
    return reference.aggregate_token_losses(losses, mask, known, max_length=max_length)
