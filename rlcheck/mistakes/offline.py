"""What people get wrong in the losses, weights and masks of offline Q-learning."""

import numpy as np

from rlcheck import offline as reference
from rlcheck.mistakes.registry import mistake


def _rows(q_values, action):
    """[N, A] values, [N] actions, and what gives the answer its shape back."""
    reference.cql_discrete_penalty(q_values, action)
    table, chosen = np.atleast_2d(np.asarray(q_values, float)), np.atleast_1d(action).astype(int)
    return table, chosen, lambda x: float(x[0]) if np.ndim(action) == 0 else x


def _taken(table, chosen):
    return table[np.arange(len(table)), chosen]


def _logsumexp(table):
    top = table.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(table - top).sum(axis=1))


# --- conservative Q-learning -------------------------------------------------------------------


@mistake(
    "cql_discrete_penalty",
    "subtracts the mean over all actions, not the data action's value",
    report="BY571/CQL#5",
)
def subtracts_the_mean(q_values, action):
    table, _, shaped = _rows(q_values, action)
    return shaped(_logsumexp(table) - table.mean(axis=1))


@mistake("cql_discrete_penalty", "takes the largest value in place of the soft maximum")
def takes_the_hard_maximum(q_values, action):
    table, chosen, shaped = _rows(q_values, action)
    return shaped(table.max(axis=1) - _taken(table, chosen))


@mistake("cql_discrete_penalty", "leaves the data action out of the soft maximum")
def leaves_the_data_action_out(q_values, action):
    table, chosen, shaped = _rows(q_values, action)
    others = np.exp(table - table.max(axis=1, keepdims=True))
    others[np.arange(len(table)), chosen] = 0.0
    return shaped(table.max(axis=1) + np.log(others.sum(axis=1)) - _taken(table, chosen))


@mistake(
    "cql_discrete_penalty", "exponentiates the values as they are, so that large ones overflow"
)
def exponentiates_without_a_shift(q_values, action):
    table, chosen, shaped = _rows(q_values, action)
    return shaped(np.log(np.exp(table).sum(axis=1)) - _taken(table, chosen))


@mistake("cql_discrete_penalty", "loses the penalty in the rounding of a common offset")
def adds_the_maximum_back_first(q_values, action):
    table, chosen, shaped = _rows(q_values, action)
    return shaped(_logsumexp(table) - _taken(table, chosen))


@mistake("cql_discrete_penalty", "returns the data action's log-probability: the sign is turned")
def turns_the_sign(q_values, action):
    penalty = reference.cql_discrete_penalty(q_values, action)
    return -penalty


@mistake("cql_discrete_penalty", "averages exp(Q) over the actions where it should add them up")
def averages_the_exponentials(q_values, action):
    return reference.cql_discrete_penalty(q_values, action) - np.log(np.shape(q_values)[-1])


@mistake("cql_discrete_penalty", "takes the expected value under softmax(Q) for the soft maximum")
def takes_the_softmax_average(q_values, action):
    table, chosen, shaped = _rows(q_values, action)
    weights = np.exp(table - table.max(axis=1, keepdims=True))
    soft = (weights * table).sum(axis=1) / weights.sum(axis=1)
    return shaped(soft - _taken(table, chosen))


@mistake("cql_discrete_penalty", "averages the penalties of the batch")
def averages_over_the_batch(q_values, action):
    penalty = reference.cql_discrete_penalty(q_values, action)
    return penalty if np.ndim(action) == 0 or np.size(action) == 0 else float(np.mean(penalty))


@mistake("cql_discrete_penalty", "takes a logarithm to base 2")
def takes_a_binary_logarithm(q_values, action):
    table, chosen, shaped = _rows(q_values, action)
    below = table - table.max(axis=1, keepdims=True)
    return shaped(np.log2(np.exp(below).sum(axis=1)) - _taken(below, chosen))


@mistake("cql_discrete_penalty", "normalises over the states where there are as many as actions")
def normalises_over_the_states(q_values, action):
    penalty = reference.cql_discrete_penalty(q_values, action)
    table = np.asarray(q_values, float)
    if table.ndim == 1 or table.shape[0] != table.shape[1]:
        return penalty
    return _logsumexp(table.T) - _taken(table, np.asarray(action, int))


@mistake("cql_discrete_penalty", "pairs each state with the action of the next one")
def pairs_with_the_next_action(q_values, action):
    reference.cql_discrete_penalty(q_values, action)
    shifted = action if np.ndim(action) == 0 else np.roll(np.asarray(action, int), -1)
    return reference.cql_discrete_penalty(q_values, shifted)


