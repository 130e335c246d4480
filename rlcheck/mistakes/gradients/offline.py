"""Wrong gradients of `rlcheck.torch.offline`."""

import torch

from rlcheck.mistakes.registry import mistake
from rlcheck.torch import offline as reference


def _swapped(right, wrong):
    """The right value with the slope of the wrong one."""
    return right.detach() + wrong - wrong.detach()


def _taken(q_values, action):
    action = torch.as_tensor(action)
    return q_values.gather(-1, action[..., None])[..., 0]


@mistake(
    "cql_discrete_penalty",
    "holds the soft maximum constant, so that unseen actions are not pushed down",
    report="EmptyJackson/unifloral#7",
)
def detaches_the_soft_maximum(q_values, action):
    right = reference.cql_discrete_penalty(q_values, action)
    return _swapped(right, -_taken(q_values, action))


@mistake("cql_discrete_penalty", "holds the data action's value constant")
def detaches_the_data_action(q_values, action):
    right = reference.cql_discrete_penalty(q_values, action)
    return _swapped(right, torch.logsumexp(q_values, -1))


@mistake("cql_discrete_penalty", "pushes the largest value alone")
def pushes_the_maximum_alone(q_values, action):
    right = reference.cql_discrete_penalty(q_values, action)
    return _swapped(right, q_values.amax(-1) - _taken(q_values, action))


@mistake("cql_discrete_penalty", "takes the slope of a mean over the states")
def averages_over_the_states(q_values, action):
    right = reference.cql_discrete_penalty(q_values, action)
    return _swapped(right, right.mean().expand_as(right))


@mistake("cql_discrete_penalty", "exponentiates raw values, whose slope is NaN at an overflow")
def exponentiates_raw_values(q_values, action):
    return q_values.exp().sum(-1).log() - _taken(q_values, action)


@mistake("expectile_loss", "forgets the 2 of a square's slope")
def forgets_the_two(differences, expectile=0.7, *, reduction="mean"):
    right = reference.expectile_loss(differences, expectile, reduction=reduction)
    return _swapped(right, right / 2)


@mistake("expectile_loss", "has the slope of a quantile")
def slopes_like_a_quantile(differences, expectile=0.7, *, reduction="mean"):
    right = reference.expectile_loss(differences, expectile, reduction=reduction)
    terms = torch.where(differences < 0, expectile - 1.0, expectile) * differences
    return _swapped(right, terms if reduction == "none" else terms.mean())


@mistake("expectile_loss", "weighs both sides alike in its slope")
def slopes_alike_on_both_sides(differences, expectile=0.7, *, reduction="mean"):
    right = reference.expectile_loss(differences, expectile, reduction=reduction)
    terms = expectile * differences * differences
    return _swapped(right, terms if reduction == "none" else terms.mean())


@mistake("expectile_loss", "answers with the slope of a sum")
def sums_in_its_slope(differences, expectile=0.7, *, reduction="mean"):
    right = reference.expectile_loss(differences, expectile, reduction=reduction)
    return _swapped(right, right * differences.numel()) if reduction == "mean" else right


@mistake("expectile_loss", "averages in the slope of its terms")
def averages_the_slope_of_terms(differences, expectile=0.7, *, reduction="mean"):
    right = reference.expectile_loss(differences, expectile, reduction=reduction)
    return _swapped(right, right / differences.numel()) if reduction == "none" else right


@mistake("iql_advantage_weights", "lets the gradient into the critics")
def follows_the_advantages(advantages, beta=3.0, max_weight=100.0):
    return (beta * advantages).exp().clamp(max=max_weight)


@mistake("iql_advantage_weights", "lets the gradient in where a weight reaches its bound")
def follows_the_bounded(advantages, beta=3.0, max_weight=100.0):
    right = reference.iql_advantage_weights(advantages, beta, max_weight)
    return _swapped(right, torch.where(right == max_weight, advantages, 0.0))
