"""The HTML page in a browser: headless Chromium opens it, folds it, and takes its picture."""

import html
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.image import imread

from rlcheck.grading.render import LANGUAGES, render
from rlcheck.grading.render.cards import alike
from rlcheck.grading.render.html import labels

from .sample_reports import REPORTS, wrong

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE, DESK = 390, 1280
# A window is 500 pixels wide at least, but a frame may be as narrow as a phone.
FRAME = """<!DOCTYPE html><iframe width="{width}" height="800" srcdoc="{page}"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const root = frame.contentDocument.documentElement;
  document.body.dataset.sizes = `${{root.scrollWidth}} of ${{root.clientWidth}}`;
}};
</script>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on PATH"),
]


def chromium(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--enable-logging=stderr", "--v=0", *options, url),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def said(run: subprocess.CompletedProcess[str]) -> list[str]:
    """What the page told the console; scripts and styles that the policy refuses stand there."""
    return [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_bytes(render("html", wrong()))
    return path


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", REPORTS)
def test_the_page_opens_without_a_complaint(name: str, lang: str, page: Path) -> None:
    page.write_bytes(render("html", REPORTS[name](), lang=lang))
    opened = chromium(page.as_uri(), "--dump-dom")
    assert said(opened) == []
    assert labels(lang)["result"] in opened.stdout


def test_a_complaint_would_be_noticed(page: Path) -> None:
    page.write_bytes(page.read_bytes().replace(b"</body>", b"<script>evil()</script></body>"))
    assert any(
        "Content Security Policy" in line for line in said(chromium(page.as_uri(), "--dump-dom"))
    )


def test_a_link_to_a_card_unfolds_it(page: Path) -> None:
    reasons = pairwise(group[0] for group in alike(wrong()))
    folded = next(law for before, law in reasons if before.function == law.function)
    tag = re.compile(rf'<details class="card" id="{re.escape(folded.id)}"([^>]*)>')
    for fragment, is_open in (("", False), (f"#{folded.id}", True)):
        dom = chromium(page.as_uri() + fragment, "--dump-dom").stdout
        (attributes,) = tag.findall(dom)
        assert ("open" in attributes) is is_open


def test_buttons_appear_where_the_script_runs(page: Path) -> None:
    assert b'<button type="button" id="all" hidden' in page.read_bytes()
    dom = chromium(page.as_uri(), "--dump-dom").stdout
    (button,) = re.findall(r'<button type="button" id="all"[^>]*>', dom)
    assert "hidden" not in button


@pytest.mark.parametrize("name", REPORTS)
def test_the_page_is_no_wider_than_a_phone(name: str, page: Path) -> None:
    text = render("html", REPORTS[name]()).decode().replace("Content-Security-Policy", "x")
    text = text.replace("<details ", "<details open ")
    framed = FRAME.format(width=PHONE + 4, page=html.escape(text))  # a border of 2 on each side
    page.write_text(framed, encoding="utf-8")
    dom = chromium(page.as_uri(), "--dump-dom").stdout
    ((wide, window),) = re.findall(r'data-sizes="(\d+) of (\d+)"', dom)
    assert int(window) > PHONE - 20  # a scroll bar may take some
    assert int(wide) <= int(window)


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_a_picture(scheme: str, width: int, page: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    chromium(
        page.as_uri(),
        f"--screenshot={path}",
        f"--window-size={width},1600",
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
    )
    picture = imread(path)[..., :3]  # [1600, width, 3]
    assert picture.shape[:2] == (1600, width)
    ground = picture[-1, 0]
    assert (ground.mean() > 0.5) == (scheme == "light")
    written = (abs(picture - ground) > 0.2).any(axis=-1)
    assert 0.02 < written.mean() < 0.5
    assert written[:400].any()
    assert written[1200:].any()
