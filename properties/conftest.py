"""One fixture for each public function, named like it: the implementation that is judged."""

from rlcheck.catalogue import FUNCTIONS

from .fixtures import judged

globals().update({f"{name}_fixture": judged(name, "rlcheck_implementation") for name in FUNCTIONS})
