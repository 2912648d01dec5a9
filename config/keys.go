package config

// sort is the type of a key's value.
type sort int

const (
	text       sort = iota // *string
	path                   // *string, joined with the file's folder
	command                // *string, joined with the file's folder if it has a slash
	secret                 // *Secret
	private                // *Secret, or the URI of a key on a token
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
	headers                // *map[string]Secret, by names of HTTP headers
	networks               // *[]netip.Prefix
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
	// required: there is an entry, or a section of one, only with this key.
	required bool
	// check, if not nil, says what is wrong with a text, which also matches pattern, if that is not "".
	// A secret without a reference has to pass it, and without a check it is refused.
	check   func(string) error
	pattern string
	doc     string
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
		doc: "The server's frontend, as host:port. If no address is set, commands use the dev server that runs in this folder, or else localhost at dev.port."},
	{name: "temporal.namespace", sort: text, at: func(c *Config) any { return &c.Temporal.Namespace },
		doc: "The Temporal namespace of runs and workers."},
	{name: "temporal.profile", sort: text, at: func(c *Config) any { return &c.Temporal.Profile },
		doc: "The profile of Temporal's own configuration file (temporal.toml) to start from. If it is empty, TEMPORAL_PROFILE names it; if that is empty too, it is the profile named default."},
	{name: "temporal.api_key", sort: secret, at: func(c *Config) any { return &c.Temporal.APIKey },
		doc: "A reference to an API key, such as `${env:TEMPORAL_KEY}`. A key turns TLS on."},
	{name: "temporal.tls.enabled", sort: boolean, at: func(c *Config) any { return &c.Temporal.TLS.Enabled },
		doc: "Speak TLS to the server. Any other key of temporal.tls turns it on too."},
	{name: "temporal.tls.ca_file", sort: path, at: func(c *Config) any { return &c.Temporal.TLS.CAFile },
		doc: "PEM file with the certificate authorities to trust for the server's certificate, instead of the system's."},
	{name: "temporal.tls.cert_file", sort: path, at: func(c *Config) any { return &c.Temporal.TLS.CertFile },
		doc: "PEM file with the client's certificate, for mTLS."},
	{name: "temporal.tls.key_file", sort: path, at: func(c *Config) any { return &c.Temporal.TLS.KeyFile },
		doc: "PEM file with the private key of the client's certificate."},
	{name: "temporal.tls.server_name", sort: text, at: func(c *Config) any { return &c.Temporal.TLS.ServerName },
		doc: "The name that the server's certificate must have, if it is not the host of the address."},

	{name: "dev.dir", sort: path, at: func(c *Config) any { return &c.Dev.Dir },
		doc: "The folder that holds the state of `chimera dev`: database, addresses, logs."},
	{name: "dev.port", sort: integer, max: 65535, at: func(c *Config) any { return &c.Dev.Port },
		doc: "TCP port of the development server on the loopback address; 0 picks a free one."},
	{name: "dev.ui_port", sort: integer, max: 65535, at: func(c *Config) any { return &c.Dev.UIPort },
		doc: "TCP port of the server's web pages; 0 picks a free one."},
	{name: "dev.temporal", sort: command, at: func(c *Config) any { return &c.Dev.Temporal },
		doc: "The temporal executable to run. If it is empty: the one on PATH, or else one beside chimera's own file, or else one built from tools/go.mod of the source tree."},

	{name: "children.user", sort: text, at: func(c *Config) any { return &c.Children.User },
		doc: "The user of the machine, by name or number, as whom MCP servers and executables run that have no `user` of their own: with that user's group alone, and no right to become another. The worker must be root, or have the capabilities SETUID, SETGID and KILL, and that user may read no file with a secret of the worker. In production a worker starts nothing as its own user ([confinement](operate.md#confinement)). `chimera dev` and other commands start children as whoever runs them."},

	{name: "worker.roles", sort: choices, oneOf: roles, at: func(c *Config) any { return &c.Worker.Roles },
		doc: "What a worker process does: `engine` runs workflows and in-process skills, `tools` calls MCP servers and executables, `guardian` decides on effects, `effects` calls what has them, with the guardian's permit. In production no process is both guardian and effects. A worker resolves only the secrets of its own roles. The flag -roles of chimera-worker takes precedence. In the environment: names separated by commas."},
	{name: "worker.workflow_pollers", sort: integer, min: 2, max: 1000, at: func(c *Config) any { return &c.Worker.WorkflowPollers },
		doc: "Pollers for workflow tasks. If there are few, sequential work waits for polls."},
	{name: "worker.activity_pollers", sort: integer, min: 1, max: 1000, at: func(c *Config) any { return &c.Worker.ActivityPollers },
		doc: "Pollers for activities on each queue."},
	{name: "worker.max_workflows", sort: integer, min: 2, max: 100_000, at: func(c *Config) any { return &c.Worker.MaxWorkflows },
		doc: "Workflow tasks that one process works on at the same time."},
	{name: "worker.max_activities", sort: integer, min: 1, max: 100_000, at: func(c *Config) any { return &c.Worker.MaxActivities },
		doc: "Activities that one process works on at the same time, for each queue."},
	{name: "worker.cache_bytes", sort: integer, min: 1 << 20, max: 1 << 40, at: func(c *Config) any { return &c.Worker.CacheBytes },
		doc: "Memory for compiled plans and what activities have made of them, in bytes. The least recently used are dropped first, and loaded again when needed."},
	{name: "worker.cached_runs", sort: integer, min: 2, max: 100_000, at: func(c *Config) any { return &c.Worker.CachedRuns },
		doc: "Runs whose state one process keeps in memory between workflow tasks, each with its plan. The state of any other run is rebuilt from its history."},
	{name: "worker.drain", sort: duration, max: 3600 * second, at: func(c *Config) any { return &c.Worker.Drain },
		doc: "How long a stopping worker waits for activities in flight, such as `30s` or `2m`. Activities that have not ended by then run again elsewhere, which does not count as a retry."},
	{name: "worker.tools_queue", sort: choice, oneOf: []string{"own", "shared"}, at: func(c *Config) any { return &c.Worker.ToolsQueue },
		doc: "The queue for calls of MCP servers and executables: `own` is a queue of their own, `chimera-tools`; `shared` is the engine's queue, which is faster if each worker has both roles. All workers with role `engine` of a deployment must have the same value. A run that asks a worker without the role `tools` uses `chimera-tools` from then on, so a deployment may be split or merged while runs are in progress. `chimera dev` uses `shared`."},
	{name: "worker.metrics", sort: text, at: func(c *Config) any { return &c.Worker.Metrics },
		doc: "The TCP address on which chimera-worker answers Prometheus, such as `127.0.0.1:9464` or `:9464`, under the path `/metrics`, without authentication. If it is empty, there are no metrics."},
	{name: "worker.deployment", sort: text, at: func(c *Config) any { return &c.Worker.Deployment },
		doc: "The name of the worker deployment, without `.` and `:`, such as `chimera`. With it, a run stays with the build of the worker that began it, and new runs go to the current build. All workers of a deployment must have the same name. If it is empty, workers are unversioned: any of them takes any run. `chimera dev` is unversioned."},
	{name: "worker.build", sort: text, at: func(c *Config) any { return &c.Worker.Build },
		doc: "The build id of `worker.deployment`, the same for all roles of one release, and different for each release. If it is empty, it is the version that `chimera-worker -version` shows."},

	{name: "store.driver", sort: choice, oneOf: []string{"sqlite", "postgres"}, at: func(c *Config) any { return &c.Store.Driver },
		doc: "The database of published plans, runs and the audit log: `sqlite`, one file for one machine, or `postgres`."},
	{name: "store.path", sort: path, at: func(c *Config) any { return &c.Store.Path },
		doc: "SQLite's file. If `ledger.key` is not set, the log's key is made beside this file, with the extension `.key`."},
	{name: "store.url", sort: secret, at: func(c *Config) any { return &c.Store.URL }, check: checkDatabase, pattern: databasePattern,
		doc: "A reference to PostgreSQL's connection string, such as `${env:DATABASE_URL}`; or its URL with a reference for the password, or without one, where the server asks for none, or a certificate or a password file has it (`PGPASSFILE`): `postgres://worker@db.example.com/chimera`. `chimera migrate` prepares the database; a worker refuses a database that is not prepared."},
	{name: "store.origin", sort: text, at: func(c *Config) any { return &c.Store.Origin },
		doc: "The name of the audit log, as its checkpoints show it, such as `example.com/chimera`. It is the name in the log's key, so only processes without the key need to set it. A log keeps its name forever."},
	{name: "store.blobs", sort: choice, oneOf: []string{"dir", "database"}, at: func(c *Config) any { return &c.Store.Blobs },
		doc: "Where compiled plans and large values are stored: in the folder `store.dir`, or in the database."},
	{name: "store.dir", sort: path, at: func(c *Config) any { return &c.Store.Dir },
		doc: "The folder of compiled plans and large values. All workers of a deployment must see the same folder."},

	{name: "ledger.key", sort: private, at: func(c *Config) any { return &c.Ledger.Key },
		doc: "A reference to the audit log's key, such as `${file:/run/secrets/ledger-key}`: a note signer key, `PRIVATE+KEY+NAME+…`; or the URI of an Ed25519 key on a token, `pkcs11:…`, whose name is `store.origin`. A worker with role `engine` that has it signs checkpoints; if there are several such workers, one of them does."},
	{name: "ledger.subjects", sort: path, at: func(c *Config) any { return &c.Ledger.Subjects },
		doc: "The folder of the key that wraps the keys of the persons whom runs are about (`subject`). It lies outside the database, so that `chimera audit erase` can destroy it: do not back it up together with the database. With SQLite, the default is a folder beside `store.path`, with the extension `.subjects`. With PostgreSQL there is none: `chimera migrate --new-subject-keys` makes the key, for which runs about persons wait, and a worker without this setting does not start once there is one. The workers with the roles `engine`, `guardian` and `effects` must see the same folder, not copies of it, and need to read it only. A folder belongs to one database."},
	{name: "ledger.retention.operational", sort: period, at: func(c *Config) any { return &c.Ledger.Retention.Operational },
		doc: "How long the outcomes of runs and their nodes stay readable in the audit log, such as `90d`, `12w` or `7y` (a year is 366 days, so that nothing is deleted too early). The worker that signs checkpoints, and `chimera audit prune`, delete older bodies; their entries and digests stay forever. If this is not set, nothing is deleted; nor is anything under legal hold."},
	{name: "ledger.retention.evidence", sort: period, at: func(c *Config) any { return &c.Ledger.Retention.Evidence },
		doc: "The same for tasks, decisions, approvals, invocations, hypotheses and snapshots."},
	{name: "ledger.retention.financial", sort: period, at: func(c *Config) any { return &c.Ledger.Retention.Financial },
		doc: "The same for holds on budgets. Permanent bodies (plans, authority, agents, signers, tools, budgets, records of deletion) are never deleted."},
	{name: "ledger.former_keys", sort: texts, at: func(c *Config) any { return &c.Ledger.FormerKeys },
		doc: "The public keys that the log had before `ledger.key`, as verifier keys `NAME+HASH+KEY`: after a rotation the log continues from a checkpoint that one of them signed. In the environment: keys separated by commas."},
	{name: "ledger.quorum", sort: integer, max: maxWitnesses, at: func(c *Config) any { return &c.Ledger.Quorum },
		doc: "How many of `ledger.witnesses` must have cosigned a checkpoint for `chimera audit export` and `prove` to use it; they use the latest such checkpoint. If there is none, or this is 0, they use the latest of all. The log itself waits for no witness."},

	{name: "trust.bootstrap", sort: path, at: func(c *Config) any { return &c.Trust.Bootstrap },
		doc: "The bootstrap file: the root from which the admins' statements say who may publish plans, and which keys may start runs for an agent. Workers and commands verify the statements. If it is empty, `chimera dev` makes its own; everywhere else plans are published unsigned and no start grant is accepted, so no run may have effects."},
	{name: "trust.pin", sort: text, at: func(c *Config) any { return &c.Trust.Pin },
		doc: "The digest that the bootstrap file must have, `sha256:…`, as given out by the admins. A bootstrap without a pin, or with another digest, is refused."},
	{name: "trust.seen", sort: path, at: func(c *Config) any { return &c.Trust.Seen },
		doc: "A file in which a worker keeps the number and the digest of the last statement of the admins that it has read. It refuses a database that has fewer statements, or another in that place. In production the roles `guardian` and `effects` must have one, each its own, where the database's users cannot write."},
	{name: "trust.author_key", sort: private, at: func(c *Config) any { return &c.Trust.AuthorKey },
		doc: "A reference to the key that `chimera publish` signs plans with, such as `${file:author.key}`: PKCS #8 in PEM, Ed25519 or P-256; or the URI of such a key on a token, `pkcs11:…`. The admins must have stated its public half for the publisher that `author` names."},
	{name: "trust.start_key", sort: private, at: func(c *Config) any { return &c.Trust.StartKey },
		doc: "A reference to the key that `chimera start` signs start grants with, or the URI of one on a token, `pkcs11:…`. The admins must have stated its public half for the plan's agent. If it is empty, runs are started without a grant."},
	{name: "trust.attestation_roots", sort: paths, at: func(c *Config) any { return &c.Trust.AttestationRoots },
		doc: "PEM files with the certificates of makers of FIDO devices, or of devices. In production `chimera signers enroll` accepts a key on such a device only if one of them has issued, or is, the certificate of the device that attests the key; the flag `--attestation-root` replaces them. In the environment: paths separated by commas."},

	{name: "guardian.key", sort: private, at: func(c *Config) any { return &c.Guardian.Key },
		doc: "A reference to the key with which the role `guardian` signs permits of effects, such as `${file:/run/secrets/guardian-key}`: PKCS #8 in PEM, Ed25519 or P-256; or the URI of such a key on a token, `pkcs11:token=Chimera;object=guardian`. The admins must have stated its public half (`guardian.key` in a file for `chimera trust draft`). `chimera dev` has one of its own."},
	{name: "guardian.shadow", sort: paths, at: func(c *Config) any { return &c.Guardian.Shadow },
		doc: "The files of a policy bundle in shadow: the guardian decides by it too, and records beside each decision what it says, which has no other effect. `chimera effects` shows where the two differ. In the environment: paths separated by commas."},

	{name: "pkcs11.module", sort: path, at: func(c *Config) any { return &c.PKCS11.Module },
		doc: "The module of tokens, a PKCS #11 library of their vendor such as `/usr/lib/softhsm/libsofthsm2.so`, for keys whose URI has no `module-path`. It is code that runs within the process. Only programs built with the tag `pkcs11` can load it."},
	{name: "pkcs11.pin", sort: secret, at: func(c *Config) any { return &c.PKCS11.PIN },
		doc: "A reference to the PIN of tokens, such as `${file:/run/secrets/pin}`, for keys whose URI has no `pin-source`. It is read at each login. A worker reads it only if a key of its roles needs it."},

	{name: "payload.keys", sort: references, at: func(c *Config) any { return &c.Payload.Keys },
		doc: "The keys that seal what passes through Temporal, each a reference to ID:KEY, or an ID and a reference, such as `${file:/run/secrets/payload-key}` or `2026a:${env:PAYLOAD_KEY}`. KEY is 32 bytes in base64 or hex. The first key seals; all of them open. A worker without the role `engine` has keys ID/ROLE:KEY of its own roles instead, which seal what these answer and nothing else (`chimera migrate --role-payload-key`). Without keys nothing is sealed, and a worker that uses PostgreSQL refuses to start. In the environment: references separated by commas."},
	{name: "payload.compress", sort: boolean, at: func(c *Config) any { return &c.Payload.Compress },
		doc: "Compress what is sealed or stored, if that makes it smaller."},
	{name: "payload.accept_plain", sort: boolean, at: func(c *Config) any { return &c.Payload.AcceptPlain },
		doc: "Accept unsealed payloads even though there are keys, for runs that began before there were. While this is set, whoever may write to the namespace can answer in place of a worker."},

	{name: "console.address", sort: text, at: func(c *Config) any { return &c.Console.Address },
		doc: "Where `chimera console` listens, as host:port."},
	{name: "console.codec.token", sort: secret, at: func(c *Config) any { return &c.Console.Codec.Token },
		doc: "A reference to the token of the codec endpoint, of at least 16 characters. Whoever has it can read every payload. Without a token there is no endpoint."},
	{name: "console.guardian.token", sort: secret, at: func(c *Config) any { return &c.Console.Guardian },
		doc: "A reference to the token of `POST /v1/guardian/evaluate`, of at least 16 characters. Whoever has it can ask what the configured policy says of an action, which permits nothing. Without a token there is no such endpoint."},
	{name: "console.codec.origins", sort: texts, at: func(c *Config) any { return &c.Console.Codec.Origins },
		doc: "The origins whose pages may use the codec endpoint: that of the Temporal UI, such as `https://temporal.example.com`."},

	{name: "author", sort: text, at: func(c *Config) any { return &c.Author },
		doc: "The author of published plans, as recorded in the audit log. With `trust.bootstrap` it is the id of a publisher. If it is empty, it is the machine's user."},
	{name: "requester", sort: text, at: func(c *Config) any { return &c.Requester },
		doc: "The id of the person who starts runs, as recorded in start grants and the audit log: small letters, digits and `. _ @ -`. If it is empty, it is the machine's user."},

	{name: "catalog", sort: path, at: func(c *Config) any { return &c.CatalogFile },
		doc: "The catalog file: which operations of MCP servers and executables plans may call, with schemas, effect classes and trust. `--catalog` takes precedence."},
	{name: "tools", sort: path, at: func(c *Config) any { return &c.ToolsFile },
		doc: "A second catalog file, of the tools that `chimera tools import` has imported; it writes this file. `--catalog` takes precedence."},
	{name: "mcp_registry.url", sort: text, at: func(c *Config) any { return &c.MCPRegistry.URL }, check: checkRegistry, pattern: `^https://`,
		doc: "The MCP registry in which `chimera tools import --from NAME` looks up servers: an HTTPS address, such as `https://registry.modelcontextprotocol.io`, below which it speaks version 0.1 of the registry API. If it is empty, names are not looked up. Proxies in the environment are ignored."},
	{name: "mcp_registry.ca_file", sort: path, at: func(c *Config) any { return &c.MCPRegistry.CAFile },
		doc: "PEM file with certificate authorities to trust for the registry's certificate, and for that of a `server.json` at an address, in addition to the system's."},
	{name: "mcp_registry.addresses", sort: networks, at: func(c *Config) any { return &c.MCPRegistry.Addresses },
		doc: "Networks, such as `10.1.0.0/16`, whose addresses may be dialled for the registry, and for a `server.json` at an address, although they are not public. In the environment: networks separated by commas."},
	{name: "policy", sort: paths, at: func(c *Config) any { return &c.PolicyFiles },
		doc: "The files of the operator's policy bundle: which irreversible effects are allowed, who approves, and what every action must meet. Several files make one bundle. Workers and commands compile with it; `--policy` takes precedence. All workers of a deployment must read the same bundle: a run records the digest of the bundle that it was compiled with. In the environment: paths separated by commas."},
}

