package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/schemas"
)

// surroundings is an environment of a test: nothing of the machine, and no
// configuration file of Temporal.
func surroundings(pairs ...string) environ {
	vars := map[string]string{"TEMPORAL_CONFIG_FILE": "testdata/none.toml"}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		vars[name] = value
	}
	var all []string
	for name, value := range vars {
		all = append(all, name+"="+value)
	}
	return environ{
		lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		all:    func() []string { return all },
	}
}

func TestNothingSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	c, ds := load("", surroundings())
	require.Empty(t, ds)
	require.Empty(t, cmp.Diff(Default(), c, cmpopts.IgnoreUnexported(Config{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })))
}

const full = `# everything
temporal:
  address: temporal.example.com:7233
  namespace: agents
  api_key: ${env:KEY}
  tls: {ca_file: ca.pem, server_name: temporal.internal}
dev: {dir: state, port: 7000, ui_port: 0, temporal: ../bin/temporal}
worker:
  roles: [tools]
  workflow_pollers: 4
  activity_pollers: 5
  max_workflows: 6
  max_activities: 7
  tools_queue: shared
  cache_bytes: 1048577
  cached_runs: 9
  drain: 1m30s
  deployment: chimera
  build: "7"
store: {driver: postgres, path: ledger.db, url: "${env:DATABASE}", origin: example.com/log, blobs: database, dir: /var/lib/chimera}
ledger:
  key: ${file:pin.txt}
  former_keys: [example.com/log+1+AA==]
  quorum: 1
  retention: {operational: 90d, evidence: 7y, financial: 36h}
  witnesses:
    - {name: bank, key: bank.example.com+2+AA==, url: https://witness.bank.example.com}
    - {name: attic, key: attic+3+AA==, file: shared/attic}
guardian: {key: "pkcs11:token=T;object=guardian"}
pkcs11: {module: lib/p11.so, pin: "${file:pin.txt}"}
payload: {keys: ["new:${env:PAYLOAD_KEY}", "${file:pin.txt}"], compress: false, accept_plain: true}
console: {address: "0.0.0.0:80", codec: {token: "${env:CODEC}", origins: ["https://temporal.example.com"]}}
author: alice
catalog: trust/catalog.yaml
policy: [trust/policy.yaml, /etc/chimera/more.yaml]
mcpServers:
  files:
    type: stdio
    command: npx
    args: [-y, "@modelcontextprotocol/server-filesystem", .]
    pin: [package-lock.json, /srv/lib]
    env: {TOKEN: "Bearer ${env:TOKEN}", PLAIN: "1", MONEY: "$${x}"}
    manifest: files.manifest
    sessions: run
    max_sessions: 8
    defaults: {timeout: 5s, retries: 0}
  bank:
    url: https://mcp.example.com/mcp
    headers: {X-Tenant: "${env:TENANT}"}
    addresses: [10.1.0.0/16, "fd00::/8"]
    tls:
      ca_file: ca.pem
      cert_file: client.pem
      key_file: /run/client.key
      server_name: bank.internal
      pins: ["sha256:fedcba9876fedcba9876fedcba9876fedcba9876fedcba9876fedcba9876fedc"]
    jwt: {key: "${file:pin.txt}", issuer: a, subject: b, audience: c, key_id: d, lifetime: 30s}
  old:
    type: sse
    url: http://localhost:8080/sse
    oauth: {issuer: "https://id.example.com", token_url: "https://id.example.com/token", client_id: me, client_secret: "${env:CLIENT}", scopes: [a, b]}
skills:
  words: {command: ./words, cwd: work, pin: [data], max_output: 1000, max_memory: 1048576, env: {PIN: "${file:pin.txt}"}}
`

func TestEveryKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "chimera.yaml")
	require.NoError(t, os.WriteFile(file, []byte(full), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pin.txt"), []byte("1234\n"), 0o600))
	c, ds := load(file, surroundings())
	require.Empty(t, ds)
	want := Config{
		File: file,
		Temporal: Temporal{Address: "temporal.example.com:7233", Namespace: "agents", APIKey: "${env:KEY}",
			TLS: TLS{CAFile: filepath.Join(dir, "ca.pem"), ServerName: "temporal.internal"}},
		Dev: Dev{Dir: filepath.Join(dir, "state"), Port: 7000, UIPort: 0, Temporal: filepath.Join(filepath.Dir(dir), "bin/temporal")},
		Worker: Worker{Roles: []string{"tools"}, WorkflowPollers: 4, ActivityPollers: 5, MaxWorkflows: 6, MaxActivities: 7,
			CacheBytes: 1<<20 + 1, CachedRuns: 9, Drain: 90 * time.Second, ToolsQueue: "shared", Deployment: "chimera", Build: "7"},
		Store: Store{Driver: "postgres", Path: filepath.Join(dir, "ledger.db"), URL: "${env:DATABASE}", Origin: "example.com/log",
			Blobs: "database", Dir: "/var/lib/chimera"},
		Ledger: Ledger{Key: "${file:pin.txt}", FormerKeys: []string{"example.com/log+1+AA=="}, Quorum: 1,
			Retention: Retention{Operational: 90 * 24 * time.Hour, Evidence: 7 * 366 * 24 * time.Hour, Financial: 36 * time.Hour}, Witnesses: []Witness{
				{Name: "bank", Key: "bank.example.com+2+AA==", URL: "https://witness.bank.example.com"},
				{Name: "attic", Key: "attic+3+AA==", File: filepath.Join(dir, "shared/attic")}}},
		Guardian:    Guardian{Key: "pkcs11:token=T;object=guardian"},
		PKCS11:      PKCS11{Module: filepath.Join(dir, "lib/p11.so"), PIN: "${file:pin.txt}"},
		Payload:     Payload{Keys: []Secret{"new:${env:PAYLOAD_KEY}", "${file:pin.txt}"}, AcceptPlain: true},
		Console:     Console{Address: "0.0.0.0:80", Codec: Codec{Token: "${env:CODEC}", Origins: []string{"https://temporal.example.com"}}},
		Author:      "alice",
		CatalogFile: filepath.Join(dir, "trust/catalog.yaml"),
		PolicyFiles: []string{filepath.Join(dir, "trust/policy.yaml"), "/etc/chimera/more.yaml"},
		MCPServers: map[string]Server{"files": {Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "."}, Dir: dir, Pin: []string{filepath.Join(dir, "package-lock.json"), "/srv/lib"},
			Type: "stdio", Headers: map[string]Secret{}, Manifest: filepath.Join(dir, "files.manifest"), Sessions: "run", MaxSessions: 8, Defaults: ServerDefaults{Timeout: 5 * time.Second},
			Env: map[string]Secret{"TOKEN": "Bearer ${env:TOKEN}", "PLAIN": "1", "MONEY": "$${x}"}},
			"bank": {Type: "http", Defaults: ServerDefaults{Timeout: 30 * time.Second, Retries: 2}, URL: "https://mcp.example.com/mcp", Dir: dir, Env: map[string]Secret{}, Headers: map[string]Secret{"X-Tenant": "${env:TENANT}"},
				Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")},
				TLS: ServerTLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"), KeyFile: "/run/client.key",
					ServerName: "bank.internal", Pins: []string{"sha256:fedcba9876fedcba9876fedcba9876fedcba9876fedcba9876fedcba9876fedc"}},
				JWT: JWT{Key: "${file:pin.txt}", Issuer: "a", Subject: "b", Audience: "c", KeyID: "d", Lifetime: 30 * time.Second}},
			"old": {Type: "sse", Defaults: ServerDefaults{Timeout: 30 * time.Second, Retries: 2}, URL: "http://localhost:8080/sse", Dir: dir, Env: map[string]Secret{}, Headers: map[string]Secret{},
				OAuth: OAuth{Issuer: "https://id.example.com", TokenURL: "https://id.example.com/token", ClientID: "me", ClientSecret: "${env:CLIENT}", Scopes: []string{"a", "b"}}}},
		Skills: map[string]Skill{"words": {Command: filepath.Join(dir, "words"), Dir: filepath.Join(dir, "work"), Pin: []string{filepath.Join(dir, "data")}, MaxOutput: 1000,
			MaxMemory: 1 << 20, Env: map[string]Secret{"PIN": "${file:pin.txt}"}}},
	}
	require.Empty(t, cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })))

	t.Run("secrets are resolved on request only", func(t *testing.T) {
		_, err := c.Resolve()
		require.ErrorContains(t, err, "resolving mcpServers.files.env.TOKEN: the variable TOKEN is not set")
		require.ErrorContains(t, err, "resolving mcpServers.bank.headers.X-Tenant: the variable TENANT is not set")
		require.ErrorContains(t, err, "resolving mcpServers.old.oauth.client_secret: the variable CLIENT is not set")
		t.Setenv("TOKEN", "s3cret")
		t.Setenv("TENANT", "t3nant")
		t.Setenv("CLIENT", "cl13nt")
		r, err := c.Resolve()
		require.NoError(t, err)
		require.Equal(t, map[string]string{"X-Tenant": "t3nant"}, r.MCPServers["bank"].Sent())
		require.Equal(t, []string{"MONEY", "PLAIN"}, r.MCPServers["files"].Public)
		require.Equal(t, dir, r.Folder())
		require.Equal(t, "1234", r.MCPServers["bank"].JWT.Key.Reveal())
		require.Equal(t, "cl13nt", r.MCPServers["old"].OAuth.ClientSecret.Reveal())
		require.Equal(t, map[string]string{"TOKEN": "Bearer s3cret", "PLAIN": "1", "MONEY": "${x}"}, r.MCPServers["files"].Environ())
		require.Equal(t, map[string]string{"PIN": "1234"}, r.Skills["words"].Environ())
		require.Equal(t, Secret("Bearer ${env:TOKEN}"), c.MCPServers["files"].Env["TOKEN"], "the original stays")

		log := new(strings.Builder)
		slog.New(slog.NewJSONHandler(log, nil)).Info("all", "config", r, "one", r.Skills["words"].Env["PIN"])
		encoded, err := json.Marshal(r)
		require.NoError(t, err)
		printed := []string{string(encoded), log.String()}
		for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%s", "%x", "%d"} { // some of them wrong on purpose
			printed = append(printed, fmt.Sprintf(verb, r), fmt.Sprintf(verb, r.Skills["words"].Env["PIN"]))
		}
		for _, printed := range printed {
			for _, told := range []string{"s3cret", "1234", "73336372"} {
				require.NotContains(t, printed, told)
			}
		}
	})
	t.Run("payload keys and the codec's token", func(t *testing.T) {
		_, err := c.PayloadKeys()
		require.ErrorContains(t, err, "resolving payload.keys[0]: the variable PAYLOAD_KEY is not set")
		t.Setenv("PAYLOAD_KEY", "a key")
		keys, err := c.PayloadKeys()
		require.NoError(t, err)
		require.Equal(t, []string{"new:a key", "1234"}, keys)
		_, err = c.CodecToken()
		require.ErrorContains(t, err, "resolving console.codec.token: the variable CODEC is not set")
	})
	t.Run("the store", func(t *testing.T) {
		_, err := c.StoreURL()
		require.ErrorContains(t, err, "resolving store.url: the variable DATABASE is not set")
		t.Setenv("DATABASE", "postgres://x")
		url, err := c.StoreURL()
		require.NoError(t, err)
		require.Equal(t, "postgres://x", url)
		key, err := c.LedgerKey()
		require.NoError(t, err)
		require.Equal(t, "1234", key)
	})
	t.Run("the connection", func(t *testing.T) {
		_, err := c.Client()
		require.ErrorContains(t, err, "resolving temporal.api_key: the variable KEY is not set")
		t.Setenv("KEY", "k")
		_, err = c.Client()
		require.ErrorContains(t, err, "ca.pem")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o600))
	})
}

