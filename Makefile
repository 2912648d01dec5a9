# Two commands matter: make run and make test. make help lists all.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The flags of the example runs: make run ARGS=--exit ends after them.
ARGS ?=
# How long make fuzz spends on each target.
FUZZTIME ?= 60s
# Which targets make fuzz runs: a basic regular expression of their names.
FUZZ ?= .
# How many random plans and expressions make soak draws, and the first seed of all
# random cases.
PLANS ?= 2000
SEED ?= 1
# The flags of make bench, and of make faults.
BENCH ?=
FAULTS ?=
# The checkout that make cover measures.
TREE ?= .

EXAMPLE := examples/word-report
# What make test leaves out: see internal/lengthy.
SHORT := -short
# Packages that make test runs under the race detector, since their goroutines share memory
# of ours, and which are quick; make long has it for all packages.
#   blob                     writers of one blob at a time
#   catalog/live             readers of what another goroutine reloads
#   compiler/internal/pool   workers that share what is compiled
#   internal/dial            connections that are tried side by side
#   internal/parallel        panics that cross goroutines
#   internal/process         children, and what reads their output
#   payload                  the cache of plans, which all runs share
#   redact                   secrets that are added while text is scrubbed
#   skills                   the registry, and programs with their pipes
RACED := ./blob ./catalog/live ./compiler/internal/pool ./internal/dial ./internal/parallel ./internal/process ./payload ./redact ./skills
# SQLite is C turned into Go, and its memory is none of Go's, which the race detector
# would look at in vain. And a program with the race detector waits for a second when it
# ends, unless GORACE says otherwise.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false
export GORACE = atexit_sleep_ms=0
# Tests wait as often as they compute, so one more package than there are processors is
# tested at a time, and those that take longest begin first. lint has vetted what go test
# would vet again. Keys on tokens are in programs with the tag pkcs11.
TEST := go test -vet=off -tags pkcs11 -timeout 60m -p $(shell echo $$((1 + $$(getconf _NPROCESSORS_ONLN))))
FIRST := ./host ./starter ./mcp ./activities ./ledger/postgres ./worker
# The version that the programs report; Go itself adds the revision.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)

.PHONY: help
help: ## list what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What needs no server is shown before the server is built, which takes longest: there is
# something to read meanwhile.
.PHONY: run
run: ## start everything on this machine and run the example plan, twice (ARGS=--exit ends after that)
	@tools/step.sh "step 1 of 3: build chimera and the example's programs" $(MAKE) -s programs
	@printf '\nThe example compiled, in words, and what its effects would bring about. It runs when step 2 has built the server.\n'
	bin/chimera compile $(EXAMPLE)/plan.yaml --config $(EXAMPLE)/chimera.yaml
	@echo
	bin/chimera graph $(EXAMPLE)/plan.yaml --config $(EXAMPLE)/chimera.yaml --format words
	@echo
	-bin/chimera simulate $(EXAMPLE)/plan.yaml --config $(EXAMPLE)/chimera.yaml --input @$(EXAMPLE)/input.json --assume sum.total=20000
	@echo
	@tools/step.sh "step 2 of 3: build Temporal's development server (once; takes some minutes)" $(MAKE) -s server
	@echo "step 3 of 3: run the example, twice" >&2
	@begun=$$(date +%s) && bin/chimera dev --any-port --config $(EXAMPLE)/chimera.yaml --budget "reporter=10.00 USD/day" \
		--run $(EXAMPLE)/plan.yaml --input @$(EXAMPLE)/input.json --failing @$(EXAMPLE)/needs-page.json $(ARGS) \
		&& echo "step 3 of 3: done in $$(($$(date +%s) - begun)) s" >&2
	@printf '\n$(EXAMPLE)/reports/verdict.md is as it was before the second run:\n  ' && cat $(EXAMPLE)/reports/verdict.md && echo

