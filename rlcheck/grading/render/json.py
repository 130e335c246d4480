"""The canonical JSON."""

from rlcheck.grading.report import Report, to_json

__all__ = ["render"]


def render(report: Report) -> bytes:
    """The report as JSON; docs/report.schema.json is its schema."""
    return to_json(report)
