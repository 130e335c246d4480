"""What a submission consists of, and copies of it in which nothing else can be written."""

import contextlib
import os
import stat
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from rlcheck.grading.assignment import Assignment, FunctionTerms
from rlcheck.grading.content import Unmeasurable, clean_copy, content_of
from rlcheck.grading.grade import grade
from rlcheck.grading.report import Report
from rlcheck.grading.sandbox import available

Write = Callable[..., Path]
PER_SUBMISSION = Assignment(
    functions={"discounted_td_sum": FunctionTerms()}, seed="per-submission", examples=5
)
WRONG = "def discounted_td_sum(deltas, gamma):\n    raise RuntimeError({})\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(source: str, name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    def graded(path: Path, *, alone: bool = False) -> Report:
        monkeypatch.setenv("RLCHECK_SECRET", "tea")
        return grade(str(path), assignment=PER_SUBMISSION, alone=alone)

    return graded


def test_a_single_file_is_the_same_submission_under_any_name(write: Write) -> None:
    with (
        clean_copy(write("a = 1", "one/anna.py"), alone=False) as one,
        clean_copy(write("a = 1", "other/boris.py"), alone=True) as other,
        clean_copy(write("a = 2", "third/anna.py"), alone=True) as third,
    ):
        assert one.name == other.name
        seeds = [content_of(copy, alone=False) for copy in (one, other, third)]
    assert seeds[0] == seeds[1] != seeds[2]
    assert not one.exists()


def test_what_lies_beside_a_file_is_part_of_it_unless_it_cannot_be_seen(write: Write) -> None:
    path = write("a = 1", "class/solution.py")

    def contents() -> tuple[bytes, bytes]:
        with clean_copy(path, alone=False) as copy, clean_copy(path, alone=True) as single:
            return content_of(copy, alone=False), content_of(single, alone=True)

    alone = contents()[1]
    found = {alone}
    for name, kind in (("link", "link"), ("table.bin", "file"), ("folder", "folder")):
        place = path.parent / name
        if kind == "link":
            place.symlink_to("answers to an earlier seed")
        elif kind == "file":
            place.write_text("answers to an earlier seed")
        else:
            place.mkdir()
        whole, again = contents()
        assert again == alone
        found.add(whole)
    assert len(found) == 4


def test_a_copy_has_no_place_for_answers_but_names_links_and_contents(write: Write) -> None:
    """Times, modes, attributes and pipes are those of the copy, the same for everybody."""
    path = write("a = 1", "class/solution.py")
    (path.parent / "sub").mkdir()
    (path.parent / "sub" / "data.txt").write_text("1")
    (path.parent / "link").symlink_to("sub/data.txt")
    os.mkfifo(path.parent / "pipe")
    for index, place in enumerate((path, path.parent / "sub" / "data.txt")):
        os.utime(place, ns=(index, 123456789 + index))
        place.chmod(0o604 + index)
    with contextlib.suppress(OSError):  # some file systems have none
        os.setxattr(path, "user.answers", b"to an earlier seed")
    with clean_copy(path, alone=False) as copy:
        places = sorted(copy.parent.rglob("*"))
        assert [str(p.relative_to(copy.parent)) for p in places] == [
            "link",
            "solution.py",
            "sub",
            "sub/data.txt",
        ]
        for place in (*places, copy.parent):
            status = place.lstat()
            assert status.st_mtime_ns == 0
            mode = stat.S_IMODE(status.st_mode)
            assert mode == (0o777 if place.is_symlink() else 0o755 if place.is_dir() else 0o644)
        assert os.listxattr(copy) == []
        assert (copy.parent / "link").read_text() == "1"


def test_attributes_of_files_do_not_reach_what_is_graded_under_a_seed_of_its_own(
    write: Write, graded: Callable[..., Report]
) -> None:
    source = """
    import os

    STATUS = os.stat(__file__)
    SEEN = [STATUS.st_mtime_ns, STATUS.st_mode]
    """
    path = write(textwrap.dedent(source) + WRONG.format("repr(SEEN)"), "class/solution.py")
    reports = []
    for time, mode in ((1, 0o644), (2, 0o645)):
        os.utime(path, ns=(time, time))
        path.chmod(mode)
        reports.append(graded(path))
    assert reports[0].seed == reports[1].seed != 0
    assert [law.message for law in reports[0].laws] == [law.message for law in reports[1].laws]
    assert "RuntimeError: [0, 33188]" in reports[0].laws[0].message
    (path.parent / "table.txt").touch()
    assert graded(path).seed != reports[0].seed


def test_a_report_speaks_of_the_file_that_was_handed_in(
    write: Write, graded: Callable[..., Report]
) -> None:
    path = write(WRONG.format("__file__"), "anna/anna.py")
    report = graded(path)
    (law, *_) = report.laws
    assert report.location == str(path)
    assert str(path) in law.message
    assert f'"{path}", line 2' in law.frames
    assert f" {path} --seed {report.seed}" in law.replay
    broken = graded(write("import no_such_library", "boris/boris.py"))
    assert "boris/boris.py" in broken.frames


@pytest.mark.skipif(available("namespaces") is not None, reason="nothing hides files here")
def test_a_copy_is_read_where_files_are_hidden(write: Write, graded: Callable[..., Report]) -> None:
    write("TABLE = 7", "class/helper.py")
    path = write("from helper import TABLE\n" + WRONG.format("TABLE"), "class/solution.py")
    report = graded(path)
    assert (report.isolation, report.error) == ("namespaces", "")
    assert report.laws[0].message == "RuntimeError: 7"
    assert "No module named" in graded(path, alone=True).error


def test_what_cannot_be_read_whole_is_not_graded_under_a_seed_of_its_own(
    write: Write, graded: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(WRONG.format("1"), "solution.py")
    monkeypatch.setattr("rlcheck.grading.content.LARGEST", 5)
    report = graded(path)
    assert "more than 5 bytes" in report.error
    assert (report.score, report.max_score) == (0, 1)
    missing = graded(path.with_name("nowhere.py"))
    assert missing.error == "there is no such file"


def test_a_folder_without_end_has_no_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)  # what only its owner may read is not seen
    path = tmp_path / "solution.py"
    path.write_text("a = 1")
    (tmp_path / "large.bin").write_bytes(bytes(1000))
    for name, limit, says in (("LARGEST", 999, "999 bytes"), ("MOST_FILES", 1, "1 files")):
        with monkeypatch.context() as patched:
            patched.setattr(f"rlcheck.grading.content.{name}", limit)
            with pytest.raises(Unmeasurable, match=f"more than {says}"):
                content_of(path, alone=False)


def test_a_package_is_copied_under_its_name(write: Write) -> None:
    """Its modules may import it by that, so that the name is part of it."""
    contents = []
    for name in ("one", "two", "deeper/one"):
        write("from .f import *", f"{name}/__init__.py")
        package = write("x = 1", f"{name}/f.py").parent
        with clean_copy(package, alone=False) as copy:
            assert copy.name == package.name
            assert (copy / "f.py").read_text() == "x = 1"
            contents.append(content_of(copy, alone=False))
    assert contents[0] == contents[2] != contents[1]
