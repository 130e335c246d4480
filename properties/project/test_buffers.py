"""Laws of replay buffers and datasets: honest ones keep them, each wrong one breaks its own.

Libraries are held to what is declared of them where they are installed here, or where
RLCHECK_PYTHONS names an interpreter, as in "libraries=/path/to/python".
"""

import ast
import os
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("gymnasium")

from properties.project import wrong_buffers, wrong_datasets, wrong_windows
from properties.project.wrong_replay import WRONG
from rlcheck.grading.buffers.__main__ import main
from rlcheck.grading.buffers.check import LAWS, OF, check_kind
from rlcheck.grading.buffers.judged import Judged, Shown, judge, judge_here
from rlcheck.grading.buffers.page import markdown
from rlcheck.grading.conformance import python_for
from rlcheck.subjects.buffers import BufferSubject, buffer_subject, buffer_subjects
from rlcheck.subjects.buffers.rlcheck import ReplayBuffer

FINDINGS = Path(__file__).parents[2] / "docs" / "findings"
PYTHONS = dict(
    entry.split("=", 1) for entry in os.environ.get("RLCHECK_PYTHONS", "").split(",") if entry
)
HERE = [library for library in buffer_subjects() if python_for(library, PYTHONS)]
FAULTS = wrong_buffers.FAULTS | wrong_datasets.FAULTS | wrong_windows.FAULTS
PLAIN = (wrong_buffers.Plain, wrong_datasets.Lines, wrong_windows.Slicer, wrong_windows.Stacker)
OTHER = ("WeightsIgnored", "WeightsBySlot", "RewardsMended", "SlotsForAges")
SEEN = [wrong for wrong in WRONG if wrong.__name__ not in OTHER]  # no weights, refusals, order


def statuses(kind: type, **settings) -> dict[str, str]:
    return {found.law: found.status for found in check_kind(kind, seed=1, **settings)}


@pytest.mark.parametrize("kind", PLAIN)
def test_a_plain_kind_keeps_every_law(kind):
    assert set(statuses(kind, examples=25).values()) == {"passed"}


def test_rlchecks_own_kinds_are_as_declared():
    library = buffer_subject("rlcheck")
    assert library is not None
    judged = judge_here(library, examples=25)
    assert judged.undeclared(library) == {}
    assert judged.mended(library) == []
    assert list(judged.kinds) == library.provides


@pytest.mark.parametrize(("fault", "law"), FAULTS.items(), ids=lambda v: getattr(v, "__name__", ""))
def test_a_fault_breaks_the_law_that_it_is_about(fault, law):
    (found,) = check_kind(fault, examples=100, seed=1, only=[law])
    assert found.status in ("failed", "raised"), fault.__doc__


def test_every_law_catches_a_fault():
    assert set(FAULTS.values()) == set(LAWS)


@pytest.mark.parametrize("wrong", SEEN, ids=lambda wrong: wrong.__name__)
def test_a_wrong_replay_buffer_breaks_a_law(wrong):
    kind = type("Judged", (ReplayBuffer,), {"judged": wrong})
    names = [law.name for law in OF["Replay buffers"]]
    found = (statuses(kind, examples=20, only=[name])[name] for name in names)
    assert any(status in ("failed", "raised") for status in found), wrong.__doc__


@pytest.mark.parametrize("library", buffer_subjects(), ids=lambda s: s.name)
def test_what_is_declared_names_kinds_laws_and_findings_that_exist(library: BufferSubject):
    named = [law for entry in library.declared for law in entry.laws]
    assert library.provides
    assert sorted(named) == sorted(set(named))
    for kind, _, law in (name.partition("::") for name in named):
        assert kind in library.provides
        assert law in LAWS
    for entry in library.declared:
        assert not entry.finding or (FINDINGS / f"{entry.finding}.md").is_file(), entry.finding


def test_an_adapter_imports_nothing_of_rlcheck():
    for library in buffer_subjects():
        nodes = list(ast.walk(ast.parse(library.path.read_text())))
        modules = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
        modules |= {n.module or "." for n in nodes if isinstance(n, ast.ImportFrom)}
        own = {m for m in modules if m.partition(".")[0] in ("rlcheck", "")}
        assert not own or library.name == "rlcheck", library.path


def test_a_name_without_an_adapter_is_none():
    assert buffer_subject("no_such_library") is None
    assert buffer_subject("../d3rlpy") is None


def own(**declared) -> BufferSubject:
    library = buffer_subject("rlcheck")
    assert library is not None
    entries = [{"kind": "convention", "reason": "for this test", **declared}] if declared else []
    told = {**msgspec.to_builtins(library), "declared": entries}
    return msgspec.convert(told, type=BufferSubject)


def shown(law: str, status: str) -> Shown:
    return Shown(law, LAWS[law], status, 1, "a row", "1", "2", "case=Case()")


def test_a_library_is_held_to_what_is_declared():
    law = "samples_are_rows"
    declared = own(laws=[f"ReplayBuffer::{law}"])
    for status in ("failed", "raised", "timed_out"):
        judged = Judged("rlcheck", {}, {"ReplayBuffer": [shown(law, status)]})
        assert list(judged.undeclared(own())) == [f"ReplayBuffer::{law}"]
        assert (judged.undeclared(declared), judged.mended(declared)) == ({}, [])
    for status in ("passed", "not_applicable"):
        judged = Judged("rlcheck", {}, {"ReplayBuffer": [shown(law, status)]})
        assert judged.undeclared(own()) == {}
        assert judged.mended(declared) == [f"ReplayBuffer::{law}"]


def test_the_page_tells_holding_declared_and_undeclared_laws_apart():
    laws = ("samples_are_rows", "a_truncation_is_no_termination", "drawing_changes_no_row")
    statuses = ("passed", "failed", "failed")
    found = [shown(law, status) for law, status in zip(laws, statuses, strict=True)]
    judged = Judged("rlcheck", {"numpy": "2.0"}, {"ReplayBuffer": found})
    library = own(laws=[f"ReplayBuffer::{laws[1]}"])
    page = markdown([(library, judged)], examples=7, seed=3, date="2026-01-02")
    assert "2026-01-02 with 7 examples a law and seed 3" in page
    assert "| `samples_are_rows` | holds |" in page
    assert "| `a_truncation_is_no_termination` | convention |" in page
    assert "| `drawing_changes_no_row` | undeclared |" in page
    assert "**Convention.** for this test" in page
    assert "`rows_are_drawn_equally_often`" not in page


@pytest.mark.parametrize("option", [[], ["--json"]], ids=["text", "json"])
def test_on_the_command_line(option, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["buffers", "rlcheck", "--examples", "2", *option])
    assert main() == 0
    assert ("ReplayBuffer: " in capsys.readouterr().out) == (not option)


def test_an_absent_library_is_a_usage_error(capsys, monkeypatch):
    monkeypatch.setattr("rlcheck.subjects.find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["buffers", "torchrl"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "pip install torchrl" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("library", HERE, ids=lambda s: s.name)
def test_a_library_is_as_declared(library: BufferSubject):
    """No law is broken that is not declared to be, and none holds that is."""
    python = python_for(library, PYTHONS)
    assert python is not None
    judged = judge(library, python)
    assert judged.undeclared(library) == {}
    assert judged.mended(library) == []
