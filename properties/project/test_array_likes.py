"""The reference reads every array-like of the contract, and changes none of them."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import rlcheck

# A call for each function of arrays; vectors and tables are the lists among the arguments.
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "discounted_return": (([1, 0, 2], 0.5), {}),
    "td_residuals": (([1, 0, 2], [3, 1, 4, 1], 0.5, [0, 1, 0]), {}),
    "discounted_td_sum": (([1, 0, 2], 0.5), {}),
    "semi_markov_return": (([1, 0, 2], [2, 3, 1], 0.5), {}),
    "collector_target": (([1, 0], [3, 4]), {"gamma": 0.5, "terminated": [1, 0]}),
    "potential_shaping": (([1, 0, 2], [3, 1, 4, 1], 0.5), {}),
    "shaped_return_identity": (([1, 0, 2], [3, 1, 4, 1], 0.5), {}),
    "macro_action_logprob": (([-1, -2, 0],), {}),
    "turn_probability_ratio": (([-1, -2], [-2, -1]), {}),
    "stable_log_softmax": (([[1, 2], [4, 3]],), {}),
    "causal_response_logprobs": (([[[1, 2], [4, 3], [0, 1]]], [[0, 1, 0]], [[0, 1, 1]]), {}),
    "masked_sequence_metrics": (([[-1, -2], [0, -3]], [[1, 1], [0, 1]]), {}),
    "sequence_logprob_ratio": (([[-1, -2], [0, -3]], [[-2, -1], [0, -1]], [[1, 1], [0, 1]]), {}),
    "exact_kl_from_logits": (([[1, 2], [4, 3]], [[0, 1], [1, 0]]), {}),
    "kl_estimator_moments": (([0.5, 0.25, 0.25], [0.25, 0.5, 0.25]), {}),
    "decoding_distribution_with_order": (
        ([1, 2, 3],),
        {"temperature": 2, "top_k": 2, "top_p": 1, "order": ["temperature", "top_k", "top_p"]},
    ),
    "behavior_logprob": (([0.5, 0.25, 0.25], 1), {}),
    "return_to_go": (([1, 0, 2],), {}),
    "dqn_targets": (([1, 0], [0, 1], [[3, 1], [4, 1]], 0.5), {}),
    "double_dqn_targets": (([1, 0], [0, 1], [[3, 1], [4, 1]], [[1, 5], [9, 2]], 0.5), {}),
    "fqe_targets": (([1, 0], [0, 1], [[3, 1], [4, 1]], [[0.5, 0.5], [0.25, 0.75]], 0.5), {}),
    "cql_discrete_penalty": (([[3, 1], [4, 1]], [1, 0]), {}),
    "expectile_loss": (([1, -2, 3],), {}),
    "iql_advantage_weights": (([1, -2, 0],), {}),
    "behavior_support_mask": (([0.5, 0.25, 0.25], 0.75), {}),
    "generalized_advantages": (
        ([1, 0, 2], [3, 1, 4], [1, 5, 9], 0.5, 0.5),
        {"terminated": [0, 1, 0], "truncated": [0, 0, 1]},
    ),
    "lambda_returns": (
        ([1, 0, 2], [3, 1, 4], [1, 5, 9], 0.5, 0.5),
        {"terminated": [0, 1, 0], "truncated": [0, 0, 1]},
    ),
    "masked_advantages": (([1, 0, 2], [3, 1, 4], [1, 0, 1], 0.5, 0.5), {}),
    "group_advantages": (([1, 0, 2], [7, 7, 9]), {"valid": [1, 1, 0]}),
    "leave_one_out_advantages": (([1, 0, 2], [7, 7, 7]), {}),
    "importance_ratios": (([[-1, -2], [0, -3]], [[-2, -1], [0, -1]], [[1, 1], [0, 1]]), {}),
    "clipped_policy_terms": (([1, 0, 2], [3, -1, -4]), {"dual_clip": 3}),
    "aggregate_token_losses": (([[1, 2], [4, 3]], [[1, 1], [0, 1]], "token-mean"), {}),
    "kl_penalty_terms": (([-1, -2, 0], [-2, -1, 0], "k3"), {}),
}
WITHOUT_ARRAYS = {
    "semantic_action_probability",
    "informative_group_probability",
    "trajectory_mask_report",
    "validate_rollout_record",
    "classify_stop_event",
    "validate_rollout_batch",
}


def series(values: list[Any]) -> Any:
    """A Series where there is one axis; pandas has none for more."""
    return pd.Series(values) if np.ndim(values) == 1 else np.array(values)


def read_only(values: list[Any]) -> Any:
    array = np.array(values)
    array.flags.writeable = False
    return array


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "tensor": torch.tensor,
    "tensor that requires a gradient": lambda v: (
        t if (t := torch.tensor(v)).dtype == torch.int64 else t.requires_grad_()
    ),
    "series": series,
    "read-only array": read_only,
    "array that is not contiguous": lambda v: np.repeat(np.array(v), 2, axis=-1)[..., ::2],
    "array of the other byte order": lambda v: np.array(v).astype(np.array(v).dtype.newbyteorder()),
}


def converted(value: Any, form: Callable[[list[Any]], Any]) -> Any:
    is_numeric = isinstance(value, list) and np.asarray(value).dtype.kind in "if"
    return form(value) if is_numeric else value


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", CALLS)
def test_an_array_like_gives_what_lists_give(name: str, form: Callable[[list[Any]], Any]) -> None:
    args, kwargs = CALLS[name]
    function = getattr(rlcheck, name)
    given = [converted(a, form) for a in args], {k: converted(v, form) for k, v in kwargs.items()}
    before = copy.deepcopy(given)
    expected, got = function(*args, **kwargs), function(*given[0], **given[1])
    assert type(got) is type(expected)
    np.testing.assert_equal(got, expected)
    assert_equal_values(given, before)


def assert_equal_values(one: Any, other: Any) -> None:
    if isinstance(one, tuple | list):
        for pair in zip(one, other, strict=True):
            assert_equal_values(*pair)
    elif isinstance(one, dict):
        assert_equal_values([*one.values()], [*other.values()])
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_every_function_of_arrays_is_here() -> None:
    from rlcheck.catalogue import FUNCTIONS

    assert set(CALLS) | WITHOUT_ARRAYS == set(FUNCTIONS)


def test_half_precision_tensors_are_read() -> None:
    logits = torch.tensor([[[1.0, 2.0], [0.0, 3.0]]], dtype=torch.bfloat16)
    got = rlcheck.causal_response_logprobs(logits, [[0, 1]], [[0, 1]])
    np.testing.assert_allclose(got.selected, [[-np.log1p(np.exp(-1.0))]], rtol=1e-14)
    assert rlcheck.discounted_return(torch.tensor([0.5, 2.0], dtype=torch.bfloat16), 0.5) == 1.5


@pytest.mark.parametrize("name", CALLS)
def test_scalars_are_floats_and_arrays_are_float64_or_boolean(name: str) -> None:
    args, kwargs = CALLS[name]
    got = getattr(rlcheck, name)(*args, **kwargs)
    parts = got.values() if isinstance(got, dict) else got if isinstance(got, tuple) else [got]
    for field, part in zip(getattr(got, "_fields", [""] * len(parts)), parts, strict=True):
        counts = field == "token_count"
        assert type(part) is float or part.dtype in (np.bool_, np.int64 if counts else np.float64)


def test_cancelling_overflow_on_the_way_does_not_spoil_a_result() -> None:
    huge = 1.7e308
    assert rlcheck.discounted_return([huge, huge, -huge], 1.0) == huge
    assert rlcheck.discounted_td_sum([-huge, huge, huge], 1.0) == huge
    assert rlcheck.semi_markov_return([huge, huge, -huge], [1, 2, 1], 1.0) == huge
    assert rlcheck.td_residuals([huge], [huge, huge], 1.0).tolist() == [huge]
    assert rlcheck.potential_shaping([huge], [huge, huge], 1.0).tolist() == [huge]
    assert rlcheck.return_to_go([-huge, huge, huge]).tolist() == [huge, np.inf, huge]
    identity = rlcheck.shaped_return_identity([0.0, 0.0], [huge, -huge, huge], 1.0)
    assert identity == (0.0, 0.0, 0.0)
    assert rlcheck.turn_probability_ratio([0.0, 0.0, -huge, -huge], [-huge, -huge, 0.0, 0.0]) == 1.0
    assert rlcheck.sequence_logprob_ratio([0, 0, -huge, -huge], [-huge, -huge, 0, 0]) == 1.0
    assert rlcheck.fqe_targets([-huge], [0], [[huge, huge]], [[0.5, 0.5]], 1.0).tolist() == [0.0]
