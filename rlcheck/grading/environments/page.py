"""What known environments keep of the laws, as a page and as data.

`python -m rlcheck.grading.environments.page docs/environments.md` judges the environments that
`judged.toml` lists, and writes the page, and the same beside it as JSON.
"""

import argparse
import datetime
import tomllib
from importlib.metadata import version
from pathlib import Path

import msgspec

import rlcheck.envs  # noqa: F401  # registers its own
from rlcheck.grading.environments import laws, vector_laws
from rlcheck.grading.environments.check import check_env
from rlcheck.grading.findings import Finding, laws_in
from rlcheck.grading.pages import markdown_page
from rlcheck.subjects import Declared

__all__ = ["DeclaredHere", "Group", "Judged", "Known", "Page", "known", "page"]

EXAMPLES = 60
HOLDS = ("passed", "not_applicable")


class Group(msgspec.Struct, frozen=True):
    """Environments of one origin."""

    title: str
    environments: tuple[str, ...]


class DeclaredHere(Declared, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Laws that some environments are known to break for one reason."""

    environments: tuple[str, ...]


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The environments of the page, and what is declared of them."""

    group: tuple[Group, ...]
    declared: tuple[DeclaredHere, ...]

    def about(self, environment: str, law: str) -> DeclaredHere | None:
        """The entry that declares a law of an environment."""
        fitting = (e for e in self.declared if environment in e.environments and law in e.laws)
        return next(fitting, None)


class Judged(msgspec.Struct):
    """One environment: how many laws it keeps, and what it does not."""

    name: str
    group: str
    laws: int
    not_applicable: list[str]
    broken: list[Finding]

    @property
    def kept(self) -> int:
        """Laws that were put to the test and hold."""
        return self.laws - len(self.not_applicable) - len(self.broken)


class Page(msgspec.Struct):
    """All environments, with the settings of the run."""

    versions: dict[str, str]
    date: str
    examples: int
    seed: int
    environments: list[Judged]


def known() -> Known:
    """What `judged.toml` says."""
    text = Path(__file__).with_name("judged.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), type=Known)


def judge(name: str, group: str, examples: int, seed: int) -> Judged:
    """One environment under all laws."""
    findings = check_env(name, examples=examples, seed=seed)
    return Judged(
        name=name,
        group=group,
        laws=len(findings),
        not_applicable=[f.law for f in findings if f.status == "not_applicable"],
        broken=[f for f in findings if f.status not in HOLDS],
    )


def page(*, examples: int = EXAMPLES, seed: int = 0, date: str) -> Page:
    """Judge every environment of the list.

    Args:
        examples: drawn for each law; laws that make many environments take a part of them.
        seed: of every draw.
        date: of the run, for the page.
    """
    return Page(
        versions={name: version(name) for name in ("gymnasium", "numpy", "rlcheck")},
        date=date,
        examples=examples,
        seed=seed,
        environments=[
            judge(name, group.title, examples, seed)
            for group in known().group
            for name in group.environments
        ],
    )


def markdown(found: Page) -> str:
    """The page."""
    return markdown_page(
        "environments.md.j2",
        found=found,
        known=known(),
        laws=laws_in(laws),
        vector_laws=laws_in(vector_laws),
    )


def main() -> None:
    """Write the page and the data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    given = parser.parse_args()
    found = page(examples=given.examples, seed=given.seed, date=given.date)
    given.page.write_text(markdown(found), encoding="utf-8")
    data = msgspec.json.format(msgspec.json.encode(found), indent=2)
    given.page.with_suffix(".json").write_bytes(data + b"\n")


if __name__ == "__main__":
    main()
