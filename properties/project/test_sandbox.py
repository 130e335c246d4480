"""Tiers of isolation: which can be had, what they hide, and what is said where they cannot."""

import errno
import os
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlcheck.grading import sandbox
from rlcheck.grading.cli import app
from rlcheck.grading.grade import grade
from rlcheck.grading.layout import PACKAGE, layout
from rlcheck.grading.report import EXIT_FAILED, EXIT_USAGE
from rlcheck.grading.sandbox import TIERS, TierUnavailable, available, note, obstacle, strongest
from rlcheck.grading.submission import CannotLoad, Worker

OUTSIDE = [tier for tier in TIERS if tier != "process" and available(tier) is None]
shut_off = pytest.mark.skipif(not OUTSIDE, reason="no tier that hides files can be had here")


def shown(mounts: list[list[str]]) -> set[str]:
    return {path for how, path, _ in mounts if how == "bind"}


def write(folder: Path, source: str) -> Path:
    path = folder / "solution.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def said_by(tmp_path: Path, tier: str, source: str) -> str:
    """What a submission raises when it is loaded."""
    with pytest.raises(CannotLoad) as refusal:
        Worker("path", str(write(tmp_path, source)), (), tier=tier)
    return str(refusal.value)


def test_a_tier_that_cannot_be_had_is_an_error_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = {"namespaces": "the system refuses it", "bubblewrap": "bwrap is not installed"}
    monkeypatch.setattr(sandbox, "available", reasons.get)
    path = str(write(tmp_path, "def discounted_return(rewards, gamma): ..."))
    for tier, reason in reasons.items():
        shown = CliRunner().invoke(app, ["grade", path, "--isolate", tier])
        assert shown.exit_code == EXIT_USAGE
        assert f"--isolate {tier}: {reason}" in shown.output
        with pytest.raises(TierUnavailable, match=reason):
            grade(path, only=["discounted_return"], isolate=tier)
    report = grade(path, only=["discounted_return"], examples=2)
    assert report.isolation == "process"
    assert "it can read and change its user's files" in report.isolation_note


@pytest.mark.parametrize("tier", OUTSIDE)
def test_what_a_tier_hides(tmp_path: Path, tier: str) -> None:
    source = f"""
    import os, socket
    seen = [p for p in ({str(PACKAGE)!r}, {str(Path(__file__).parents[1])!r}) if os.path.exists(p)]
    others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
    interfaces = [name for _, name in socket.if_nameindex() if name != "lo"]
    written = []
    for folder in (os.path.dirname(__file__), "/", "/usr", "/dev/shm", os.getcwd()):
        try:
            open(folder + "/x", "w").close()
            written.append(folder)
        except OSError:
            pass
    raise RuntimeError(f"{{seen}} {{others}} {{interfaces}} {{written}} {{os.getcwd()}}")
    """
    assert said_by(tmp_path, tier, source) == ("RuntimeError: [] [] [] ['/dev/shm', '/tmp'] /tmp")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("tier", OUTSIDE)
def test_no_file_that_others_see_can_be_locked_or_watched(tmp_path: Path, tier: str) -> None:
    source = """
    import ctypes, fcntl
    shared = open("/etc/passwd")
    lock = b"\\0" * 32
    refused = []
    for ask in (
        lambda: fcntl.flock(shared, fcntl.LOCK_SH),
        lambda: fcntl.lockf(shared, fcntl.LOCK_SH),
        lambda: fcntl.fcntl(shared, fcntl.F_GETLK, lock),
        lambda: fcntl.fcntl(shared, fcntl.F_OFD_GETLK, lock),
        lambda: fcntl.fcntl(shared, fcntl.F_SETLEASE, fcntl.F_RDLCK),
        lambda: fcntl.fcntl(shared, fcntl.F_NOTIFY, fcntl.DN_ACCESS),
    ):
        try:
            ask()
        except OSError as error:
            refused.append(error.errno)
    watch = ctypes.CDLL(None).inotify_init1(0)
    raise RuntimeError(f"{refused} {watch} {fcntl.fcntl(shared, fcntl.F_GETFD)}")
    """
    assert said_by(tmp_path, tier, source) == f"RuntimeError: {[errno.ENOSYS] * 6} -1 1"


@pytest.mark.parametrize("tier", OUTSIDE)
def test_no_right_is_left_or_regained(tmp_path: Path, tier: str) -> None:
    source = """
    import ctypes, os
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    rights = [status[name].strip() for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs")]
    anew = ctypes.CDLL(None).unshare(0x10000000 | 0x00020000)
    raise RuntimeError(f"{rights} {anew} {os.getuid() != 0}")
    """
    nothing = "0" * 16
    expected = f"RuntimeError: {[nothing, nothing, nothing, '1']} -1 True"
    assert said_by(tmp_path, tier, source) == expected


@shut_off
def test_a_file_that_is_alone_does_not_see_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("def discounted_return(rewards, gamma): return 0.0\n")
    path = str(write(tmp_path, "from neighbour import discounted_return\n"))
    together = grade(path, only=["discounted_return"], examples=2)
    assert (together.error, together.exit_code) == ("", EXIT_FAILED)
    alone = grade(path, only=["discounted_return"], examples=2, alone=True)
    assert alone.error == "ModuleNotFoundError: No module named 'neighbour'"


def test_what_rlcheck_consists_of_is_covered_in_a_folder_that_holds_it(tmp_path: Path) -> None:
    beside = PACKAGE.parent / "solution.py"
    mounts = layout("path", str(beside))
    assert {str(beside), str(PACKAGE.parent)} & shown(mounts)
    if str(PACKAGE.parent) in shown(mounts):
        assert ["hide", str(PACKAGE), ""] in mounts
    inside = PACKAGE / "returns.py"
    assert str(inside) in shown(layout("path", str(inside)))
    assert str(PACKAGE) not in shown(layout("path", str(inside)))


@pytest.mark.parametrize("folder", ["/tmp", str(Path.home())])
def test_of_a_crowded_folder_only_modules_are_shown(folder: str) -> None:
    assert folder not in shown(layout("path", f"{folder}/solution.py"))


def test_root_grades_what_nobody_can_read_in_a_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "def discounted_return(rewards, gamma): ...")
    path.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    reason = obstacle("namespaces", path)
    assert reason is not None
    assert "runs as nobody, who cannot read" in reason


def test_every_tier_says_what_it_hides() -> None:
    assert len({note(tier) for tier in ("process", "namespaces", "in-process")}) == 3
    assert strongest() in TIERS
    assert available("vault") == f"there is no such tier; the tiers are {', '.join(TIERS)}"


def test_the_last_that_it_printed_is_shown_on_request_and_where_it_crashes(tmp_path: Path) -> None:
    source = """
    import os

    def discounted_return(rewards, gamma):
        print("x" * 10_000 + "the end", flush=True)
        return 0.0

    def return_to_go(rewards, gamma=1.0):
        print("the very end", flush=True)
        os._exit(1)
    """
    path = str(write(tmp_path, source))
    report = grade(path, only=["discounted_return"], examples=2, keep_output=True)
    assert report.output.endswith("xthe end\n")
    assert len(report.output) == 4096
    assert grade(path, only=["discounted_return"], examples=2).output == ""
    crashed = grade(path, only=["return_to_go"], examples=2).failures
    assert {law.frames for law in crashed} == {"the very end\n"}
