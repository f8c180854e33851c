# What one does with this project; `make` alone lists it.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-arm check bench screenshots clean browser

bin := .venv/bin

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with everything in it; does nothing when nothing changed
	@scripts/setup

demo: setup ## Run the whole thing on this machine (DEMO_ONESHOT=1 stops by itself)
	@$(bin)/ddlp demo

test: setup browser ## Run the tests (ARGS="..." goes to pytest)
	@scripts/test $(ARGS)

test-long: setup browser ## Run the tests that take long
	@$(bin)/pytest -m long $(ARGS)

test-arm: setup ## Run a worker on an emulated ARM processor, and compare its bytes
	@scripts/arm-userland
	@scripts/system-packages gcc-aarch64-linux-gnu=aarch64-linux-gnu-gcc libc6-dev-arm64-cross
	@$(bin)/pytest -m "not long" tests/arm tests/core/image/test_processors.py $(ARGS)

check: setup ## Lint, check the format, the types and the layers
	@$(bin)/ruff check
	@$(bin)/ruff format --check
	@$(bin)/mypy
	@$(bin)/lint-imports

bench: setup ## Run the benchmarks and write benchmarks/results/ (ARGS="..." goes to them)
	@$(bin)/python -m benchmarks $(ARGS)

screenshots: setup browser ## Take the pictures of the pages that README and docs show
	@$(bin)/python -m scripts.screenshots

clean: ## Remove caches and what builds left behind; .venv stays
	@rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . \( -path ./.venv -o -path ./.arm \) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

browser:
	@scripts/system-packages chromium=/usr/bin/chromium fonts-dejavu-core=/usr/share/fonts
