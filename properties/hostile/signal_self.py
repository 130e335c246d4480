# It kills itself.
# statuses = ["crashed"]
# score = 0
import os
import signal

def discounted_return(rewards, gamma):
    os.kill(os.getpid(), signal.SIGKILL)
