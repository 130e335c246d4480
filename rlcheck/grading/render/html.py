"""One self-contained page: what fails and why, readable on a phone, in light and dark.

Everything is in the file; nothing is loaded, and a policy in the page itself keeps text that comes
from a submission from ever being run. The labels are English or Russian; laws stay English.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.pasteable import shorten
from rlcheck.grading.render.cards import alike, facts
from rlcheck.grading.render.formulas import as_html
from rlcheck.grading.render.frame import labels, linked, page
from rlcheck.grading.render.plot import plot
from rlcheck.grading.report import LawReport, Report

__all__ = ["render"]

SIGNS = {"passed": "✓", "missing": "·", "skipped": "·", "blocked": "‖", "ungradable": "?"}
CODE = ("expected", "got", "allowed")
LONGEST = 600  # characters of a value; the JSON report has more of it


def render(report: Report, *, lang: str = "en") -> bytes:
    """The report as one HTML page; `lang` is "en" or "ru"."""
    text = labels(lang)
    return page(
        "page.html.j2",
        lang=lang,
        report=report,
        sections=_sections(report),
        functions=_functions(report),
        absent=_absent(report),
        others=_others(report),
        waiting=Counter(law.function for law in report.laws if law.status == "blocked"),
        counted=[law for law in report.laws if law.status != "skipped"],
        describe=lambda key: text[key],
        sign=lambda status: SIGNS.get(status, "✗"),
        sentence=_sentence,
    )


@dataclass(frozen=True)
class Card:
    """One failed law as the page shows it, and those that fail for the same reason."""

    law: LawReport
    others: list[LawReport]

    @property
    def values(self) -> list[tuple[str, str]]:
        """What was expected, what came, which error was allowed."""
        return [(key, shorten(text, LONGEST)) for key, text in facts(self.law) if key in CODE]

    @property
    def happened(self) -> str:
        said = (text for key, text in facts(self.law) if key == "happened")
        return shorten(next(said, ""), LONGEST)

    @property
    def formula(self) -> Markup:
        return Markup(as_html(self.law.equation))

    @property
    def mistake(self) -> Markup:
        """The likely mistake, its public report linked."""
        found = self.law.diagnosis
        if found is None:
            return Markup()
        said = Markup.escape(f"it {found.description}")
        return said + (Markup(" (") + linked(found.report) + ")" if found.report else "")

    def plot(self, describe: Callable[[str], str]) -> Markup:
        return Markup(plot(self.law, describe))


def _sentence(law: LawReport) -> Markup:
    """A law in words; a hidden one's hint is its teacher's, and may say anything."""
    return Markup.escape(law.sentence) if law.hidden else Markup(as_html(law.sentence))


def _sections(report: Report) -> dict[str, list[Card]]:
    """The failure cards of each function."""
    found: dict[str, list[Card]] = {}
    for first, *others in alike(report):
        found.setdefault(first.function, []).append(Card(first, others))
    return found


def _functions(report: Report) -> dict[str, str]:
    """The functions to list, each with what there is to say about it."""
    notes = {}
    for name, entry in report.functions.items():
        if entry.status == "missing" and not entry.message:
            continue
        failed = [law for law in report.failures if law.function == name and law.diagnosis]
        said = dict.fromkeys(law.diagnosis.description for law in failed if law.diagnosis)
        notes[name] = entry.message or "; ".join(f"it {text}" for text in said)
    return notes


def _absent(report: Report) -> dict[str, list[str]]:
    """The functions that are not defined, by module."""
    found: dict[str, list[str]] = {}
    for name in report.functions.keys() - _functions(report).keys():
        found.setdefault(FUNCTIONS[name].module if name in FUNCTIONS else "", []).append(name)
    order = list(report.functions)
    return {module: sorted(names, key=order.index) for module, names in sorted(found.items())}


def _others(report: Report) -> dict[str, list[LawReport]]:
    """The laws that hold, and those that wait for others, by function."""
    found: dict[str, list[LawReport]] = {}
    for law in report.laws:
        if law.status in ("passed", "blocked"):
            found.setdefault(law.function, []).append(law)
    return found
