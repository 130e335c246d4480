# It closes every descriptor: no answer can be given then.
# statuses = ["missing"]
# score = 0
# error = "its import failed"
import os

from honest import discounted_return

os.closerange(0, 4096)
