"""The command line: grade, demo, laws, mistakes, power, replay."""

import contextlib
import functools
import io
import itertools
import os
import re
import secrets
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from rlcheck import __version__
from rlcheck.catalogue import COURSES, FUNCTIONS, MODULES, Function, select
from rlcheck.grading.assignment import Assignment, read_assignment
from rlcheck.grading.class_reports import CLASS_KINDS, print_class, render_class
from rlcheck.grading.classes import Grader, Settings, grade_class
from rlcheck.grading.crowd import Cluster, Cores
from rlcheck.grading.env_cli import check_env_command
from rlcheck.grading.grade import DEFAULT_SEED, TOTAL_SECONDS, grade
from rlcheck.grading.interpreter import UnfitInterpreter, interpreter
from rlcheck.grading.laws import EXAMPLES, Law, laws_of
from rlcheck.grading.render import KINDS, LANGUAGES, render
from rlcheck.grading.report import (
    EXIT_FAILED,
    EXIT_GRADER,
    EXIT_PASSED,
    EXIT_USAGE,
    Report,
    unjudged,
)
from rlcheck.grading.roster import LINK, Submission, is_class, left_out, submissions_in
from rlcheck.grading.sandbox import obstacle
from rlcheck.grading.submission import CALL_SECONDS
from rlcheck.grading.terminal import (
    print_card,
    print_laws,
    print_matrix,
    print_mistakes,
    print_report,
)
from rlcheck.grading.writing import DEVICES, write_whole
from rlcheck.mistakes import mistakes_of
from rlcheck.subjects import subject, subjects

app = typer.Typer(
    name="rlcheck",
    help="Is the mathematics of your reinforcement learning for language models right?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console(highlight=False, markup=False, emoji=False)
errors = Console(stderr=True, highlight=False, markup=False, emoji=False)

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
EXAMPLE = Path(__file__).parent / "examples" / "student.py"
SELECTION = f"A function, a module, or one of {', '.join(COURSES)}"

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="A function, a module's name, module-5, -6, -11 or policy-gradients."
    ),
]
Examples = Annotated[int, typer.Option(min=1, help="Examples drawn for each law.")]
Seed = Annotated[int, typer.Option(help="Seed of every draw; the report states it.")]
Isolate = Annotated[
    str | None,
    typer.Option(
        metavar="TIER",
        help="How a submission is shut off: process, namespaces, bubblewrap, or strongest, which "
        "files get anyway.",
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="The interpreter that runs the target, in a worker; it needs numpy and msgspec.",
    ),
]
Tensors = Annotated[
    bool, typer.Option("--tensors", help="Pass PyTorch tensors in place of arrays and lists.")
]
Jobs = Annotated[int, typer.Option("-j", "--jobs", min=1, help="Processes.")]
CallSeconds = Annotated[
    float, typer.Option(min=0.1, max=3600, help="Limit of one call into a worker, in seconds.")
]


def main() -> None:
    """The console script."""
    # Hypothesis keeps its tables in the current folder unless told otherwise.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    own = cache / "rlcheck" / "hypothesis"
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(own))
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) != signal.SIG_IGN:  # as under nohup
            signal.signal(ending, _interrupt_once)  # as Ctrl-C does, with a report
    for number in range(3):  # a closed one would be taken for the next thing that is opened
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with _told_where_output_is_lost(), _without_workflow_commands():
        app()


