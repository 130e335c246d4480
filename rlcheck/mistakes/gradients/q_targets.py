"""Wrong gradients of `rlcheck.torch.q_targets`."""
