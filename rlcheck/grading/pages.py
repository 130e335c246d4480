"""Pages of the documentation that are written from what was found."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["markdown_page"]


def markdown_page(template: str, **values: Any) -> str:
    """A page of Markdown from a template of `render/`, where `short(n)` cuts a text after n."""
    environment = Environment(
        loader=PackageLoader("rlcheck.grading.render", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["short"] = _short
    return environment.get_template(template).render(**values)


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + " …"
