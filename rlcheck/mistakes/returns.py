"""What people get wrong in returns and temporal differences."""

import numpy as np

from rlcheck import returns as reference
from rlcheck.mistakes.registry import mistake


def powers(gamma, count):
    return np.asarray(gamma, dtype=np.float64) ** np.arange(count)


def in_single_precision(values, gamma):
    return np.asarray(values, np.float32), np.float32(gamma)


def is_float_array(values):
    return isinstance(values, np.ndarray) and values.dtype.kind == "f"


# ---- discounted_return ----------------------------------------------------------------------


@mistake("discounted_return", "counts the last reward in full and discounts the first ones")
def discounts_backwards(rewards, gamma):
    return reference.discounted_return(rewards[::-1], gamma)


@mistake("discounted_return", "discounts the first reward too")
def discounts_the_first_reward(rewards, gamma):
    return gamma * reference.discounted_return(rewards, gamma)


@mistake("discounted_return", "adds up the rewards without a discount")
def ignores_the_discount(rewards, gamma):
    reference.discounted_return(rewards, gamma)
    return reference.discounted_return(rewards, 1.0)


@mistake("discounted_return", "averages the discounted rewards instead of adding them")
def averages_the_return(rewards, gamma):
    return reference.discounted_return(rewards, gamma) / max(len(rewards), 1)


@mistake("discounted_return", "reports the normalised return (1 − γ) G")
def normalises_the_return(rewards, gamma):
    return (1 - gamma) * reference.discounted_return(rewards, gamma)


@mistake("discounted_return", "leaves out the last reward")
def loses_the_last_reward(rewards, gamma):
    return reference.discounted_return(rewards[:-1], gamma)


@mistake("discounted_return", "drops the rewards whose discount is below one half")
def cuts_the_horizon(rewards, gamma):
    G = reference.discounted_return(rewards, gamma)
    kept = powers(gamma, len(rewards)) >= 0.5
    return reference.discounted_return(np.asarray(rewards)[kept], gamma) if len(rewards) else G


@mistake("discounted_return", "computes in single precision")
def return_in_single_precision(rewards, gamma):
    reference.discounted_return(rewards, gamma)
    single, discount = in_single_precision(rewards, gamma)
    return float(np.sum(powers(discount, len(single)).astype(np.float32) * single))


@mistake("discounted_return", "holds γ in bfloat16", report="Denys88/rl_games#356")
def rounds_gamma_to_bfloat16(rewards, gamma):
    reference.discounted_return(rewards, gamma)
    bits = np.float32(gamma).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return reference.discounted_return(rewards, float(rounded.view(np.float32)))


@mistake("discounted_return", "computes γ^t as exp(t log γ), which is NaN for γ = 0")
def discounts_through_logarithms(rewards, gamma):
    reference.discounted_return(rewards, gamma)
    return float(np.sum(np.exp(np.arange(len(rewards)) * np.log(gamma)) * np.asarray(rewards)))


@mistake("discounted_return", "keeps the dtype of integer rewards")
def truncates_integer_rewards(rewards, gamma):
    G = reference.discounted_return(rewards, gamma)
    rewards = np.asarray(rewards)
    if rewards.dtype.kind != "i":
        return G
    return float(np.sum((powers(gamma, len(rewards)) * rewards).astype(rewards.dtype)))


@mistake("discounted_return", "answers the largest float where the return is beyond float64")
def keeps_the_return_finite(rewards, gamma):
    return float(np.nan_to_num(reference.discounted_return(rewards, gamma)))


@mistake(
    "discounted_return",
    "spreads a column of rewards over a row of discounts",
    report="Howuhh/faster-trajectory-transformer#9",
)
def spreads_rewards_over_discounts(rewards, gamma):
    reference.discounted_return(rewards, gamma)
    return float(np.sum(np.asarray(rewards)[:, None] * powers(gamma, len(rewards))))


@mistake("discounted_return", "discounts the caller's array in place")
def discounts_in_place(rewards, gamma):
    G = reference.discounted_return(rewards, gamma)
    if is_float_array(rewards):
        rewards *= powers(gamma, len(rewards))
    return G


