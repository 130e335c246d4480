"""Mistakes in gradients whose values are right, as twins of `rlcheck.torch`."""