# Databases of tests, and what else is in TMPDIR, are in memory if there is enough, since
# they ask thousands of times for what is thrown away to be on the disk; what Go builds,
# which is much, and the folders of single tests are in GOTMPDIR.
.PHONY: test
test long faults cover: export GOGC = 400
test long faults cover: export GOTMPDIR := $(or $(GOTMPDIR),$(TMPDIR),/tmp)
test long faults cover: export TMPDIR := $(or $(shell tools/scratch.sh),$(TMPDIR),/tmp)
test: ## install what tests need, lint, and run each test of the short tier once
	@$(MAKE) --no-print-directory -j 2 setup server lint
	@$(MAKE) --no-print-directory -j 2 raced plain

# The two parts of make test: they wait more than they compute, and so run side by side.
.PHONY: raced plain
raced:
	$(TEST) $(SHORT) $(RACE) $(RACED)
plain:
	$(TEST) $(SHORT) $(FIRST) $$(go list ./... | grep -vxF "$$(go list $(RACED))")

.PHONY: long
long: ## all else: every test under the race detector, all cases, siege, sagas, kills, the adversary, production
	@$(MAKE) --no-print-directory -j 2 setup server lint
	go vet ./host ./starter ./trust/pkcs11
	bin/lint/staticcheck ./host ./starter ./trust/pkcs11
	$(TEST) $(SHORT) $(RACE) $(FIRST) ./...
	$(TEST) $(FIRST) ./...
	@$(MAKE) --no-print-directory production

.PHONY: faults
faults: setup server ## plant the faults that internal/test/faults lists, and see that tests find each (up to an hour)
	go run ./internal/test/faults $(FAULTS)

.PHONY: cover
cover: setup server ## what make test covers of the packages that promises rest on (TREE=folder of another checkout)
	tools/cover.sh $(TREE)

.PHONY: lint
lint: linters ## formatting, vet, staticcheck, exhaustive switches, determinism of workflows
	@unformatted=$$(gofmt -l $$(go list -f '{{.Dir}}' ./...)) && test -z "$$unformatted" \
		|| { echo "not formatted: $$unformatted" >&2; exit 1; }
	go vet -tags pkcs11 ./...
	bin/lint/staticcheck -tags pkcs11 ./...
	bin/lint/exhaustive -d -typeonly '^chimera.ai/engine/(plan|contract|diag|host)\.' ./...
	bin/lint/workflowcheck ./workflows/...

.PHONY: bench
bench: server ## the engine beside hand-written workflows, what looking at tools costs, and a policy beside Cedar, as ratios (BENCH=flags)
	go run ./bench $(BENCH)
	go test ./mcp -run '^$$' -bench Pinned -benchtime 300x
	cd tools/cedar && go run .

.PHONY: memory
memory: ## a hundred different plans of 20,000 nodes hold no more than worker.cache_bytes (some minutes)
	go test -timeout 60m -count=1 -v -run 'MemoryIsBounded' ./activities -memory-plans 100 -memory-nodes 20000 -memory-bytes 268435456

.PHONY: fuzz
fuzz: ## run each fuzz target whose name matches FUZZ (all) for FUZZTIME (60s)
	@go list -f '{{.Dir}}' ./... | while read -r dir; do \
		grep -hos '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | sed 's/^func //' | grep -e '$(FUZZ)' | sort -u | while read -r target; do \
			echo "$$dir $$target"; \
			(cd "$$dir" && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x .) </dev/null || exit 1; \
		done || exit 1; \
	done

.PHONY: soak
soak: server ## the long form of random tests: schemas, plans and expressions in numbers (PLANS=2000 SEED=1)
	go test -timeout 120m ./containment -soak -seed $(SEED)
	go test -timeout 120m ./compiler -soak -seed $(SEED)
	go test -timeout 120m -v -run 'Checked|Narrow|Witnesses' ./compiler/plangen -expressions $(PLANS) -seed $(SEED)
	go test -timeout 120m -v -run 'RandomPlansDoNotFail|RefusalsAreReal' ./workflows -plans $(PLANS) -seed $(SEED)

