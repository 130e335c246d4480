"""rlcheck: is the mathematics of your reinforcement learning for language models right?"""

from rlcheck.returns import semi_markov_return

__version__ = "0.1.0"

__all__ = ["semi_markov_return"]
