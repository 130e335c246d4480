"""What the notebooks share: choices by environment variables, catalogs, figures, pinned results."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from jinja2 import UndefinedError

from rlcheck.notebook import Catalog, Notebook, chosen_language, chosen_profile, switched_on
from rlcheck.notebook.environment import DEFAULT_MODEL, chosen_model
from rlcheck.notebook.figures import as_png, contents

NAME = "module_06_llm_policy"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of notebooks with texts in two languages, smoke profile, English."""
    for variable in ("RL_LLM_PROFILE", "RL_LLM_M6_PROFILE", "RLCHECK_LANG"):
        monkeypatch.delenv(variable, raising=False)
    for language, word in (("en", "steps"), ("ru", "шаги")):
        (tmp_path / "labels" / language).mkdir(parents=True)
        (tmp_path / "labels" / language / f"{NAME}.toml").write_text(
            f'[kl]\nsteps = "{word}"\nmean = "{{{{ \'%.2f\' | format(kl) }}}} ± {{{{ error }}}}"\n',
            encoding="utf-8",
        )
    with plt.rc_context():
        yield tmp_path


@pytest.mark.parametrize(
    ("module", "environment", "profile"),
    [
        (5, {}, "smoke"),
        (6, {"RL_LLM_PROFILE": "full"}, "full"),
        (6, {"RL_LLM_PROFILE": "full", "RL_LLM_M6_PROFILE": "smoke"}, "smoke"),
        (5, {"RL_LLM_PROFILE": "full", "RL_LLM_M6_PROFILE": "smoke"}, "full"),
        (11, {"RL_LLM_PROFILE": "real-model"}, "real-model"),
        (11, {"RL_LLM_M11_PROFILE": "full"}, "smoke"),
    ],
)
def test_a_module_s_own_variable_goes_before_the_common_one(module, environment, profile):
    assert chosen_profile(module, environment) == profile


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (
            lambda: chosen_profile(5, {"RL_LLM_M5_PROFILE": "fast"}),
            "RL_LLM_M5_PROFILE is 'fast'; it must be one of smoke, full, real-model",
        ),
        (
            lambda: chosen_profile(11, {"RL_LLM_PROFILE": ""}),
            "RL_LLM_PROFILE is ''; it must be one of smoke, full, real-model",
        ),
        (
            lambda: chosen_language({"RLCHECK_LANG": "de"}),
            "RLCHECK_LANG is 'de'; it must be one of en, ru",
        ),
        (
            lambda: switched_on("RL_LLM_M6_RUN_REAL_MODEL", {"RL_LLM_M6_RUN_REAL_MODEL": "yes"}),
            "RL_LLM_M6_RUN_REAL_MODEL is 'yes'; it must be one of 0, 1",
        ),
    ],
)
def test_another_value_is_refused_and_the_choices_are_listed(choose, says):
    with pytest.raises(ValueError) as refusal:
        choose()
    assert str(refusal.value) == says


def test_switches_are_off_unless_they_are_1():
    assert [switched_on("S", {"S": value}) for value in ("", "0", "1")] == [False, False, True]
    assert not switched_on("S", {})


def test_a_model_is_named_or_the_default():
    assert chosen_model({"RLCHECK_MODEL": "/models/tiny"}) == "/models/tiny"
    assert chosen_model({}) == chosen_model({"RLCHECK_MODEL": ""}) == DEFAULT_MODEL


def test_texts_come_in_the_reader_s_language(folder, monkeypatch):
    assert Notebook(NAME, folder).text("kl.steps") == "steps"
    monkeypatch.setenv("RLCHECK_LANG", "ru")
    assert Notebook(NAME, folder).text("kl.steps") == "шаги"


def test_placeholders_are_filled_in_and_a_forgotten_one_is_an_error(folder):
    catalog = Notebook(NAME, folder).catalog
    assert catalog.text("kl.mean", kl=0.12345, error=2) == "0.12 ± 2"
    assert catalog.placeholders() == {"kl.steps": set(), "kl.mean": {"kl", "error"}}
    with pytest.raises(UndefinedError, match="error"):
        catalog.text("kl.mean", kl=0.1)
    with pytest.raises(KeyError, match=r"kl\.median"):
        catalog.text("kl.median")


