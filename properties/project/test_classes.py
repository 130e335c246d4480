"""Grading many submissions: what is found, resumed, summed up, and survives."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlcheck.grading.assignment import Assignment, FunctionTerms
from rlcheck.grading.class_reports import as_csv, as_json, render_class
from rlcheck.grading.classes import ClassReport, Settings, Standing, grade_class, summarised
from rlcheck.grading.cli import app
from rlcheck.grading.crowd import Cores
from rlcheck.grading.report import (
    EXIT_GRADER,
    EXIT_PASSED,
    EXIT_UNLOADABLE,
    EXIT_USAGE,
    Diagnosis,
    FunctionReport,
    LawReport,
    Report,
)
from rlcheck.grading.roster import LINK, Submission, is_class, left_out, submissions_in
from rlcheck.grading.seal import _key, seal

pytestmark = pytest.mark.usefixtures("_own_key")

BAD = "def discounted_td_sum(deltas, gamma):\n    return {}\n"
FEW = Settings(only=("discounted_td_sum",), options=(("examples", 4), ("seed", 3)))


@pytest.fixture(scope="module")
def _own_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Seals are made with a key of these tests, not with the user's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        _key.cache_clear()
        yield
    _key.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Submissions of every shape that a class hands in."""
    where = tmp_path / "class"
    for name in ("boris", "carl", "package", "_notes"):
        (where / name).mkdir(parents=True)
    (where / "anna.py").write_text(BAD.format("0.0"))
    (where / "boris" / "solution.py").write_text(BAD.format("1.0"))
    (where / "carl" / "solution.py").write_text("import no_such_library")
    (where / "package" / "__init__.py").write_text("from .inner import *")
    (where / "package" / "inner.py").write_text(BAD.format("2.0"))
    (where / "_notes" / "readme.txt").write_text("nothing to grade")
    (where / "_draft.py").write_text("")
    (where / ".hidden.py").write_text("")
    return where


def report_of(
    wrong: dict[str, str], *, right: Sequence[str] = (), error: str = "", fault: str = ""
) -> Report:
    """A report with a law for each name: lost ones with what was got."""
    laws = [LawReport(law, "f", f"{law} holds.", "failed", got=got) for law, got in wrong.items()]
    laws += [LawReport(law, "f", f"{law} holds.", "passed") for law in right]
    return Report(
        target="",
        seed=0,
        isolation="process",
        score=len(right),
        max_score=len(laws),
        functions={"f": FunctionReport("failed")},
        laws=laws,
        error=error,
        fault=fault,
    )


def test_a_class_is_several_targets_or_a_folder_that_is_no_package(folder: Path) -> None:
    assert is_class([str(folder)])
    assert is_class(["a.py", "b.py"])
    assert not is_class([str(folder / "anna.py")])
    assert not is_class([str(folder / "package")])
    assert not is_class(["a.dotted.module"])


def test_a_folder_s_files_packages_and_folders_of_one_file_are_submissions(folder: Path) -> None:
    assert submissions_in([str(folder)]) == [
        Submission("anna", folder / "anna.py", folder / "anna.py", alone=True),
        Submission("boris", folder / "boris" / "solution.py", folder / "boris"),
        Submission("carl", folder / "carl" / "solution.py", folder / "carl"),
        Submission("package", folder / "package", folder / "package", alone=True),
    ]


def test_what_cannot_be_graded_in_a_class_has_a_report_of_its_own(
    folder: Path, tmp_path: Path
) -> None:
    """A notebook, an empty folder, a folder of folders: nobody vanishes, nobody stops the rest."""
    (folder / "dora").mkdir()
    (folder / "emil" / "src").mkdir(parents=True)
    (folder / "emil" / "src" / "solution.py").touch()
    (folder / "fred.ipynb").touch()
    (folder / "GINA.PY").touch()
    (folder / "hugo.py").mkdir()
    (folder / "roster.csv").touch()
    barred = {s.name: s.barred for s in submissions_in([str(folder)]) if s.barred}
    assert sorted(barred) == ["GINA", "dora", "emil", "fred", "hugo.py"]
    assert "no Python file, NAME.py" in barred["fred"]
    assert "a folder without a Python file" in barred["dora"]
    assert left_out([str(folder)]) == [str(folder / "roster.csv")]
    shown = CliRunner().invoke(app, ["grade", str(folder), "--out", str(tmp_path / "results")])
    assert shown.exit_code == EXIT_PASSED
    assert f"not graded: {folder / 'roster.csv'}" in shown.output.replace("\n", "")
    assert json.loads((tmp_path / "results" / "dora.json").read_text())["score"] == 0


