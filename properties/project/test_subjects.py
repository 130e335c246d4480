"""Public libraries: their adapters, what is declared of them, and other interpreters.

A library that is not installed here is judged in the interpreter that RLCHECK_PYTHONS names for
its environment, as in "libraries=/path/to/python,imitation=/path/to/python".
"""

import ast
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.cli import app
from rlcheck.grading.conformance import conformance, markdown, python_for
from rlcheck.grading.grade import grade
from rlcheck.grading.implementation import load
from rlcheck.grading.interpreter import UnfitInterpreter, interpreter
from rlcheck.grading.laws import laws_of
from rlcheck.grading.report import EXIT_PASSED, EXIT_UNLOADABLE, EXIT_USAGE
from rlcheck.grading.submission import CannotLoad
from rlcheck.subjects import Subject, subject, subjects

FINDINGS = Path(__file__).parents[2] / "docs" / "findings"
BLOCKS = re.compile(r"^```python\n(.*?)^```\n.*?^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PYTHONS = dict(
    entry.split("=", 1) for entry in os.environ.get("RLCHECK_PYTHONS", "").split(",") if entry
)
RIGHT = "def discounted_return(rewards, gamma):\n    return sum(r * gamma**t for t, r in {})\n"


def python_of(finding: Path) -> str | None:
    """The interpreter that has what a finding is about: its code says what it imports."""
    code = BLOCKS.findall(finding.read_text())[0][0]
    tree = ast.parse(code)
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    roots = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    if roots <= packages_distributions().keys():
        return sys.executable
    return PYTHONS.get("imitation" if "imitation" in roots else "libraries")


REPRODUCIBLE = [path for path in sorted(FINDINGS.glob("*.md")) if python_of(path)]
HERE = [library for library in subjects() if python_for(library, PYTHONS)]


@pytest.mark.parametrize("library", subjects(), ids=lambda s: s.name)
def test_what_is_declared_names_laws_and_findings_that_exist(library: Subject) -> None:
    laws = [law for name in library.provides for law in laws_of(FUNCTIONS[name])]
    known = {law.id for law in laws if not law.of_refusals}
    named = [law for entry in library.declared for law in entry.laws]
    assert library.provides
    assert sorted(named) == sorted(set(named))
    assert set(named) <= known
    for entry in library.declared:
        assert not entry.finding or (FINDINGS / f"{entry.finding}.md").is_file(), entry.finding


@pytest.mark.parametrize("path", sorted(FINDINGS.glob("*.md")), ids=lambda p: p.stem)
def test_a_finding_holds_one_reproduction_without_rlcheck(path: Path) -> None:
    code, printed = BLOCKS.findall(path.read_text())[0]
    assert "rlcheck" not in code
    assert printed.strip()


def test_an_adapter_imports_nothing_of_rlcheck() -> None:
    for path in Path(str(sys.modules["rlcheck.subjects"].__file__)).parent.glob("*.py"):
        if path.stem != "__init__":
            nodes = list(ast.walk(ast.parse(path.read_text())))
            modules = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
            modules |= {n.module or "." for n in nodes if isinstance(n, ast.ImportFrom)}
            assert not {m for m in modules if m.partition(".")[0] in ("rlcheck", "")}, path


@pytest.mark.parametrize("library", subjects(), ids=lambda s: s.name)
def test_an_absent_library_says_what_to_install(library: Subject, monkeypatch) -> None:
    monkeypatch.setattr("rlcheck.subjects.find_spec", lambda name: None)
    with pytest.raises(CannotLoad, match="is not installed here") as caught, load(library.name):
        pass
    assert library.install in str(caught.value)


def test_scipy_is_graded_by_its_name_with_what_is_declared_of_it() -> None:
    report = grade("scipy", only=["return_to_go", "stable_log_softmax"], examples=30)
    declared = [law for law in report.laws if law.expected_failure]
    assert (report.exit_code, report.isolation) == (EXIT_PASSED, "in-process")
    assert all("refuse" not in law.id for law in report.laws)
    assert all(law.expected_failure.startswith("convention: ") for law in declared)