func TestLayers(t *testing.T) {
	dir := t.TempDir()
	profiles := filepath.Join(dir, "temporal.toml")
	require.NoError(t, os.WriteFile(profiles, []byte(`
[profile.default]
address = "profile:1"
namespace = "profile"
[profile.other]
address = "other:1"
api_key = "from-${here}"
`), 0o600))
	for name, c := range map[string]struct {
		yaml      string
		env       []string
		address   string
		namespace string
	}{
		"default":       {"", nil, "", "default"},
		"profile":       {"", []string{"TEMPORAL_CONFIG_FILE=" + profiles}, "profile:1", "profile"},
		"other profile": {"temporal: {profile: other}", []string{"TEMPORAL_CONFIG_FILE=" + profiles}, "other:1", "default"},
		"named by env":  {"", []string{"TEMPORAL_CONFIG_FILE=" + profiles, "TEMPORAL_PROFILE=other"}, "other:1", "default"},
		"file":          {"temporal: {address: 'file:1'}", []string{"TEMPORAL_CONFIG_FILE=" + profiles}, "file:1", "profile"},
		"Temporal's environment": {"temporal: {address: 'file:1'}",
			[]string{"TEMPORAL_CONFIG_FILE=" + profiles, "TEMPORAL_ADDRESS=env:1"}, "env:1", "profile"},
		"our environment": {"temporal: {address: 'file:1'}",
			[]string{"TEMPORAL_ADDRESS=env:1", "CHIMERA_TEMPORAL_ADDRESS=ours:1", "CHIMERA_TEMPORAL_NAMESPACE=n"}, "ours:1", "n"},
	} {
		t.Run(name, func(t *testing.T) {
			config, ds := parse("chimera.yaml", []byte(c.yaml), surroundings(c.env...))
			require.Empty(t, ds)
			o, err := config.Client()
			require.NoError(t, err)
			require.Equal(t, c.address, config.Temporal.Address)
			require.Equal(t, c.address, o.HostPort)
			require.Equal(t, c.namespace, o.Namespace)
		})
	}
	t.Run("no such profile", func(t *testing.T) {
		_, ds := parse("", nil, surroundings("TEMPORAL_CONFIG_FILE="+profiles, "TEMPORAL_PROFILE=nope"))
		require.True(t, ds.HasErrors())
		require.Contains(t, ds[0].Detail, "nope")
	})
}

