// Package config reads chimera.yaml: the settings of a deployment's Temporal
// connection, workers, store, MCP servers and skills.
//
// A [Config] has five layers, of which later ones win: built-in defaults,
// Temporal's own profile file, chimera.yaml, Temporal's own environment
// (TEMPORAL_ADDRESS and the like), and the environment of Chimera (a variable
// for each scalar key: CHIMERA_TEMPORAL_ADDRESS for temporal.address). Unknown
// keys are refused. The table in keys.go holds every key with its bounds and
// its documentation; docs/configuration.md and schemas/config.json are generated
// from it.
//
// References to secrets (${env:NAME}, ${file:PATH}) stay unresolved until
// [Config.Resolve], which only a worker calls. A [Secret] never prints itself.
package config

import (
	"net/netip"
	"slices"
	"time"

	"go.temporal.io/sdk/contrib/envconfig"
)

// DefaultFile is the configuration file that is read if none is named.
const DefaultFile = "chimera.yaml"

// Config is one deployment's configuration.
type Config struct {
	// File is the file that was read, or "" if there was none. Relative paths in the
	// file are relative to its folder, and absolute here; those in the environment and
	// in defaults are relative to the working directory.
	File string
	// Temporal says which server to use.
	Temporal Temporal
	// Dev is the embedded server of `chimera dev`.
	Dev Dev
	// Children is how MCP servers and executables are started.
	Children Children
	// Worker sizes the workers.
	Worker Worker
	// Store says where the ledger, plans and large values are stored.
	Store Store
	// Ledger is how the audit log is signed.
	Ledger Ledger
	// Trust is the root of the deployment's authority, and keys to sign with.
	Trust Trust
	// Guardian is what decides on effects.
	Guardian Guardian
	// PKCS11 is how keys on tokens are reached.
	PKCS11 PKCS11
	// Author is who publishes plans, and Requester who starts runs; "" is the user
	// of the machine.
	Author, Requester string
	// Payload is how payloads are sealed.
	Payload Payload
	// Console is the server.
	Console Console
	// CatalogFile is the trust manifest, and ToolsFile that of imported tools, or "".
	CatalogFile, ToolsFile string
	// MCPRegistry is where MCP servers are looked up by name.
	MCPRegistry MCPRegistry
	// PolicyFiles are the files of the operator's policy bundle.
	PolicyFiles []string
	// MCPServers are the MCP servers that plans may name as providers.
	MCPServers map[string]Server
	// Skills are the executable skills, by provider.
	Skills map[string]Skill

	// stored is set if the file or the environment says where the ledger is.
	stored bool
	// opened are the files that Resolve has read secrets from.
	opened []string
	// resolved returns the secrets that Resolve has put in place of references. It is a
	// function, since nothing else hides an unexported field from formatted printing.
	resolved func() []Secret
	// profile is the connection according to Temporal's conventions and ours.
	profile envconfig.ClientConfigProfile
	// profileFile is Temporal's own configuration file, which may hold keys and need not be there, or "".
	profileFile string
}

// Temporal is the connection to a Temporal server. [Config.Client] turns it into client
// options.
type Temporal struct {
	// Address is host:port; "" means the dev server of this folder, if one runs.
	Address string
	// Namespace is the Temporal namespace.
	Namespace string
	// Profile is the profile of Temporal's own configuration file, or "" for its default.
	Profile string
	// APIKey is a reference to a key, or "".
	APIKey Secret
	TLS    TLS
}

// TLS is how the connection is secured. Paths name PEM files.
type TLS struct {
	Enabled  bool
	CAFile   string
	CertFile string
	KeyFile  string
	// ServerName overrides the name that the server's certificate must have.
	ServerName string
}

// DevPort is the default of [Dev.Port].
const DevPort = 7233

// Dev is the embedded server.
type Dev struct {
	// Dir holds the state of dev mode.
	Dir string
	// Port and UIPort are TCP ports on the loopback address; 0 means a free one.
	Port, UIPort int
	// Temporal is the executable to run, or "" to find or build one.
	Temporal string
}

// MCPRegistry is a registry of MCP servers.
type MCPRegistry struct {
	// URL is its address, or "" for none.
	URL string
	// CAFile is a PEM file with authorities in addition to the system's, or "".
	CAFile string
	// Addresses are networks that may be dialled although their addresses are not public.
	Addresses []netip.Prefix
}

// Children is how MCP servers and executables are started on the worker's machine.
type Children struct {
	// User is the user of the machine, by name or number, as whom they run, unless they have one of
	// their own; or "" for that of the worker.
	User string
}

// Worker sizes the workers of this process.
type Worker struct {
	// Roles are what a worker process does.
	Roles []string
	// WorkflowPollers and ActivityPollers are the pollers for each queue.
	WorkflowPollers, ActivityPollers int
	// MaxWorkflows and MaxActivities bound what runs at the same time.
	MaxWorkflows, MaxActivities int
	// CacheBytes bounds the memory for compiled plans, in bytes, and CachedRuns the
	// number of cached runs.
	CacheBytes, CachedRuns int
	// Drain is how long a stopping worker waits for activities in flight.
	Drain time.Duration
	// ToolsQueue says which queue calls of MCP servers and executables go to: "own" or
	// "shared".
	ToolsQueue string
	// Metrics is the TCP address on which a worker serves metrics to Prometheus, or "".
	Metrics string
	// Deployment is the workers' deployment, or "" for unversioned workers. Build is their
	// build id, or "" for the program's version.
	Deployment, Build string
}

