# `make help` lists the targets. `make check` is the gate that every change passes.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 10s

# The linters belong to tools/go.mod, so they never raise the product's own dependencies.
TOOL := go tool -modfile=tools/go.mod

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build test fmt
build: ## build ./guyline, static
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o guyline ./cmd/guyline

test: ## run the tests
	go test ./...

fmt: ## format and modernize the code in place
	gofmt -w .
	go fix ./...

# The gate, cheapest first; it stops at the first step that fails.
.PHONY: check lint
check: lint govulncheck warm race ## the gate: lint, known vulnerabilities, tests under the race detector

lint: gofmt tidy vet peers fix depguard forbidigo staticcheck ## every check that runs none of the product's tests

.PHONY: gofmt tidy vet peers fix depguard forbidigo staticcheck govulncheck warm race
gofmt:
	@echo "== gofmt"
	@files=$$(gofmt -l .); if [[ -n $$files ]]; then echo "not formatted (make fmt):"; echo "$$files"; exit 1; fi

tidy:
	@echo "== go mod tidy"
	@go mod tidy -diff
	@go -C tools mod tidy -diff

# The steps below that run tests do so with -vet=off: with a cold cache each would look through all dependencies once more, for less.
vet:
	@echo "== go vet"
	@go vet ./...

# A module of its own, whose dependencies are not the product's: nothing else would notice that it has fallen behind.
peers:
	@echo "== bench/peers"
	@go -C bench/peers vet ./...
	@go -C bench/peers test -vet=off ./...

fix:
	@echo "== go fix"
	@go fix -diff ./... || { echo "older Go than need be (make fmt)"; exit 1; }

depguard:
	@echo "== depguard: the import graph"
	@$(TOOL) depguard ./...

forbidigo:
	@echo "== forbidigo: calls we do not make"
	@tools/forbid.sh

staticcheck:
	@echo "== staticcheck"
	@$(TOOL) staticcheck ./...

govulncheck:
	@echo "== govulncheck"
	@out=$$($(TOOL) govulncheck ./... 2>&1) || { \
		grep -q 'fetching vulnerabilities' <<<"$$out" || { echo "$$out"; exit 1; }; \
		echo "govulncheck: not run (its database cannot be reached)"; \
	}

# Compiling the PDF engine is slow under the race detector; what a plain build leaves in its cache serves both.
warm:
	@echo "== warm the PDF engine's cache"
	@go test -vet=off -run '^TestWarm$$' -count=1 ./extract

# A program under the race detector waits a second before it exits, for races to show; the tests start many that run to their end.
# On a slow and busy machine a package may need more than Go's ten minutes.
race:
	@echo "== go test -race"
	@GORACE="atexit_sleep_ms=0 $${GORACE:-}" go test -race -vet=off -shuffle=on -timeout 30m ./...

.PHONY: fuzz bench cover
fuzz: ## fuzz each target for FUZZTIME (10s)
	@grep -rnoE --include='*_test.go' '^func Fuzz\w+' . | sed -E 's|/[^/]+:func | |' | sort | \
	while read -r dir name; do \
		echo "== $$dir $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null; \
	done

bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

# CHAOS="--seed 7" repeats a run.
.PHONY: chaos
chaos: ## the long run of the harness, on a cluster of three: five minutes of faults, then healing (CHAOS="--seed 7" repeats one)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	go build -o "$$dir/guyline" ./cmd/guyline; \
	"$$dir/guyline" chaos --servers 3 --workers 4 --reports 50000 --faults 75 --for 5m --ack-wait 5s $(CHAOS)

cover: ## run the tests with coverage over all packages, into coverage.out
	go test -coverpkg=./... -coverprofile=coverage.out ./...
	go tool cover -func=coverage.out | tail -n 1
