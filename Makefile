# Each target makes what it needs: a virtual environment in .venv, with pinned versions.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES = pyproject.toml constraints.txt

.PHONY: demo test slow lint table benchmark clean

demo: $(VENV)/core ## grade the bundled example submission
	$(BIN)/rlcheck demo

test: $(VENV)/dev ## run the fast suite: all laws, the kill matrix, the grader's tests
	$(BIN)/pytest -m fast -n auto --dist worksteal

slow: $(VENV)/dev ## run the slow suite
	$(BIN)/pytest -m slow -n auto --dist worksteal

lint: $(VENV)/dev ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

table: $(VENV)/dev ## write the README's table of functions and docs/reports.md anew
	$(BIN)/python -m rlcheck.grading.overview README.md
	$(BIN)/python -m rlcheck.grading.reports docs/reports.md

benchmark: $(VENV)/dev ## print what examples, calls and grading cost, as ratios
	$(BIN)/python experiments/benchmark_suite.py
	$(BIN)/python experiments/benchmark_logprobs.py
	$(BIN)/python experiments/benchmark_logprobs_torch.py --repeats 2
	$(BIN)/python experiments/benchmark_advantages.py
	$(BIN)/python experiments/benchmark_agents.py

$(VENV)/core: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/dev: $(VENV)/core
	$(PIP) torch
	$(PIP) -e ".[dev]"
	touch $@

clean: ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
