"""The twins of token log-probabilities: gradients, compilation, dtypes, accuracy, memory."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from rlcheck import logprobs as reference
from rlcheck.torch import logprobs as twins
from rlcheck.torch._ops import safe_exp

from ..test_logprobs import REFUSALS

inf, nan = math.inf, math.nan

MASK = torch.tensor([[0, 0, 1, 1, 0], [0, 1, 0, 1, 1]])
IDS = torch.tensor([[3, -100, 0, 6, 9], [2, 5, -1, 1, 1]])  # what the mask hides is no token


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


LOGITS, LOGPROBS, OLD = normal(2, 5, 7), -normal(2, 5).abs(), normal(2, 5) - 3.0
CALLS: dict[str, tuple[Tensor, ...]] = {
    "stable_log_softmax": (LOGITS,),
    "causal_response_logprobs": (LOGITS, IDS, MASK),
    "masked_sequence_metrics": (LOGPROBS, MASK),
    "sequence_logprob_ratio": (LOGPROBS, OLD, MASK),
}


def floats(answer: Any) -> list[Tensor]:
    """The floating tensors of an answer."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    return [part for part in parts if part.is_floating_point()]


def objective(name: str, *arguments: Tensor) -> Tensor:
    """A sum over what is defined, in which every entry counts differently."""
    answers = floats(getattr(twins, name)(*arguments))
    known = [torch.where(x.isnan(), 0.0, x).flatten() for x in answers]
    return sum(((x * torch.arange(1, len(x) + 1)).sum() for x in known), torch.zeros(()))


def with_gradients(arguments: tuple[Tensor, ...], dtype: torch.dtype) -> list[Tensor]:
    return [
        x.to(dtype, copy=True).requires_grad_() if x.is_floating_point() else x for x in arguments
    ]


@pytest.mark.parametrize("name", CALLS)
def test_a_twin_agrees_with_the_reference(name: str) -> None:
    got, truth = getattr(twins, name)(*CALLS[name]), getattr(reference, name)(*CALLS[name])
    if isinstance(truth, tuple):
        assert got._fields == truth._fields
    else:
        got, truth = (got,), (truth,)
    for part, expected in zip(got, truth, strict=True):
        assert part.numpy().dtype == expected.dtype
        np.testing.assert_allclose(part, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in REFUSALS.items() for case in cases]
)
def test_a_twin_refuses_with_the_same_words(name: str, case: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as refusal:
        getattr(twins, name)(*case.args, **case.kwargs)
    assert case.says in str(refusal.value)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    arguments = with_gradients(CALLS[name], torch.float64)
    assert gradcheck(lambda *given: objective(name, *given), arguments)
    if name != "causal_response_logprobs":
        assert gradgradcheck(lambda *given: objective(name, *given), arguments)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("name", CALLS)
def test_a_twin_compiles_without_a_break(name: str) -> None:
    """The same values and gradients, in one graph."""
    answers = []
    for compiled in (False, True):
        arguments = with_gradients(CALLS[name], torch.float32)
        call = torch.compile(objective, fullgraph=True, backend="aot_eager", disable=not compiled)
        value = call(name, *arguments)
        value.backward()
        answers.append([value.detach(), *(x.grad for x in arguments if x.requires_grad)])
    for eager, traced in zip(*answers, strict=True):
        torch.testing.assert_close(traced, eager)


def test_one_graph_serves_every_shape() -> None:
    call = torch.compile(
        twins.causal_response_logprobs, fullgraph=True, backend="aot_eager", dynamic=True
    )
    for batch, length, vocabulary in ((2, 5, 7), (3, 4, 11)):
        logits, ids = normal(batch, length, vocabulary), torch.ones(batch, length).long()
        mask = torch.arange(length).expand(batch, length) > 0
        expected = twins.causal_response_logprobs(logits, ids, mask).selected
        torch.testing.assert_close(call(logits, ids, mask).selected, expected)


def test_the_operator_keeps_the_promises_that_compilers_rely_on() -> None:
    torch.library.opcheck(
        twins._token_logprobs, (LOGITS.clone().requires_grad_(), torch.ones(2, 5).long())
    )


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ],
)
def test_dtypes_are_kept_and_half_precision_is_promoted(
    name: str, dtype: torch.dtype, expected: torch.dtype
) -> None:
    arguments = with_gradients(CALLS[name], dtype)
    answer = getattr(twins, name)(*arguments)
    assert {x.dtype for x in floats(answer)} == {expected}
    objective(name, *arguments).backward()
    for argument in arguments:
        if argument.requires_grad:
            assert argument.grad is not None
            assert argument.grad.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rows_that_predict_no_response_token_get_no_gradient(dtype: torch.dtype) -> None:
    """Zero exactly, also where they hold NaN or infinities, or score a −100 label."""
    logits = LOGITS.clone()
    logits[0, 0], logits[0, 3, 2], logits[1, 1], logits[:, 4] = -inf, inf, nan, nan
    logits = logits.to(dtype).requires_grad_()
    selected, active = twins.causal_response_logprobs(logits, IDS, MASK)
    assert selected[0, 0].isnan()
    selected.nansum().backward()  # as if a loss forgot the mask
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert not logits.grad[:, :-1][~active].any()
    assert not logits.grad[:, -1].any()
    assert logits.grad[:, :-1][active].any(-1).all()


