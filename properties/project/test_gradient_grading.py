"""Grading a submission in PyTorch: tensors as arguments, gradients, and what is said of them."""

import functools
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading import grade as grading
from rlcheck.grading.calls import Call, Graded, InProcess, Raised
from rlcheck.grading.laws import laws_of, run
from rlcheck.grading.pasteable import call_source
from rlcheck.grading.report import Report
from rlcheck.grading.submission import Worker
from rlcheck.grading.tensors import Backward

from .test_plugin import ROOT, run_pytest

PENALTY = """
    import torch

    def cql_discrete_penalty(q_values, action):
        if not torch.is_tensor(q_values) or not q_values.isfinite().all():
            raise ValueError("a tensor of finite values is due")
        action = torch.as_tensor(action)
        normaliser = torch.logsumexp(q_values, -1){detach}
        return normaliser - q_values.gather(-1, action[..., None])[..., 0]
"""
SLOPE = "gradients.offline::slope_of_the_cql_penalty_is_softmax_less_onehot"

grade = functools.partial(grading.grade, only=["cql_discrete_penalty"], examples=10)


@pytest.fixture
def penalty(tmp_path: Path) -> Callable[[str], str]:
    """Write a conservative penalty and give its path."""

    def written(detach: str = "") -> str:
        path = tmp_path / "solution.py"
        path.write_text(textwrap.dedent(PENALTY.format(detach=detach)), encoding="utf-8")
        return str(path)

    return written


def status(report: Report, law: str) -> str:
    return next(entry.status for entry in report.laws if entry.id == law)


def test_gradients_count_only_where_they_are_asked_for(penalty: Callable[[str], str]) -> None:
    target = penalty(".detach()")
    values, slopes = grade(target, tensors=True), grade(target, gradients=True)
    function = FUNCTIONS["cql_discrete_penalty"]
    assert values.max_score == len(laws_of(function))
    assert slopes.max_score == values.max_score + len(laws_of(function, gradients=True))
    assert (values.gradients, slopes.gradients, slopes.tensors) == (False, True, True)
    assert status(slopes, SLOPE) == "failed"


def test_a_wrong_gradient_is_explained_and_can_be_replayed(penalty: Callable[[str], str]) -> None:
    target = penalty(".detach()")
    failure = next(law for law in grade(target, gradients=True).laws if law.id == SLOPE)
    assert failure.diagnosis is not None
    assert failure.diagnosis.id == "cql_discrete_penalty.detaches_the_soft_maximum"
    assert failure.diagnosis.report == "EmptyJackson/unifloral#7"
    assert failure.counterexample is not None
    assert "requires_grad=True" in failure.counterexample
    assert "--tensors" not in failure.replay
    again = grade(target, gradients=True, law=SLOPE)
    assert again.laws[0].counterexample == failure.counterexample


def test_the_right_gradient_passes(penalty: Callable[[str], str]) -> None:
    report = grade(penalty(""), gradients=True)
    assert status(report, SLOPE) == "passed"
    assert all(law.status == "passed" for law in report.laws if law.id.startswith("gradients."))


def test_a_constant_earns_nothing_though_targets_have_no_gradient(tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_text(
        "import torch\n\n\ndef dqn_targets(*given, **named):\n    return torch.tensor(0.0)\n"
    )
    report = grade(str(path), only=["dqn_targets"], gradients=True)
    assert report.score == 0
    assert status(report, "gradients.q_targets::dqn_targets_are_constants") == "blocked"


def test_without_tensors_a_file_that_needs_them_fails(penalty: Callable[[str], str]) -> None:
    report = grade(penalty(""))
    assert report.score < report.max_score / 2


def test_a_counterexample_of_a_gradient_runs_as_it_is_printed() -> None:
    from rlcheck.torch import causal_response_logprobs

    logits = np.array([[[0.0, 1.0], [2.0, 0.0]]])
    backward = Backward(0, np.array([[3.0]]), ("selected", 0))
    call = Call((logits, [[0, 1]], [[0, 1]]), {}, backward=backward)
    *setup, slope = call_source(FUNCTIONS["causal_response_logprobs"], call).splitlines()
    scope: dict[str, Any] = {
        "torch": torch,
        "causal_response_logprobs": causal_response_logprobs,
    }
    exec("\n".join(setup), scope)
    p = np.exp(1.0) / (1.0 + np.exp(1.0))
    np.testing.assert_allclose(eval(slope, scope)[0][0, 0], [3 * (p - 1), 3 * (1 - p)])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("q_values.tolist()", "is no tensor of floats"),
        ("q_values > 0", "is no tensor of floats"),
        ("q_values[:1]", "has shape"),
        ("torch.zeros(())", "has shape"),
        ("q_values.add_(1.0)", "in-place"),
    ],
)
def test_an_answer_without_a_gradient_is_a_failed_law(answer: str, says: str) -> None:
    scope: dict[str, Any] = {"torch": torch}
    exec(f"def cql_discrete_penalty(q_values, action):\n return {answer}\n", scope)
    laws = laws_of(FUNCTIONS["cql_discrete_penalty"], gradients=True)
    law = next(law for law in laws if law.id == SLOPE)
    verdict = run(law, InProcess(scope, tensors=True), random_seed=1, examples=5)
    assert verdict.status == "raised"
    assert says in verdict.message


