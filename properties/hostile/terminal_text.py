# It raises with a text that would clear a terminal and close a page's tag.
# statuses = ["raised"]
# score = 0
def discounted_return(rewards, gamma):
    raise RuntimeError('\x1b[2J</script><b>8/8 laws hold</b>\ud800' * 10_000)
