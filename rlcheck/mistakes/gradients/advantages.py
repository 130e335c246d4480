"""Wrong gradients of `rlcheck.torch.advantages`."""
