"""Grading a class: many submissions at once, resumable, and what they have in common."""

import contextlib
import hashlib
import hmac
import itertools
import math
import os
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from rlcheck import __version__
from rlcheck.grading.assignment import Assignment
from rlcheck.grading.content import Unmeasurable, content_of
from rlcheck.grading.grade import grade
from rlcheck.grading.report import EXIT_GRADER, Report, from_json, to_json
from rlcheck.grading.seal import seal, secret
from rlcheck.grading.wire import printable
from rlcheck.grading.writing import write_whole

__all__ = [
    "LINK",
    "ClassReport",
    "Settings",
    "Submission",
    "grade_class",
    "is_class",
    "left_out",
    "submissions_in",
]

LINK = "it is a link; a submission is a file of its own"
NO_PYTHON = "it is a folder without a Python file right in it that can be read"
BLANK = "\n\u2800\u115f\u1160"  # besides what is a space by its class
ALIKE = 0.8  # how much of two submissions' wrong answers must be the same to be told
LARGEST_RESULT = 2**26  # bytes
LONGEST_NAME = 200  # bytes; systems allow 255 with what is added
MANY = 3  # and how many of them at least


@dataclass(frozen=True)
class Submission:
    """One piece of work: the name it is reported under, and where it lies."""

    name: str
    path: Path
    entry: Path  # what was handed in: the path, or a folder around it
    barred: str = ""  # why it is not opened
    alone: bool = False  # others lie beside it, whom it must not see


def is_class(targets: Sequence[str]) -> bool:
    """Whether the targets are many: several, or a folder that is no package."""
    if len(targets) != 1:
        return True
    path = Path(targets[0])
    return path.is_dir() and not _is_package(path)


def _is_package(folder: Path) -> bool:
    return os.path.exists(folder / "__init__.py")  # False where it cannot be entered


def submissions_in(targets: Sequence[str], *, file: str | None = None) -> list[Submission]:
    """The submissions that targets stand for, in the order of their names.

    Several targets are a submission each; one folder that is no package holds one in each of its
    Python files, notebooks and folders. Of a folder, it is `file`, or the package, or the only
    Python file. What cannot be graded of these is barred, so that it has a report, and stops nobody
    else's.

    Raises:
        ValueError: a target does not exist, or a folder holds nothing to grade.
    """
    entries = [Path(target) for target in targets]
    for entry in entries:
        if not entry.exists() and not entry.is_symlink():
            raise ValueError(f"{entry}: there is no such file or folder")
    if len(targets) == 1 and is_class(targets):
        entries = list(filter(_may_be_graded, _entries(entries[0])))
        if not any(entry.suffix == ".py" or _has_python(entry) for entry in entries):
            raise ValueError(f"{targets[0]}: the folder holds no submission that can be read")
    shared = Path(os.path.commonpath([entry.absolute().parent for entry in entries]))
    found = [_submission(shared, entry, *_within(entry, file)) for entry in entries]
    named = sorted(_told_apart(_called_by_folder(found)), key=lambda submission: submission.name)
    return list(_hidden_from_each_other(named))


def left_out(targets: Sequence[str]) -> list[str]:
    """What lies in the folder of a class and is no submission, but for hidden files."""
    entries = _entries(Path(targets[0])) if len(targets) == 1 and is_class(targets) else []
    return [printable(str(entry)) for entry in entries if not _may_be_graded(entry)]


def _hidden_from_each_other(found: list[Submission]) -> Iterator[Submission]:
    """Where another submission lies in a file's folder or below, the file is alone."""
    below = Counter(folder for s in found for folder in set(s.path.absolute().parents))
    for submission in found:
        yield replace(submission, alone=below[submission.path.absolute().parent] > 1)


def _called_by_folder(found: Sequence[Submission]) -> Iterator[Submission]:
    """Submissions of different folders; those with one name have their folders' names before it."""
    folders: dict[str, set[Path]] = {}
    for submission in found:
        folders.setdefault(_same_file(submission.name), set()).add(submission.entry.parent)
    for submission in found:
        places = [folder.absolute() for folder in folders[_same_file(submission.name)]]
        shared = os.path.commonpath(places)
        above = submission.entry.parent.absolute().relative_to(shared)
        name = "-".join([*map(_told, above.parts), submission.name])
        yield replace(submission, name=name)