def test_what_a_shell_s_pattern_finds_stops_nobody(folder: Path) -> None:
    """As in `rlcheck grade class/*.py`: folders and links may be called so, too."""
    (folder / "hugo.py").mkdir()
    (folder / "ivan.py").symlink_to(folder / "nowhere")
    (folder / "abel.py").mkdir()
    (folder / "abel.py" / "anna.py").write_text(BAD.format("1.0"))
    found = submissions_in(sorted(map(str, folder.glob("[a-z]*.py"))))
    barred = {s.name: s.barred for s in found}
    assert sorted(barred) == ["abel.py", "anna", "hugo.py", "ivan"]
    assert "without a Python file" in barred["hugo.py"]
    assert "it is a link" in barred["ivan"]
    assert next(s for s in found if s.name == "anna").path == folder / "anna.py"
    everybody = submissions_in(sorted(map(str, folder.glob("[a-z]*"))))
    assert {"abel.py", "boris", "carl", "package"} <= {s.name for s in everybody}
    assert next(s for s in everybody if s.name == "abel.py").path == folder / "abel.py" / "anna.py"


def test_a_folder_that_cannot_be_read_stops_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(self: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(self))

    (folder / "carl" / "solution.py").unlink()  # as it looks to who may not list the folder
    monkeypatch.setattr(Path, "iterdir", unreadable)
    barred = {s.name: s.barred for s in submissions_in([str(e) for e in folder.glob("[a-c]*")])}
    assert "that can be read" in barred.pop("carl")
    assert set(barred.values()) == {""}
    with pytest.raises(ValueError, match="no submission that can be read"):
        submissions_in([str(folder / "carl")])


def test_a_link_on_the_way_to_a_hand_in_earns_nothing(folder: Path, tmp_path: Path) -> None:
    """As under `rlcheck grade */solution.py`; what lies above all hand-ins may be a link."""
    (folder / "mallory").symlink_to(folder / "boris")
    (tmp_path / "term").symlink_to(folder)
    for top in (folder, tmp_path / "term"):
        files = [str(top / name / "solution.py") for name in ("boris", "carl", "mallory")]
        barred = {s.name: s.barred for s in submissions_in(files)}
        assert barred == {
            "boris-solution": "",
            "carl-solution": "",
            "mallory-solution": LINK,
        }
    assert not any(s.barred for s in submissions_in([str(tmp_path / "term" / "anna.py")]))
    (folder / "up").symlink_to("..")
    asked = ["--only", "discounted_td_sum", "--examples", "3", "--out", str(tmp_path / "results")]
    named = [str(folder / "anna.py"), f"{folder / 'up'}/"]
    assert CliRunner().invoke(app, ["grade", *named, *asked]).exit_code == EXIT_PASSED
    assert {p.stem for p in (tmp_path / "results").iterdir()} == {"anna", "up"}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("anna ", r"anna\x20"),
        ("\u3164anna", r"\u3164anna"),
        ("an\u2800na", r"an\u2800na"),
        ("\uff41nna", r"\uff41nna"),
        ("an\u200dna", r"an\u200dna"),
        ("анна каренина", "анна каренина"),
        ("josé", "josé"),
        ("jose\u0301", "jose\u0301"),
    ],
)
def test_a_name_that_looks_like_anothers_is_told_with_its_codes(
    tmp_path: Path, name: str, told: str
) -> None:
    (tmp_path / f"{name}.py").touch()
    assert [s.name for s in submissions_in([str(tmp_path)])] == [told]


def test_files_of_one_name_are_called_by_their_folders(folder: Path) -> None:
    (folder / "boris-solution.py").touch()
    files = [folder / name for name in ("boris/solution.py", "carl/solution.py")]
    found = submissions_in([*map(str, files), str(folder / "boris-solution.py")])
    named = {submission.name: submission.path for submission in found}
    assert named == {
        "boris-solution": folder / "boris-solution.py",
        "boris-solution (2)": files[0],
        "carl-solution": files[1],
    }


