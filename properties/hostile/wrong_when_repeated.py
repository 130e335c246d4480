# It is right, but never twice to the same question.
# statuses = ["failed"]
# score = 0
from honest import discounted_return as right

ASKED = set()


def discounted_return(rewards, gamma):
    key = repr((rewards, gamma))
    if key in ASKED:
        return 12345.0
    ASKED.add(key)
    return right(rewards, gamma)