def test_changed_tensors_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_text("def return_to_go(rewards, gamma=1.0):\n    return rewards.mul_(2.0)\n")
    with Worker("path", str(path), ("return_to_go",), tensors=True) as worker:
        watched = Graded("return_to_go", worker).watched([1.0, 2.0])
    assert list(watched.args[0]) == [2.0, 4.0]
    assert list(watched.answer) == [2.0, 4.0]


@pytest.mark.parametrize(
    "value",
    [
        [],
        [1.0, 2.0],
        (1, 2),
        [[True, False]],
        np.float32([1.5]),
        np.int8([1]),
        np.array([1.0], ">f8"),
    ],
    ids=str,
)
def test_numbers_arrive_as_tensors_and_come_back_as_they_were(value: Any) -> None:
    seen = []

    def keep(rewards: Any, gamma: float = 1.0) -> Any:
        seen.append(rewards)
        return rewards

    watched = Graded("return_to_go", InProcess({"return_to_go": keep}, tensors=True)).watched(value)
    assert isinstance(seen[0], torch.Tensor)
    assert type(watched.args[0]) is type(value)
    np.testing.assert_array_equal(np.asarray(watched.answer), np.asarray(value))


@pytest.mark.parametrize("value", ["text", None, [1.0, None], [[1.0], [1.0, 2.0]], {"a": 1}, 0.5])
def test_what_is_no_array_of_numbers_arrives_as_it_is(value: Any) -> None:
    seen = []

    def keep(rewards: Any, gamma: float = 1.0) -> float:
        seen.append(rewards)
        return 0.0

    Graded("return_to_go", InProcess({"return_to_go": keep}, tensors=True))(value)
    assert seen == [value]


def test_a_gradient_that_does_not_flow_is_zero() -> None:
    constant = InProcess({"return_to_go": lambda rewards, gamma=1.0: torch.ones(2)}, tensors=True)
    assert list(Graded("return_to_go", constant).gradient([1.0, 2.0], wrt="rewards")) == [0.0, 0.0]


def test_an_array_has_no_gradient() -> None:
    arrays = InProcess({"return_to_go": lambda rewards, gamma=1.0: np.ones(2)}, tensors=True)
    with pytest.raises(Raised, match="no tensor of floats"):
        Graded("return_to_go", arrays).gradient([1.0, 2.0], wrt="rewards")


def test_pytest_judges_gradients_on_request(penalty: Callable[[str], str]) -> None:
    laws = str(ROOT / "properties" / "gradients" / "test_offline.py")
    chosen = (laws, "-k", "cql_penalty", "--impl", penalty(".detach()"))
    code, out = run_pytest(*chosen, "--gradients")
    assert code == 1
    assert "test_slope_of_the_cql_penalty_is_softmax_less_onehot" in out
    code, out = run_pytest(*chosen, "--tensors")
    assert code == 5, out  # all deselected


def test_pytest_judges_the_twins_by_default() -> None:
    laws = str(ROOT / "properties" / "gradients" / "test_q_targets.py")
    code, out = run_pytest(laws)
    assert code == 0, out
