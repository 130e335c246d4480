"""Wrong gradients of `rlcheck.torch.policy_gradients`."""

import torch

from rlcheck.mistakes.registry import mistake
from rlcheck.torch import policy_gradients as reference


def _swapped(right, wrong):
    """The right value with the slope of the wrong one."""
    return right.detach() + wrong - wrong.detach()


def _log_ratio(new_logprobs, old_logprobs, mask):
    active = mask.bool()
    return torch.where(active, new_logprobs, 0.0) - torch.where(active, old_logprobs, 0.0)


@mistake("importance_ratios", "multiplies by the mask, which lets NaN into the gradient")
def multiplies_ratios_by_the_mask(new_logprobs, old_logprobs, mask, *, level="token"):
    right = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    ratio = (new_logprobs - old_logprobs).exp() * mask + (1 - mask)
    return torch.where(mask.bool(), right, ratio) if level == "token" else right


@mistake("importance_ratios", "holds the ratio constant and differentiates its logarithm")
def differentiates_the_log_of_a_ratio(new_logprobs, old_logprobs, mask, *, level="token"):
    right = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    log_ratio = _log_ratio(new_logprobs, old_logprobs, mask)
    return _swapped(right, log_ratio) if level == "token" else right


@mistake("importance_ratios", "slopes by the sum of a sequence's log-ratios, not by their mean")
def slopes_by_the_sum(new_logprobs, old_logprobs, mask, *, level="token"):
    right = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    if level == "token":
        return right
    total = _log_ratio(new_logprobs, old_logprobs, mask).sum(-1, keepdim=True)
    return _swapped(right, torch.where(mask.bool(), right.detach() * total, 0.0))


@mistake("importance_ratios", "gives each token the slope of its own log-ratio in a sequence")
def slopes_token_by_token(new_logprobs, old_logprobs, mask, *, level="token"):
    right = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    if level == "token":
        return right
    own = _log_ratio(new_logprobs, old_logprobs, mask)
    return _swapped(right, torch.where(mask.bool(), right.detach() * own, 0.0))


@mistake("importance_ratios", "shares a sequence's slope among the padded width")
def shares_among_the_padded_width(new_logprobs, old_logprobs, mask, *, level="token"):
    right = reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level)
    if level == "token":
        return right
    mean = _log_ratio(new_logprobs, old_logprobs, mask).mean(-1, keepdim=True)
    return _swapped(right, torch.where(mask.bool(), right.detach() * mean, 0.0))


@mistake("importance_ratios", "multiplies an infinite ratio by a gradient of 0")
def multiplies_an_infinite_ratio_by_nothing(new_logprobs, old_logprobs, mask, *, level="token"):
    log_ratio = _log_ratio(new_logprobs, old_logprobs, mask)
    if level == "sequence":
        log_ratio = log_ratio.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(mask.bool(), log_ratio.exp(), 1.0)


@mistake("importance_ratios", "answers without a gradient")
def compares_policies_without_a_gradient(new_logprobs, old_logprobs, mask, *, level="token"):
    return reference.importance_ratios(new_logprobs, old_logprobs, mask, level=level).detach()


