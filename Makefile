PYTHON ?= python3
ENGINE ?= vllm
BIN := .venv/bin
# Tests that start and kill whole processes, or load the real engine, run by themselves: they want both cores.
ALONE := tests/bootstrap tests/cli tests/e2e tests/embedded tests/engines tests/workers
BESIDE := $(filter-out $(ALONE) tests/__pycache__,$(patsubst %/,%,$(sort $(wildcard tests/*/))))
NOT_HERE := $(if $(filter simulated,$(ENGINE)), and not vllm)

.DEFAULT_GOAL := help
.PHONY: help setup tools demo test test-full check lint bench fmt clean
MAKEFLAGS += --no-print-directory

help: ## show this list
	@echo "make demo                    100 questions answered by a real model, from nothing"
	@echo "make demo ENGINE=simulated   the same without vLLM, every answer labelled simulated"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r name text; do \
		printf 'make %-10s %s\n' "$$name" "$$text"; done

setup: ## make .venv and the demo model, and nothing more
	@$(PYTHON) -m bootstrap --engine $(ENGINE)

tools:
	@$(PYTHON) -m bootstrap --engine $(ENGINE) --dev

demo: setup ## start everything, answer 100 questions, stop everything
	@$(BIN)/fairlane demo --engine $(ENGINE)

test: tools lint ## every check and the tests (up to 15 minutes)
	@$(BIN)/python -m pytest -q -m "not slow$(NOT_HERE)" -n 2 --dist loadfile $(BESIDE)
	@$(BIN)/python -m pytest -q -m "not slow$(NOT_HERE)" $(ALONE)

test-full: tools lint ## the same with the slow tests
	@$(BIN)/python -m pytest -q $(if $(NOT_HERE),-m "not vllm")

check: tools lint ## linters, types, import rule, architecture tests
	@$(BIN)/python -m pytest -q tests/architecture

lint:
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@said=$$($(BIN)/lint-imports 2>&1) || { echo "$$said"; exit 1; }

bench: tools ## every bench; writes bench/RESULTS.md
	@$(BIN)/python -m bench --all

fmt: tools ## put the code in shape
	@$(BIN)/ruff check --quiet --fix --exit-zero .
	@$(BIN)/ruff format --quiet .

clean: ## remove what was built here; the demo model and pip's cache stay
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
