"""What a run is pointed at: a file, a folder, a module, an entry point, or rlcheck itself."""

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from rlcheck import __version__
from rlcheck.catalogue import FUNCTIONS, Function
from rlcheck.grading.calls import Graded, InProcess, Transport
from rlcheck.grading.interpreter import HERE, interpreter
from rlcheck.grading.sandbox import TIERS, TierUnavailable, obstacle
from rlcheck.grading.submission import CALL_SECONDS, CannotLoad, Worker
from rlcheck.grading.wire import parameters, printable
from rlcheck.subjects import Subject, subject

ENTRY_POINTS = "rlcheck.implementations"
REFERENCE = "rlcheck"
TWINS = "rlcheck.torch"  # its twin, which the laws of gradients judge by default


@dataclass(frozen=True)
class Resolution:
    """Whether one function can be graded; `message` says why not."""

    status: Literal["provided", "missing", "unloadable"]
    message: str = ""


@dataclass
class Implementation:
    """A loaded target and what it provides."""

    target: str
    location: str
    version: str
    isolation: str  # "in-process", or a tier of `sandbox`
    transport: Transport
    resolutions: dict[str, Resolution]
    suspect: bool = False  # it is in a process of its own, and may have something to gain

    def graded(self, name: str) -> Graded:
        """The function under test, for a law."""
        return Graded(name, self.transport)

    def start_afresh(self) -> None:
        """End the process that holds a submission; the next call starts another one."""
        if isinstance(self.transport, Worker):
            self.transport.close()

    @property
    def provides(self) -> tuple[str, ...]:
        return tuple(n for n, r in self.resolutions.items() if r.status != "missing")


def choose(option: str | None, start: Path) -> str:
    """The target that a run is pointed at: the option, RLCHECK_IMPL, pyproject.toml, rlcheck.

    The pyproject.toml is the nearest one at or above `start` with a table [tool.rlcheck]; a path
    in it is relative to it.
    """
    return option or os.environ.get("RLCHECK_IMPL") or _from_pyproject(start) or REFERENCE


def _from_pyproject(start: Path) -> str | None:
    folder, table = configured(start)
    impl: str | None = table.get("impl")
    return str(folder / impl) if impl and (folder / impl).exists() else impl


def configured(start: Path) -> tuple[Path, dict[str, Any]]:
    """The table [tool.rlcheck] of the nearest pyproject.toml that has one, and its folder.

    Raises:
        CannotLoad: a pyproject.toml on the way is no TOML.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            try:
                tables = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise CannotLoad(f"{path} is no TOML: {error}") from None
            if "rlcheck" in tables:
                return folder, tables["rlcheck"]
    return start, {}


@contextlib.contextmanager
def load(
    target: str,
    functions: tuple[Function, ...] = tuple(FUNCTIONS.values()),
    *,
    isolate: str | None = None,
    call_seconds: float = CALL_SECONDS,
    tensors: bool = False,
    alone: bool = False,
    python: str | None = None,
) -> Iterator[Implementation]:
    """Load a target for as long as the context lasts.

    A path is loaded in a worker process, in the tier `isolate` or the strongest that can be had;
    a module, an entry point or a library that has an adapter in this process, unless `isolate`
    names a tier or "strongest", or `python` another interpreter.
    With `tensors`, its arguments arrive as tensors; where files are hidden, a file that is `alone`
    does not see what lies beside it.

    Raises:
        CannotLoad: with one line that says what is wrong.
        TierUnavailable: the text says why the tier cannot be had.
        UnfitInterpreter: the text says why `python` cannot hold a worker.
    """
    names = tuple(function.name for function in functions)
    library = subject(target)
    path = library.path if library else path_of(target)
    if not isolate and not python and (library or path is None):
        if library is None:
            yield _in_process(target, functions, tensors)
        else:
            yield _of_subject(library, functions, tensors)
        return
    kind, place = ("module", target) if path is None else ("path", str(path))
    tier = _tier("process" if library and not isolate else isolate, path)
    with Worker(
        kind,
        place,
        names,
        call_seconds=call_seconds,
        tensors=tensors,
        tier=tier,
        alone=alone or library is not None,  # an adapter may have the name of its library
        python=interpreter(python) if python else HERE,
    ) as worker:
        loaded = _from_worker(target, place, worker, functions, tier)
        loaded.suspect = library is None
        yield loaded


def path_of(target: str) -> Path | None:
    """The path that a target is meant as, which can be loaded; None for a module.

    Raises:
        CannotLoad: it is meant as a path, and cannot be loaded.
    """
    try:
        path = _as_path(target)
        return None if path is None else _checked(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotLoad(f"it cannot be opened: {reason}") from None


def _tier(isolate: str | None, path: Path | None) -> str:
    """The tier that is asked for, or the strongest in which the target can be read."""
    if isolate in (None, "strongest"):
        return next(tier for tier in TIERS if obstacle(tier, path) is None)
    if reason := obstacle(isolate, path):
        raise TierUnavailable(f"{isolate}: {reason}")
    return isolate


def _as_path(target: str) -> Path | None:
    """The target as a path, where it is meant as one."""
    looks_like_one = target.endswith(".py") or os.sep in target or target.startswith(".")
    if looks_like_one or Path(target).is_file():
        return Path(target)
    if Path(target).is_dir() and not _is_importable(target):
        return Path(target)
    return None


def _is_importable(target: str) -> bool:
    if target in entry_points(group=ENTRY_POINTS).names:
        return True
    try:
        return importlib.util.find_spec(target) is not None
    except (ImportError, ValueError):
        return False


def _checked(path: Path) -> Path:
    if not path.exists():
        raise CannotLoad("there is no such file")
    if not (path.is_file() or path.is_dir()):
        raise CannotLoad("it is neither a file nor a folder")
    if path.is_dir() and not (path / "__init__.py").is_file():
        raise CannotLoad("it is a folder without __init__.py; name the file to grade")
    if path.is_file() and path.suffix != ".py":
        raise CannotLoad("it is no Python file; its name must end in .py")
    return path.resolve()


def _from_worker(
    target: str, location: str, worker: Worker, functions: tuple[Function, ...], tier: str
) -> Implementation:
    provided, public = worker.greeting.provided, worker.greeting.public
    return Implementation(
        target=target,
        location=location,
        version=printable(worker.greeting.version.partition("\n")[0]),
        isolation=tier,
        transport=worker,
        resolutions={
            f.name: _resolve(f, provided[f.name], public)
            if f.name in provided
            else _missing(f.name, public)
            for f in functions
        },
    )


def _in_process(target: str, functions: tuple[Function, ...], tensors: bool) -> Implementation:
    module, own = _import(target), target in (REFERENCE, TWINS)
    found = {f.name: getattr(module, f.name) for f in functions if hasattr(module, f.name)}
    return Implementation(
        target=target,
        location=str(getattr(module, "__file__", None) or target),
        version=__version__ if own else str(getattr(module, "__version__", "")),
        isolation="in-process",
        transport=InProcess(found, loud=own, tensors=tensors),
        resolutions=_resolutions(found, functions, dir(module)),
    )


def _of_subject(library: Subject, functions: tuple[Function, ...], tensors: bool) -> Implementation:
    """A library's adapter in this process."""
    if library.missing:
        lacks = ", ".join(library.missing)
        raise CannotLoad(f"{library.title} is not installed here ({lacks}): {library.install}")
    loaded = _in_process(library.module, functions, tensors)
    loaded.target = library.name
    return loaded


