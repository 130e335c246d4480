"""Wrong gradients of `rlcheck.torch.logprobs`."""

import torch

from rlcheck.mistakes.registry import mistake
from rlcheck.torch import logprobs as reference


@mistake("stable_log_softmax", "holds the normaliser constant")
def detaches_the_normaliser(logits, axis=-1):
    return logits - torch.logsumexp(logits, axis, keepdim=True).detach()


@mistake("stable_log_softmax", "takes the logarithm of a softmax, whose slope is NaN at 0")
def differentiates_the_log_of_a_softmax(logits, axis=-1):
    return torch.softmax(logits, axis).log()


@mistake("stable_log_softmax", "holds the logits constant in the numerator")
def detaches_the_numerator(logits, axis=-1):
    return logits.detach() - torch.logsumexp(logits, axis, keepdim=True)


@mistake("stable_log_softmax", "answers without a gradient")
def answers_without_a_gradient(logits, axis=-1):
    return reference.stable_log_softmax(logits, axis).detach()


def _gathered(logprobs, input_ids, response_mask):
    ids, mask = input_ids[:, 1:], response_mask[:, 1:].bool()
    known = ids.clamp(0, max(logprobs.shape[-1] - 1, 0))
    return logprobs[:, :-1].gather(-1, known[..., None])[..., 0], mask


@mistake("causal_response_logprobs", "multiplies by the mask, which lets NaN into the gradient")
def multiplies_by_the_mask(logits, input_ids, response_mask):
    selected, mask = _gathered(logits.log_softmax(-1), input_ids, response_mask)
    return reference.ResponseLogprobs(selected * mask, mask)


@mistake("causal_response_logprobs", "pushes the token alone, not the others down")
def pushes_the_token_alone(logits, input_ids, response_mask):
    normaliser = torch.logsumexp(logits, -1, keepdim=True).detach()
    return reference.ResponseLogprobs(*_gathered(logits - normaliser, input_ids, response_mask))


@mistake("causal_response_logprobs", "sends the gradient to the row of the token itself")
def pushes_the_row_of_the_token(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    ids = input_ids.clamp(0, logits.shape[-1] - 1)
    own = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0][:, 1:]
    value = right.selected.detach()
    return reference.ResponseLogprobs(value + own - own.detach(), right.shifted_mask)


@mistake("causal_response_logprobs", "answers without a gradient")
def scores_without_a_gradient(logits, input_ids, response_mask):
    right = reference.causal_response_logprobs(logits, input_ids, response_mask)
    return reference.ResponseLogprobs(right.selected.detach(), right.shifted_mask)


@mistake("masked_sequence_metrics", "multiplies by the mask, which lets NaN into the gradient")
def multiplies_metrics_by_the_mask(selected, mask):
    count = mask.sum(-1)
    total = (selected * mask).sum(-1)
    return reference.SequenceMetrics(count, total, (-total / count).exp())


@mistake("masked_sequence_metrics", "divides by the width in the slope of perplexity")
def shares_perplexity_among_the_width(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    mean = torch.where(mask.bool(), selected, 0.0).mean(-1)
    slope = right.perplexity.detach() * (mean.detach() - mean)
    return right._replace(perplexity=right.perplexity.detach() + slope)


@mistake("masked_sequence_metrics", "answers without a gradient")
def sums_without_a_gradient(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    return reference.SequenceMetrics(*(field.detach() for field in right))


@mistake("masked_sequence_metrics", "averages in the slope of the sum")
def averages_the_slope_of_the_sum(selected, mask):
    right = reference.masked_sequence_metrics(selected, mask)
    slope = right.sum_logprob / mask.sum(-1).clamp(min=1)
    return right._replace(sum_logprob=right.sum_logprob.detach() + slope - slope.detach())


@mistake("sequence_logprob_ratio", "multiplies by the mask, which lets NaN into the gradient")
def multiplies_ratio_by_the_mask(new_logprobs, old_logprobs, mask=None):
    difference = new_logprobs - old_logprobs
    return (difference if mask is None else difference * mask).sum(-1).exp()


@mistake("sequence_logprob_ratio", "holds the ratio constant and differentiates its logarithm")
def differentiates_the_log_ratio(new_logprobs, old_logprobs, mask=None):
    ratio = reference.sequence_logprob_ratio(new_logprobs, old_logprobs, mask)
    active = torch.ones_like(new_logprobs) if mask is None else mask
    log_ratio = torch.where(active.bool(), new_logprobs - old_logprobs, 0.0).sum(-1)
    return ratio.detach() + log_ratio - log_ratio.detach()


@mistake("sequence_logprob_ratio", "multiplies an infinite ratio by a gradient of 0")
def multiplies_infinity_by_nothing(new_logprobs, old_logprobs, mask=None):
    active = torch.ones_like(new_logprobs) if mask is None else mask
    new = torch.where(active.bool(), new_logprobs, 0.0)
    return (new - torch.where(active.bool(), old_logprobs, 0.0)).sum(-1).exp()