// maxWitnesses bounds ledger.witnesses.
const maxWitnesses = 32

// witnessesKey is the one list of entries.
const witnessesKey = "ledger.witnesses"

// witnessKeys are the keys of an entry of ledger.witnesses.
var witnessKeys = []key[Witness]{
	{name: "name", sort: text, required: true, at: func(w *Witness) any { return &w.Name },
		doc: "The name of the witness in logs and messages."},
	{name: "key", sort: text, required: true, at: func(w *Witness) any { return &w.Key },
		doc: "Its public key, a verifier key `NAME+HASH+KEY` as for C2SP cosignatures."},
	{name: "file", sort: path, at: func(w *Witness) any { return &w.File },
		doc: "A folder shared with the witness, if it runs as another user or on a machine without a network: the log writes `request` there, and the witness writes `reply` (`chimera audit cosign`). Set either this or `url`."},
	{name: "url", sort: text, at: func(w *Witness) any { return &w.URL },
		doc: "The witness's HTTPS address, for C2SP tlog-witness: requests go to `add-checkpoint` below it. Plain HTTP is allowed only on this machine."},
}

// serverKeys are the keys of an entry of mcpServers.
var serverKeys = []key[Server]{
	{name: "type", sort: choice, oneOf: []string{"stdio", "http", "sse"}, at: func(s *Server) any { return &s.Type },
		doc: "How it is spoken to: `stdio` with `command`; with `url` `http`, which is streamable HTTP, or `sse`, the older HTTP with server-sent events. By default `stdio` or `http`."},
	{name: "command", sort: command, at: func(s *Server) any { return &s.Command },
		doc: "The program to start: a name that is looked up on PATH, or a path. Set either this or `url`."},
	{name: "args", sort: texts, at: func(s *Server) any { return &s.Args },
		doc: "Its arguments, passed on unchanged: no shell, no references to secrets (everybody on the machine can read arguments)."},
	{name: "env", sort: secrets, at: func(s *Server) any { return &s.Env },
		doc: "Its environment, in addition to HOME, LANG, LC_ALL, LOGNAME, PATH, TMPDIR, TZ and USER; with another user, HOME, LOGNAME and USER are that user's, and TMPDIR is not set. Values may contain references to secrets."},
	{name: "cwd", sort: path, at: func(s *Server) any { return &s.Dir },
		doc: "Its working directory, which its user must be able to enter; by default the folder of chimera.yaml."},
	{name: "pin", sort: paths, at: func(s *Server) any { return &s.Pin },
		doc: "Files and folders that the server is made of besides its executable, such as a script and a lock file: the digest of `node` says nothing about what it runs. They are read before each start, and what they are belongs to the [endpoint](reference-catalog.md#where-a-tool-is) that the catalog names. Symbolic links are refused, also in folders; 20,000 files and 1 GiB are the most."},
	{name: "user", sort: text, at: func(s *Server) any { return &s.User },
		doc: "The user of the machine as whom it runs, instead of `children.user`. Servers with a user each are kept from one another, too."},
	{name: "roles", sort: choices, oneOf: callers, at: func(s *Server) any { return &s.Roles },
		doc: "The roles that start or reach it, and resolve its secrets: `[tools]`, `[effects]`, or both. What can commit belongs to `[effects]` alone. If it is empty, both do; in production a worker with role `effects` refuses that for a server with committing operations."},
	{name: "manifest", sort: path, at: func(s *Server) any { return &s.Manifest },
		doc: "The file of its manifest, which its publisher has signed and the admins have accepted ([manifests](trust.md#manifests-of-mcp-servers)). A worker with a manifest that fails does not start, and calls nothing of a server whose manifest fails later. In production a worker with role `effects` needs one for each server with committing operations, unless the admins have waived it."},
	{name: "sessions", sort: choice, oneOf: []string{"agent", "run", "shared"}, at: func(s *Server) any { return &s.Sessions },
		doc: "Whose calls share a session with it, and thus what it keeps between calls: those of one `agent`, which is the default; those of one `run`, together with the runs that continue it; or all (`shared`), which is right only for a server that keeps nothing. Each session with a `command` is a process of its own. What a worker does with them: [MCP sessions](operate.md#mcp-sessions)."},
	{name: "max_sessions", sort: integer, min: 1, max: 10_000, at: func(s *Server) any { return &s.MaxSessions },
		doc: "The most sessions that one worker has with it at the same time; by default 64."},
	{name: "defaults.timeout", sort: duration, min: 1e6, max: 24 * 3600 * second, at: func(s *Server) any { return &s.Defaults.Timeout },
		doc: "The longest time that one call of a tool may take which `chimera tools import` imports from now on; by default `30s`. What is in the catalog already stays."},
	{name: "defaults.retries", sort: integer, max: 100, at: func(s *Server) any { return &s.Defaults.Retries },
		doc: "How often a failed call of such a tool is made again if it is `pure`; by default 2. Tools with effects are never called again unless the catalog says so."},
	{name: "url", sort: text, at: func(s *Server) any { return &s.URL }, check: checkURL, pattern: webPattern,
		doc: "Where a remote server is: an HTTPS address; TLS 1.3 is required. Plain HTTP is allowed only on this machine. Redirects are not followed, and proxies in the environment are ignored. In production a worker with a catalog does not start if a remote server has operations with effects, and neither a client certificate (`tls.cert_file`) nor `jwt`."},
	{name: "addresses", sort: networks, at: func(s *Server) any { return &s.Addresses },
		doc: "Networks, such as `10.1.0.0/16` or `127.0.0.1/32`, whose addresses may be dialled for this server although they are not public: loopback, private, link-local and other special addresses are refused otherwise, whatever name leads to them. An IPv4 address that NAT64 or 6to4 carries needs a network of IPv6 addresses. They hold for `oauth.token_url`, too."},
	{name: "headers", sort: headers, at: func(s *Server) any { return &s.Headers },
		doc: "Headers that are sent with each request. Values may contain references to secrets; `Authorization` must, and stands for `jwt` and `oauth`. Headers of the protocol cannot be set."},
	{name: "tls.ca_file", sort: path, at: func(s *Server) any { return &s.TLS.CAFile },
		doc: "PEM file with the certificate authorities to trust for the server's certificate, instead of the system's; for `oauth.token_url`, in addition to them."},
	{name: "tls.cert_file", sort: path, at: func(s *Server) any { return &s.TLS.CertFile },
		doc: "PEM file with the client's certificate, for mTLS. It is read for each session, as are the other files, so that it can be replaced."},
	{name: "tls.key_file", sort: path, at: func(s *Server) any { return &s.TLS.KeyFile },
		doc: "PEM file with the private key of the client's certificate."},
	{name: "tls.server_name", sort: text, at: func(s *Server) any { return &s.TLS.ServerName },
		doc: "The name that the server's certificate must have, if it is not the host of the URL."},
	{name: "tls.pins", sort: texts, at: func(s *Server) any { return &s.TLS.Pins }, check: checkPin, pattern: pinPattern,
		doc: "Digests of public keys, `sha256:` and 64 small hexadecimal digits of SubjectPublicKeyInfo. If there are any, the server's certificate, or an authority that vouches for it, must have one of these keys, in addition to being valid. Name the next key before the server changes to it. `openssl x509 -pubkey -noout -in cert.pem | openssl pkey -pubin -outform der | sha256sum` prints the digits."},
	{name: "jwt.key", sort: secret, required: true, at: func(s *Server) any { return &s.JWT.Key },
		doc: "A reference to a private key, PKCS #8 in PEM, Ed25519 or P-256: each request has a token of its own that it signs (`Authorization: Bearer`), with the claims iss, sub, aud, iat, exp and jti, and, unless `sessions` is `shared`, `act` (RFC 8693), whose sub is the agent of the plan. sub is whose rights count, and the agent acts with them."},
	{name: "jwt.issuer", sort: text, required: true, at: func(s *Server) any { return &s.JWT.Issuer },
		doc: "The claim iss."},
	{name: "jwt.subject", sort: text, at: func(s *Server) any { return &s.JWT.Subject },
		doc: "The claim sub; by default the issuer."},
	{name: "jwt.audience", sort: text, at: func(s *Server) any { return &s.JWT.Audience },
		doc: "The claim aud; by default the URL."},
	{name: "jwt.key_id", sort: text, at: func(s *Server) any { return &s.JWT.KeyID },
		doc: "The header kid."},
	{name: "jwt.lifetime", sort: duration, min: 5 * second, max: 3600 * second, at: func(s *Server) any { return &s.JWT.Lifetime },
		doc: "How long a token is good; by default one minute."},
	{name: "oauth.issuer", sort: text, required: true, at: func(s *Server) any { return &s.OAuth.Issuer }, check: checkURL, pattern: webPattern,
		doc: "The authorization server, of which the client credentials grant of OAuth 2.1 gets tokens for the server. It is never discovered: what the server says about its authorization server does not count."},
	{name: "oauth.token_url", sort: text, required: true, at: func(s *Server) any { return &s.OAuth.TokenURL }, check: checkURL, pattern: webPattern,
		doc: "Where it gives tokens. A token is asked for with the server's URL as `resource`."},
	{name: "oauth.client_id", sort: text, required: true, at: func(s *Server) any { return &s.OAuth.ClientID },
		doc: "The client's id. All agents are the same client: its tokens do not name them."},
	{name: "oauth.client_secret", sort: secret, required: true, at: func(s *Server) any { return &s.OAuth.ClientSecret },
		doc: "A reference to the client's secret."},
	{name: "oauth.scopes", sort: texts, at: func(s *Server) any { return &s.OAuth.Scopes },
		doc: "The scopes to ask for."},
}

