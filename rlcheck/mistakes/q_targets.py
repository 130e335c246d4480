"""What people get wrong in the targets of Q-learning and of fitted Q-evaluation."""

import numpy as np

from rlcheck import q_targets as reference
from rlcheck.mistakes.registry import mistake


def _read(rewards, terminal, *tables):
    """Arguments as float64 without validation; terminal as the factor 1 − d."""
    going_on = 1.0 - np.asarray(terminal, dtype=np.float64)
    return np.asarray(rewards, float), going_on, *(np.asarray(t, float) for t in tables)


def _shown(rewards, terminal, next_values, gamma):
    """A backup of next values that somebody chose, with terminal rows ignored rightly."""
    rewards, going_on, next_values = _read(rewards, terminal, next_values)
    return rewards + gamma * np.where(going_on == 1, next_values, 0.0)


def _nowhere(rewards):
    return np.zeros(len(rewards))


# --- deep Q-learning ---------------------------------------------------------------------------


@mistake(
    "dqn_targets",
    "bootstraps through a terminal state",
    report="navneet-nmk/pytorch-rl#2, aviralkumar2907/BEAR#4",
)
def bootstraps_through_terminals(rewards, terminal, next_q, gamma):
    return reference.dqn_targets(rewards, _nowhere(rewards), next_q, gamma)