def test_results_of_nobody_are_told(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    found = submissions_in([str(folder)])
    assert grade_class(found, FEW, results, Cores(1)).strays == []
    (results / "class.json").write_text("{}")  # a report of another kind
    assert grade_class(found[1:], FEW, results, Cores(1)).strays == ["anna.json"]


def test_the_file_to_grade_is_named_where_there_are_several(folder: Path) -> None:
    (folder / "boris" / "helpers.py").touch()
    barred = {s.name: s.barred for s in submissions_in([str(folder)])}
    assert barred.pop("boris").startswith("it holds helpers.py, solution.py; --file says")
    assert set(barred.values()) == {""}
    found = submissions_in([str(folder)], file="solution.py")
    assert found[1].path == folder / "boris" / "solution.py"
    assert found[3].path == folder / "package" / "solution.py"  # it says that it is missing


def test_no_name_of_a_file_stands_in_a_neighbours_way(tmp_path: Path) -> None:
    """A file and a folder of one name, a name's escape spelled out, names that differ in case."""
    (tmp_path / "class" / "anna").mkdir(parents=True)
    escaped = ["al\u200ci", "al\\u200ci"]
    long = "m" * 250
    for name in ("anna", "anna/solution", "BORIS", "Boris", *escaped, long):
        (tmp_path / "class" / f"{name}.py").write_text(BAD.format("0.0"))
    found = submissions_in([str(tmp_path / "class")])
    annas = [s.path.name for s in found if s.name.startswith("anna")]
    assert sorted(annas) == ["anna.py", "solution.py"]
    assert len({s.name.casefold() for s in found}) == len(found) == 7
    results = tmp_path / "results"
    summary = grade_class(found, FEW, results, Cores(1))
    assert [s.name for s in summary.submissions] == [s.name for s in found]
    assert len(list(results.glob("*.json"))) == 7
    assert summary.complete
    assert grade_class(found, FEW, results, Cores(1)).graded == 0


def test_results_that_cannot_be_written_are_told_and_stop_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rlcheck.grading.classes._keep", full)
    found = submissions_in([str(folder)])
    summary = grade_class(found, FEW, tmp_path / "results", Cores(1))
    assert summary.unkept == [s.name for s in found] == [s.name for s in summary.submissions]
    assert not summary.complete


def test_a_result_that_somebody_else_wrote_is_not_taken_for_one(
    folder: Path, tmp_path: Path
) -> None:
    found, results = submissions_in([str(folder / "anna.py")]), tmp_path / "results"
    honest = grade_class(found, FEW, results, Cores(1)).submissions[0]
    kept = json.loads((results / "anna.json").read_text())
    kept["score"] = kept["max_score"]  # under the seal of the honest result
    (results / "anna.json").write_text(json.dumps(kept))
    again = grade_class(found, FEW, results, Cores(1))
    assert again.graded == 1
    assert again.submissions[0].score == honest.score < honest.max_score


def test_a_key_that_cannot_be_kept_seals_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seals = []
    for place in (tmp_path / "state", Path("/dev/null")):
        monkeypatch.setenv("XDG_STATE_HOME", str(place))
        for _ in range(2):
            _key.cache_clear()
            seals.append(seal(b"result"))
    _key.cache_clear()
    assert seals[0] == seals[1]
    assert len(set(seals)) == 3


def test_a_folder_with_a_librarys_name_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("anna", "scipy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(BAD.format("0.0"))
    monkeypatch.chdir(tmp_path)
    arguments = ["--only", "discounted_td_sum", "--examples", "4", "--out", "results"]
    shown = CliRunner().invoke(app, ["grade", "anna", "scipy", *arguments])
    assert shown.exit_code == EXIT_PASSED
    scores = {p.stem: json.loads(p.read_text())["score"] for p in Path("results").iterdir()}
    assert scores["anna"] == scores["scipy"]
    alone = CliRunner().invoke(app, ["grade", "scipy"], env={"COLUMNS": "200"})
    assert alone.exit_code == EXIT_USAGE
    assert "write ./scipy for the folder" in alone.output


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_lies_in_the_current_folder_is_not_imported_by_the_grader(
    tmp_path: Path, jobs: str
) -> None:
    """A student's struct.py would run outside of every tier."""
    work, ran = tmp_path / "class", tmp_path / "ran"
    work.mkdir()
    (work / "struct.py").write_text(f"open({str(ran)!r}, 'w')\nraise SystemExit(9)")
    (work / "anna.py").write_text(BAD.format("0.0"))
    command = [str(Path(sys.executable).with_name("rlcheck")), "grade", ".", "-j", jobs]
    command += ["--only", "discounted_td_sum", "--examples", "4", "--out", "../results"]
    said = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    assert said.returncode == EXIT_PASSED, said.stderr
    assert not ran.exists()
    assert {p.stem for p in (tmp_path / "results").iterdir()} == {"anna", "struct"}


def test_results_go_through_nobody_s_link(folder: Path, tmp_path: Path) -> None:
    results, victim = tmp_path / "results", folder / "boris" / "solution.py"
    results.mkdir()
    (results / "anna.unfinished").symlink_to(victim)
    (results / "anna.json").symlink_to(victim)
    os.mkfifo(results / "carl.json")  # reading it would never end
    summary = grade_class(submissions_in([str(folder)]), FEW, results, Cores(1))
    assert (summary.complete, summary.graded) == (True, 4)
    assert victim.read_text() == BAD.format("1.0")
    assert not (results / "anna.json").is_symlink()
    (results / "anna.json").unlink()
    (results / "anna.json").mkdir()
    assert grade_class(submissions_in([str(folder)]), FEW, results, Cores(1)).unkept == ["anna"]
    assert [path.name for path in results.glob("*.unfinished")] == ["anna.unfinished"]
    (tmp_path / "report.csv").symlink_to(victim)
    csv = f"csv={tmp_path / 'report.csv'}"
    shown = CliRunner().invoke(app, ["grade", str(victim), "--report", csv])
    assert shown.exit_code == EXIT_USAGE
    assert victim.read_text() == BAD.format("1.0")


def test_a_linked_folder_within_a_hand_in_earns_nothing(folder: Path) -> None:
    (folder / "carl" / "src").symlink_to(folder / "boris")
    found = {s.name: s.barred for s in submissions_in([str(folder)], file="src/solution.py")}
    assert "it is a link" in found["carl"]
    assert found["anna"] == ""
    for file in ("../boris/solution.py", str(folder / "boris" / "solution.py")):
        shown = CliRunner().invoke(app, ["grade", str(folder), "--file", file])
        assert shown.exit_code == EXIT_USAGE
        assert "a name within each folder" in shown.output


def test_a_link_as_the_one_target_earns_nothing(folder: Path) -> None:
    (folder / "copy.py").symlink_to(folder / "anna.py")
    asked = ["--only", "discounted_td_sum", "--examples", "3"]
    shown = CliRunner().invoke(app, ["grade", str(folder / "copy.py"), *asked])
    assert shown.exit_code == EXIT_UNLOADABLE
    assert "it is a link" in shown.output


def test_nothing_is_written_where_a_hand_in_could_lie(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "rlcheck-results").mkdir()
    victim = folder / "rlcheck-results" / "anna.unfinished"
    victim.symlink_to(folder / "boris" / "solution.py")
    (folder / "out").symlink_to(folder.parent)
    elsewhere = ["--out", "../results", "--report", "csv=scores.csv"]
    for options in ([], ["--out", "out"], ["--out", "out/class/x"], elsewhere):
        shown = CliRunner().invoke(app, ["grade", ".", *options], env={"COLUMNS": "200"})
        assert shown.exit_code == EXIT_USAGE
        assert "among what is graded" in shown.output
    named = ["anna.py", "boris", "--out", "out"]
    shown = CliRunner().invoke(app, ["grade", *named], env={"COLUMNS": "200"})
    assert shown.exit_code == EXIT_USAGE
    assert "--out out: that is a link" in shown.output
    assert (folder / "boris" / "solution.py").read_text() == BAD.format("1.0")


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        (["{0}/nobody", "{0}/anna.py"], "nobody: there is no such file or folder"),
        (["{0}/_notes"], "notes: the folder holds no submission"),
    ],
)
def test_targets_that_make_no_class_are_refused(
    folder: Path, targets: list[str], says: str
) -> None:
    with pytest.raises(ValueError) as refusal:
        submissions_in([target.format(folder) for target in targets])
    assert says in str(refusal.value)


