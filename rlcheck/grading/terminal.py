"""The report on a terminal."""

import inspect
from collections import Counter
from collections.abc import Sequence

from rich.box import SQUARE
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rlcheck.catalogue import FUNCTIONS, MODULES, Function
from rlcheck.grading.implementation import bare_parameters
from rlcheck.grading.laws import Law
from rlcheck.grading.power import Matrix
from rlcheck.grading.render.cards import TITLES, alike, facts
from rlcheck.grading.report import LawReport, Report
from rlcheck.mistakes import Mistake

STYLES = {
    "passed": "green",
    "failed": "red",
    "raised": "red",
    "timed_out": "red",
    "crashed": "red",
    "ungradable": "magenta",
    "unloadable": "red",
    "missing": "yellow",
    "blocked": "yellow",
    "skipped": "dim",
}
WHERE = {"process": "in a process that hides no files from it", "in-process": "in this process"}
SIGNS = {"passed": "✓", "missing": "·", "skipped": "·"}


def print_report(report: Report, console: Console, *, every_card: bool = False) -> None:
    """The whole report: header, functions, failure cards, summary.

    Laws of one function that fail for the same reason share a card unless `every_card` is wanted.
    """
    console.print(_header(report))
    if report.error:
        line = Text.assemble(("cannot be graded: ", "bold red"), report.error)
        console.print(line, soft_wrap=True)
        if report.frames:
            console.print(Padding(_as_told(report.frames), (1, 0, 1, 2)))
        return
    if report.fault and not report.functions:
        console.print(Text(report.fault, style="magenta"), soft_wrap=True)
        return
    console.print(_functions(report))
    for first, *others in [[law] for law in report.failures] if every_card else alike(report):
        print_card(first, console, others)
    console.print(_summary(report))


def _as_told(frames: str) -> RenderableType:
    """What a submission says of its own frames, in a border: its lines could look like these."""
    return Panel(Text(frames.rstrip()), box=SQUARE, expand=False, style="dim")


def _header(report: Report) -> RenderableType:
    version = f" {report.version}" if report.version else ""
    facts = f"rlcheck {report.rlcheck} · seed {report.seed} · {report.examples} examples a law"
    where = WHERE.get(report.isolation, f"shut off by {report.isolation}")
    if report.error:
        where = "not run"
    if report.tensors:
        where += " with tensors" + (" and gradients" if report.gradients else "")
    title = f"{report.assignment}: " if report.assignment else ""
    lines = Text(title + report.target + version, style="bold", overflow="fold")
    return Group(lines, Text(f"{facts} · {where}", style="dim"), Text())


def _functions(report: Report) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    shown = {n: f for n, f in report.functions.items() if f.status != "missing" or f.message}
    for name, entry in shown.items():
        style = STYLES[entry.status]
        count = f"{entry.passed}/{entry.laws}" if entry.status in ("passed", "failed") else ""
        note = entry.message or _diagnoses(report, name) or _waiting(report, name)
        table.add_row(
            Text(SIGNS.get(entry.status, "✗"), style=style),
            Text(name, style="bold" if entry.status == "failed" else ""),
            Text(count or entry.status, style=style),
            Text(note, style="dim"),
        )
    absent = [name for name in report.functions if name not in shown]
    if not absent:
        return Group(table, Text())
    missing = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    missing.add_column(style="yellow", no_wrap=True)
    missing.add_column(style="dim", no_wrap=True)
    missing.add_column(overflow="fold")
    for module in MODULES:
        if names := [name for name in absent if FUNCTIONS[name].module == module]:
            label = "" if missing.row_count else "not defined"
            missing.add_row(label, module, ", ".join(names))
    return Group(table, Text(), missing, Text())


def _waiting(report: Report, name: str) -> str:
    count = sum(law.status == "blocked" for law in report.laws if law.function == name)
    return f"blocked: {count}" if count else ""


def _diagnoses(report: Report, name: str) -> str:
    found = dict.fromkeys(
        law.diagnosis.description
        for law in report.failures
        if law.function == name and law.diagnosis
    )
    return "; ".join(found)


