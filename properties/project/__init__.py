"""Tests of the suite itself: pairing, kill matrix, refusals' texts, strategies, grader."""