@mistake(
    "dqn_targets",
    "multiplies by the terminal mask, so that 0 · NaN poisons the target of a terminal",
    report="pytorch/rl#3744",
)
def multiplies_by_the_terminal_mask(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    rewards, going_on, next_q = _read(rewards, terminal, next_q)
    return rewards + gamma * going_on * next_q.max(axis=1)


@mistake(
    "dqn_targets",
    "takes the best value of the whole batch for every transition",
    report="p-christ/Deep-Reinforcement-Learning-Algorithms-with-PyTorch#60",
)
def takes_the_maximum_over_the_batch(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    ends = np.asarray(terminal) == 1
    best = np.where(ends[:, None], -np.inf, next_q).max(initial=-np.inf)
    return _shown(rewards, terminal, np.full(len(ends), best), gamma)


@mistake("dqn_targets", "averages over the actions where it should take the best one")
def averages_over_actions(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    return _shown(rewards, terminal, np.mean(next_q, axis=1), gamma)


@mistake("dqn_targets", "takes the flag for its opposite: 1 where the episode goes on")
def reads_the_flag_as_a_continuation(rewards, terminal, next_q, gamma):
    next_q = np.nan_to_num(np.asarray(next_q, float))
    return reference.dqn_targets(rewards, 1 - np.asarray(terminal, int), next_q, gamma)


@mistake("dqn_targets", "never lets the best next value fall below 0")
def starts_the_maximum_at_zero(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    return _shown(rewards, terminal, np.max(next_q, axis=1, initial=0.0), gamma)


@mistake("dqn_targets", "takes the value of the largest magnitude for the best one")
def maximises_the_magnitude(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    largest = np.abs(next_q).argmax(axis=1)[:, None]
    return _shown(
        rewards, terminal, np.take_along_axis(np.asarray(next_q), largest, 1)[:, 0], gamma
    )


@mistake("dqn_targets", "works in single precision")
def backs_up_in_single_precision(rewards, terminal, next_q, gamma):
    exact = reference.dqn_targets(rewards, terminal, next_q, gamma)
    return exact.astype(np.float32).astype(np.float64)


@mistake("dqn_targets", "keeps the integer dtype of the rewards, so that targets lose fractions")
def fills_an_integer_array(rewards, terminal, next_q, gamma):
    targets = np.array(rewards) if len(rewards) else np.zeros(0)
    targets[:] = reference.dqn_targets(rewards, terminal, next_q, gamma)
    return targets


@mistake("dqn_targets", "discounts the reward together with the next value")
def discounts_the_reward(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    return gamma * reference.dqn_targets(rewards, terminal, next_q, 1.0)


@mistake("dqn_targets", "forgets the discount")
def forgets_the_discount(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    return reference.dqn_targets(rewards, terminal, next_q, 1.0)


@mistake("dqn_targets", "takes γ = 0 for a discount that was not given")
def replaces_a_discount_of_zero(rewards, terminal, next_q, gamma):
    return reference.dqn_targets(rewards, terminal, next_q, gamma or 0.99)


@mistake("dqn_targets", "reads the terminal flag of the transition before")
def reads_the_flag_one_row_late(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    late = np.roll(np.asarray(terminal), 1)
    return reference.dqn_targets(rewards, late, np.nan_to_num(np.asarray(next_q, float)), gamma)


@mistake("dqn_targets", "cuts the batch's last transition as if the episode ended there")
def ends_the_batch_with_a_terminal(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    ends = np.array(terminal, float)
    ends[-1:] = 1.0
    return reference.dqn_targets(rewards, ends, next_q, gamma)


@mistake("dqn_targets", "adds to the caller's rewards in place")
def adds_to_the_rewards_in_place(rewards, terminal, next_q, gamma):
    targets = reference.dqn_targets(rewards, terminal, next_q, gamma)
    if isinstance(rewards, np.ndarray) and rewards.dtype == np.float64:
        rewards[:] = targets
    return targets


@mistake("dqn_targets", "writes 0 into the caller's terminal rows")
def clears_terminal_rows_in_place(rewards, terminal, next_q, gamma):
    targets = reference.dqn_targets(rewards, terminal, next_q, gamma)
    if isinstance(next_q, np.ndarray):
        next_q[np.asarray(terminal) == 1] = 0
    return targets


@mistake("dqn_targets", "clips the next values to [−10, 10]")
def clips_next_values(rewards, terminal, next_q, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    return reference.dqn_targets(rewards, terminal, np.clip(next_q, -10.0, 10.0), gamma)


@mistake("dqn_targets", "returns a number, not an array, for a batch of one")
def squeezes_a_batch_of_one(rewards, terminal, next_q, gamma):
    return np.squeeze(reference.dqn_targets(rewards, terminal, next_q, gamma))


@mistake("dqn_targets", "replaces NaN by 0 in silence where it should refuse it")
def replaces_nan_in_silence(rewards, terminal, next_q, gamma):
    rewards = np.nan_to_num(np.asarray(rewards, float))
    return reference.dqn_targets(rewards, terminal, np.nan_to_num(np.asarray(next_q)), gamma)


# --- double Q-learning -------------------------------------------------------------------------


@mistake(
    "double_dqn_targets",
    "lets the target network select the action as well as evaluate it",
    report="MaximeVandegar/Papers-in-100-Lines-of-Code#21, keon/deep-q-learning#35, "
    "higgsfield/RL-Adventure#5",
)
def selects_with_the_target_network(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    return reference.dqn_targets(rewards, terminal, target_next_q, gamma)


@mistake(
    "double_dqn_targets",
    "lets the online network evaluate its own choice: the target network is never read",
    report="tambetm/gym-minecraft#4",
)
def evaluates_with_the_online_network(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    return reference.dqn_targets(rewards, terminal, online_next_q, gamma)


@mistake("double_dqn_targets", "has the two networks the wrong way round")
def swaps_the_networks(rewards, terminal, online_next_q, target_next_q, gamma):
    return reference.double_dqn_targets(rewards, terminal, target_next_q, online_next_q, gamma)


@mistake("double_dqn_targets", "takes the last of the tied actions")
def takes_the_last_of_ties(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    online, target = np.asarray(online_next_q)[:, ::-1], np.asarray(target_next_q)[:, ::-1]
    return reference.double_dqn_targets(rewards, terminal, online, target, gamma)


@mistake("double_dqn_targets", "averages the target values of the tied actions")
def averages_over_ties(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    _, _, online, target = _read(rewards, terminal, online_next_q, target_next_q)
    tied = online == online.max(axis=1, keepdims=True)
    count = np.maximum(tied.sum(axis=1), 1)  # a terminal row of NaN ties with nothing
    return _shown(rewards, terminal, np.where(tied, target, 0.0).sum(axis=1) / count, gamma)


@mistake("double_dqn_targets", "prefers the larger target value among the tied actions")
def prefers_the_better_of_ties(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    _, _, online, target = _read(rewards, terminal, online_next_q, target_next_q)
    tied = online == online.max(axis=1, keepdims=True)
    return _shown(rewards, terminal, np.where(tied, target, -np.inf).max(axis=1), gamma)


@mistake(
    "double_dqn_targets",
    "multiplies by the terminal mask, so that 0 · NaN poisons the target of a terminal",
    report="pytorch/rl#3744",
)
def multiplies_the_evaluation_by_the_mask(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    rewards, going_on, online, target = _read(rewards, terminal, online_next_q, target_next_q)
    return rewards + gamma * going_on * target[np.arange(len(target)), online.argmax(axis=1)]


@mistake("double_dqn_targets", "bootstraps through a terminal state")
def bootstraps_double_through_terminals(rewards, terminal, online_next_q, target_next_q, gamma):
    ends = _nowhere(rewards)
    return reference.double_dqn_targets(rewards, ends, online_next_q, target_next_q, gamma)


@mistake("double_dqn_targets", "takes the smaller of the two networks' maxima, as TD3 does")
def takes_the_smaller_maximum(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    smaller = np.minimum(np.max(online_next_q, axis=1), np.max(target_next_q, axis=1))
    return _shown(rewards, terminal, smaller, gamma)


@mistake("double_dqn_targets", "selects one action for the whole batch")
def selects_one_action_for_the_batch(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    _, going_on, online, target = _read(rewards, terminal, online_next_q, target_next_q)
    best = np.where(going_on[:, None] == 1, online, 0.0).sum(axis=0).argmax()
    return _shown(rewards, terminal, target[:, best], gamma)


@mistake("double_dqn_targets", "looks the selected action up in the flattened table")
def indexes_the_flattened_table(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    best = np.argmax(online_next_q, axis=1)
    return _shown(rewards, terminal, np.asarray(target_next_q).ravel()[best], gamma)


@mistake("double_dqn_targets", "rounds the online values to single precision before selecting")
def selects_in_single_precision(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    coarse = np.asarray(online_next_q, np.float32)
    return reference.double_dqn_targets(rewards, terminal, coarse, target_next_q, gamma)


@mistake("double_dqn_targets", "selects the online value of the largest magnitude")
def selects_by_magnitude(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    magnitude = np.abs(online_next_q)
    return reference.double_dqn_targets(rewards, terminal, magnitude, target_next_q, gamma)


@mistake("double_dqn_targets", "weighs the target values by the softmax of the online ones")
def selects_softly(rewards, terminal, online_next_q, target_next_q, gamma):
    reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    _, _, online, target = _read(rewards, terminal, online_next_q, target_next_q)
    weights = np.exp(online - online.max(axis=1, keepdims=True))
    soft = (weights * target).sum(axis=1) / weights.sum(axis=1)
    return _shown(rewards, terminal, soft, gamma)


@mistake("double_dqn_targets", "does not look whether the selecting network's values are finite")
def trusts_the_online_network(rewards, terminal, online_next_q, target_next_q, gamma):
    online = np.nan_to_num(np.asarray(online_next_q, float))
    return reference.double_dqn_targets(rewards, terminal, online, target_next_q, gamma)


@mistake("double_dqn_targets", "keeps the integer dtype of the rewards")
def fills_an_integer_array_twice(rewards, terminal, online_next_q, target_next_q, gamma):
    targets = np.array(rewards) if len(rewards) else np.zeros(0)
    targets[:] = reference.double_dqn_targets(
        rewards, terminal, online_next_q, target_next_q, gamma
    )
    return targets


@mistake("double_dqn_targets", "marks the selected actions in the caller's online table")
def marks_the_selection_in_place(rewards, terminal, online_next_q, target_next_q, gamma):
    targets = reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    if isinstance(online_next_q, np.ndarray):
        online_next_q[:] = np.equal(online_next_q, online_next_q.max(axis=1, keepdims=True))
    return targets


@mistake("double_dqn_targets", "works in single precision")
def backs_up_double_in_single_precision(rewards, terminal, online_next_q, target_next_q, gamma):
    exact = reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    return exact.astype(np.float32).astype(np.float64)


# --- fitted Q-evaluation -----------------------------------------------------------------------


@mistake("fqe_targets", "takes the best action's value: it evaluates the greedy policy")
def takes_the_best_action(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    return reference.dqn_targets(rewards, terminal, next_q, gamma)


@mistake("fqe_targets", "averages over the actions: it evaluates the uniform policy")
def evaluates_the_uniform_policy(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    return _shown(rewards, terminal, np.mean(next_q, axis=1), gamma)


@mistake("fqe_targets", "reads the policy's most likely action only")
def evaluates_the_most_likely_action(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    return reference.double_dqn_targets(rewards, terminal, policy_probs, next_q, gamma)


@mistake("fqe_targets", "divides the policy by its sum, although it is given as it is")
def normalises_the_policy(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    policy = np.asarray(policy_probs, float)
    policy = policy / policy.sum(axis=1, keepdims=True)
    return reference.fqe_targets(rewards, terminal, next_q, policy, gamma)


@mistake("fqe_targets", "takes the probabilities for logits and applies a softmax to them")
def takes_probabilities_for_logits(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    policy = np.exp(np.asarray(policy_probs, float))
    policy = policy / policy.sum(axis=1, keepdims=True)
    return reference.fqe_targets(rewards, terminal, next_q, policy, gamma)


@mistake(
    "fqe_targets",
    "multiplies by the terminal mask, so that 0 · NaN poisons the target of a terminal",
    report="pytorch/rl#3744",
)
def multiplies_the_expectation_by_the_mask(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    rewards, going_on, next_q, policy = _read(rewards, terminal, next_q, policy_probs)
    return rewards + gamma * going_on * (policy * next_q).sum(axis=1)


@mistake("fqe_targets", "bootstraps through a terminal state")
def bootstraps_evaluation_through_terminals(rewards, terminal, next_q, policy_probs, gamma):
    return reference.fqe_targets(rewards, _nowhere(rewards), next_q, policy_probs, gamma)


@mistake("fqe_targets", "pairs next values with the policy of the transition before")
def pairs_with_the_policy_before(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    before = np.roll(np.asarray(policy_probs, float), 1, axis=0)
    return reference.fqe_targets(rewards, terminal, next_q, before, gamma)


@mistake("fqe_targets", "transposes the policy where batch and action count are equal")
def transposes_a_square_policy(rewards, terminal, next_q, policy_probs, gamma):
    right = reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    if np.shape(next_q)[0] != np.shape(next_q)[1]:
        return right
    values = np.einsum("na,an->n", np.asarray(next_q, float), np.asarray(policy_probs, float))
    return _shown(rewards, terminal, values, gamma)


@mistake("fqe_targets", "refuses a policy whose sum misses 1 by a rounding")
def demands_an_exact_sum(rewards, terminal, next_q, policy_probs, gamma):
    if np.any(np.abs(np.sum(np.asarray(policy_probs, float), axis=1) - 1.0) > 1e-8):
        raise ValueError("probabilities do not sum to 1")
    return reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)


@mistake("fqe_targets", "does not look whether the policy sums to 1")
def trusts_the_policy(rewards, terminal, next_q, policy_probs, gamma):
    reference.dqn_targets(rewards, terminal, next_q, gamma)
    next_q, policy = np.asarray(next_q, float), np.asarray(policy_probs, float)
    return _shown(rewards, terminal, (next_q * policy).sum(axis=1), gamma)


@mistake("fqe_targets", "puts the policy's weight on the rewards too")
def weighs_the_reward(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    most = np.max(np.asarray(policy_probs, float), axis=1)
    return reference.fqe_targets(most * rewards, terminal, next_q, policy_probs, gamma)


@mistake("fqe_targets", "averages the products over the actions where it should add them up")
def averages_the_products(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    scaled = np.asarray(next_q, float) / np.shape(next_q)[1]
    return reference.fqe_targets(rewards, terminal, scaled, policy_probs, gamma)


@mistake("fqe_targets", "drops actions with less than a fifth of the probability")
def drops_unlikely_actions(rewards, terminal, next_q, policy_probs, gamma):
    reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    policy = np.asarray(policy_probs, float)
    products = np.where(policy < 0.2, 0.0, policy) * np.asarray(next_q, float)
    return _shown(rewards, terminal, products.sum(axis=1), gamma)


@mistake("fqe_targets", "works in single precision")
def evaluates_in_single_precision(rewards, terminal, next_q, policy_probs, gamma):
    exact = reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    return exact.astype(np.float32).astype(np.float64)


@mistake("fqe_targets", "keeps the integer dtype of the rewards")
def fills_an_integer_array_with_expectations(rewards, terminal, next_q, policy_probs, gamma):
    targets = np.array(rewards) if len(rewards) else np.zeros(0)
    targets[:] = reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    return targets


@mistake("fqe_targets", "clears the policy in the caller's terminal rows")
def clears_the_policy_in_place(rewards, terminal, next_q, policy_probs, gamma):
    targets = reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    if isinstance(policy_probs, np.ndarray):
        policy_probs[np.asarray(terminal) == 1] = 0
    return targets


@mistake("fqe_targets", "takes γ = 0 for a discount that was not given")
def replaces_an_evaluation_discount_of_zero(rewards, terminal, next_q, policy_probs, gamma):
    return reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma or 0.99)
