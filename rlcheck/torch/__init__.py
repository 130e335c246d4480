"""Twins of rlcheck's functions for trainers, in PyTorch.

Same names, arguments, values and refusals as in `rlcheck`, and besides:

- differentiable, with no gradient to what a mask hides or a clip cuts off, and never NaN there;
- tensors keep their device, and float32 or float64; half precision is promoted to float32;
- targets and weights, which a loss takes as constants, carry no gradient;
- `torch.compile(fullgraph=True)` compiles them; values are not checked then, shapes are.
"""

from rlcheck.torch.advantages import (
    generalized_advantages,
    lambda_returns,
    masked_advantages,
)
from rlcheck.torch.groups import (
    group_advantages,
    leave_one_out_advantages,
)
from rlcheck.torch.kl import (
    exact_kl_from_logits,
    kl_penalty_terms,
)
from rlcheck.torch.logprobs import (
    causal_response_logprobs,
    masked_sequence_metrics,
    sequence_logprob_ratio,
    stable_log_softmax,
)
from rlcheck.torch.offline import (
    behavior_support_mask,
    cql_discrete_penalty,
    expectile_loss,
    iql_advantage_weights,
)
from rlcheck.torch.policy_gradients import (
    aggregate_token_losses,
    clipped_policy_terms,
    importance_ratios,
)
from rlcheck.torch.q_targets import (
    double_dqn_targets,
    dqn_targets,
    fqe_targets,
)

__all__ = [
    "aggregate_token_losses",
    "behavior_support_mask",
    "causal_response_logprobs",
    "clipped_policy_terms",
    "cql_discrete_penalty",
    "double_dqn_targets",
    "dqn_targets",
    "exact_kl_from_logits",
    "expectile_loss",
    "fqe_targets",
    "generalized_advantages",
    "group_advantages",
    "importance_ratios",
    "iql_advantage_weights",
    "kl_penalty_terms",
    "lambda_returns",
    "leave_one_out_advantages",
    "masked_advantages",
    "masked_sequence_metrics",
    "sequence_logprob_ratio",
    "stable_log_softmax",
]
