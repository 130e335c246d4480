"""Laws that hold for any Gymnasium environment, and `check_env`, which runs them."""

from rlcheck.grading.environments.check import Environments, check_env
from rlcheck.grading.findings import Finding

__all__ = ["Environments", "Finding", "check_env"]