def _interrupt_once(number: int, frame: FrameType | None) -> NoReturn:
    """Interrupt the run, and let no second signal interrupt the report; `timeout` sends two."""
    signal.signal(number, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


@contextlib.contextmanager
def _told_where_output_is_lost() -> Iterator[None]:
    """Exit with 4 where what is printed cannot be written, as to a disk that is full."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError:
        try:
            os.write(1, b"\n")
        except OSError as error:
            with contextlib.suppress(OSError):
                errors.print(f"the output cannot be written: {error.strerror}", style="red")
            os._exit(EXIT_GRADER)
        raise


@contextlib.contextmanager
def _without_workflow_commands() -> Iterator[None]:
    """Have GitHub Actions take nothing that a submission answers, `::error::`, for a command."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)
    try:
        yield
    finally:
        print(f"::{token}::", flush=True)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"rlcheck {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command("grade")
def grade_command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="A file, a package folder, a dotted module, or a library that has an adapter "
            "(`rlcheck libraries`); several, or a folder of submissions, make a class.",
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"{SELECTION}."),
    ] = None,
    assignment: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="What is asked for, and what each law is worth."),
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show what an assignment's hidden laws found, too.")
    ] = False,
    report: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND=PATH", help=f"Write a report; KIND is {', '.join(KINDS)}."),
    ] = None,
    lang: Annotated[
        str, typer.Option(help=f"Language of the labels of an HTML report: {', '.join(LANGUAGES)}.")
    ] = "en",
    examples: Examples = EXAMPLES,
    seed: Seed = DEFAULT_SEED,
    isolate: Isolate = None,
    python: Python = None,
    refusals: Annotated[
        bool | None,
        typer.Option(
            help="Whether it must refuse bad input; libraries need not, unless this asks for it.",
            show_default=False,
        ),
    ] = None,
    tensors: Tensors = False,
    gradients: Annotated[
        bool,
        typer.Option(
            "--gradients", help="Judge the gradients of its answers too; implies --tensors."
        ),
    ] = False,
    call_seconds: CallSeconds = CALL_SECONDS,
    total_seconds: Annotated[
        float, typer.Option(min=1, max=86400, help="Limit of one submission's whole run.")
    ] = TOTAL_SECONDS,
    jobs: Jobs = CPUS,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Of a class: where each result is kept.")
    ] = Path("rlcheck-results"),
    file: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a class: the file to grade in each folder."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Of a class: grade on a Ray cluster.")
    ] = False,
    show_output: Annotated[
        bool, typer.Option("--show-output", help="Show the last that the target printed.")
    ] = False,
    every_card: Annotated[
        bool, typer.Option("--all", help="A card for each law, also where one reason breaks many.")
    ] = False,
) -> None:
    """Say which laws an implementation breaks, on which smallest input, and why it may be."""
    target, many = targets[0], is_class(targets)
    if len(targets) == 1 and subject(target) and Path(target).exists():
        _usage(f"{target} is a library, and a folder here; write ./{target} for the folder")
    kinds = CLASS_KINDS if many else KINDS
    outputs = [_output(text, target, kinds) for text in report or ()]
    if lang not in LANGUAGES:
        _usage(f"--lang {lang}: it is one of {', '.join(LANGUAGES)}")
    _functions(only or [])
    asked = _assignment(assignment, only)
    tensors = tensors or bool(asked and asked.tensors)
    gradients = gradients or bool(asked and asked.gradients)
    _need_torch("--tensors" if tensors else "--gradients", tensors or gradients)
    options: dict[str, Any] = {
        "examples": examples,
        "seed": seed,
        "isolate": _isolated(isolate, target),
        "python": _python(python),
        "refusals": refusals,
        "tensors": tensors,
        "gradients": gradients,
        "call_seconds": call_seconds,
        "total_seconds": total_seconds,
    }
    if file and (Path(file).is_absolute() or ".." in Path(file).parts):
        _usage(f"--file {file}: it is a name within each folder")
    if many:
        found = _submissions(targets, file)
        _must_lie_outside(targets, [out, *(path for _, path in outputs)])
        settings = Settings(tuple(only or ()), asked, reveal, tuple(options.items()))
        grader = Cluster() if cluster else Cores(jobs)
        _grade_class(found, settings, out, grader, outputs, lang, left_out(targets))
    _foretell(target, seed, outputs, lang)
    with _spinner() as show:
        result = grade(
            target,
            only=only or (),
            assignment=asked,
            reveal=reveal,
            jobs=jobs,
            progress=show,
            keep_output=show_output,
            barred=LINK if Path(target).is_symlink() else "",
            **options,
        )
    _finish(result, outputs, lang, every_card)


