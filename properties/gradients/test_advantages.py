"""Laws of the gradients of `rlcheck.torch.advantages`."""
