# Every target works from a fresh clone: the environment is made on first use,
# and again when the lock or the package's metadata changes.
PYTHON ?= python3
CONFIG ?= config/config.yaml
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: setup run test test-slow lint docs docs-site lock benchmark benchmark-gpu benchmark-peers mutants

setup: $(VENV)/installed

run: $(VENV)/installed
	$(BIN)/pwfl run $(CONFIG)

# The tests of a cluster and of figures in a browser need Debian packages: with APT=yes, as root on Debian, they install
# them (pytest's header says which); otherwise they are skipped where these are missing. CI installs them.
APT ?= $(if $(CI),yes,no)
test: $(VENV)/installed lint
	PWFL_TEST_APT=$(APT) $(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -m "not slow"

# What tests/slow.txt lists, and the tests that take minutes: a whole small study of each system, many kills.
test-slow: $(VENV)/installed
	PWFL_TEST_APT=$(APT) $(BIN)/python -m pytest --numprocesses 3 --dist loadgroup -m slow

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/ty check
	$(BIN)/python docs/renamed.py
	$(BIN)/snakemake --lint

# Speed against baselines of the same run, and cost as work grows; half an hour on a quiet machine.
benchmark: $(VENV)/installed
	$(BIN)/python benchmarks/run.py

# Training on a GPU against one realization at a time, there and on a CPU core; minutes, says so where there is no GPU.
benchmark-gpu: $(VENV)/installed
	$(BIN)/python benchmarks/gpu.py

# A training round against other frameworks, each in an environment of its own (pfl: Python 3.11 or 3.12); minutes.
benchmark-peers: $(VENV)/installed .venv-pfl/installed .venv-flower/installed .venv-opacus/installed
	$(BIN)/python benchmarks/peers.py

# Whether the tests notice small changes of modules: WORDS=markov of some, else of those that differ from the last commit.
JOBS ?= 1
WORDS ?= $(shell git diff --name-only HEAD -- pkg/pwfl)
mutants: $(VENV)/installed
	$(BIN)/python benchmarks/mutants.py --jobs $(JOBS) $(WORDS)

# config/README.md and config/schema.json, from the scenario model; docs/reference/columns.md; what came out at full size; .zenodo.json, from CITATION.cff; the graph of rules in docs/explanation/caching.md, from Snakemake.
docs: $(VENV)/installed
	$(BIN)/python -m pwfl.scenario.docs config
	$(BIN)/python docs/columns.py
	$(BIN)/python docs/full_size.py
	$(BIN)/python docs/zenodo.py
	$(BIN)/snakemake --rulegraph dot | $(BIN)/python docs/rule_graph.py docs/explanation/caching.md

# The documentation as a site, build/docs/html.
docs-site: $(VENV)/docs
	$(BIN)/python docs/build_site.py build/docs

# The lock files, from pyproject.toml; needs uv on the PATH.
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock:
	$(LOCK) --extra glpk --extra dev pyproject.toml --output-file envs/requirements.lock
	set -e; for extra in gpu slurm kubernetes docs; do \
		$(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$$extra'], sep='\n')" \
		| $(LOCK) --constraint envs/requirements.lock - --output-file envs/$$extra.lock; done
	set -e; for peer in pfl flower opacus; do sed -n 's/+cpu.*//p' envs/torch-cpu.lock \
		| $(LOCK) --group benchmark-$$peer - --output-file envs/benchmark-$$peer.lock; done

$(VENV)/installed: envs/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pwfl needs Python 3.11 or newer; set PYTHON=")'
	@echo "Installing what pwfl needs into $(VENV): 3 GB, one to six minutes, once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --require-hashes -r envs/requirements.lock
	$(BIN)/python $(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/docs: $(VENV)/installed envs/docs.lock
	$(BIN)/python $(INSTALL) --require-hashes -r envs/docs.lock
	touch $@

# Where pip finds PyTorch's CPU build (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL), the lock's gigabytes of CUDA are left out.
.venv-%/installed: envs/benchmark-%.lock envs/torch-cpu.lock
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	if .venv-$*/bin/python $(INSTALL) --no-deps --require-hashes -r envs/torch-cpu.lock 2> /dev/null; \
		then awk '/^[a-z]/ { cuda = /^(cuda|nvidia|triton)/ } !cuda' $<; else cat $<; fi > .venv-$*/requirements.lock
	.venv-$*/bin/python $(INSTALL) --require-hashes -r .venv-$*/requirements.lock
	touch $@
