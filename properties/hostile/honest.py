import math


def discounted_return(rewards, gamma):
    """A right answer, for submissions that are hostile in another way."""
    numbers = isinstance(rewards, (str, bytes, dict)) or rewards is None
    if numbers or isinstance(gamma, str) or not 0 <= gamma <= 1:
        raise TypeError("numbers are due")
    if any(isinstance(reward, str) or hasattr(reward, "__len__") for reward in rewards):
        raise ValueError("a vector of numbers is due")
    values = [float(reward) for reward in rewards]
    if not all(map(math.isfinite, values)):
        raise ValueError("finite numbers are due")
    # Horner's rule would overflow where the sum does not.
    return float(sum(gamma**t * reward for t, reward in enumerate(values)))
