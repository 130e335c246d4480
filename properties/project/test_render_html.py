"""The HTML page: self-contained, in order, in both languages, legible, and small."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.grade import grade
from rlcheck.grading.render import LANGUAGES, render
from rlcheck.grading.render.html import CODE, labels
from rlcheck.grading.render.plot import plot
from rlcheck.grading.report import LawReport

from .sample_reports import REPORTS, assigned, right, unloadable, wrong

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}
LARGEST = 400_000  # bytes of the page of a submission in which everything is wrong
every_report = pytest.mark.parametrize("name", REPORTS)


class Page(HTMLParser):
    """Tags with their attributes in order, and whether each closes the one that is open."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.crossed: list[str] = []
        self.feed(data.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def values(self, attribute: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(attribute))]

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@every_report
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_is_well_formed(name: str, lang: str) -> None:
    page = Page(render("html", REPORTS[name](), lang=lang))
    assert (page.open, page.crossed) == ([], [])
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert page.named("html") == [{"lang": lang}]
    assert [len(page.named(tag)) for tag in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]


@every_report
def test_links_and_labels_lead_somewhere(name: str) -> None:
    page = Page(render("html", REPORTS[name]()))
    targets = {*page.values("id"), "main"}
    inside = [link[1:] for link in page.values("href") if link.startswith("#")]
    assert "main" in inside
    assert set(inside) | set(page.values("aria-labelledby")) <= targets


@every_report
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    page = Page(render("html", REPORTS[name]()))
    assert page.values("src") == []
    assert {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "base"} == set()
    links = [link for link in page.values("href") if not link.startswith("#")]
    assert all(link.startswith("https://github.com/") for link in links)
    (policy,) = [attrs["content"] for attrs in page.named("meta") if attrs.get("http-equiv")]
    assert policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@every_report
def test_headings_descend_one_level_at_a_time(name: str) -> None:
    page = Page(render("html", REPORTS[name]()))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_text_of_a_submission_is_no_markup() -> None:
    text = render("html", wrong()).decode()
    assert "&lt;script&gt;alert" in text
    assert "<script>alert" not in text
    assert "<b>" not in render("html", unloadable()).decode()


def first_card(text: str) -> str:
    start = text.index('<details class="card"')
    return text[start : text.index("</details>", start)]


def test_a_card_tells_things_in_their_order() -> None:
    law = next(law for law in wrong().laws if law.status == "failed" and law.diagnosis)
    other = msgspec.structs.replace(law, id="returns::another")
    report = msgspec.structs.replace(wrong(), laws=[law, other])
    card = first_card(render("html", report).decode())
    shown = ["input", "expected", "got", "mistake", "formula", "source", "replay", "also"]
    label = labels("en")
    places = [card.index(f">{label[key]}<") for key in shown]
    assert places == sorted(places)
    assert card.index(law.id) < places[0]
    assert "returns::another" in card[places[-1] :]
    assert "<math>" in card


def test_the_functions_link_to_their_failures() -> None:
    text = render("html", wrong()).decode()
    for name in ("discounted_return", "td_residuals", "potential_shaping"):
        assert f'<a href="#f-{name}">' in text
        assert f'<h3 id="f-{name}">' in text


def test_a_right_submission_has_no_failures() -> None:
    text = render("html", right()).decode()
    assert labels("en")["all_hold"] in text
    assert 'id="failures"' not in text


def test_blocked_and_hidden_laws_are_told() -> None:
    text = render("html", assigned()).decode()
    label = labels("en")
    assert label["hidden"] in text
    assert f"{label['status_blocked']}: 9" in text
    assert "waits for returns::" in text


def test_the_languages_have_the_same_labels() -> None:
    english, russian = labels("en"), labels("ru")
    assert english.keys() == russian.keys()
    assert all(value.strip() for value in [*english.values(), *russian.values()])
    same = {key for key in english if english[key] == russian[key]}
    assert same <= {"seed"}


def test_every_label_is_asked_for() -> None:
    sources = [
        p for p in files("rlcheck.grading.render").iterdir() if p.name.endswith((".j2", ".py"))
    ]
    asked = "".join(source.read_text(encoding="utf-8") for source in sources)
    composed = ("status_", "function_", "isolation_", *CODE)
    unused = {key for key in labels("en") if not key.startswith(composed) and key not in asked}
    assert unused == set()


# Contrast, by the Web Content Accessibility Guidelines 2.2: 4.5 to 1 for text.
ON = {
    "page": ("ink", "soft", "bad", "good", "wait", "link"),
    "card": ("ink", "soft", "bad", "good", "wait", "link", "expected", "got"),
    "code": ("ink", "soft"),
    "tint": ("ink", "soft", "link"),
}


def palettes() -> Iterator[dict[str, str]]:
    text = render("html", right()).decode()
    for block in re.findall(r":root \{(.*?)\}", text, re.DOTALL):
        yield dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_text_stands_out_in_light_and_in_dark() -> None:
    light, dark = palettes()
    assert luminance(light["page"]) > 0.5 > luminance(dark["page"])
    for palette in (light, dark):
        for ground, inks in ON.items():
            for ink in inks:
                low, high = sorted(luminance(palette[name]) for name in (ground, ink))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (ground, ink)


def law_with(expected: list[float | None], got: list[float | None]) -> LawReport:
    law = LawReport("m::law", "f", "It holds.", "failed")
    law.expected_values, law.got_values = expected, got
    return law


def picture(expected: list[float | None], got: list[float | None]) -> str:
    return plot(law_with(expected, got), lambda key: key)


def test_vectors_are_drawn_as_lines_and_distributions_as_bars() -> None:
    assert 'aria-label="plot_lines"' in picture([1.0, 2.0, 4.0], [1.0, 2.0, 3.0])
    assert 'aria-label="plot_bars"' in picture([0.25, 0.75], [0.5, 0.5])


def test_a_line_is_broken_where_an_entry_is_not_finite() -> None:
    drawn = picture([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, None, 4.0, 6.0])
    (got,) = re.findall(r'class="lg" d="([^"]*)"', drawn)
    assert got.count("M") == 2
    assert got.count("L") == 2


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ([1.0], [2.0]),
        ([1.0, 2.0], [1.0, 2.0 + 1e-9]),
        ([1.0, 1.0], [0.0, 1.0]),
        ([None, None], [None, None]),
        ([-1e308, 1.0], [1e308, 1.0]),
        ([3.0, 3.0], [3.0, None]),
    ],
)
def test_nothing_is_drawn_where_looking_shows_nothing(
    expected: list[float | None], got: list[float | None]
) -> None:
    assert picture(expected, got) == ""


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["0.0", "[0.25, 0.5, 0.25]", "[0.1] * 3000", "{}['x' * 9999]"])
def test_the_page_of_a_wholly_wrong_submission_is_small(tmp_path: Path, answer: str) -> None:
    target = tmp_path / "garbage.py"
    lines = (f"def {name}(*_, **__):\n    return {answer}\n" for name in FUNCTIONS)
    target.write_text("".join(lines), encoding="utf-8")
    report = grade(str(target))
    assert len(report.functions) == len(FUNCTIONS)
    assert all(entry.status == "failed" for entry in report.functions.values())
    assert len(render("html", report)) < LARGEST