@mistake("clipped_policy_terms", "follows the ratio where it is clipped")
def follows_a_clipped_ratio(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    options = {"clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip}
    right = reference.clipped_policy_terms(ratios, advantages, **options)
    return _swapped(right, -ratios.clamp(max=1e9) * advantages)


@mistake("clipped_policy_terms", "stops at both clips whatever the sign of the advantage")
def stops_at_both_clips(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    options = {"clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip}
    right = reference.clipped_policy_terms(ratios, advantages, **options)
    bound = torch.inf if dual_clip is None else dual_clip
    clipped = ratios.clamp(1 - clip_low, min(1 + clip_high, bound))
    return torch.where(right.isinf(), right, _swapped(right, -clipped * advantages))


@mistake(
    "clipped_policy_terms",
    "never stops at the dual clip",
    report="THUDM/slime#2247, RLinf/RLinf#316",
)
def slopes_beyond_the_dual_clip(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    options = {"clip_low": clip_low, "clip_high": clip_high}
    right = reference.clipped_policy_terms(ratios, advantages, **options, dual_clip=dual_clip)
    wrong = reference.clipped_policy_terms(ratios.clamp(max=1e9), advantages, **options)
    return torch.where(right.isinf(), right, _swapped(right, wrong))


@mistake(
    "clipped_policy_terms",
    "stops at the dual clip for positive advantages too",
    report="thu-ml/tianshou#433",
)
def stops_positive_advantages_at_the_dual_clip(
    ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None
):
    options = {"clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip}
    right = reference.clipped_policy_terms(ratios, advantages, **options)
    return right if dual_clip is None else torch.where(advantages > 0, right.detach(), right)


@mistake("clipped_policy_terms", "multiplies an infinite ratio by 0")
def makes_nan_of_an_infinite_ratio(
    ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None
):
    options = {"clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip}
    right = reference.clipped_policy_terms(ratios, advantages, **options)
    return _swapped(right, right + ratios * ratios * 0.0)


@mistake("clipped_policy_terms", "slopes against the loss")
def slopes_against_the_loss(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    options = {"clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip}
    right = reference.clipped_policy_terms(ratios, advantages, **options)
    return torch.where(right.isinf(), right, _swapped(right, -right))


@mistake("clipped_policy_terms", "answers without a gradient")
def clips_without_a_gradient(ratios, advantages, *, clip_low=0.2, clip_high=0.2, dual_clip=None):
    options = {"clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip}
    return reference.clipped_policy_terms(ratios, advantages, **options).detach()


@mistake(
    "aggregate_token_losses",
    "multiplies by the mask, which lets NaN into the gradient",
    report="verl-project/verl#2377, OpenRLHF/OpenRLHF#1240",
)
def multiplies_slopes_by_the_mask(losses, mask, mode, *, max_length=None):
    right = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return _swapped(right, right + (losses * losses * mask * 0.0).sum())


@mistake(
    "aggregate_token_losses", "lets the gradient in behind the mask", report="alibaba/ROLL#444"
)
def slopes_behind_the_mask(losses, mask, mode, *, max_length=None):
    right = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return _swapped(right, right + losses.sum() / mask.sum().clamp(min=1))


@mistake("aggregate_token_losses", "weighs tokens as the token mean does, in every mode")
def slopes_like_the_token_mean(losses, mask, mode, *, max_length=None):
    right = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return _swapped(right, reference.aggregate_token_losses(losses, mask, "token-mean"))


@mistake("aggregate_token_losses", "weighs tokens as the mean of means does, in every mode")
def slopes_like_the_mean_of_means(losses, mask, mode, *, max_length=None):
    right = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return _swapped(right, reference.aggregate_token_losses(losses, mask, "seq-mean-token-mean"))


@mistake(
    "aggregate_token_losses",
    "forgets the mean over rows in its slope",
    report="verl-project/verl#3741, verl-project/verl#4510, verl-project/verl#5366",
)
def slopes_without_the_batch_mean(losses, mask, mode, *, max_length=None):
    right = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    return _swapped(right, right * len(losses)) if mode.startswith("seq-mean-token-sum") else right


@mistake(
    "aggregate_token_losses",
    "divides by no tokens, so that an empty mask has a slope of NaN",
    report="huggingface/trl#3248, verl-project/verl#782",
)
def divides_the_slope_by_nothing(losses, mask, mode, *, max_length=None):
    right = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    if mode != "token-mean":
        return right
    return _swapped(right, (losses.nan_to_num() * (mask / mask.sum())).sum())


@mistake("aggregate_token_losses", "counts rows without tokens in the slope of the mean of means")
def slopes_over_rows_without_tokens(losses, mask, mode, *, max_length=None):
    right = reference.aggregate_token_losses(losses, mask, mode, max_length=max_length)
    if mode != "seq-mean-token-mean":
        return right
    alive = (mask.sum(1) > 0).sum()
    return _swapped(right, right * alive / len(losses))


@mistake("aggregate_token_losses", "answers without a gradient")
def aggregates_without_a_gradient(losses, mask, mode, *, max_length=None):
    return reference.aggregate_token_losses(losses, mask, mode, max_length=max_length).detach()
