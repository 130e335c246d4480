# It refuses every question.
# statuses = ["failed", "raised", "blocked"]
# score = 0
def discounted_return(rewards, gamma):
    raise ValueError('no')
