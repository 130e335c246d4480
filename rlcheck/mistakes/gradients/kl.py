"""Wrong gradients of `rlcheck.torch.kl`."""
