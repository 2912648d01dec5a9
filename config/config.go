// Package config is chimera.yaml: what a deployment says about its Temporal,
// its workers, its store, its MCP servers and its skills.
//
// A [Config] is made from four layers, the later winning: built-in defaults,
// Temporal's own profile file, chimera.yaml, and the environment. Unknown keys
// are refused. References to secrets (${env:NAME}, ${file:PATH}) stay
// unresolved until [Config.Resolve], which only a worker calls.
package config

import "time"

// Config is one deployment's configuration.
type Config struct {
	// File is the file that was read, or "" where there was none. Relative
	// paths of the file are relative to its folder; those in Config are made
	// absolute or relative to the working directory already.
	File string
	// Temporal says which server to use.
	Temporal Temporal
	// Dev is the embedded server of `chimera dev`.
	Dev Dev
	// Worker sizes the workers.
	Worker Worker
	// Store is where plans and large values are kept.
	Store Store
	// CatalogFile is the trust manifest, or "".
	CatalogFile string
	// MCPServers are the MCP servers that plans may name as providers.
	MCPServers map[string]Server
	// Skills are the executable skills, by provider.
	Skills map[string]Skill
}

// Temporal is the connection to a Temporal server.
type Temporal struct {
	// Address is host:port; "" is "not said": the dev server of this folder, if one runs.
	Address string
	// Namespace is the Temporal namespace.
	Namespace string
}

// Dev is the embedded server.
type Dev struct {
	// Dir holds the state of dev mode.
	Dir string
	// Port and UIPort are TCP ports on the loopback address.
	Port, UIPort int
}

// Worker sizes the workers of this process.
type Worker struct {
	// WorkflowPollers and ActivityPollers are the pollers for each queue.
	WorkflowPollers, ActivityPollers int
	// Activities and Workflows bound what runs at one time.
	Activities, Workflows int
	// Drain is how long a stopping worker waits for activities in flight.
	Drain time.Duration
}

// Store is the content-addressed store on disk.
type Store struct {
	// Dir is its folder.
	Dir string
}

// Server is one MCP server that is started as a child and spoken to on stdio.
type Server struct {
	Command string
	Args    []string
	// Env is the child's environment beside the few names that every child gets.
	Env map[string]string
	// Dir is the child's working directory, or "" for the worker's.
	Dir string
}

// Skill is one executable that speaks JSON on stdin and stdout.
type Skill struct {
	Command string
	Args    []string
	Env     map[string]string
	Dir     string
	// MaxOutput bounds what it may write, in bytes; 0 is the default of package skills.
	MaxOutput int64
}
