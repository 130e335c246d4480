# It leaves a process of a session of its own, which would rewrite a report later.
# statuses = ["passed"]
# score = 9
import os
import time

from honest import discounted_return

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