def _told_apart(found: Iterable[Submission]) -> Iterator[Submission]:
    """Where several submissions have one name, all are numbered but the one with the least path.

    Nobody's mark may depend on what a neighbour calls a file.
    """
    names: set[str] = set()
    for submission in sorted(found, key=lambda s: (len(s.entry.parts), s.entry.is_dir())):
        name, number = submission.name, 1
        while _same_file(name) in names:
            number += 1
            name = f"{submission.name} ({number})"
        names.add(_same_file(name))
        yield replace(submission, name=name)


def _same_file(name: str) -> str:
    """What two names have in common that some file systems take for one."""
    return unicodedata.normalize("NFC", name).casefold()


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder and is not hidden; nothing where it cannot be read."""
    with contextlib.suppress(OSError):
        return [entry for entry in sorted(folder.iterdir()) if entry.name[0] not in "._"]
    return []


def _may_be_graded(entry: Path) -> bool:
    """Whether an entry of a class is a submission, if only one that earns nothing."""
    return entry.suffix.lower() in (".py", ".ipynb") or entry.is_dir() or entry.is_symlink()


def _submission(shared: Path, entry: Path, path: Path, barred: str) -> Submission:
    """What an entry of a class holds; a link would be graded on somebody else's work.

    What lies above the folder that the submissions share is the teacher's, and may be a link.
    """
    own = path.absolute().relative_to(shared).parts
    linked = any((shared / Path(*own[: n + 1])).is_symlink() for n in range(len(own)))
    name = entry.name if entry.is_dir() else entry.stem
    return Submission(_told(name), path, entry, LINK if linked else barred)


def _told(name: str) -> str:
    """A name as it is reported: what looks like another one, or like nothing, is escaped."""
    own = name.strip()
    before, after = name[: name.find(own)], name[name.find(own) + len(own) :]
    escaped = "".join(c.encode("unicode_escape").decode() if _misleads(c) else c for c in own)
    return f"{_codes(before)}{printable(escaped)}{_codes(after)}"


def _misleads(c: str) -> bool:
    """Whether a character looks like another one, or like nothing."""
    forms = {unicodedata.normalize(form, c) for form in ("NFC", "NFKC")}
    return len(forms) > 1 or c in BLANK


def _codes(text: str) -> str:
    return "".join(f"\\x{ord(c):02x}" for c in text)


def _has_python(folder: Path) -> bool:
    return folder.is_dir() and any(folder.glob("*.py"))


def _within(entry: Path, file: str | None) -> tuple[Path, str]:
    """What is graded of an entry, and why it is not opened, where that is so."""
    if not entry.is_dir():
        return entry, "" if entry.suffix == ".py" else "it is no Python file, NAME.py"
    if file is not None:
        return entry / file, ""  # where it is missing, its report says so
    if _is_package(entry):
        return entry, ""
    if not _has_python(entry):
        return entry, NO_PYTHON
    first, *more = sorted(entry.glob("*.py"))
    names = printable(", ".join(file.name for file in (first, *more)))
    return first, f"it holds {names}; --file says which one is graded" if more else ""


@dataclass(frozen=True)
class Settings:
    """What every submission of a class is graded with."""

    only: tuple[str, ...] = ()
    assignment: Assignment | None = None
    reveal: bool = False
    options: tuple[tuple[str, Any], ...] = ()  # of `grade`

    def key(self, submission: Submission) -> str:
        """What a result depends on: content, settings, the secret of seeds, rlcheck's version."""
        told = msgspec.json.encode(
            (__version__, self.only, self.assignment, self.reveal, self.options)
        )
        told += submission.barred.encode()
        told += secret().encode() if self.assignment else b""
        try:
            told += content_of(submission.path, alone=submission.alone)
        except Unmeasurable:
            told += os.urandom(16)  # it is graded anew
        return hashlib.sha256(told).hexdigest()

    def grade(self, submission: Submission) -> Report:
        return grade(
            _target(submission.path),
            only=self.only,
            assignment=self.assignment,
            reveal=self.reveal,
            barred=submission.barred,
            alone=submission.alone,
            **dict(self.options),
        )


