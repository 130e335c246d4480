"""Public libraries under rlcheck's laws: one adapter a library, and what is declared of it."""
