"""The catalogue of mistakes that people really make, one module beside each reference module.

A mistake is a plausible wrong implementation of one function. The kill matrix proves the laws
with it, and a failing submission is compared with it to say what it behaves like.
"""

from rlcheck.mistakes.registry import Mistake, mistake, mistakes_of

__all__ = ["Mistake", "mistake", "mistakes_of"]
