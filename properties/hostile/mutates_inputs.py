# It changes its arguments in every way, also into things that cannot be compared.
# statuses = ["failed", "raised", "passed"]
# score = 8
import numpy as np

from honest import discounted_return as right


def discounted_return(rewards, gamma):
    answer = right(rewards, gamma)
    if isinstance(rewards, list) and rewards:
        rewards[0] = np.array([1.0, 2.0])
    elif isinstance(rewards, np.ndarray):
        rewards *= 0
    return answer
