# Its answer is a generator without end.
# statuses = ["raised"]
# score = 0
import itertools

def discounted_return(rewards, gamma):
    return (0.0 for _ in itertools.count())
