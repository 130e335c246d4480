"""Wrong gradients of `rlcheck.torch.advantages`."""

import torch

from rlcheck.mistakes.registry import mistake
from rlcheck.torch import advantages as reference


def _swapped(right, wrong):
    """The right value with the slope of the wrong one."""
    return right.detach() + wrong - wrong.detach()


@mistake("generalized_advantages", "multiplies by the flag, which lets NaN into the gradient")
def multiplies_the_next_value_by_the_flag(
    rewards, values, next_values, gamma, lam, *, terminated, truncated
):
    right = reference.generalized_advantages(
        rewards, values, next_values, gamma, lam, terminated=terminated, truncated=truncated
    )
    return _swapped(right, right + (next_values * next_values * (1 - terminated) * 0.0))


@mistake("generalized_advantages", "sends a gradient through a true ending")
def slopes_through_a_terminal(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    right = reference.generalized_advantages(rewards, values, next_values, gamma, lam, **flags)
    ended = torch.where(terminated.bool(), next_values, 0.0)
    return _swapped(right, right + gamma * ended)


@mistake(
    "generalized_advantages",
    "carries the slope over a time limit into the next episode",
    report="Toni-SM/skrl#449, Toni-SM/skrl#438",
)
def slopes_over_a_time_limit(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    right = reference.generalized_advantages(rewards, values, next_values, gamma, lam, **flags)
    flags["truncated"] = torch.zeros_like(truncated)
    wrong = reference.generalized_advantages(rewards, values, next_values, gamma, lam, **flags)
    return _swapped(right, wrong)


@mistake("generalized_advantages", "answers without a gradient")
def estimates_advantages_without_a_gradient(
    rewards, values, next_values, gamma, lam, *, terminated, truncated
):
    return reference.generalized_advantages(
        rewards, values, next_values, gamma, lam, terminated=terminated, truncated=truncated
    ).detach()


@mistake("generalized_advantages", "holds what is bootstrapped constant")
def detaches_the_bootstrap(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    return reference.generalized_advantages(
        *(rewards, values, next_values.detach(), gamma, lam),
        terminated=terminated,
        truncated=truncated,
    )


@mistake("generalized_advantages", "has the slope of the temporal difference alone")
def slopes_one_step(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    right = reference.generalized_advantages(rewards, values, next_values, gamma, lam, **flags)
    wrong = reference.generalized_advantages(rewards, values, next_values, gamma, 0.0, **flags)
    return _swapped(right, wrong)


@mistake("lambda_returns", "lets the gradient into the values that it bootstraps from")
def follows_the_bootstrap(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    right = reference.lambda_returns(rewards, values, next_values, gamma, lam, **flags)
    wrong = reference.generalized_advantages(
        rewards.detach(), values.detach(), next_values, gamma, lam, **flags
    )
    return _swapped(right, wrong)


@mistake("lambda_returns", "lets the gradient into the rewards")
def follows_the_rewards(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    right = reference.lambda_returns(rewards, values, next_values, gamma, lam, **flags)
    return _swapped(right, rewards)


@mistake("lambda_returns", "lets the gradient into the values that it is to be compared with")
def follows_the_values(rewards, values, next_values, gamma, lam, *, terminated, truncated):
    flags = {"terminated": terminated, "truncated": truncated}
    right = reference.lambda_returns(rewards, values, next_values, gamma, lam, **flags)
    return _swapped(right, values)


@mistake("masked_advantages", "multiplies values by the mask, which lets NaN into the gradient")
def multiplies_values_by_the_mask(token_rewards, values, mask, gamma, lam):
    right = reference.masked_advantages(token_rewards, values, mask, gamma, lam)
    return _swapped(right, right + values * values * mask * 0.0)


@mistake(
    "masked_advantages",
    "sends no gradient to a reward on a token of a tool",
    report="radixark/miles#1827",
)
def slopes_on_policy_tokens_alone(token_rewards, values, mask, gamma, lam):
    held = torch.where(mask.bool(), token_rewards, token_rewards.detach())
    return reference.masked_advantages(held, values, mask, gamma, lam)


@mistake("masked_advantages", "discounts by the tokens of tools in its slope")
def slopes_over_every_token(token_rewards, values, mask, gamma, lam):
    right = reference.masked_advantages(token_rewards, values, mask, gamma, lam)
    live = torch.where(mask.bool(), values, 0.0)
    wrong = reference.masked_advantages(token_rewards, live, torch.ones_like(mask), gamma, lam)
    return _swapped(right, torch.where(mask.bool(), wrong, 0.0))


@mistake("masked_advantages", "holds the value of the next token constant")
def slopes_without_the_next_value(token_rewards, values, mask, gamma, lam):
    right = reference.masked_advantages(token_rewards, values, mask, gamma, lam)
    own = torch.where(mask.bool(), token_rewards - values, 0.0)
    return _swapped(right, own)


@mistake("masked_advantages", "answers without a gradient")
def masks_without_a_gradient(token_rewards, values, mask, gamma, lam):
    return reference.masked_advantages(token_rewards, values, mask, gamma, lam).detach()
