"""What people get wrong in returns and temporal differences."""

import numpy as np

from rlcheck import returns as reference
from rlcheck.mistakes.registry import mistake


@mistake("semi_markov_return", "counts decisions, not elapsed steps", report="AVSLab/bsk_rl#248")
def discounts_per_decision(rewards, durations, gamma):
    return reference.semi_markov_return(rewards, np.ones(len(rewards)), gamma)
