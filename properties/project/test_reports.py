"""The page of public reports says what is there, and code that is right passes its laws."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.calls import InProcess
from rlcheck.grading.laws import laws_of, run
from rlcheck.grading.reports import REPORT, citations, coverage, entries, page

PAGE = Path(__file__).parents[2] / "docs" / "reports.md"


def test_the_page_of_reports_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make table`"


def test_each_report_is_covered_or_has_a_reason() -> None:
    cited = citations()
    both = [e.fault for e in entries() if coverage(e, cited) and e.uncovered]
    assert both == [], "covered, and said to be uncovered"
    neither = [e.fault for e in entries() if not coverage(e, cited) and not e.uncovered]
    assert neither == [], "neither covered nor said to be uncovered"


def test_each_report_that_is_cited_is_listed_once() -> None:
    listed = Counter(report for entry in entries() for report in entry.reports)
    assert [report for report, times in listed.items() if times > 1] == []
    assert citations().keys() - listed.keys() == set(), "add them to rlcheck/mistakes/reports.toml"


def test_the_entries_are_well_formed() -> None:
    for entry in entries():
        assert all(REPORT.fullmatch(report) for report in entry.reports), entry
        assert 0 < len(entry.fault) <= 90, entry
        assert "|" not in entry.fault + (entry.uncovered or ""), entry
        assert entry.uncovered is None or ": " in entry.uncovered, entry
        assert entry.right == bool(entry.accepted) or entry.uncovered, entry


# What a reason says is rejected elsewhere: folders or files that name the reports.
REJECTED = {
    "the laws of rlcheck's own environments reject it": "alternatives/*.py",
    "the laws of rlcheck's own buffer reject it": "project/wrong_replay.py",
    "the tests of rlcheck's own files reject it": "project/test_dataset_files.py",
}


def test_what_is_said_to_be_rejected_elsewhere_is_named_there() -> None:
    said = [(e, e.uncovered.partition("; ")[2]) for e in entries() if e.uncovered]
    assert REJECTED.keys() == {place for _, place in said if "reject" in place}
    for entry, place in said:
        if place in REJECTED:
            files = Path(__file__).parents[1].glob(REJECTED[place])
            text = "".join(file.read_text(encoding="utf-8") for file in files)
            assert any(report in text for report in entry.reports), entry


# What was reported as a fault and is right, written as it was reported.


def starts_at_the_bare_residual(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Any:
    ended = np.logical_or(terminated, truncated)
    bootstraps = np.where(terminated, 0.0, next_values)
    advantages = np.asarray(rewards, dtype=np.float64) + gamma * bootstraps - np.asarray(values)
    for t in range(advantages.shape[-1] - 2, -1, -1):
        advantages[..., t] += gamma * lam * ~ended[..., t] * advantages[..., t + 1]
    return advantages


def mixes_the_last_value_with_itself(
    rewards: Any,
    values: Any,
    next_values: Any,
    gamma: float,
    lam: float,
    *,
    terminated: Any,
    truncated: Any,
) -> Any:
    ended = np.logical_or(terminated, truncated)
    bootstraps = np.where(terminated, 0.0, next_values)
    returns = np.zeros(len(ended))
    for t in range(len(ended) - 1, -1, -1):
        last = t == len(ended) - 1 or ended[t]
        carried = bootstraps[t] if last else returns[t + 1]
        returns[t] = rewards[t] + (1 - lam) * gamma * bootstraps[t] + lam * gamma * carried
    return returns


def subtracts_negative_logprobs(new_logprobs: Any, old_logprobs: Any, mask: Any = None) -> Any:
    neglogp, old_neglogp = -np.asarray(new_logprobs), -np.asarray(old_logprobs)
    counts = np.ones(neglogp.shape) if mask is None else mask
    with np.errstate(all="ignore"):
        return np.exp(np.where(counts, old_neglogp - neglogp, 0.0).sum(axis=-1))


def stores_whether_it_goes_on(
    reward: float, next_value: float, *, gamma: float, terminated: Any
) -> float:
    goes_on = 1 - int(terminated)
    return reward + goes_on * gamma * next_value


def estimates_from_the_sampled_token(logprobs: Any, ref_logprobs: Any, estimator: str) -> Any:
    sampled = np.asarray(logprobs) - np.asarray(ref_logprobs)
    return {"k1": sampled, "k2": sampled**2 / 2, "k3": np.expm1(-sampled) + sampled}[estimator]


def subtracts_what_was_received(rewards: Any) -> Any:
    to_go = [float(np.sum(rewards))]
    for reward in rewards:
        to_go.append(to_go[-1] - reward)
    return to_go[:-1]


def looks_beyond_its_sequence(selected: Any, mask: Any) -> Any:
    (rows, length), stream = selected.shape, np.ravel(selected)
    windows = [stream[row * length :] for row in range(rows)]
    counts = [np.pad(mask[row], (0, len(windows[row]) - length)) for row in range(rows)]
    sums = [np.where(c, w, 0.0).sum() for c, w in zip(counts, windows, strict=True)]
    tokens = np.sum(mask, axis=1)
    with np.errstate(all="ignore"):
        return tokens, sums, np.exp(-np.divide(sums, tokens))


RIGHT: dict[str, tuple[str, Callable[..., Any]]] = {
    "google-deepmind/rlax#140": ("generalized_advantages", starts_at_the_bare_residual),
    "danijar/dreamerv3#102": ("lambda_returns", mixes_the_last_value_with_itself),
    "openai/baselines#1218": ("sequence_logprob_ratio", subtracts_negative_logprobs),
    "ghliu/pytorch-ddpg#6": ("collector_target", stores_whether_it_goes_on),
    "huggingface/trl#3104": ("kl_penalty_terms", estimates_from_the_sampled_token),
    "huggingface/transformers#31374": ("return_to_go", subtracts_what_was_received),
    "twni2016/pomdp-baselines#20": ("masked_sequence_metrics", looks_beyond_its_sequence),
}


def test_code_that_is_right_is_written_out() -> None:
    assert RIGHT.keys() == {e.reports[0] for e in entries() if e.right and not e.uncovered}


@pytest.mark.parametrize("report", RIGHT)
def test_laws_accept_code_that_is_right(report: str) -> None:
    (entry,) = (e for e in entries() if report in e.reports)
    name, implementation = RIGHT[report]
    laws = [law for law in laws_of(FUNCTIONS[name]) if law.id in entry.accepted]
    assert len(laws) == len(entry.accepted), entry.accepted
    for law in laws:
        verdict = run(law, InProcess({name: implementation}), random_seed=1)
        assert verdict.holds, f"{law.id}: {verdict.message}"
