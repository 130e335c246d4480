"""Training code: small agents that are held against the exact optimum."""
