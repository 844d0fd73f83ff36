# Berth: everything a developer or a user of a source tree runs.
# `make` alone prints the list. Nothing here runs the compiler as root on
# behalf of an ordinary user: the build runs as the caller, and only the built
# binary runs under sudo.

SHELL         := /bin/bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS     += --no-print-directory

GO        ?= go
FUZZTIME  ?= 10s
STARTS    ?= 10
CHECKS    ?= 10000
BENCHARGS ?= --quick
CACHE     ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LINT      := $(GO) tool -modfile=tools/go.mod golangci-lint
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS    = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# The modules that need k8s.io/kubernetes, Helm, Prometheus, a browser, nfpm or a registry's library, so that the
# first one does not.
MODULES   := cmd/berth-scheduler test/cluster test/cluster/runtime test/chart test/monitoring test/web tools/dist tools/image
# Those of them whose tests need neither root nor Kubernetes.
UNIT      := test/chart test/monitoring test/web tools/dist tools/image

# The Go command decides by GOTOOLCHAIN whether it may fetch the toolchain that
# go.mod asks for. A choice of the caller's environment stands; a default of
# the distribution ("local" on Debian) does not.
GOTOOLCHAIN ?= auto
export GOTOOLCHAIN
# One set of flags for the programs, the tests and the linter in all modules, so that
# each package of Kubernetes is compiled once, also for a clone in another place:
# without cgo, as the shipped programs; without paths of this machine; without the
# tracing pages of gRPC, which would drag in the template engine and cost the agent
# 20 MB on disk and 12 MB of memory.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false -trimpath -tags=grpcnotrace)

# as_root runs a command under sudo unless the caller is root already.
define as_root
	if [ "$$(id -u)" -eq 0 ]; then $(1); \
	elif command -v sudo >/dev/null; then sudo $(1); \
	else echo 'this needs root and there is no sudo here; as root, run: cd $(CURDIR) && $(1)' >&2; exit 1; fi
endef

