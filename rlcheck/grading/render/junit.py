"""JUnit XML: a test case for each law, as continuous integration reads it."""

from xml.etree import ElementTree

from rlcheck.grading.render.cards import as_text
from rlcheck.grading.report import LawReport, Report

__all__ = ["render"]

OUTCOMES = {
    "failed": "failure",
    "raised": "failure",
    "missing": "failure",
    "timed_out": "error",
    "crashed": "error",
    "ungradable": "error",
    "blocked": "skipped",
    "skipped": "skipped",
}


def render(report: Report) -> bytes:
    """The report as JUnit XML: class names are functions, names are laws."""
    suite = ElementTree.Element("testsuite", name=f"rlcheck {report.target}")
    settings = ElementTree.SubElement(suite, "properties")
    for name in ("seed", "examples", "isolation", "score", "max_score", "rlcheck"):
        value = str(getattr(report, name))
        ElementTree.SubElement(settings, "property", name=name, value=value)
    cases = [_run_case(report)] if report.error or report.fault else []
    cases += [_law_case(law, unloadable=bool(report.error)) for law in report.laws]
    suite.extend(cases)
    for outcome, counter in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(counter, str(sum(case.find(outcome) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    suite.set("time", f"{report.seconds:.3f}")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    written: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _run_case(report: Report) -> ElementTree.Element:
    """Why there is no verdict, or no complete one: an error beside the laws."""
    name = "load" if report.error else "run"
    case = ElementTree.Element("testcase", classname="rlcheck", name=name, time="0")
    error = ElementTree.SubElement(case, "error", type=name, message=report.error or report.fault)
    error.text = report.frames or None
    return case


def _law_case(law: LawReport, *, unloadable: bool) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", classname=law.function, name=law.id, time=f"{law.seconds:.3f}"
    )
    outcome = "skipped" if unloadable else OUTCOMES.get(law.status)
    if outcome:
        message = law.message or law.sentence or law.status
        entry = ElementTree.SubElement(case, outcome, type=law.status, message=message)
        entry.text = as_text(law) if outcome != "skipped" else None
    return case
