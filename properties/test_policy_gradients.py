"""Laws of `rlcheck.policy_gradients`."""
