# Two commands are enough on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# As variables the constraints also hold for what builds the project; pip ignores the flag there.
PINNED := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt

.PHONY: demo test test-lowest crash fuzz check dist docs docs-tables bench clean

demo: $(READY)  ## the main job on the built-in data; leaves demo/report.html
	$(BIN)/icpe demo -o demo --force

test: $(READY)  ## all tests, as CI runs them
	$(BIN)/pytest -n auto --dist loadgroup -q

# Old packages warn about new ones, so deprecations are no errors here.
# Of torch, the lowest version with a build without CUDA packages, see tools/lowest_versions.py.
test-lowest:  ## tests with the lowest versions that pyproject.toml allows, in an environment of their own
	mkdir -p build
	$(PYTHON) tools/lowest_versions.py plot > build/lowest.txt
	$(PYTHON) -m venv build/lowest
	PIP_CONSTRAINT=build/lowest.txt build/lowest/bin/pip install --quiet --only-binary :all: --editable '.[plot]' "pytest>=8" hypothesis "pandas>=2.2.2" pyarrow quadprog
	build/lowest/bin/pytest -q -m "not realdata and not slow" -W ignore::DeprecationWarning $(LOWEST)

# A part of the tests that touches every package which must be there. The two files left out need newer oracles.
LOWEST := tests/data tests/split tests/ranking tests/metrics --ignore tests/metrics/test_metrics.py \
	--ignore tests/metrics/test_statistics.py tests/train tests/recommender tests/pareto tests/cluster \
	tests/cli/test_cli.py tests/cli/test_train.py

crash: $(READY)  ## kills a training at every one of its file operations and resumes it; takes some minutes
	ICPE_ALL_CRASHES=1 $(BIN)/pytest -q tests/runs/test_crash.py

check: $(READY)  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/settings_tables.py --check
	$(BIN)/python tools/expected_numbers.py --check

fuzz: $(READY)  ## damaged files with new seeds for five minutes; prints the seed of a failure
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds 300

docs: $(READY)  ## the documentation site, in site/; a warning or a link that leads nowhere is an error
	$(BIN)/sphinx-build --fresh-env --fail-on-warning --keep-going --quiet --builder html docs site
	$(BIN)/python tools/check_site.py site

docs-tables: $(READY)  ## write the tables of settings from the declarations, and the numbers of methods from docs/results
	$(BIN)/python tools/settings_tables.py
	$(BIN)/python tools/expected_numbers.py

bench: $(READY)  ## speed and memory as ratios, see bench/README.md
	-$(BIN)/python bench/foundation.py
	-$(BIN)/python bench/engine.py
	-$(BIN)/python bench/overhead.py
	-$(BIN)/python bench/front.py
	-$(BIN)/python bench/growth.py --share 0.1
	$(BIN)/python bench/methods.py

dist: $(READY)  ## wheel and source archive in dist/; the wheel is tried in an empty environment, from another folder
	rm -rf dist build/try
	$(PINNED) $(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/try
	$(PINNED) build/try/bin/pip install --quiet "$$(ls dist/*.whl)[plot]"
	cd build/try && bin/icpe demo --quick --force -o demo && bin/icpe doctor

clean:  ## forget the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache

# The stamp file makes a second run start at once; it is renewed when the dependencies change.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PINNED) $(BIN)/pip install --quiet --only-binary :all: --editable '.[dev]'
	touch $@
