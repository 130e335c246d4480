"""The recipes of the documentation, run as far as they run without the services they are for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rlcheck.grading.assignment import read_assignment

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
TARGETS = "from rlcheck import discounted_return\n"
SOLUTION = """
import numpy as np

def dqn_targets(rewards, terminal, next_q, gamma):
    return np.asarray(rewards, float) + gamma * np.where(terminal, 0, np.max(next_q, axis=1))
"""


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        env=os.environ | {"PATH": path} | environment,
        cwd=environment["HERE"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def autograder(tmp_path: Path) -> Path:
    """The folders that Gradescope lays out."""
    for name in ("submission", "source", "results"):
        (tmp_path / name).mkdir()
    text = (RECIPES / "gradescope" / "assignment.toml").read_text()
    (tmp_path / "source" / "assignment.toml").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("submission", "earns"), [(SOLUTION, True), ("import nothing_like_it", False), (None, False)]
)
def test_a_gradescope_autograder_leaves_results_whatever_is_submitted(
    autograder: Path, submission: str | None, earns: bool
) -> None:
    if submission is not None:
        (autograder / "submission" / "solution.py").write_text(submission)
    script = RECIPES / "gradescope" / "run_autograder"
    assert os.access(script, os.X_OK)
    ran = run([str(script)], AUTOGRADER=str(autograder), HERE=str(autograder))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    results = json.loads((autograder / "results" / "results.json").read_text())
    assert (results["score"] > 0) == earns
    assert results["score"] < 6
    assert (autograder / "results" / "report.html").stat().st_size > 1000


def test_the_recipe_s_assignment_can_be_read() -> None:
    assignment = read_assignment(RECIPES / "gradescope" / "assignment.toml")
    assert set(assignment.functions) == {"dqn_targets", "double_dqn_targets"}


def test_a_workflow_writes_a_summary_and_a_junit_file(tmp_path: Path) -> None:
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").touch()
    (tmp_path / "my_package" / "targets.py").write_text(TARGETS)
    workflow = yaml.safe_load((RECIPES / "github.yml").read_text())
    (grade,) = [s["run"] for s in workflow["jobs"]["laws"]["steps"] if s.get("name") == "grade"]
    summary = tmp_path / "summary.md"
    ran = run(["bash", "-e", "-c", grade], GITHUB_STEP_SUMMARY=str(summary), HERE=str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "discounted_return" in summary.read_text()
    assert "<testcase" in (tmp_path / "rlcheck.xml").read_text()


def test_the_assignment_of_the_guide_can_be_read(tmp_path: Path) -> None:
    guide = (RECIPES.parent / "grading.md").read_text()
    (tmp_path / "a.toml").write_text(guide.split("```toml\n")[1].split("```")[0])
    assignment = read_assignment(tmp_path / "a.toml")
    assert assignment.functions["double_dqn_targets"].requires == ("dqn_targets",)
    assert assignment.groups["refusals"].cap == 0.25
