# It never answers.
# statuses = ["timed_out"]
# score = 0
def discounted_return(rewards, gamma):
    while True:
        pass
