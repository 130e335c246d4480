"""rlcheck: is the mathematics of your reinforcement learning for language models right?"""

from rlcheck.advantages import (
    generalized_advantages,
    lambda_returns,
    masked_advantages,
)
from rlcheck.checking import (
    check,
    laws,
)
from rlcheck.decoding import (
    behavior_logprob,
    decoding_distribution_with_order,
)
from rlcheck.groups import (
    group_advantages,
    informative_group_probability,
    leave_one_out_advantages,
)
from rlcheck.kl import (
    exact_kl_from_logits,
    kl_estimator_moments,
    kl_penalty_terms,
)
from rlcheck.logprobs import (
    ResponseLogprobs,
    SequenceMetrics,
    causal_response_logprobs,
    masked_sequence_metrics,
    sequence_logprob_ratio,
    stable_log_softmax,
)
from rlcheck.masks import (
    MaskReport,
    trajectory_mask_report,
)
from rlcheck.offline import (
    behavior_support_mask,
    cql_discrete_penalty,
    expectile_loss,
    iql_advantage_weights,
)
from rlcheck.policy_gradients import (
    aggregate_token_losses,
    clipped_policy_terms,
    importance_ratios,
)
from rlcheck.q_targets import (
    double_dqn_targets,
    dqn_targets,
    fqe_targets,
)
from rlcheck.returns import (
    collector_target,
    discounted_return,
    discounted_td_sum,
    return_to_go,
    semi_markov_return,
    td_residuals,
)
from rlcheck.rollouts import (
    BatchSummary,
    StopEvent,
    classify_stop_event,
    validate_rollout_batch,
    validate_rollout_record,
)
from rlcheck.shaping import (
    ShapedReturns,
    potential_shaping,
    shaped_return_identity,
)
from rlcheck.turns import (
    macro_action_logprob,
    semantic_action_probability,
    turn_probability_ratio,
)

__version__ = "0.1.0"

__all__ = [
    "BatchSummary",
    "MaskReport",
    "ResponseLogprobs",
    "SequenceMetrics",
    "ShapedReturns",
    "StopEvent",
    "aggregate_token_losses",
    "behavior_logprob",
    "behavior_support_mask",
    "causal_response_logprobs",
    "check",
    "classify_stop_event",
    "clipped_policy_terms",
    "collector_target",
    "cql_discrete_penalty",
    "decoding_distribution_with_order",
    "discounted_return",
    "discounted_td_sum",
    "double_dqn_targets",
    "dqn_targets",
    "exact_kl_from_logits",
    "expectile_loss",
    "fqe_targets",
    "generalized_advantages",
    "group_advantages",
    "importance_ratios",
    "informative_group_probability",
    "iql_advantage_weights",
    "kl_estimator_moments",
    "kl_penalty_terms",
    "lambda_returns",
    "laws",
    "leave_one_out_advantages",
    "macro_action_logprob",
    "masked_advantages",
    "masked_sequence_metrics",
    "potential_shaping",
    "return_to_go",
    "semantic_action_probability",
    "semi_markov_return",
    "sequence_logprob_ratio",
    "shaped_return_identity",
    "stable_log_softmax",
    "td_residuals",
    "trajectory_mask_report",
    "turn_probability_ratio",
    "validate_rollout_batch",
    "validate_rollout_record",
]
