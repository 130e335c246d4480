"""Assignments: what a file may say, what each law is worth, what is blocked, what stays hidden."""

import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.assignment import (
    Assignment,
    read_assignment,
)
from rlcheck.grading.cli import app
from rlcheck.grading.grade import grade
from rlcheck.grading.laws import laws_of
from rlcheck.grading.report import EXIT_FAILED, EXIT_PASSED, EXIT_UNLOADABLE, EXIT_USAGE, Report

Write = Callable[..., Path]

# discounted_td_sum is right but for its refusals; discounted_return is right.
SUBMISSION = """
    import numpy as np

    def discounted_return(rewards, gamma):
        rewards = np.asarray(checked(rewards, gamma), dtype=float)
        return float(sum(gamma ** t * reward for t, reward in enumerate(rewards)))

    def checked(rewards, gamma):
        if isinstance(gamma, (str, list, type(None))) or not 0 <= gamma <= 1:
            raise ValueError("gamma")
        if isinstance(rewards, (str, bytes, dict)) or rewards is None or np.ndim(rewards) != 1:
            raise ValueError("rewards")
        if any(isinstance(r, str) or r is None or not np.isfinite(r) for r in rewards):
            raise ValueError("rewards")
        return rewards

    def discounted_td_sum(deltas, gamma):
        return float(sum(gamma ** t * delta for t, delta in enumerate(np.asarray(deltas, float))))
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file and give its path."""

    def written(text: str, name: str = "assignment.toml") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return written


def graded(write: Write, assignment: str, submission: str = SUBMISSION, **how: bool) -> Report:
    target = write(submission, "solution.py")
    asked = read_assignment(write(assignment))
    return grade(str(target), assignment=asked, examples=10, **how)


def names_of(function: str) -> list[str]:
    return [law.name for law in laws_of(FUNCTIONS[function])]


def test_a_function_s_weight_is_shared_by_its_laws(write: Write) -> None:
    report = graded(
        write,
        """
        title = "Returns"
        [functions.discounted_td_sum]
        weight = 9
        laws."*_refuses" = {weight = 2}
        [functions.semi_markov_return]
        weight = 1
        """,
    )
    points = {law.id: law.points for law in report.laws if law.function == "discounted_td_sum"}
    shares = len(names_of("discounted_td_sum")) + 1
    assert sorted(set(points.values())) == pytest.approx([9 / shares, 18 / shares])
    assert points["returns::discounted_td_sum_refuses"] == pytest.approx(18 / shares)
    assert report.max_score == pytest.approx(10)
    assert report.score == pytest.approx(9 - 18 / shares)
    assert report.functions["semi_markov_return"].status == "missing"
    assert (report.assignment, report.exit_code) == ("Returns", EXIT_FAILED)


def test_points_that_share_unevenly_still_add_up_to_the_weights(write: Write) -> None:
    report = graded(
        write,
        """
        functions.discounted_td_sum.weight = 3
        functions.discounted_return.weight = 7
        functions.return_to_go.weight = 1
        """,
    )
    assert report.max_score == 11


def test_without_partial_credit_one_lost_law_loses_the_function(write: Write) -> None:
    report = graded(
        write,
        """
        functions.discounted_td_sum = {weight = 3, partial = false}
        functions.discounted_return = {weight = 2, partial = false}
        """,
    )
    assert (report.score, report.max_score) == (2, 5)


def test_a_group_counts_its_cap_at_the_most(write: Write) -> None:
    """Two functions' laws are capped at 3 of 4: who loses less than a point loses nothing."""
    report = graded(
        write,
        """
        functions.discounted_td_sum.weight = 2
        functions.discounted_return.weight = 2
        groups.all = {laws = ["returns::*"], cap = 3}
        """,
    )
    assert report.functions["discounted_td_sum"].status == "failed"
    assert (report.score, report.max_score, report.exit_code) == (3, 3, EXIT_PASSED)


def test_a_law_whose_prerequisite_fails_is_blocked_and_so_are_those_that_wait_for_it(
    write: Write,
) -> None:
    report = graded(
        write,
        """
        [functions.discounted_td_sum]
        [functions.discounted_return]
        laws."return_at_the_ends_of_gamma".requires = ["returns::discounted_td_sum_refuses"]
        laws."return_of_*".requires = ["returns::return_at_the_ends_of_gamma"]
        """,
    )
    blocked = {law.id: law for law in report.laws if law.status == "blocked"}
    waiting = [name for name in names_of("discounted_return") if name.startswith("return_of_")]
    assert set(blocked) == {
        "returns::return_at_the_ends_of_gamma",
        *(f"returns::{name}" for name in waiting),
    }
    law = blocked["returns::return_at_the_ends_of_gamma"]
    assert law.message == "waits for returns::discounted_td_sum_refuses"
    assert not set(blocked) & {law.id for law in report.failures}
    assert report.score < report.max_score


