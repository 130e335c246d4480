# Its first answer is right, and no other.
# statuses = ["failed"]
# score = 0
from honest import discounted_return as right

ASKED = []


def discounted_return(rewards, gamma):
    ASKED.append(1)
    return right(rewards, gamma) if len(ASKED) == 1 else 12345.0
