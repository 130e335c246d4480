"""Grading files from outside: what loads, what does not, what stops, and what is reported."""

import functools
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example
from hypothesis import strategies as st

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading import grade as grading
from rlcheck.grading import laws
from rlcheck.grading.calls import Graded, InProcess
from rlcheck.grading.compare import assert_close
from rlcheck.grading.report import (
    EXIT_FAILED,
    EXIT_GRADER,
    EXIT_PASSED,
    EXIT_UNLOADABLE,
    Report,
    from_json,
    to_json,
)
from rlcheck.grading.sandbox import strongest

Write = Callable[[str], str]

grade = functools.partial(grading.grade, examples=6)

RIGHT = """
    import math

    def discounted_td_sum(deltas, gamma):
        deltas = [float(delta) for delta in numbers(deltas)]
        if isinstance(gamma, str) or not 0 <= gamma <= 1:
            raise ValueError("gamma")
        if not all(math.isfinite(delta) for delta in deltas):
            raise ValueError("deltas")
        return float(sum(gamma ** t * delta for t, delta in enumerate(deltas)))

    def numbers(values):
        if isinstance(values, (str, bytes, dict)) or values is None:
            raise TypeError("numbers are due")
        if any(isinstance(value, str) or hasattr(value, "__len__") for value in values):
            raise ValueError("a vector of numbers is due")
        return values
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a submission and give its path."""

    def written(source: str) -> str:
        path = tmp_path / "solution.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return str(path)

    return written


def statuses(report: Report) -> set[str]:
    return {law.status for law in report.laws}


