"""Every mistake is killed, every law kills, and right implementations survive everything."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import laws_of, run
from rlcheck.grading.power import gaps, kill_matrix

ALTERNATIVES = Path(__file__).parents[1] / "alternatives"
SEEDS = range(1, 11)
FEW_EXAMPLES = 8  # beside the slow suite's ten seeds at the full number

functions = pytest.mark.parametrize("function", FUNCTIONS)


def alternative(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ALTERNATIVES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", params=["plain", "tensors"])
def right(request: pytest.FixtureRequest) -> ModuleType:
    """A correct implementation written another way."""
    return alternative(request.param)


@pytest.fixture(scope="session")
def drawn_seed(pytestconfig: pytest.Config) -> int:
    """The seed of this run, another one each time; the header states it."""
    return int(pytestconfig.getoption("--hypothesis-seed"))


@functions
def test_every_mistake_is_killed_and_every_law_kills(function: str, drawn_seed: int) -> None:
    assert gaps(function, drawn_seed) == []


@functions
def test_right_implementations_survive(function: str, right: ModuleType, drawn_seed: int) -> None:
    transport = InProcess({function: getattr(right, function)})
    for law in laws_of(FUNCTIONS[function]):
        verdict = run(law, transport, random_seed=drawn_seed, examples=FEW_EXAMPLES)
        assert verdict.holds, (law.id, verdict.message, verdict.counterexample)


def test_the_quick_check_agrees_with_the_whole_matrix(drawn_seed: int) -> None:
    name = "classify_stop_event"
    matrix = kill_matrix(name, drawn_seed)
    assert matrix.laws
    assert len(matrix.killers) >= 5
    assert list(matrix.gaps) == gaps(name, drawn_seed)


@pytest.mark.slow
@functions
def test_the_kill_matrix_holds_at_ten_seeds(function: str) -> None:
    assert {seed: gaps(function, seed) for seed in SEEDS} == {seed: [] for seed in SEEDS}


@pytest.mark.slow
@functions
def test_right_implementations_survive_ten_seeds(function: str, right: ModuleType) -> None:
    transport = InProcess({function: getattr(right, function)})
    for seed in SEEDS:
        for law in laws_of(FUNCTIONS[function]):
            verdict = run(law, transport, random_seed=seed)
            assert verdict.holds, (seed, law.id, verdict.message, verdict.counterexample)
