"""Reports for the tests of their formats: graded once, small, and of every kind."""

import functools
import tempfile
import textwrap
from pathlib import Path

import msgspec

from rlcheck.grading.assignment import read_assignment
from rlcheck.grading.grade import grade
from rlcheck.grading.report import Report

SUBMISSION = """
    import numpy as np

    def discounted_return(rewards, gamma):
        return float(np.sum(rewards))

    def td_residuals(rewards, values, gamma, terminated=None):
        values = np.asarray(values, dtype=float)
        return np.asarray(rewards) + gamma * values[1:] - values[:-1]

    def potential_shaping(rewards, potentials, gamma):
        raise KeyError("<script>alert('no')</script> | `x` @everyone \\x1b[31m")
"""
ASSIGNMENT = """
    title = "Practical <1>"

    [functions.td_residuals]
    weight = 4
    laws."*stand_alone" = {visibility = "hidden", hint = "What is left after the end?"}

    [functions.discounted_return]
    weight = 2
    partial = false
    requires = ["td_residuals"]

    [functions.semi_markov_return]
    visibility = "after-due"
"""
CHOSEN = ("discounted_return", "td_residuals", "potential_shaping", "dqn_targets")


@functools.cache
def wrong() -> Report:
    """Three functions that fail, one by raising, and one that is missing."""
    with tempfile.TemporaryDirectory() as folder:
        return grade(str(_written(folder, "solution.py", SUBMISSION)), only=CHOSEN, examples=10)


@functools.cache
def assigned() -> Report:
    """By an assignment: hidden, blocked, missing and failed laws, with points."""
    with tempfile.TemporaryDirectory() as folder:
        target = _written(folder, "solution.py", SUBMISSION)
        asked = read_assignment(_written(folder, "assignment.toml", ASSIGNMENT))
        return grade(str(target), assignment=asked, examples=10)


@functools.cache
def right() -> Report:
    """All laws of one function hold."""
    return grade("rlcheck", only=["return_to_go"], examples=10)


@functools.cache
def unloadable() -> Report:
    """A file that raises when it is imported."""
    with tempfile.TemporaryDirectory() as folder:
        target = _written(folder, "solution.py", "raise RuntimeError('<b>not today</b>')")
        return grade(str(target), only=["discounted_return"], examples=10)


def interrupted() -> Report:
    """A run that was stopped: what was not reached is ungradable."""
    fault = "interrupted; laws that were not reached are ungradable"
    return msgspec.structs.replace(wrong(), fault=fault)


REPORTS = {
    "wrong": wrong,
    "assigned": assigned,
    "right": right,
    "unloadable": unloadable,
    "interrupted": interrupted,
}


def _written(folder: str, name: str, text: str) -> Path:
    path = Path(folder) / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path