def grader_of(
    reports: dict[str, Report], asked: list[str], stop_at: str = ""
) -> Callable[[Settings, Sequence[Submission]], Iterator[tuple[Submission, Report]]]:
    """A grader that gives these reports, last first, and says what it was asked for."""

    def grader(
        settings: Settings, submissions: Sequence[Submission]
    ) -> Iterator[tuple[Submission, Report]]:
        for submission in reversed(submissions):
            if submission.name == stop_at:
                raise KeyboardInterrupt
            asked.append(submission.name)
            yield submission, reports[submission.name]

    return grader


def test_finished_submissions_are_not_graded_again_unless_something_changed(
    folder: Path, tmp_path: Path
) -> None:
    submissions, asked = submissions_in([str(folder)]), list[str]()
    grader = grader_of({s.name: report_of({"a": s.name}) for s in submissions}, asked)
    results = tmp_path / "results"

    def run(settings: Settings = FEW) -> tuple[list[str], ClassReport]:
        asked.clear()
        summary = grade_class(submissions, settings, results, grader)
        return sorted(asked), summary

    everyone = [s.name for s in submissions]
    first = run()
    assert (first[0], first[1].graded) == (everyone, 4)
    again = run()
    assert (again[0], again[1].graded) == ([], 0)
    assert [s.name for s in again[1].submissions] == everyone
    (folder / "package" / "inner.py").write_text(BAD.format("3.0"))
    assert run()[0] == ["package"]
    (results / "anna.json").write_text('{"schema": 1')
    assert run()[0] == ["anna"]
    assert run(Settings(only=("td_residuals",)))[0] == everyone
    weighted = Assignment(functions={"td_residuals": FunctionTerms(weight=2)})
    assert run(Settings(assignment=weighted))[0] == everyone


