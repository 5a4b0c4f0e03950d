# Run `make` alone to see what there is.

SHELL   := /bin/sh
ROOT    := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
VERSION := $(shell git -C "$(ROOT)" describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X github.com/pulsemq/pulsemq/core.Version=$(VERSION)

# Every Go module of the repository but the one that only pins the linters.
MODULES := $(shell cd "$(ROOT)" && find . -name go.mod -not -path '*/testdata/*' -not -path '*/node_modules/*' \
	-not -path './tools/lint/*' -exec dirname {} \; | sort)

# The race detector needs a C compiler; without one the tests run without it.
RACE := $(shell cc="$$(go env CC)"; command -v $${cc%% *} >/dev/null 2>&1 && [ "$$(go env CGO_ENABLED)" = 1 ] && echo -race)

# Packages in which nothing runs beside anything else, neither in the code nor in the tests, as tools/house checks: the
# race detector has nothing to find there, and takes many times as long. What runs their code in several threads, as
# shard/reactor and netio do, is tested with it.
ALONE := $(addprefix github.com/pulsemq/pulsemq/,core cluster segment shard)

# How long `make fuzz` gives each target.
FOR ?= 30s

STATICCHECK := go tool -modfile="$(ROOT)/tools/lint/go.mod" staticcheck

# $(call each,COMMAND) runs COMMAND in every module and fails at the end if it failed in one.
each = @failed=; for module in $(MODULES); do echo "== $$module: $(strip $(1))"; \
	(cd "$(ROOT)/$$module" && $(1)) || failed="$$failed $$module"; done; \
	if [ -n "$$failed" ]; then echo "failed in:$$failed" >&2; exit 1; fi

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the programs into bin/
	@mkdir -p "$(ROOT)/bin"
	@cd "$(ROOT)" && for program in cmd/*/main.go; do \
		name=$$(basename "$$(dirname "$$program")"); echo "bin/$$name"; \
		CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o "bin/$$name" "./cmd/$$name" || exit 1; done

.PHONY: run
run: build ## Build and start a broker on 127.0.0.1:9090 that keeps its data in ./data
	@cd "$(ROOT)" && exec bin/pulsemq

.PHONY: demo
demo: build ## Start a broker on free ports, move a million verified messages, say how fast, clean up
	@cd "$(ROOT)" && go run ./tools/demo

.PHONY: test
test: check ## Check the source and run every test of every module
	@failed=; for module in $(MODULES); do cd "$(ROOT)/$$module" || exit 1; \
		alone=$$(go list ./... | grep -xF $(addprefix -e ,$(ALONE))); others=$$(go list ./... | grep -vxF $(addprefix -e ,$(ALONE))); \
		echo "== $$module: go test $(RACE)"; plain=; \
		if [ -n "$$alone" ]; then go test -p 1 -timeout 20m $$alone & plain=$$!; fi; \
		if [ -n "$$others" ]; then go test $(RACE) -timeout 20m $$others || failed="$$failed $$module"; fi; \
		if [ -n "$$plain" ]; then wait $$plain || failed="$$failed $$module"; fi; \
	done; if [ -n "$$failed" ]; then echo "failed in:$$failed" >&2; exit 1; fi

.PHONY: check
check: ## Check formatting, go vet and staticcheck
	@cd "$(ROOT)" && unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; fi
	$(call each,go vet ./...)
	$(call each,$(STATICCHECK) ./...)

.PHONY: generate
generate: ## Write every generated file anew: codecs, protocol docs, docs/CONFIG.md
	$(call each,go generate ./...)

.PHONY: cross
cross: ## Build and vet for linux amd64 and arm64, and for macOS
	@for target in linux/amd64 linux/arm64 darwin/arm64 darwin/amd64; do for module in $(MODULES); do \
		echo "== $$target $$module"; \
		(cd "$(ROOT)/$$module" && export CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} && go build ./... && go vet ./...) || exit 1; \
	done; done

.PHONY: fuzz
fuzz: ## Run every fuzz target for a while: make fuzz FOR=10m
	@for module in $(MODULES); do cd "$(ROOT)/$$module" || exit 1; \
		go list -f '{{$$dir := .Dir}}{{range .TestGoFiles}}{{$$dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$dir}}/{{.}} {{end}}' ./... | \
		xargs grep -HoE '^func Fuzz[A-Za-z0-9_]*' | sed -E 's|^(.*)/[^/]*:func |\1 |' | sort -u | \
		while read -r package target; do echo "== $$module $${package#$(ROOT)/} $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FOR) "$$package" || exit 1; \
		done || exit 1; done

ROUNDS   ?= 100
FAULTS   ?=
SCENARIO ?=
SEED     ?= $(shell od -An -N4 -tu4 /dev/urandom)

.PHONY: chaos
chaos: build ## Hurt a real broker in every way this machine allows: make chaos SCENARIO=full-disk, or ROUNDS=300 FAULTS=power,kill
	@cd "$(ROOT)/tools/chaos/forgetful" && go build -o "$(ROOT)/bin/forgetful" .
	@cd "$(ROOT)" && go build -o bin/chaos ./tools/chaos && \
		bin/chaos -bin bin/pulsemq -forgetful bin/forgetful -rounds "$(ROUNDS)" -faults "$(FAULTS)" -scenario "$(SCENARIO)" -seed $(SEED)

.PHONY: mutants
mutants: ## Take each rule out of the source in turn; its test must fail: make mutants ONLY=journal
	@cd "$(ROOT)" && go run ./tools/mutants -run '$(ONLY)'

# Where measurements keep their data while they run, and where the pages go.
DIR  ?= .
OUT  ?= bench/results

# How often each is taken, and how many seeds are simulated.
bench bench-peers: RUNS ?= 5
sim: RUNS ?= 200

.PHONY: bench
bench: build ## Measure the speed table: make bench RUNS=3 ROWS=batch-sync,single-sync DIR=/mnt/nvme OUT=results
	@cd "$(ROOT)" && bin/pulsebench table --dir "$(DIR)" --runs $(RUNS) --out "$(OUT)" $(if $(ROWS),--rows $(ROWS))

.PHONY: bench-peers
bench-peers: build ## Measure PulseMQ beside other brokers: make bench-peers RUNS=3 DIR=/mnt/nvme OUT=results
	@cd "$(ROOT)/bench/peers" && go build -o "$(ROOT)/bin/peers" .
	@cd "$(ROOT)" && bin/peers -programs bin -dir "$(DIR)" -runs $(RUNS) -out "$(OUT)"

.PHONY: sim
sim: ## Simulate brokers, clients, faults from seeds: make sim SEED=7 RUNS=1
	@cd "$(ROOT)" && GODEBUG=madvdontneed=0 GOGC=400 go run ./tools/sim -seed $(SEED) -runs $(RUNS)

.PHONY: clean
clean: ## Remove what was built; data folders stay
	rm -rf "$(ROOT)/bin"