@mistake("cql_discrete_penalty", "lets a negative action count from the end")
def counts_negative_actions_from_the_end(q_values, action):
    size = np.shape(q_values)[-1]
    chosen = np.asarray(action)
    return reference.cql_discrete_penalty(q_values, np.where(chosen < 0, chosen + size, chosen))


@mistake("cql_discrete_penalty", "clips the penalty at 10")
def clips_the_penalty(q_values, action):
    penalty = np.minimum(reference.cql_discrete_penalty(q_values, action), 10.0)
    return float(penalty) if penalty.ndim == 0 else penalty


@mistake("cql_discrete_penalty", "works in single precision")
def penalises_in_single_precision(q_values, action):
    reference.cql_discrete_penalty(q_values, action)
    coarse = np.asarray(q_values, np.float32)
    top = coarse.max(axis=-1, keepdims=True)
    return reference.cql_discrete_penalty(np.nan_to_num(coarse - top), action)


@mistake("cql_discrete_penalty", "subtracts the maximum from the caller's array in place")
def shifts_in_place(q_values, action):
    penalty = reference.cql_discrete_penalty(q_values, action)
    if isinstance(q_values, np.ndarray):
        q_values -= q_values.max(axis=-1, keepdims=True)
    return penalty


@mistake("cql_discrete_penalty", "keeps the integer dtype of the values")
def keeps_the_integers_of_the_values(q_values, action):
    penalty = reference.cql_discrete_penalty(q_values, action)
    kind = getattr(q_values, "dtype", np.dtype(float))
    return np.asarray(penalty).astype(kind) if kind.kind == "i" else penalty


# --- expectile regression ----------------------------------------------------------------------


@mistake(
    "expectile_loss",
    "weighs the sides the wrong way round: τ below zero and 1 − τ above",
)
def weighs_the_wrong_sides(differences, expectile=0.7, *, reduction="mean"):
    reference.expectile_loss(differences, expectile, reduction=reduction)
    return reference.expectile_loss(-np.asarray(differences, float), expectile, reduction=reduction)


def _reduced(terms, reduction):
    return float(np.mean(terms)) if reduction == "mean" else terms


@mistake(
    "expectile_loss",
    "takes an absolute value that removes the asymmetry",
    report="Nixtla/utilsforecast#63, scikit-learn/scikit-learn#6133",
)
def loses_the_asymmetry(differences, expectile=0.7, *, reduction="mean"):
    reference.expectile_loss(differences, expectile, reduction=reduction)
    return _reduced(expectile * np.abs(np.asarray(differences, float)) ** 2, reduction)


@mistake(
    "expectile_loss",
    "leaves out the absolute value of τ − 1[u < 0], so that one side is rewarded",
    report="Nixtla/utilsforecast#63",
)
def rewards_one_side(differences, expectile=0.7, *, reduction="mean"):
    reference.expectile_loss(differences, expectile, reduction=reduction)
    u = np.asarray(differences, float)
    return _reduced((expectile - (u < 0)) * u**2, reduction)


@mistake("expectile_loss", "forgets the square: it is the loss of a quantile")
def forgets_the_square(differences, expectile=0.7, *, reduction="mean"):
    reference.expectile_loss(differences, expectile, reduction=reduction)
    u = np.asarray(differences, float)
    return _reduced(np.abs(expectile - (u < 0)) * np.abs(u), reduction)


@mistake("expectile_loss", "halves the square, as mean squared errors often do")
def halves_the_square(differences, expectile=0.7, *, reduction="mean"):
    return 0.5 * reference.expectile_loss(differences, expectile, reduction=reduction)


@mistake("expectile_loss", "adds the terms up where it should average them")
def adds_the_terms_up(differences, expectile=0.7, *, reduction="mean"):
    reference.expectile_loss(differences, expectile, reduction=reduction)
    terms = reference.expectile_loss(differences, expectile, reduction="none")
    return float(np.sum(terms)) if reduction == "mean" else terms


@mistake("expectile_loss", "divides by the sum of the weights, not by the count")
def divides_by_the_weights(differences, expectile=0.7, *, reduction="mean"):
    terms = reference.expectile_loss(differences, expectile, reduction=reduction)
    if reduction == "none":
        return terms
    weights = np.where(np.asarray(differences) < 0, 1 - expectile, expectile)
    return float(terms / np.mean(weights))


@mistake("expectile_loss", "averages over the differences that are not 0")
def averages_over_what_differs(differences, expectile=0.7, *, reduction="mean"):
    loss = reference.expectile_loss(differences, expectile, reduction=reduction)
    counted = np.count_nonzero(np.asarray(differences))
    return loss * np.size(differences) / counted if reduction == "mean" and counted else loss


