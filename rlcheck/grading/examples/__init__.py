"""Bundled submissions, to try the grader on."""