def implementation_of(
    functions: Mapping[str, Callable[..., Any]], target: str, *, tensors: bool = False
) -> Implementation:
    """Functions of this very process, by the contract's names, as an implementation."""
    asked = tuple(FUNCTIONS[name] for name in functions)
    return Implementation(
        target=target,
        location=target,
        version="",
        isolation="in-process",
        transport=InProcess(dict(functions), tensors=tensors),
        resolutions=_resolutions(functions, asked, []),
    )


def _resolutions(
    found: Mapping[str, Callable[..., Any]], asked: Iterable[Function], names: Iterable[str]
) -> dict[str, Resolution]:
    public = [name for name in names if not name.startswith("_")]
    return {
        f.name: _resolve(f, parameters(found[f.name]), public)
        if f.name in found
        else _missing(f.name, public)
        for f in asked
    }


def _import(target: str) -> Any:
    for entry in entry_points(group=ENTRY_POINTS, name=target):
        return entry.load()
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name and (target == error.name or target.startswith(error.name + ".")):
            raise CannotLoad("there is no such file, module or entry point") from None
        raise CannotLoad(f"ModuleNotFoundError: {error}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too
        raise CannotLoad(f"{type(error).__name__}: {printable(str(error))}") from None


def _missing(name: str, public: list[str]) -> Resolution:
    others = [other for other in public if other not in FUNCTIONS]
    near = get_close_matches(name, others, n=1, cutoff=0.8)
    return Resolution("missing", f"it has {near[0]}; was that meant?" if near else "")


def _resolve(function: Function, described: Any, public: list[str]) -> Resolution:
    if isinstance(described, str):
        return Resolution("unloadable", described)
    if described is None:
        return Resolution("provided")
    complaint = signature_complaint(function, described)
    return Resolution("unloadable", complaint[:500]) if complaint else Resolution("provided")


def signature_complaint(function: Function, described: list[Any]) -> str:
    """Why the contract's calls do not fit the parameters (name, kind, has default); or ""."""
    contract = inspect.signature(function.reference())
    try:
        offered = inspect.Signature(
            [
                inspect.Parameter(
                    str(name),
                    inspect._ParameterKind(kind),
                    default=None if has_default else inspect.Parameter.empty,
                )
                for name, kind, has_default in described
            ]
        )
    except (ValueError, TypeError):
        return "has a signature that cannot be read"
    required = [p for p in contract.parameters.values() if p.default is inspect.Parameter.empty]
    try:
        for wanted in (list(contract.parameters.values()), required):
            by_position = [p.name for p in wanted if p.kind is p.POSITIONAL_OR_KEYWORD]
            by_name = {p.name: p.name for p in wanted if p.kind is p.KEYWORD_ONLY}
            bound = offered.bind(*by_position, **by_name)
            if any(isinstance(v, str) and k != v for k, v in bound.arguments.items()):
                raise TypeError
            offered.bind(**{p.name: p.name for p in wanted})
    except TypeError:
        takes = str(offered).replace("=None", "=…")
        called = inspect.Signature(bare_parameters(function))
        return f"takes {takes}; the contract calls it as {called}"
    return ""


def bare_parameters(function: Function) -> list[inspect.Parameter]:
    """The parameters of a function of the contract, without annotations."""
    parameters = inspect.signature(function.reference()).parameters.values()
    return [p.replace(annotation=p.empty) for p in parameters]