func TestEnvironmentOfEveryKey(t *testing.T) {
	c, ds := parse("", nil, surroundings(
		"CHIMERA_DEV_PORT=7", "CHIMERA_DEV_DIR=d", "CHIMERA_WORKER_ROLES=tools, engine", "CHIMERA_WORKER_DRAIN=1s",
		"CHIMERA_STORE_DIR=s", "CHIMERA_CATALOG=c", "CHIMERA_TEMPORAL_TLS_ENABLED=true", "CHIMERA_TEMPORAL_API_KEY=literal",
		"CHIMERA_PROCESS=not ours", "CHIMERA_VERSION=1"))
	require.Empty(t, ds)
	require.Equal(t, 7, c.Dev.Port)
	require.Equal(t, "d", c.Dev.Dir)
	require.Equal(t, []string{"tools", "engine"}, c.Worker.Roles)
	require.Equal(t, time.Second, c.Worker.Drain)
	require.Equal(t, "s", c.Store.Dir)
	require.Equal(t, "c", c.CatalogFile)
	o, err := c.Client()
	require.NoError(t, err)
	require.NotNil(t, o.ConnectionOptions.TLS)
	require.NotNil(t, o.Credentials)
}

// TestRefused: each text has one finding, at the marked place.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, summary, suggestion string
		code                      diag.Code
		line, column              int
	}{
		"key":              {"wroker: {}", `there is no key "wroker"`, "worker", diag.ConfigKey, 1, 1},
		"nested key":       {"worker:\n  drian: 1s", `there is no key "worker.drian"`, "drain", diag.ConfigKey, 2, 3},
		"deep key":         {"temporal: {tls: {cafile: x}}", `there is no key "temporal.tls.cafile"`, "ca_file", diag.ConfigKey, 1, 18},
		"root":             {"[]", "the configuration is a list, but must be a map", "", diag.ConfigValue, 1, 1},
		"section":          {"store: here", "store is a string, but must be a map", "", diag.ConfigValue, 1, 8},
		"type":             {"dev: {port: many}", "dev.port is a string, but must be a whole number", "", diag.ConfigValue, 1, 13},
		"fraction":         {"dev: {port: 1.5}", "dev.port must be a whole number between 0 and 65535", "", diag.ConfigValue, 1, 13},
		"bound":            {"dev: {port: 65536}", "dev.port must be a whole number between 0 and 65535", "", diag.ConfigValue, 1, 13},
		"huge":             {"dev: {port: 1e400}", "dev.port must be a whole number between 0 and 65535", "", diag.ConfigValue, 1, 13},
		"permanent":        {"ledger: {retention: {permanent: 1y}}", `there is no key "ledger.retention.permanent"`, "", diag.ConfigKey, 1, 22},
		"no period":        {"ledger: {retention: {evidence: 0d}}", "ledger.retention.evidence must be a duration such as 90d, 12w, 7y or 36h, and is at most 291y", "", diag.ConfigValue, 1, 32},
		"negative period":  {"ledger: {retention: {evidence: -1h}}", "ledger.retention.evidence must be a duration such as 90d, 12w, 7y or 36h", "", diag.ConfigValue, 1, 32},
		"endless period":   {"ledger: {retention: {evidence: 9999999999y}}", "ledger.retention.evidence must be a duration such as 90d, 12w, 7y or 36h, and is at most 291y", "", diag.ConfigValue, 1, 32},
		"empty period":     {"ledger: {retention: {evidence: ''}}", "ledger.retention.evidence must be a duration such as 90d, 12w, 7y or 36h", "", diag.ConfigValue, 1, 32},
		"number period":    {"ledger: {retention: {evidence: 7}}", "ledger.retention.evidence is a number, but must be a duration such as 90d or 7y", "", diag.ConfigValue, 1, 32},
		"duration":         {"worker: {drain: soon}", "worker.drain must be a duration such as 30s", "", diag.ConfigValue, 1, 17},
		"negative":         {"worker: {drain: -1s}", "worker.drain must be between 0s and 1h0m0s", "", diag.ConfigValue, 1, 17},
		"role":             {"worker: {roles: [auditor]}", `worker.roles holds "auditor"; possible are engine, tools, guardian, effects`, "", diag.ConfigValue, 1, 17},
		"twice":            {"worker: {roles: [tools, tools]}", "worker.roles holds tools twice", "", diag.ConfigValue, 1, 17},
		"driver":           {"store: {driver: oracle}", `store.driver is "oracle"; possible are sqlite, postgres`, "", diag.ConfigValue, 1, 17},
		"a written url":    {"store: {url: postgres://me:secret@host/x}", "store.url holds a password, which must be a reference to a secret", "", diag.ConfigSecret, 1, 14},
		"a key's PIN":      {"guardian: {key: 'pkcs11:token=t;object=g?pin-value=1234'}", "guardian.key names no key on a token: not a usable PKCS #11 URI: pin-value is not supported: a URI is no secret, so it must not hold a PIN: give pin-source", "", diag.ConfigValue, 1, 17},
		"no object":        {"ledger: {key: 'PKCS11:token=t'}", "ledger.key names no key on a token: not a usable PKCS #11 URI: it names no key: give object or id", "", diag.ConfigValue, 1, 15},
		"a token's URL":    {"store: {url: 'pkcs11:token=t;object=u'}", "store.url must be a reference to a secret, not the secret", "", diag.ConfigSecret, 1, 14},
		"a written PIN":    {"pkcs11: {pin: '1234'}", "pkcs11.pin must be a reference to a secret, not the secret", "", diag.ConfigSecret, 1, 15},
		"a written key":    {"trust: {start_key: pkcs12}", "trust.start_key must be a reference to a secret, not the secret", "", diag.ConfigSecret, 1, 20},
		"key of no type":   {"trust: {author_key: 1}", "trust.author_key is a number, but must be a string with a reference such as ${env:NAME}, or the URI of a key on a token", "", diag.ConfigValue, 1, 21},
		"no role":          {"worker: {roles: []}", "worker.roles must not be empty; possible are engine, tools, guardian, effects", "", diag.ConfigValue, 1, 17},
		"literal key":      {"temporal: {api_key: abc}", "temporal.api_key must be a reference to a secret, not the secret", "", diag.ConfigSecret, 1, 21},
		"reference":        {`store: {dir: "a/${env:X}"}`, "no reference to a secret may stand in store.dir", "", diag.ConfigSecret, 1, 17},
		"in arguments":     {"mcpServers: {f: {command: x, args: ['${env:X}']}}", "no reference to a secret may stand in mcpServers.f.args", "", diag.ConfigSecret, 1, 38},
		"scheme":           {"skills: {f: {command: x, env: {A: 'a ${vault:x}'}}}", "skills.f.env.A: a reference is ${env:NAME} or ${file:PATH}; write $${ for the text ${", "", diag.ConfigSecret, 1, 38},
		"open reference":   {"skills: {f: {command: x, env: {A: '${env:x'}}}", "skills.f.env.A: the reference has no closing }", "", diag.ConfigSecret, 1, 36},
		"variable":         {"skills: {f: {command: x, env: {'A-B': x}}}", `"A-B" cannot be the name of a variable`, "", diag.ConfigKey, 1, 32},
		"number in env":    {"skills: {f: {command: x, env: {A: 1}}}", "skills.f.env.A is a number, but must be a string", "", diag.ConfigValue, 1, 35},
		"provider":         {"skills: {'a b': {command: x}}", `"a b" cannot be the name of a provider`, "", diag.ConfigKey, 1, 10},
		"built in":         {"skills: {engine: {command: x}}", "the provider engine is built in", "", diag.ConfigKey, 1, 18},
		"no command":       {"mcpServers:\n  f: {args: []}", "mcpServers.f has neither command nor url", "", diag.ConfigValue, 2, 6},
		"two kinds":        {"mcpServers: {f: {command: x, url: 'https://x'}}", "mcpServers.f has both command and url", "", diag.ConfigValue, 1, 35},
		"a child's key":    {"mcpServers: {f: {url: 'https://x', env: {}}}", "mcpServers.f has env, which nothing with a url has", "", diag.ConfigValue, 1, 36},
		"a remote's key":   {"mcpServers: {f: {command: x, jwt: {key: '${env:X}', issuer: a}}}", "mcpServers.f has jwt, which nothing with a command has", "", diag.ConfigValue, 1, 30},
		"plain":            {"mcpServers: {f: {url: 'http://example.com'}}", "mcpServers.f.url must be an HTTPS address: plain HTTP is allowed only on this machine", "", diag.ConfigValue, 1, 23},
		"no address":       {"mcpServers: {f: {url: x}}", "mcpServers.f.url must be an HTTPS address", "", diag.ConfigValue, 1, 23},
		"user in a URL":    {"mcpServers: {f: {url: 'https://a:b@x'}}", "mcpServers.f.url must have neither a user nor a fragment", "", diag.ConfigValue, 1, 23},
		"secret in a URL":  {"mcpServers: {f: {url: 'https://x/${env:X}'}}", "no reference to a secret may stand in mcpServers.f.url", "", diag.ConfigSecret, 1, 34},
		"two credentials":  {"mcpServers: {f: {url: 'https://x', jwt: {key: '${env:X}', issuer: a}, headers: {authorization: '${env:X}'}}}", "headers.authorization is a second credential beside jwt", "", diag.ConfigValue, 1, 81},
		"jwt and oauth":    {"mcpServers:\n  f:\n    url: https://x\n    oauth: {issuer: 'https://i', token_url: 'https://t', client_id: a, client_secret: '${env:X}'}\n    jwt: {key: '${env:X}', issuer: a}", "jwt is a second credential beside oauth", "", diag.ConfigValue, 5, 5},
		"written token":    {"mcpServers: {f: {url: 'https://x', headers: {Authorization: abc}}}", "mcpServers.f.headers.Authorization must be a reference to a secret, not the secret", "", diag.ConfigSecret, 1, 61},
		"header":           {"mcpServers: {f: {url: 'https://x', headers: {'a b': abc}}}", `"a b" cannot be the name of a header`, "", diag.ConfigKey, 1, 46},
		"header twice":     {"mcpServers: {f: {url: 'https://x', headers: {x-a: abc, X-A: d}}}", "mcpServers.f.headers has the header X-A twice", "", diag.ConfigKey, 1, 56},
		"no jwt key":       {"mcpServers: {f: {url: 'https://x', jwt: {issuer: a}}}", "mcpServers.f.jwt has no key", "", diag.ConfigValue, 1, 41},
		"written jwt key":  {"mcpServers: {f: {url: 'https://x', jwt: {issuer: a, key: b}}}", "mcpServers.f.jwt.key must be a reference to a secret, not the secret", "", diag.ConfigSecret, 1, 58},
		"no client":        {"mcpServers: {f: {url: 'https://x', oauth: {issuer: 'https://i', token_url: 'https://t', client_secret: '${env:X}'}}}", "mcpServers.f.oauth has no client_id", "", diag.ConfigValue, 1, 43},
		"plain token URL":  {"mcpServers: {f: {url: 'https://x', oauth: {issuer: 'https://i', token_url: 'http://t', client_id: a, client_secret: '${env:X}'}}}", "mcpServers.f.oauth.token_url must be an HTTPS address: plain HTTP is allowed only on this machine", "", diag.ConfigValue, 1, 76},
		"key in a section": {"mcpServers: {f: {url: 'https://x', tls: {ca: x}}}", `there is no key "mcpServers.f.tls.ca"`, "", diag.ConfigKey, 1, 42},
		"section no map":   {"mcpServers: {f: {url: 'https://x', tls: x}}", "mcpServers.f.tls is a string, but must be a map", "", diag.ConfigValue, 1, 41},
		"half a pair":      {"mcpServers: {f: {url: 'https://x', tls: {cert_file: x}}}", "mcpServers.f.tls has one of cert_file and key_file", "", diag.ConfigValue, 1, 41},
		"tls without":      {"mcpServers: {f: {url: 'http://localhost', tls: {server_name: x}}}", "mcpServers.f has tls, and its url is one without", "", diag.ConfigValue, 1, 48},
		"pin":              {"mcpServers: {f: {url: 'https://x', tls: {pins: ['sha256:00']}}}", "mcpServers.f.tls.pins must hold digests such as sha256:… with 64 small hexadecimal digits", "", diag.ConfigValue, 1, 49},
		"retries":          {"mcpServers: {f: {command: x, defaults: {retries: 101}}}", "mcpServers.f.defaults.retries must be a whole number between 0 and 100", "", diag.ConfigValue, 1, 50},
		"no timeout":       {"mcpServers: {f: {command: x, defaults: {timeout: 0s}}}", "mcpServers.f.defaults.timeout must be between 1ms and 24h0m0s", "", diag.ConfigValue, 1, 50},
		"network":          {"mcpServers: {f: {url: 'https://x', addresses: [10.0.0.1/8]}}", `mcpServers.f.addresses holds what is no network: "10.0.0.1/8" has bits beyond its length: it is 10.0.0.0/8`, "", diag.ConfigValue, 1, 47},
		"lifetime":         {"mcpServers: {f: {url: 'https://x', jwt: {key: '${env:X}', issuer: a, lifetime: 2h}}}", "mcpServers.f.jwt.lifetime must be between 5s and 1h0m0s", "", diag.ConfigValue, 1, 80},
		"type of a remote": {"mcpServers: {f: {type: stdio, url: 'https://x'}}", "mcpServers.f is of type stdio, and has a url", "", diag.ConfigValue, 1, 24},
		"foreign":          {"mcpServers: {f: {command: x, timeout: 1}}", "not supported yet: mcpServers.f.timeout", "", diag.ConfigNotSupported, 1, 30},
		"entry key":        {"mcpServers: {f: {command: x, argz: []}}", `there is no key "mcpServers.f.argz"`, "args", diag.ConfigKey, 1, 30},
		"transport":        {"mcpServers: {f: {type: sse, command: x}}", "mcpServers.f is of type sse, and has a command", "", diag.ConfigValue, 1, 24},
		"other transport":  {"mcpServers: {f: {type: websocket, url: 'https://x'}}", `mcpServers.f.type is "websocket"; possible are stdio, http, sse`, "", diag.ConfigValue, 1, 24},
		"syntax":           {"worker: [", "", "", diag.ConfigFile, 0, 0},
		"duplicate":        {"catalog: a\ncatalog: b", "", "", diag.ConfigFile, 0, 0},
		"two documents":    {"catalog: a\n---\ncatalog: b", "the file holds more than one document", "", diag.ConfigFile, 3, 1},
		"zero byte":        {`catalog: "a\0"`, "catalog holds a zero byte", "", diag.ConfigValue, 1, 10},
		"long":             {"catalog: " + strings.Repeat("a", 5000), "catalog is longer than 4096 bytes", "", diag.ConfigValue, 1, 10},
		"null":             {"catalog:", "catalog is a null, but must be a string", "", diag.ConfigValue, 0, 0},
		"number for text":  {"catalog: 1", "catalog is a number, but must be a string", "", diag.ConfigValue, 1, 10},
		"list of numbers":  {"mcpServers: {f: {command: x, args: [a, 1]}}", "mcpServers.f.args is a number, but must be a list of strings (quote what looks like a number)", "", diag.ConfigValue, 1, 40},
		"entry is no map":  {"skills: {f: x}", "skills.f is a string, but must be a map", "", diag.ConfigValue, 1, 13},
		"servers in snake": {"mcp_servers: {}", `there is no key "mcp_servers"`, "mcpServers", diag.ConfigKey, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, ds := parse("c.yaml", []byte(c.yaml), surroundings())
			require.NotEmpty(t, ds)
			d := ds[0]
			require.Equal(t, c.code, d.Code, "%+v", d)
			require.Equal(t, diag.Error, d.Severity)
			require.Equal(t, "c.yaml", d.Subject.File)
			if c.summary != "" {
				require.Len(t, ds, 1)
				require.Equal(t, c.summary, d.Summary)
			}
			require.Equal(t, c.suggestion, d.Suggestion)
			if c.line > 0 {
				require.Equal(t, [2]int{c.line, c.column}, [2]int{d.Subject.Start.Line, d.Subject.Start.Column})
			}
		})
	}
}