@app.command()
def demo() -> None:
    """Grade the bundled example: a student's module with four mistakes in it."""
    with _spinner() as show:
        result = grade(str(EXAMPLE), jobs=CPUS, progress=show)
    print_report(result, console)
    if result.exit_code != EXIT_FAILED:
        raise typer.Exit(EXIT_GRADER)


@app.command()
def laws(name: Name = None) -> None:
    """List the laws with their formulas; of one function, its signature and contract too."""
    count = 0
    for function in _functions([name] if name else []):
        found = (*laws_of(function), *laws_of(function, gradients=True))
        print_laws(function, found, console, in_full=function.name == name)
        count += len(found)
    console.print(f"{count} laws")


app.command("check-env")(check_env_command)


@app.command()
def libraries() -> None:
    """List the public libraries that can be graded by name, and what each needs."""
    table = Table("name", "library", "functions", "known to differ", "needs", box=None)
    for column in table.columns[:4]:
        column.no_wrap = True
    for library in subjects():
        count = sum(len(entry.laws) for entry in library.declared)
        needs = "" if not library.missing else library.install
        provided = str(len(library.provides))
        table.add_row(library.name, library.title, provided, f"{count} laws", needs)
    console.print(table)


@app.command()
def mistakes(name: Name = None) -> None:
    """List the known mistakes; of one function, module or course part if named."""
    count = 0
    for function in _functions([name] if name else []):
        found = mistakes_of(function.name)
        with contextlib.suppress(ImportError):  # gradients need PyTorch
            found += mistakes_of(function.name, gradients=True)
        print_mistakes(function, found, console)
        count += len(found)
    console.print(f"{count} mistakes")


@app.command()
def power(
    name: Name = None,
    examples: Examples = EXAMPLES,
    seed: Seed = DEFAULT_SEED,
    seeds: Annotated[
        int, typer.Option(min=1, help="Check this many seeds; the matrix shows the first.")
    ] = 1,
    jobs: Jobs = CPUS,
) -> None:
    """Print the kill matrix: which law kills which mistake; exit 1 where it does not hold."""
    from rlcheck.grading.power import gaps, in_parallel, kill_matrix

    functions = _functions([name] if name else [])
    parts = [(function.name, False) for function in functions]
    if find_spec("torch"):
        parts += [(function.name, True) for function in functions if function.has_twin]
    found: list[str] = []
    first = [(n, seed, examples, gradients) for n, gradients in parts]
    for matrix in in_parallel(kill_matrix, first, jobs):
        print_matrix(matrix, console)
        found += [f"seed {seed}: {gap}" for gap in matrix.gaps]
    others = [(n, s, examples, g) for s in range(seed + 1, seed + seeds) for n, g in parts]
    for (_, s, *_), rest in zip(others, in_parallel(gaps, others, jobs), strict=True):
        found += [f"seed {s}: {gap}" for gap in rest]
    for gap in found:
        console.print(gap, style="red")
    verdict = "does not hold" if found else "holds"
    console.print(f"the kill matrix {verdict} at {seeds} {'seed' if seeds == 1 else 'seeds'}")
    if found:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def replay(
    law: Annotated[str, typer.Argument(help="A law's id, as failure cards print it.")],
    target: Annotated[str, typer.Argument(help="The implementation that failed it.")],
    examples: Examples = EXAMPLES,
    seed: Seed = DEFAULT_SEED,
    isolate: Isolate = None,
    python: Python = None,
    tensors: Tensors = False,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="As --tensors; a law of gradients needs neither.")
    ] = False,
    call_seconds: CallSeconds = CALL_SECONDS,
) -> None:
    """Rerun one law with the same seed, so that it finds the same counterexample."""
    found = _law(law)
    tensors = tensors or gradients
    _need_torch("--tensors" if tensors else found.id, tensors or found.of_gradients)
    result = grade(
        target,
        only=[found.function],
        law=found.id,
        examples=examples,
        seed=seed,
        isolate=_isolated(isolate, target),
        python=_python(python),
        tensors=tensors,
        gradients=found.of_gradients,
        call_seconds=call_seconds,
    )
    if result.error:
        print_report(result, console)
    for entry in result.failures:
        print_card(entry, console)
    if not result.exit_code:
        console.print(f"{found.id} holds: {result.laws[0].examples} examples")
    raise typer.Exit(result.exit_code)


