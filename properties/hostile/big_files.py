# It fills its scratch space with a hundred megabytes, and answers rightly.
# statuses = ["passed"]
# score = 9
import contextlib
import tempfile

from honest import discounted_return

folder = tempfile.mkdtemp()
for number in range(10):
    with contextlib.suppress(OSError), open(f"{folder}/{number}", "wb") as file:
        file.write(bytes(10 * 2**20))
