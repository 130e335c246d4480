"""The notebooks as they are stored: without outputs, their texts complete in both languages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from rlcheck.notebook import Catalog
from rlcheck.notebook.environment import LANGUAGES

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = ("module_05_offline_rl", "module_06_llm_policy", "module_11_agents")
ASKING = {"text", "tell", "table", "show"}  # a notebook's calls that name a key of its catalog
KEY_PLACE = {"table": 1, "show": 1}
CYRILLIC = re.compile("[а-яё]", re.IGNORECASE)

each_notebook = pytest.mark.parametrize("name", NAMES)


def cells(name: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells


def catalog(name: str, language: str) -> Catalog:
    return Catalog(FOLDER / "labels" / language / f"{name}.toml")


def calls(name: str) -> Iterator[tuple[ast.Call, str]]:
    """Each call that asks for a text, with a pattern of its keys: what is computed matches any."""
    for cell in cells(name):
        for node in ast.walk(ast.parse(cell.source if cell.cell_type == "code" else "")):
            method = asking_method(node)
            if method:
                yield node, _pattern(node.args[KEY_PLACE.get(method, 0)])


def asking_method(node: ast.AST) -> str | None:
    """Which of the book's methods is called, if it asks for a text."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="book"), attr=method)):
            return method if method in ASKING else None
    return None


def _pattern(key: ast.expr) -> str:
    match key:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(_pattern(part) for part in parts)
        case _:
            return r"[^.]+"


def test_each_stored_notebook_is_checked():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)


@each_notebook
def test_a_notebook_is_stored_without_outputs(name):
    for cell in cells(name):
        if cell.cell_type == "code":
            assert cell.outputs == [], cell.id
            assert cell.execution_count is None, cell.id


@each_notebook
def test_a_notebook_opens_with_the_kernel_that_everybody_has(name):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert notebook.metadata.kernelspec.name == "python3"
    nbformat.validate(notebook)


@each_notebook
def test_both_languages_have_the_same_texts_with_the_same_placeholders(name):
    english, russian = (catalog(name, language).placeholders() for language in LANGUAGES)
    assert english == russian


@each_notebook
def test_every_key_that_is_asked_for_exists_and_every_text_is_asked_for(name):
    keys = set(catalog(name, "en").templates)
    asked = [(pattern, {k for k in keys if re.fullmatch(pattern, k)}) for _, pattern in calls(name)]
    assert [pattern for pattern, found in asked if not found] == []
    assert keys - set().union(*(found for _, found in asked)) == set()


@each_notebook
def test_every_value_that_is_given_fills_a_placeholder(name):
    """A name that Jinja takes for a literal, as `true`, would be none."""
    placeholders = catalog(name, "en").placeholders()
    own = {"digits"}  # of `table` itself
    for node, pattern in calls(name):
        given = {keyword.arg for keyword in node.keywords} - own
        asked = [names for key, names in placeholders.items() if re.fullmatch(pattern, key)]
        assert given <= set().union(*asked), ast.unparse(node)


@each_notebook
def test_no_text_is_empty_and_narration_is_written_in_its_language(name):
    for language in LANGUAGES:
        for key, template in catalog(name, language).templates.items():
            assert template.strip(), key
            if len(template) > 60:  # shorter ones may be a formula or a name
                assert bool(CYRILLIC.search(template)) == (language == "ru"), key


@each_notebook
def test_a_cell_that_only_narrates_is_marked_as_such(name):
    for cell in cells(name):
        body = ast.parse(cell.source).body if cell.cell_type == "code" else []
        narrates = [asking_method(getattr(line, "value", None)) for line in body] == ["tell"]
        assert ("narration" in cell.metadata.get("tags", [])) == narrates, cell.id
