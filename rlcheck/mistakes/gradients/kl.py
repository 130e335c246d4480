"""Wrong gradients of `rlcheck.torch.kl`."""

import torch

from rlcheck.mistakes.registry import mistake
from rlcheck.torch import kl as reference


def _swapped(right, wrong):
    """The right value with the slope of the wrong one."""
    return right.detach() + wrong - wrong.detach()


@mistake("exact_kl_from_logits", "lets 0 · (−∞) into the gradient where q is 0")
def multiplies_no_probability_by_infinity(q_logits, p_logits, axis=-1):
    log_q, log_p = q_logits.log_softmax(axis), p_logits.log_softmax(axis)
    terms = log_q.exp() * (log_q - log_p)
    return torch.where(log_q > -torch.inf, terms, 0.0).sum(axis)


@mistake("exact_kl_from_logits", "holds the probabilities constant in front of the log-ratio")
def detaches_the_probabilities(q_logits, p_logits, axis=-1):
    log_q, log_p = q_logits.log_softmax(axis), p_logits.log_softmax(axis)
    possible = log_q > -torch.inf
    log_ratio = torch.where(possible, log_q, 0.0) - torch.where(possible, log_p, 0.0)
    wrong = (log_q.exp().detach() * log_ratio).sum(axis)
    return _swapped(reference.exact_kl_from_logits(q_logits, p_logits, axis), wrong)


@mistake("exact_kl_from_logits", "holds the log-ratio constant behind the probabilities")
def detaches_the_log_ratio(q_logits, p_logits, axis=-1):
    log_q, log_p = q_logits.log_softmax(axis), p_logits.log_softmax(axis)
    log_ratio = torch.where(log_q > -torch.inf, log_q - log_p, 0.0).detach()
    wrong = (log_q.exp() * log_ratio).sum(axis)
    return _swapped(reference.exact_kl_from_logits(q_logits, p_logits, axis), wrong)


@mistake("exact_kl_from_logits", "holds the other distribution constant")
def detaches_the_other_distribution(q_logits, p_logits, axis=-1):
    return reference.exact_kl_from_logits(q_logits, p_logits.detach(), axis)


@mistake("exact_kl_from_logits", "descends the reversed divergence")
def descends_the_reversed_divergence(q_logits, p_logits, axis=-1):
    wrong = reference.exact_kl_from_logits(p_logits, q_logits, axis)
    return _swapped(reference.exact_kl_from_logits(q_logits, p_logits, axis), wrong)


@mistake("kl_penalty_terms", "has the slope of k2 in every estimator")
def slopes_like_k2(logprobs, ref_logprobs, estimator):
    right = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return _swapped(right, reference.kl_penalty_terms(logprobs, ref_logprobs, "k2"))


@mistake("kl_penalty_terms", "has the slope of k1 in every estimator")
def slopes_like_k1(logprobs, ref_logprobs, estimator):
    right = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return _swapped(right, reference.kl_penalty_terms(logprobs, ref_logprobs, "k1"))


@mistake(
    "kl_penalty_terms",
    "has the slope of k3 where k2's is due",
    report="verl-project/verl#2953, verl-project/verl#6058, OpenRLHF/OpenRLHF#1101",
)
def slopes_like_k3(logprobs, ref_logprobs, estimator):
    right = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    if estimator != "k2":
        return right
    return _swapped(right, reference.kl_penalty_terms(logprobs, ref_logprobs, "k3"))


@mistake("kl_penalty_terms", "forgets the ½ of k2 in its slope", report="one-covenant/grail#42")
def doubles_the_slope_of_k2(logprobs, ref_logprobs, estimator):
    right = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return _swapped(right, 2 * right) if estimator == "k2" else right


@mistake("kl_penalty_terms", "holds the ratio constant in k3, whose slope is then that of k1")
def detaches_the_ratio(logprobs, ref_logprobs, estimator):
    right = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return _swapped(right, logprobs - ref_logprobs) if estimator == "k3" else right


@mistake("kl_penalty_terms", "answers without a gradient")
def estimates_without_a_gradient(logprobs, ref_logprobs, estimator):
    return reference.kl_penalty_terms(logprobs, ref_logprobs, estimator).detach()


@mistake(
    "kl_penalty_terms",
    "multiplies an infinite ratio by a gradient of 0",
    report="huggingface/trl#6637, huggingface/trl#5984",
)
def multiplies_an_infinite_ratio(logprobs, ref_logprobs, estimator):
    log_r = ref_logprobs - logprobs
    if estimator != "k3":
        return reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    return log_r.exp() - 1 - log_r


@mistake("kl_penalty_terms", "has no slope where the log-ratio exceeds its cap")
def caps_the_log_ratio(logprobs, ref_logprobs, estimator):
    right = reference.kl_penalty_terms(logprobs, ref_logprobs, estimator)
    capped = (ref_logprobs - logprobs).clamp(-2.0, 2.0)
    zero = torch.zeros_like(capped)
    return _swapped(right, reference.kl_penalty_terms(-capped, zero, estimator))
