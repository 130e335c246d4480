"""The tokens of a law's text: words, names, numbers and signs."""

import re
from dataclasses import dataclass

__all__ = [
    "CLOSING",
    "FUNCTIONS",
    "OPENING",
    "OPERATORS",
    "RELATIONS",
    "Token",
    "closing",
    "is_spaced",
    "script_end",
    "tokenize",
]

FUNCTIONS = frozenset(
    {
        *("E", "KL", "Var", "argmax", "cosh", "exp", "log", "logsumexp", "max", "mean", "min"),
        *("sinh", "softmax", "std"),
    }
)
RELATIONS = "=≤≥<>≠→∈"
OPERATORS = "+−·×⊗/|‖"
OPENING, CLOSING = "([{", ")]}"

TOKEN = re.compile(
    r"""(?P<code>`[^`]*`)
    | (?P<prose>[\w.-]+/[\w.-]+\#\d+ | "[^"]*" | [A-Za-zα-ω]+(?:['’-][A-Za-z]+)+ | top_[kp])
    | (?P<number>\d+(?:\.\d+)?(?:e[-−+]?\d+)?)
    | (?P<name>[A-Za-z]{2,}(?:_[A-Za-z]{2,})+ | [A-Za-z]+\d*)
    | (?P<raised>[⁰¹²³⁴-⁹]+)
    | (?P<symbol>[Α-ωℓ∂∇∞½√])
    | (?P<prime>['′*])
    | (?P<script>[_^])
    | (?P<space>\s+)
    | (?P<sign>.)""",
    re.VERBOSE,
)


@dataclass
class Token:
    """A piece of a text: what kind it is, and whether it belongs to a formula."""

    kind: str
    text: str
    formula: bool | None = None  # None: as its neighbours

    @property
    def is_word(self) -> bool:
        return self.kind == "name" and re.fullmatch(r"[A-Za-z]\d*", self.text) is None


def tokenize(text: str) -> list[Token]:
    """The text in tokens; together they are the text."""
    return [Token(match.lastgroup or "", match[0]) for match in TOKEN.finditer(text)]


def closing(tokens: list[Token], start: int) -> int:
    """Where the bracket that opens at `start` closes; the last token where it does not."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        if depth == 0:
            return i
    return len(tokens) - 1


def script_end(tokens: list[Token], start: int) -> int:
    """The end of the index or exponent whose `_` or `^` stands at `start`."""
    end = start + 1
    if end < len(tokens) and tokens[end].text in OPENING:
        return closing(tokens, end) + 1
    if end < len(tokens) and tokens[end].text == "<":
        end += 1
    end += 1
    while end + 1 < len(tokens) and tokens[end].text == "," and tokens[end + 1].kind == "name":
        end += 2  # π_new,t
    return min(end, len(tokens))


def is_spaced(tokens: list[Token], at: int) -> bool:
    """Whether a sign stands between spaces: between operands, and not before or around one."""
    beside = tokens[max(0, at - 1) : at] + tokens[at + 1 : at + 2]
    return all(token.kind == "space" for token in beside)
