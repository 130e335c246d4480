# It raises KeyboardInterrupt, as if somebody had stopped the run.
# statuses = ["crashed"]
# score = 0
def discounted_return(rewards, gamma):
    raise KeyboardInterrupt
