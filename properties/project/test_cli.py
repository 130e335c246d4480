"""The command line: exit codes, one clear line for each misuse, reports that are always written."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rlcheck.grading.cli import EXAMPLE, app
from rlcheck.grading.grade import grade
from rlcheck.grading.render import KINDS
from rlcheck.grading.report import EXIT_FAILED, EXIT_GRADER, from_json

UNFINISHED = "the grader was ended before it had finished"
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
    assert replayed(wrong, tmp_path) >= 3


@pytest.mark.slow
def test_every_card_of_the_example_is_reproduced_by_its_command(tmp_path: Path) -> None:
    assert replayed(EXAMPLE, tmp_path) >= 20


def replayed(target: Path, folder: Path) -> int:
    """How many cards the report of a target has; each is reproduced by its command."""
    report = folder / "report.json"
    rlcheck("grade", str(target), "--seed", "5", "--report", f"json={report}")
    failed = [law for law in json.loads(report.read_text())["laws"] if law["status"] == "failed"]
    for law in failed:
        again = rlcheck(*law["replay"].split()[1:])
        assert again.exit_code == 1
        for line in law["counterexample"].splitlines():
            assert line in again.output
    return len(failed)


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


def test_the_reports_of_a_killed_grader_say_that_it_did_not_finish(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text("import time\n\n\ndef discounted_return(rewards, gamma):\n    time.sleep(9)\n")
    outputs = {kind: tmp_path / f"report.{kind}" for kind in KINDS}
    command = [sys.executable, "-m", "rlcheck.grading.cli", "grade", str(path), "-j", "1"]
    command += [f"--report={kind}={output}" for kind, output in outputs.items()]
    for output in outputs.values():
        output.write_text("of an earlier run")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as grader:
        due = dict.fromkeys(KINDS, UNFINISHED) | {"csv": "target,"}  # a line a law: none
        while not all(due[kind] in output.read_text() for kind, output in outputs.items()):
            assert grader.poll() is None
            time.sleep(0.05)
        grader.kill()
    assert from_json(outputs["json"].read_bytes()).exit_code == EXIT_GRADER


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


def test_a_report_goes_into_no_other_file_and_no_pipe(wrong: Path, tmp_path: Path) -> None:
    """Where a hand-in's folder holds a pipe, or a second name of somebody's work."""
    os.mkfifo(tmp_path / "pipe.csv")
    shown = rlcheck("grade", str(wrong), "--report", f"csv={tmp_path / 'pipe.csv'}")
    assert (shown.exit_code, "it is there, and no file" in shown.output) == (2, True)
    victim = tmp_path / "victim.py"
    victim.write_text(WRONG)
    os.link(victim, tmp_path / "report.csv")
    rlcheck("grade", str(wrong), "--examples", "2", "--report", f"csv={tmp_path / 'report.csv'}")
    assert victim.read_text() == WRONG
    assert (tmp_path / "report.csv").read_text().startswith("target,")
    assert not list(tmp_path.glob("*.unfinished"))
    command = [sys.executable, "-m", "rlcheck.grading.cli", "grade", str(wrong), "--examples", "2"]
    command += ["--report", "csv=/dev/stdout"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.stdout.count("target,function,law,") == 1
    assert "returns::discounted_return_refuses," in said.stdout


def test_no_answer_is_a_workflow_command_or_turns_the_text_around(tmp_path: Path) -> None:
    path = tmp_path / "tells.py"
    path.write_text(
        "def discounted_return(rewards, gamma):\n    return '\\n::error::\\x9b31m\\u202e'\n"
    )
    command = [sys.executable, "-m", "rlcheck.grading.cli", "grade", str(path), "--examples", "2"]
    actions = {**os.environ, "GITHUB_ACTIONS": "true"}
    said = subprocess.run(command, env=actions, capture_output=True, text=True, check=False)
    first, *lines, last = said.stdout.splitlines()
    assert first.startswith("::stop-commands::")
    assert last == f"::{first.rpartition('::')[2]}::"
    assert len(last) > 20
    assert any(line.strip().startswith("::error::") for line in lines)
    assert not {"\x9b", "\u202e"} & set(said.stdout)


def test_an_exceptions_name_forges_no_line(tmp_path: Path) -> None:
    path = tmp_path / "forges.py"
    path.write_text("raise type('x\\n8 of 8 laws · all laws hold', (Exception,), {})\n")
    shown = rlcheck("grade", str(path), "--only", "discounted_return")
    assert shown.exit_code == 3
    assert not any(line.startswith("8 of 8") for line in shown.output.splitlines())


def test_a_closed_stream_is_taken_for_nothing_else(wrong: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = f"exec {sys.executable} -m rlcheck.grading.cli grade {wrong} --examples 2"
    closed = f"{command} --report json={report} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", closed], check=False).returncode == EXIT_FAILED
    assert from_json(report.read_bytes()).exit_code == EXIT_FAILED


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing is full here")
def test_an_output_that_is_full_is_told_and_the_report_is_there(
    wrong: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    command = [str(Path(sys.executable).with_name("rlcheck")), "grade", str(wrong)]
    command += ["--examples", "3", "--report", f"json={report}"]
    with open("/dev/full", "w") as full:
        said = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert said.returncode == EXIT_GRADER
    assert "the output cannot be written: No space left" in said.stderr
    assert "Traceback" not in said.stderr
    assert from_json(report.read_bytes()).exit_code == EXIT_FAILED


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


def test_what_was_printed_last_is_kept_where_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "prints.py"
    path.write_text(
        "import os\n\n\ndef discounted_return(rewards, gamma):\n"
        "    print('just before', end='')\n    os.kill(os.getpid(), 9)\n"
    )
    shown = rlcheck("grade", str(path), "--examples", "2", "--show-output")
    assert "the last that it printed:\njust before" in shown.output