// Store says where the deployment stores its ledger and its large values.
type Store struct {
	// Driver is "sqlite" or "postgres".
	Driver string
	// Path is SQLite's file.
	Path string
	// URL is a reference to PostgreSQL's connection string, or "":
	// [Config.StoreURL] resolves it.
	URL Secret
	// Origin is the name of the log, or "" for that of its key.
	Origin string
	// Blobs says where large values are: "dir" or "database".
	Blobs string
	// Dir is the folder of large values.
	Dir string
}

// Ledger is the audit log.
type Ledger struct {
	// Key is a reference to the log's key, the URI of one on a token, or "":
	// [Config.LedgerKey] resolves it.
	Key Secret
	// Subjects is the folder of the key that wraps the keys of subjects, or "".
	Subjects string
	// Retention says how long bodies are kept.
	Retention Retention
	// FormerKeys are verifier keys that the log had before.
	FormerKeys []string
	// Witnesses cosign checkpoints, and Quorum of them must have cosigned that of an
	// export.
	Witnesses []Witness
	Quorum    int
}

// Retention is how long bodies of the audit log's classes are kept; 0 is for ever.
type Retention struct {
	Operational, Evidence, Financial time.Duration
}

// Witness is a witness that cosigns the log's checkpoints.
type Witness struct {
	// Name is its name in this configuration, and Key its verifier key.
	Name, Key string
	// File is the folder that is shared with it, or URL its address.
	File, URL string
}

// Trust is the root of the deployment's authority, and the keys that commands
// sign with.
type Trust struct {
	// Bootstrap is the bootstrap file. If it is "", nothing says who may publish plans or
	// act for an agent. Pin is the digest that the file must have.
	Bootstrap, Pin string
	// Seen is the file in which a worker keeps the last statement that it has read, or "".
	Seen string
	// AttestationRoots are files with the certificates of makers of FIDO devices, in PEM,
	// which vouch for keys of people who approve.
	AttestationRoots []string
	// AuthorKey and StartKey are references to private keys, URIs of such keys on tokens,
	// or "": [Config.Referred] resolves them.
	AuthorKey, StartKey Secret
}

// Guardian is what decides on effects.
type Guardian struct {
	// Key is a reference to the key that signs permits, the URI of one on a token, or "":
	// [Config.Referred] resolves it.
	Key Secret
	// Shadow are the files of a bundle by which it decides too, without effect.
	Shadow []string
}

// PKCS11 is how keys on tokens are reached where their URIs do not say so.
type PKCS11 struct {
	// Module is the path of the tokens' module, or "".
	Module string
	// PIN is a reference to the tokens' PIN, or "": [Config.PIN] resolves it.
	PIN Secret
}

// Payload is how what passes through Temporal is protected.
type Payload struct {
	// Keys are references to keys, of which the first seals. [Config.PayloadKeys] resolves
	// them.
	Keys []Secret
	// Compress compresses what is sealed or stored.
	Compress bool
	// AcceptPlain accepts unsealed payloads even if there are keys.
	AcceptPlain bool
}

// Console is the server of `chimera console`.
type Console struct {
	// Address is host:port.
	Address string
	Codec   Codec
	// Guardian is a reference to the token of the guardian's endpoint, or "":
	// [Config.JudgeToken] resolves it.
	Guardian Secret
}

// Codec is the endpoint that opens payloads for the Temporal UI.
type Codec struct {
	// Token is a reference to its token, or "": [Config.CodecToken] resolves it.
	Token Secret
	// Origins are those of the pages that may call it.
	Origins []string
}

// Skill is an executable that reads and writes JSON on stdin and stdout.
type Skill struct {
	Command string
	Args    []string
	Env     map[string]Secret
	Dir     string
	// Public and Pin are as those of [Server].
	Public, Pin []string
	// User is as that of [Server].
	User string
	// MaxOutput bounds what it may write, in bytes; 0 is the default of package skills.
	MaxOutput int64
	// MaxMemory bounds the private memory of each process, in bytes; 0 is the
	// default of package skills.
	MaxMemory int64
	// Roles are as those of [Server].
	Roles []string
}

// Environ returns Env as a child gets it. It is useful only after [Config.Resolve].
func (s Skill) Environ() map[string]string { return reveal(s.Env) }

func reveal(env map[string]Secret) map[string]string {
	open := make(map[string]string, len(env))
	for name, value := range env {
		open[name] = value.Reveal()
	}
	return open
}

// HasStore reports whether the file or the environment says where the ledger is. If not,
// the store is the default one, that of dev mode in this folder.
func (c Config) HasStore() bool { return c.stored }

// Roles returns the roles that a worker may have.
func Roles() []string { return slices.Clone(roles) }

var (
	roles = []string{"engine", "tools", "guardian", "effects"}
	// callers are the roles that call MCP servers and executables.
	callers = []string{"tools", "effects"}
)

// Default returns the default configuration.
func Default() Config {
	return Config{
		Temporal: Temporal{Namespace: "default"},
		Dev:      Dev{Dir: ".chimera", Port: DevPort, UIPort: 8233},
		Worker: Worker{
			Roles:           []string{"engine", "tools"},
			WorkflowPollers: 8,
			ActivityPollers: 16,
			MaxWorkflows:    200,
			MaxActivities:   200,
			CacheBytes:      256 << 20,
			CachedRuns:      1000,
			Drain:           30 * time.Second,
			ToolsQueue:      "own",
		},
		Store:      Store{Driver: "sqlite", Path: ".chimera/ledger.db", Blobs: "dir", Dir: ".chimera/store"},
		Ledger:     Ledger{FormerKeys: []string{}},
		Payload:    Payload{Compress: true},
		Console:    Console{Address: "127.0.0.1:8234"},
		MCPServers: map[string]Server{},
		Skills:     map[string]Skill{},
	}
}
