"""Wrong gradients of `rlcheck.torch.q_targets`: targets that are not constants."""

import torch

from rlcheck.mistakes.registry import mistake
from rlcheck.torch import q_targets as reference


def _followed(right, wrong):
    return right + wrong - wrong.detach()


@mistake("dqn_targets", "lets the gradient into the value that it bootstraps from")
def follows_the_maximum(rewards, terminal, next_q, gamma):
    live = torch.where(terminal.bool()[:, None], 0.0, next_q)
    return _followed(reference.dqn_targets(rewards, terminal, next_q, gamma), gamma * live.amax(1))


@mistake("dqn_targets", "lets the gradient into the value of a terminal state")
def follows_a_terminal(rewards, terminal, next_q, gamma):
    ended = torch.where(terminal.bool()[:, None], next_q, 0.0)
    return _followed(reference.dqn_targets(rewards, terminal, next_q, gamma), ended.sum(1))


@mistake("double_dqn_targets", "lets the gradient into the target network")
def follows_the_target_network(rewards, terminal, online_next_q, target_next_q, gamma):
    right = reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    chosen = online_next_q.argmax(1, keepdim=True)
    return _followed(right, gamma * target_next_q.gather(1, chosen)[:, 0])


@mistake("double_dqn_targets", "lets the gradient into the online network")
def follows_the_online_network(rewards, terminal, online_next_q, target_next_q, gamma):
    right = reference.double_dqn_targets(rewards, terminal, online_next_q, target_next_q, gamma)
    return _followed(right, gamma * online_next_q.amax(1))


@mistake("fqe_targets", "lets the gradient into the value that it bootstraps from")
def follows_the_expectation(rewards, terminal, next_q, policy_probs, gamma):
    right = reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    return _followed(right, gamma * (policy_probs.detach() * next_q).sum(1))


@mistake("fqe_targets", "lets the gradient into the policy")
def follows_the_policy(rewards, terminal, next_q, policy_probs, gamma):
    right = reference.fqe_targets(rewards, terminal, next_q, policy_probs, gamma)
    return _followed(right, gamma * (policy_probs * next_q.detach()).sum(1))
