"""Module 11's notebook with its TRL branch, on a tiny model that has learnt to call the tools."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from on_trl import MARKS, one_thread  # noqa: F401

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "module_11_agents.ipynb"

pytestmark = MARKS


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny Qwen3 that speaks a success and a wrong key, and its tokenizer."""
    import tiny_qwen
    import trl_rollouts

    scripted = trl_rollouts.train(tmp_path_factory.mktemp("scripted"))
    examples = []
    for batch in scripted.batches:
        for name in ("success", "wrong key"):
            prompt, ids, mask = batch.tokens(list(trl_rollouts.SCRIPTS).index(name))
            examples.append((prompt + ids, [0] * len(prompt) + mask))
    taught = tiny_qwen.tiny_qwen(scripted.processing_class)
    assert tiny_qwen.imitate(taught, examples, steps=120, rate=1e-2) < 0.3
    folder = tmp_path_factory.mktemp("tiny")
    scripted.processing_class.save_pretrained(folder)
    taught.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["en", "ru"])
def ran(request: pytest.FixtureRequest, model: Path) -> nbformat.NotebookNode:
    from rlcheck.notebook.execution import executed

    return executed(
        NOTEBOOK,
        RLCHECK_LANG=request.param,
        RLCHECK_MODEL=str(model),
        RL_LLM_M11_RUN_TRL="1",
        RL_LLM_PROFILE="smoke",
    )


def test_the_branch_ran_and_its_figure_shows_both_kinds_of_tokens(ran: Any) -> None:
    from rlcheck.notebook.execution import figures_shown, final_record

    record = final_record(ran)
    assert record["trl"]["rollouts"] == 8
    assert 0 < record["trl"]["policy_tokens"] < record["trl"]["total_tokens"]
    (axes,) = figures_shown(ran)["trl.figure"]["axes"]
    assert sum(axes["bars"]) > 16  # more than two runs in most rollouts: the tools answered
    assert len(axes["texts"]) == 8  # a reward beside each rollout
    assert axes["xlabel"]
    assert axes["ylabel"]


def test_the_model_called_tools_and_its_records_passed(ran: Any) -> None:
    (table,) = (
        output.data["text/html"]
        for cell in ran.cells
        if cell.id == "trl-records"
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    )
    assert "inspect → pickup_" in table
    assert "eos" in table
