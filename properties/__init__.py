"""The laws: `test_NAME.py` states what every implementation of `rlcheck/NAME.py` must obey."""
