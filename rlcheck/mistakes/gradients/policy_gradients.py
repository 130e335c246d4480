"""Wrong gradients of `rlcheck.torch.policy_gradients`."""
