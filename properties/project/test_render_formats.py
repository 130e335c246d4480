"""Reports as JSON, JUnit XML, Gradescope results, Markdown and CSV."""

import csv
import io
import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase
from typer.testing import CliRunner

from rlcheck.grading.cli import app
from rlcheck.grading.render import KINDS, render
from rlcheck.grading.render.csv import COLUMNS
from rlcheck.grading.render.markdown import LONGEST
from rlcheck.grading.render.schema import schema
from rlcheck.grading.report import LawReport, Report, from_json

from .sample_reports import REPORTS, assigned, interrupted, right, unloadable, wrong

SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"
every_report = pytest.mark.parametrize("name", REPORTS)


def law_of(report: Report, status: str, **fields: object) -> LawReport:
    wanted = {"status": status, **fields}
    return next(law for law in report.laws if all(getattr(law, k) == v for k, v in wanted.items()))


@every_report
@pytest.mark.parametrize("kind", KINDS)
def test_every_report_is_written_in_every_kind(name: str, kind: str) -> None:
    data = render(kind, REPORTS[name]())
    assert len(data.decode("utf-8")) > 100


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_no_file_can_hold_is_escaped(kind: str) -> None:
    report = msgspec.structs.replace(unloadable(), error="\x00\x1b[31m\ud800", target="a\udcff.py")
    text = render(kind, report).decode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\ud800-\udfff]", text.replace("\r\n", "\n"))
    assert "udcff.py" in text


def test_an_unknown_kind_or_language_is_refused() -> None:
    with pytest.raises(ValueError, match="json, junit, gradescope, markdown, html, csv"):
        render("pdf", right())
    with pytest.raises(ValueError, match="en, ru"):
        render("html", right(), lang="de")


def test_the_published_schema_is_current() -> None:
    assert SCHEMA.read_bytes() == schema(), "make table writes it anew"


@every_report
def test_reports_follow_the_published_schema(name: str) -> None:
    report = json.loads(render("json", REPORTS[name]()))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes())).validate(report)
    assert from_json(json.dumps(report).encode()).score == REPORTS[name]().score


@pytest.mark.parametrize("field", ["visibility", "status"])
def test_what_is_no_report_breaks_the_schema(field: str) -> None:
    report = json.loads(render("json", wrong()))
    report["laws"][0][field] = "secret"
    with pytest.raises(jsonschema.ValidationError, match="secret"):
        jsonschema.validate(report, json.loads(SCHEMA.read_bytes()))


def test_a_vector_keeps_its_numbers() -> None:
    vectors = [law for law in wrong().laws if law.expected_values and law.got_values]
    assert any(law.expected_values != law.got_values for law in vectors)
    assert all(law.status == "failed" for law in vectors)


def cases_of(report: Report) -> dict[str, TestCase]:
    (suite,) = JUnitXml.fromstring(render("junit", report))
    assert suite.tests == len(list(suite))
    return {case.name: case for case in suite}


def test_junit_has_a_case_for_each_law_with_its_outcome() -> None:
    cases = cases_of(wrong())
    kinds = {"passed": None, "failed": Failure, "raised": Failure, "missing": Failure}
    assert len(cases) == len(wrong().laws)
    for law in wrong().laws:
        case, kind = cases[law.id], kinds[law.status]
        assert case.classname == law.function
        assert [type(result) for result in case.result] == ([kind] if kind else [])
    failed = law_of(wrong(), "failed")
    assert failed.counterexample
    assert failed.counterexample.splitlines()[0] in cases[failed.id].result[0].text


def test_junit_counts_its_outcomes() -> None:
    (suite,) = JUnitXml.fromstring(render("junit", assigned()))
    statuses = [law.status for law in assigned().laws]
    assert suite.failures == statuses.count("failed") + statuses.count("missing") > 0
    assert suite.skipped == statuses.count("blocked") > 0
    assert suite.errors == 0


def test_junit_says_why_nothing_or_not_all_was_judged() -> None:
    assert isinstance(cases_of(unloadable())["load"].result[0], Error)
    laws = [case for name, case in cases_of(unloadable()).items() if name != "load"]
    assert [type(case.result[0]) for case in laws] == [Skipped] * len(unloadable().laws)
    assert "interrupted" in cases_of(interrupted())["run"].result[0].message


# From Gradescope's "Autograder specifications": the fields of results.json and their values.
VISIBILITIES = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
FORMATS = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
GRADESCOPE = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["score"]}, {"required": ["tests"]}],
    "properties": {
        "score": {"type": "number"},
        "execution_time": {"type": "number", "minimum": 0},
        "output": {"type": "string"},
        "output_format": FORMATS,
        "test_output_format": FORMATS,
        "test_name_format": FORMATS,
        "visibility": VISIBILITIES,
        "stdout_visibility": VISIBILITIES,
        "extra_data": {"type": "object"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "score": {"type": "number"},
                    "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string"},
                    "name_format": FORMATS,
                    "number": {"type": "string"},
                    "output": {"type": "string"},
                    "output_format": FORMATS,
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": VISIBILITIES,
                    "extra_data": {"type": "object"},
                },
            },
        },
        "leaderboard": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "value"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "value": {"type": ["number", "string"]},
                    "order": {"enum": ["asc", "desc"]},
                },
            },
        },
    },
}


