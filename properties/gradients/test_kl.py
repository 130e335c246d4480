"""Laws of the gradients of `rlcheck.torch.kl`."""