def _target(path: Path) -> str:
    """A path that is no library's name, nor a module's."""
    return str(path) if path.parent != Path() or path.suffix == ".py" else f".{os.sep}{path}"


class Standing(msgspec.Struct):
    """One submission in the summary."""

    name: str
    score: float
    max_score: float
    functions: dict[str, str]
    mistakes: list[str]
    problem: str = ""  # why it could not be loaded, or not be graded to the end
    ungradable: bool = False  # which is rlcheck's doing, not the submission's
    seconds: float = 0.0

    @property
    def lost(self) -> list[str]:
        """The functions that are asked for and do not hold, with what became of them."""
        said = {"failed": ""}
        return [
            f"{name}{said.get(status, f' ({status})')}"
            for name, status in self.functions.items()
            if status not in ("passed", "skipped")
        ]


class LawCount(msgspec.Struct):
    """How many submissions lose a law, of those that were judged on it."""

    id: str
    sentence: str
    lost: int
    judged: int


class MistakeCount(msgspec.Struct):
    """How many submissions answer as a known mistake does."""

    id: str
    description: str
    submissions: list[str]


class Alike(msgspec.Struct):
    """Two submissions that share wrong answers; `share` weighs rare ones more, in [0, 1]."""

    names: tuple[str, str]
    share: float
    laws: list[str]


class ClassReport(msgspec.Struct, kw_only=True):
    """What grading a class found, in the order of the submissions' names."""

    schema: int = 1
    title: str = ""
    rlcheck: str = __version__
    submissions: list[Standing]
    laws: list[LawCount]  # those that most lose first
    mistakes: list[MistakeCount]  # the most frequent first
    alike: list[Alike]  # the most alike first
    unfinished: list[str] = []  # names of submissions that were not reached
    unkept: list[str] = []  # names of submissions whose results could not be written
    strays: list[str] = []  # results beside these that are of no submission of this run
    graded: int = 0  # in this run; the others had been graded before

    @property
    def complete(self) -> bool:
        """Whether every submission has a result that is the submission's doing."""
        whole = not self.unfinished and not self.unkept
        return whole and not any(s.ungradable for s in self.submissions)


Grader = Callable[[Settings, Sequence[Submission]], Iterable[tuple[Submission, Report]]]


def grade_class(
    submissions: Sequence[Submission],
    settings: Settings,
    folder: Path,
    grader: Grader,
    *,
    progress: Callable[[Submission], None] = lambda _: None,
) -> ClassReport:
    """Grade what has no result yet, keep each result in `folder`, and sum up.

    A result is kept as soon as it is there, so that a run that is stopped goes on where it was.

    Args:
        submissions: with different names.
        settings: what each is graded with; other settings or other content make a result stale.
        folder: results as NAME.json.
        grader: gives submissions with their reports, in any order.
        progress: called with each submission that has its result, at once for kept ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = {submission.name: settings.key(submission) for submission in submissions}
    reports: dict[str, Report] = {}
    unkept: list[str] = []
    for submission in submissions:
        kept = _kept(_place(folder, submission), keys[submission.name])
        if kept is not None:
            reports[submission.name] = kept
            progress(submission)
    waiting = [submission for submission in submissions if submission.name not in reports]
    with contextlib.suppress(KeyboardInterrupt):
        for submission, report in grader(settings, waiting):
            reports[submission.name] = report
            try:
                _keep(_place(folder, submission), keys[submission.name], report)
            except OSError:
                unkept.append(submission.name)
            progress(submission)
    summary = summarised({s.name: reports[s.name] for s in submissions if s.name in reports})
    summary.title = settings.assignment.title if settings.assignment else ""
    summary.unfinished = [s.name for s in submissions if s.name not in reports]
    summary.unkept = unkept
    summary.strays = sorted(_strays(folder, submissions))
    summary.graded = len(waiting) - len(summary.unfinished)
    return summary


def _place(folder: Path, submission: Submission) -> Path:
    """Where a result is kept: under the submission's name, cut where no file can be so called."""
    name = submission.name
    if len(name.encode()) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME // 8]}…{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return folder / f"{name}.json"