def _assignment(path: Path | None, only: list[str] | None) -> Assignment | None:
    if path is None:
        return None
    if only:
        _usage("--only and --assignment both say what is asked for; give one of them")
    try:
        assignment = read_assignment(path)
        assignment.check_secret()
    except FileNotFoundError:
        _usage(f"--assignment {path}: there is no such file")
    except OSError as error:
        _usage(f"--assignment {path}: {error.strerror}")
    except ValueError as error:
        _usage(f"--assignment {error}")
    return assignment


def _isolated(tier: str | None, target: str) -> str | None:
    """The tier, which is tried before the run."""
    if tier and tier != "strongest" and (reason := obstacle(tier, Path(target))):
        _usage(f"--isolate {tier}: {reason}")
    return tier


def _python(program: str | None) -> str | None:
    """The interpreter, which is asked before the run."""
    if program:
        try:
            interpreter(program)
        except UnfitInterpreter as error:
            _usage(f"--python {error}")
    return program


def _need_torch(what: str, needed: bool) -> None:
    if needed and find_spec("torch") is None:
        _usage(f"{what} needs PyTorch, which is not installed here: pip install torch")


def _law(law_id: str) -> Law:
    """A law by its id, or by the id that pytest gives it."""
    wanted = law_id.removeprefix("properties/").replace("gradients/", "gradients.")
    wanted = re.sub(r"(^|\.|::)test_", r"\1", wanted.replace(".py::", "::"))
    module = wanted.partition("::")[0].removeprefix("gradients.")
    functions = select([module]) if module in MODULES else ()
    laws = [law for f in functions for g in (False, True) for law in laws_of(f, gradients=g)]
    known = {law.id: law for law in laws}
    if wanted not in known:
        everything = [law.id for f in FUNCTIONS.values() for law in laws_of(f)]
        names = {law.partition("::")[2]: law for law in everything}
        near = get_close_matches(wanted, everything, n=1) or [
            names[name] for name in get_close_matches(wanted.rpartition("::")[2], names, n=1)
        ]
        meant = f"did you mean {near[0]}? " if near else ""
        _usage(f"there is no law {law_id!r}; {meant}`rlcheck laws` lists them")
    return known[wanted]


def _functions(names: list[str]) -> tuple[Function, ...]:
    try:
        return select(names)
    except ValueError as error:
        _usage(str(error))


def _output(text: str, target: str, kinds: Iterable[str]) -> tuple[str, Path]:
    """A kind of report and a path that can be written, which is found out before the run."""
    kind, equals, name = text.partition("=")
    if not equals or name in ("", "-") or kind not in kinds:
        whose = "of a class, " if kinds == CLASS_KINDS else ""
        _usage(f"--report {text}: KIND=PATH is due, with KIND {whose}one of {', '.join(kinds)}")
    path = Path(name).expanduser()
    if path.is_symlink() and path.parent not in DEVICES:
        _usage(f"--report {text}: that is a link; name what it leads to")
    if path.exists() and not path.is_file() and path.parent not in DEVICES:
        _usage(f"--report {text}: it is there, and no file")
    try:
        if path.exists() and Path(target).exists() and path.samefile(target):
            _usage(f"--report {text}: that is the file to grade")
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not path.exists()
        with path.open("ab"):
            pass
        if fresh:
            path.unlink()
    except OSError as error:
        _usage(f"--report {text}: it cannot be written: {error.strerror}")
    return kind, path


