# It sleeps at its import.
# statuses = ["missing"]
# score = 0
# error = "its import took more than"
import time

time.sleep(3600)
