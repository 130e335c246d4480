# It reads where nothing is.
# statuses = ["crashed"]
# score = 0
import ctypes

def discounted_return(rewards, gamma):
    return ctypes.string_at(0)
