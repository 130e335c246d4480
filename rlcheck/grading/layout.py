"""What a submission that is shut off can still see of the file system, as a list of mounts.

Nothing is seen unless it is listed: the system's libraries, Python and its packages, and the
submission's own folder. What rlcheck consists of is covered where it lies inside of these.
"""

import functools
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["INSIDE", "layout", "readable_by_all", "seen"]

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
INSIDE = Path("/run/rlcheck")  # where a worker that is shut off finds its own code
OWN_CODE = ("worker.py", "wire.py", "tensors.py", "seccomp.py")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
# Of /etc what programs need to run, and no secrets.
SETTINGS = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf"),
    *("passwd", "group", "alternatives", "ssl/certs", "mime.types"),
)
# Of a checkout, what shows the reference, the laws or the mistakes.
OF_A_CHECKOUT = (".git", "build", "dist", "docs", "experiments", "notebooks", "properties")
# Folders of which a submission that lies right inside sees the Python files alone.
CROWDED = ("/", "/tmp", "/var/tmp", "/dev/shm", "/home", "/root", "/mnt", "/srv", "/usr", "/opt")


def layout(
    kind: str, target: str, *, alone: bool = False, folders: Iterable[str] = ()
) -> list[list[str]]:
    """(how, path, source) in the order of mounting; see `namespaces.enter`.

    Args:
        kind: "path", "module" or "probe".
        target: the path, or the dotted name.
        alone: whether a file must not see what lies beside it.
        folders: what another interpreter reads.
    """
    shown = dict(_of_the_system()) | dict(_readable(folders))
    if kind == "path":
        shown |= {str(path): str(path) for path in seen(Path(target), alone=alone)}
    if kind == "module":
        shown |= {str(path): str(path) for path in _of_a_module(target)}
    mounts = [["bind", path, os.path.realpath(source)] for path, source in shown.items()]
    hidden = {str(path) for path in (*_secrets(), *_copies(shown))} - shown.keys()
    mounts += [["hide", path, ""] for path in hidden]
    mounts.sort(key=lambda mount: (len(Path(mount[1]).parts), mount[1]))
    return [*_links(), *_needed(mounts)]


def _links() -> Iterator[list[str]]:
    for path in SYSTEM:
        if os.path.islink(path):
            yield ["link", path, os.readlink(path)]


def _needed(mounts: list[list[str]]) -> Iterator[list[str]]:
    """Without what an outer mount shows already, and covers of what is not shown."""
    seen: dict[Path, list[str]] = {}
    for mount in mounts:
        how, path, source = mount
        outer = next((seen[p] for p in Path(path).parents if p in seen), ["hide", "/", ""])
        shows = outer[0] == "bind" and str(Path(outer[2], Path(path).relative_to(outer[1])))
        if shows == source if how == "bind" else shows is False:
            continue
        seen[Path(path)] = mount
        yield mount


@functools.cache
def _of_the_system() -> tuple[tuple[str, str], ...]:
    paths = [path for path in SYSTEM if not os.path.islink(path)]
    paths += [f"/etc/{name}" for name in SETTINGS]
    paths += [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    paths += [str(Path(os.path.realpath(sys.executable)).parent)]
    paths += [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
        paths += os.environ.get(name, "").split(os.pathsep)
    paths += map(str, _editable())
    own = ((str(INSIDE / name), str(HERE / name)) for name in OWN_CODE)
    return (*_readable(paths), *own)


def _readable(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Where each of these is to be seen, under its name and where links lead."""
    for path in paths:
        if os.path.isabs(path) and os.path.exists(path) and not _is_ours(path):
            yield os.path.normpath(path), path
            yield os.path.realpath(path), path


def _is_ours(path: str) -> bool:
    """Whether this is the folder of a checkout, or the root of everything."""
    return path == "/" or (Path(path).resolve() == PACKAGE.parent and bool(_checkout()))


def _editable() -> Iterator[Path]:
    """Projects that are installed in place (PEP 610)."""
    for distribution in distributions():
        if distribution.name == PACKAGE.name:
            continue
        try:
            record = json.loads(distribution.read_text("direct_url.json") or "{}")
            if record.get("dir_info", {}).get("editable"):
                yield Path(unquote(urlsplit(record["url"]).path))
        except (OSError, ValueError, LookupError):
            continue


def _checkout() -> list[Path]:
    """What shows rlcheck's insides beside its package, where that lies in a checkout."""
    root = PACKAGE.parent
    if not (root / "pyproject.toml").is_file():
        return []
    return [root / name for name in OF_A_CHECKOUT if (root / name).exists()]


def _secrets() -> list[Path]:
    return [PACKAGE, *_checkout()]


def _copies(shown: Iterable[str]) -> Iterator[Path]:
    """Other installations of rlcheck in what is shown."""
    for folder in shown:
        if Path(folder, PACKAGE.name, "catalogue.py").exists():
            yield from (p for n in (PACKAGE.name, "properties") if (p := Path(folder, n)).exists())


def seen(path: Path, *, alone: bool) -> list[Path]:
    """A package folder, or a file with what lies beside it; of some folders its modules alone."""
    folder, home = path.parent, Path.home()
    if path.is_dir() or alone or folder in _secrets():
        return [path]
    crowded = str(folder) in CROWDED or folder == home or folder in home.parents
    if crowded or not _others_may(0o005, folder):
        return [path, *folder.glob("*.py")]
    return [folder]


def _of_a_module(name: str) -> list[Path]:
    spec = importlib.util.find_spec(name.partition(".")[0])
    if spec is None:
        return []
    places = list(spec.submodule_search_locations or [])
    places += [spec.origin] if spec.origin and not places else []
    return [Path(place).resolve() for place in places if os.path.exists(place)]


def readable_by_all(path: Path) -> bool:
    """Whether every user could read a file, or enter a package, if they got as far as it."""
    return _others_may(0o005 if path.is_dir() else 0o004, path)


def _others_may(bits: int, path: Path) -> bool:
    return path.stat().st_mode & bits == bits
