# One command each; every target makes .venv first where it is missing.
#   make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu    takes torch from another index
#   make report ARGS='--config only_runs=host'                     passes more to snakemake
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.SILENT: report docs
.DEFAULT_GOAL := report

VENV := .venv
PY := $(VENV)/bin/python
TORCH_INDEX ?=
CORES ?= 1
ARGS ?=
PYTEST_ARGS ?=
WORKERS ?= 3
# the first Python that starts; 3.11 is preferred where there are several
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)
PIP := $(PY) -m pip install --quiet --disable-pip-version-check

NOT_REACHED := make: the packages of requirements.txt could not be found: is there a network? Behind a proxy set https_proxy; \
from a mirror set PIP_INDEX_URL=URL; from a folder of wheels set PIP_FIND_LINKS=FOLDER and PIP_NO_INDEX=1

# the installed command, of the code in this checkout; -P: modules of the folder that it is started in do not count
define COMMAND
#!/bin/sh
here=$$(dirname -- "$$(readlink -f -- "$$0")")
export PYTHONPATH="$$here/../../scripts$${PYTHONPATH:+:$$PYTHONPATH}"
exec "$$here/python" -P -c "import sys; sys.argv[0] = 'kernelbook'; from kernelbook.__main__ import entry; sys.exit(entry())" "$$@"
endef
export COMMAND

.PHONY: setup setup-dev docs report compare test lint format example bench fuzz nightly clean

setup: $(VENV)/.workflow $(VENV)/bin/kernelbook $(VENV)/.torch
setup-dev: setup $(VENV)/.dev

$(VENV)/.workflow: requirements.txt constraints.txt
	@python="$(PYTHON)"  # looked for once
	if [ -z "$$python" ]; then echo "make: no Python >= 3.11 found: install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; fi
	"$$python" scripts/check_index.py requirements.txt || { echo "$(NOT_REACHED)" >&2; exit 1; }
	echo "make: installing what the workflow needs into $(VENV) (once, about a minute)"
	[ -x $(PY) ] || "$$python" -m venv $(VENV)
	# where an index does not answer, pip retries for minutes, and ends with conflicts between versions
	if ! $(PIP) --dry-run --no-deps --retries 0 --timeout 10 -r requirements.txt >$(VENV)/.reached 2>&1; then
	  grep -v -i "^warning" $(VENV)/.reached | tail -n 3 >&2
	  echo "$(NOT_REACHED)" >&2
	  exit 1
	fi
	$(PIP) -r requirements.txt -c constraints.txt
	touch $@

$(VENV)/bin/kernelbook: Makefile $(VENV)/.workflow
	@echo "$$COMMAND" > $@
	chmod +x $@

$(VENV)/.torch: requirements-torch.txt $(VENV)/.workflow
	@echo "make: installing torch (once, some hundred MB or more)"
	$(PIP) -r requirements-torch.txt $(if $(TORCH_INDEX),--index-url '$(TORCH_INDEX)') || \
		echo "make: torch could not be installed: the host run will be left out of the report (another index: make setup TORCH_INDEX=URL)" >&2
	touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.workflow
	@$(PY) scripts/check_index.py requirements-dev.txt || { echo "$(NOT_REACHED)" >&2; exit 1; }
	$(PIP) -r requirements-dev.txt -c constraints.txt
	touch $@

# what the last lines name where it is stopped
report nightly: export KERNELBOOK_COMMAND = make $@$(if $(ARGS), ARGS='$(ARGS)')

# where nothing is to be done Snakemake ends without naming the report
report: setup
	page=reports/$(or $(patsubst edition=%,%,$(filter edition=%,$(ARGS))),latest)/index.html
	said=$$(mktemp)
	trap 'rm -f "$$said"' EXIT
	$(PY) -m snakemake --cores $(CORES) $(ARGS) | tee "$$said"
	if [ -z "$(filter -n --dry-run --dryrun,$(ARGS))" ] && [ -e "$$page" ]; then
	  grep -q '^report: ' "$$said" || echo "report: $$page"
	fi

nightly: setup
	$(PY) scripts/nightly.py --cores $(CORES) $(ARGS)

# make compare A=main B=. ARGS='--cases my-block': see docs/how-to/compare.md
compare: setup
	$(if $(and $(A),$(B)),,echo "make: say what to compare: make compare A=main B=." >&2; exit 1)
	$(PY) scripts/compare.py '$(A)' '$(B)' $(ARGS)

# one worker runs all tests of a file, which share what is expensive to make; files start in the order of tests/conftest.py
test: setup-dev
	$(PY) -m pytest --numprocesses $(WORKERS) --dist loadfile $(PYTEST_ARGS)

lint: setup-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/snakefmt --check Snakefile workflow
	$(PY) -m mypy
	PYTHONPATH=scripts $(VENV)/bin/lint-imports
	$(PY) -m snakemake --lint

format: setup-dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(VENV)/bin/snakefmt Snakefile workflow

docs: setup-dev
	$(PY) scripts/build_docs.py --source .cache/docs --output docs-site
	echo "docs: docs-site/index.html"

example: setup
	$(PY) scripts/render_example.py

bench: setup
	$(PY) benchmarks/run.py --gzip $(ARGS)

fuzz: setup-dev
	KERNELBOOK_FUZZ_EXAMPLES=$${KERNELBOOK_FUZZ_EXAMPLES:-5000} $(PY) -m pytest tests/trace -m "" -k fuzz $(PYTEST_ARGS)

clean:
	rm -rf results reports/latest .snakemake .cache