def test_a_right_function_gets_full_marks(write: Write) -> None:
    report = grade(write(RIGHT), only=["discounted_td_sum"])
    assert (report.score, report.exit_code) == (report.max_score, EXIT_PASSED), report.failures
    assert report.score >= 3
    assert report.isolation == strongest()
    assert report.isolation_note


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def discounted_return(:\n", "SyntaxError"),
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("raise RuntimeError('first line\\nsecond')\n", "RuntimeError: first line"),
        ("1 / 0\n", "ZeroDivisionError"),
        (
            "discounted_returns = 1",
            "{} does not define discounted_return; discounted_return: it has",
        ),
        ("", "{} does not define discounted_return"),
        ("def __getattr__(name): raise RuntimeError(name)", "RuntimeError: discounted_return"),
        ("raise BaseException('\\x1b[2J')", "BaseException: \\x1b[2J"),
        ("import sys; sys.exit(0)\n", "SystemExit"),
        (
            "import os; os._exit(3)\n",
            "its import failed: the process exited with status 3",
        ),
        ("import rlcheck\n", "ImportError: a graded submission cannot import rlcheck"),
        ("from rlcheck.returns import *\n", "ImportError: a graded submission cannot import"),
        ("\0", "SyntaxError"),
    ],
)
def test_what_cannot_be_loaded_is_reported_in_one_line(
    write: Write, source: str, says: str
) -> None:
    path = write(source)
    report = grade(path, only=["discounted_return"])
    assert report.error.startswith(says.format(path))
    assert "\n" not in report.error
    assert report.exit_code == EXIT_UNLOADABLE
    assert report.functions["discounted_return"].status == "unloadable"
    assert (report.score, statuses(report)) == (0, {"missing"})
    assert report.max_score == len(report.laws) >= 3


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_file.py", "there is no such file"),
        ("no_such_module", "there is no such file, module or entry point"),
        ("./nowhere", "there is no such file"),
        (".", "it is a folder without __init__.py"),
        ("pyproject.toml", "it is no Python file"),
    ],
)
def test_a_target_that_is_no_submission(
    target: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    report = grade(target)
    assert report.error.startswith(says)
    assert report.exit_code == EXIT_UNLOADABLE


def test_a_package_folder_is_loaded_whole(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import discounted_td_sum\n")
    (package / "inner.py").write_text(textwrap.dedent(RIGHT))
    assert grade(str(package), only=["discounted_td_sum"]).exit_code == EXIT_PASSED


def test_a_sibling_does_not_shadow_the_standard_library(write: Write, tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise RuntimeError('shadowed')\n")
    (tmp_path / "helper_of_mine.py").write_text("HALF = 0.5\n")
    source = "import random, numpy, helper_of_mine\n" + textwrap.dedent(RIGHT)
    assert grade(write(source), only=["discounted_td_sum"]).exit_code == EXIT_PASSED


def test_missing_functions_are_named_and_cost_nothing_unless_asked_for(write: Write) -> None:
    path = write(RIGHT + "\n    def discounted_returns(rewards, gamma): ...\n")
    free = grade(path)
    assert free.exit_code == EXIT_PASSED
    assert free.functions["td_residuals"].status == "missing"
    assert "discounted_returns" in free.functions["discounted_return"].message
    assert statuses(free) == {"passed", "skipped"}
    asked = grade(path, only=["discounted_td_sum", "td_residuals"])
    assert asked.exit_code == EXIT_FAILED
    assert statuses(asked) == {"passed", "missing"}
    assert asked.max_score == len(asked.laws) > asked.score


def test_another_function_is_not_taken_for_a_missing_one(write: Write) -> None:
    report = grade(write("def dqn_targets(*everything): ..."), only=["fqe_targets"])
    assert report.error.endswith("does not define fqe_targets")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("discounted_return = 3", "is a int, not a function"),
        ("def discounted_return(rewards): ...", "takes (rewards); the contract calls it as (r"),
        ("def discounted_return(r, g): ...", "takes (r, g); the contract"),
        ("def discounted_return(gamma, rewards): ...", "takes (gamma, rewards); the contract"),
        ("def discounted_return(rewards, gamma, more): ...", "takes (rewards, gamma, more)"),
    ],
)
def test_another_signature_is_said_before_any_law_runs(
    write: Write, source: str, says: str
) -> None:
    report = grade(write(source))
    entry = report.functions["discounted_return"]
    assert entry.status == "unloadable"
    assert entry.message.startswith(says)
    assert report.exit_code == EXIT_FAILED
    assert report.max_score >= 3


@pytest.mark.parametrize(
    "source",
    [
        "def discounted_return(rewards, gamma): return 0",
        "def discounted_return(rewards, gamma, *, fast=True): return 0",
        "def discounted_return(*args, **kwargs): return 0",
        "discounted_return = lambda rewards, gamma: 0",
        "class R:\n    def __call__(self, rewards, gamma): return 0\ndiscounted_return = R()",
        "import functools\n@functools.cache\ndef discounted_return(rewards, gamma): return 0",
    ],
)
def test_a_callable_that_takes_the_contracts_calls_is_graded(write: Write, source: str) -> None:
    assert grade(write(source)).functions["discounted_return"].status == "failed"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("while True: pass", "timed_out"),
        ("import time; time.sleep(60)", "timed_out"),
        ("import os; os._exit(0)", "crashed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashed"),
        ("import ctypes; ctypes.string_at(0)", "crashed"),
        ("import sys; sys.exit()", "raised"),
        ("raise KeyError(3)", "raised"),
        ("return (x for x in rewards)", "raised"),
        ("return object()", "raised"),
        ("return 'text'", "failed"),
        ("return None", "failed"),
        ("return [1.0, [2.0, 3.0]]", "failed"),
        ("return {'a': 1}", "failed"),
        ("return [0.0]", "failed"),
        ("return 1j", "raised"),
        ("def f(): return f()\n        return f()", "raised"),
        ("x = []; x.append(x); return x", "raised"),
        ("return [0.0] * 10_000_000", "raised"),
    ],
)
def test_bad_answers_get_a_verdict(write: Write, body: str, status: str) -> None:
    source = f"""
    def discounted_return(rewards, gamma):
        {body}
    """
    law = "returns::return_is_the_sum_of_discounted_rewards"
    report = grade(write(source), only=["discounted_return"], law=law, call_seconds=0.5)
    assert statuses(report) == {status}
    assert report.exit_code == EXIT_FAILED


