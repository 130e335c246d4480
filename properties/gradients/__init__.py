"""The laws of gradients, which judge implementations that answer with tensors."""