def print_card(law: LawReport, console: Console, others: Sequence[LawReport] = ()) -> None:
    """One failed law: sentence, smallest input, values, likely mistake, equation, replay.

    `others` are laws that fail for the same reason; they get a line each.

    What is meant for copying, the input and the command, is printed on lines without a border.
    """
    title = Text.assemble((f"{law.status.replace('_', ' ')} ", STYLES[law.status]), law.id)
    console.print(Rule(style="dim"))
    console.print(title, soft_wrap=True)
    console.print(Text(law.sentence, style="bold"))
    if law.counterexample:
        console.print()
        for line in law.counterexample.splitlines():
            console.print(Text(f"  {line}", style="cyan"), soft_wrap=True)
    console.print()
    rows = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows.add_column(style="dim", no_wrap=True, min_width=len("likely mistake"))
    rows.add_column(overflow="fold")
    for key, value in facts(law):
        rows.add_row(TITLES[key], Text(value, style="yellow" if key == "mistake" else ""))
    console.print(rows)
    if law.frames:
        console.print(Padding(_as_told(law.frames), (1, 0, 0, 2)))
    if law.replay:
        replay = Text.assemble(("replay          ", "dim"), law.replay)
        console.print(replay, soft_wrap=True)
    for label, other in zip(("also fails", *[""] * len(others)), others, strict=False):
        console.print(Text.assemble((f"{label:16}", "dim"), other.id), soft_wrap=True)
    console.print()


def _indented(text: Text, columns: int) -> Padding:
    return Padding(text, (0, 0, 0, columns), expand=False)


def _summary(report: Report) -> RenderableType:
    if report.fault:
        return Text(report.fault, style="magenta")
    passed = report.score == report.max_score
    counted = [law for law in report.laws if law.status != "skipped"]
    expected = Counter(law.expected_failure for law in counted if law.expected_failure)
    lost = sum(law.status != "passed" and not law.expected_failure for law in counted)
    fail = "1 law fails" if lost == 1 else f"{lost} laws fail"
    unit = "points" if any(law.points != 1 for law in counted) else "laws"
    parts = [
        Text.assemble(
            (
                f"{round(report.score, 2):g} of {round(report.max_score, 2):g} {unit}",
                "bold green" if passed else "bold red",
            ),
            f" · {fail if lost else 'all laws hold'} · {report.seconds:.1f} s",
        )
    ]
    for reason, count in expected.items():
        laws = "1 law" if count == 1 else f"{count} laws"
        parts.append(Text(f"{laws} known to fail: {reason}", style="dim", overflow="fold"))
    if blocked := [law for law in counted if law.status == "blocked"]:
        parts.append(Text(f"blocked until others hold: {len(blocked)}", style="yellow"))
    if wrong := [law.id for law in counted if law.status == "ungradable"]:
        parts.append(Text(f"rlcheck itself failed in {', '.join(wrong)}", style="magenta"))
    return Group(*parts)


def print_laws(
    function: Function, laws: Sequence[Law], console: Console, *, in_full: bool = False
) -> None:
    """The laws of one function: id, sentence, formula; `in_full` with the function's contract."""
    _print_title(function, console)
    if in_full:
        console.print(f"  {function.name}{inspect.Signature(bare_parameters(function))}")
        for line in (inspect.getdoc(function.reference()) or "").splitlines()[1:]:
            console.print(Text(f"  {line}", style="dim"), soft_wrap=True)
        console.print()
    for law in laws:
        console.print(Text(f"  {law.id}", style="cyan"), soft_wrap=True)
        console.print(_indented(Text(law.sentence), 4))
        if law.equation:
            console.print(_indented(Text(" ".join(law.equation.split()), style="dim"), 4))
    console.print()


def print_mistakes(function: Function, mistakes: Sequence[Mistake], console: Console) -> None:
    """The known mistakes of one function: id, what it does, where it was reported."""
    _print_title(function, console)
    for mistake in mistakes:
        console.print(Text(f"  {mistake.id}", style="cyan"), soft_wrap=True)
        source = f"  ({mistake.report})" if mistake.report else ""
        line = Text.assemble(f"it {mistake.description}", (source, "dim"))
        console.print(_indented(line, 4))
    console.print()


def _print_title(function: Function, console: Console) -> None:
    first = (inspect.getdoc(function.reference()) or "").splitlines()[0]
    console.print(Text.assemble((function.name, "bold"), f"  {first}"))


def print_matrix(matrix: Matrix, console: Console) -> None:
    """A row for each mistake; a column for each law, numbered below the title."""
    legend = "  ✗: the law of this number kills the mistake"
    console.print(Text.assemble((matrix.function, "bold"), (legend, "dim")))
    grid = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for number, _ in enumerate(matrix.laws, 1):
        grid.add_column(str(number), justify="center")
    grid.add_column("mistake")
    for mistake, killers in matrix.killers.items():
        cells = [Text("✗", style="red") if law in killers else Text("·") for law in matrix.laws]
        grid.add_row(*cells, Text(mistake.partition(".")[2]))
    console.print(grid)
    for number, law in enumerate(matrix.laws, 1):
        console.print(Text(f"{number:>3}  {law}", style="dim"), soft_wrap=True)
    console.print()
