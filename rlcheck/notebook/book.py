"""A notebook's hands: its texts, figures, pinned results, and the record that it ends with."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Image, Markdown, display
from matplotlib.figure import Figure
from numpy.typing import NDArray

from rlcheck.notebook.catalog import Catalog
from rlcheck.notebook.environment import chosen_language, chosen_profile
from rlcheck.notebook.figures import STYLE, as_png, contents

__all__ = ["REGENERATE", "Notebook"]

REGENERATE = "`python experiments/module_05_artifacts.py`, in the folder above, makes it"
Choice = TypeVar("Choice")


class Notebook:
    """Texts, figures and pinned results of one notebook, in the reader's language and profile.

    Args:
        name: the notebook's name, as in module_05_offline_rl; its texts stand in
            labels/LANGUAGE/NAME.toml.
        folder: where the notebooks lie; by default the working directory, as Jupyter sets it.

    Raises:
        ValueError: RL_LLM_PROFILE or RLCHECK_LANG is none of the choices.
        FileNotFoundError: the folder holds no texts of that name.
    """

    def __init__(self, name: str, folder: Path | str = ".") -> None:
        self.name = name
        self.folder = Path(folder)
        self.language = chosen_language()
        self.profile = chosen_profile(int(name.split("_")[1]))
        self.catalog = Catalog(self._file("labels", self.language, f"{name}.toml"))
        plt.style.use(STYLE)

    def _file(self, *parts: str, missing: str = "run the notebook in its own folder") -> Path:
        path = self.folder.joinpath(*parts)
        if not path.exists():
            raise FileNotFoundError(f"there is no {path}; {missing}")
        return path

    def choose(self, *, smoke: Choice, full: Choice) -> Choice:
        """A setting of the profile; real-model has those of full."""
        return smoke if self.profile == "smoke" else full

    def text(self, key: str, /, **values: Any) -> str:
        """A label or a sentence in the reader's language."""
        return self.catalog.text(key, **values)

    def tell(self, key: str, /, **values: Any) -> None:
        """Show a text as Markdown, with formulas."""
        display(Markdown(self.text(key, **values)))

    def table(self, rows: pd.DataFrame, key: str, /, *, digits: int = 3, **values: Any) -> None:
        """Show rows as a table, under a caption."""
        display(Markdown(f"**{self.text(key, **values)}**"))
        display(rows.style.format(precision=digits, escape="html").hide(axis="index"))

    def show(self, figure: Figure, key: str, /, **values: Any) -> None:
        """Show a figure, its caption also as alternative text, and close it."""
        caption = self.text(key, **values)
        about = {"rlcheck": {"figure": key} | contents(figure)}
        display(Image(as_png(figure), format="png", retina=True, alt=caption, metadata=about))
        display(Markdown(caption))
        plt.close(figure)

    def artifact(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of data/NAME.npz, a pinned result of the full profile.

        Raises:
            FileNotFoundError: it is missing; the text names the command that makes it.
            ValueError: it holds something else than arrays, or pickled objects.
        """
        path = self._pinned(f"{name}.npz")
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        except (ValueError, EOFError, BadZipFile):
            # NumPy's own text would advise to load pickles.
            raise ValueError(f"{path} does not hold arrays alone; {REGENERATE} anew") from None

    def protocol(self) -> dict[str, Any]:
        """How the pinned results of module 5 were made: seeds, settings, versions, scope.

        Raises:
            FileNotFoundError: it is missing; the text names the command that makes it.
        """
        path = self._pinned("M5_experiment_protocol.json")
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record

    def _pinned(self, name: str) -> Path:
        return self._file("data", name, missing=REGENERATE)

    def finish(self, **results: Any) -> None:
        """Print the final record: profile, language, and what was computed, as JSON."""
        record = {"notebook": self.name, "profile": self.profile, "language": self.language}
        print(json.dumps(record | _plain(results), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Dicts, lists and numbers for JSON; a number that is not finite is an error."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        raise ValueError(f"a result is {value}; the record holds finite numbers")
    return value
