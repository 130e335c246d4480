"""The twins in PyTorch: same signatures, same values in float32 too, clean under torch.compile."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rlcheck
import rlcheck.torch
from rlcheck.catalogue import FUNCTIONS, TWINS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import laws_of, run
from rlcheck.torch.advantages import scan, side_by_side

from .test_array_likes import CALLS, converted

twins = pytest.mark.parametrize("name", sorted(TWINS))
WITHOUT_GRADIENT = {
    *("dqn_targets", "double_dqn_targets", "fqe_targets", "lambda_returns"),
    *("iql_advantage_weights", "behavior_support_mask"),
}


def call(name: str, dtype: torch.dtype) -> tuple[list[Any], dict[str, Any]]:
    """The call that `test_array_likes` makes, with tensors of numbers in the given dtype."""
    args, kwargs = CALLS[name]
    whole = {"input_ids", "action", "group_ids"}
    names = list(inspect.signature(FUNCTIONS[name].reference()).parameters)

    def tensor(parameter: str, value: Any) -> Any:
        made = converted(value, torch.tensor)
        keep = parameter in whole or not isinstance(made, torch.Tensor)
        return made if keep else made.to(dtype)

    return (
        [tensor(*pair) for pair in zip(names, args, strict=False)],
        {key: tensor(key, value) for key, value in kwargs.items()},
    )


def first(answer: Any) -> torch.Tensor:
    """The first tensor of floats, or of booleans, in an answer."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    return next(part for part in parts if part.is_floating_point() or part.dtype == torch.bool)


@twins
def test_a_twin_has_the_signature_of_the_reference(name: str) -> None:
    def shape(function: Callable[..., Any]) -> list[tuple[Any, ...]]:
        parameters = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert shape(getattr(rlcheck.torch, name)) == shape(getattr(rlcheck, name))


def test_every_twin_is_exported() -> None:
    assert set(rlcheck.torch.__all__) == TWINS


@twins
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_twin_keeps_single_and_double_precision(name: str, dtype: torch.dtype) -> None:
    args, kwargs = call(name, dtype)
    got = first(getattr(rlcheck.torch, name)(*args, **kwargs))
    due = torch.float64 if dtype == torch.float64 else torch.float32
    assert got.dtype == (torch.bool if name == "behavior_support_mask" else due)
    assert got.requires_grad is False


@twins
def test_a_twin_of_lists_is_the_reference(name: str) -> None:
    args, kwargs = CALLS[name]
    got = first(getattr(rlcheck.torch, name)(*args, **kwargs))
    truth = getattr(rlcheck, name)(*args, **kwargs)
    while isinstance(truth, tuple):
        truth = next(part for part in truth if part.dtype.kind == "f")
    truth = torch.tensor(truth, dtype=torch.bool if got.dtype == torch.bool else torch.float64)
    torch.testing.assert_close(got, truth, rtol=1e-14, atol=1e-14, equal_nan=True)


@twins
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_twin_compiles_without_a_break_in_its_graph(name: str) -> None:
    args, kwargs = call(name, torch.float64)
    leaf = args[0].requires_grad_()
    twin = getattr(rlcheck.torch, name)
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    answers = [first(function(*args, **kwargs)) for function in (twin, compiled)]
    torch.testing.assert_close(*answers, equal_nan=True)
    assert [answer.requires_grad for answer in answers] == [name not in WITHOUT_GRADIENT] * 2
    if name not in WITHOUT_GRADIENT:
        slopes = [torch.autograd.grad(answer.nansum(), leaf)[0] for answer in answers]
        torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 300])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.9])
def test_both_sums_from_the_end_agree(count: int, rate: float) -> None:
    generator = torch.Generator().manual_seed(count)
    deltas = torch.randn(count, generator=generator, dtype=torch.float64)
    ends = torch.rand(count, generator=generator) < rate
    for decay in (0.0, 0.5, 1.0):
        torch.testing.assert_close(side_by_side(deltas, ends, decay), scan(deltas, ends, decay))


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_sum_from_the_end_can_be_differentiated_twice(rate: float) -> None:
    ends = torch.rand(40, generator=torch.Generator().manual_seed(0)) < rate
    deltas = torch.linspace(-1.0, 1.0, 40, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: scan(x, ends, 0.9), (deltas,))
    assert torch.autograd.gradgradcheck(lambda x: scan(x, ends, 0.9), (deltas,))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize(
    "twin",
    [
        lambda x: rlcheck.torch.generalized_advantages(
            x, x, x, 0.9, 0.8, terminated=x > 9, truncated=x > 9
        ),
        lambda x: rlcheck.torch.masked_advantages(x, x, x < 9, 0.9, 0.8),
        lambda x: (
            rlcheck.torch.causal_response_logprobs(x.reshape(1, 2, 2), [[0, 1]], [[0, 1]]).selected
        ),
    ],
)
def test_a_forward_derivative_is_refused_where_it_would_be_lost(twin: Callable[..., Any]) -> None:
    x = torch.linspace(0.0, 1.0, 4, dtype=torch.float64)
    assert torch.autograd.functional.jacobian(twin, x).abs().sum() > 0
    with pytest.raises(NotImplementedError, match="reverse mode"):
        torch.func.jacfwd(twin)(x)


