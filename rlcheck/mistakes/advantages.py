"""Wrong variants of `rlcheck.advantages`."""
