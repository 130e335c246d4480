"""The pinned results of module 5: `python experiments/module_05_artifacts.py` writes them anew.

They stand in notebooks/data as arrays without pickled objects, beside a protocol of how they were
made: seeds, settings, arithmetic, versions, wall times and scope.
"""

import json
import os
import platform
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import typer
from numpy.typing import NDArray

from rlcheck.agents import (
    collect_offline_dataset,
    dagger_experiment,
    evaluate_decision_transformer,
    language_offline_experiment,
    offline_experiment,
    train_decision_transformer,
    train_online_dqn,
)
from rlcheck.envs import KeyDoorGrid

FOLDER = Path(__file__).parents[1] / "notebooks" / "data"
SEED = 20261129
SCOPE = (
    "One seed of the full profile, for the figures of the notebook. Claims rest on the registered "
    "seeds in experiments/registered, not on these files."
)
PACKAGES = ("rlcheck", "numpy", "torch", "gymnasium")

# Libraries choose their instructions by the processor, each rounds in its own way, and training
# makes another policy of the last bit. These are instructions that every x86-64 processor has.
ARITHMETIC = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
}


def registered(name: str) -> dict[str, Any]:
    """What is registered of an experiment: the artifacts show it in the same setting."""
    path = Path(__file__).parent / "registered" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


IMITATION, ONLINE, OFFLINE, ASKED, TOKENS = map(
    registered, ("imitation", "online_dqn", "offline", "decision_transformer", "token_offline")
)
SETTINGS: dict[str, dict[str, Any]] = {
    # All demonstrations from one start, so that cloning has something left to learn.
    "dagger": IMITATION["protocol"] | {"expert_starts": IMITATION["one_start"]["expert_starts"]},
    "online_dqn": {"episodes": ONLINE["learning"]["episodes"]},
    "offline": {
        "dataset_episodes": OFFLINE["log"]["episodes"],
        "profile": OFFLINE["log"]["profile"],
        "train_epochs": OFFLINE["train_epochs"],
    },
    "decision_transformer": {
        "dataset_episodes": ASKED["episodes"],
        "target_returns": ASKED["targets"],
        "training": ASKED["training"],
        "evaluation": ASKED["evaluation"],
    },
    "language": {name: TOKENS[name] for name in ("episodes_per_prompt", "bc_epochs", "iql_epochs")},
}

Arrays = dict[str, NDArray[Any]]


def dagger(seed: int, **settings: Any) -> Arrays:
    records = dagger_experiment(seed=seed, **settings)["records"]
    return {
        "rounds": np.array([record["round"] for record in records]),
        "success_rate": np.array([record["success_rate"] for record in records]),
    }


def online_dqn(seed: int, **settings: Any) -> Arrays:
    return {
        name: np.asarray(train_online_dqn(seed=seed, double=double, **settings)["success"], float)
        for name, double in (("dqn_success", False), ("double_success", True))
    }


def offline(seed: int, **settings: Any) -> Arrays:
    outcome = offline_experiment(seed=seed, **settings)
    results, estimates = outcome["results"], outcome["fqe"]
    return {
        "method_names": np.array(list(results)),
        "mean_return": np.array([metrics["mean_return"] for metrics in results.values()]),
        "success_rate": np.array([metrics["success_rate"] for metrics in results.values()]),
        "fqe_names": np.array(list(estimates)),
        "fqe_values": np.array([row["estimate"] for row in estimates.values()]),
    }


def decision_transformer(
    seed: int,
    *,
    dataset_episodes: int,
    target_returns: list[float],
    training: dict[str, int],
    evaluation: dict[str, int],
) -> Arrays:
    """The likeliest actions, as in the claims near the top of the log."""
    log, _ = collect_offline_dataset(seed=seed, episodes=dataset_episodes, profile="mixed")
    model, _ = train_decision_transformer(
        log,
        seed=seed,
        state_dim=KeyDoorGrid.observation_dim,
        action_dim=KeyDoorGrid.action_dim,
        **training,
    )
    achieved = [
        evaluate_decision_transformer(
            KeyDoorGrid(),
            model,
            target_return=asked,
            context_steps=training["context_steps"],
            **evaluation,
        )["mean_return"]
        for asked in target_returns
    ]
    return {"target_return": np.array(target_returns), "mean_return": np.array(achieved)}


def language(seed: int, **settings: Any) -> Arrays:
    evaluation = language_offline_experiment(seed=seed, **settings)["evaluation"]
    return {
        "method_names": np.array(list(evaluation)),
        "exact_match": np.array([metrics["exact_match"] for metrics in evaluation.values()]),
    }


ARTIFACTS: dict[str, tuple[str, Callable[..., Arrays]]] = {
    "M5_dagger_curve": ("dagger", dagger),
    "M5_online_dqn_curve": ("online_dqn", online_dqn),
    "M5_offline_method_results": ("offline", offline),
    "M5_decision_transformer_results": ("decision_transformer", decision_transformer),
    "M5_language_ilql_results": ("language", language),
}


def regenerate(name: str) -> Arrays:
    """The arrays of one artifact, computed anew in a process that has the pinned arithmetic."""
    part, compute = ARTIFACTS[name]
    fresh = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with patch.dict(os.environ, ARITHMETIC), fresh as process:
        return process.submit(compute, SEED, **SETTINGS[part]).result()


def main(folder: Path = FOLDER) -> None:
    """Write every artifact, and the protocol."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds = {}
    for name in ARTIFACTS:
        began = time.perf_counter()
        np.savez(folder / f"{name}.npz", allow_pickle=False, **regenerate(name))
        seconds[name] = round(time.perf_counter() - began, 1)
        typer.echo(f"{name}: {seconds[name]} s")
    protocol = {
        "artifact_scope": SCOPE,
        "seeds": dict.fromkeys(ARTIFACTS, SEED),
        "settings": SETTINGS,
        "arithmetic": ARITHMETIC,
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "wall_seconds": seconds,
    }
    text = json.dumps(protocol, indent=2, ensure_ascii=False)
    (folder / "M5_experiment_protocol.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
