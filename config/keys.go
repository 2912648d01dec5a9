package config

// sort is the type of a key's value.
type sort int

const (
	text       sort = iota // *string
	path                   // *string, joined with the file's folder
	command                // *string, joined with the file's folder if it has a slash
	secret                 // *Secret
	integer                // *int or *int64, between min and max
	boolean                // *bool
	duration               // *time.Duration, between min and max nanoseconds
	period                 // *time.Duration, positive, also in days, weeks and years
	texts                  // *[]string
	paths                  // *[]string, each joined with the file's folder
	choice                 // *string, one of
	choices                // *[]string, out of one of
	secrets                // *map[string]Secret
	references             // *[]Secret
)

// key is one key of chimera.yaml, or of an entry in a map of it.
type key[T any] struct {
	// name has dots between the levels: "temporal.address".
	name string
	sort sort
	// at returns the place in the configuration that the key sets.
	at       func(*T) any
	min, max int64
	oneOf    []string
	required bool
	doc      string
}

const second = int64(1e9)

// Bounds of the file.
const (
	maxText  = 4096
	maxTexts = 1024
	maxNamed = 1000
)

const nameRule = "1 to 128 letters, digits, `.`, `_` and `-`, beginning with a letter or digit"

// keys are the scalar keys, in the order of the documentation. Each has a
// variable in the environment: CHIMERA_ and its name in capitals, dots as
// underscores.
var keys = []key[Config]{
	{name: "temporal.address", sort: text, at: func(c *Config) any { return &c.Temporal.Address },
		doc: "The server's frontend, as host:port. Where nothing says one, commands use the dev server that runs in this folder, and otherwise localhost, at dev.port."},
	{name: "temporal.namespace", sort: text, at: func(c *Config) any { return &c.Temporal.Namespace },
		doc: "The Temporal namespace of runs and workers."},
	{name: "temporal.profile", sort: text, at: func(c *Config) any { return &c.Temporal.Profile },
		doc: "The profile of Temporal's own configuration file (temporal.toml) to start from. Where it is empty, TEMPORAL_PROFILE decides, and otherwise the profile named default."},
	{name: "temporal.api_key", sort: secret, at: func(c *Config) any { return &c.Temporal.APIKey },
		doc: "A reference to an API key, such as `${env:TEMPORAL_KEY}`. A key turns TLS on."},
	{name: "temporal.tls.enabled", sort: boolean, at: func(c *Config) any { return &c.Temporal.TLS.Enabled },
		doc: "Speak TLS to the server. Any other key of temporal.tls turns it on too."},
	{name: "temporal.tls.ca_file", sort: path, at: func(c *Config) any { return &c.Temporal.TLS.CAFile },
		doc: "PEM file with the authorities that the server's certificate may come from, instead of the system's."},
	{name: "temporal.tls.cert_file", sort: path, at: func(c *Config) any { return &c.Temporal.TLS.CertFile },
		doc: "PEM file with the client's certificate, for mTLS."},
	{name: "temporal.tls.key_file", sort: path, at: func(c *Config) any { return &c.Temporal.TLS.KeyFile },
		doc: "PEM file with the private key of the client's certificate."},
	{name: "temporal.tls.server_name", sort: text, at: func(c *Config) any { return &c.Temporal.TLS.ServerName },
		doc: "The name that the server's certificate must have, if it is not the host of the address."},

	{name: "dev.dir", sort: path, at: func(c *Config) any { return &c.Dev.Dir },
		doc: "The folder that holds the state of `chimera dev`: database, addresses, logs."},
	{name: "dev.port", sort: integer, max: 65535, at: func(c *Config) any { return &c.Dev.Port },
		doc: "TCP port of the embedded Temporal server on the loopback address; 0 takes a free one."},
	{name: "dev.ui_port", sort: integer, max: 65535, at: func(c *Config) any { return &c.Dev.UIPort },
		doc: "TCP port of the server's web pages; 0 takes a free one."},
	{name: "dev.temporal", sort: command, at: func(c *Config) any { return &c.Dev.Temporal },
		doc: "The temporal executable to run. Where it is empty, it is the one on PATH, else one beside chimera's own file, and otherwise one that is built from tools/go.mod of the source tree."},

	{name: "worker.roles", sort: choices, oneOf: roles, at: func(c *Config) any { return &c.Worker.Roles },
		doc: "What a worker process does: `engine` runs workflows and in-process skills, `tools` calls MCP servers and executables. It resolves the secrets of its own roles only. The flag -roles of chimera-worker wins. In the environment: names with commas."},
	{name: "worker.workflow_pollers", sort: integer, min: 2, max: 1000, at: func(c *Config) any { return &c.Worker.WorkflowPollers },
		doc: "Pollers for workflow tasks. With few, sequential work waits for polls."},
	{name: "worker.activity_pollers", sort: integer, min: 1, max: 1000, at: func(c *Config) any { return &c.Worker.ActivityPollers },
		doc: "Pollers for activities on each queue."},
	{name: "worker.max_workflows", sort: integer, min: 2, max: 100_000, at: func(c *Config) any { return &c.Worker.MaxWorkflows },
		doc: "Workflow tasks that one process works on at one time."},
	{name: "worker.max_activities", sort: integer, min: 1, max: 100_000, at: func(c *Config) any { return &c.Worker.MaxActivities },
		doc: "Activities that one process works on at one time, for each queue."},
	{name: "worker.cache_bytes", sort: integer, min: 1 << 20, max: 1 << 40, at: func(c *Config) any { return &c.Worker.CacheBytes },
		doc: "Memory for compiled plans and what activities have made of them, in bytes. What was used least recently goes first, and is loaded again when it is needed."},
	{name: "worker.cached_runs", sort: integer, min: 2, max: 100_000, at: func(c *Config) any { return &c.Worker.CachedRuns },
		doc: "Runs whose state one process keeps in memory between workflow tasks, each with its plan. The state of any other is made anew from its history."},
	{name: "worker.drain", sort: duration, max: 3600 * second, at: func(c *Config) any { return &c.Worker.Drain },
		doc: "How long a stopping worker waits for activities in flight, such as `30s` or `2m`. What has not ended by then runs again elsewhere, which uses up no retry."},
	{name: "worker.tools_queue", sort: choice, oneOf: []string{"own", "shared"}, at: func(c *Config) any { return &c.Worker.ToolsQueue },
		doc: "Where runs ask for calls of MCP servers and executables: on a queue of their `own`, `chimera-tools`, or on that of the engine, `shared`, which is faster where each worker has both roles. All workers with role `engine` of a deployment say the same. A run that asks a worker without the role `tools` goes to `chimera-tools` from then on, so a deployment may be split, or put together, while runs are under way. `chimera dev` shares."},
	{name: "worker.metrics", sort: text, at: func(c *Config) any { return &c.Worker.Metrics },
		doc: "The TCP address on which chimera-worker answers Prometheus, such as `127.0.0.1:9464` or `:9464`, under the path `/metrics`, to whoever asks. Where it is empty, on none."},
	{name: "worker.deployment", sort: text, at: func(c *Config) any { return &c.Worker.Deployment },
		doc: "The name of the worker deployment, without `.` and `:`, such as `chimera`. With it, a run stays with the build of the worker that began it, and new runs go to the build that is the current one; all workers of a deployment say the same name. Where it is empty, workers are unversioned: any of them takes any run. `chimera dev` is unversioned."},
	{name: "worker.build", sort: text, at: func(c *Config) any { return &c.Worker.Build },
		doc: "The build id of `worker.deployment`, the same for all roles of one release, and another one for each release. Where it is empty, the version that `chimera-worker -version` shows."},

	{name: "store.driver", sort: choice, oneOf: []string{"sqlite", "postgres"}, at: func(c *Config) any { return &c.Store.Driver },
		doc: "The database of published plans, runs and the audit log: `sqlite`, one file for one machine, or `postgres`."},
	{name: "store.path", sort: path, at: func(c *Config) any { return &c.Store.Path },
		doc: "SQLite's file. The log's key, where `ledger.key` says none, is made beside it, with the ending `.key`."},
	{name: "store.url", sort: secret, at: func(c *Config) any { return &c.Store.URL },
		doc: "A reference to PostgreSQL's connection string, such as `${env:DATABASE_URL}`. `chimera migrate` prepares the database; a worker refuses one that is not."},
	{name: "store.origin", sort: text, at: func(c *Config) any { return &c.Store.Origin },
		doc: "The name of the audit log, as its checkpoints show it, such as `example.com/chimera`. It is that of the log's key; processes without the key need it said. A log keeps its name for ever."},
	{name: "store.blobs", sort: choice, oneOf: []string{"dir", "database"}, at: func(c *Config) any { return &c.Store.Blobs },
		doc: "Where compiled plans and large values are: in the folder `store.dir`, or in the database."},
	{name: "store.dir", sort: path, at: func(c *Config) any { return &c.Store.Dir },
		doc: "The folder of compiled plans and large values. All workers of a deployment see the same one."},

	{name: "ledger.key", sort: secret, at: func(c *Config) any { return &c.Ledger.Key },
		doc: "A reference to the audit log's key, such as `${file:/run/secrets/ledger-key}`: a note signer key, `PRIVATE+KEY+NAME+…`. A worker with role `engine` that has it signs checkpoints; of several, one does."},
	{name: "ledger.retention.operational", sort: period, at: func(c *Config) any { return &c.Ledger.Retention.Operational },
		doc: "How long what runs and their nodes came to stays readable in the audit log, such as `90d`, `12w` or `7y` (a year is 366 days, so that nothing goes too early). Older bodies are deleted, by the worker that signs checkpoints and by `chimera audit prune`; their entries and digests stay for ever. Nothing is deleted where nothing is said, nor under legal hold."},
	{name: "ledger.retention.evidence", sort: period, at: func(c *Config) any { return &c.Ledger.Retention.Evidence },
		doc: "The same for tasks, decisions, approvals, invocations, hypotheses and snapshots."},
	{name: "ledger.retention.financial", sort: period, at: func(c *Config) any { return &c.Ledger.Retention.Financial },
		doc: "The same for holds on budgets. What is permanent (plans, authority, agents, signers, tools, budgets, what was deleted) is never deleted."},
	{name: "ledger.former_keys", sort: texts, at: func(c *Config) any { return &c.Ledger.FormerKeys },
		doc: "The public keys that the log had before `ledger.key`, as verifier keys `NAME+HASH+KEY`: after a rotation the log goes on from a checkpoint that one of them has signed. In the environment: keys with commas."},
	{name: "ledger.quorum", sort: integer, max: maxWitnesses, at: func(c *Config) any { return &c.Ledger.Quorum },
		doc: "How many of `ledger.witnesses` must have cosigned the checkpoint that `chimera audit export` and `prove` take: the latest such one. Where none is there, or 0 is said, they take the latest. The log itself waits for no witness."},

	{name: "trust.bootstrap", sort: path, at: func(c *Config) any { return &c.Trust.Bootstrap },
		doc: "The bootstrap file: the root from which the admins' statements say who may publish plans, and which keys may start runs for an agent. Workers and commands verify it all. Where it is empty, `chimera dev` makes its own; everywhere else plans are published unsigned, no start grant is taken, and so no run may have effects."},
	{name: "trust.pin", sort: text, at: func(c *Config) any { return &c.Trust.Pin },
		doc: "The digest that the bootstrap file must have, `sha256:…`, as the admins have told it. A bootstrap without a pin, or with another digest, is refused."},
	{name: "trust.author_key", sort: secret, at: func(c *Config) any { return &c.Trust.AuthorKey },
		doc: "A reference to the key that `chimera publish` signs plans with, such as `${file:author.key}`: PKCS #8 in PEM, Ed25519 or P-256. The admins have stated its public half for the publisher whom `author` names."},
	{name: "trust.start_key", sort: secret, at: func(c *Config) any { return &c.Trust.StartKey },
		doc: "A reference to the key that `chimera start` signs start grants with. The admins have stated its public half for the plan's agent. Where it is empty, runs are started without a grant."},

	{name: "payload.keys", sort: references, at: func(c *Config) any { return &c.Payload.Keys },
		doc: "The keys that seal what passes through Temporal, each a reference to ID:KEY, or an ID and a reference, such as `${file:/run/secrets/payload-key}` or `2026a:${env:PAYLOAD_KEY}`. KEY is 32 bytes in base64 or hex. The first seals, all open. Without keys nothing is sealed, which a worker beside PostgreSQL refuses. In the environment: with commas."},
	{name: "payload.compress", sort: boolean, at: func(c *Config) any { return &c.Payload.Compress },
		doc: "Compress what is sealed, and what goes to the store, where that makes it smaller."},
	{name: "payload.accept_plain", sort: boolean, at: func(c *Config) any { return &c.Payload.AcceptPlain },
		doc: "Take unsealed payloads where there are keys, as runs from before wrote them. While it is set, whoever may write to the namespace can answer for a worker."},

	{name: "console.address", sort: text, at: func(c *Config) any { return &c.Console.Address },
		doc: "Where `chimera console` listens, as host:port."},
	{name: "console.codec.token", sort: secret, at: func(c *Config) any { return &c.Console.Codec.Token },
		doc: "A reference to the token of the codec endpoint, of 16 characters or more. Whoever has it reads every payload. Without one there is no endpoint."},
	{name: "console.codec.origins", sort: texts, at: func(c *Config) any { return &c.Console.Codec.Origins },
		doc: "The origins whose pages may read what the codec endpoint opens: that of the Temporal UI, such as `https://temporal.example.com`."},

	{name: "author", sort: text, at: func(c *Config) any { return &c.Author },
		doc: "Who publishes plans, as the audit log says it: the id of a publisher, where there is a root of trust. Where it is empty, the user of the machine."},
	{name: "requester", sort: text, at: func(c *Config) any { return &c.Requester },
		doc: "The person who starts runs, as start grants and the audit log say it. Where it is empty, the user of the machine."},

	{name: "catalog", sort: path, at: func(c *Config) any { return &c.CatalogFile },
		doc: "The catalog file: which operations of MCP servers and executables plans may call, with schemas, effect classes and trust. `--catalog` wins."},
	{name: "policy", sort: paths, at: func(c *Config) any { return &c.PolicyFiles },
		doc: "The files of the operator's policy bundle: which irreversible effects are allowed, who approves, and what every action must meet. Several files make one bundle. Workers compile with it, and so do commands; `--policy` wins. All workers of a deployment read the same bundle: a run records the digest of the one that it was compiled with. In the environment: paths with commas."},
}

