"""One fixture for each public function, named like it: the implementation that is judged."""

from importlib.util import find_spec
from pathlib import Path

from rlcheck.catalogue import FUNCTIONS
from rlcheck.grading.plugin import laws_of_environments

from .fixtures import judged

globals().update({f"{name}_fixture": judged(name, "rlcheck_implementation") for name in FUNCTIONS})

if find_spec("gymnasium") is None:
    collect_ignore = laws_of_environments(Path(__file__).parent)
