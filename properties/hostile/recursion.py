# It calls itself without end.
# statuses = ["raised"]
# score = 0
import sys

sys.setrecursionlimit(10**4)

def discounted_return(rewards, gamma):
    return discounted_return(rewards, gamma)