@every_report
def test_gradescope_results_hold_documented_fields_only(name: str) -> None:
    results = json.loads(render("gradescope", REPORTS[name]()))
    jsonschema.Draft202012Validator(GRADESCOPE).validate(results)
    assert results["score"] == REPORTS[name]().score


def test_gradescope_shows_points_and_visibility_of_each_law() -> None:
    report = assigned()
    results = json.loads(render("gradescope", report))
    tests = {test["name"]: test for test in results["tests"]}
    assert set(tests) == {law.id for law in report.laws}
    visibilities = {"public": "visible", "hidden": "hidden", "after-due": "after_due_date"}
    for law in report.laws:
        assert tests[law.id]["visibility"] == visibilities[law.visibility]
        assert tests[law.id]["max_score"] == law.points
        assert tests[law.id]["score"] == (law.points if law.status == "passed" else 0)
    assert {law.visibility for law in report.laws} == set(visibilities)


def test_gradescope_says_where_the_laws_add_up_to_more_than_the_score() -> None:
    listed = sum(law.points for law in assigned().laws if law.status == "passed")
    for score, said in ((listed, False), (listed - 0.5, True)):
        report = msgspec.structs.replace(assigned(), score=score)
        output = json.loads(render("gradescope", report))["output"]
        assert ("the laws below add up to more" in output.lower()) == said


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_law_shows_its_name_and_hint_alone(kind: str) -> None:
    hidden = law_of(assigned(), "failed", hidden=True)
    open_one = next(law for law in wrong().laws if law.id == hidden.id)
    assert open_one.counterexample
    text = render(kind, assigned()).decode()
    assert hidden.id in text
    assert hidden.hint in text
    shown = [law.counterexample for law in assigned().laws if law.counterexample]
    for secret in (open_one.counterexample, open_one.sentence):
        assert secret not in text or secret in shown


def test_markdown_has_a_table_and_a_card_for_each_reason() -> None:
    text = render("markdown", wrong()).decode()
    for name in wrong().functions:
        assert f"`{name}`" in text
    assert text.count("<details>") == text.count("</details>") >= 3
    failed = law_of(wrong(), "failed")
    assert failed.counterexample
    assert f"```python\n{failed.counterexample}\n```" in text


def test_markdown_of_a_submission_mentions_nobody_and_holds_no_tags() -> None:
    text = render("markdown", wrong()).decode()
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "everyone" in outside
    assert "@everyone" not in outside
    assert not re.search(r"(?<!\\)<script", outside)


def test_code_in_markdown_cannot_end_its_own_block() -> None:
    law = msgspec.structs.replace(law_of(wrong(), "failed"), counterexample="'''\n```\n# end\n````")
    report = msgspec.structs.replace(wrong(), laws=[law])
    assert "`````python\n'''\n```\n# end\n````\n`````" in render("markdown", report).decode()


def test_markdown_fits_into_a_comment() -> None:
    law = law_of(wrong(), "failed")
    many = [
        msgspec.structs.replace(law, id=f"{law.id}{i}", counterexample="x" * 3000, diagnosis=None)
        for i in range(100)
    ]
    text = render("markdown", msgspec.structs.replace(wrong(), laws=many)).decode()
    assert len(text) < LONGEST + 5000 < 65_536
    assert "Further failures: " in text


def rows_of(report: Report) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render("csv", report).decode(), newline="")))


@every_report
def test_csv_has_a_line_for_each_law(name: str) -> None:
    rows = rows_of(REPORTS[name]())
    assert [row["law"] for row in rows] == [law.id for law in REPORTS[name]().laws]
    assert all(tuple(row) == COLUMNS for row in rows)


def test_csv_keeps_numbers_and_disarms_formulas() -> None:
    law = law_of(wrong(), "failed")
    law = msgspec.structs.replace(law, got="=HYPERLINK(1)", expected="-0.5", message="+1-2")
    (row,) = rows_of(msgspec.structs.replace(wrong(), laws=[law]))
    assert (row["got"], row["expected"], row["message"]) == ("'=HYPERLINK(1)", "-0.5", "'+1-2")


def test_the_command_writes_all_kinds_and_lists_them(tmp_path: Path) -> None:
    target = tmp_path / "solution.py"
    target.write_text("def discounted_return(rewards, gamma):\n    return 0.0\n")
    options = [f"--report={kind}={tmp_path / kind}" for kind in KINDS]
    shown = CliRunner().invoke(app, ["grade", str(target), "--examples=5", "--lang=ru", *options])
    assert shown.exit_code == 1
    for kind in KINDS:
        assert "discounted_return" in (tmp_path / kind).read_text(encoding="utf-8")
    assert 'lang="ru"' in (tmp_path / "html").read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, ["grade", str(target), "--report=pdf=x.pdf"])
    assert refused.exit_code == 2
    assert ", ".join(KINDS) in refused.output
    assert CliRunner().invoke(app, ["grade", str(target), "--lang=de"]).exit_code == 2


def test_all_kinds_are_written_of_what_cannot_be_loaded(tmp_path: Path) -> None:
    options = [f"--report={kind}={tmp_path / kind}" for kind in KINDS]
    shown = CliRunner().invoke(app, ["grade", "nowhere.py", *options])
    assert shown.exit_code == 3
    assert all("nowhere.py" in (tmp_path / kind).read_text() for kind in KINDS)