# Laws that ask more than single precision can hold: their inputs are no float32 numbers, or
# their results are none. The answer is not wrong there, the question is another one.
BEYOND_SINGLE_PRECISION = {
    "sizes that float32 does not reach, in the inputs or in the result": {
        "advantages::advantages_overflow_only_where_they_are_beyond_float64",
        "advantages::lambda_returns_overflow_only_where_they_are_beyond_float64",
        "advantages::masked_advantages_overflow_only_where_they_are_beyond_float64",
        "kl::every_token_has_its_estimate",
        "kl::exchanging_policy_and_reference",
        "kl::mean_penalty_over_all_tokens_is_the_moment",
        "kl::penalties_never_reward_except_k1",
        "kl::penalties_of_distant_policies",
        "logprobs::a_repeated_sequence_is_equally_perplexing",
        "logprobs::equal_logits_are_equally_likely",
        "logprobs::every_sequence_has_a_ratio_of_its_own",
        "logprobs::improbable_sequences_have_infinite_perplexity",
        "logprobs::log_softmax_is_stable_at_extreme_logits",
        "logprobs::masked_tokens_change_no_metric",
        "logprobs::perplexity_is_the_inverse_geometric_mean_probability",
        "logprobs::sequence_ratio_is_the_product_of_its_tokens_ratios",
        "logprobs::sequence_ratio_overflows_quietly",
        "logprobs::swapping_the_policies_inverts_the_ratio",
        "offline::cql_penalty_at_the_ends_of_float64",
        "offline::expectile_loss_at_the_ends_of_float64",
        "offline::expectile_loss_scales_with_the_square",
        "offline::iql_weights_at_any_advantage",
        "offline::support_is_relative_to_the_most_frequent_action",
        "policy_gradients::a_policy_has_ratio_exactly_one_to_itself",
        "policy_gradients::aggregates_at_the_ends_of_float64",
        "policy_gradients::an_infinite_ratio_is_the_limit_of_large_ones",
        "policy_gradients::sequence_ratio_is_the_geometric_mean_of_the_tokens_ratios",
        "policy_gradients::sequence_ratio_to_the_power_of_its_length_is_that_of_the_whole",
        "policy_gradients::sequence_ratios_are_far_from_one_without_a_limit",
        "policy_gradients::token_ratios_are_far_from_one_without_a_limit",
        "policy_gradients::token_ratios_are_quotients_of_probabilities",
        "q_targets::double_dqn_targets_beyond_float64_are_infinite",
        "q_targets::dqn_targets_beyond_float64_are_infinite",
        "q_targets::fqe_targets_beyond_float64_are_infinite",
    },
    "differences that float32 rounds away before the function sees them": {
        "groups::a_large_offset_costs_a_centred_group_no_digits",
        "kl::kl_is_never_negative_and_zero_between_equals",
        "kl::kl_is_the_mean_log_ratio_under_q",
        "kl::penalties_near_zero_keep_their_digits",
        "logprobs::each_token_is_scored_by_the_logits_before_it",
        "logprobs::first_token_and_last_logits_count_for_nothing",
        "logprobs::log_softmax_forgets_a_common_offset",
        "offline::cql_penalty_does_not_notice_an_offset",
        "offline::cql_penalty_lies_between_the_gap_and_log_a_above_it",
        "q_targets::double_dqn_evaluates_the_action_that_the_online_network_selects",
        "q_targets::double_dqn_is_the_value_of_the_online_networks_greedy_policy",
        "q_targets::double_dqn_rises_with_the_evaluating_network_alone",
        "q_targets::double_dqn_tells_neighbouring_floats_apart",
        "q_targets::double_dqn_terminal_next_values_change_nothing",
    },
    "probabilities in float32 may miss their sum by more": {
        "q_targets::fqe_targets_refuse",
    },
}
EXEMPT = {law for laws in BEYOND_SINGLE_PRECISION.values() for law in laws}


def in_single_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called with float32 tensors where it is given float64 ones."""

    def single(value: Any) -> Any:
        is_double = isinstance(value, torch.Tensor) and value.dtype == torch.float64
        return value.to(torch.float32) if is_double else value

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*map(single, args), **{k: single(v) for k, v in kwargs.items()})

    return called


@twins
@pytest.mark.slow
def test_the_laws_hold_in_single_precision(name: str) -> None:
    transport = InProcess({name: in_single_precision(getattr(rlcheck.torch, name))}, tensors=True)
    for law in laws_of(FUNCTIONS[name]):
        if law.id not in EXEMPT:
            for seed in (1, 2, 3):
                verdict = run(law, transport, random_seed=seed, explicit=seed == 1)
                assert verdict.holds, (seed, law.id, verdict.message, verdict.counterexample)


def test_most_laws_can_be_asked_of_single_precision() -> None:
    known = {law.id for name in TWINS for law in laws_of(FUNCTIONS[name])}
    assert known > EXEMPT
    assert len(EXEMPT) < len(known) / 4
