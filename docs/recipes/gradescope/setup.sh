#!/usr/bin/env bash
# Runs once, when the autograder's image is built. The archive holds a copy of rlcheck beside it.
set -euo pipefail
apt-get update -q
apt-get install -y -q python3 python3-venv bubblewrap
python3 -m venv /opt/rlcheck
/opt/rlcheck/bin/python -m pip install "${AUTOGRADER:-/autograder}/source/rlcheck"