@mistake("discounted_return", "fails on a trajectory without steps")
def needs_a_first_reward(rewards, gamma):
    return rewards[0] + gamma * reference.discounted_return(rewards[1:], gamma)


@mistake("discounted_return", "checks neither the rewards nor γ")
def return_checks_nothing(rewards, gamma):
    if np.ndim(rewards) == 1 and np.all(np.isfinite(np.asarray(rewards, dtype=float))):
        return reference.discounted_return(rewards, min(max(gamma, 0.0), 1.0))
    return float(np.sum(powers(gamma, len(rewards)) * np.asarray(rewards, dtype=float)))


# ---- td_residuals ---------------------------------------------------------------------------


@mistake("td_residuals", "bootstraps through a terminal state", report="thu-ml/tianshou#869")
def bootstraps_through_terminals(rewards, values, gamma, terminated=None):
    reference.td_residuals(rewards, values, gamma, terminated)
    return reference.td_residuals(rewards, values, gamma)


@mistake("td_residuals", "masks the whole residual of a terminal step instead of its bootstrap")
def masks_the_residual(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    return deltas if terminated is None else np.where(terminated, 0.0, deltas)


@mistake("td_residuals", "reads the flag of the following step")
def reads_the_next_flag(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if terminated is None or len(deltas) == 0:
        return deltas
    return reference.td_residuals(rewards, values, gamma, [*terminated[1:], terminated[-1]])


@mistake("td_residuals", "reads the flag of the step before")
def reads_the_previous_flag(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if terminated is None or len(deltas) == 0:
        return deltas
    return reference.td_residuals(rewards, values, gamma, [0, *terminated[:-1]])


@mistake("td_residuals", "takes the flags for continuation flags")
def inverts_the_flags(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if terminated is None:
        return deltas
    return reference.td_residuals(rewards, values, gamma, [not d for d in terminated])


@mistake("td_residuals", "takes the last step for a terminal when no flags are given")
def ends_the_last_step(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if terminated is not None or len(deltas) == 0:
        return deltas
    return reference.td_residuals(rewards, values, gamma, [0] * (len(deltas) - 1) + [1])


@mistake("td_residuals", "overlooks a terminal that follows a terminal")
def merges_adjacent_terminals(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if terminated is None:
        return deltas
    ended = np.asarray(terminated).astype(bool)
    return reference.td_residuals(
        rewards, values, gamma, ended & ~np.concatenate([[False], ended])[:-1]
    )


@mistake("td_residuals", "pads everything after the first terminal with zeros")
def stops_at_the_first_terminal(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if terminated is None:
        return deltas
    ended = np.asarray(terminated).astype(int)
    return np.where(np.cumsum(ended) - ended > 0, 0.0, deltas)


@mistake("td_residuals", "sets the value after a terminal to 0 for the next episode too")
def erases_the_value_after_a_terminal(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if terminated is None:
        return deltas
    kept = np.array(values, dtype=float)
    kept[1:][np.asarray(terminated, dtype=bool)] = 0.0
    return reference.td_residuals(rewards, kept, gamma)


@mistake("td_residuals", "does not discount the next value")
def forgets_gamma_in_the_residual(rewards, values, gamma, terminated=None):
    reference.td_residuals(rewards, values, gamma, terminated)
    return reference.td_residuals(rewards, values, 1.0, terminated)


@mistake("td_residuals", "discounts the reward together with the next value")
def discounts_the_reward_too(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    return deltas - (1 - gamma) * np.asarray(rewards, dtype=float)


@mistake("td_residuals", "subtracts the target from the value")
def residual_with_the_wrong_sign(rewards, values, gamma, terminated=None):
    return -reference.td_residuals(rewards, values, gamma, terminated)


@mistake(
    "td_residuals",
    "rebuilds the values by rolling the next values, so that V_0 is the last value",
    report="thu-ml/tianshou#886",
)
def rolls_the_values(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if len(deltas):
        deltas[0] += values[0] - values[-1]
    return deltas


@mistake(
    "td_residuals",
    "gives the last step a residual of 0",
    report="PufferAI/PufferLib#363, PufferAI/PufferLib#445",
)
def forgets_the_last_residual(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    deltas[-1:] = 0.0
    return deltas


@mistake("td_residuals", "computes in single precision")
def residuals_in_single_precision(rewards, values, gamma, terminated=None):
    reference.td_residuals(rewards, values, gamma, terminated)
    (r, g), V = in_single_precision(rewards, gamma), np.asarray(values, np.float32)
    d = 0 if terminated is None else np.asarray(terminated, np.float32)
    return (r + g * (1 - d) * V[1:] - V[:-1]).astype(np.float64)


@mistake("td_residuals", "keeps the dtype of integer rewards")
def truncates_integer_residuals(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    kind = np.asarray(rewards).dtype
    return deltas.astype(kind) if kind.kind == "i" else deltas


@mistake("td_residuals", "answers the largest float where a residual is beyond float64")
def keeps_residuals_finite(rewards, values, gamma, terminated=None):
    return np.nan_to_num(reference.td_residuals(rewards, values, gamma, terminated))


@mistake("td_residuals", "answers with a bare number for a single step")
def squeezes_a_single_residual(rewards, values, gamma, terminated=None):
    return np.squeeze(reference.td_residuals(rewards, values, gamma, terminated))


@mistake("td_residuals", "overwrites the caller's values with the residuals")
def residuals_in_place(rewards, values, gamma, terminated=None):
    deltas = reference.td_residuals(rewards, values, gamma, terminated)
    if is_float_array(values):
        values[:-1] = deltas
    return deltas


@mistake("td_residuals", "reads a missing last value as 0 and leaves surplus ones unread")
def pads_the_values(rewards, values, gamma, terminated=None):
    if np.ndim(values) == 1:
        values = [*values, 0.0][: len(rewards) + 1]
    return reference.td_residuals(rewards, values, gamma, terminated)


# ---- discounted_td_sum ----------------------------------------------------------------------


@mistake("discounted_td_sum", "counts the last residual in full and discounts the first ones")
def sums_backwards(deltas, gamma):
    return reference.discounted_td_sum(deltas[::-1], gamma)


@mistake("discounted_td_sum", "discounts the first residual too")
def discounts_the_first_residual(deltas, gamma):
    return gamma * reference.discounted_td_sum(deltas, gamma)


@mistake("discounted_td_sum", "adds up the residuals without a discount")
def sums_without_discount(deltas, gamma):
    reference.discounted_td_sum(deltas, gamma)
    return reference.discounted_td_sum(deltas, 1.0)


@mistake("discounted_td_sum", "discounts by γ² a step")
def discounts_twice(deltas, gamma):
    reference.discounted_td_sum(deltas, gamma)
    return reference.discounted_td_sum(deltas, gamma**2)


@mistake("discounted_td_sum", "averages the discounted residuals")
def averages_the_residuals(deltas, gamma):
    return reference.discounted_td_sum(deltas, gamma) / max(len(deltas), 1)


@mistake("discounted_td_sum", "decays by a trace of λ = 0.95 besides")
def decays_by_a_trace(deltas, gamma):
    reference.discounted_td_sum(deltas, gamma)
    return reference.discounted_td_sum(deltas, 0.95 * gamma)


@mistake("discounted_td_sum", "clips each residual to [−1, 1]")
def clips_the_residuals(deltas, gamma):
    reference.discounted_td_sum(deltas, gamma)
    return reference.discounted_td_sum(np.clip(np.asarray(deltas, float), -1, 1), gamma)


@mistake("discounted_td_sum", "adds up the sizes of the residuals")
def sums_the_sizes(deltas, gamma):
    reference.discounted_td_sum(deltas, gamma)
    return reference.discounted_td_sum(np.abs(np.asarray(deltas, float)), gamma)


@mistake("discounted_td_sum", "stops at the first residual of 0, as if the episode ended there")
def stops_at_a_zero_residual(deltas, gamma):
    reference.discounted_td_sum(deltas, gamma)
    return reference.discounted_td_sum(deltas * np.cumprod(np.not_equal(deltas, 0)), gamma)


@mistake("discounted_td_sum", "leaves out the last residual")
def loses_the_last_residual(deltas, gamma):
    return reference.discounted_td_sum(deltas[:-1], gamma)


@mistake("discounted_td_sum", "computes in single precision")
def td_sum_in_single_precision(deltas, gamma):
    reference.discounted_td_sum(deltas, gamma)
    single, discount = in_single_precision(deltas, gamma)
    return float(np.sum(powers(discount, len(single)).astype(np.float32) * single))


@mistake("discounted_td_sum", "keeps the dtype of integer residuals")
def truncates_integer_deltas(deltas, gamma):
    total = reference.discounted_td_sum(deltas, gamma)
    return int(total) if np.asarray(deltas).dtype.kind == "i" else total


@mistake("discounted_td_sum", "raises where the sum is beyond float64")
def raises_on_overflow(deltas, gamma):
    total = reference.discounted_td_sum(deltas, gamma)
    if np.isinf(total):
        raise OverflowError("the sum is too large")
    return total


@mistake("discounted_td_sum", "takes 0^0 for 0, so that γ = 0 leaves nothing")
def drops_all_at_gamma_zero(deltas, gamma):
    return reference.discounted_td_sum(deltas, gamma) if gamma else 0.0


@mistake("discounted_td_sum", "accumulates in the caller's array")
def accumulates_in_place(deltas, gamma):
    total = reference.discounted_td_sum(deltas, gamma)
    if is_float_array(deltas):
        deltas[:] = np.cumsum(powers(gamma, len(deltas)) * deltas)
    return total


@mistake("discounted_td_sum", "answers with the sum from every step, not from the first alone")
def sums_from_every_step(deltas, gamma):
    return reference.return_to_go(deltas, gamma)


@mistake("discounted_td_sum", "skips residuals that are NaN")
def skips_nan_residuals(deltas, gamma):
    deltas = np.asarray(deltas, dtype=float)
    return reference.discounted_td_sum(np.where(np.isnan(deltas), 0.0, deltas), gamma)


# ---- semi_markov_return ---------------------------------------------------------------------


@mistake("semi_markov_return", "counts decisions, not elapsed steps", report="AVSLab/bsk_rl#248")
def discounts_per_decision(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    return reference.semi_markov_return(rewards, np.ones(len(rewards)), gamma)


@mistake("semi_markov_return", "discounts each macro-reward by its own duration as well")
def discounts_by_elapsed_after(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    return float(np.sum(float(gamma) ** np.cumsum(durations) * np.asarray(rewards, float)))


@mistake("semi_markov_return", "discounts each macro-reward by its own duration alone")
def discounts_by_own_duration(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    return float(np.sum(float(gamma) ** np.asarray(durations) * np.asarray(rewards, float)))


@mistake("semi_markov_return", "discounts by the duration just before instead of all before")
def forgets_earlier_durations(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    before = np.concatenate([[0], durations])[:-1]
    return float(np.sum(float(gamma) ** before * np.asarray(rewards, float)))


@mistake("semi_markov_return", "pays each macro-reward at the last step of its macro-action")
def pays_at_the_end(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    last = np.cumsum(durations) - 1
    return float(np.sum(float(gamma) ** last * np.asarray(rewards, float)))


@mistake("semi_markov_return", "waits one step too many between macro-actions")
def waits_between_macro_actions(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    return reference.semi_markov_return(rewards, np.add(durations, 1), gamma)


@mistake("semi_markov_return", "shifts the durations by one: each macro-action has the next one's")
def shifts_the_durations(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    return reference.semi_markov_return(rewards, np.roll(durations, -1), gamma)


@mistake("semi_markov_return", "takes the average duration for every macro-action")
def uses_the_average_duration(rewards, durations, gamma):
    total = reference.semi_markov_return(rewards, durations, gamma)
    if len(rewards) == 0:
        return total
    powers_ = float(gamma) ** (np.arange(len(rewards)) * np.mean(durations))
    return float(np.sum(powers_ * np.asarray(rewards, float)))


@mistake("semi_markov_return", "multiplies each macro-reward by its duration")
def pays_at_every_step(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    return reference.semi_markov_return(np.multiply(rewards, durations), durations, gamma)


@mistake("semi_markov_return", "divides each macro-reward by its duration")
def pays_a_rate(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    return reference.semi_markov_return(np.divide(rewards, durations), durations, gamma)


@mistake("semi_markov_return", "adds up the macro-rewards without a discount")
def ignores_the_durations(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    return reference.semi_markov_return(rewards, durations, 1.0)


@mistake("semi_markov_return", "counts the last macro-reward in full and discounts the first ones")
def discounts_macro_actions_backwards(rewards, durations, gamma):
    return reference.semi_markov_return(rewards[::-1], durations[::-1], gamma)


@mistake("semi_markov_return", "computes γ^τ as exp(τ log γ), which is NaN for γ = 0")
def elapsed_through_logarithms(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    started = np.cumsum(durations) - durations
    return float(np.sum(np.exp(started * np.log(gamma)) * np.asarray(rewards, float)))


@mistake("semi_markov_return", "computes in single precision")
def macro_actions_in_single_precision(rewards, durations, gamma):
    reference.semi_markov_return(rewards, durations, gamma)
    single, discount = in_single_precision(rewards, gamma)
    started = (np.cumsum(durations) - durations).astype(np.float32)
    return float(np.sum(discount**started * single))


@mistake("semi_markov_return", "keeps the dtype of integer macro-rewards")
def truncates_macro_rewards(rewards, durations, gamma):
    total = reference.semi_markov_return(rewards, durations, gamma)
    return int(total) if np.asarray(rewards).dtype.kind == "i" else total


@mistake("semi_markov_return", "answers NaN where the return is beyond float64")
def gives_up_on_a_large_return(rewards, durations, gamma):
    total = reference.semi_markov_return(rewards, durations, gamma)
    return total if np.isfinite(total) else np.nan


@mistake("semi_markov_return", "turns durations into start times in the caller's array")
def accumulates_the_durations_in_place(rewards, durations, gamma):
    total = reference.semi_markov_return(rewards, durations, gamma)
    if isinstance(durations, np.ndarray):
        np.cumsum(durations, out=durations)
    return total


@mistake("semi_markov_return", "accepts durations of 0 and rounds fractions down")
def accepts_any_duration(rewards, durations, gamma):
    if np.all(np.isfinite(np.asarray(durations, float))):
        durations = np.maximum(np.floor(durations), 1)
    return reference.semi_markov_return(rewards, durations, gamma)


# ---- collector_target -----------------------------------------------------------------------


@mistake("collector_target", "bootstraps through a terminal state", report="aviralkumar2907/BEAR#4")
def ignores_termination(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    known = np.where(np.isfinite(next_value), next_value, 0.0)
    return y if np.size(y) == 0 else np.asarray(reward) + gamma * known + 0 * y


@mistake(
    "collector_target",
    "multiplies the next value of a terminal by 0, which leaves NaN",
    report="pytorch/rl#3744, anthonytorlucci/rlevo#1074",
)
def multiplies_the_terminal_away(reward, next_value, *, gamma, terminated):
    reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    alive = 1.0 - np.asarray(terminated, dtype=float)
    return np.asarray(reward) + gamma * alive * np.asarray(next_value, dtype=float)


@mistake(
    "collector_target",
    "answers with the next value at a terminal, not with the reward",
    report="bold-lab-ai/JaxMARL#93",
)
def pays_the_next_value_at_the_end(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    return np.where(np.asarray(terminated, bool), next_value, y)


@mistake("collector_target", "answers with 0 at a terminal")
def drops_the_last_reward(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    return np.where(np.asarray(terminated, bool), 0.0, y)


@mistake(
    "collector_target",
    "treats every end of a batch as a terminal",
    report="HumanCompatibleAI/imitation#335, takuseno/d3rlpy#18",
)
def ends_with_the_batch(reward, next_value, *, gamma, terminated):
    y = np.array(reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated))
    if y.ndim == 0:
        return float(y)
    y[..., -1:] = np.broadcast_to(reward, y.shape)[..., -1:]
    return y


@mistake("collector_target", "takes the flags for continuation flags")
def bootstraps_at_terminals_only(reward, next_value, *, gamma, terminated):
    reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    ended = np.asarray(terminated, bool)
    return np.asarray(reward) + gamma * np.where(ended, next_value, 0.0)


@mistake("collector_target", "drops all bootstraps where a single transition is terminal")
def one_terminal_ends_all(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    return y if np.size(y) == 0 or not np.any(terminated) else np.broadcast_to(reward, np.shape(y))


@mistake("collector_target", "reads the flag of the following transition")
def reads_the_following_flag(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    if np.ndim(terminated) == 0 or np.size(y) == 0:
        return y
    ended = np.roll(np.asarray(terminated, bool), -1)
    return np.asarray(reward) + gamma * np.where(ended, 0.0, next_value)


@mistake("collector_target", "does not discount the next value")
def target_without_discount(reward, next_value, *, gamma, terminated):
    reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    return reference.collector_target(reward, next_value, gamma=1.0, terminated=terminated)


@mistake("collector_target", "discounts the reward together with the next value")
def discounts_the_whole_target(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    return y - (1.0 - gamma) * np.asarray(reward, dtype=float)


@mistake("collector_target", "negates integer flags bit by bit, so that ~0 is −1 and ~1 is −2")
def negates_flags_bitwise(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    flags = np.asarray(terminated)
    if flags.dtype.kind == "i":
        return np.asarray(reward) + ~flags * gamma * np.asarray(next_value)
    return y


@mistake("collector_target", "aligns a batch of flags with the rows when the table is square")
def broadcasts_along_the_wrong_axis(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    if np.shape(terminated) and np.shape(y) == 2 * np.shape(terminated):
        flags = np.asarray(terminated)[:, None]
        return reference.collector_target(reward, next_value, gamma=gamma, terminated=flags)
    return y


@mistake("collector_target", "flattens its arrays before it pairs them")
def flattens_the_arrays(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    return np.ravel(y) if np.ndim(y) > 1 else y


@mistake("collector_target", "answers a single transition with an array of one entry")
def wraps_a_scalar(reward, next_value, *, gamma, terminated):
    return np.atleast_1d(
        reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    )


@mistake("collector_target", "computes in single precision")
def target_in_single_precision(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    return np.asarray(y, np.float32).astype(np.float64)


@mistake("collector_target", "keeps the dtype of integer rewards")
def truncates_integer_targets(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    kind = np.asarray(reward).dtype
    return np.asarray(y).astype(kind) if kind.kind == "i" else y


@mistake("collector_target", "zeroes the caller's next values at terminals")
def zeroes_next_values_in_place(reward, next_value, *, gamma, terminated):
    y = reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)
    if isinstance(next_value, np.ndarray) and np.shape(next_value) == np.shape(terminated):
        next_value[np.asarray(terminated, bool)] = 0
    return y


@mistake("collector_target", "refuses a next value that is not finite at a terminal too")
def refuses_inert_values(reward, next_value, *, gamma, terminated):
    if not np.all(np.isfinite(np.asarray(next_value, float))):
        raise ValueError("next_value must be finite")
    return reference.collector_target(reward, next_value, gamma=gamma, terminated=terminated)


@mistake("collector_target", "replaces next values that are not finite by 0 wherever they stand")
def repairs_next_values(reward, next_value, *, gamma, terminated):
    known = np.nan_to_num(np.asarray(next_value, float), posinf=0.0, neginf=0.0)
    return reference.collector_target(reward, known, gamma=gamma, terminated=terminated)


# ---- return_to_go ---------------------------------------------------------------------------


@mistake("return_to_go", "leaves out the reward of the step itself", report="takuseno/d3rlpy#401")
def leaves_out_the_own_reward(rewards, gamma=1.0):
    return reference.return_to_go(rewards, gamma) - np.asarray(rewards, float)


@mistake("return_to_go", "adds up the past rewards", report="mohmdelsayed/streaming-drl#3")
def sums_the_past(rewards, gamma=1.0):
    return reference.return_to_go(rewards[::-1], gamma)[::-1]


@mistake("return_to_go", "discounts from the start of the trajectory, not from each step")
def discounts_from_the_start(rewards, gamma=1.0):
    return reference.return_to_go(rewards, gamma) * powers(gamma, len(rewards))


@mistake("return_to_go", "answers in reverse order")
def answers_backwards(rewards, gamma=1.0):
    return reference.return_to_go(rewards, gamma)[::-1]


@mistake("return_to_go", "gives every step the return of the whole trajectory")
def repeats_the_return(rewards, gamma=1.0):
    R = reference.return_to_go(rewards, gamma)
    return np.full(len(R), R[0]) if len(R) else R


@mistake("return_to_go", "ignores γ")
def to_go_without_discount(rewards, gamma=1.0):
    reference.return_to_go(rewards, gamma)
    return reference.return_to_go(rewards)


@mistake("return_to_go", "has a default of γ = 0.99")
def discounts_by_default(rewards, gamma=0.99):
    return reference.return_to_go(rewards, gamma)


@mistake("return_to_go", "discounts the reward of the step itself too")
def discounts_the_own_reward(rewards, gamma=1.0):
    return gamma * reference.return_to_go(rewards, gamma)


@mistake("return_to_go", "starts anew at every reward other than 0, as after a point of Pong")
def restarts_at_rewards(rewards, gamma=1.0):
    reference.return_to_go(rewards, gamma)
    tail, out = 0.0, []
    for reward in reversed(list(rewards)):
        tail = reward if reward else gamma * tail
        out.append(tail)
    return np.array(out[::-1], dtype=float)


@mistake("return_to_go", "averages the rewards to go instead of adding them")
def averages_what_is_to_go(rewards, gamma=1.0):
    return reference.return_to_go(rewards, gamma) / np.arange(len(rewards), 0, -1)


@mistake("return_to_go", "leaves out the last reward")
def forgets_the_final_reward(rewards, gamma=1.0):
    R = reference.return_to_go(rewards, gamma)
    return np.append(reference.return_to_go(rewards[:-1], gamma), 0.0) if len(R) else R


@mistake("return_to_go", "runs on into a further reward", report="kzl/decision-transformer#22")
def runs_into_the_next_trajectory(rewards, gamma=1.0):
    reference.return_to_go(rewards, gamma)
    return reference.return_to_go([*rewards, *rewards[:1]], gamma)[: len(rewards)]


@mistake("return_to_go", "divides the discounted tail by γ^t, which is NaN for γ = 0")
def divides_by_the_discount(rewards, gamma=1.0):
    reference.return_to_go(rewards, gamma)
    discount = powers(gamma, len(rewards))
    return np.cumsum((discount * np.asarray(rewards))[::-1])[::-1] / discount


@mistake("return_to_go", "computes in single precision")
def to_go_in_single_precision(rewards, gamma=1.0):
    reference.return_to_go(rewards, gamma)
    single, discount = in_single_precision(rewards, gamma)
    for t in range(len(single) - 2, -1, -1):
        single = np.concatenate(
            [single[:t], [single[t] + discount * single[t + 1]], single[t + 1 :]]
        )
    return single.astype(np.float64)


@mistake("return_to_go", "keeps the dtype of integer rewards")
def truncates_integer_returns(rewards, gamma=1.0):
    R = reference.return_to_go(rewards, gamma)
    kind = np.asarray(rewards).dtype
    return R.astype(kind) if kind.kind == "i" else R


@mistake("return_to_go", "subtracts what was earned before from an infinite total")
def subtracts_from_an_infinite_total(rewards, gamma=1.0):
    R = reference.return_to_go(rewards, gamma)
    return R + (R[0] - R[0]) if len(R) else R


@mistake("return_to_go", "answers with a bare number for a single step")
def squeezes_a_single_return(rewards, gamma=1.0):
    return np.squeeze(reference.return_to_go(rewards, gamma))


@mistake("return_to_go", "accumulates in the caller's array")
def to_go_in_place(rewards, gamma=1.0):
    R = reference.return_to_go(rewards, gamma)
    if is_float_array(rewards):
        rewards[:] = R
    return R


@mistake("return_to_go", "runs along the rows of a matrix of rewards instead of refusing it")
def accepts_a_column(rewards, gamma=1.0):
    return reference.return_to_go(rewards[0] if np.ndim(rewards) == 2 else rewards, gamma)