def _must_lie_outside(targets: list[str], written: list[Path]) -> None:
    """In a class's folder a hand-in could be of that name, a link to anywhere among them.

    One that is such a link is not opened, and wherever it leads is no matter.
    """
    opened = [t for t in targets if len(targets) == 1 or not Path(t).is_symlink()]
    for path, target in itertools.product(written, opened):
        places, folders = (
            [Path(os.path.abspath(p)), Path(os.path.realpath(p))] for p in (path, target)
        )
        if folders[1].is_dir() and any(p.is_relative_to(f) for p in places for f in folders):
            _usage(f"{path} would be written into {target}, among what is graded; choose another")


def _submissions(targets: list[str], file: str | None) -> list[Submission]:
    try:
        return submissions_in(targets, file=file)
    except ValueError as error:
        _usage(str(error))


def _grade_class(
    submissions: list[Submission],
    settings: Settings,
    folder: Path,
    grader: Grader,
    outputs: list[tuple[str, Path]],
    lang: str,
    not_graded: list[str],
) -> NoReturn:
    """Grade a class and exit: 0 where every submission has been graded, whatever its score."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    if folder.is_symlink():
        _usage(f"--out {folder}: that is a link; name what it leads to")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _usage(f"--out {folder}: it cannot be made: {error.strerror}")
    with Progress(*columns, TimeRemainingColumn(), console=errors, transient=True) as bar:
        task = bar.add_task("grading", total=len(submissions))
        summary = grade_class(
            submissions, settings, folder, grader, progress=lambda _: bar.advance(task)
        )
    code = EXIT_PASSED if summary.complete else EXIT_GRADER
    for kind, path in outputs:
        if not _write(path, functools.partial(render_class, kind, summary, lang=lang)):
            code = EXIT_GRADER
    print_class(summary, console)
    console.print(f"{len(summary.submissions)} submissions, {summary.graded} graded now; {folder}")
    if not_graded:
        console.print(f"no submissions, and not graded: {', '.join(not_graded)}")
    if summary.strays:
        console.print(f"of no submission now, but in {folder}: {', '.join(summary.strays)}")
    if summary.unkept:
        lost = ", ".join(summary.unkept)
        errors.print(f"results that could not be written to {folder}: {lost}", style="red")
    raise typer.Exit(code)


def _write(path: Path, rendered: Callable[[], bytes]) -> bool:
    """Write a report; one that fails must not take the others with it."""
    try:
        write_whole(path, rendered())
    except OSError as error:
        errors.print(f"the report {path} cannot be written: {error.strerror}", style="red")
        return False
    except Exception as error:
        said = f"the report {path} cannot be made: {type(error).__name__}: {error}"
        errors.print(said, style="red")
        return False
    return True


def _foretell(target: str, seed: int, outputs: list[tuple[str, Path]], lang: str) -> None:
    """Write what each report says if nothing follows, so that none is empty or an earlier run's."""
    fault = "the grader was ended before it had finished"
    result = unjudged(target, seed=seed, isolation="", fault=fault)
    for kind, path in outputs:
        if path.parent not in DEVICES:
            _write(path, functools.partial(render, kind, result, lang=lang))


def _finish(result: Report, outputs: list[tuple[str, Path]], lang: str, every_card: bool) -> None:
    code = result.exit_code
    for kind, path in outputs:
        if not _write(path, functools.partial(render, kind, result, lang=lang)):
            code = EXIT_GRADER
    print_report(result, console, every_card=every_card)
    if result.output:
        console.print(f"the last that it printed:\n{result.output}")
    raise typer.Exit(code)


@contextlib.contextmanager
def _spinner() -> Iterator[Callable[[str], None]]:
    """A line that says which function is being graded, gone when the run is over."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("loading")
        yield lambda name: bar.update(task, description=name)


def _usage(text: str) -> NoReturn:
    errors.print(text, style="red", soft_wrap=True)
    raise typer.Exit(EXIT_USAGE)


if __name__ == "__main__":
    main()
