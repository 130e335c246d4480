"""Markdown for a pull request or the summary of a CI step."""

import re

from rlcheck.grading.render.cards import TITLES, alike, facts
from rlcheck.grading.report import LawReport, Report

__all__ = ["render"]

LONGEST = 60_000  # bytes; a comment on GitHub holds 65,536 characters
SIGNS = {"passed": "✅", "failed": "❌", "missing": "⬜", "skipped": "⬜", "unloadable": "❌"}
SPECIAL = re.compile(r"([\\`*_\[\]<>|~#@&])")


def render(report: Report) -> bytes:
    """A table of functions, and a card to unfold for each failure; cut where it grows too long."""
    parts = [*_head(report)]
    size = sum(len(part.encode()) for part in parts)
    groups = alike(report)
    for shown, (first, *others) in enumerate(groups):
        card = _card(first, others)
        size += len(card.encode())
        if size > LONGEST:
            rest = ", ".join(f"`{group[0].id}`" for group in groups[shown : shown + 50])
            parts.append(f"Further failures: {rest}.\n")
            break
        parts.append(card)
    return "\n".join(parts).encode("utf-8")


def _head(report: Report) -> list[str]:
    title = f"{report.assignment}: {report.target}" if report.assignment else report.target
    parts = [f"## rlcheck: {_escaped(title)}\n"]
    if report.error:
        parts.append(f"**Cannot be graded.** {_escaped(report.error)}\n")
        return parts + ([_fenced(report.frames.rstrip())] if report.frames else [])
    if report.fault:
        parts.append(f"**Not complete.** {_escaped(report.fault)}\n")
    counted = [law for law in report.laws if law.status != "skipped"]
    unit = "points" if any(law.points != 1 for law in counted) else "laws"
    run = f"seed {report.seed}, {report.examples} examples a law, rlcheck {report.rlcheck}"
    parts.append(f"**{report.score:g} of {report.max_score:g} {unit}** · {run}\n")
    return [*parts, _functions(report)]


def _functions(report: Report) -> str:
    rows = ["| | function | laws | |", "|---|---|--:|---|"]
    absent = []
    for name, entry in report.functions.items():
        if entry.status == "missing" and not entry.message:
            absent.append(name)
            continue
        note = entry.message or "; ".join(_mistakes(report, name))
        count = f"{entry.passed}/{entry.laws}"
        rows.append(f"| {SIGNS[entry.status]} | `{name}` | {count} | {_escaped(note)} |")
    table = "\n".join(rows) + "\n" if len(rows) > 2 else ""
    if absent:
        table += "\nNot defined: " + ", ".join(f"`{name}`" for name in absent) + ".\n"
    return table


def _mistakes(report: Report, function: str) -> list[str]:
    laws = [law for law in report.failures if law.function == function and law.diagnosis]
    return [*dict.fromkeys(law.diagnosis.description for law in laws if law.diagnosis)]


def _card(law: LawReport, others: list[LawReport]) -> str:
    status = law.status.replace("_", " ")
    parts = [
        f"<details>\n<summary>{status}: <code>{law.id}</code></summary>\n",
        f"**{_escaped(law.sentence)}**\n" if law.sentence else "",
        _fenced(law.counterexample, "python") if law.counterexample else "",
    ]
    rows = [f"| {TITLES[key]} | {_cell(key, text)} |" for key, text in facts(law)]
    if rows:
        parts.append("\n".join(["| | |", "|---|---|", *rows]) + "\n")
    if law.frames:
        parts.append(_fenced(law.frames.rstrip()))
    if law.replay:
        parts.append(_fenced(law.replay, "console"))
    if others:
        parts.append("Also fails: " + ", ".join(f"`{other.id}`" for other in others) + ".\n")
    return "\n".join(part for part in [*parts, "</details>\n"] if part)


def _cell(key: str, text: str) -> str:
    if key not in ("expected", "got", "allowed"):
        return _escaped(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if ticks != "`" else ""
    return f"{ticks}{pad}{_on_one_line(text)}{pad}{ticks}".replace("|", r"\|")


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\1", _on_one_line(text)).replace(r"\@", "@\u200b").replace(r"\#", "#")


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _fenced(text: str, language: str = "") -> str:
    """A block of code, between more backquotes than the text has in a row."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}\n"
