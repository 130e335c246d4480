"""Formulas as MathML when the site is built, so that no script is loaded to read them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([\[(])(.*?)\\[\])]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace each formula that the Markdown extension marked."""
    return FORMULA.sub(_as_mathml, content)


def _as_mathml(formula: re.Match[str]) -> str:
    display = "block" if formula[2] == "[" else "inline"
    return convert(html.unescape(formula[3]), display=display)
