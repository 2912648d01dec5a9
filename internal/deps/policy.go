// Package deps is the import policy of this project: which package may import
// what, as one table, and the check that holds the source to it.
//
// The table is data on purpose. A build that breaks it is fixed by moving
// code, not by changing a row; a row changes only when the design does.
//
// A package's imports are those of its files that are not tests, for every
// operating system and build tag. What is forbidden may be imported neither by
// the package itself nor by any package of this project that it reaches. The
// imports of other modules and of the standard library do not count: they say
// nothing about what our code does.
package deps

// Module is the path of this project's module.
const Module = "chimera.ai/engine"

// Zone is a column of the picture in ARCHITECTURE.md: what the code of a
// package may do.
type Zone string

// The zones.
const (
	// Pure: no I/O, no clock, no goroutine that outlives a call; equal arguments
	// give equal results.
	Pure Zone = "pure"
	// Deterministic: workflow code, which Temporal replays.
	Deterministic Zone = "deterministic"
	// Effects: files, network, processes, clocks.
	Effects Zone = "side effects"
)

// Rule is one row of the table.
type Rule struct {
	// Path is the package's path inside the module, or "folder/..." for a folder
	// and everything in it.
	Path string
	Zone Zone
	// Owns says in one line what the package is for.
	Owns string
	// Never lists what the package may not import: a path inside the module, or
	// a name of [Groups]. A path forbids everything below it too.
	Never []string
	// Except lists paths inside the module that Never does not cover.
	Except []string
	// Planned: the package does not exist yet. The check fails once it does, so
	// that the mark goes with it.
	Planned bool
}

// Groups are the names that rules use for sets of import paths outside this
// project, and for "all of it". A path covers everything below it.
var Groups = map[string][]string{
	"any package of ours": {Module},
	"Temporal":            {"go.temporal.io"},
	"Temporal's client": {
		"go.temporal.io/sdk/client", "go.temporal.io/sdk/worker", "go.temporal.io/sdk/activity",
	},
	"mcp-go": {"github.com/mark3labs/mcp-go"},
	"YAML": {
		"go.yaml.in/yaml", "gopkg.in/yaml.v2", "gopkg.in/yaml.v3", "sigs.k8s.io/yaml", "github.com/goccy/go-yaml",
	},
	"pgx":      {"github.com/jackc/pgx"},
	"SQLite":   {"modernc.org/sqlite", "github.com/mattn/go-sqlite3"},
	"os":       {"os"},
	"net":      {"net"},
	"sync":     {"sync"},
	"log/slog": {"log"},
	"tests":    {"testing", "github.com/stretchr/testify", "pgregory.net/rapid", "github.com/google/go-cmp"},
}

// Harmless are packages that only work on text, which no entry of Never is about.
var Harmless = []string{"net/url", "net/netip", Module + "/internal/excerpt", Module + "/internal/strict"}

