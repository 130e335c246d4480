"""Formulas as MathML: every law's text is set, and shows what was written."""

import re
import unicodedata
from xml.etree import ElementTree

import pytest

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.laws import laws_of
from rlcheck.grading.render.formulas import as_html

# What is set in another way than it is written.
WRITTEN = str.maketrans({"Σ": "∑", "Π": "∏", "'": "′"})
TEXTS = sorted(
    {
        text
        for function in FUNCTIONS.values()
        for gradients in (False, True)
        for law in laws_of(function, gradients=gradients)
        for text in (law.sentence, law.equation)
        if text
    }
)


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<p>{as_html(text)}</p>")


def visible(element: ElementTree.Element) -> str:
    inner = (element.text or "") + "".join(visible(e) + (e.tail or "") for e in element)
    return f"√({inner})" if element.tag == "msqrt" else inner


def plain(text: str) -> str:
    """Without spaces, the marks of indices and code, and forms of one character."""
    composed = unicodedata.normalize("NFKC", text.translate(WRITTEN))
    return re.sub(r"[\s_^{}`]", "", composed)


def test_every_text_of_every_law_shows_what_was_written() -> None:
    assert len(TEXTS) > 400
    shown = {text: plain(visible(parsed(text))) for text in TEXTS}
    assert {text: got for text, got in shown.items() if got != plain(text)} == {}


def formulas(text: str) -> list[str]:
    return [plain(visible(math)) for math in parsed(text).iter("math")]


def names(text: str) -> set[str]:
    return {element.tag for element in parsed(text).iter()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("G = Σ_t γ^t r_t, in rational arithmetic.", ["G=∑tγtrt"]),
        ("A truncation is not a termination.", []),
        ("for every a.", ["a"]),
        ("the sum over n of them", ["n"]),
        ("max Q ≤ log A, as a mean of 2 tokens", ["maxQ≤logA"]),
        ("predicted = original + γ^T Φ_T", ["γTΦT"]),
        ("mask[b, t] = response_mask[b, t + 1]", ["mask[b,t]", "responsemask[b,t+1]"]),
        ('"max_length" is not `length`', []),
        ("the λ-return and n-step returns", []),
        ("−A min(ρ, 1 + high) and no more", ["−Amin(ρ,1+high)"]),
        ("0 log 0 = 0 (thu-nics/C2C#21)", ["0log0=0"]),
    ],
)
def test_words_are_prose_and_signs_are_formulas(text: str, expected: list[str]) -> None:
    assert formulas(text) == expected


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("V_t", "msub"),
        ("γ^{t+1}", "msup"),
        ("G_t^{(n)}", "msubsup"),
        ("√(k (n − k))", "msqrt"),
        ("h²", "msup"),
        ("`collector_target`", "code"),
    ],
)
def test_indices_exponents_roots_and_code_are_set(text: str, element: str) -> None:
    assert element in names(text)


def test_a_long_formula_may_break_beside_its_outermost_signs_only() -> None:
    text = "Σ_t γ^t δ_t = G − V_0 + γ^T V_T − Σ_t d_t γ^{t+1} V_{t+1}"
    assert formulas(text) == ["∑tγtδt", "G", "V0", "γTVT", "∑tdtγt+1Vt+1"]
    assert formulas("V_t = r_t + γ V") == ["Vt=rt+γV"]


def test_what_is_no_formula_is_escaped() -> None:
    assert as_html("it is <<no>> tag & no entity") == "it is &lt;&lt;no&gt;&gt; tag &amp; no entity"


BROKEN = ["", " ", "((", "]", "x_", "^", "{", "_t", "a_{", "|", "− ", "'", r"\frac{", "$x$"]


@pytest.mark.parametrize("text", BROKEN)
def test_halves_of_formulas_are_shown_too(text: str) -> None:
    assert plain(visible(parsed(text))) == plain(text)
