"""What every page shares: its texts, its look, and a policy that lets nothing else run or load."""

import base64
import hashlib
import re
import tomllib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["breakable", "labels", "linked", "page"]

ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


def labels(lang: str) -> dict[str, str]:
    """The pages' own texts in one language."""
    return tomllib.loads(_resource(f"{lang}.toml"))


def page(template: str, *, lang: str, **values: Any) -> bytes:
    """A template filled in; what comes from submissions is escaped unless it is Markup."""
    environment = Environment(
        loader=PackageLoader("rlcheck.grading", "render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _resource("page.css"), _resource("page.js")
    html = environment.get_template(template).render(
        lang=lang,
        label=labels(lang),
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        breakable=breakable,
        **values,
    )
    return html.encode("utf-8")


def breakable(name: str) -> Markup:
    """A name or a path that may go on in the next line after each of its parts."""
    return Markup(re.sub(r"([_/\\.])(?=\w)", r"\1<wbr>", str(Markup.escape(name))))


def linked(reports: str) -> Markup:
    """Public reports, as owner/repository#number, as links."""
    link = r'<a href="https://github.com/\1/issues/\2">\1#\2</a>'
    return Markup(ISSUE.sub(link, str(Markup.escape(reports))))


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, and of scripts and styles only the page's own count."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _resource(name: str) -> str:
    return files("rlcheck.grading.render").joinpath(name).read_text(encoding="utf-8")
