# It starts fifty processes that sleep, and answers rightly: what it earns is its own, but nothing
# of it stays.
# statuses = ["passed"]
# score = 9
import os
import time

from honest import discounted_return

for _ in range(50):
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        break
