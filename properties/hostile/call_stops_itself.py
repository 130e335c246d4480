# It stops its own process, which neither answers nor ends then.
# statuses = ["timed_out"]
# score = 0
import os
import signal


def discounted_return(rewards, gamma):
    os.kill(os.getpid(), signal.SIGSTOP)
