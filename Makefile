# The commands of this repository, for people and for CI alike. `make help` lists them.
#
# What is built and fetched once lies outside the tree: in $SALVAGE_CACHE, else ~/.cache/salvage.
# CMake does the compiling (CMakePresets.json); this file only knows what comes before what.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
MAKEFLAGS += --no-print-directory

PREFIX ?= /usr/local
NAME ?= smollm2
PROMPT ?= What is gravity?
PROMPT_ZH ?= 请用中文介绍一下你自己。
SALVAGE := build/release/bin/salvage
# Always the likeliest token, so that the answer is the same each time.
DEMO := --stages 3 --chat -n 96 --temp 0

.PHONY: help demo demo-zh build install dist model test unit e2e conformance reference bench-peers bench-http fuzz format tidy clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 14

demo: build ## a small model over three stage processes on this machine
	@tools/install_deps.sh model
	model=$$(tools/model.sh smollm2)
	$(SALVAGE) run "$$model" $(DEMO) "$(PROMPT)"

demo-zh: build ## the same with a model that speaks Chinese (469 MiB to fetch, once)
	@tools/install_deps.sh model
	model=$$(tools/model.sh qwen)
	$(SALVAGE) run "$$model" $(DEMO) --lang zh "$(PROMPT_ZH)"

build: ## build/release/bin/salvage
	@tools/install_deps.sh build
	tools/build.sh release salvage
	echo "$(SALVAGE)"

install: build ## installs salvage under PREFIX (default /usr/local)
	@cmake --install build/release --prefix "$(PREFIX)"

dist: ## the portable directory, for machines without a compiler or with another processor
	@tools/install_deps.sh build
	tools/dist.sh

model: ## fetches the test model NAME (smollm2, qwen, gemma); last line: its path
	@tools/install_deps.sh model
	tools/model.sh $(NAME)

test: ## everything that tests; what CI runs
	@tools/run_tests.sh

unit: ## the fast tests only
	@tools/install_deps.sh test
	tools/build.sh dev all
	ctest --preset unit

e2e: ## real processes and models, and machines in network namespaces (needs root)
	@tools/install_deps.sh test
	tools/run_tests.sh models e2e net

conformance: ## every architecture, every cut, bit for bit; writes docs/reference/architectures.md
	@tools/install_deps.sh test
	tools/conformance.sh --page docs/reference/architectures.md

reference: ## writes docs/reference/cli.md and errors.md
	@tools/install_deps.sh test
	tools/build.sh dev salvage
	tools/gen_reference.py build/dev

bench-peers: ## against llama.cpp's own programs; one ratio a line at the end
	@tools/install_deps.sh model
	tools/build.sh release salvage random_model
	bench/peers.py

bench-http: ## what HTTP costs, and 4 streams over it against llama-server's; one result a line at the end
	@tools/install_deps.sh model
	tools/build.sh release salvage
	bench/http_layer.py

fuzz: ## every fuzzer for FUZZ_SECONDS (default 60), the canary included
	@tools/install_deps.sh test
	tools/build.sh fuzz fuzzers
	tools/fuzz.sh build/fuzz/fuzzers $${FUZZ_SECONDS:-60}

format: ## rewrites the C++ files in the house format
	@git ls-files --cached --others --exclude-standard '*.h' '*.cc' | xargs clang-format-14 -i

tidy: ## the checks that need no compiler run: layers, house rules, format
	@tools/run_tests.sh style

clean: ## removes build/ (the caches outside the tree stay)
	@rm -rf build