// skillKeys are the keys of an entry of skills.
var skillKeys = []key[Skill]{
	{name: "command", sort: command, required: true, at: func(s *Skill) any { return &s.Command },
		doc: "The program to start for each call: a name that is looked up on PATH, or a path. It gets the operation's name as its last argument and the input as JSON on stdin, and writes the output as JSON to stdout."},
	{name: "args", sort: texts, at: func(s *Skill) any { return &s.Args },
		doc: "Its arguments, before the operation's name."},
	{name: "env", sort: secrets, at: func(s *Skill) any { return &s.Env },
		doc: "Its environment, as for MCP servers."},
	{name: "cwd", sort: path, at: func(s *Skill) any { return &s.Dir },
		doc: "Its working directory; by default the folder of chimera.yaml."},
	{name: "pin", sort: paths, at: func(s *Skill) any { return &s.Pin },
		doc: "Files and folders that it is made of besides its executable, as for MCP servers; they are read before each call of an operation whose template has `endpoints`."},
	{name: "user", sort: text, at: func(s *Skill) any { return &s.User },
		doc: "The user of the machine as whom it runs, as for MCP servers."},
	{name: "roles", sort: choices, oneOf: callers, at: func(s *Skill) any { return &s.Roles },
		doc: "The roles that start it, as for MCP servers."},
	{name: "max_output", sort: integer, min: 1, max: 1 << 30, at: func(s *Skill) any { return &s.MaxOutput },
		doc: "The most that it may write to stdout, in bytes; by default 16 MiB."},
	{name: "max_memory", sort: integer, min: 1 << 20, max: 1 << 40, at: func(s *Skill) any { return &s.MaxMemory },
		doc: "The private memory that each of its processes may have, in bytes; by default 2 GiB. Only Linux enforces it; elsewhere, a skill with this key is refused when it is called."},
}
