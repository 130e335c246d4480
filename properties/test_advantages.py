"""Laws of `rlcheck.advantages`."""
