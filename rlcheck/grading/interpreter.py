"""Another Python in which a target runs, because its libraries do not go together with these."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import msgspec

__all__ = ["HERE", "Interpreter", "UnfitInterpreter", "interpreter"]

NEEDED = ("numpy", "msgspec")
OLDEST = (3, 11)
QUESTION = """
import importlib.util, json, os, sys
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "lacks": [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None],
    "folders": [
        *(sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix),
        os.path.dirname(os.path.realpath(sys.executable)),
        *(p for p in sys.path if p.endswith(("site-packages", "dist-packages"))),
    ],
}))
"""
ANSWER_SECONDS = 60.0


class UnfitInterpreter(ValueError):
    """An interpreter that cannot hold a worker; the text says why."""


@dataclass(frozen=True)
class Interpreter:
    """A Python: its program, and the folders that it reads."""

    program: str
    folders: tuple[str, ...] = ()  # none to say: what this one reads is known


HERE = Interpreter(sys.executable)


@cache
def interpreter(program: str) -> Interpreter:
    """A Python that a worker can run in.

    Args:
        program: a path, or a name that is looked up in PATH.

    Raises:
        UnfitInterpreter: it cannot be run, is older than 3.11, or lacks numpy or msgspec.
    """
    found = shutil.which(program)
    if found is None:
        raise UnfitInterpreter(f"{program}: there is no such program")
    found = os.path.abspath(found)  # links stay: a virtual environment is known by them
    told = _told(found)
    if tuple(told.version) < OLDEST:
        version = ".".join(map(str, told.version))
        raise UnfitInterpreter(f"{program} is Python {version}; 3.11 or newer is needed")
    if told.lacks:
        lacks = " ".join(told.lacks)
        raise UnfitInterpreter(f"{program} lacks {lacks}: {program} -m pip install {lacks}")
    return Interpreter(found, tuple(dict.fromkeys(told.folders)))


class _Told(msgspec.Struct):
    version: list[int]
    lacks: list[str]
    folders: list[str]


def _told(program: str) -> _Told:
    try:
        said = subprocess.run(
            [program, "-c", QUESTION, *NEEDED],
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            check=True,
            cwd="/",
        )
        return msgspec.json.decode(said.stdout, type=_Told)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        raise UnfitInterpreter(f"{program} is no Python that answers") from None
