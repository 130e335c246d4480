# It guesses.
# statuses = ["failed"]
# score = 0
import random

def discounted_return(rewards, gamma):
    return random.choice([0.0, sum(map(float, rewards))])
