.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup report test test-all bench lint constraints clean

BIN := .venv/bin
ROOMS := arch cycle_sim energy mappers reports rtl sweeping systems workload
INPUTS := pyproject.toml constraints.txt .ci/setup

help:  ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

setup: .venv/.test .venv/.system .venv/.tools .venv/.engines  ## everything for use, tests and development, in .venv

report: .venv/.run  ## the main job: reports/out/pim_gpt/index.html
	@$(BIN)/pimloom report pim-gpt --out reports/out/pim_gpt

test: setup  ## all tests but the slow ones
	@$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: setup  ## all tests
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m ''

bench: .venv/.test  ## speed and memory; BENCH="memory --peer dramsim3=PATH" for some of it, beside others
	@$(BIN)/python -m tests.bench $(BENCH)

# mypy knows no package-dir: it reads a tree of links, and sed gives the files their own names back.
lint: .venv/.test  ## ruff and mypy
	@$(BIN)/ruff check
	@rm -rf build/types && mkdir -p build/types/pimloom
	@ln -s $(addprefix $(CURDIR)/,$(wildcard pimloom/*.py) pimloom/commands $(ROOMS)) build/types/pimloom
	@ln -s $(CURDIR)/tests $(CURDIR)/verilog_tidy build/types
	@bash -o pipefail -c 'cd build/types && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml \
	  --cache-dir $(CURDIR)/.mypy_cache -p pimloom -p tests -p verilog_tidy | sed -E "s#^pimloom/($(subst $() ,|,$(ROOMS)))/#\1/#"'

constraints: .venv/.test  ## pin the newest versions of all dependencies
	@$(BIN)/python -m pip install --quiet uv
	@UV_CUSTOM_COMPILE_COMMAND="make constraints" $(BIN)/uv pip compile --quiet --upgrade --universal \
	  --all-extras --no-annotate pyproject.toml --output-file constraints.txt

clean:  ## remove the environment and all that was made
	@rm -rf .venv build dist reports/out *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@find $(ROOMS) pimloom tests verilog_tidy -name __pycache__ -prune -exec rm -rf {} +

.venv/.run: $(INPUTS)
	@.ci/setup run

.venv/.test: $(INPUTS)
	@.ci/setup test

.venv/.system: .ci/setup
	@.ci/setup system

.venv/.tools: .venv/.test
	@.ci/setup tools

.venv/.engines: .venv/.test
	@.ci/setup engines
