# It prints eight megabytes in each call, to both streams.
# statuses = ["passed"]
# score = 9
import os

from honest import discounted_return as right

NOISE = b"noise " * 2**18


def discounted_return(rewards, gamma):
    for fd in (1, 2, 1, 2):
        os.write(fd, NOISE)
    return right(rewards, gamma)