@pytest.mark.parametrize("hidden", [nan, inf, -inf])
def test_hidden_log_probabilities_get_no_gradient(hidden: float) -> None:
    given = torch.where(MASK == 1, LOGPROBS, hidden).requires_grad_()
    metrics = twins.masked_sequence_metrics(given, MASK)
    ratio = twins.sequence_logprob_ratio(given, given.detach(), MASK)
    (metrics.sum_logprob + metrics.perplexity + ratio).sum().backward()
    assert given.grad is not None
    assert given.grad.isfinite().all()
    assert not given.grad[MASK == 0].any()


def test_an_overflow_that_a_loss_cuts_off_leaves_no_nan() -> None:
    new = torch.tensor([[900.0, 0.0], [0.5, 0.0]], requires_grad=True)
    ratio = twins.sequence_logprob_ratio(new, torch.zeros(2, 2))
    assert ratio[0] == inf
    ratio.clamp(max=2.0).sum().backward()
    assert new.grad is not None
    torch.testing.assert_close(new.grad, torch.tensor([[0.0, 0.0], [1.0, 1.0]]) * math.exp(0.5))


@pytest.mark.parametrize("x", [1e4, inf, nan, -inf])
def test_zero_comes_back_as_zero_through_an_exponential(x: float) -> None:
    given = torch.tensor([x], requires_grad=True)
    power = safe_exp(given)
    (power.detach() * 0.0 + torch.where(torch.tensor([False]), power, 0.0)).sum().backward()
    assert given.grad == 0.0


@pytest.mark.parametrize("size", [1, 20, 10_000])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_blocks_and_strides_change_nothing(
    size: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the mask hides lie beside others in a block; logits may be a slice of more."""
    monkeypatch.setattr(twins, "BLOCK", size)
    monkeypatch.setattr(twins, "SMALL_BLOCK", size)
    wide = normal(4, 5, 14, dtype=dtype).requires_grad_()
    logits = wide[::2, :, ::2]
    ids, active = torch.where(MASK == 1, IDS, 0)[:, 1:], MASK[:, 1:] == 1
    truth = torch.log_softmax(logits, 2)[:, :-1].gather(2, ids.unsqueeze(2)).squeeze(2)[active]
    got = twins.causal_response_logprobs(logits, IDS, MASK).selected[active]
    torch.testing.assert_close(got, truth)
    weights = torch.arange(1.0, len(truth) + 1)
    for entry, expected in zip(
        torch.autograd.grad((got * weights).sum(), wide),
        torch.autograd.grad((truth * weights).sum(), wide),
        strict=True,
    ):
        torch.testing.assert_close(entry, expected)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_float32_scores_of_a_large_vocabulary_are_rounded_once(offset: float) -> None:
    logits = (4.0 * normal(1, 5, 151_936, dtype=torch.float32)) + offset
    ids, mask = torch.tensor([[0, 0, 9, 8192, 151_935]]), torch.tensor([[0, 1, 1, 1, 1]])
    truth = reference.causal_response_logprobs(logits.double(), ids, mask).selected
    got = twins.causal_response_logprobs(logits.requires_grad_(), ids, mask).selected
    np.testing.assert_array_equal(got.detach(), truth.astype(np.float32))
    got.sum().backward()
    assert logits.grad is not None
    rows = logits.detach()[0, :-1].double()
    expected = -rows.softmax(1)
    expected[range(4), ids[0, 1:]] = -torch.from_numpy(truth[0]).expm1()
    # Each entry is as good as the rounding of its x − max x allows, whatever V is.
    rounding = torch.finfo(torch.float32).eps * (4.0 + rows.amax(1, keepdim=True) - rows)
    assert ((logits.grad[0, :-1] - expected).abs() <= rounding * expected.abs()).all()


def test_a_likely_token_has_an_accurate_gradient() -> None:
    """1 − p keeps its digits where p is nearly 1, in half precision too."""
    for dtype in (torch.float32, torch.bfloat16):
        logits = torch.tensor([[[12.0, 0.0], [0.0, 0.0]]], dtype=dtype, requires_grad=True)
        twins.causal_response_logprobs(logits, [[0, 0]], [[0, 1]]).selected.sum().backward()
        assert logits.grad is not None
        share = 1.0 / (1.0 + math.exp(12.0))
        truth = torch.tensor([share, -share], dtype=dtype)
        torch.testing.assert_close(logits.grad[0, 0], truth, rtol=1e-6, atol=0.0)


GROWTH = """
import pathlib, torch
from rlcheck.torch.logprobs import causal_response_logprobs

def peak():
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024

def score(length):
    logits = torch.empty(2, length, 151_936).normal_().requires_grad_()
    ids = torch.zeros(2, length, dtype=torch.int64)
    mask = torch.arange(length).expand(2, length) > 0
    peaks = [peak()]
    selected = causal_response_logprobs(logits, ids, mask).selected
    peaks.append(peak())
    selected.sum().backward()
    peaks.append(peak() - logits.nbytes / 2**20)
    return peaks

score(2)
before, forward, backward = score(192)
print(forward - before, backward - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_no_pass_makes_a_second_array_of_the_size_of_the_logits() -> None:
    """Of 223 MiB of logits; the gradient itself is not counted."""
    command = [sys.executable, "-c", GROWTH]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    forward, backward = map(float, output.split())
    assert forward < 64.0
    assert backward < 64.0