// Rules is the table, in the order of the picture: pure, deterministic, side
// effects, composition.
var Rules = []Rule{
	// Pure.
	{Path: "diag", Zone: Pure, Owns: "findings: codes, ranges, writers for people and programs",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "schemas", Zone: Pure, Owns: "the guarded JSON Schema validator, and the JSON Schemas of our own files",
		Never: []string{"any package of ours", "Temporal", "os", "net"}, Except: []string{"diag"}},
	{Path: "containment", Zone: Pure, Owns: "whether one JSON Schema contains another, with witnesses",
		Never: []string{"plan", "compiler", "Temporal", "os", "net"}},
	{Path: "expr", Zone: Pure, Owns: "CEL predicates and JSON templates: check and evaluate",
		Never: []string{"compiler", "workflows", "activities", "Temporal", "os", "net"}},
	{Path: "plan", Zone: Pure, Owns: "the compiled plan: closed types, canonical bytes, digest, which nodes run",
		Never: []string{"compiler", "expr", "schemas", "YAML", "Temporal", "os", "net", "sync"}},
	{Path: "contract", Zone: Pure, Owns: "where workflow code and activities meet: names, requests, results, error kinds",
		Never: []string{"any package of ours", "Temporal", "os", "net", "sync"}},
	{Path: "fingerprint", Zone: Pure, Owns: "what an MCP server declares, and where it is, as digests",
		Never: []string{"any package of ours", "Temporal", "mcp-go", "os", "net"}, Except: []string{"plan", "contract", "schemas"}},
	{Path: "conform/verdict", Zone: Pure, Owns: "the cases of the conformance suite, and their verdicts of a server as a digest",
		Never: []string{"any package of ours", "Temporal", "mcp-go", "os", "net"}, Except: []string{"plan", "contract", "schemas", "fingerprint"}},
	{Path: "intake", Zone: Pure, Owns: "what the definition of an MCP tool suggests to say of it, and what people should look at",
		Never:  []string{"any package of ours", "Temporal", "mcp-go", "os", "net"},
		Except: []string{"plan", "contract", "schemas", "approval/display"}},
	{Path: "lookahead", Zone: Pure, Owns: "what is known of a run's effects before it starts: the data flow of a plan without its calls",
		Never: []string{"compiler", "guardian", "ledger", "workflows", "activities", "skills", "Temporal", "os", "net"}},
	{Path: "internal/syntax", Zone: Pure, Owns: "YAML and JSON documents with the exact place of every token",
		Never: []string{"any package of ours", "Temporal", "os", "net"}, Except: []string{"diag"}},
	{Path: "internal/fields", Zone: Pure, Owns: "maps of a document read by tables of their fields; the findings of a file",
		Never: []string{"any package of ours", "Temporal", "os", "net"}, Except: []string{"diag", "internal/syntax"}},
	{Path: "internal/embedded", Zone: Pure, Owns: "expressions compiled where they stand in a document",
		Never: []string{"compiler", "Temporal", "os", "net"}, Except: []string{"internal/fields", "internal/syntax"}},
	{Path: "internal/strict", Zone: Pure, Owns: "JSON that has to be as its format says, decoded",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "internal/elementary", Zone: Pure, Owns: "exp and log, with the same bits on every machine",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "internal/parallel", Zone: Pure, Owns: "concurrent calls whose panics reach the caller",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "catalog", Zone: Pure, Owns: "what the operator says about operations and adapters, as values and files",
		Never:  []string{"compiler", "ledger", "mcp", "Temporal", "pgx", "SQLite", "YAML", "os", "net"},
		Except: []string{"internal/fields", "internal/syntax"}},
	{Path: "registry", Zone: Pure, Owns: "the tools that were imported, as templates of a catalog",
		Never: []string{"mcp", "Temporal", "pgx", "SQLite", "YAML", "os", "net"}},
	{Path: "policy", Zone: Pure, Owns: "the operator's policy bundle, as values",
		Never:  []string{"compiler", "ledger", "mcp", "Temporal", "pgx", "SQLite", "YAML", "os", "net"},
		Except: []string{"internal/embedded", "internal/fields", "internal/syntax"}},
	{Path: "compiler", Zone: Pure, Owns: "source to compiled plan: the table of passes, the compiled plan, what cannot run yet",
		Never: []string{"guardian", "ledger", "workflows", "activities", "mcp", "skills", "host", "config", "blob", "payload",
			"Temporal", "mcp-go", "pgx", "SQLite", "YAML", "os", "net"},
		Except: []string{"guardian/causal", "internal/fields", "internal/syntax"}},
	{Path: "compiler/lint", Zone: Pure, Owns: "the linted graph: what a plan says, and all that can be said without its schemas and expressions",
		Never: []string{"compiler/typing", "compiler/judge", "compiler/internal/proof", "Temporal", "os", "net"}, Except: []string{"internal/syntax"}},
	{Path: "compiler/notation", Zone: Pure, Owns: "plans written in their long and their short notation",
		Never: []string{"compiler/typing", "compiler/judge", "compiler/internal/proof", "Temporal", "os", "net"}, Except: []string{"internal/syntax"}},
	{Path: "compiler/typing", Zone: Pure, Owns: "the typed graph: schemas, expressions and costs, and what is proved of them",
		Never: []string{"compiler/judge", "Temporal", "os", "net"}, Except: []string{"internal/syntax"}},
	{Path: "compiler/judge", Zone: Pure, Owns: "the judged graph: effects, taint, and trust in operations",
		Never: []string{"Temporal", "os", "net"}, Except: []string{"internal/syntax"}},
	{Path: "compiler/internal/pool", Zone: Pure, Owns: "the schemas of one file, each once, with its ports",
		Never: []string{"any package of ours", "Temporal", "os", "net"}, Except: []string{"diag", "plan", "contract", "schemas"}},
	{Path: "compiler/internal/proof", Zone: Pure, Owns: "questions about schemas, each answered once, within the budget of a file",
		Never: []string{"compiler/internal/pool", "compiler/lint", "compiler/typing", "compiler/judge", "Temporal", "os", "net"}, Except: []string{"internal/syntax"}},
	{Path: "compiler/plangen", Zone: Pure, Owns: "generated plans of any size, for tests and benchmarks",
		Never: []string{"workflows", "activities", "mcp", "skills", "host", "config", "Temporal", "YAML", "os", "net"}},
	{Path: "graph", Zone: Pure, Owns: "pictures of a compiled plan: Mermaid, DOT, SVG",
		Never: []string{"workflows", "activities", "host", "config", "mcp", "skills", "Temporal", "YAML", "os", "net"}},
	{Path: "internal/draw", Zone: Pure, Owns: "what pictures share: the layout of layered graphs, foreign text in SVG",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "guardian", Zone: Pure, Owns: "decisions: rules typed by the catalog, and what they say of an action",
		Never:  []string{"compiler", "ledger/sqlstore", "ledger/postgres", "ledger/sqlite", "mcp", "Temporal", "mcp-go", "pgx", "SQLite", "YAML", "os", "net"},
		Except: []string{"internal/embedded", "internal/fields", "internal/syntax"}},
	{Path: "guardian/causal/calibrate", Zone: Pure, Owns: "how good the forecasts of causal models were: scores, intervals, drift",
		Never: []string{"ledger", "Temporal", "pgx", "SQLite", "os", "net"}},
	{Path: "guardian/causal/plot", Zone: Pure, Owns: "pictures of causal models, their forecasts and their calibration: SVG",
		Never: []string{"ledger", "Temporal", "pgx", "SQLite", "os", "net"}},
	{Path: "guardian/causal", Zone: Pure, Owns: "causal models: files, and what they predict of an action",
		Never:  []string{"compiler", "guardian", "ledger", "mcp", "Temporal", "mcp-go", "pgx", "SQLite", "YAML", "os", "net"},
		Except: []string{"internal/embedded", "internal/fields", "internal/syntax"}},
	{Path: "guardian/causal/fit", Zone: Pure, Owns: "mechanisms of causal models estimated from data, and models drafted from past calls",
		Never: []string{"guardian", "ledger", "catalog", "Temporal", "mcp-go", "pgx", "SQLite", "YAML", "os", "net"}, Except: []string{"guardian/causal"}},
	{Path: "approval", Zone: Pure, Owns: "what people sign when they approve: requests, envelopes, verification, quorum",
		Never: []string{"guardian", "Temporal", "pgx", "SQLite", "os", "net"}},
	{Path: "approval/display", Zone: Pure, Owns: "the text that people are shown before they sign",
		Never: []string{"any package of ours", "Temporal", "os", "net"}, Except: []string{"plan", "schemas", "contract"}},
	{Path: "trust/pkcs11", Zone: Effects, Owns: "keys on PKCS #11 tokens: URIs, sessions, signatures",
		Never: []string{"any package of ours", "Temporal", "net"}},
	{Path: "trust/sshsig", Zone: Pure, Owns: "signatures of OpenSSH, their keys, and the attestation of those",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "trust", Zone: Pure, Owns: "authority: bootstrap, statements and their chain, signatures of plans, manifests and starts",
		Never: []string{"ledger/sqlstore", "ledger/postgres", "ledger/sqlite", "Temporal", "mcp", "mcp-go", "pgx", "SQLite", "os", "net"}},
	{Path: "redact", Zone: Pure, Owns: "secrets taken out of answers, errors and logs",
		Never: []string{"any package of ours", "Temporal", "os"}},
	{Path: "task", Zone: Pure, Owns: "the three stages of a task, each a type",
		Never: []string{"any package of ours", "Temporal", "os", "net"}, Except: []string{"schemas", "plan", "contract"}},
	{Path: "ledger", Zone: Pure, Owns: "entries, entities, the log, the store's interface",
		Never: []string{"Temporal", "pgx", "SQLite"}},
	{Path: "ledger/internal/scan", Zone: Pure, Owns: "canonical JSON, read from left to right",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "ledger/model", Zone: Pure, Owns: "what the entries of a log say, one after the other",
		Never: []string{"ledger/sqlstore", "Temporal", "pgx", "SQLite"}},

	// Deterministic.
	{Path: "workflows", Zone: Deterministic, Owns: "the interpreter: decides order, evaluates nothing",
		Never: []string{"activities", "guardian", "compiler", "expr", "schemas", "ledger", "mcp", "skills", "config", "blob", "host",
			"internal/syntax", "Temporal's client", "mcp-go", "YAML", "pgx", "SQLite", "os", "net", "sync", "log/slog"}},

	// Side effects.
	{Path: "review", Zone: Effects, Owns: "what approvers see: barriers from the ledger, and the text that they sign, computed anew",
		Never: []string{"starter", "console", "workflows", "activities", "host", "config", "ledger/sqlstore", "Temporal", "mcp", "pgx", "SQLite", "YAML"}},
	{Path: "activities", Zone: Effects, Owns: "load, call, route, journal, behind small interfaces that it declares",
		Never: []string{"workflows", "internal/syntax", "host", "config", "mcp", "mcp-go", "pgx", "SQLite", "YAML"}},
	{Path: "skills", Zone: Effects, Owns: "Go skills by registration, the engine's own skills, executables",
		Never: []string{"workflows", "activities", "guardian", "ledger", "compiler", "host", "Temporal", "mcp-go"}},
	{Path: "mcp", Zone: Effects, Owns: "calls of MCP tools, and resources, over stdio and HTTP",
		Never: []string{"workflows", "activities", "guardian", "ledger", "compiler", "host", "Temporal"}},
	{Path: "catalog/live", Zone: Effects, Owns: "what a catalog says of MCP servers, held against what they offer now",
		Never: []string{"workflows", "activities", "guardian", "ledger", "compiler", "skills", "host", "config", "Temporal"}},
	{Path: "conform", Zone: Effects, Owns: "the conformance suite for MCP servers",
		Never: []string{"workflows", "activities", "guardian", "ledger", "compiler", "skills", "host", "config", "Temporal"}},
	{Path: "blob", Zone: Effects, Owns: "the content-addressed store of plans and large values",
		Never: []string{"any package of ours", "Temporal"}},
	{Path: "payload", Zone: Effects, Owns: "values of a history: sealed, compressed, large ones by reference into the blob store",
		Never: []string{"workflows", "activities", "compiler", "expr", "schemas", "mcp", "skills", "host", "config"}},
	{Path: "config", Zone: Effects, Owns: "chimera.yaml, environment, references to secrets",
		Never: []string{"workflows", "activities", "compiler", "host", "mcp", "skills", "YAML"}},
	{Path: "discover", Zone: Effects, Owns: "MCP servers found in files of other hosts and in registries, as entries of chimera.yaml",
		Never: []string{"workflows", "activities", "guardian", "ledger", "compiler", "host", "config", "mcp", "skills", "Temporal", "mcp-go", "pgx", "SQLite", "YAML"}},
	{Path: "ledger/keyring", Zone: Effects, Owns: "the key that wraps the keys of persons, outside the database",
		Never: []string{"ledger", "ledger/sqlstore", "workflows", "activities", "host", "config", "Temporal", "pgx", "SQLite", "net"}},
	{Path: "ledger/sqlstore", Zone: Effects, Owns: "the store on SQL: statements, migrations",
		Never: []string{"workflows", "activities", "host", "config", "Temporal", "pgx", "SQLite"}},
	{Path: "ledger/postgres", Zone: Effects, Owns: "the store on PostgreSQL",
		Never: []string{"workflows", "activities", "host", "config", "Temporal", "SQLite"}},
	{Path: "ledger/sqlite", Zone: Effects, Owns: "the store on SQLite",
		Never: []string{"workflows", "activities", "host", "config", "Temporal", "pgx"}},
	{Path: "ledger/audit", Zone: Effects, Owns: "exports of the log, and their verification with public keys only",
		Never: []string{"ledger/sqlstore", "workflows", "activities", "host", "config", "Temporal", "pgx", "SQLite", "net"}},
	{Path: "ledger/witness", Zone: Effects, Owns: "asking witnesses for cosignatures, and a witness of our own",
		Never: []string{"ledger/sqlstore", "workflows", "activities", "host", "config", "Temporal", "pgx", "SQLite"}},
	{Path: "ledger/ledgertest", Zone: Effects, Owns: "the suite that every store passes",
		Never: []string{"workflows", "activities", "host", "config", "Temporal"}},
	{Path: "store", Zone: Effects, Owns: "which store a deployment has: the ledger, large values, the log's key",
		Never: []string{"workflows", "activities", "compiler", "host", "config", "mcp", "skills", "Temporal"}},
	{Path: "authority", Zone: Effects, Owns: "what holders of keys do: publish plans, propose and apply statements of the admins",
		Never: []string{
			"starter", "worker", "console", "client", "workflows", "activities", "compiler", "host", "config", "store", "mcp", "skills", "internal/devroot",
			"ledger/sqlstore", "ledger/postgres", "ledger/sqlite", "Temporal", "pgx", "SQLite", "os", "net",
		}},
	{Path: "client", Zone: Effects, Owns: "what a caller of runs does: grant, start, follow, status, values, cancel, terminate, list",
		Never: []string{
			"compiler", "store", "blob", "payload", "ledger/sqlstore", "ledger/postgres", "ledger/sqlite", "config", "host", "starter", "worker", "console",
			"workflows", "activities", "mcp", "skills", "internal/devroot", "authority", "pgx", "SQLite", "os",
		}},
	{Path: "console", Zone: Effects, Owns: "the HTTP server: the codec endpoint, which opens payloads for people",
		Never: []string{"workflows", "activities", "compiler", "expr", "guardian", "mcp", "skills", "host", "config", "worker", "starter", "internal/devroot", "pgx", "SQLite"}},
	{Path: "metrics", Zone: Effects, Owns: "what a worker counts, for Prometheus",
		Never: []string{"any package of ours"}},
	{Path: "internal/devserver", Zone: Effects, Owns: "finds or builds the Temporal dev server, starts and ends it",
		Never: []string{"any package of ours"}, Except: []string{"contract", "internal/process"}},

	{Path: "internal/devroot", Zone: Effects, Owns: "dev mode's own key and root of trust",
		Never: []string{"client", "console", "starter", "worker", "host", "config", "store", "workflows", "activities", "pgx", "SQLite"}},
	{Path: "internal/pgtest", Zone: Effects, Owns: "a real PostgreSQL for tests, which may be killed",
		Never: []string{"any package of ours"}},
	{Path: "internal/softhsm", Zone: Effects, Owns: "tokens of SoftHSM for tests, which may be taken out",
		Never: []string{"any package of ours"}},
	{Path: "internal/skdummy", Zone: Effects, Owns: "where tests find OpenSSH's imitation of a FIDO device",
		Never: []string{"any package of ours"}},
	{Path: "internal/mutant", Zone: Effects, Owns: "stores that are broken on purpose, so that their tests show that they find it",
		Never: []string{"any package of ours"}},
	{Path: "internal/crash", Zone: Effects, Owns: "a test of the ledger's stores: processes are killed while they work",
		Never: []string{"workflows", "activities", "host", "config", "Temporal"}},
	{Path: "internal/excerpt", Zone: Pure, Owns: "parts of foreign text, as messages show them",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "internal/lengthy", Zone: Pure, Owns: "which tests make test leaves out, since they take long",
		Never: []string{"any package of ours", "Temporal", "os", "net"}},
	{Path: "internal/wholefile", Zone: Effects, Owns: "small files, read and written whole",
		Never: []string{"any package of ours"}},
	{Path: "internal/sshkeygen", Zone: Effects, Owns: "signatures that OpenSSH's own program makes",
		Never: []string{"any package of ours"}, Except: []string{"internal/excerpt", "trust/sshsig"}},
	{Path: "internal/dial", Zone: Effects, Owns: "which addresses may be dialled, as they were resolved",
		Never: []string{"any package of ours", "Temporal", "os"}},
	{Path: "internal/process", Zone: Effects, Owns: "child processes that cannot outlive their use",
		Never: []string{"any package of ours"}},
	{Path: "internal/program", Zone: Effects, Owns: "what a program is before it is started: digests of its executable and of its files",
		Never: []string{"any package of ours", "net"}},

	// Composition.
	{Path: "host", Zone: Effects, Owns: "composition: the Temporal workers of chosen roles in one process",
		Never: []string{"starter", "worker", "internal/devroot"}},
	{Path: "worker", Zone: Effects, Owns: "the program chimera-worker: flags, wiring, run, close",
		Never: []string{"starter", "internal/devroot"}},
	{Path: "starter", Zone: Effects, Owns: "the program chimera: the command line",
		Never: []string{"worker"}},

	// The project about itself.
	{Path: "bench", Zone: Effects, Owns: "the benchmarks: the engine beside hand-written workflows, as ratios",
		Never: []string{"starter", "worker"}},
	{Path: "internal/stage", Zone: Effects, Owns: "the real server, workers and clients that tests run on",
		Never: []string{"starter", "worker"}},
	{Path: "internal/siege", Zone: Effects, Owns: "hostile plans, a model of how their runs end, and sieges of the engine with them",
		Never: []string{"starter", "worker"}},
	{Path: "internal/sagas", Zone: Effects, Owns: "random plans with effects, a model of what their runs do and undo, and a tool that fails and kills",
		Never: []string{"starter", "worker"}},
	{Path: "internal/test/faults", Zone: Effects, Owns: "single faults in code that carries a promise, planted to show that tests find them",
		Never: []string{"any package of ours"}},
	{Path: "internal/adversary", Zone: Effects, Owns: "a drill that plays whoever holds one key, database user or disk of a deployment",
		Never: []string{"starter", "worker"}},
	{Path: "internal/deps", Zone: Effects, Owns: "this table, as a test",
		Never: []string{"any package of ours"}},
	{Path: "internal/deploy", Zone: Effects, Owns: "tests of docker-compose.yml and Dockerfile",
		Never: []string{"workflows", "activities"}},
	{Path: "internal/docs", Zone: Effects, Owns: "tests of the documents: what they show compiles, where they point exists",
		Never: []string{"workflows", "activities"}},
	{Path: "internal/npm", Zone: Effects, Owns: "programs of others that tests run, by exact versions and digests",
		Never: []string{"any package of ours"}},
	{Path: "internal/testca", Zone: Effects, Owns: "certificates for tests", Never: []string{"any package of ours"}},
	{Path: "examples/...", Zone: Effects, Owns: "runnable examples, which show protocols as an outsider would use them",
		Never: []string{"any package of ours"}, Except: []string{"examples"}},
}

