"""Laws of the gradients of `rlcheck.torch.policy_gradients`."""
