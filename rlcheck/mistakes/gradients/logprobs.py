"""Wrong gradients of `rlcheck.torch.logprobs`."""