def test_a_catalog_holds_strings_only(tmp_path):
    (tmp_path / "texts.toml").write_text("[a]\nb = 1\n")
    with pytest.raises(ValueError, match=r"a\.b is 1; it must be a string"):
        Catalog(tmp_path / "texts.toml")


def test_settings_follow_the_profile(folder, monkeypatch):
    assert Notebook(NAME, folder).choose(smoke=20_000, full=250_000) == 20_000
    for profile in ("full", "real-model"):
        monkeypatch.setenv("RL_LLM_M6_PROFILE", profile)
        assert Notebook(NAME, folder).choose(smoke=20_000, full=250_000) == 250_000


def test_what_is_missing_says_what_to_do(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"M5_dagger_curve\.npz; `python experiments/"):
        Notebook(NAME, folder).artifact("M5_dagger_curve")
    with pytest.raises(FileNotFoundError, match=r"M5_experiment_protocol\.json; `python exper"):
        Notebook(NAME, folder).protocol()
    with pytest.raises(FileNotFoundError, match="run the notebook in its own folder"):
        Notebook(NAME, tmp_path / "elsewhere")


def test_artifacts_are_read_without_pickles(folder):
    (folder / "data").mkdir()
    np.savez(folder / "data" / "curve.npz", rounds=np.arange(3))
    assert Notebook(NAME, folder).artifact("curve")["rounds"].tolist() == [0, 1, 2]
    np.savez(folder / "data" / "objects.npz", names=np.array([None], dtype=object))
    (folder / "data" / "cut.npz").write_bytes(b"PK\x03\x04")
    (folder / "data" / "empty.npz").touch()
    for name in ("objects", "cut", "empty"):
        with pytest.raises(ValueError, match=rf"{name}\.npz does not hold arrays alone; `python"):
            Notebook(NAME, folder).artifact(name)


def test_the_final_record_holds_finite_numbers(folder, capsys):
    book = Notebook(NAME, folder)
    book.finish(kl=np.float64(0.5), counts=np.array([1, 2]), by_name={"k1": (True, None)})
    assert json.loads(capsys.readouterr().out) == {
        "notebook": NAME,
        "profile": "smoke",
        "language": "en",
        "kl": 0.5,
        "counts": [1, 2],
        "by_name": {"k1": [True, None]},
    }
    with pytest.raises(ValueError, match="a result is nan"):
        book.finish(kl=float("nan"))


def test_figures_are_described_by_what_they_hold(folder):
    figure, (left, right) = plt.subplots(1, 2)
    left.plot([1, 2, 3])
    left.fill_between([0, 1], [0, 0], [1, 1])
    left.scatter([1, 2], [3, 4])
    left.set(xlabel="t", ylabel="return", title="curve", yscale="log")
    right.bar(["a", "b"], [1, 2])
    right.imshow(np.zeros((2, 2)))
    right.annotate("here", (0, 0))
    shown = contents(figure)["axes"]
    assert shown[0] == {
        "title": "curve",
        "xlabel": "t",
        "ylabel": "return",
        "xscale": "linear",
        "yscale": "log",
        "lines": [3],
        "bars": [],
        "points": [2],
        "bands": 1,
        "images": 0,
        "texts": [],
    }
    assert (shown[1]["bars"], shown[1]["images"], shown[1]["texts"]) == ([2], 1, ["here"])
    assert as_png(figure).startswith(b"\x89PNG")
    plt.close(figure)


def test_a_figure_is_shown_with_its_caption_and_closed(folder, monkeypatch):
    shown = []
    monkeypatch.setattr("rlcheck.notebook.book.display", shown.append)
    book = Notebook(NAME, folder)
    figure, axes = plt.subplots()
    axes.plot([0, 1])
    book.show(figure, "kl.mean", kl=1.0, error=0)
    image, caption = shown
    assert image.alt == caption.data == "1.00 ± 0"
    assert image.metadata["rlcheck"]["figure"] == "kl.mean"
    assert image.metadata["rlcheck"]["axes"][0]["lines"] == [2]
    assert not plt.fignum_exists(figure.number)
    book.tell("kl.steps")
    book.table(pd.DataFrame({"t": ["<eos>"]}), "kl.steps")
    assert [display.data for display in shown[2:4]] == ["steps", "**steps**"]
    assert "&lt;eos&gt;" in shown[4].to_html()