# Three kinds of packages: those that boot virtual machines; those with tests on
# the running kernel, one after the other, so that they do not take each other's
# CPUs; and all others.
KERNEL_TESTS := ./test/kernel/...
LIVE_TESTS   := $(addprefix ./,$(patsubst %/,%,$(sort $(dir $(wildcard internal/*/*live_test.go internal/*/*/*live_test.go)))))
OTHER_TESTS   = $$($(GO) list ./... | grep -v /test/kernel | grep -vxF "$$($(GO) list $(LIVE_TESTS))")

.PHONY: help
help: ## print this list
	@echo 'Berth $(VERSION). Targets:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile
	@echo 'Variables: FUZZTIME=$(FUZZTIME) STARTS=$(STARTS) CHECKS=$(CHECKS) BENCHARGS="$(BENCHARGS)" GO=$(GO)'

.PHONY: demo
demo: build ## build Berth and run its main job on this machine (asks for sudo)
	@$(call as_root,bin/berth demo)

.PHONY: build
build: check-go ## build bin/berth, static, as the caller
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/berth ./cmd/berth

.PHONY: scheduler
scheduler: check-go ## build bin/berth-scheduler: kube-scheduler with Berth in it (minutes the first time)
	cd cmd/berth-scheduler && kubernetes=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) && \
	$(GO) build -ldflags "$(LDFLAGS) -X k8s.io/component-base/version.gitVersion=$$kubernetes" -o ../../bin/berth-scheduler .

.PHONY: dist
dist: check-go ## what is shipped, into dist/: static binaries for amd64 and arm64, images, packages, checksums
	@GO='$(GO)' tools/dist.sh dist '$(VERSION)' '$(LDFLAGS)'

# From two directories of the same commit, with caches of their own for what is linked.
.PHONY: dist-twice
dist-twice: check-go ## builds `make dist` in two directories and compares every byte
	@scratch=$$(mktemp -d) && trap "rm -rf $$scratch" EXIT && \
	for tree in "$$scratch/one" "$$scratch/another/one"; do \
		mkdir -p "$$tree" && git archive '$(COMMIT)' | tar -x -C "$$tree" && \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct '$(COMMIT)') $(MAKE) -C "$$tree" dist VERSION='$(VERSION)' COMMIT='$(COMMIT)' >/dev/null; \
	done && diff -r "$$scratch/one/dist" "$$scratch/another/one/dist" && cat "$$scratch/one/dist/SHA256SUMS"

# The stages of `make test`, each with its budget: the CPU-seconds of all its processes on a
# machine like those of continuous integration, two to three times what was measured, since
# machines differ and an emulated one computes while it waits: node has room for a machine that
# is starved. It is work that a budget bounds, so a busy machine makes a stage slower and not
# red. The stages that compile have theirs from an empty cache: kernels, programs, compile and
# lint. The others run tests, and link them.
STAGES = bin/stages
STAGE  = bin/stage $(STAGES)

.PHONY: test
test: deps ## all tests: lint, unit, native kernel (as root), kernels in VMs, Kubernetes; a table of what they cost
	@$(GO) build -o bin/stage ./test/stage && rm -rf $(STAGES) bin/again
	@trap 'bin/stage $(STAGES) bin/again || exit 1' EXIT; \
	$(STAGE) kernels 1600 $(MAKE) kernels; \
	$(STAGE) programs 2400 $(MAKE) programs; \
	$(STAGE) compile 1400 $(MAKE) compile; \
	$(STAGE) native 240 $(MAKE) native; \
	$(MAKE) -j 2 stage-node stage-others

# Two go on at the same time: node is the longest and waits for a kubelet in its first half, while
# the others compute, one after the other. native is alone before them: it measures.
.PHONY: stage-node stage-others
stage-node:
	@$(STAGE) node 5000 $(MAKE) node
stage-others:
	@$(STAGE) lint 1300 $(MAKE) lint
	@$(STAGE) unit 300 $(MAKE) unit
	@$(STAGE) kubernetes 600 $(MAKE) kubernetes
	@$(STAGE) vm 2400 $(MAKE) vm

# Without vet, all of whose rules `make lint` has.
SUITE := GO='$(GO)' $(CURDIR)/tools/suite.sh

# What the linter and the tests need compiled.
.PHONY: compile
compile: check-go
	@for module in . $(MODULES); do $(GO) -C $$module list -export -deps -test ./... >/dev/null; done

.PHONY: unit
unit: check-go ## the tests that need neither root nor the kernel's groups
	$(SUITE) $(OTHER_TESTS) -- -timeout 30m
	@for module in $(UNIT); do echo "test $$module"; (cd $$module && $(SUITE) ./...); done

.PHONY: monitoring
monitoring: check-go ## dashboards and alert rules: queries against the metrics, promtool's tests of each alert
	cd test/monitoring && $(SUITE) ./...
	promtool=$$(tools/promtool.sh '$(CACHE)/berth/promtool') && "$$promtool" check rules deploy/monitoring/rules.yaml && \
	"$$promtool" test rules deploy/monitoring/rules_test.yaml

.PHONY: native
native: check-go ## the tests on the running kernel, as root, one package after the other
	$(SUITE) $(LIVE_TESTS) -- -timeout 30m -p 1

.PHONY: test-quick
test-quick: check-go ## the tests that need seconds and no root
	$(GO) test -short ./...

.PHONY: vm
vm: kernels ## the kernel cases in VMs: cgroup v2, two NUMA nodes, SMT, and an older kernel
	BERTH_VM=require $(SUITE) $(KERNEL_TESTS) -- -timeout 60m

.PHONY: kernels
kernels: check-go
	$(GO) run ./test/kernel/vm build

.PHONY: kubernetes
kubernetes: programs ## the scheduler in the real framework and with a real API server, and a real container runtime
	cd cmd/berth-scheduler && $(SUITE) ./... -- -timeout 30m
	cd test/cluster/runtime && $(SUITE) ./...
	cd test/cluster && BERTH_CLUSTER=require $(SUITE) $$($(GO) list ./... | grep -vE '$(WHOLE)') -- -timeout 60m -p 1 -parallel 3

# The packages that start a whole cluster, of which a machine has one at a time.
WHOLE := /test/cluster/(local|node|tour)$$

.PHONY: node
node: programs ## a whole cluster: the agent's faults and churn, and the documentation's manifests on two NUMA nodes
	cd test/cluster && BERTH_CLUSTER=require BERTH_VM=require BERTH_NODE_STARTS=$(STARTS) BERTH_CLUSTER_GUESTS='./node ./tour' $(GO) test -count=1 -vet=off -timeout 60m ./local

.PHONY: programs
programs: check-go
	$(GO) -C test/cluster run ./programs build
	$(GO) -C test/cluster run ./vmnode/build

# The programs are built by the caller, like bin/berth, into the caller's cache.
LOCALCLUSTER = env XDG_CACHE_HOME='$(CACHE)' "$$($(GO) -C test/cluster run ./programs path localcluster)"
TOUR = env XDG_CACHE_HOME='$(CACHE)' "$$($(GO) -C test/cluster run ./programs path tour)"

.PHONY: cluster
cluster: deps ## a real Kubernetes with Berth in it, on this machine; it stays up (asks for sudo)
	@$(GO) -C test/cluster run ./programs build >/dev/null
	@$(call as_root,$(LOCALCLUSTER) up)

.PHONY: cluster-down
cluster-down: check-go ## end what `make cluster` started; nothing is left
	@$(call as_root,$(LOCALCLUSTER) down)

.PHONY: demo-cluster
demo-cluster: cluster ## the manifests of ACK and Koordinator in that cluster: placements, masks, events, burst
	@$(call as_root,$(TOUR))

.PHONY: bench-cluster
bench-cluster: cluster ## the load of `berth bench burst` with the server as a pod of that cluster (BENCHARGS: --reps, --duration, --out DIR; PEER: the command of another agent)
	@$(call as_root,$(TOUR) bench --version '$(VERSION)' $(if $(PEER),--peer-command '$(PEER)') $(BENCHARGS))

.PHONY: lint
lint: check-go ## golangci-lint, with the rules of .golangci.yml, in every module
	$(LINT) run ./...
	@for module in $(MODULES); do \
		echo "lint $$module"; \
		(cd $$module && $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run -c $(CURDIR)/.golangci.yml ./...); done

.PHONY: fuzz
fuzz: check-go ## every fuzz target for FUZZTIME
	@GO='$(GO)' tools/fuzz.sh '$(FUZZTIME)'

.PHONY: bench
bench: build ## Go benchmarks, then `berth bench burst` on this machine (asks for sudo)
	$(GO) test -run '^$$' -bench . -benchmem -p 1 ./...
	@$(call as_root,bin/berth bench burst $(BENCHARGS))

.PHONY: verify
verify: deps build lint ## before a release: format, tidy, generate, race, long properties, every kernel
	$(LINT) fmt --diff
	$(GO) mod tidy -diff
	@for module in $(MODULES); do $(GO) -C $$module mod tidy -diff; done
	$(GO) mod verify
	$(GO) generate ./...
	git diff --exit-code
	CGO_ENABLED=1 $(GO) test -short -race ./...
	GO='$(GO)' tools/properties.sh '$(CHECKS)'
	$(MAKE) fuzz FUZZTIME=20000x
	$(MAKE) monitoring dist-twice
	BERTH_TUNE_HISTORIES=10000 BERTH_TUNE_KILLS=100 $(GO) test -count=1 -timeout 120m ./internal/tuner
	cd cmd/berth-scheduler && BERTH_EVENTS=1000000 $(GO) test -count=1 -timeout 600m -run '^TestStorm$$' ./internal/trial
	BERTH_VM_MATRIX=all BERTH_PAPER_EVENTS=10000 BERTH_CLUSTER_EVENTS=10000 BERTH_NODE_CHURN=240 $(MAKE) kubernetes node STARTS=100
	BERTH_VM=require BERTH_VM_MATRIX=all $(GO) test -count=1 -timeout 300m $(KERNEL_TESTS)

.PHONY: vuln
vuln: check-go ## known vulnerabilities in what Berth calls (asks vuln.go.dev)
	$(GO) tool -modfile=tools/go.mod govulncheck ./...

.PHONY: deps
deps: check-go ## install the Debian packages the tests need (as root), or print the line that does
	@GO='$(GO)' tools/deps.sh

.PHONY: clean
clean: ## remove what the build made
	rm -rf bin dist

.PHONY: check-go
check-go:
	@GO='$(GO)' tools/check-go.sh
