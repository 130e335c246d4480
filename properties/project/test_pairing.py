"""Module, mistakes and laws share a name, and no public function lacks any of them."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import rlcheck
from rlcheck.catalogue import FUNCTIONS, MODULES, TWINS, Function
from rlcheck.grading.laws import laws_of
from rlcheck.mistakes import mistakes_of

ROOT = Path(__file__).parents[2]
functions = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda f: f.name)
twins = pytest.mark.parametrize("name", sorted(TWINS))
TWIN_MODULES = {FUNCTIONS[name].module for name in TWINS}


@pytest.mark.parametrize("module", MODULES)
def test_each_module_has_its_twins(module: str) -> None:
    assert (ROOT / "rlcheck" / f"{module}.py").is_file()
    assert (ROOT / "rlcheck" / "mistakes" / f"{module}.py").is_file()
    assert (ROOT / "properties" / f"test_{module}.py").is_file()


def test_no_twin_is_without_its_module() -> None:
    twins = {p.stem for p in (ROOT / "rlcheck" / "mistakes").glob("*.py")}
    laws = {p.stem.removeprefix("test_") for p in (ROOT / "properties").glob("test_*.py")}
    environments = {p.stem for p in (ROOT / "rlcheck" / "envs").glob("*.py")}
    assert twins - {"__init__", "registry"} == set(MODULES)
    assert laws >= set(MODULES)
    assert laws - set(MODULES) <= environments
    assert "keydoor_agent" in laws


def test_a_module_of_twins_has_its_own_twins() -> None:
    for folder, prefix in (
        ("rlcheck/torch", ""),
        ("rlcheck/mistakes/gradients", ""),
        ("properties/gradients", "test_"),
    ):
        found = {p.stem for p in (ROOT / folder).glob(f"{prefix}*.py")}
        assert {n.removeprefix(prefix) for n in found if not n.startswith("_")} == TWIN_MODULES


@twins
def test_a_twin_is_documented(name: str) -> None:
    doc = inspect.getdoc(FUNCTIONS[name].twin()) or ""
    assert doc.splitlines()[0].endswith(".")
    for section in ("Args:", "Returns:", "Raises"):
        assert section in doc, section
    arguments = doc.partition("Args:")[2].partition("Returns:")[0]
    for parameter in inspect.signature(FUNCTIONS[name].twin()).parameters:
        assert parameter in arguments, parameter


@twins
def test_a_twin_has_laws_and_mistakes_of_its_gradients(name: str) -> None:
    answers_with_booleans = name == "behavior_support_mask"
    laws = laws_of(FUNCTIONS[name], gradients=True)
    mistakes = mistakes_of(name, gradients=True)
    assert bool(laws) is not answers_with_booleans
    assert (len(mistakes) >= 2) is not answers_with_booleans
    assert all(law.sentence.endswith(".") and len(law.sentence) <= 200 for law in laws)
    assert all(mistake.of_gradients for mistake in mistakes)
    assert not any(mistake.of_gradients for mistake in mistakes_of(name))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_exports_its_functions_and_their_records(module: str) -> None:
    loaded = import_module(f"rlcheck.{module}")
    exported = {n for n in loaded.__all__ if inspect.isfunction(getattr(loaded, n))}
    assert exported == {f.name for f in FUNCTIONS.values() if f.module == module}
    for name in loaded.__all__:
        assert getattr(rlcheck, name) is getattr(loaded, name)
        assert name in rlcheck.__all__


@functions
def test_a_function_is_documented(function: Function) -> None:
    doc = inspect.getdoc(function.reference()) or ""
    assert doc.splitlines()[0].endswith(".")
    for section in ("Args:", "Returns:", "Raises:", "Reference:"):
        assert section in doc, section
    arguments = doc.partition("Args:")[2].partition("Returns:")[0]
    for parameter in inspect.signature(function.reference()).parameters:
        assert parameter in arguments, parameter


@functions
def test_a_function_has_three_laws_one_of_them_about_refusals(function: Function) -> None:
    laws = laws_of(function)
    assert len(laws) >= 3
    never_refuses = ("validate_rollout_record", "classify_stop_event")
    if function.name not in never_refuses:
        assert any("refuse" in law.name for law in laws)


@functions
def test_a_law_reads_as_a_sentence(function: Function) -> None:
    for law in laws_of(function):
        assert law.sentence.endswith("."), law.id
        assert len(law.sentence) <= 200, law.id


@functions
def test_a_function_has_five_mistakes(function: Function) -> None:
    mistakes = mistakes_of(function.name)
    assert len(mistakes) >= 5
    assert len({m.description for m in mistakes}) == len(mistakes)
    for mistake in mistakes:
        assert not mistake.description.endswith("."), mistake.id
        assert mistake.description[0].islower() or not mistake.description[0].isalpha(), mistake.id


def test_the_catalogue_of_mistakes_is_large() -> None:
    assert sum(len(mistakes_of(name)) for name in FUNCTIONS) >= 250


def test_law_ids_are_unique() -> None:
    ids = [
        law.id
        for function in FUNCTIONS.values()
        for gradients in (False, True)
        for law in laws_of(function, gradients=gradients)
    ]
    assert len(set(ids)) == len(ids)
