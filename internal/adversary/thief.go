package adversary

import (
	"reflect"
	"slices"
	"strings"

	"chimera.ai/engine/ledger/postgres"
)

// Thief is somebody who holds one part of a deployment.
type Thief string

// The thieves beside the users of the database, whose names are "user NAME".
const (
	Owner          Thief = "owner of the database"
	LogKey         Thief = "log's key"
	OwnerAndLogKey Thief = "owner of the database and log's key"
	GuardianKey    Thief = "guardian's key"
	AuthorKey      Thief = "author's key"
	StartKey       Thief = "agent's start key"
	AdminKey       Thief = "admin's key"
	SignerKey      Thief = "signer's key"
	ToolsPayload   Thief = "payload key of another role"
	BlobDisk       Thief = "disk of large values"
	ExportDisk     Thief = "disk of the export"
	WorkerDisk     Thief = "disk of the worker"
	Rollback       Thief = "older copy of the database"

	PublisherKey    Thief = "publisher's key of manifests"
	TokenKey        Thief = "key of tokens for an MCP server"
	ClientKey       Thief = "client key for an MCP server"
	ClientSecret    Thief = "client secret for an MCP server"
	StaticSecret    Thief = "static secret for an MCP server"
	SessionID       Thief = "session id at an MCP server"
	ServerKey       Thief = "MCP server, or its key"
	ServerDisk      Thief = "disk of an MCP server"
	WorkerConfig    Thief = "configuration of a worker"
	ExportedCatalog Thief = "catalog with its statements"
)

// user is the thief who has a user of a group role of the database.
func user(role string) Thief { return Thief("user " + strings.TrimPrefix(role, "chimera_")) }

// user reports whether it is one.
func (t Thief) user() bool { return strings.HasPrefix(string(t), "user ") }

// roles are the group roles of the database.
func roles() (all []string) {
	v := reflect.ValueOf(postgres.DefaultRoles)
	for i := range v.NumField() {
		all = append(all, v.Field(i).String())
	}
	return all
}

// Thieves lists all of them, in the order of the table in docs/audit.md.
func Thieves() (all []Thief) {
	for _, role := range roles() {
		all = append(all, user(role))
	}
	return slices.Concat(all, []Thief{Owner, LogKey, OwnerAndLogKey, GuardianKey, AuthorKey, StartKey, AdminKey, SignerKey, ToolsPayload, BlobDisk, ExportDisk, WorkerDisk, Rollback,
		PublisherKey, TokenKey, ClientKey, ClientSecret, StaticSecret, SessionID, ServerKey, ServerDisk, WorkerConfig, ExportedCatalog})
}