def test_what_is_known_to_fail_is_no_failure_on_the_terminal() -> None:
    asked = ["grade", "scipy", "--only", "cql_discrete_penalty", "--examples", "30"]
    result = CliRunner().invoke(app, asked, env={"COLUMNS": "300"})
    assert result.exit_code == EXIT_PASSED
    assert "7 of 7 laws · all laws hold" in result.output
    assert "5 laws known to fail: convention: logsumexp is a number" in result.output


def test_refusals_can_be_asked_of_a_library_and_spared_a_module(tmp_path: Path) -> None:
    asked = grade("scipy", only=["stable_log_softmax"], examples=10, refusals=True)
    assert [law.id for law in asked.laws if "refuse" in law.id]
    path = tmp_path / "solution.py"
    path.write_text(RIGHT.format("enumerate(rewards)"))
    whole, spared = (
        grade(str(path), only=["discounted_return"], examples=10, refusals=refusals)
        for refusals in (None, False)
    )
    assert whole.max_score > spared.max_score
    assert not [law.id for law in spared.laws if "refuse" in law.id]


def test_a_target_runs_in_the_interpreter_that_is_named(tmp_path: Path) -> None:
    """A module that only the other interpreter has is found there, and nowhere else."""
    environment = tmp_path / "environment"
    make = [sys.executable, "-m", "venv", "--system-site-packages", "--without-pip"]
    subprocess.run([*make, environment], check=True)
    site = next(environment.glob("lib/python*/site-packages"))
    own = next(p for p in sys.path if p.endswith("site-packages"))
    (site / "theirs.pth").write_text(own)  # the packages of this environment, too
    (site / "only_there.py").write_text(RIGHT.format("enumerate(rewards)"))
    there = str(environment / "bin" / "python")
    only = ["discounted_return"]
    here = grade("only_there", only=only, examples=5)
    found = grade("only_there", only=only, examples=5, refusals=False, python=there)
    assert here.exit_code == EXIT_UNLOADABLE
    assert found.isolation != "in-process"
    assert found.functions["discounted_return"].passed > 0
    assert f"--python {there}" in found.laws[0].replay


@pytest.mark.parametrize(
    ("program", "says"),
    [("/no/such/python", "there is no such program"), ("true", "is no Python that answers")],
)
def test_an_unfit_interpreter_is_a_usage_error(program: str, says: str) -> None:
    with pytest.raises(UnfitInterpreter, match=says):
        interpreter(program)
    result = CliRunner().invoke(app, ["grade", "scipy", "--python", program])
    assert (result.exit_code, says in result.output) == (EXIT_USAGE, True)


def test_the_libraries_are_listed() -> None:
    result = CliRunner().invoke(app, ["libraries"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert all(library.name in result.output for library in subjects())
    assert subject("no_such_library") is None


@pytest.mark.slow
def test_the_page_shows_each_library_and_what_it_does_not_hold(monkeypatch) -> None:
    scipy = subject("scipy")
    assert scipy is not None
    monkeypatch.setattr("rlcheck.grading.conformance.subjects", lambda: (scipy,))
    found = conformance({}, examples=30, date="2026-01-02")
    page = markdown(found)
    (library,) = found.libraries
    assert library.functions["stable_log_softmax"] == "holds"
    assert library.functions["exact_kl_from_logits"] == "convention"
    assert library.functions["dqn_targets"] == "not provided"
    assert set(library.versions) == {"scipy", "numpy"}
    assert "on 2026-01-02 with 30 examples" in page
    assert "| `exact_kl_from_logits` | convention |" in page
    assert all(entry.reason in page for entry in scipy.declared)


@pytest.mark.slow
@pytest.mark.parametrize("library", HERE, ids=lambda s: s.name)
def test_a_library_is_as_declared(library: Subject) -> None:
    """No law fails that is not declared to, and none holds that is."""
    python = python_for(library, PYTHONS)
    report = grade(library.name, python=python, jobs=2)
    assert not report.error
    assert {law.id: law.message for law in report.failures} == {}
    assert not report.fault


@pytest.mark.slow
@pytest.mark.parametrize("path", REPRODUCIBLE, ids=lambda p: p.stem)
def test_a_finding_reproduces(path: Path, tmp_path: Path) -> None:
    code, printed = BLOCKS.findall(path.read_text())[0]
    command = [str(python_of(path)), "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert said.stdout == printed, said.stderr[-2000:]