@mistake("expectile_loss", "averages whatever the reduction is")
def averages_always(differences, expectile=0.7, *, reduction="mean"):
    terms = reference.expectile_loss(differences, expectile, reduction=reduction)
    return float(np.mean(terms)) if np.size(terms) else terms


@mistake("expectile_loss", "gives 0 for the mean of nothing where it should refuse")
def averages_nothing_to_zero(differences, expectile=0.7, *, reduction="mean"):
    if np.size(differences) == 0 and reduction == "mean":
        return 0.0
    return reference.expectile_loss(differences, expectile, reduction=reduction)


@mistake("expectile_loss", "accepts τ = 0 and τ = 1, where one side costs nothing")
def accepts_the_ends(differences, expectile=0.7, *, reduction="mean"):
    u = np.asarray(differences, float)
    if expectile in (0.0, 1.0):
        return _reduced(np.abs(expectile - (u < 0)) * u**2, reduction)
    return reference.expectile_loss(differences, expectile, reduction=reduction)


@mistake("expectile_loss", "answers the largest float where the loss is beyond float64")
def keeps_the_loss_finite(differences, expectile=0.7, *, reduction="mean"):
    return np.nan_to_num(reference.expectile_loss(differences, expectile, reduction=reduction))


@mistake("expectile_loss", "is linear beyond 1, as Huber's loss is")
def bends_into_a_line(differences, expectile=0.7, *, reduction="mean"):
    reference.expectile_loss(differences, expectile, reduction=reduction)
    u = np.asarray(differences, float)
    curve = np.where(np.abs(u) <= 1, u**2, 2 * np.abs(u) - 1)
    return _reduced(np.where(u < 0, 1 - expectile, expectile) * curve, reduction)


@mistake("expectile_loss", "takes 0.8 for the expectile that was left out")
def defaults_to_another_expectile(differences, expectile=0.8, *, reduction="mean"):
    return reference.expectile_loss(differences, expectile, reduction=reduction)


@mistake("expectile_loss", "squares the caller's array in place")
def squares_in_place(differences, expectile=0.7, *, reduction="mean"):
    loss = reference.expectile_loss(differences, expectile, reduction=reduction)
    if isinstance(differences, np.ndarray) and differences.size:
        differences *= differences
    return loss


@mistake("expectile_loss", "squares in the dtype of the differences, so that small integers wrap")
def squares_small_integers(differences, expectile=0.7, *, reduction="mean"):
    reference.expectile_loss(differences, expectile, reduction=reduction)
    u = np.asarray(differences)
    return _reduced(np.where(u < 0, 1 - expectile, expectile) * (u * u), reduction)


@mistake("expectile_loss", "works in single precision")
def regresses_in_single_precision(differences, expectile=0.7, *, reduction="mean"):
    loss = reference.expectile_loss(differences, expectile, reduction=reduction)
    return np.asarray(loss, np.float32).astype(np.float64)


# --- advantage weights -------------------------------------------------------------------------


def _plain_weights(advantages, beta=3.0, max_weight=100.0):
    reference.iql_advantage_weights(advantages, beta, max_weight)
    return np.asarray(advantages, float)


@mistake("iql_advantage_weights", "divides by β, as if it were a temperature")
def divides_by_beta(advantages, beta=3.0, max_weight=100.0):
    a = _plain_weights(advantages, beta, max_weight)
    with np.errstate(all="ignore"):
        scaled = np.nan_to_num(a / beta)
    return reference.iql_advantage_weights(scaled, 1.0, max_weight)


@mistake("iql_advantage_weights", "never cuts the weights off")
def never_cuts_off(advantages, beta=3.0, max_weight=100.0):
    with np.errstate(over="ignore"):
        return np.exp(beta * _plain_weights(advantages, beta, max_weight))


@mistake("iql_advantage_weights", "cuts the exponent off at the maximum, not the weight")
def cuts_the_exponent_off(advantages, beta=3.0, max_weight=100.0):
    a = _plain_weights(advantages, beta, max_weight)
    with np.errstate(over="ignore"):
        return np.exp(np.minimum(beta * a, max_weight))


@mistake("iql_advantage_weights", "cuts the advantage off at the maximum, not the weight")
def cuts_the_advantage_off(advantages, beta=3.0, max_weight=100.0):
    a = _plain_weights(advantages, beta, max_weight)
    with np.errstate(over="ignore"):
        return np.exp(beta * np.minimum(a, max_weight))


