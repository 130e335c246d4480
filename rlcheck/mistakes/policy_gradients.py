"""Wrong variants of `rlcheck.policy_gradients`."""