@pytest.mark.parametrize(
    "answer", ["[]", "np.array([[], []])", "10 ** 400", "10 ** 5000", "'\\ud800'", "np.array([])"]
)
def test_odd_answers_never_break_the_grader(write: Write, answer: str) -> None:
    source = f"""
    import numpy as np

    def stable_log_softmax(logits, axis=-1):
        return {answer}
    """
    report = grade(write(source), only=["stable_log_softmax"])
    assert report.fault == ""
    assert "ungradable" not in statuses(report)
    assert report.exit_code == EXIT_FAILED


def test_state_between_calls_is_a_fault_of_the_submission(write: Write) -> None:
    source = """
    seen = set()

    def discounted_return(rewards, gamma):
        key = repr((rewards, gamma))
        first = key not in seen
        seen.add(key)
        return 1e9 if first else float(sum(gamma ** t * r for t, r in enumerate(rewards)))
    """
    report = grade(write(source), only=["discounted_return"])
    assert report.exit_code == EXIT_FAILED
    assert any("keeps state between calls" in law.message for law in report.laws)


def test_memory_of_what_was_asked_before_is_found_by_another_process(write: Write) -> None:
    source = (Path(__file__).parents[1] / "hostile" / "answers_by_phase.py").read_text()
    report = grade(write(source), only=["discounted_return"])
    (refusals,) = report.failures
    assert refusals.id == "returns::discounted_return_refuses"
    assert refusals.message.startswith("another process answered the same call differently")
    assert refusals.counterexample
    alone = grade(write(source), law=refusals.id)
    assert alone.failures[0].message == refusals.message


def test_a_law_whose_calls_another_process_does_not_reach_in_time_does_not_hold() -> None:
    law = next(law for law in laws.laws_of(FUNCTIONS["discounted_return"]) if not law.of_refusals)
    transport = InProcess({law.function: FUNCTIONS[law.function].reference()})
    for seconds, status in ((60.0, "passed"), (-1.0, "timed_out")):
        verdict = laws.run(law, transport, random_seed=0, examples=5)
        laws.ask_elsewhere([verdict], transport, lambda _: 0, seconds=seconds)
        assert verdict.status == status


def test_right_answers_at_the_ends_alone_earn_nothing(write: Write) -> None:
    source = """
    import numpy as np

    def clipped_policy_terms(ratios, advantages, clip_low=0.2, clip_high=0.2, dual_clip=None):
        ratios, advantages = np.asarray(ratios, float), np.asarray(advantages, float)
        cost = ratios if dual_clip is None else np.full_like(ratios, dual_clip)
        far = -np.where(advantages < 0, cost, 1 + clip_high) * advantages
        return np.where((ratios > 1e100) & (advantages != 0), far, 0.0)
    """
    report = grade(write(source), only=["clipped_policy_terms"])
    assert report.score == 0
    assert sum(law.status == "blocked" for law in report.laws) >= 4


def test_refusing_everything_earns_nothing(write: Write) -> None:
    source = "def discounted_return(rewards, gamma):\n    raise ValueError('no')\n"
    report = grade(write(source), only=["discounted_return"])
    assert report.score == 0
    (refusals,) = [law for law in report.laws if law.id == "returns::discounted_return_refuses"]
    assert refusals.status == "blocked"
    assert "an answer without mathematics keeps it too" in refusals.message