@mistake(
    "iql_advantage_weights", "raises small weights to the maximum instead of cutting large ones"
)
def takes_the_larger(advantages, beta=3.0, max_weight=100.0):
    a = _plain_weights(advantages, beta, max_weight)
    with np.errstate(over="ignore"):
        return np.maximum(np.exp(beta * a), max_weight)


@mistake("iql_advantage_weights", "divides the weights by their mean over the batch")
def normalises_the_weights(advantages, beta=3.0, max_weight=100.0):
    weights = reference.iql_advantage_weights(advantages, beta, max_weight)
    return weights / max(np.mean(weights), 1e-300) if np.size(weights) else weights


@mistake("iql_advantage_weights", "subtracts the largest advantage first, as a softmax does")
def subtracts_the_largest(advantages, beta=3.0, max_weight=100.0):
    a = _plain_weights(advantages, beta, max_weight)
    with np.errstate(over="ignore"):
        return np.minimum(np.exp(beta * (a - a.max(initial=-np.inf))), max_weight)


@mistake("iql_advantage_weights", "gives no weight to negative advantages")
def drops_negative_advantages(advantages, beta=3.0, max_weight=100.0):
    weights = reference.iql_advantage_weights(advantages, beta, max_weight)
    return np.where(np.asarray(advantages) < 0, 0.0, weights)


@mistake("iql_advantage_weights", "lets no weight fall below 1 / max_weight")
def cuts_off_below_too(advantages, beta=3.0, max_weight=100.0):
    weights = reference.iql_advantage_weights(advantages, beta, max_weight)
    return np.maximum(weights, 1.0 / max_weight)


@mistake("iql_advantage_weights", "overflows with a warning before it cuts off")
def warns_of_overflow(advantages, beta=3.0, max_weight=100.0):
    a = _plain_weights(advantages, beta, max_weight)
    return np.minimum(np.exp(beta * a), max_weight)


@mistake("iql_advantage_weights", "exponentiates in single precision")
def weighs_in_single_precision(advantages, beta=3.0, max_weight=100.0):
    a = _plain_weights(advantages, beta, max_weight)
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp(np.asarray(beta * a, np.float32)).astype(np.float64)
    return np.minimum(weights, max_weight)


@mistake("iql_advantage_weights", "takes β = 0 for a β that was not given")
def replaces_a_beta_of_zero(advantages, beta=3.0, max_weight=100.0):
    return reference.iql_advantage_weights(advantages, beta or 3.0, max_weight)


@mistake("iql_advantage_weights", "takes 1 for the β that was left out")
def defaults_to_beta_one(advantages, beta=1.0, max_weight=100.0):
    return reference.iql_advantage_weights(advantages, beta, max_weight)


@mistake(
    "iql_advantage_weights",
    "cuts off at 100 whatever the maximum is",
)
def cuts_off_at_a_hundred(advantages, beta=3.0, max_weight=100.0):
    reference.iql_advantage_weights(advantages, beta, max_weight)
    return reference.iql_advantage_weights(advantages, beta, 100.0)


@mistake("iql_advantage_weights", "accepts a negative β, which prefers the worse actions")
def accepts_a_negative_beta(advantages, beta=3.0, max_weight=100.0):
    if isinstance(beta, float) and beta < 0:
        return reference.iql_advantage_weights(-np.asarray(advantages), -beta, max_weight)
    return reference.iql_advantage_weights(advantages, beta, max_weight)


@mistake("iql_advantage_weights", "scales the caller's advantages in place")
def scales_in_place(advantages, beta=3.0, max_weight=100.0):
    weights = reference.iql_advantage_weights(advantages, beta, max_weight)
    if isinstance(advantages, np.ndarray):
        advantages[:] = beta * advantages
    return weights


@mistake("iql_advantage_weights", "keeps the integer dtype of the advantages")
def keeps_the_integers_of_advantages(advantages, beta=3.0, max_weight=100.0):
    weights = reference.iql_advantage_weights(advantages, beta, max_weight)
    kind = getattr(advantages, "dtype", np.dtype(float))
    return weights.astype(kind) if kind.kind == "i" else weights


# --- behaviour support -------------------------------------------------------------------------


def _read(probabilities, threshold_ratio):
    reference.behavior_support_mask(probabilities, threshold_ratio)
    return np.asarray(probabilities, float)


