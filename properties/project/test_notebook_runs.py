"""The notebooks from end to end: what their figures hold, and the record that they end with."""

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest

from rlcheck.notebook import Catalog
from rlcheck.notebook.execution import executed, figures_shown, final_record

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "notebooks"
RUNS = [("full", "en"), ("smoke", "ru")]  # smoke in English too: `pytest --nbmake notebooks`
WORD = re.compile(r"[A-Za-zА-Яа-яё]{4,}")
CYRILLIC = re.compile("[а-яё]", re.IGNORECASE)
FOREIGN = {"what does the cat eat"}  # a prompt of the toy language

Axes = tuple[int, list[int], int, int]
Figures = dict[str, list[Axes]]

# Of each figure, for each of its axes: lines, bars of each series, scatters, images.
FIGURES: dict[str, Figures] = {
    "module_05_offline_rl": {
        "grid.caption": [(1, [], 0, 1), (1, [], 0, 1)],
        "optimum.caption": [(0, [], 0, 2), (0, [], 0, 2), (0, [], 0, 0), (0, [], 0, 0)],
        "cql.caption": [(2, [], 0, 0), (1, [3], 0, 0)],
        "togo.caption": [(2, [4], 0, 0)],
        "maximum.caption": [(3, [5], 0, 0)],
        "cloning.caption": [(3, [], 0, 0), (0, [2], 0, 0)],
        "dagger.caption": [(2, [], 0, 0), (2, [], 0, 0)],
        "dqn.caption": [(5, [], 0, 0)],
        "dqn.bias_caption": [(3, [], 0, 0)],
        "log.caption": [(1, [3, 3, 3], 0, 0), (1, [26, 26, 26], 0, 0)],
        "support.caption": [(0, [], 0, 2), (3, [], 0, 0), (0, [], 0, 0)],
        "methods.caption": [(0, [5, 5], 0, 0), (4, [], 0, 0)],
        "onestep.caption": [(3, [], 0, 0)],
        "fqe.caption": [(1, [], 2, 0)],
        "transformer.caption": [(9, [3, 3], 0, 0)],
        "expectile.caption": [(0, [8, 8, 8], 0, 0), (2, [], 0, 0)],
        "tokens.caption": [(0, [2, 2], 0, 0), (4, [], 0, 0)],
    },
    "module_06_llm_policy": {
        "softmax.caption": [(3, [], 0, 0)],
        "alignment.caption": [(0, [], 2, 0)],
        "metrics.caption": [(1, [2, 2, 2], 0, 0)],
        "heavy.caption": [(0, [2, 2, 2], 0, 0)],
        "running.caption": [(4, [], 0, 0), (4, [], 0, 0)],
        "order.caption": [(0, [3, 3, 3], 0, 0)],
        "ratio.caption": [(3, [], 0, 0)],
        "batch.caption": [(0, [7, 2], 0, 0)],
    },
    "module_11_agents": {
        "episode.figure": [(2, [5, 5], 0, 0), (2, [4, 4], 0, 0)],
        "masks.figure": [(0, [1, 1, 1, 1, 1], 0, 0), (3, [], 0, 0)],
        "ends.figure": [(2, [4], 0, 0)],
        "turns.figure": [(4, [], 0, 0)],
        "meaning.figure": [(0, [2, 2, 2, 2], 0, 0)],
        "options.figure": [(1, [4, 4], 0, 0)],
        "telescope.figure": [(5, [], 0, 0)],
        "broken.figure": [(0, [4], 0, 0), (0, [4], 0, 0)],
        "groups.figure": [(8, [], 0, 0)],
        "curves.figure": [(2, [], 0, 0), (3, [], 0, 0)],
        "greedy.figure": [(0, [], 0, 1), (0, [], 0, 1), (0, [], 0, 0)],
    },
}
LOGARITHMIC = {
    "softmax.caption": [("log", "log")],
    "heavy.caption": [("linear", "log")],
    "running.caption": [("log", "linear"), ("log", "log")],
    "ratio.caption": [("log", "log")],
    "turns.figure": [("linear", "log")],
}


class Run(NamedTuple):
    """One notebook, executed with a profile in a language."""

    name: str
    profile: str
    language: str
    notebook: nbformat.NotebookNode

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        return figures_shown(self.notebook)


@functools.cache
def run_of(name: str, profile: str, language: str) -> Run:
    chosen = {"RL_LLM_PROFILE": profile, "RLCHECK_LANG": language}
    return Run(name, profile, language, executed(FOLDER / f"{name}.ipynb", **chosen))


@pytest.fixture(
    scope="module",  # so that the tests of one run follow each other
    params=[(name, *chosen) for name in FIGURES for chosen in RUNS],
    ids="-".join,
)
def run(request: pytest.FixtureRequest) -> Run:
    return run_of(*request.param)


def test_figures_hold_their_lines_bars_and_points(run):
    held = {
        key: [
            (len(axes["lines"]), axes["bars"], len(axes["points"]), axes["images"])
            for axes in figure["axes"]
        ]
        for key, figure in run.figures.items()
    }
    assert held == FIGURES[run.name]
    scales = {
        key: [(axes["xscale"], axes["yscale"]) for axes in figure["axes"]]
        for key, figure in run.figures.items()
    }
    linear = {key: [("linear", "linear")] * len(axes) for key, axes in held.items()}
    assert scales == {key: LOGARITHMIC.get(key, linear[key]) for key in held}


def test_no_series_is_empty_and_every_figure_is_named(run):
    for key, figure in run.figures.items():
        for axes in figure["axes"]:
            assert all(axes["lines"] + axes["bars"] + axes["points"]), key
        assert any(a["xlabel"] + a["ylabel"] + a["title"] for a in figure["axes"]), key
        assert figure["caption"].strip(), key


def test_labels_are_in_the_reader_s_language(run):
    for key, figure in run.figures.items():
        labels = [a[kind] for a in figure["axes"] for kind in ("xlabel", "ylabel", "title")]
        for label in (figure["caption"], *labels):
            if WORD.search(label) and label not in FOREIGN:
                assert bool(CYRILLIC.search(label)) == (run.language == "ru"), (key, label)


def test_a_caption_comes_from_the_catalog_with_nothing_left_to_fill_in(run):
    catalog = Catalog(FOLDER / "labels" / run.language / f"{run.name}.toml")
    for key, figure in run.figures.items():
        beginning = re.split(r"\{[{%]", catalog.templates[key].strip())[0]
        assert figure["caption"].startswith(beginning)
        assert not re.search(r"\{\{|\{%|\bnan\b", figure["caption"])


def test_the_final_record_says_how_it_was_made_and_what_came_out(run):
    record = final_record(run.notebook)
    assert record["notebook"] == run.name
    assert (record["profile"], record["language"]) == (run.profile, run.language)
    assert len(record) > 5