def test_a_submission_sees_no_secrets(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    source = (
        RIGHT
        + """
    import os
    if "MY_TOKEN" in os.environ:
        raise RuntimeError("seen")
    """
    )
    assert grade(write(source), only=["discounted_td_sum"]).exit_code == EXIT_PASSED


def test_a_module_that_exits_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exits_at_import.py").write_text("import sys; sys.exit(0)\n")
    (tmp_path / "exits_in_a_call.py").write_text(
        "import sys\ndef discounted_return(rewards, gamma): sys.exit(0)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert grade("exits_at_import").error.startswith("SystemExit")
    assert grade("exits_in_a_call", only=["discounted_return"]).score == 0


def test_a_file_may_have_a_name_in_another_code_than_utf_8(tmp_path: Path) -> None:
    plain = Path(__file__).parents[1] / "alternatives" / "plain.py"
    path = tmp_path / os.fsdecode(b"r\xe9sum\xe9.py")
    path.write_bytes(plain.read_bytes())
    report = grade(str(path), only=["macro_action_logprob"], examples=20)
    assert {law.id: law.message for law in report.failures} == {}
    assert report.score == report.max_score


def test_termination_leaves_a_report_and_no_process(write: Write, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    source = f"""
    import os

    def discounted_return(rewards, gamma):
        open({str(mark)!r}, "w").write(str(os.getpid()))
        while True:
            pass
    """
    report = tmp_path / "report.json"
    command = ["grade", write(source), "--isolate", "process", "--report", f"json={report}"]
    running = subprocess.Popen(
        [sys.executable, "-m", "rlcheck.grading.cli", *command], stdout=subprocess.DEVNULL
    )
    while not mark.exists() or not mark.read_text():
        time.sleep(0.05)
    for _ in range(5):  # `timeout` sends its signal twice, and neither may spoil the report
        running.terminate()
        time.sleep(0.01)
    assert running.wait(timeout=20) == EXIT_GRADER
    assert "interrupted" in from_json(report.read_bytes()).fault
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_a_killed_worker_is_replaced(write: Write) -> None:
    source = (
        RIGHT
        + """
    import os

    def discounted_return(rewards, gamma):
        os._exit(1)
    """
    )
    report = grade(write(source), only=["discounted_return", "discounted_td_sum"])
    assert {law.status for law in report.laws if law.function == "discounted_return"} == {"crashed"}
    assert report.functions["discounted_td_sum"].status == "passed"


def test_the_whole_process_group_is_killed(write: Write, tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    source = f"""
    import subprocess

    def discounted_return(rewards, gamma):
        subprocess.Popen(["sh", "-c", "sleep 1; touch {mark}"])
        while True:
            pass
    """
    limits = {"call_seconds": 0.2, "total_seconds": 0.4}
    grade(write(source), only=["discounted_return"], isolate="process", **limits)
    time.sleep(1.3)
    assert not mark.exists()


def test_prints_do_not_disturb_the_protocol(write: Write) -> None:
    source = RIGHT.replace(
        "deltas = [", 'print("noise" * 1000); os.write(2, b"\\0" * 1000); deltas = ['
    ).replace("import math", "import math, os")
    assert grade(write(source), only=["discounted_td_sum"]).exit_code == EXIT_PASSED


def test_time_runs_out_for_the_rest_of_the_run(write: Write) -> None:
    source = "def discounted_return(rewards, gamma):\n    import time; time.sleep(9)\n"
    report = grade(write(source), only=["returns"], call_seconds=0.2, total_seconds=0.3)
    assert report.exit_code == EXIT_FAILED
    assert report.max_score == len(report.laws)
    assert report.seconds < 10


@pytest.mark.parametrize(
    "answer",
    [
        "0.0",
        "np.zeros(np.shape(deltas))",
        "[]",
        "{'a': (0, False)}",
        "gamma",
        "0.0 if len(deltas) != 3 else 1.0",
        "float(abs(hash(str(deltas))))",
    ],
)
def test_answers_without_mathematics_have_earned_nothing(write: Write, answer: str) -> None:
    source = f"""
    import numpy as np

    def discounted_td_sum(deltas, gamma):
        if not all(np.isfinite(deltas)) or not 0 <= gamma <= 1:
            raise ValueError("it knows what to refuse")
        return {answer}
    """
    report = grade(write(source), only=["discounted_td_sum"])
    assert report.score == 0
    honest = source.replace(f"return {answer}", "return float(sum(deltas))")
    assert 0 < grade(write(honest), only=["discounted_td_sum"]).score < report.max_score


def test_a_law_runs_out_of_time_within_an_example() -> None:
    """A law that asks a hundred times in one example ends with the first call that is late."""
    asked = []

    def slow(deltas: list[float], gamma: float) -> float:
        asked.append(time.sleep(0.05))
        return 0.0

    @laws.law(gamma=st.just(0.5))
    def of_many_calls(discounted_td_sum: Graded, gamma: float) -> None:
        """It asks a hundred times."""
        for _ in range(100):
            discounted_td_sum([1.0], gamma)

    transport = InProcess({"discounted_td_sum": slow})
    verdict = laws.run(of_many_calls.law, transport, random_seed=0, seconds=0.12)  # type: ignore[attr-defined]
    assert (verdict.status, verdict.message) == ("timed_out", "the law took more than 0.12 s")
    assert 1 <= len(asked) <= 4


def test_a_long_example_that_fails_gives_way_to_a_smaller_input() -> None:
    """What a law states is not made small by Hypothesis; what it draws is."""

    @laws.law(deltas=st.lists(st.sampled_from([0.0, 1.0])))
    @example(deltas=[1.0] * 100)
    def of_a_sum(discounted_td_sum: Graded, deltas: list[float]) -> None:
        """It is the sum."""
        assert_close(discounted_td_sum(deltas, 1.0), sum(deltas), terms=1.0)

    def least(wrong: Callable[..., float]) -> list[float]:
        transport = InProcess({"discounted_td_sum": wrong})
        verdict = laws.run(of_a_sum.law, transport, random_seed=0)  # type: ignore[attr-defined]
        assert verdict.status == "failed"
        ((deltas, _),) = (call.args for call in verdict.counterexample)
        return list(deltas)

    assert least(lambda deltas, gamma: 0.0) == [1.0]
    assert least(lambda deltas, gamma: min(sum(deltas), 99.0)) == [1.0] * 100


def test_the_same_seed_gives_the_same_report(write: Write) -> None:
    path = write("def discounted_return(rewards, gamma):\n    return float(sum(rewards))\n")

    def untimed(seed: int) -> list[tuple[str, str, str | None]]:
        report = grade(path, only=["discounted_return"], seed=seed)
        return [(law.id, law.status, law.counterexample) for law in report.laws]

    assert untimed(3) == untimed(3)


def test_a_law_draws_the_same_whichever_others_run(write: Write) -> None:
    path = write("def discounted_return(rewards, gamma):\n    return float(sum(rewards))\n")
    whole = grade(path)
    for law in whole.failures:
        (alone,) = grade(path, only=[law.function], law=law.id).failures
        assert (alone.counterexample, alone.got) == (law.counterexample, law.got)


def test_the_report_survives_json(write: Write) -> None:
    report = grade(write("def discounted_return(rewards, gamma):\n    return 0.0\n"))
    assert from_json(to_json(report)) == report
    data = json.loads(to_json(report))
    assert data["schema"] == 1
    assert {"target", "seed", "isolation", "score", "max_score", "functions", "laws"} <= set(data)
    keys = "id function sentence status diagnosis counterexample expected got"
    assert all(set(keys.split()) <= set(law) for law in data["laws"])


def test_a_counterexample_can_be_pasted(write: Write) -> None:
    import numpy as np

    path = write("def dqn_targets(rewards, terminal, next_q, gamma):\n    return 0.5\n")
    seen = []
    for law in grade(path, only=["dqn_targets"]).failures:
        for line in (law.counterexample or "").splitlines():
            eval(line, {"np": np, "dqn_targets": lambda *a, **k: seen.append((a, k))})
    assert seen


def test_interruption_leaves_a_report(write: Write) -> None:
    def interrupt(name: str) -> None:
        if name == "potential_shaping":
            raise KeyboardInterrupt

    source = RIGHT + "\n    def potential_shaping(rewards, potentials, gamma): ...\n"
    report = grade(write(source), progress=interrupt)
    assert report.functions["discounted_td_sum"].status == "passed"
    assert report.exit_code == EXIT_GRADER
    assert "interrupted" in report.fault
    assert {law.status for law in report.laws if law.function == "potential_shaping"} == {
        "ungradable"
    }


def test_ones_own_module_is_graded_in_process_or_isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trainer_of_mine.py").write_text(textwrap.dedent(RIGHT))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for isolate, tier in ((None, "in-process"), ("process", "process")):
        report = grade("trainer_of_mine", only=["discounted_td_sum"], isolate=isolate)
        assert (report.exit_code, report.isolation) == (EXIT_PASSED, tier)


def test_a_package_offers_an_implementation_by_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offered.py").write_text(textwrap.dedent(RIGHT))
    info = tmp_path / "offering-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rlcheck.implementations]\nmine = offered\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    report = grade("mine", only=["discounted_td_sum"])
    assert (report.exit_code, report.location) == (EXIT_PASSED, str(tmp_path / "offered.py"))


def test_the_reference_grades_itself_in_full_marks() -> None:
    report = grade("rlcheck", only=["module-11"], examples=5)
    assert (report.exit_code, report.score) == (EXIT_PASSED, report.max_score)
    assert all(entry.laws >= 3 for entry in report.functions.values())


def test_importing_rlcheck_imports_no_torch() -> None:
    code = "import rlcheck, sys; print('torch' in sys.modules, 'hypothesis' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert out.stdout.split() == ["False", "False"]


@laws.law(exponent=st.just(1e4))
def overflows_on_its_way(return_to_go: Graded | None, exponent: float) -> None:
    """A law whose own arithmetic overflows, and whose function is asked to."""
    assert np.exp(np.float64(exponent)) == np.inf
    if return_to_go is not None:
        return_to_go([exponent])


def overflowing(rewards: list[float], gamma: float = 1.0) -> object:
    return np.exp(np.array(rewards))


def test_a_law_may_overflow_on_its_way_to_a_truth() -> None:
    overflows_on_its_way(return_to_go=None)


@pytest.mark.parametrize("loud", [True, False, None])
def test_what_a_loud_function_warns_of_is_heard_in_a_law(loud: bool | None) -> None:
    graded = Graded("return_to_go", InProcess({"return_to_go": overflowing}, loud=loud))
    if loud:
        with pytest.raises(Exception, match="overflow encountered in exp"):
            overflows_on_its_way(return_to_go=graded)
    else:
        overflows_on_its_way(return_to_go=graded)


def twisted(twist: str) -> str:
    """RIGHT, but for a factor of which each value is right within the laws' errors."""
    source = textwrap.dedent(RIGHT).replace(
        "return float(sum(gamma ** t * delta for t, delta in enumerate(deltas)))",
        f"SEEN.append(1); return sum(gamma ** t * d for t, d in enumerate(deltas)) * (1 + {twist})",
    )
    return f"import warnings\nSEEN = []\n{source}"


def test_what_answers_the_same_call_differently_does_not_pass(write: Write) -> None:
    report = grade(write(twisted("len(SEEN) * 1e-15")), only=["discounted_td_sum"])
    unsteady = [law for law in report.failures if law.message == laws.UNSTEADY]
    assert unsteady
    for law in unsteady:
        assert law.counterexample
        assert law.counterexample.startswith("discounted_td_sum(")
        assert law.expected != law.got


def test_a_record_keeps_what_was_asked_when_the_law_changes_it_later() -> None:
    graded = Graded("return_to_go", InProcess({"return_to_go": lambda rewards, gamma=1.0: rewards}))
    rewards = [1.0]
    graded(rewards)
    rewards[0] = 2.0
    assert graded.calls[0].args == ([1.0],)
    assert graded.repeat(graded.calls[0]) == [1.0]


def test_inputs_that_become_arrays_are_changed_inputs() -> None:
    def spoils(rewards: list[object], gamma: float = 1.0) -> float:
        rewards[0] = np.array([1.0, 2.0])
        return 0.0

    graded = Graded("return_to_go", InProcess({"return_to_go": spoils}))
    graded.watched([1.0])
    effects = graded.calls[0].effects
    assert effects is not None
    assert effects.changed_arguments


def test_a_watched_call_looks_like_any_other(write: Write) -> None:
    for seen in ("warnings.filters[0][0] == 'always'", "warnings.filters[0][0] != 'always'"):
        report = grade(write(twisted(f"1e-15 * ({seen})")), only=["discounted_td_sum"])
        assert report.exit_code == EXIT_PASSED


def test_exceptions_whose_texts_differ_are_the_same_answer(write: Write) -> None:
    source = RIGHT.replace('ValueError("gamma")', "ValueError(str(object()))")
    assert grade(write(source), only=["discounted_td_sum"]).exit_code == EXIT_PASSED
