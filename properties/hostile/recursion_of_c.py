# It recurses until the stack of the process is used up.
# statuses = ["crashed", "raised"]
# score = 0
import sys

sys.setrecursionlimit(10**9)


class Deep:
    def __repr__(self):
        return repr([self])


def discounted_return(rewards, gamma):
    return repr(Deep())
