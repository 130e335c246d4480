"""Reports in the formats that others read: `render(kind, report)`.

One module a format, each with a function `render` from the canonical report to bytes.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from rlcheck.grading.report import Report

__all__ = ["KINDS", "LANGUAGES", "render"]

KINDS = ("json", "junit", "gradescope", "markdown", "html", "csv")
LANGUAGES = ("en", "ru")


def render(kind: str, report: Report, *, lang: str = "en") -> bytes:
    """The report in one of the KINDS; `lang` is the language of a page's own labels.

    Raises:
        ValueError: there is no such kind or language.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of report; there are {', '.join(KINDS)}")
    if lang not in LANGUAGES:
        raise ValueError(f"{lang!r} is no language of reports; there are {', '.join(LANGUAGES)}")
    write: Callable[..., bytes] = import_module(f"rlcheck.grading.render.{kind}").render
    return write(_readable(report), **({"lang": lang} if kind == "html" else {}))


def _readable(report: Report) -> Report:
    """The report without characters that XML, UTF-8 or a terminal cannot hold."""
    return msgspec.convert(_escaped(msgspec.to_builtins(report)), Report)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in value)
    if isinstance(value, list):
        return [_escaped(entry) for entry in value]
    if isinstance(value, dict):
        return {_escaped(key): _escaped(entry) for key, entry in value.items()}
    return value


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
