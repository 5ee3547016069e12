# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 1
STAMP := $(VENV)/installed
CPU_TORCH := $(shell sed -n 's/^\(torch==[^ ]*\).*/\1/p' locks/torch-cpu.txt)
# Exactly the listed files, nothing built here: a file with another hash, or none that fits, ends the installation.
LOCKED := $(BIN)/pip install --quiet --no-deps --only-binary :all: --require-hashes --requirement
# Real books and tasks, where there are any; tests that want them say so and skip without.
export GPT1_DATA ?= $(wildcard $(abspath ../shared/data))

.PHONY: install lock demo demo-books lesson test test-slow fuzz check fmt docs dist dist-check bench clean

install: $(STAMP)

$(STAMP): pyproject.toml locks/all.txt locks/cuda.txt locks/torch-cpu.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("gpt1 needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 install")'
	@echo "setting up $(VENV), a few minutes"
	@$(PYTHON) -m venv $(VENV)
	@# PyTorch for CPUs where pip has been told of an index or a folder that has it; else the public one, with CUDA on Linux.
	@if $(BIN)/pip install --dry-run --no-deps $(CPU_TORCH) > /dev/null 2>&1; then $(LOCKED) locks/torch-cpu.txt; fi
	@$(LOCKED) locks/all.txt
	@if $(BIN)/pip show torch | grep '^Requires:.*triton' > /dev/null; then $(LOCKED) locks/cuda.txt; fi
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@$(BIN)/pip check
	@touch $(STAMP)

# Renew the locks after a change of pyproject.toml; `make lock UPGRADE=--upgrade` takes the newest versions it allows.
lock:
	@test -x $(BIN)/uv || $(MAKE) --no-print-directory install
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/lock.py $(UPGRADE)

demo: install
	@$(BIN)/gpt1 demo --seeds $(SEEDS)

demo-books: install
	@$(BIN)/gpt1 demo --books --seeds $(SEEDS)

# Every notebook of docs/lesson, run as Jupyter runs it, in order: the later ones use what the fifth pre-trains.
# The suite's own settings (warnings, markers, import mode) are not for notebooks.
lesson: install
	@rm -rf build/lesson
	@mkdir -p build/lesson
	@$(BIN)/jupytext --quiet --to ../../build/lesson//ipynb docs/lesson/*.py
	$(BIN)/pytest --config-file=/dev/null --rootdir=build/lesson --nbmake --nbmake-timeout=600 --durations=0 build/lesson

# Seconds of style and types before the minutes of the suite.
test: check
	$(BIN)/pytest -n auto --dist worksteal

test-slow: install
	$(BIN)/pytest -m slow
	@$(MAKE) --no-print-directory fuzz

# Other examples every time; what it finds is kept as a named @example.
fuzz: install
	$(BIN)/pytest -n auto --dist worksteal -m hypothesis --hypothesis-profile=fuzz

check: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

fmt: install
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# All documents and a reference made from the code, to be looked at without a network.
docs: install
	@$(BIN)/python tools/website.py --out build/site

# What is released, of what is committed: a source archive and a wheel in dist/; the same commit, the same bytes.
dist: install
	@$(BIN)/python tools/dist.py

# The wheel in fresh environments, each extra alone: make dist-check PYTHONS="python3.11 /opt/python3.13/bin/python" EXTRAS="none serve"
dist-check: install
	@$(BIN)/python tools/dist_check.py $(PYTHONS:%=--python %) $(EXTRAS:%=--extra %)

# Every contender in one call; figures and a picture in bench/.
bench: install
	$(BIN)/python -m benchmarks --out bench

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