def test_a_function_may_wait_for_another_as_a_whole(write: Write) -> None:
    report = graded(
        write,
        """
        functions.discounted_return.requires = ["discounted_td_sum"]
        functions.discounted_td_sum = {}
        """,
    )
    statuses = {law.status for law in report.laws if law.function == "discounted_return"}
    assert statuses == {"blocked"}
    assert report.functions["discounted_return"].passed == 0


HIDDEN = """
    functions.discounted_td_sum = {visibility = "hidden", hint = "Which gammas make sense?"}
"""


def test_a_hidden_law_shows_its_name_and_hint_and_never_its_input(write: Write) -> None:
    report = graded(write, HIDDEN)
    (law,) = report.failures
    assert (law.id, law.status) == ("returns::discounted_td_sum_refuses", "failed")
    assert law.hidden
    assert law.sentence == law.hint == "Which gammas make sense?"
    shown = [law.counterexample, law.expected, law.got, law.allowed, law.diagnosis]
    assert shown == [None] * 5
    assert [law.message, law.frames, law.replay, law.equation] == [""] * 4
    assert law.seconds == law.examples == 0  # a delay, or a late refusal, could tell the input
    assert report.seconds == pytest.approx(sum(law.seconds for law in report.laws), abs=1e-3)
    assert report.score == pytest.approx(report.max_score - law.points)


TELLTALE = """
    SEEN = []

    def discounted_td_sum(deltas, gamma):
        SEEN.append(deltas)
        print("hidden", deltas)
        return 0.0

    def discounted_return(rewards, gamma):
        raise RuntimeError(f"{len(SEEN)} inputs seen")
"""


def test_what_hidden_laws_ask_does_not_show_in_the_reports_of_others(write: Write) -> None:
    """A submission that remembers its inputs begins anew before and after hidden laws."""
    report = graded(
        write,
        """
        functions.discounted_td_sum.visibility = "hidden"
        functions.discounted_return = {}
        """,
        TELLTALE,
    )
    shown = [law for law in report.laws if law.function == "discounted_return"]
    assert {law.message for law in shown} == {"RuntimeError: 0 inputs seen"}
    assert "hidden" not in report.output


def test_a_teacher_sees_hidden_laws_whole(write: Write) -> None:
    (law,) = graded(write, HIDDEN, reveal=True).failures
    assert not law.hidden
    assert law.counterexample
    assert law.replay


def test_after_due_laws_are_hidden_until_then() -> None:
    assignment = Assignment(functions={}, due=datetime(2026, 12, 24, tzinfo=UTC))
    day = {day: datetime(2026, 12, day, tzinfo=UTC) for day in (23, 25)}
    assert assignment.is_hidden("after-due", now=day[23])
    assert not assignment.is_hidden("after-due", now=day[25])
    assert assignment.is_hidden("hidden", now=day[25])
    assert not assignment.is_hidden("public", now=day[23])
    assert Assignment(functions={}).is_hidden("after-due")


def test_the_secret_gives_a_content_its_seed() -> None:
    assignment = Assignment(functions={}, seed="per-submission")
    tea, coffee = {"RLCHECK_SECRET": "tea"}, {"RLCHECK_SECRET": "coffee"}
    seed = assignment.seed_of(b"one", tea)
    assert seed == assignment.seed_of(b"one", tea) >= 0
    assert seed not in (assignment.seed_of(b"other", tea), assignment.seed_of(b"one", coffee))
    with pytest.raises(ValueError, match="set RLCHECK_SECRET"):
        assignment.seed_of(b"one", {})
    assert Assignment(functions={}, seed=7).seed_of(b"one", {}) == 7


PEEKING = """
    def discounted_td_sum(deltas, gamma):
        raise RuntimeError(repr((deltas, gamma)))
"""