def test_what_the_grader_failed_on_is_graded_again(folder: Path, tmp_path: Path) -> None:
    submissions, asked = submissions_in([str(folder / "anna.py")]), list[str]()
    grader = grader_of({"anna": report_of({}, fault="its grader died")}, asked)
    for _ in range(2):
        summary = grade_class(submissions, FEW, tmp_path / "results", grader)
        assert not summary.complete
    assert asked == ["anna", "anna"]


def test_an_interrupted_run_keeps_what_is_done_and_goes_on_there(
    folder: Path, tmp_path: Path
) -> None:
    submissions, asked = submissions_in([str(folder)]), list[str]()
    reports = {s.name: report_of({"a": s.name}) for s in submissions}
    summary = grade_class(submissions, FEW, tmp_path, grader_of(reports, asked, stop_at="boris"))
    assert summary.unfinished == ["anna", "boris"]
    assert not summary.complete
    assert b"anna,,,not graded yet,," in as_csv(summary)
    summary = grade_class(submissions, FEW, tmp_path, grader_of(reports, asked))
    assert summary.complete
    assert asked == ["package", "carl", "boris", "anna"]


def test_the_summary_counts_lost_laws_and_likely_mistakes() -> None:
    reports = {
        "anna": report_of({"a": "1", "b": "2"}),
        "boris": report_of({"a": "3"}, right=["b"]),
        "carl": report_of({}, error="SyntaxError"),
        "dora": report_of({}, fault="its grader died"),
    }
    for name in ("anna", "boris"):
        reports[name].laws[0].diagnosis = Diagnosis("f.slips", "slips")
    summary = summarised(reports)
    assert [(law.id, law.lost, law.judged) for law in summary.laws] == [("a", 2, 2), ("b", 1, 2)]
    (mistake,) = summary.mistakes
    assert (mistake.id, mistake.submissions) == ("f.slips", ["anna", "boris"])
    assert [s.problem for s in summary.submissions] == ["", "", "SyntaxError", "its grader died"]
    assert [s.ungradable for s in summary.submissions] == [False, False, False, True]


def test_what_is_asked_for_and_missing_or_blocked_is_told_as_such() -> None:
    report = report_of({"a": "1"})
    for function, status in (("g", "missing"), ("h", "skipped"), ("k", "blocked")):
        report.laws.append(LawReport(f"{function}::x", function, "", status))
        kept = "missing" if status in ("missing", "skipped") else "failed"
        report.functions[function] = FunctionReport(kept)
    (standing,) = summarised({"anna": report}).submissions
    assert standing.lost == ["f", "g (missing)", "k (blocked)"]


