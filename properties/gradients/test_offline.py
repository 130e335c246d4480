"""Laws of the gradients of `rlcheck.torch.offline`."""

from typing import Any

from hypothesis import example
from hypothesis import strategies as st

import numpy as np
from rlcheck.grading.compare import assert_close
from rlcheck.grading.laws import law

from ..strategies import REALS, steps
