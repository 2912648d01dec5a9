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
# The flags of make bench.
BENCH ?=

EXAMPLE := examples/word-report
# SQLite is C turned into Go, and its memory is none of Go's, which the race detector
# would look at in vain: without it there, tests that store take half the time.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false
# What make test leaves out: tests that take long, and cases that vary others.
SHORT := -short
# How many packages are tested at one time: their tests wait, too, but calls in them have
# bounds on time, which a machine that has too much to do exceeds. ./host, which waits most,
# begins first, and ./internal/siege, which has bounds on how long runs take, has the machine
# to itself. And a program with the race detector waits for a second when it ends, unless
# GORACE says otherwise.
BESIDE := $(shell echo $$((1 + $$(getconf _NPROCESSORS_ONLN))))
# Packages with tests that compute much in one goroutine, where the race detector finds
# nothing and takes ten times as long: these tests run without it.
ALONE := ./approval/display ./compiler/... ./containment ./expr ./guardian ./intake ./ledger ./ledger/audit ./schemas
# And such tests of other packages, with those in which other processes do the work.
NAMED := TestABarrierCostsFewEvents|TestABarrierHoldsUpNobody|TestABarrierOfMany|TestFaultsAreFound|TestKillsLoseNoApproval|TestKillsRepeatNoEffect|TestPlansCompile|TestRandomSagas|TestScript|TestSilentServers|TestTwoBarriers|TestTwoSignTogether
# Those of them that run after the others: calls have bounds on time, which a busy machine
# exceeds.
LATER := TestABarrierHoldsUpNobody|TestKillsLoseNoApproval|TestRandomSagas|TestTwoBarriers|TestTwoSignTogether
# Packages with files that only the tag pkcs11 takes in.
TAGGED := ./host ./starter ./trust/pkcs11
# The version that the programs report; Go itself adds the revision.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)

.PHONY: help
help: ## list what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build server ## start everything on this machine and run the example plan, twice (ARGS=--exit ends after that)
	@bin/chimera dev --any-port --config $(EXAMPLE)/chimera.yaml --budget "reporter=10.00 USD/day" --run $(EXAMPLE)/plan.yaml \
		--input @$(EXAMPLE)/input.json --failing @$(EXAMPLE)/needs-page.json $(ARGS)
	@printf '\n$(EXAMPLE)/reports/verdict.md is as it was before the second run:\n  ' && cat $(EXAMPLE)/reports/verdict.md && echo

# Collecting garbage more seldom makes the compiler, and so this, faster by a seventh. And
# lint has vetted what go test would vet again. Databases of tests, and what else is in
# TMPDIR, are in memory if there is enough, since they ask thousands of times for what is
# thrown away to be on the disk; what Go builds, which is much, and the folders of single
# tests are in GOTMPDIR.
.PHONY: test
test: export GOGC = 400
test: export GOTMPDIR := $(or $(GOTMPDIR),$(TMPDIR),/tmp)
test: export TMPDIR := $(or $(shell tools/scratch.sh),$(TMPDIR),/tmp)
test: ## install what tests need, then lint and run the tests with the race detector, and again without it where that draws more cases
	@$(MAKE) --no-print-directory -j 2 setup server lint
	GORACE=atexit_sleep_ms=0 go test $(RACE) -vet=off $(SHORT) -p $(BESIDE) -timeout 40m ./host $$(go list ./... | grep -v /internal/siege$$)
	GORACE=atexit_sleep_ms=0 go test $(RACE) -vet=off $(SHORT) -timeout 40m ./internal/siege
	@$(MAKE) --no-print-directory tokens
	@$(MAKE) --no-print-directory -j 2 alone named

.PHONY: long
long: ## make test with all tests: those that take long, too, and every case of the others
	@$(MAKE) --no-print-directory test SHORT=

# What only programs with the tag pkcs11 do, on tokens of SoftHSM.
.PHONY: tokens
tokens:
	GORACE=atexit_sleep_ms=0 go test $(RACE) -vet=off -tags pkcs11 ./trust/pkcs11
	GORACE=atexit_sleep_ms=0 go test $(RACE) -vet=off -tags pkcs11 -run 'OnTokens?$$' ./host ./starter

# Without the race detector: packages as a whole, and beside them, which wait more than
# they compute, single tests of others. A test of internal/raced holds these lists to the
# tests that the race detector skips.
.PHONY: alone named
alone:
	go test -vet=off $(SHORT) -timeout 20m $(ALONE)
named:
	go test -vet=off $(SHORT) -timeout 20m -parallel 6 -p 2 -skip '^($(LATER))$$' -run '^($(NAMED))$$' ./host ./internal/sagas ./internal/siege ./ledger/postgres ./ledger/sqlite ./starter
	go test -vet=off $(SHORT) -timeout 20m -parallel 5 -p 2 -run '^($(LATER))$$' ./host ./internal/sagas

.PHONY: lint
lint: linters ## formatting, vet, staticcheck, exhaustive switches, determinism of workflows
	@unformatted=$$(gofmt -l $$(go list -f '{{.Dir}}' ./...)) && test -z "$$unformatted" \
		|| { echo "not formatted: $$unformatted" >&2; exit 1; }
	go vet ./...
	go vet -tags pkcs11 $(TAGGED)
	bin/lint/staticcheck ./...
	bin/lint/staticcheck -tags pkcs11 $(TAGGED)
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
	go test -timeout 60m -count=1 $(SHORT) -skip '^($(LATER))$$' ./host -production
	go test -timeout 60m -count=1 $(SHORT) -parallel 5 -run '^($(LATER))$$' ./host -production
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

.PHONY: build
build: ## build bin/chimera, bin/chimera-worker and the example's programs
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/chimera ./starter
	go build -ldflags '$(LDFLAGS)' -o bin/chimera-worker ./worker
	go build -o bin/ ./examples/...

.PHONY: setup
setup:
	@tools/setup.sh

# The Temporal server: built once, unless there is one on PATH.
.PHONY: server
server:
	@command -v temporal >/dev/null || $(MAKE) --no-print-directory bin/temporal

bin/temporal: tools/go.mod tools/go.sum
	@echo "building the Temporal server from tools/go.mod; this is done once and takes a few minutes" >&2
	@mkdir -p bin
	cd tools && go build -o ../bin/temporal.part github.com/temporalio/cli/cmd/temporal
	@mv bin/temporal.part $@

.PHONY: linters
linters:
	@mkdir -p bin/lint
	@cd tools/lint && go build -o ../../bin/lint/ tool