def test_rare_wrong_answers_that_two_share_are_told_and_common_ones_are_not() -> None:
    common = {"a": "0", "b": "0", "c": "0"}
    reports = {name: report_of(common) for name in ("anna", "boris", "carl")}
    reports |= {name: report_of({"d": "7", "e": "8", "f": "9"} | common) for name in ("x", "y")}
    (pair,) = summarised(reports).alike
    assert (pair.names, pair.share) == (("x", "y"), 1.0)
    assert summarised({n: report_of(common) for n in "xyz"}).alike == []


def test_a_table_for_spreadsheets_holds_no_formulas() -> None:
    standing = Standing("=cmd()", 1, 2, {"f": "failed"}, ["f.slips"], "+1")
    table = as_csv(ClassReport(submissions=[standing], laws=[], mistakes=[], alike=[]))
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    assert rows == [
        {
            "name": "'=cmd()",
            "score": "1",
            "max_score": "2",
            "problem": "'+1",
            "mistakes": "f.slips",
            "f": "failed",
        }
    ]


def test_a_class_is_graded_side_by_side(folder: Path, tmp_path: Path) -> None:
    submissions = submissions_in([str(folder)])
    seen: list[str] = []
    summary = grade_class(
        submissions, FEW, tmp_path, Cores(2), progress=lambda done: seen.append(done.name)
    )
    assert sorted(seen) == [s.name for s in summary.submissions] == [s.name for s in submissions]
    problems = {s.name: s.problem for s in summary.submissions}
    assert problems["carl"] == "ModuleNotFoundError: No module named 'no_such_library'"
    assert [problems[name] for name in ("anna", "boris", "package")] == [""] * 3
    assert all(s.score < s.max_score for s in summary.submissions)
    assert summary.complete
    assert json.loads(as_json(summary))["schema"] == 1


class Deadly(Settings):
    """Settings under which grading kills the process that does it."""

    def grade(self, submission: Submission) -> Report:
        if submission.name == "boris":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().grade(submission)


def test_a_grader_that_dies_is_replaced_and_costs_nobody_else_a_result(
    folder: Path, tmp_path: Path
) -> None:
    submissions = submissions_in([str(folder)])
    settings = Deadly(only=FEW.only, options=FEW.options)
    summary = grade_class(submissions, settings, tmp_path, Cores(2))
    ungradable = {s.name: s.problem for s in summary.submissions if s.ungradable}
    assert ungradable == {"boris": "its grader died, twice"}
    assert len(summary.submissions) == 4


@dataclass(frozen=True)
class Waiting(Settings):
    """Settings under which boris kills his grader once a report of another has been used."""

    used: Path = Path()

    def grade(self, submission: Submission) -> Report:
        if submission.name == "boris":
            while not self.used.exists():
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().grade(submission)


def test_a_grader_may_die_while_a_report_is_being_used(folder: Path, tmp_path: Path) -> None:
    settings = Waiting(only=FEW.only, options=FEW.options, used=tmp_path / "used")
    before = set(active_children())
    graded = []
    for submission, report in Cores(2)(settings, submissions_in([str(folder)])):
        graded.append((submission.name, report.fault))
        settings.used.touch()
        while len(graded) == 1 and set(active_children()) - before:
            time.sleep(0.02)  # until the pool has noticed, and has ended its processes
    assert sorted(graded)[1] == ("boris", "its grader died, twice")
    assert sorted(name for name, _ in graded) == ["anna", "boris", "carl", "package"]


def test_a_link_earns_nothing_of_what_it_leads_to(folder: Path, tmp_path: Path) -> None:
    right = "return sum(r * gamma**t for t, r in enumerate(rewards))"
    (folder / "anna.py").write_text(f"def discounted_return(rewards, gamma):\n    {right}\n")
    (folder / "flat.py").symlink_to(folder / "anna.py")
    (folder / "within").mkdir()
    (folder / "within" / "solution.py").symlink_to("../anna.py")
    (folder / "whole").symlink_to(folder / "boris", target_is_directory=True)
    settings = Settings(only=("discounted_return",), options=FEW.options)
    submissions = submissions_in([str(folder)])
    summary = grade_class(submissions, settings, tmp_path, Cores(2))
    standings = {s.name: s for s in summary.submissions}
    assert standings["anna"].score > 0
    for name in ("flat", "within", "whole"):
        assert (standings[name].score, "it is a link" in standings[name].problem) == (0, True)
        assert standings[name].max_score == standings["anna"].max_score


