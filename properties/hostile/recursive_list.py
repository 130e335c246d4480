# Its answer contains itself.
# statuses = ["raised"]
# score = 0
def discounted_return(rewards, gamma):
    answer = [1.0]
    answer.append(answer)
    return answer
