"""Twins of rlcheck's functions for trainers: differentiable, on any device, under torch.compile."""