// Sole names libraries that only a few packages may import directly, so that
// their traps are closed in one place.
var Sole = []struct {
	// Library covers everything below it too.
	Library string
	// Owners are paths inside the module; "folder/..." covers a folder.
	Owners []string
	// Why says what importing it elsewhere would break.
	Why string
}{
	{"github.com/santhosh-tekuri/jsonschema", []string{"schemas", "containment"},
		"the validator panics, loads files and changes meaning unless it is guarded"},
	{"github.com/miekg/pkcs11", []string{"trust/pkcs11"}, "a module is initialized once in each process, and its sessions end without notice"},
	{"github.com/hiddeco/sshsig", []string{"trust/sshsig"}, "a signature has one form, and names what it is for"},
	{"cel.dev/cel-go", []string{"expr"}, "expressions have one meaning, with one number"},
	{"github.com/google/cel-go", nil, "the old path of cel.dev/cel-go"},
	{"go.yaml.in/yaml", []string{"internal/syntax"}, "a document is read with limits and exact places, or not at all"},
	{"gopkg.in/yaml.v3", nil, "the old path of go.yaml.in/yaml"},
	{"github.com/gowebpki/jcs", []string{"fingerprint"}, "it reads numbers as doubles: what does not survive that is refused first"},
	{"github.com/mark3labs/mcp-go", []string{"mcp", "examples/..."}, "its client is safe only as package mcp uses it"},
	{"golang.org/x/oauth2", []string{"mcp"}, "it reads answers and follows redirects as its HTTP client does: that one is guarded"},
	{"os/exec", []string{"mcp", "skills", "ledger/ledgertest", "internal/...", "examples/..."},
		"a child process needs its own environment, its own group and an end"},
	{"github.com/prometheus", []string{"metrics"}, "the series of a process are bounded in one place"},
	{"github.com/spf13", []string{"starter"}, "it reads a command line, and no other package has one of that size"},
	{"github.com/chromedp", nil, "a browser is for tests"},
	{"unsafe", nil, "no reason so far is good enough"},
}

// InitsAllowed names the files that may have an init function, and why. Nothing
// that Temporal replays is ever among them.
var InitsAllowed = map[string]string{
	"expr/env.go": "cel-go writes to two values that all evaluations share, at their first use; touched once before any, they are safe",
}
