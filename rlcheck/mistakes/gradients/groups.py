"""Wrong gradients of `rlcheck.torch.groups`."""

import torch

from rlcheck.mistakes.registry import mistake
from rlcheck.torch import groups as reference


def _swapped(right, wrong):
    """The right value with the slope of the wrong one."""
    return right.detach() + wrong - wrong.detach()


def _counted(rewards, valid):
    return torch.ones_like(rewards) if valid is None else valid


@mistake("group_advantages", "holds the mean constant")
def detaches_the_mean(rewards, group_ids, *, scale="std", ddof=1, eps=1e-6, valid=None):
    options = {"scale": scale, "ddof": ddof, "eps": eps, "valid": valid}
    right = reference.group_advantages(rewards, group_ids, **options)
    own = torch.where(_counted(rewards, valid).bool(), rewards, 0.0)
    return _swapped(right, own) if scale == "none" else right


@mistake("group_advantages", "holds the standard deviation constant")
def detaches_the_deviation(rewards, group_ids, *, scale="std", ddof=1, eps=1e-6, valid=None):
    options = {"ddof": ddof, "eps": eps, "valid": valid}
    right = reference.group_advantages(rewards, group_ids, scale=scale, **options)
    centred = reference.group_advantages(rewards, group_ids, scale="none", **options)
    factor = torch.where(centred == 0, 0.0, right / centred).detach()
    return _swapped(right, factor * centred)


@mistake("group_advantages", "has the slope of a group's deviation where the batch's is due")
def slopes_like_one_group(rewards, group_ids, *, scale="std", ddof=1, eps=1e-6, valid=None):
    options = {"ddof": ddof, "eps": eps, "valid": valid}
    right = reference.group_advantages(rewards, group_ids, scale=scale, **options)
    if scale != "batch":
        return right
    return _swapped(right, reference.group_advantages(rewards, group_ids, scale="std", **options))


@mistake("group_advantages", "multiplies by the flag, which lets NaN into the gradient")
def multiplies_rewards_by_the_flag(
    rewards, group_ids, *, scale="std", ddof=1, eps=1e-6, valid=None
):
    options = {"scale": scale, "ddof": ddof, "eps": eps, "valid": valid}
    right = reference.group_advantages(rewards, group_ids, **options)
    return _swapped(right, right + rewards * rewards * _counted(rewards, valid) * 0.0)


@mistake("group_advantages", "takes the root of a variance of 0, whose slope is NaN")
def takes_the_root_of_nothing(rewards, group_ids, *, scale="std", ddof=1, eps=1e-6, valid=None):
    options = {"scale": scale, "ddof": ddof, "eps": eps, "valid": valid}
    right = reference.group_advantages(rewards, group_ids, **options)
    live = torch.where(_counted(rewards, valid).bool(), rewards, 0.0)
    root = (live - live.mean()).square().mean().sqrt()
    return _swapped(right, right + (0.0 * root if scale != "none" else 0.0))


@mistake("group_advantages", "answers without a gradient")
def compares_without_a_gradient(rewards, group_ids, *, scale="std", ddof=1, eps=1e-6, valid=None):
    options = {"scale": scale, "ddof": ddof, "eps": eps, "valid": valid}
    return reference.group_advantages(rewards, group_ids, **options).detach()


@mistake("leave_one_out_advantages", "holds the mean of the others constant")
def detaches_the_others(rewards, group_ids):
    return _swapped(reference.leave_one_out_advantages(rewards, group_ids), rewards)


@mistake("leave_one_out_advantages", "has the slope of centring by the whole group's mean")
def slopes_like_centring(rewards, group_ids):
    right = reference.leave_one_out_advantages(rewards, group_ids)
    return _swapped(right, reference.group_advantages(rewards, group_ids, scale="none"))


@mistake("leave_one_out_advantages", "answers without a gradient")
def leaves_out_without_a_gradient(rewards, group_ids):
    return reference.leave_one_out_advantages(rewards, group_ids).detach()


@mistake("leave_one_out_advantages", "pools all groups in its slope")
def slopes_over_all_groups(rewards, group_ids):
    right = reference.leave_one_out_advantages(rewards, group_ids)
    return _swapped(right, reference.leave_one_out_advantages(rewards, [0] * len(rewards)))
