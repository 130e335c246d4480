"""Laws of replay buffers and of datasets of episodes, and `check_kind`, which runs them."""

from rlcheck.grading.buffers.check import check_kind

__all__ = ["check_kind"]