def _strays(folder: Path, submissions: Sequence[Submission]) -> Iterator[str]:
    """Results that an earlier run has left under names that nobody has now."""
    known = {_place(folder, submission) for submission in submissions}
    for path in set(folder.glob("*.json")) - known:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            small = path.is_file() and path.stat().st_size <= LARGEST_RESULT
            if small and from_json(path.read_bytes()).digest:
                yield printable(path.name)


def _kept(path: Path, key: str) -> Report | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size > LARGEST_RESULT:
            return None
        report = from_json(path.read_bytes())
        if hmac.compare_digest(report.digest, _sealed(key, report)) and not report.fault:
            return report
    return None


def _sealed(key: str, report: Report) -> str:
    """The seal of a report on what has that key."""
    data = to_json(msgspec.structs.replace(report, digest=""))
    return seal(key.encode() + to_json(from_json(data)))  # as it is read back: 0 becomes 0.0


def _keep(path: Path, key: str, report: Report) -> None:
    report.digest = _sealed(key, report)
    write_whole(path, to_json(report))


def summarised(reports: Mapping[str, Report]) -> ClassReport:
    """What the reports have in common, each under its submission's name."""
    return ClassReport(
        submissions=[_standing(name, report) for name, report in reports.items()],
        laws=_law_counts(reports.values()),
        mistakes=_mistake_counts(reports),
        alike=_alike(reports),
    )


def _standing(name: str, report: Report) -> Standing:
    return Standing(
        name=name,
        score=report.score,
        max_score=report.max_score,
        functions={f: _status(report, f) for f in report.functions},
        mistakes=sorted({law.diagnosis.id for law in report.laws if law.diagnosis}),
        problem=report.error or report.fault,
        ungradable=report.exit_code == EXIT_GRADER,
        seconds=report.seconds,
    )


def _status(report: Report, function: str) -> str:
    """A function's status; "skipped" where it is not asked for, "blocked" where it waits."""
    statuses = {law.status for law in report.laws if law.function == function}
    waits = statuses in ({"skipped"}, {"blocked"})
    return statuses.pop() if waits else report.functions[function].status


def _law_counts(reports: Iterable[Report]) -> list[LawCount]:
    counts: dict[str, LawCount] = {}
    for report in reports:
        for law in report.laws:
            if law.status not in ("missing", "skipped", "blocked", "ungradable"):
                count = counts.setdefault(law.id, LawCount(law.id, law.sentence, 0, 0))
                count.judged += 1
                count.lost += law.status != "passed"
    return sorted((count for count in counts.values() if count.lost), key=lambda count: -count.lost)


def _mistake_counts(reports: Mapping[str, Report]) -> list[MistakeCount]:
    counts: dict[str, MistakeCount] = {}
    for name, report in reports.items():
        found = {law.diagnosis.id: law.diagnosis for law in report.laws if law.diagnosis}
        for diagnosis in found.values():
            fresh = MistakeCount(diagnosis.id, diagnosis.description, [])
            counts.setdefault(diagnosis.id, fresh).submissions.append(name)
    return sorted(counts.values(), key=lambda count: -len(count.submissions))


def _alike(reports: Mapping[str, Report]) -> list[Alike]:
    """Pairs that share most of their wrong answers, value by value.

    A wrong answer that n of N submissions give weighs log(N / n), so that what many get wrong in
    the same way says little; the share is the weight of what two have in common over the weight
    of what either has.
    """
    wrong = {
        name: {(law.id, law.got) for law in report.failures if law.got is not None}
        for name, report in reports.items()
    }
    given = Counter(answer for answers in wrong.values() for answer in answers)
    weight = {answer: math.log(len(reports) / count) for answer, count in given.items()}
    found = []
    for one, other in itertools.combinations(wrong, 2):
        both, either = wrong[one] & wrong[other], wrong[one] | wrong[other]
        total = sum(weight[answer] for answer in either)
        share = sum(weight[answer] for answer in both) / total if total else 0.0
        if share >= ALIKE and len(both) >= MANY:
            found.append(Alike((one, other), round(share, 3), sorted(law for law, _ in both)))
    return sorted(found, key=lambda pair: -pair.share)
