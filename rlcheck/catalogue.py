"""Which functions there are, in which module each lives, and in which part of the course."""

import inspect
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Function:
    """A public function: its name, its module in `rlcheck`, its part of the course."""

    name: str
    module: str
    course: str

    def reference(self) -> Any:
        """rlcheck's own implementation."""
        return getattr(import_module(f"rlcheck.{self.module}"), self.name)

    @property
    def parameters(self) -> list[str]:
        """The names of its arguments, in order."""
        return list(inspect.signature(self.reference()).parameters)

    @property
    def has_twin(self) -> bool:
        """Whether `rlcheck.torch` has a differentiable twin of it."""
        return self.name in TWINS

    def twin(self) -> Any:
        """rlcheck's own implementation in PyTorch."""
        return getattr(import_module("rlcheck.torch"), self.name)


_BY_COURSE = {
    "module-11": {
        "returns": (
            "discounted_return",
            "td_residuals",
            "discounted_td_sum",
            "semi_markov_return",
            "collector_target",
        ),
        "shaping": ("potential_shaping", "shaped_return_identity"),
        "turns": (
            "macro_action_logprob",
            "turn_probability_ratio",
            "semantic_action_probability",
        ),
        "groups": ("informative_group_probability",),
        "masks": ("trajectory_mask_report",),
        "rollouts": ("validate_rollout_record",),
    },
    "module-6": {
        "logprobs": (
            "stable_log_softmax",
            "causal_response_logprobs",
            "masked_sequence_metrics",
            "sequence_logprob_ratio",
        ),
        "kl": ("exact_kl_from_logits", "kl_estimator_moments"),
        "decoding": ("decoding_distribution_with_order", "behavior_logprob"),
        "rollouts": ("classify_stop_event", "validate_rollout_batch"),
    },
    "module-5": {
        "returns": ("return_to_go",),
        "q_targets": ("dqn_targets", "double_dqn_targets", "fqe_targets"),
        "offline": (
            "cql_discrete_penalty",
            "expectile_loss",
            "iql_advantage_weights",
            "behavior_support_mask",
        ),
    },
    "policy-gradients": {
        "advantages": ("generalized_advantages", "lambda_returns", "masked_advantages"),
        "groups": ("group_advantages", "leave_one_out_advantages"),
        "policy_gradients": (
            "importance_ratios",
            "clipped_policy_terms",
            "aggregate_token_losses",
        ),
        "kl": ("kl_penalty_terms",),
    },
}

TWINS = frozenset(
    [
        *("stable_log_softmax", "causal_response_logprobs"),
        *("masked_sequence_metrics", "sequence_logprob_ratio", "exact_kl_from_logits"),
        *_BY_COURSE["module-5"]["q_targets"],
        *_BY_COURSE["module-5"]["offline"],
        *(name for names in _BY_COURSE["policy-gradients"].values() for name in names),
    ]
)

FUNCTIONS: dict[str, Function] = {
    name: Function(name, module, course)
    for course, modules in _BY_COURSE.items()
    for module, names in modules.items()
    for name in names
}
COURSES: tuple[str, ...] = tuple(_BY_COURSE)
MODULES: tuple[str, ...] = tuple(dict.fromkeys(f.module for f in FUNCTIONS.values()))


def select(wanted: list[str] | tuple[str, ...]) -> tuple[Function, ...]:
    """The functions that names of functions, modules or course parts stand for.

    Nothing wanted means all of them. The catalogue's order is kept.

    Raises:
        ValueError: a name that is none of these; the text suggests a near one.
    """
    for name in wanted:
        known = [*FUNCTIONS, *MODULES, *COURSES]
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"{name!r} is no function, module or course part of rlcheck{hint}")
    return tuple(
        function
        for function in FUNCTIONS.values()
        if not wanted or {function.name, function.module, function.course} & set(wanted)
    )
