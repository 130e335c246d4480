"""Every mistake is killed, every law kills, and right implementations survive everything."""

import importlib.util
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rlcheck.catalogue import FUNCTIONS, TWINS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import laws_of, run
from rlcheck.grading.power import gaps, kill_matrix

ALTERNATIVES = Path(__file__).parents[1] / "alternatives"
SEEDS = range(1, 11)
FEW_EXAMPLES = 5  # beside the slow suite's ten seeds
SOME_EXAMPLES = 12  # at each of the ten seeds

functions = pytest.mark.parametrize("function", FUNCTIONS)
twins = pytest.mark.parametrize("function", sorted(TWINS))
# Correct implementations written another way; those of the second row take and give tensors.
ARRAYS = ("plain", "tensors", "rlcheck.torch")
TENSORS = ("differentiable", "rlcheck.torch")
values = pytest.mark.parametrize(
    ("function", "right", "tensors"),
    [(name, right, False) for name in FUNCTIONS for right in ARRAYS[: 3 if name in TWINS else 2]]
    + [(name, "differentiable", True) for name in sorted(TWINS)],
)
slopes = pytest.mark.parametrize(
    ("function", "right"), [(name, right) for name in sorted(TWINS) for right in TENSORS]
)


def implementation(name: str) -> Any:
    """A module of the package, or one of the alternatives beside the laws."""
    if name.startswith("rlcheck."):
        return import_module(name)
    spec = importlib.util.spec_from_file_location(name, ALTERNATIVES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def implementations() -> dict[str, Any]:
    """Loaded once."""
    return {name: implementation(name) for name in {*ARRAYS, *TENSORS}}


@pytest.fixture(scope="session")
def drawn_seed(pytestconfig: pytest.Config) -> int:
    """The seed of this run, another one each time; the header states it."""
    return int(pytestconfig.getoption("--hypothesis-seed"))


def assert_survives(
    function: str,
    right: Any,
    seed: int,
    *,
    tensors: bool,
    gradients: bool = False,
    **options: Any,
) -> None:
    """The implementation holds every law of the function's values, or of its gradients."""
    transport = InProcess({function: getattr(right, function)}, tensors=tensors)
    for law in laws_of(FUNCTIONS[function], gradients=gradients):
        verdict = run(law, transport, random_seed=seed, **options)
        assert verdict.holds, (seed, law.id, verdict.message, verdict.counterexample)


@functions
def test_every_mistake_is_killed_and_every_law_kills(function: str, drawn_seed: int) -> None:
    assert gaps(function, drawn_seed) == []


@twins
def test_every_mistake_in_a_gradient_is_killed(function: str, drawn_seed: int) -> None:
    assert gaps(function, drawn_seed, gradients=True) == []


@values
def test_right_implementations_survive(
    function: str, right: str, tensors: bool, implementations: dict[str, Any], drawn_seed: int
) -> None:
    module = implementations[right]
    assert_survives(function, module, drawn_seed, tensors=tensors, examples=FEW_EXAMPLES)


@slopes
def test_right_gradients_survive(
    function: str, right: str, implementations: dict[str, Any], drawn_seed: int
) -> None:
    module, few = implementations[right], FEW_EXAMPLES
    assert_survives(function, module, drawn_seed, tensors=True, gradients=True, examples=few)


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
@twins
def test_the_kill_matrix_of_gradients_holds_at_ten_seeds(function: str) -> None:
    found = {seed: gaps(function, seed, gradients=True) for seed in SEEDS}
    assert found == {seed: [] for seed in SEEDS}


@pytest.mark.slow
@values
def test_right_implementations_survive_ten_seeds(
    function: str, right: str, tensors: bool, implementations: dict[str, Any]
) -> None:
    for seed in SEEDS:
        module = implementations[right]
        drawn = {"examples": SOME_EXAMPLES, "explicit": seed == SEEDS[0]}
        assert_survives(function, module, seed, tensors=tensors, **drawn)


@pytest.mark.slow
@slopes
def test_right_gradients_survive_ten_seeds(
    function: str, right: str, implementations: dict[str, Any]
) -> None:
    module = implementations[right]
    for seed in SEEDS:
        drawn = {"examples": SOME_EXAMPLES, "explicit": seed == SEEDS[0]}
        assert_survives(function, module, seed, tensors=True, gradients=True, **drawn)
