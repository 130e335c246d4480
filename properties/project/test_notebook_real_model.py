"""Module 6's notebook with its branch for a real model: on a tiny Qwen3, and on SmolLM2."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "module_06_llm_policy.ipynb"
TOLERANCE = 1e-3  # the notebook's own

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("transformers") is None, reason="the extra llm is not installed"),
    pytest.mark.skipif(find_spec("nbclient") is None, reason="the extra notebooks is missing"),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny Qwen3 of random weights, and its tokenizer."""
    from tiny_qwen import tiny_qwen, tiny_tokenizer

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = tiny_tokenizer(["The red key opens the red door.", "Красный ключ, красная дверь."])
    tiny_qwen(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run(model: str, language: str) -> nbformat.NotebookNode:
    from rlcheck.notebook.execution import executed

    return executed(
        NOTEBOOK,
        RLCHECK_LANG=language,
        RLCHECK_MODEL=model,
        RL_LLM_M6_RUN_REAL_MODEL="1",
        RL_LLM_M6_PROFILE="smoke",
    )


def assert_agreement_is_recorded_and_drawn(ran: Any, model: str) -> None:
    """What must agree does, what need not does not, and both figures hold it."""
    from rlcheck.notebook.execution import figures_shown, final_record

    record = final_record(ran)
    assert record["model"] == model
    gaps = list(record["largest_gaps"].values())  # [4 settings][raw, z/T, processors, logits]
    assert [[gap < TOLERANCE for gap in row] for row in gaps] == [
        [False, False, True, True],
        [False, False, True, True],
        [False, True, True, True],
        [True, True, True, True],
    ]
    figures = figures_shown(ran)
    (dots,) = figures["real.caption"]["axes"]
    assert dots["lines"] == [4, 4, 4, 4, 2]  # four comparisons at four settings, the tolerance
    assert dots["xscale"] == "log"
    (tokens,) = figures["real.tokens"]["axes"]
    assert len(tokens["lines"]) == 3
    assert len(set(tokens["lines"])) == 1
    assert all(axes["xlabel"] for axes in (dots, tokens))


@pytest.mark.parametrize("language", ["en", "ru"])
def test_the_branch_runs_on_a_tiny_qwen(tiny: Path, language: str) -> None:
    assert_agreement_is_recorded_and_drawn(run(str(tiny), language), str(tiny))


def test_a_model_that_is_not_there_stops_the_notebook_with_the_choices() -> None:
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError) as stopped:
        run("/no/such/folder", "en")
    assert stopped.value.ename == "ValueError"
    text = stopped.value.evalue
    assert text.startswith("the model '/no/such/folder' cannot be loaded: there is no folder")
    assert all(choice in text for choice in ("Qwen/Qwen3-0.6B", "local folder", "smollm2"))


@pytest.mark.skipif(
    os.environ.get("RLCHECK_MODEL") != "smollm2",
    reason="opt-in, for it downloads 100 MB of weights: RLCHECK_MODEL=smollm2 switches it on",
)
def test_the_branch_runs_on_smollm2() -> None:
    assert_agreement_is_recorded_and_drawn(run("smollm2", "en"), "smollm2")
