"""Wrong gradients of `rlcheck.torch.offline`."""