// maxWitnesses bounds ledger.witnesses.
const maxWitnesses = 32

// witnessesKey is the one list of entries.
const witnessesKey = "ledger.witnesses"

// witnessKeys are the keys of an entry of ledger.witnesses.
var witnessKeys = []key[Witness]{
	{name: "name", sort: text, required: true, at: func(w *Witness) any { return &w.Name },
		doc: "What logs and messages call it."},
	{name: "key", sort: text, required: true, at: func(w *Witness) any { return &w.Key },
		doc: "Its public key, a verifier key `NAME+HASH+KEY` as for C2SP cosignatures."},
	{name: "file", sort: path, at: func(w *Witness) any { return &w.File },
		doc: "The folder that is shared with it, for a witness of another user or on a machine without network: the log writes `request` there, and the witness `reply` (`chimera audit cosign`). Either this or `url`."},
	{name: "url", sort: text, at: func(w *Witness) any { return &w.URL },
		doc: "Where it answers by HTTPS, as C2SP tlog-witness: requests go to `add-checkpoint` below. Plain HTTP is for this machine alone."},
}

// serverKeys are the keys of an entry of mcpServers.
var serverKeys = []key[Server]{
	{name: "command", sort: command, required: true, at: func(s *Server) any { return &s.Command },
		doc: "The program to start: a name that is looked up on PATH, or a path."},
	{name: "args", sort: texts, at: func(s *Server) any { return &s.Args },
		doc: "Its arguments, as they are: no shell, no references to secrets (everybody on the machine can read arguments)."},
	{name: "env", sort: secrets, at: func(s *Server) any { return &s.Env },
		doc: "Its environment, beside HOME, LANG, LC_ALL, LOGNAME, PATH, TMPDIR, TZ and USER. Values may hold references to secrets."},
	{name: "cwd", sort: path, at: func(s *Server) any { return &s.Dir },
		doc: "Its working directory; where it is missing, the folder of chimera.yaml."},
}

