"""Run a notebook from a program, and read what it showed."""

import json
import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

__all__ = ["executed", "figures_shown", "final_record"]


def executed(path: Path, *, timeout: float = 1200, **environment: str) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in its own folder.

    Args:
        path: the stored notebook, which is left as it is.
        timeout: seconds that one cell may take.
        environment: variables for its kernel, beside those of this process.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed; the text holds its traceback.
    """
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=timeout, resources=where)
    client.execute(env=os.environ | environment)
    return notebook


def figures_shown(notebook: nbformat.NotebookNode) -> dict[str, dict[str, Any]]:
    """What each figure holds, by its key: the description that `Notebook.show` left."""
    pictures = [
        output.metadata["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    return {p["rlcheck"]["figure"]: p["rlcheck"] | {"caption": p["alt"]} for p in pictures}


def final_record(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """The record that `Notebook.finish` printed in the last cell that prints."""
    printed = [
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stdout"
    ]
    record: dict[str, Any] = json.loads(printed[-1])
    return record