def test_names_and_pipes_that_would_stop_a_class(tmp_path: Path) -> None:
    """What is no text, moves a terminal's cursor or never ends, costs nobody else a result."""
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "anna.py").write_text(BAD.format("0.0"))
    os.mkfifo(folder / "pipe.py")
    for name in (b"no\xfftext.py", b"\x1b[2Jclear.py", b"two\nlines.py"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text(BAD.format("0.0"))
    summary = grade_class(submissions_in([str(folder)]), FEW, tmp_path / "results", Cores(2))
    standings = {s.name: s for s in summary.submissions}
    assert set(standings) == {
        "anna",
        "pipe",
        r"no\udcfftext",
        r"\x1b[2Jclear",
        r"two\nlines",
    }
    assert standings["pipe"].problem == "it is neither a file nor a folder"
    others = [s for name, s in standings.items() if name != "pipe"]
    assert {(s.score, s.problem) for s in others} == {(standings["anna"].score, "")}
    assert summary.complete
    for kind in ("csv", "html", "json"):
        assert b"\x1b" not in render_class(kind, summary)


def test_on_the_command_line(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        asked = ["--only", "discounted_td_sum", "--examples", "4", *arguments]
        result = CliRunner().invoke(app, ["grade", *asked])
        return result.exit_code, result.output

    code, said = run(str(folder), "--report", "csv=class.csv")
    assert code == EXIT_PASSED
    assert "4 submissions, 4 graded now; rlcheck-results" in said
    assert (tmp_path / "class.csv").read_text().count("\n") == 5
    assert len(list((tmp_path / "rlcheck-results").glob("*.json"))) == 4
    assert "4 submissions, 0 graded now" in run(str(folder))[1]
    code, said = run(str(folder), "--report", "junit=class.xml")
    assert (code, "KIND of a class, one of json, csv, html" in said) == (EXIT_USAGE, True)
    code, said = run(str(folder / "_notes"))
    assert (code, "holds no submission" in said) == (EXIT_USAGE, True)


def test_ctrl_c_leaves_complete_results_for_what_is_done(folder: Path, tmp_path: Path) -> None:
    """The one submission that hangs is interrupted, and the results of the others stand."""
    (folder / "zoe.py").write_text(BAD.format("[0 for _ in iter(int, 1)]"))
    command = [sys.executable, "-c", "from rlcheck.grading.cli import main; main()", "grade"]
    asked = ["--only", "discounted_td_sum", "--examples", "4", "--call-seconds", "600", "-j", "1"]
    process = subprocess.Popen(
        [*command, str(folder), *asked, "--out", str(tmp_path / "results")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A suite in the background of a script has been told to ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 300
    while len(list((tmp_path / "results").glob("*.json"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == EXIT_GRADER
    assert "not graded: zoe; the same command goes on with them" in said
    assert not list((tmp_path / "results").glob("zoe*"))


def shown(lang: str) -> str:
    reports = {
        f"student_{n}": report_of({"a": "0"} if n % 3 else {}, right=["b", "c"][: n % 4])
        for n in range(12)
    }
    reports |= {name: report_of({"x": "7", "y": "8", "z": "<9>"}) for name in ("eve", "mallory")}
    reports["<b>bob"] = report_of({}, error="ImportError: no <module>")
    reports["eve"].laws[0].diagnosis = Diagnosis("f.slips", "slips & falls")
    return render_class("html", summarised(reports), lang=lang).decode()


@pytest.mark.parametrize("lang", ["en", "ru"])
def test_the_page_of_a_class_is_one_file_that_runs_nothing(lang: str) -> None:
    page = shown(lang)
    assert f'<html lang="{lang}">' in page
    assert "&lt;b&gt;bob" in page
    assert "<b>bob" not in page
    assert "no &lt;module&gt;" in page
    assert "slips &amp; falls" in page
    assert "eve · mallory" in page
    assert not re.search(r"<script|src=|url\(", page)
    assert len(page) < 60_000
    assert bool(re.search("[а-я]", page)) == (lang == "ru")


def test_the_page_of_a_class_counts_the_scores_by_tenths() -> None:
    counted = re.findall(r'text-anchor="middle">(\d+)</text>', shown("en"))
    assert sum(map(int, counted)) == 15
