"""The documentation as a static site: `python docs/site/build.py` writes build/site.

README and guides as they are, a page of laws and mistakes for each module, the reference from its
docstrings, and the notebooks, executed and rendered in both languages. Nothing is downloaded, and
the pages load nothing from elsewhere.
"""

import inspect
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from mkdocs.commands.build import build as build_site
from mkdocs.config import load_config
from nbconvert import MarkdownExporter
from tqdm import tqdm
from traitlets.config import Config

from rlcheck.catalogue import COURSES, FUNCTIONS, Function
from rlcheck.grading.laws import Law, laws_of
from rlcheck.grading.render.formulas import as_html
from rlcheck.mistakes import mistakes_of
from rlcheck.mistakes.registry import Mistake
from rlcheck.notebook.execution import executed

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCS = ROOT / "docs"
PAGES = ROOT / "build" / "pages"
NOTEBOOKS = ROOT / "notebooks"
LANGUAGES = {"en": "English", "ru": "Русский"}
CODES = list(LANGUAGES)
MODULE = {"en": "Module", "ru": "Модуль"}
NAMES = [path.stem for path in sorted(NOTEBOOKS.glob("module_*.ipynb"))]
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
REPORT = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")
API = {
    "Reference": sorted({function.module for function in FUNCTIONS.values()}),
    "PyTorch": ["torch"],
    "Environments": [
        "envs",
        "envs.keydoor_agent",
        "envs.keydoor_agent_solution",
        "envs.keydoor_grid",
        "envs.keydoor_grid_solution",
        "envs.keydoor_grid_vector",
    ],
    "Agents": ["agents"],
    "Transcripts": ["transcripts"],
}

PARTS = {
    "module-11": "Module 11: agents",
    "module-6": "Module 6: a model as a policy",
    "module-5": "Module 5: offline RL",
    "policy-gradients": "Policy gradients",
}

Nav = list[dict[str, object]]


def guides() -> None:
    """README and docs as they lie, with the files of the repository that they link to."""
    _write("index.md", (ROOT / "README.md").read_text(encoding="utf-8"))
    for page in (*DOCS.glob("*.md"), *DOCS.glob("findings/*.md")):
        _write(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    for page in PAGES.rglob("*.md"):
        for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
            source = (ROOT / page.relative_to(PAGES).parent / target).resolve()
            if source.is_file() and source.suffix != ".md":
                copy = PAGES / source.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)


def catalogue() -> Nav:
    """A page for each module: its functions, their laws, the mistakes that are known."""
    nav: Nav = []
    for course in COURSES:
        functions = [function for function in FUNCTIONS.values() if function.course == course]
        pages = []
        for module in dict.fromkeys(function.module for function in functions):
            name = f"laws/{course}-{module}.md"
            chosen = [function for function in functions if function.module == module]
            _write(name, "\n".join(_module_page(course, module, chosen)))
            pages.append({module: name})
        nav.append({PARTS[course]: pages})
    return nav


def _module_page(course: str, module: str, functions: list[Function]) -> Iterator[str]:
    yield f"# {module}: laws and mistakes\n"
    yield f"{PARTS[course]}. The reference: [`rlcheck.{module}`](../api/{module}.md).\n"
    for function in functions:
        docstring = (inspect.getdoc(function.reference()) or "").splitlines()
        yield f"## `{function.name}`\n\n{docstring[0]}\n"
        for gradients in (False, True):
            laws = laws_of(function, gradients=gradients)
            mistakes = mistakes_of(function.name, gradients=gradients)
            if laws:
                of_what = "gradients" if gradients else "values"
                yield f"### Laws of {of_what}\n"
                yield from map(_law, laws)
                yield f"### Known mistakes in {of_what}\n"
                yield from map(_mistake, mistakes)
                yield ""


def _law(law: Law) -> str:
    equation = f"<p>{as_html(law.equation)}</p>" if law.equation else ""
    body = f"<p><strong>{as_html(law.sentence)}</strong></p>{equation}<p><code>{law.id}</code></p>"
    return f'<div class="law">{body}</div>\n'


def _mistake(mistake: Mistake) -> str:
    report = f" ({_linked(mistake.report)})" if mistake.report else ""
    return f"- It {_escaped(mistake.description)}{report}. `{mistake.name}`"


def _escaped(text: str) -> str:
    """Formulas hold stars, underscores and angle brackets that are not Markdown."""
    parts = re.split(r"(`[^`]*`|\*\*)", text)
    return "".join(
        part if part.startswith(("`", "**")) else re.sub(r"([_*<\\])", r"\\\1", part)
        for part in parts
    )


def _linked(reports: str) -> str:
    return REPORT.sub(r"[\1#\2](https://github.com/\1/issues/\2)", reports)


def reference() -> Nav:
    """A page for each public module, made of its docstrings."""
    nav: Nav = []
    for part, modules in API.items():
        for module in modules:
            _write(f"api/{module}.md", f"# `rlcheck.{module}`\n\n::: rlcheck.{module}\n")
        nav.append({part: [{f"rlcheck.{module}": f"api/{module}.md"} for module in modules]})
    return nav


def notebooks(languages: list[str], only: list[str]) -> Nav:
    """The notebooks, executed in each language, as pages."""
    nav: Nav = []
    chosen = [path for path in sorted(NOTEBOOKS.glob("module_*.ipynb")) if path.stem in only]
    for language in languages:
        pages: Nav = []
        for path in tqdm(chosen, desc=language, disable=None):
            _render(path, language)
            number = int(path.stem.split("_")[1])
            pages.append({f"{MODULE[language]} {number}": f"notebooks/{language}/{path.stem}.md"})
        nav.append({LANGUAGES[language]: pages})
    return nav


def _render(path: Path, language: str) -> None:
    notebook = executed(path, RLCHECK_LANG=language)
    hidden = {"enabled": True, "remove_input_tags": {"narration"}}
    exporter = MarkdownExporter(
        config=Config({"TagRemovePreprocessor": hidden}),
        template_file=str(HERE / "notebook.md.j2"),
    )
    text, resources = exporter.from_notebook_node(
        notebook, {"output_files_dir": f"{path.stem}_files"}
    )
    folder = PAGES / "notebooks" / language
    for name, data in resources["outputs"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    _write(f"notebooks/{language}/{path.stem}.md", text)


def _write(name: str, text: str) -> None:
    path = PAGES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(
    language: Annotated[list[str], typer.Option(help="languages of the notebooks")] = CODES,
    only: Annotated[list[str], typer.Option(help="the notebooks to render")] = NAMES,
    with_notebooks: Annotated[bool, typer.Option(help="execute and render the notebooks")] = True,
) -> None:
    """Write the pages, then the site; a link that leads nowhere is an error."""
    logging.basicConfig(level=logging.WARNING)
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    shutil.copy(HERE / "site.css", PAGES)
    guides()
    config = load_config(str(HERE / "mkdocs.yml"), strict=True)
    nav: Nav = config["nav"]
    nav.append({"Laws and mistakes": catalogue()})
    nav.append({"Reference": reference()})
    if with_notebooks:
        nav.append({"Notebooks": notebooks(language, only)})
    config.plugins.on_startup(command="build", dirty=False)
    build_site(config)
    typer.echo(f"{config['site_dir']}/index.html")


if __name__ == "__main__":
    typer.run(main)
