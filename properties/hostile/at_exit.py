# It works on for ever when its process should end.
# statuses = ["passed"]
# score = 9
import atexit
import time

from honest import discounted_return

atexit.register(time.sleep, 60)
