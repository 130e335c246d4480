"""Wrong gradients of `rlcheck.torch.groups`."""
