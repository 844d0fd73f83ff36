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
STARTS    ?= 100
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
# Those of them whose tests need neither root nor Kubernetes, nor a browser.
UNIT      := test/chart test/monitoring tools/dist tools/image

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
LIVE_TESTS   := $(addprefix ./,$(patsubst %/,%,$(sort $(dir $(wildcard internal/*/*live_test.go internal/*/*/*live_test.go internal/*/*/*/*live_test.go)))))
OTHER_TESTS   = $$($(GO) list ./... | grep -v /test/kernel | grep -vxF "$$($(GO) list $(LIVE_TESTS))")

.PHONY: help
help: ## print this list
	@echo 'Berth $(VERSION). Targets:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-19s %s\n", $$1, $$2}' Makefile
	@echo 'Variables: FUZZTIME=$(FUZZTIME) STARTS=$(STARTS) CHECKS=$(CHECKS) BENCHARGS="$(BENCHARGS)" GO=$(GO)'

.PHONY: demo
demo: build ## build Berth and show each capability on this machine (asks for sudo)
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

# The stages of `make test`, one after the other. All of them run, also when one is red, and the
# report at the end says what each cost, and which tests failed or passed in their second run only.
# docs/verify.md says which tests are where.
STAGES := bin/stages
ORDER  := fetch programs compile unit lint page native kubernetes node vm

.PHONY: test
test: deps ## all that a change has to pass: lint, unit, native kernel (as root), Kubernetes, one VM
	@$(GO) build -o bin/stage ./test/stage && rm -rf $(STAGES)
	@for stage in $(ORDER); do \
		bin/stage run $(STAGES) $$stage $(MAKE) $$stage STAGED=1 || [ $$? -lt 128 ] || exit; \
	done; bin/stage report $(STAGES)

# What needs the network has three tries.
thrice = for try in 1 2 3; do if $(1); then break; fi; [ $$try -lt 3 ] || exit 1; echo "once more in 10 s" >&2; sleep 10; done

.PHONY: fetch
fetch: check-go
	@for module in . $(MODULES); do $(call thrice,$(GO) -C $$module list -deps -test ./... >/dev/null); done
	@$(call thrice,$(GO) list -modfile=tools/go.mod -deps tool >/dev/null)
	@$(call thrice,$(GO) run ./test/kernel/vm build)

# Without vet, all of whose rules `make lint` has.
SUITE := GO='$(GO)' $(CURDIR)/tools/suite.sh

# What the linter and the tests need compiled.
.PHONY: compile
compile: check-go
	@for module in . $(MODULES); do $(GO) -C $$module list -export -deps -test ./... >/dev/null; done

# What a target needs that is built in a stage of its own: nothing, once that stage has run.
BUILT := $(if $(STAGED),check-go,programs)

# None of them may be unsteady: each runs once.
.PHONY: unit
unit: check-go ## the tests that need neither root nor the kernel's groups
	@red=0; $(SUITE) --once $(OTHER_TESTS) -- -timeout 4h || red=1; \
	for module in $(UNIT); do echo "test $$module"; (cd $$module && $(SUITE) --once ./... -- -timeout 4h) || red=1; done; exit $$red

.PHONY: page
page: check-go ## the page in a real browser
	cd test/web && $(SUITE) ./... -- -timeout 4h

.PHONY: monitoring
monitoring: check-go ## dashboards and alert rules: queries against the metrics, promtool's tests of each alert
	cd test/monitoring && $(SUITE) ./...
	promtool=$$(tools/promtool.sh '$(CACHE)/berth/promtool') && "$$promtool" check rules deploy/monitoring/rules.yaml && \
	"$$promtool" test rules deploy/monitoring/rules_test.yaml

# Tests that one of the targets below has and the stages of `make test` have not, by names for
# -run and -skip; docs/verify.md has the reason of each, and test/arch wants each name to exist.
# TIMED ones judge by the clock or by shares of it, on a machine that has to be quiet.
TIMED := ^TestLiveAbuserFallsBackToItsLimit$$|^TestLiveBlockedWayBackGoesAsFarAsItCan$$|^TestInterruptedDemoLeavesNothing$$
# NET ones ask the network.
NET := ^TestTuneBansWithIrqbalance$$
# FAULTS are long histories and faults of the servers of a cluster.
FAULTS := ^TestRandomEvents$$|^TestFiveHundredPodsAtOnce$$|^TestKilledBetweenReserveAndBind$$|^TestAPIServerAway$$|^TestLeaderKilled$$|^TestLeaderFrozen$$|^TestDeletedWhileBinding$$|^TestPreemption$$|^TestSilentAgent$$|^TestOneWritePerPod$$|^TestBenchSchedule$$|^TestBenchScheduleSideBySide$$|^TestBenchScheduleInterrupted$$|^TestManyStarts$$|^TestTooSlowForTheRuntime$$|^TestOwnLimit$$|^TestRuntimeRestarts$$|^TestRival$$|^TestLargeNode$$
# SMOKE are the cases of the node that `make test` has.
SMOKE := ^TestNode$$/^(FirstInstruction|Change|BadAnnotations|OtherScheduler|PodLevel|AgentKilled|ServerKilled|Terminated|Rollback)$$

.PHONY: native
native: check-go ## the tests on the running kernel, as root, one package after the other
	$(SUITE) $(filter-out ./internal/proof/bench,$(LIVE_TESTS)) -- -timeout 4h -p 1 -skip '$(TIMED)|$(NET)'

.PHONY: test-quick
test-quick: check-go ## the tests that need seconds and no root
	$(GO) test -short ./...

.PHONY: vm
vm: check-go ## the kernel cases on one stock kernel in a VM: cgroup v2, two NUMA nodes, SMT
	BERTH_VM=require $(SUITE) $(KERNEL_TESTS) -- -timeout 4h

.PHONY: kubernetes
kubernetes: $(BUILT) ## the scheduler in the real framework and with a real API server, and a real container runtime
	@red=0; for module in cmd/berth-scheduler test/cluster/runtime; do (cd $$module && $(SUITE) ./... -- -timeout 4h) || red=1; done; \
	(cd test/cluster && BERTH_CLUSTER=require $(SUITE) $$($(GO) list ./... | grep -vE '$(WHOLE)') -- -timeout 4h -p 1 -parallel 3 -skip '$(FAULTS)') || red=1; exit $$red

# The packages that start a whole cluster, of which a machine has one at a time.
WHOLE := /test/cluster/(local|node|tour)$$

.PHONY: node
node: $(BUILT) ## a whole cluster on this machine, from its start to its end, with some cases of the agent in it
	cd test/cluster && BERTH_CLUSTER=require BERTH_NODE_STARTS=4 BERTH_NODE_CHANGES=2 BERTH_CLUSTER_GUESTS='./node' BERTH_CLUSTER_RUN='$(SMOKE)' \
		$(SUITE) ./local -- -timeout 4h -run '^TestCluster$$|^TestPinnable$$|^TestWhereFilesAre$$' -skip '^TestCluster$$/^(images|servers_come_back)$$'

.PHONY: programs
programs: check-go
	@$(call thrice,$(GO) -C test/cluster run ./programs build)

# Apart from the other programs, because only verify-node has a test that needs it.
.PHONY: helm
helm: check-go
	@$(call thrice,$(GO) -C test/cluster run ./programs helm)

# The verify targets draw new cases each time; `make test` draws the same ones for the same commit.
verify-kernels verify-node verify-tour verify-cluster verify-properties verify-storm: export BERTH_SEED ?= random

.PHONY: verify-deps
verify-deps: check-go
	@GO='$(GO)' tools/deps.sh all
	@$(call thrice,$(GO) run ./test/kernel/vm build all)

.PHONY: verify-kernels
verify-kernels: verify-deps ## all kernel cases on two kernels with three layouts of cgroups each, boot loaders, hung guests, the arm64 program
	BERTH_VM=require BERTH_VM_MATRIX=all $(SUITE) $(KERNEL_TESTS) -- -timeout 8h

.PHONY: verify-node
verify-node: deps programs helm ## all cases of the agent on the node of a cluster, with long churn, and a cluster that is interrupted and killed
	@$(call thrice,$(GO) -C test/monitoring list -deps ./queries >/dev/null)
	@$(call thrice,tools/promtool.sh '$(CACHE)/berth/promtool' prometheus >/dev/null)
	prometheus=$$(tools/promtool.sh '$(CACHE)/berth/promtool' prometheus) && \
	cd test/cluster && BERTH_PROMETHEUS="$$prometheus" BERTH_CLUSTER=require BERTH_NODE_STARTS=$(STARTS) BERTH_NODE_CHURN=240 BERTH_CLUSTER_GUESTS='./node' $(SUITE) ./local -- -timeout 8h

.PHONY: verify-tour
verify-tour: verify-deps programs ## the documentation's manifests and faults on a node in a virtual machine with two NUMA nodes and systemd; host profiles and packages on systemd
	@$(call thrice,$(GO) -C test/cluster run ./vmnode/build)
	@$(call thrice,$(GO) -C tools/dist list -deps ./pages tool >/dev/null)
	cd test/cluster && BERTH_CLUSTER=require BERTH_VM=require BERTH_CLUSTER_GUESTS='./tour' $(SUITE) ./local -- -timeout 8h -run '^TestCluster$$'
	cd test/cluster && BERTH_CLUSTER=require BERTH_VM=require BERTH_VM_MATRIX=all $(SUITE) ./vmnode -- -timeout 8h

.PHONY: verify-cluster
verify-cluster: deps programs ## the scheduler and the agents' side with faults, long random histories and agents by the hundred
	cd cmd/berth-scheduler && BERTH_EVENTS=10000 BERTH_PAPER_EVENTS=10000 $(SUITE) ./... -- -timeout 8h
	cd test/cluster && BERTH_CLUSTER=require BERTH_CLUSTER_EVENTS=10000 $(SUITE) $$($(GO) list ./... | grep -vE '$(WHOLE)') -- -timeout 8h -p 1 -parallel 3

.PHONY: verify-timing
verify-timing: check-go ## what judges by the clock; on a quiet machine
	@GO='$(GO)' tools/deps.sh all
	$(SUITE) ./internal/proof/bench -- -timeout 4h
	BERTH_SEEDS=require $(SUITE) ./internal/proof/seeds -- -timeout 4h -run '^TestSeed(Programs|Profiles)$$'
	$(SUITE) $(LIVE_TESTS) -- -timeout 4h -p 1 -run '$(TIMED)'

.PHONY: verify-properties
verify-properties: deps ## CHECKS cases of each property, fuzzing, long histories of the tuner, the race detector
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GO) test -short -race -timeout 2h ./...
	GO='$(GO)' tools/properties.sh '$(CHECKS)'
	$(MAKE) fuzz FUZZTIME=20000x
	BERTH_ALLOC_STATES=100000 $(GO) test -count=1 -timeout 8h ./internal/capability/place/alloc
	BERTH_TUNE_HISTORIES=10000 BERTH_TUNE_KILLS=100 $(GO) test -count=1 -timeout 8h ./internal/capability/tune/tuner

.PHONY: verify-storm
verify-storm: check-go ## a million random events for the scheduler, about an hour of CPU time
	cd cmd/berth-scheduler && BERTH_EVENTS=1000000 BERTH_QUICK_EVENTS=1000000 $(GO) test -count=1 -timeout 24h -run '^Test(Quick)?Storm$$' ./internal/trial

.PHONY: verify-net
verify-net: deps ## what asks the network: irqbalance, promtool, packages built twice, checksums of modules, the newest stock kernel
	@$(GO) run ./test/kernel/vm newest
	$(SUITE) ./internal/cli -- -timeout 4h -run '$(NET)'
	$(GO) mod verify
	$(MAKE) monitoring dist-twice

# The programs are built by the caller, like bin/berth, into the caller's cache.
LOCALCLUSTER = env XDG_CACHE_HOME='$(CACHE)' "$$($(GO) -C test/cluster run ./programs path localcluster)"
TOUR = env XDG_CACHE_HOME='$(CACHE)' "$$($(GO) -C test/cluster run ./programs path tour)"

.PHONY: cluster
cluster: deps ## a real Kubernetes with Berth in it, on this machine; it stays up (asks for sudo)
	@$(GO) -C test/cluster run ./programs build >/dev/null
	@$(call as_root,$(LOCALCLUSTER) up)

.PHONY: cluster-down
cluster-down: check-go ## end what `make cluster` started; nothing is left
	@$(GO) -C test/cluster build -o '$(CURDIR)/bin/localcluster' ./localcluster
	@$(call as_root,bin/localcluster down)

.PHONY: demo-cluster
demo-cluster: cluster ## the manifests of ACK and Koordinator in that cluster: placements, masks, events, isolation, burst, borrowed cores
	@$(call as_root,$(TOUR))

.PHONY: bench-cluster
bench-cluster: cluster ## the load of `berth bench burst` with the server as a pod of that cluster (BENCHARGS: --reps, --reps-by-noise, --duration, --out DIR; PEER: the command of another agent)
	@$(call as_root,$(TOUR) bench --version '$(VERSION)' $(if $(PEER),--peer-command '$(PEER)') $(BENCHARGS))

.PHONY: bench-agent-cluster
bench-agent-cluster: cluster ## what the agent of that cluster costs at rest and with 250 raised groups (BENCHARGS: --reps, --rest, --trace, --out DIR)
	@$(call as_root,$(TOUR) cost --version '$(VERSION)' $(BENCHARGS))

.PHONY: bench-seeds
bench-seeds: cluster ## the experiments of `berth bench seeds` with pods of that cluster (BENCHARGS: --reps, --duration, --out DIR, then names)
	@$(call as_root,$(TOUR) seeds --version '$(VERSION)' $(BENCHARGS))

.PHONY: lint
lint: check-go ## golangci-lint, with the rules of .golangci.yml, in every module
	@red=0; for module in . $(MODULES); do \
		echo "lint $$module"; \
		(cd $$module && $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run -c $(CURDIR)/.golangci.yml ./...) || red=1; \
	done; exit $$red

.PHONY: fuzz
fuzz: check-go ## every fuzz target for FUZZTIME
	@GO='$(GO)' tools/fuzz.sh '$(FUZZTIME)'

.PHONY: bench
bench: build ## Go benchmarks, then `berth bench burst` on this machine (asks for sudo)
	$(GO) test -run '^$$' -bench . -benchmem -p 1 ./...
	@$(call as_root,bin/berth bench burst $(BENCHARGS))

.PHONY: bench-viewers
bench-viewers: check-go ## what viewers, the page and berth top cost; as root, on an idle machine, a quarter of an hour
	$(GO) test -run '^$$' -bench '^BenchmarkView$$' -benchtime 300x ./internal/agent
	$(GO) test -run '^$$' -bench '^BenchmarkWatched$$' -benchtime 60x -timeout 1h ./internal/agent
	$(GO) test -run '^$$' -bench '^BenchmarkViewers$$' -benchtime 20x -timeout 1h ./internal/agent
	$(GO) test -run '^$$' -bench '^BenchmarkTopInATerminal$$' -benchtime 60x ./internal/cli
	$(GO) -C test/web test -run '^$$' -bench '^BenchmarkPage$$' -benchtime 60x .

.PHONY: verify
verify: test ## before a release: format, tidy, generate, and each verify target, one after the other
	$(LINT) fmt --diff
	$(GO) mod tidy -diff
	@for module in $(MODULES); do $(GO) -C $$module mod tidy -diff; done
	$(GO) generate ./...
	git diff --exit-code
	$(MAKE) verify-properties verify-timing verify-kernels verify-cluster verify-node verify-tour verify-net verify-storm

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
