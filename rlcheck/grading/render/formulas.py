"""The formulas in a law's text, set as MathML; the prose around them as HTML.

Laws are written as prose with formulas in Unicode: `δ_t = r_t + γ V_{t+1} − V_t, in rational
arithmetic.` A word of two or more letters is prose unless it names a function, carries an index,
or stands in the brackets of a call; single letters, Greek and signs are formulas. What is seen is
what was written, without `^ _ { }`; but Σ and Π become the signs of sum and product, ' a prime,
and √(…) a root.
"""

import html
import re
from collections.abc import Iterator

from rlcheck.grading.render.mathml import as_mathml
from rlcheck.grading.render.tokens import (
    CLOSING,
    FUNCTIONS,
    OPENING,
    OPERATORS,
    RELATIONS,
    Token,
    closing,
    script_end,
    tokenize,
)

__all__ = ["as_html"]

ARTICLES = ("a", "A", "I")
PUNCTUATION = ",.;:"
LONGEST = 24  # characters; a longer formula may be broken at its signs
TIED = re.compile(r"(<math>(?:(?!<math>).)*</math>[^\s<\w(\[]+)")  # a line must not break there


def as_html(text: str) -> str:
    """The text as HTML: formulas as MathML, code between backquotes, the rest escaped."""
    tokens = tokenize(text)
    _mark(tokens)
    parts = []
    for is_formula, run in _runs(tokens):
        if is_formula:
            parts += [as_mathml(piece) for piece in _pieces(run)]
        else:
            parts += [_escaped(token) for token in run]
    return TIED.sub(r'<span class="tied">\1</span>', "".join(parts))


def _escaped(token: Token) -> str:
    if token.kind == "code":
        return f"<code>{html.escape(token.text[1:-1], quote=False)}</code>"
    return html.escape(token.text, quote=False)


def _mark(tokens: list[Token]) -> None:
    """Decide of each token whether it belongs to a formula."""
    for i, token in enumerate(tokens):
        if token.formula is not None:
            continue
        if token.kind in ("symbol", "raised"):
            token.formula = True
        elif token.kind in ("code", "prose"):
            token.formula = False
        elif token.kind == "name":
            token.formula = _is_formula(tokens, i)
        elif token.kind == "script":
            for inner in tokens[i : script_end(tokens, i)]:
                inner.formula = True
        elif token.kind == "prime":
            token.formula = i > 0 and (tokens[i - 1].formula or tokens[i - 1].text in CLOSING)
        if token.formula and i + 1 < len(tokens) and tokens[i + 1].text in ("(", "["):
            for inner in tokens[i + 1 : closing(tokens, i + 1) + 1]:
                inner.formula = True


def _is_formula(tokens: list[Token], i: int) -> bool:
    """Whether a name belongs to a formula; "a" and "A" are articles before a word."""
    token, after = tokens[i], _at(tokens, i + 1)
    if token.is_word and (after.kind in ("script", "raised") or after.text in ("(", "[")):
        return True
    spaced = after.kind == "space"
    later = _at(tokens, i + 1 + spaced)
    if token.text in ARTICLES and not any(t.formula for t in tokens[max(0, i - 2) : i]):
        is_word = later.is_word and not _is_formula(tokens, i + 1 + spaced)
        return not (spaced and (is_word or later.kind in ("prose", "code")))
    if not token.is_word:
        return True
    if token.text not in FUNCTIONS:
        return False
    operand = later.kind in ("symbol", "number") or (later.kind == "name" and not later.is_word)
    beside_sign = later.text in {*OPERATORS, *RELATIONS, *OPENING}
    is_last = token.text[0].isupper() and i > 1 and tokens[i - 2].text in {*OPERATORS, *RELATIONS}
    return operand or beside_sign or is_last or later.text in FUNCTIONS


def _at(tokens: list[Token], i: int) -> Token:
    return tokens[i] if i < len(tokens) else Token("space", "")


def _runs(tokens: list[Token]) -> Iterator[tuple[bool, list[Token]]]:
    """The text as runs, each a formula or not."""
    run: list[Token] = []
    depth = 0
    for i, token in enumerate(tokens):
        depth = max(0, depth + (token.text in OPENING) - (token.text in CLOSING))
        stops = token.text in PUNCTUATION and depth == 0 and _at(tokens, i + 1).kind == "space"
        if token.formula is False or (stops and not token.formula):
            yield from _trimmed(run)
            yield False, [token]
            run, depth = [], 0
        else:
            run.append(token)
    yield from _trimmed(run)


def _trimmed(run: list[Token]) -> Iterator[tuple[bool, list[Token]]]:
    """A run without what is prose at its ends: spaces, signs between operands, half brackets."""
    first, last = 0, len(run)
    while first < last and (_hangs(run[first]) or _is_half(run[first:last], 0)):
        if run[first].text == "−" and first + 1 < last and run[first + 1].kind != "space":
            break
        if run[first].text == "|" and any(token.text == "|" for token in run[first + 1 : last]):
            break
        first += 1
    while last > first and (_hangs(run[last - 1]) or _is_half(run[first:last], last - first - 1)):
        if run[last - 1].text == "|" and first < last - 1:
            break
        last -= 1
    if any(token.formula for token in run[first:last]):
        yield False, run[:first]
        yield True, run[first:last]
        yield False, run[last:]
    else:
        yield False, run


def _hangs(token: Token) -> bool:
    """Whether a token at the end of a run belongs to the prose."""
    if token.formula:
        return False
    signs = {*RELATIONS, *OPERATORS, *PUNCTUATION, "-"}
    return token.kind in ("space", "prime") or token.text in signs


def _is_half(run: list[Token], at: int) -> bool:
    """Whether the bracket at that place has no partner in the run."""
    text = run[at].text
    if text in OPENING:
        return run[closing(run, at)].text not in CLOSING
    depth = 0
    for token in reversed(run[: at + 1]):
        depth += (token.text in CLOSING) - (token.text in OPENING)
        if depth == 0:
            return False
    return text in CLOSING


def _pieces(run: list[Token]) -> Iterator[list[Token]]:
    """A long formula in pieces, so that lines can break beside its outermost signs."""
    if sum(len(token.text) for token in run) <= LONGEST:
        yield run
        return
    piece: list[Token] = []
    depth = bars = 0
    for i, token in enumerate(run):
        depth += (token.text in OPENING) - (token.text in CLOSING)
        bars += token.text == "|"
        spaced = 0 < i < len(run) - 1 and run[i - 1].kind == run[i + 1].kind == "space"
        if depth == 0 and bars % 2 == 0 and spaced and token.text in RELATIONS + "+−":
            yield piece
            yield [token]
            piece = []
        else:
            piece.append(token)
    yield piece