.PHONY: siege
siege: PLANS = 300
siege: server ## run PLANS hostile plans under siege from SEED on: cancelled, late, flooded, reset, workers killed, the store away
	go test -timeout 30m -count=1 -v -run 'ThousandsOfNodes' ./host -huge
	go test -timeout 30m -count=1 -v -run 'Flood' ./host -flood 10000
	go test -timeout 600m -count=1 -v -run 'NoPlanWedgesItsRun|HundredThousand|StoreThatIsAway|MaxParallel|ManyL|OfAnySize' ./internal/siege -plans $(PLANS) -seed $(SEED) -huge

.PHONY: sagas
sagas: PLANS = 1000
sagas: server ## run PLANS random plans with effects from SEED on, and hold the tool's own journal against a model (1000)
	go test -timeout 240m -count=1 -v -run 'Sagas' ./internal/sagas -plans $(PLANS) -seed $(SEED)

.PHONY: adversary
adversary: N = 400
adversary: server ## play whoever holds one key, database user or disk of a deployment, with N random attacks from SEED on (400)
	go test -timeout 240m -count=1 -v -run 'Adversary|Documented' ./internal/adversary -whole -random $(N) -seed $(SEED)

.PHONY: explore
explore: ## walk every interleaving of those who deal with one effect, a barrier, a statement or a saga, and print the number of states
	go test -timeout 20m -count=1 -v -run 'Protocol' ./ledger -ticks 5

.PHONY: chaos
chaos: KILLS = 200
chaos: server ## kill what writes the ledger, and what has to do with effects, in the midst of work, KILLS times each (200)
	go test -timeout 120m -count=1 -v -run 'Crash' ./ledger/postgres ./ledger/sqlite -crashes $(KILLS)
	go test -timeout 240m -count=1 -v -run 'TestKills' ./host -kills $(KILLS)

.PHONY: production
production: server ## the tests of effects once more, in production: on PostgreSQL, with a host, a database user and keys for each role, and children of another user, who look for what is kept from them
	go test -timeout 60m -count=1 $(SHORT) ./host -production
	go test -timeout 20m -count=1 $(SHORT) ./worker ./internal/process

.PHONY: verify
verify: ## modules are tidy and as published, generated files are as their sources say
	go mod verify
	cd tools && go mod verify
	cd tools/lint && go mod verify
	cd tools/cedar && go mod verify
	go test -count=1 -run '^Test(Architecture|DiagnosticsPage|EditorSchemas|Golden|GoldenChecked|Picture|Reference)$$' ./compiler ./config ./examples/word-report ./graph ./internal/deps ./internal/docs
	go mod tidy -diff
	cd tools/cedar && go mod tidy -diff && go vet ./...

.PHONY: clean
clean: ## remove what was built; the state of dev mode (.chimera) stays
	rm -rf bin

# Collecting garbage more seldom makes the compiler faster by a seventh.
build programs bin/temporal: export GOGC := $(or $(GOGC),400)

.PHONY: build programs
build: programs ## build bin/chimera, bin/chimera-worker and the example's programs
	go build -ldflags '$(LDFLAGS)' -o bin/chimera-worker ./worker
programs:
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/chimera ./starter
	go build -o bin/ ./examples/...

.PHONY: setup
setup:
	@tools/setup.sh

# The Temporal server: built once, unless there is one on PATH.
.PHONY: server
server:
	@command -v temporal >/dev/null || $(MAKE) --no-print-directory bin/temporal

bin/temporal: tools/go.mod tools/go.sum
	: this is done once, and takes some minutes
	@mkdir -p bin
	cd tools && go build -o ../bin/temporal.part github.com/temporalio/cli/cmd/temporal
	@mv bin/temporal.part $@

.PHONY: linters
linters:
	@mkdir -p bin/lint
	@cd tools/lint && go build -o ../../bin/lint/ tool
