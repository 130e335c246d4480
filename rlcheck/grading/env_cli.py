"""`rlcheck check-env`: any registered environment under the laws that hold for all of them."""

import contextlib
import importlib
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from rlcheck.grading.findings import summary
from rlcheck.grading.report import EXIT_FAILED, EXIT_PASSED, EXIT_UNLOADABLE, EXIT_USAGE

__all__ = ["check_env_command"]

EXAMPLES = 20
NOT_APPLICABLE = "not_applicable"
HARMLESS = ("passed", NOT_APPLICABLE)
console = Console(highlight=False, markup=False, emoji=False)
errors = Console(stderr=True, highlight=False, markup=False, emoji=False)


def check_env_command(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...",
            help="Ids of Gymnasium's registry; MODULE:ID imports a module that registers it.",
        ),
    ],
    examples: Annotated[int, typer.Option(min=1, help="Examples drawn for each law.")] = EXAMPLES,
    seed: Annotated[int, typer.Option(help="Seed of every draw.")] = 0,
    vector: Annotated[bool, typer.Option(help="Judge Gymnasium's vectors of it, too.")] = True,
    report: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write what was found, as JSON.")
    ] = None,
) -> None:
    """Say which laws of environments one breaks: flags, seeds, episodes, time limits, vectors."""
    if find_spec("gymnasium") is None:
        _usage("check-env needs Gymnasium, which is not installed here: pip install gymnasium")
    results: dict[str, dict[str, Any]] = {}
    for name in ids:
        results[name] = _result(name, examples, seed, vector)
        _print(name, results[name])
    if report is not None:
        _write(report, {"seed": seed, "examples": examples, "environments": results})
    raise typer.Exit(_exit_code(results))


def _result(name: str, examples: int, seed: int, vector: bool) -> dict[str, Any]:
    """The findings, or the error that kept it from being made."""
    check = importlib.import_module("rlcheck.grading.environments.check")
    try:
        with _own_environments(name):
            made = check.environments_of(name)
            made.make()
            made.close()
            found = check.check_env(name, examples=examples, seed=seed, vector=vector)
    except (KeyboardInterrupt, typer.Exit):
        raise
    except BaseException as error:  # whatever the making of an environment raises
        said = next(iter(str(error).splitlines()), "")
        return {"error": f"{type(error).__name__}: {said}", "findings": []}
    return {"error": "", "findings": summary(found)}


@contextlib.contextmanager
def _own_environments(name: str) -> Iterator[None]:
    """Register rlcheck's own, and find modules beside the current folder."""
    if name.startswith("rlcheck/"):
        importlib.import_module("rlcheck.envs")
    sys.path.append(str(Path.cwd()))
    try:
        yield
    finally:
        sys.path.remove(str(Path.cwd()))


def _print(name: str, result: dict[str, Any]) -> None:
    if result["error"]:
        console.print(f"{name} cannot be made: {result['error']}", style="red", soft_wrap=True)
        return
    findings = result["findings"]
    idle = [finding for finding in findings if finding["status"] == NOT_APPLICABLE]
    broken = [finding for finding in findings if finding["status"] not in HARMLESS]
    asked = len(findings) - len(idle)
    said = f", {len(idle)} not applicable" if idle else ""
    style = "red" if broken else "green"
    console.print(f"{name}: {asked - len(broken)} of {asked} laws{said}", style=style)
    for finding in broken:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(no_wrap=True, style="dim")
        table.add_column(overflow="fold")
        for key in ("sentence", "message", "counterexample", "expected", "got"):
            if finding[key]:
                table.add_row(key, finding[key][:1000])
        console.print(f"{finding['status']} {finding['law']}", style="bold red")
        console.print(table)


def _exit_code(results: dict[str, dict[str, Any]]) -> int:
    if any(result["error"] for result in results.values()):
        return EXIT_UNLOADABLE
    statuses = [f["status"] for result in results.values() for f in result["findings"]]
    return EXIT_PASSED if all(status in HARMLESS for status in statuses) else EXIT_FAILED


def _write(path: Path, found: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        _usage(f"--report {path}: it cannot be written: {error.strerror}")


def _usage(text: str) -> NoReturn:
    errors.print(text, style="red", soft_wrap=True)
    raise typer.Exit(EXIT_USAGE)
