# It asks for a gigabyte more than it may have.
# statuses = ["raised"]
# score = 0
LIMIT = 9 * 2**30

def discounted_return(rewards, gamma):
    return len(bytearray(LIMIT)) * 1.0
