"""A class on one page: scores, what is lost most, likely mistakes, who answers alike."""

from markupsafe import Markup

from rlcheck.grading.classes import ClassReport
from rlcheck.grading.render.formulas import as_html
from rlcheck.grading.render.frame import page

__all__ = ["render"]


def render(report: ClassReport, *, lang: str = "en") -> bytes:
    """The summary of a class as one HTML page; `lang` is "en" or "ru"."""
    return page(
        "class.html.j2",
        lang=lang,
        report=report,
        scores=_scores(report),
        sentence=lambda text: Markup(as_html(text)),
    )


def _scores(report: ClassReport) -> list[int]:
    """How many submissions reach each tenth of the maximum; full marks count in the last."""
    tenths = [0] * 10
    for standing in report.submissions:
        share = standing.score / standing.max_score if standing.max_score else 0.0
        tenths[min(int(10 * share), 9)] += 1
    return tenths
