"""Grading: laws run against an implementation, diagnosis, isolation, reports, command line."""