// skillKeys are the keys of an entry of skills.
var skillKeys = []key[Skill]{
	{name: "command", sort: command, required: true, at: func(s *Skill) any { return &s.Command },
		doc: "The program to start for each call: a name that is looked up on PATH, or a path. It gets the operation's name as last argument and the input as JSON on stdin, and writes the output as JSON to stdout."},
	{name: "args", sort: texts, at: func(s *Skill) any { return &s.Args },
		doc: "Its arguments, before the operation's name."},
	{name: "env", sort: secrets, at: func(s *Skill) any { return &s.Env },
		doc: "Its environment, as for MCP servers."},
	{name: "cwd", sort: path, at: func(s *Skill) any { return &s.Dir },
		doc: "Its working directory; where it is missing, the folder of chimera.yaml."},
	{name: "max_output", sort: integer, min: 1, max: 1 << 30, at: func(s *Skill) any { return &s.MaxOutput },
		doc: "The most that it may write to stdout, in bytes; where it is missing, 16 MiB."},
	{name: "max_memory", sort: integer, min: 1 << 20, max: 1 << 40, at: func(s *Skill) any { return &s.MaxMemory },
		doc: "The private memory that each of its processes may have, in bytes; where it is missing, 2 GiB. Only Linux bounds it; elsewhere the key is refused when the skill is called."},
}
