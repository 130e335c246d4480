# A thread of it works on after each call, and for ever.
# statuses = ["passed"]
# score = 9
import threading

from honest import discounted_return


def burn():
    while True:
        sum(range(1000))


threading.Thread(target=burn).start()
