"""Grading a class: many submissions at once, resumable, and what they have in common."""

import contextlib
import hashlib
import hmac
import itertools
import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rlcheck import __version__
from rlcheck.grading.assignment import Assignment
from rlcheck.grading.content import Unmeasurable, content_of
from rlcheck.grading.grade import grade
from rlcheck.grading.report import EXIT_GRADER, Report, from_json, to_json
from rlcheck.grading.roster import Submission
from rlcheck.grading.seal import seal, secret
from rlcheck.grading.wire import printable
from rlcheck.grading.writing import write_whole

__all__ = ["ClassReport", "Settings", "grade_class"]

ALIKE = 0.8  # how much of two submissions' wrong answers must be the same to be told
LARGEST_RESULT = 2**26  # bytes
LONGEST_NAME = 200  # bytes; systems allow 255 with what is added
MANY = 3  # and how many of them at least


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
