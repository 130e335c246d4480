# It aborts.
# statuses = ["crashed"]
# score = 0
import os

def discounted_return(rewards, gamma):
    os.abort()
