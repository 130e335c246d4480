"""Laws of the gradients of `rlcheck.torch.q_targets`."""