def test_a_hidden_law_draws_what_nobody_can_draw_again_without_the_secret(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its verdict, revealed or not, is that of one seed, which the report does not tell."""
    law = "returns::discounted_td_sum_telescopes"
    text = 'seed = 5\n[functions.discounted_td_sum]\nlaws."*_telescopes" = {visibility = "hidden"}'
    assignment = read_assignment(write(text, "assignment.toml"))
    path = str(write(PEEKING, "solution.py"))

    def shown(secret: str) -> tuple[str | None, str]:
        monkeypatch.setenv("RLCHECK_SECRET", secret)
        report = grade(path, assignment=assignment, reveal=True, examples=5)
        assert report.seed == 5
        (found,) = [entry for entry in report.laws if entry.id == law]
        return found.counterexample, found.replay

    assert shown("tea") == shown("tea") != shown("coffee")
    replay = shown("tea")[1]
    assert "--seed 5 " not in replay
    seed = int(replay.partition("--seed ")[2].split()[0])
    again = grade(path, only=["discounted_td_sum"], law=law, seed=seed, examples=5)
    assert again.failures[0].counterexample == shown("tea")[0]
    monkeypatch.setenv("RLCHECK_SECRET", "tea")
    hidden = grade(path, assignment=assignment, examples=5)
    assert str(seed) not in str(hidden)


def test_what_is_told_of_a_law_does_not_depend_on_hidden_ones(write: Write) -> None:
    """Not its diagnosis, which an answer to a hidden law could make fit or not."""
    text = """
    [functions.return_to_go]
    laws."*" = {visibility = "hidden"}
    laws."*_ends_of_gamma" = {visibility = "public"}
    """
    assignment = read_assignment(write(text, "assignment.toml"))
    told = []
    for as_before in (True, False):
        source = f"""
        FIRST = []

        def return_to_go(rewards, gamma=1.0):
            FIRST.append((list(rewards), gamma))
            answers, to_go = [], 0.0
            for reward in reversed(rewards):
                to_go = float(reward) + gamma * to_go
                answers.insert(0, gamma * to_go)
            if FIRST[0] == ([], 1.0) or {as_before}:
                return answers
            return [1.5 * answer + 1.0 for answer in answers]
        """
        report = grade(str(write(source, "solution.py")), assignment=assignment, examples=20)
        (public,) = [law for law in report.laws if not law.hidden]
        told.append((public.status, public.diagnosis))
    assert told[0] == told[1]
    assert told[0][1] is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "missing required field `functions`"),
        ("functions = {}", "functions is empty"),
        ("functions.td_residual = {}", "td_residuals"),
        ("functions.returns = {}", "functions.returns is no function, but several"),
        ("functions.td_residuals.weight = -1", "`$.functions[...].weight`"),
        ("functions.td_residuals.weight = inf", "`$.functions[...].weight`"),
        ("functions.td_residuals.weight = nan", "`$.functions[...].weight`"),
        ("functions.td_residuals.weight = 0", "worth nothing"),
        (
            "functions.td_residuals = {}\ngroups.a = {laws=['*'], cap=1}\n"
            "groups.b = {laws=['*_refuses'], cap=1}",
            "groups a and b both cap returns::td_residuals_refuses",
        ),
        ("functions.td_residuals.wieght = 1", "unknown field `wieght`"),
        ("functions.td_residuals.laws.x = {}", "functions.td_residuals.laws: 'x' matches nothing"),
        (
            "functions.td_residuals.requires = ['return_to_go']",
            "functions.td_residuals.requires: 'return_to_go' matches nothing that is asked for",
        ),
        ("functions.td_residuals.requires = ['td_residuals']", "requires goes in a circle: "),
        (
            "functions.td_residuals = {}\ngroups.g = {laws = ['kl::*'], cap = 1}",
            "groups.g.laws: 'kl::*' matches nothing",
        ),
        ("functions.td_residuals = {}\nseed = 'mine'", "`$.seed`"),
        ("functions.td_residuals = {}\nexamples = 0", "`$.examples`"),
        ("functions.td_residuals.visibility = 'secret'", "Invalid enum value 'secret'"),
        ("functions = [", "assignment.toml"),
    ],
)
def test_an_assignment_that_makes_no_sense_is_refused_by_key(
    write: Write, text: str, says: str
) -> None:
    path = write(text)
    with pytest.raises(ValueError) as refusal:
        read_assignment(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert says in str(refusal.value)


def test_on_the_command_line(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLCHECK_SECRET", raising=False)
    solution = str(write(SUBMISSION, "solution.py"))
    asked = write("title = 'Practical 1'\nfunctions.discounted_return = {weight = 4}\n")
    secret = write("seed = 'per-submission'\nfunctions.discounted_return = {}\n", "secret.toml")

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["grade", "--examples", "5", *arguments])
        return result.exit_code, result.output

    code, said = run(solution, "--assignment", str(asked))
    assert code == EXIT_PASSED
    assert "Practical 1" in said
    assert "4 of 4 points" in said
    code, said = run(solution, "--assignment", str(secret))
    assert (code, "set RLCHECK_SECRET" in said) == (EXIT_USAGE, True)
    code, said = run(solution, "--assignment", str(tmp_path / "none.toml"))
    assert (code, "there is no such file" in said) == (EXIT_USAGE, True)
    code, said = run(solution, "--assignment", str(asked), "--only", "kl")
    assert (code, "give one of them" in said) == (EXIT_USAGE, True)
    code, said = run(str(tmp_path / "nobody.py"), "--assignment", str(asked))
    assert (code, "cannot be graded" in said) == (EXIT_UNLOADABLE, True)