@mistake("behavior_support_mask", "demands more than the ratio, so that ties with it are dropped")
def drops_ties_with_the_ratio(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    return p / p.max(axis=-1, keepdims=True) > threshold_ratio


@mistake("behavior_support_mask", "compares the probability itself with the ratio")
def compares_the_probability(probabilities, threshold_ratio):
    return _read(probabilities, threshold_ratio) >= threshold_ratio


@mistake("behavior_support_mask", "divides by the sum of the row, not by its maximum")
def divides_by_the_sum(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    with np.errstate(over="ignore"):
        return p / p.sum(axis=-1, keepdims=True) >= threshold_ratio


@mistake("behavior_support_mask", "divides by the mean of the row: it compares with uniform choice")
def divides_by_the_mean(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    with np.errstate(over="ignore"):
        return p / p.mean(axis=-1, keepdims=True) >= threshold_ratio


@mistake("behavior_support_mask", "takes the maximum of the whole batch for every state")
def divides_by_the_largest_of_the_batch(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    return p / p.max(initial=0.0) >= threshold_ratio if p.size else p >= 0


@mistake("behavior_support_mask", "takes the maximum along the first axis")
def divides_along_the_first_axis(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    with np.errstate(all="ignore"):
        return p / p.max(axis=0, keepdims=True) >= threshold_ratio if p.size else p >= 0


@mistake("behavior_support_mask", "compares logarithms of probabilities that it floors at 1e-8")
def compares_floored_logarithms(probabilities, threshold_ratio):
    logs = np.log(np.maximum(_read(probabilities, threshold_ratio), 1e-8))
    return logs - logs.max(axis=-1, keepdims=True) >= np.log(max(threshold_ratio, 1e-8))


@mistake("behavior_support_mask", "works in single precision")
def compares_in_single_precision(probabilities, threshold_ratio):
    p = np.asarray(_read(probabilities, threshold_ratio), np.float32)
    with np.errstate(all="ignore"):
        return p / p.max(axis=-1, keepdims=True) >= np.float32(threshold_ratio)


@mistake(
    "behavior_support_mask",
    "lifts unlikely actions before it compares, so that every action is supported",
    report="sfujim/BCQ#6",
)
def lifts_unlikely_actions(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    p = np.exp(np.maximum(np.log(np.maximum(p, 1e-320)), -2.0))
    return reference.behavior_support_mask(p, threshold_ratio)


@mistake("behavior_support_mask", "applies a softmax to what are probabilities already")
def applies_a_softmax(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    weights = np.exp(p - p.max(axis=-1, keepdims=True))
    return weights >= threshold_ratio


@mistake("behavior_support_mask", "supports what lies within the ratio below the maximum")
def compares_the_difference(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    return p >= p.max(axis=-1, keepdims=True) - threshold_ratio


@mistake("behavior_support_mask", "supports the first of the tied maxima only, at ratio 1")
def supports_one_of_tied_maxima(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    relative = p / p.max(axis=-1, keepdims=True)
    first = np.arange(p.shape[-1]) == relative.argmax(axis=-1)[..., None]
    return np.where(threshold_ratio == 1, first, relative >= threshold_ratio)


@mistake(
    "behavior_support_mask", "never supports an action that does not occur, at ratio 0 neither"
)
def demands_an_occurrence(probabilities, threshold_ratio):
    mask = reference.behavior_support_mask(probabilities, threshold_ratio)
    return mask & (np.asarray(probabilities) > 0)


@mistake("behavior_support_mask", "adds 1e-8 to the maximum that it divides by")
def pads_the_maximum(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    return p / (p.max(axis=-1, keepdims=True) + 1e-8) >= threshold_ratio


@mistake("behavior_support_mask", "returns the mask in the order of falling probability")
def returns_the_sorted_mask(probabilities, threshold_ratio):
    p = _read(probabilities, threshold_ratio)
    return reference.behavior_support_mask(-np.sort(-p, axis=-1), threshold_ratio)


@mistake("behavior_support_mask", "marks what is not supported")
def marks_the_unsupported(probabilities, threshold_ratio):
    return ~reference.behavior_support_mask(probabilities, threshold_ratio)


@mistake("behavior_support_mask", "lets a row of zeros support nothing where it should refuse")
def accepts_a_row_of_zeros(probabilities, threshold_ratio):
    p = np.asarray(probabilities, float)
    empty = (p == 0).all(axis=-1, keepdims=True) if p.ndim and p.size else np.False_
    return reference.behavior_support_mask(np.where(empty, 1.0, p), threshold_ratio) & ~empty


@mistake("behavior_support_mask", "divides the caller's array by its maximum in place")
def divides_in_place(probabilities, threshold_ratio):
    mask = reference.behavior_support_mask(probabilities, threshold_ratio)
    if isinstance(probabilities, np.ndarray):
        probabilities[:] = probabilities / probabilities.max(axis=-1, keepdims=True)
    return mask
