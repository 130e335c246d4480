"""One formula, in tokens, as MathML, by way of LaTeX."""

import html
import re

from latex2mathml.converter import convert

from rlcheck.grading.render.tokens import (
    FUNCTIONS,
    OPERATORS,
    RELATIONS,
    Token,
    closing,
    is_spaced,
    script_end,
)

__all__ = ["as_mathml"]

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
PRIME = r"\text{′}"  # on the line and large, where an exponent would be hard to read

# What latex2mathml takes for text or for a variable, as what it is.
MENDED = (
    (r"<mtext>−</mtext>", '<mo form="prefix">−</mo>'),
    (r"<mtext>([|/′])</mtext>", r'<mo lspace="0" rspace="0" stretchy="false">\1</mo>'),
    (r"<mtext>(\d.*?)</mtext>", r"<mn>\1</mn>"),
    (r"<mtext>(.*?)</mtext>", r"<mi>\1</mi>"),
    (r"<mi>½</mi>", "<mn>½</mn>"),
    (rf"<mi>([{re.escape(RELATIONS + OPERATORS)}…;:])</mi>", r"<mo>\1</mo>"),
)


def as_mathml(piece: list[Token]) -> str:
    """One formula as MathML, or a sign between two of them as text."""
    if len(piece) == 1 and piece[0].kind == "sign":
        return html.escape(piece[0].text)
    before = " " if piece and piece[0].kind == "space" else ""
    after = " " if piece and piece[-1].kind == "space" else ""
    mathml = convert(_latex(piece))
    mathml = mathml.replace(' xmlns="http://www.w3.org/1998/Math/MathML" display="inline"', "")
    mathml = re.sub(r"&#x0*([0-9A-F]+);", lambda code: _character(int(code[1], 16)), mathml)
    for pattern, element in MENDED:
        mathml = re.sub(pattern, element, mathml)
    return before + mathml + after


def _character(code: int) -> str:
    return html.escape(chr(code))


def _latex(tokens: list[Token]) -> str:
    """A formula as LaTeX."""
    parts: list[str] = []
    i = 0
    while i < len(tokens):
        token, end = tokens[i], i + 1
        if token.kind == "script":
            end = script_end(tokens, i)
            parts.append(f"{token.text}{{{_script(tokens[i + 1 : end])}}}")
        elif token.text == "√" and end < len(tokens) and tokens[end].text == "(":
            end = closing(tokens, i + 1) + 1
            parts.append(rf"\sqrt{{{_latex(tokens[i + 2 : end - 1])}}}")
        elif token.text in ("−", "|", "/") and not is_spaced(tokens, i):
            parts.append(rf"\text{{{token.text}}}")
        elif end < len(tokens) and tokens[end].text in ("'", "′") and token.kind != "sign":
            parts.append(f"{{{_atom(token)}{PRIME}}}")  # an index then belongs to both
            end += 1
        else:
            parts.append(_atom(token))
        if _keeps_distance(tokens, end):
            parts.append(r"\,")
        i = end
    return "".join(parts)


def _keeps_distance(tokens: list[Token], end: int) -> bool:
    """Whether a function's name ends there or begins behind it: log r, 0 log 0."""
    if not 0 < end < len(tokens) - 1 or tokens[end].kind != "space":
        return False
    signs = {*OPERATORS, *RELATIONS}
    follows = tokens[end + 1].text in signs and is_spaced(tokens, end + 1)
    if follows or tokens[end - 1].text in signs:
        return False
    return _named(tokens[:end]) or tokens[end + 1].text in FUNCTIONS


def _named(tokens: list[Token]) -> bool:
    """Whether a function's name ends here, with its index: what follows keeps its distance."""
    i = len(tokens) - 1
    while i > 0 and not tokens[i].is_word:
        if tokens[i].kind not in ("raised", "script", "name", "number"):
            return False
        i -= 1
    return i >= 0 and tokens[i].text in FUNCTIONS


def _script(tokens: list[Token]) -> str:
    """An index or exponent, without its braces; two letters are two indices."""
    if tokens and tokens[0].text == "{":
        return _latex(tokens[1:-1])
    if [len(token.text) for token in tokens] == [2] and tokens[0].kind == "name":
        return tokens[0].text
    return _latex(tokens)


def _atom(token: Token) -> str:
    if token.kind == "space":
        return " "
    if token.kind == "raised":
        return f"^{{{token.text.translate(SUPERSCRIPTS)}}}"
    if token.kind == "prime":
        return "^{*}" if token.text == "*" else PRIME
    if token.is_word or (token.kind == "number" and "e" in token.text):
        return rf"\text{{{token.text}}}"
    if token.kind == "name" and len(token.text) > 1:
        return f"{token.text[0]}_{{{token.text[1:]}}}"
    return {"Σ": r"\sum ", "Π": r"\prod ", "{": r"\{", "}": r"\}"}.get(token.text, token.text)
