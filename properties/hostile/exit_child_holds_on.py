# It exits, and leaves a child that keeps every descriptor open.
# statuses = ["crashed"]
# score = 0
import os
import time


def discounted_return(rewards, gamma):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    os._exit(3)
