"""The command line: exit codes, one clear line for each misuse, reports that are always written."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rlcheck.grading.cli import EXAMPLE, app
from rlcheck.grading.grade import grade

LABELS = ("expected", "got", "replay", "source")
WRONG = "def discounted_return(rewards, gamma):\n    return float(sum(rewards))\n"


def rlcheck(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return path


def test_grade_shows_a_card_for_each_failure(wrong: Path) -> None:
    shown = rlcheck("grade", str(wrong))
    assert shown.exit_code == 1
    assert "discounted_return([" in shown.output
    for label in LABELS:
        assert label in shown.output


def test_the_replay_command_of_a_card_reproduces_it(wrong: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    rlcheck("grade", str(wrong), "--seed", "5", "--report", f"json={report}")
    failed = [law for law in json.loads(report.read_text())["laws"] if law["status"] == "failed"]
    assert len(failed) >= 3
    for law in failed[:3]:
        again = rlcheck(*law["replay"].split()[1:])
        assert again.exit_code == 1
        for line in law["counterexample"].splitlines():
            assert line in again.output


def test_a_report_is_written_whatever_happens(tmp_path: Path) -> None:
    report = tmp_path / "new" / "report.json"
    for target, code in (("rlcheck", 0), ("nothing_here.py", 3)):
        shown = rlcheck(
            "grade",
            target,
            "--only",
            "return_to_go",
            "--examples",
            "5",
            "--report",
            f"json={report}",
        )
        assert shown.exit_code == code
        assert json.loads(report.read_text())["target"] == target


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["grade", "x.py", "--only", "td_residual"], "did you mean td_residuals?"),
        (["grade", "x.py", "--report", "pdf=x"], "KIND=PATH is due"),
        (["grade", "x.py", "--report", "json"], "KIND=PATH is due"),
        (["grade", "x.py", "--isolate", "vault"], "--isolate vault"),
        (["grade", "x.py", "--report", "json=-"], "KIND=PATH is due"),
        (["grade", "x.py", "--only", "[/b]"], "'[/b]' is no function"),
        (["grade", "x.py", "--call-seconds", "inf"], "--call-seconds"),
        (["grade", "x.py", "--examples", "0"], "--examples"),
        (["grade"], "Missing argument"),
        (["replay", "returns::nothing", "x.py"], "there is no law 'returns::nothing'"),
        (
            ["replay", "discounted_td_sum_telescops", "x.py"],
            "did you mean returns::discounted_td_sum_telescopes?",
        ),
        (["laws", "nothing"], "'nothing' is no function, module or course part"),
        (["no-such-command"], "No such command"),
    ],
)
def test_misuse_is_exit_code_2_and_names_the_word(arguments: list[str], says: str) -> None:
    shown = rlcheck(*arguments)
    assert shown.exit_code == 2
    assert says in shown.output


def test_a_report_that_cannot_be_written_is_said_before_the_run(wrong: Path) -> None:
    for path, says in (("/dev/null/report.json", "cannot be written"), (wrong, "file to grade")):
        shown = rlcheck("grade", str(wrong), "--report", f"json={path}")
        assert shown.exit_code == 2
        assert says in shown.output
    assert wrong.read_text() == WRONG


def test_lists_of_laws_and_mistakes() -> None:
    for command in ("laws", "mistakes"):
        shown = rlcheck(command, "td_residuals")
        assert shown.exit_code == 0
        assert f"{command}\n" in shown.output[-12:]


def test_power_prints_the_matrix() -> None:
    shown = rlcheck("power", "classify_stop_event", "-j", "1", "--seeds", "2")
    assert shown.exit_code == 0
    assert "the kill matrix holds at 2 seeds" in shown.output


def test_the_bundled_submission_shows_four_mistakes() -> None:
    wrong = ["td_residuals", "collector_target", "double_dqn_targets", "decoding"]
    report = grade(str(EXAMPLE), only=wrong, examples=10)
    found = {law.diagnosis.id for law in report.failures if law.diagnosis}
    assert found == {
        "td_residuals.bootstraps_through_terminals",
        "collector_target.multiplies_the_terminal_away",
        "double_dqn_targets.selects_with_the_target_network",
        "decoding_distribution_with_order.drops_the_crossing_token",
    }