func TestRefusedEnvironment(t *testing.T) {
	for pair, c := range map[string]struct{ summary, suggestion string }{
		"CHIMERA_WORKER_DRIAN=1s":        {`the variable "CHIMERA_WORKER_DRIAN" sets no key`, "CHIMERA_WORKER_DRAIN"},
		"CHIMERA_DEV_PORT=x":             {"the variable CHIMERA_DEV_PORT must be a whole number between 0 and 65535", ""},
		"CHIMERA_WORKER_ROLES=":          {`the variable CHIMERA_WORKER_ROLES holds ""; possible are engine, tools, guardian, effects`, ""},
		"CHIMERA_GUARDIAN_KEY=pkcs11:a":  {"the variable CHIMERA_GUARDIAN_KEY names no key on a token: not a usable PKCS #11 URI: it must consist of NAME=VALUE, with \";\" between them", ""},
		"CHIMERA_LEDGER_KEY=${env":       {"the variable CHIMERA_LEDGER_KEY is no reference to a secret: the reference has no closing }", ""},
		"CHIMERA_TEMPORAL_API_KEY=${env": {"the variable CHIMERA_TEMPORAL_API_KEY is no reference to a secret: the reference has no closing }", ""},
	} {
		_, ds := parse("", nil, surroundings(pair))
		require.Len(t, ds, 1, pair)
		require.Equal(t, c.summary, ds[0].Summary)
		require.Equal(t, c.suggestion, ds[0].Suggestion)
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yaml")
	require.NoError(t, os.WriteFile(big, make([]byte, maxFile+1), 0o600))
	for _, path := range []string{filepath.Join(dir, "none.yaml"), dir, big, "/dev/zero"} {
		_, ds := load(path, surroundings())
		require.Len(t, ds, 1)
		require.Equal(t, diag.ConfigFile, ds[0].Code)
		require.Equal(t, path, ds[0].Subject.File)
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("crlf", "a\r\n")
	write("lines", "a\nb\n\n")
	write("big", strings.Repeat("a", maxSecret+1))
	write("binary", "\xff\xfe")
	write("zero", "a\x00b")
	r := resolver{dir: dir, lookup: func(string) (string, bool) { return "", false }}
	for in, want := range map[Secret]Secret{
		"${file:crlf}": "a", "${file:lines}": "a\nb\n", "x${file:crlf}y${file:crlf}": "xaya", "$${file:crlf}": "${file:crlf}", "$5 {}": "$5 {}",
	} {
		have, err := r.resolve(in)
		require.NoError(t, err)
		require.Equal(t, want.Reveal(), have.Reveal())
	}
	for in, want := range map[Secret]string{
		"${file:big}": "is over 65536 bytes", "${file:binary}": "is not UTF-8 text", "${file:zero}": "zero byte",
		"${file:.}": "is not a regular file", "${file:none}": "no such file", "${env:NONE}": "the variable NONE is not set",
	} {
		_, err := r.resolve(in)
		require.ErrorContains(t, err, want)
	}
}

// TestSchemaAgrees: the published schema takes what the reader takes, and
// refuses what it refuses for a reason that a schema can see.
func TestSchemaAgrees(t *testing.T) {
	raw, err := os.ReadFile("../schemas/config.json")
	require.NoError(t, err)
	schema, err := schemas.Compile(raw)
	require.NoError(t, err)
	require.NoError(t, schema.Validate(anyOf(t, full)))
	for _, bad := range []string{"wroker: {}", "dev: {port: 65536}", "worker: {roles: [auditor]}", "temporal: {api_key: abc}", "guardian: {key: abc}", "pkcs11: {pin: abc}", "temporal: {api_key: 'pkcs11:token=t;object=u'}",
		"mcpServers: {f: {args: []}}", "mcpServers: {f: {url: x}}", "mcpServers: {f: {url: 'https://x', command: x}}",
		"mcpServers: {f: {url: 'https://x', tls: {pins: [x]}}}", "mcpServers: {f: {url: 'https://x', jwt: {issuer: x}}}", "mcpServers: {f: {url: 'https://x', headers: {'a b': x}}}", "skills: {'a b': {command: x}}", "skills: {f: {command: x, env: {A: 1}}}"} {
		require.Error(t, schema.Validate(anyOf(t, bad)), bad)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("worker: {drain: 1s}\nmcpServers: {f: {command: x, env: {A: '${env:B}$${'}}}"))
	f.Add([]byte("a: &a [*a]\n---\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, ds := parse("c.yaml", src, surroundings())
		if ds.HasErrors() {
			return
		}
		_, _ = c.resolver().resolve(c.Temporal.APIKey)
		for name, s := range c.MCPServers {
			require.NotEmpty(t, name)
			for _, v := range s.Env {
				_, err := split(v.Reveal())
				require.NoError(t, err)
			}
		}
	})
}

func anyOf(t *testing.T, text string) any {
	t.Helper()
	docs, ds := syntax.Parse("c.yaml", []byte(text), syntax.Limits{})
	require.Empty(t, ds)
	require.Len(t, docs, 1)
	return docs[0].Root.Any()
}
