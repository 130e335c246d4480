# It hands back the reference.
# statuses = ["missing"]
# score = 0
# error = "a graded submission cannot import rlcheck"
from rlcheck import discounted_return
