"""Pointing pytest at an implementation: option, variable, pyproject.toml, and an honest header."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAWS = str(ROOT / "properties" / "test_returns.py")
ENVIRONMENT = str(ROOT / "properties" / "test_keydoor_agent.py")
NOT_THE_SUITE = ("--ignore", str(ROOT / "properties" / "project"))  # slow to collect
RIGHT = str(ROOT / "properties" / "alternatives" / "plain.py")
WRONG = "def discounted_return(rewards, gamma):\n    return float(sum(rewards))\n"


def run_pytest(*arguments: str, cwd: Path = ROOT, **environment: str) -> tuple[int, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RLCHECK", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", *arguments],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return path


def test_the_reference_is_judged_unless_told_otherwise() -> None:
    code, out = run_pytest(LAWS, "-k", "discounted_return", "--verbose")
    assert code == 0
    assert "rlcheck: judging rlcheck" in out
    assert "hypothesis profile fast, seed " in out


def test_the_option_goes_before_the_variable(wrong: Path) -> None:
    code, out = run_pytest(
        LAWS, "-k", "discounted_return", "-v", "--impl", RIGHT, RLCHECK_IMPL=str(wrong)
    )
    assert code == 0, out
    assert f"judging {RIGHT}" in out


def test_the_variable_points_at_a_file_that_runs_in_a_worker(wrong: Path) -> None:
    code, out = run_pytest(
        LAWS,
        "-v",
        "-k",
        "return_to_go_refuses or discounted_return_refuses",
        RLCHECK_IMPL=str(wrong),
    )
    assert code == 1
    judging = re.escape(f"judging {wrong} at {wrong}")
    assert re.search(rf"{judging} \((process|namespaces|bubblewrap)\)", out)
    assert f"{wrong} does not define return_to_go" in out
    assert "1 failed, 1 skipped" in out


def test_pyproject_points_at_a_file(tmp_path: Path, wrong: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.rlcheck]\nimpl = "wrong.py"\n')
    code, out = run_pytest(
        "--pyargs",
        "rlcheck.properties.test_returns",
        "-v",
        "-k",
        "discounted_return_refuses",
        cwd=tmp_path,
    )
    assert code == 1
    assert f"judging {wrong}" in out


RIGHT_AT_THE_ENDS = """
def discounted_return(rewards, gamma):
    return float(sum(reward * gamma**t for t, reward in enumerate(rewards)))
"""
REFUSES = "returns::discounted_return_refuses"


def test_pyproject_names_expected_failures_which_are_strict(tmp_path: Path, wrong: Path) -> None:
    """A law that holds after all fails the run, and an id that is no law stops it."""
    project, laws = tmp_path / "pyproject.toml", ("--pyargs", "rlcheck.properties.test_returns")
    told = f'[tool.rlcheck]\nimpl = "{wrong.name}"\n[tool.rlcheck.expected_failures]\n'
    project.write_text(f'{told}"{REFUSES}" = "the caller checks"\n')
    code, out = run_pytest(*laws, "-k", "discounted_return_refuses", cwd=tmp_path)
    assert code == 0, out
    assert "1 xfailed" in out
    (tmp_path / "wrong.py").write_text(RIGHT_AT_THE_ENDS)
    project.write_text(f'{told}"returns::return_at_the_ends_of_gamma" = "no reason"\n')
    code, out = run_pytest(*laws, "-k", "return_at_the_ends_of_gamma", cwd=tmp_path)
    assert code == 1, out
    assert "[XPASS(strict)] no reason" in out
    project.write_text(f'{told}"returns::nothing" = "typing"\n')
    code, out = run_pytest(*laws, cwd=tmp_path)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "[tool.rlcheck.expected_failures]: no law is 'returns::nothing'" in out


def test_what_cannot_be_loaded_is_a_usage_error(tmp_path: Path) -> None:
    code, out = run_pytest(LAWS, "--impl", str(tmp_path / "absent.py"))
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "there is no such file" in out


def test_a_target_that_defines_nothing_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "empty.py").touch()
    code, out = run_pytest(LAWS, f"--impl={tmp_path / 'empty.py'}")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "defines none of rlcheck's functions" in out


def test_unknown_variables_are_warned_of() -> None:
    _, out = run_pytest(LAWS, "-v", "-k", "no_such_law", RLCHECK_IMPLEMENTATION="x")
    assert "RLCHECK_IMPLEMENTATION is no variable of rlcheck" in out


def test_an_unknown_profile_is_refused() -> None:
    code, out = run_pytest(LAWS, RLCHECK_PROFILE="sloppy")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "RLCHECK_PROFILE is 'sloppy'" in out


def test_the_seed_repeats_a_failure(wrong: Path) -> None:
    arguments = (
        LAWS,
        "-k",
        "discounted_return_refuses or geometric",
        "--impl",
        str(wrong),
        "--hypothesis-seed",
        "7",
    )
    first, second = run_pytest(*arguments), run_pytest(*arguments)
    cut = [
        out.partition("short test summary")[2].rpartition(" in ")[0] for _, out in (first, second)
    ]
    assert cut[0] == cut[1]
    assert first[0] == 1


def test_the_plugin_is_silent_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n")
    code, out = run_pytest("-v", cwd=tmp_path)
    assert code == 0
    assert "rlcheck:" not in out


def test_laws_of_environments_run_where_nothing_else_is_judged() -> None:
    code, out = run_pytest("--collect-only", ENVIRONMENT)
    assert code == 0
    assert "test_keydoor_agent.py::test_the_note_is_read_once" in out


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        ((LAWS, ENVIRONMENT), {"RLCHECK_IMPL": RIGHT}),
        (("--pyargs", "rlcheck.properties", f"--impl={RIGHT}", *NOT_THE_SUITE), {}),
    ],
    ids=["a file", "the package"],
)
def test_an_implementation_is_not_judged_by_laws_of_environments(
    arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    code, out = run_pytest("--collect-only", *arguments, **variables)
    assert code == 0, out
    assert "test_returns.py::test_discounted_return_refuses" in out
    assert "test_keydoor_agent.py::" not in out


def test_laws_of_environments_are_left_out_without_gymnasium(tmp_path: Path) -> None:
    (tmp_path / "no_gymnasium.py").write_text("import sys\nsys.modules['gymnasium'] = None\n")
    code, out = run_pytest(
        *("-p", "no_gymnasium", "--collect-only", "-m", "fast", str(ROOT / "properties")),
        *NOT_THE_SUITE,
        PYTHONPATH=str(tmp_path),
    )
    assert code == 0, out
    assert "test_returns.py::test_discounted_return_refuses" in out
    assert "test_keydoor_agent.py::" not in out


def test_a_run_that_judges_others_leaves_the_suites_own_tests_out(wrong: Path) -> None:
    own = str(ROOT / "properties" / "project" / "test_readme.py")
    code, out = run_pytest(f"--impl={wrong}", "--collect-only", "-m", "fast", LAWS, own)
    assert code == 0
    assert "test_returns.py::test_discounted_return_refuses" in out
    assert "test_the_table_of_functions_is_current" not in out
