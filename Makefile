# Two commands are enough on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# As variables the constraints also hold for what builds the project; pip ignores the flag there.
PINNED := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt

.PHONY: demo test crash fuzz check docs-tables bench clean

demo: $(READY)  ## the main job on the built-in data; leaves demo/report.html
	$(BIN)/icpe demo -o demo --force

test: $(READY)  ## all tests, as CI runs them
	$(BIN)/pytest -n auto -q

crash: $(READY)  ## kills a training at every one of its file operations and resumes it; takes some minutes
	ICPE_ALL_CRASHES=1 $(BIN)/pytest -q tests/runs/test_crash.py

check: $(READY)  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/settings_tables.py --check

fuzz: $(READY)  ## damaged files with new seeds for five minutes; prints the seed of a failure
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds 300

docs-tables: $(READY)  ## write the tables of settings in the documentation from the declarations
	$(BIN)/python tools/settings_tables.py

bench: $(READY)  ## speed and memory as ratios, see bench/README.md
	-$(BIN)/python bench/foundation.py
	-$(BIN)/python bench/engine.py
	-$(BIN)/python bench/overhead.py
	-$(BIN)/python bench/front.py
	$(BIN)/python bench/methods.py

clean:  ## forget the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache

# The stamp file makes a second run start at once; it is renewed when the dependencies change.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PINNED) $(BIN)/pip install --quiet --editable '.[dev]'
	touch $@
