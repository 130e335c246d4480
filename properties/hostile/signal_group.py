# It kills its process group, and so itself.
# statuses = ["crashed"]
# score = 0
import os
import signal

def discounted_return(rewards, gamma):
    os.killpg(0, signal.SIGKILL)
