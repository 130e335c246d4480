"""The texts of a notebook in one language, as templates in a TOML file."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, meta

__all__ = ["Catalog"]

TEMPLATES = Environment(undefined=StrictUndefined, autoescape=False)


class Catalog:
    """Texts by dotted key; `{{ name }}` in a text is filled in when it is asked for.

    Args:
        path: a TOML file of tables and strings, nested as the keys are.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a value of it is not a string.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
        self.templates = dict(_flattened(entries, path))

    def text(self, key: str, /, **values: Any) -> str:
        """The text of a key, with its placeholders filled in.

        Raises:
            KeyError: the catalog has no such key.
            jinja2.UndefinedError: a placeholder got no value.
        """
        if key not in self.templates:
            raise KeyError(f"{self.path} has no text {key!r}")
        return TEMPLATES.from_string(self.templates[key]).render(values).strip()

    def placeholders(self) -> dict[str, set[str]]:
        """The names that each text asks for."""
        return {
            key: meta.find_undeclared_variables(TEMPLATES.parse(template))
            for key, template in self.templates.items()
        }


def _flattened(
    entries: Mapping[str, Any], path: Path, prefix: str = ""
) -> Iterator[tuple[str, str]]:
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, path, f"{prefix}{name}.")
        elif isinstance(value, str):
            yield f"{prefix}{name}", value
        else:
            raise ValueError(f"{path}: {prefix}{name} is {value!r}; it must be a string")
