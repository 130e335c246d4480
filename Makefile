# Each target makes what it needs: a virtual environment in .venv, with pinned versions.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES = pyproject.toml constraints.txt
# Public libraries live in environments of their own, which need nothing of rlcheck.
LIBRARIES = $(VENV)-libraries
IMITATION = $(VENV)-imitation
OF_LIBRARIES = properties/project/test_subjects.py properties/project/test_buffers.py
IN_LIBRARIES = $(LIBRARIES)/bin/python -m pip install --quiet --disable-pip-version-check
IN_IMITATION = $(IMITATION)/bin/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test slow notebooks lint table benchmark docs installed libraries conformance clean

demo: $(VENV)/core ## grade the bundled example submission
	$(BIN)/rlcheck demo

test: $(VENV)/dev ## run the fast suite: all laws, the kill matrix, the grader's tests
	$(BIN)/pytest -m fast -n auto --dist worksteal

slow: $(VENV)/dev ## run the slow suite; tests of one experiment share what they train
	$(BIN)/pytest -m slow -n auto --dist worksteal properties
	$(BIN)/pytest -m slow -n auto --dist loadfile experiments

notebooks: $(VENV)/dev ## execute the notebooks, in both languages
	RLCHECK_LANG=en $(BIN)/pytest --nbmake -n auto notebooks
	RLCHECK_LANG=ru $(BIN)/pytest --nbmake -n auto notebooks

lint: $(VENV)/dev ## style and types; notebooks are stored without outputs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/nbstripout --keep-id --verify notebooks/*.ipynb
	$(BIN)/mypy

table: $(VENV)/dev ## write the README's table of functions, docs/reports.md and the schema of reports anew
	$(BIN)/python -m rlcheck.grading.overview README.md
	$(BIN)/python -m rlcheck.grading.reports docs/reports.md
	$(BIN)/python -m rlcheck.grading.render.schema docs/report.schema.json

benchmark: $(VENV)/dev ## print what examples, calls and grading cost, as ratios
	$(BIN)/python experiments/benchmark_suite.py
	$(BIN)/python experiments/benchmark_logprobs.py
	$(BIN)/python experiments/benchmark_logprobs_torch.py --repeats 2
	$(BIN)/python experiments/benchmark_advantages.py
	$(BIN)/python experiments/benchmark_agents.py
	$(BIN)/python experiments/benchmark_grid.py
	$(BIN)/python experiments/benchmark_dqn.py
	$(BIN)/python experiments/benchmark_offline.py

libraries: $(VENV)/dev $(LIBRARIES)/done $(IMITATION)/done ## hold public libraries to what is declared of them
	RLCHECK_PYTHONS=libraries=$(abspath $(LIBRARIES))/bin/python,imitation=$(abspath $(IMITATION))/bin/python \
		$(BIN)/pytest -m slow -n auto --dist worksteal $(OF_LIBRARIES)

installed: $(LIBRARIES)/done $(IMITATION)/done ## install public libraries, away from everything else

conformance: $(VENV)/dev $(LIBRARIES)/done $(IMITATION)/done ## write the pages of libraries, buffers and environments anew
	$(BIN)/python -m rlcheck.grading.conformance docs/conformance.md \
		--python libraries=$(abspath $(LIBRARIES))/bin/python --python imitation=$(abspath $(IMITATION))/bin/python
	$(BIN)/python -m rlcheck.grading.environments.page docs/environments.md
	$(BIN)/python -m rlcheck.grading.buffers.page docs/buffers.md --python libraries=$(abspath $(LIBRARIES))/bin/python

docs: $(VENV)/docs ## build the documentation as a static site in build/site
	$(BIN)/python docs/site/build.py $(PAGES)

$(VENV)/core: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/dev: $(VENV)/core
	$(PIP) torch
	$(PIP) -e ".[dev]"
	touch $@

$(VENV)/docs: $(VENV)/dev
	$(PIP) -e ".[docs]"
	touch $@

# d3rlpy, verl and OpenRLHF pin versions that exclude each other's, and work with these.
$(LIBRARIES)/done: constraints.txt
	$(PYTHON) -m venv $(LIBRARIES)
	$(IN_LIBRARIES) -c constraints.txt torch
	$(IN_LIBRARIES) -c constraints.txt msgspec hypothesis trl stable-baselines3 torchrl rlax scipy ray \
		minari pyarrow pillow \
		structlog colorama dataclasses-json h5py gym scikit-learn hydra-core omegaconf codetiming
	$(IN_LIBRARIES) -c constraints.txt --no-deps d3rlpy verl openrlhf
	touch $@

# It needs an older Gymnasium than all others.
$(IMITATION)/done: constraints.txt
	$(PYTHON) -m venv $(IMITATION)
	$(IN_IMITATION) torch==2.13.0
	$(IN_IMITATION) torch==2.13.0 imitation==1.0.1 msgspec
	touch $@

clean: ## remove the environment and caches
	rm -rf $(VENV) $(LIBRARIES) $(IMITATION) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
