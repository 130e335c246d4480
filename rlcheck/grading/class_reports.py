"""What grading a class found: on a terminal, as JSON, as CSV, as a page."""

import csv
import io

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlcheck.grading.classes import ClassReport

__all__ = ["CLASS_KINDS", "print_class", "render_class"]

CLASS_KINDS = ("json", "csv", "html")

SHOWN = 12  # laws and mistakes on a terminal; files hold them all


def as_json(report: ClassReport) -> bytes:
    """Everything, as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def as_csv(report: ClassReport) -> bytes:
    """A line a submission: scores, the status of each function, likely mistakes, problems."""
    functions = list(dict.fromkeys(f for s in report.submissions for f in s.functions))
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["name", "score", "max_score", "problem", "mistakes", *functions])
    for s in report.submissions:
        cells = [s.functions.get(function, "") for function in functions]
        row = [s.name, f"{s.score:g}", f"{s.max_score:g}", s.problem, " ".join(s.mistakes), *cells]
        rows.writerow([_inert(cell) for cell in row])
    for name in report.unfinished:
        rows.writerow([_inert(name), "", "", "not graded yet", "", *[""] * len(functions)])
    return text.getvalue().encode()


def _inert(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t")) else cell


def render_class(kind: str, report: ClassReport, *, lang: str = "en") -> bytes:
    """The summary in one of the CLASS_KINDS; `lang` is the language of a page's own labels."""
    if kind == "html":
        from rlcheck.grading.render.class_page import render

        return render(report, lang=lang)
    return {"json": as_json, "csv": as_csv}[kind](report)


def print_class(report: ClassReport, console: Console) -> None:
    """Scores, the laws that are lost most, the likeliest mistakes, and who answers alike."""
    if report.title:
        console.print(Text(report.title, style="bold"))
    console.print(_scores(report))
    judged = {law.id: f"{law.lost} of {law.judged}" for law in report.laws}
    _list(console, "laws that most lose", judged)
    counted = {
        f"{mistake.id}  it {mistake.description}": str(len(mistake.submissions))
        for mistake in report.mistakes
    }
    _list(console, "likely mistakes", counted)
    alike = {
        f"{' and '.join(pair.names)}  ({len(pair.laws)} wrong answers)": f"{pair.share:.0%}"
        for pair in report.alike
    }
    _list(console, "nearly the same wrong answers", alike)
    if report.unfinished:
        left = f"not graded: {', '.join(report.unfinished)}; the same command goes on with them"
        console.print(Text(left, style="magenta"), soft_wrap=True)


def _scores(report: ClassReport) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    for s in report.submissions:
        full = s.score == s.max_score and not s.problem
        table.add_row(
            s.name,
            Text(f"{s.score:g}/{s.max_score:g}", style="green" if full else "red"),
            s.problem or ", ".join(s.lost),
        )
    return table


def _list(console: Console, title: str, rows: dict[str, str]) -> None:
    if not rows:
        return
    console.print(Text(f"\n{title}", style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right", no_wrap=True, style="yellow")
    table.add_column(overflow="fold")
    for text, count in list(rows.items())[:SHOWN]:
        table.add_row(count, text)
    if len(rows) > SHOWN:
        table.add_row("", Text(f"and {len(rows) - SHOWN} more", style="dim"))
    console.print(table)
