# The same, by a program with an empty environment and closed descriptors.
# statuses = ["passed"]
# score = 9
import subprocess

from honest import discounted_return

subprocess.Popen(
    ["/bin/sh", "-c", "sleep 60 & sleep 60"], start_new_session=True, env={}, close_fds=True
)
