package host_test

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/process"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/internal/testca"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// TestProductionConfinesChildren: in production nothing runs as the user of a worker, and a worker that
// cannot see to that does not begin.
func TestProductionConfinesChildren(t *testing.T) {
	require.NoError(t, process.CanConfine(), "this test needs root, or these capabilities")
	nobody, err := user.Lookup(stage.ChildUser)
	require.NoError(t, err)
	own, err := user.Current()
	require.NoError(t, err)
	key := keys(t, "k1")[0]
	dir := t.TempDir()
	kept, open, closed := filepath.Join(dir, "kept"), filepath.Join(dir, "open"), filepath.Join(dir, "closed")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	require.NoError(t, os.WriteFile(open, nil, 0o644))
	require.NoError(t, os.WriteFile(closed, nil, 0o644))
	require.NoError(t, os.Chmod(closed, 0o640))
	server := func(user string) map[string]mcp.Server {
		return map[string]mcp.Server{"files": {Command: "mcp-files", User: user}}
	}
	program := func(user string) map[string]skills.Executable {
		return map[string]skills.Executable{"words": {Command: "words", User: user}}
	}
	for name, c := range map[string]struct {
		roles   []host.Role
		servers map[string]mcp.Server
		skills  map[string]skills.Executable
		private []string
		want    string
		// starts is set if only the start of the process can tell.
		starts bool
	}{
		"a server":             {roles: []host.Role{host.RoleTools}, servers: server(""), want: "the MCP server files (mcpServers) would run as the user of this worker (tools), and could read its keys: set children.user"},
		"an executable":        {roles: []host.Role{host.RoleEffects}, skills: program(""), want: "the executable words (skills) would run as the user of this worker (effects)"},
		"one of two":           {roles: []host.Role{host.RoleTools}, servers: server(nobody.Username), skills: program(""), want: "the executable words (skills)"},
		"remote":               {roles: []host.Role{host.RoleTools}, servers: map[string]mcp.Server{"far": {URL: "https://mcp.example.com"}}},
		"the guardian":         {roles: []host.Role{host.RoleGuardian}, servers: server("")},
		"another user":         {roles: []host.Role{host.RoleTools}, servers: server(nobody.Username), skills: program(nobody.Uid), private: []string{kept, closed, filepath.Join(dir, "none")}},
		"its own user":         {roles: []host.Role{host.RoleTools}, servers: server(own.Uid), want: "the MCP server files (mcpServers)", starts: true},
		"root":                 {roles: []host.Role{host.RoleTools}, servers: server("root"), want: "is root", starts: true},
		"nobody knows whom":    {roles: []host.Role{host.RoleTools}, skills: program("no-such-user"), want: "the executable words (skills): find the user", starts: true},
		"a key that is open":   {roles: []host.Role{host.RoleEffects}, skills: program(nobody.Username), private: []string{kept, open}, want: "may read " + open, starts: true},
		"a folder that is too": {roles: []host.Role{host.RoleTools}, servers: server(nobody.Username), private: []string{"/tmp"}, want: "may read /tmp", starts: true},
	} {
		t.Run(name, func(t *testing.T) {
			part, err := payload.RoleKey(key, string(c.roles[0]))
			require.NoError(t, err)
			signer, _, err := trust.NewKey()
			require.NoError(t, err)
			o := host.Options{
				Store: store.Options{Driver: store.Postgres, URL: "postgres://127.0.0.1:1/x", Origin: "example.com/log", Dir: t.TempDir(), InDatabase: true},
				Roles: c.roles, Sealing: sealing(t, part), Trust: &trust.Bootstrap{Audience: trust.Prod}, Seen: "seen.json", GuardianKey: signer,
				Servers: c.servers, Executables: c.skills, Private: c.private, Client: client.Options{HostPort: "127.0.0.1:1"},
			}
			checked := o.Check()
			_, began := host.New(t.Context(), o)
			require.Error(t, began, "there is no database")
			switch {
			case c.want == "":
				require.NoError(t, checked)
				require.False(t, host.Unusable(began), "%v", began)
			case c.starts:
				require.NoError(t, checked)
				require.ErrorContains(t, began, c.want)
				require.True(t, host.Unusable(began), "%v", began)
			default:
				require.ErrorContains(t, checked, c.want)
				require.ErrorContains(t, began, c.want)
				o.Dev = true
				require.NoError(t, o.Check())
			}
		})
	}
}

// TestToolsOfOneMachine: a worker that has the role tools alone reads no root of trust. Where there is one,
// it confines its children, also beside a store that serves one machine.
func TestToolsOfOneMachine(t *testing.T) {
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	logKey, _, err := ledger.NewKey("test.example.com/log")
	require.NoError(t, err)
	log, err := ledger.ParseKey(logKey)
	require.NoError(t, err)
	b := trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: "test", Audience: trust.Prod, Quorum: 2, Log: trust.LogKey{Origin: log.Name(), Key: log.Public()},
		Witnesses: trust.Witnesses{Keys: []string{}}, Issued: ledger.At(time.Now()), Admins: []trust.Admin{{ID: "ada", Person: "ada", Key: key.Public()}, {ID: "ben", Person: "ben", Key: newKey(t).Public()}},
	}
	dev, err := trust.DevBootstrap(log.Name(), "ada", key, trust.LogKey{Origin: log.Name(), Key: log.Public()}, time.Now())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		root    *trust.Bootstrap
		missing bool
		refused bool
	}{"none": {}, "production": {root: &b, refused: true}, "out of reach": {root: &b, missing: true, refused: true}, "dev": {root: dev}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := "store: {path: x.db, dir: blobs}\ntemporal: {address: '127.0.0.1:1'}\nmcpServers: {a: {command: a}}\n"
			if c.root != nil {
				raw, err := c.root.Encode()
				require.NoError(t, err)
				text += "trust: {bootstrap: bootstrap.json, pin: '" + c.root.Digest() + "'}\n"
				if !c.missing {
					require.NoError(t, os.WriteFile(filepath.Join(dir, "bootstrap.json"), raw, 0o600))
				}
			}
			file := filepath.Join(dir, "chimera.yaml")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			o := settingsOf(t, file, "tools")
			if err := o.Check(); c.refused {
				require.ErrorContains(t, err, "the MCP server a (mcpServers) would run as the user of this worker (tools)")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestChildrenChangeNothing: no child may change what a worker relies on, nor what it or another child is.
func TestChildrenChangeNothing(t *testing.T) {
	require.NoError(t, process.CanConfine(), "this test needs root, or these capabilities")
	nobody, err := process.FindUser(stage.ChildUser)
	require.NoError(t, err)
	file := func(dir, name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, mode))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	closed, open := stage.Open(t), stage.Open(t)
	require.NoError(t, os.Chmod(closed, 0o755))
	good, bad, own := file(closed, "good", 0o755), file(open, "bad", 0o755), file(closed, "own", 0o755)
	require.NoError(t, os.Chown(own, int(nobody.UID), 0))
	link := filepath.Join(closed, "link")
	require.NoError(t, os.Symlink(bad, link))
	file(closed, "tree/a/script", 0o644)
	file(closed, "loose/a/script", 0o646)
	for name, c := range map[string]struct {
		o          host.Options
		path, want string
	}{
		"nothing":       {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: good, Pin: []string{good, filepath.Join(closed, "tree")}}}}},
		"nothing yet":   {o: host.Options{Relied: []string{filepath.Join(closed, "none")}}},
		"a private one": {o: host.Options{Private: []string{file(closed, "key", 0o622)}}, want: filepath.Join(closed, "key")},
		"its place":     {o: host.Options{Private: []string{file(open, "key", 0o600)}}, want: filepath.Join(open, "key")},
		"configuration": {o: host.Options{Relied: []string{bad}}, want: bad},
		"one to come":   {o: host.Options{Relied: []string{filepath.Join(open, "none")}}, want: filepath.Join(open, "none")},
		"a server":      {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: bad}}}, want: "the MCP server a (mcpServers): the user nobody of children may change " + bad},
		"its own":       {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: own}}}, want: "may change " + own},
		"by a link":     {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: link}}}, want: "may change " + link + ", by " + bad},
		"in its folder": {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: "./bad", Dir: open}}}, want: "may change " + bad},
		"on PATH":       {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: "good"}}}, path: open + ":" + closed, want: "may change " + open},
		"later on PATH": {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: "good"}}}, path: closed + ":" + open, want: "may change " + open},
		"found on PATH": {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: "own"}}}, want: "may change " + own},
		"a pin":         {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: good, Pin: []string{bad}}}}, want: "may change " + bad},
		"in a pin":      {o: host.Options{Servers: map[string]mcp.Server{"a": {Command: good, Pin: []string{filepath.Join(closed, "loose")}}}}, want: filepath.Join(closed, "loose/a/script")},
		"a skill":       {o: host.Options{Executables: map[string]skills.Executable{"a": {Command: good, Pin: []string{own}}}}, want: "the executable a (skills)"},
		"of another's":  {o: host.Options{Executables: map[string]skills.Executable{"a": {Command: own, User: "daemon"}}}, want: "the user nobody of children may change " + own},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", cmp.Or(c.path, closed))
			o := c.o
			o.Roles, o.Dev = []host.Role{host.RoleTools}, true
			o.Store = store.Options{Driver: store.Postgres, URL: "postgres://127.0.0.1:1/x", Origin: "example.com/log", Dir: t.TempDir(), InDatabase: true}
			o.Client = client.Options{HostPort: "127.0.0.1:1"}
			executables := map[string]skills.Executable{"last": {Command: good, User: stage.ChildUser}}
			for name, e := range o.Executables {
				e.User = cmp.Or(e.User, stage.ChildUser)
				executables[name] = e
			}
			for name, s := range o.Servers {
				s.User = stage.ChildUser
				o.Servers[name] = s
			}
			o.Executables = executables
			_, err := host.New(t.Context(), o)
			require.Error(t, err, "there is no database")
			require.Equal(t, c.want != "", host.Unusable(err), "%v", err)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestWhoMayNotReadWhat: the configuration says as whom children run, and which files are for the worker
// alone.
func TestWhoMayNotReadWhat(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	key := keys(t, "k1")[0]
	t.Setenv("TEMPORAL_CONFIG_FILE", write("temporal.toml", ""))
	file := write("chimera.yaml", `
store: {path: ledger.db, dir: blobs}
ledger: {subjects: subjects}
temporal: {address: "127.0.0.1:1"}
payload: {keys: ['${file:payload.key}']}
children: {user: nobody}
mcpServers:
  a: {command: a, env: {A: '${file:a.secret}'}, roles: [tools]}
  b: {command: b, user: daemon, env: {A: '${file:none}'}, roles: [effects]}
  c: {url: "https://mcp.example.com", tls: {cert_file: c.pem, key_file: c.key}, headers: {X: 'x ${file:c.secret}'}}
skills:
  d: {command: d, user: daemon}
  e: {command: e}
`)
	write("payload.key", key)
	write("a.secret", "a secret")
	write("c.secret", "another")
	settings, ds := config.Load(file)
	require.Empty(t, ds)
	resolved, err := settings.Resolve("tools")
	require.NoError(t, err)
	o, ds, err := host.Settings(resolved)
	require.NoError(t, err)
	require.Empty(t, ds)
	users := map[string]string{"a": o.Servers["a"].User, "c": o.Servers["c"].User, "d": o.Executables["d"].User, "e": o.Executables["e"].User}
	require.Equal(t, map[string]string{"a": "nobody", "c": "", "d": "daemon", "e": "nobody"}, users)
	require.Equal(t, []string{"a.secret", "c.key", "c.secret", "payload.key", "temporal.toml",
		"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-journal", "ledger.key", "subjects", "blobs"}, names(t, dir, o.Private))
	self, err := os.Executable()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{file, filepath.Join(dir, "c.pem"), self}, o.Relied)
	o, ds, err = host.Settings(resolved.Unconfined())
	require.NoError(t, err)
	require.Empty(t, ds)
	require.Empty(t, o.Servers["a"].User+o.Executables["d"].User+o.Executables["e"].User)
	require.Equal(t, "daemon", resolved.Skills["d"].User, "the other is a copy")
	resolved.Temporal.TLS.KeyFile = "/another.key"
	require.Contains(t, resolved.SecretFiles(), "/another.key")
}

// TestWhatAWorkerReliesOn: what decides what a worker does is not only its own files.
func TestWhatAWorkerReliesOn(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("DATABASE", "postgres://a@127.0.0.1:1/x?sslrootcert="+filepath.Join(dir, "database-ca.pem"))
	ca := testca.New(t, "temporal")
	_, cert, certKey := ca.Client(t)
	t.Setenv("TEMPORAL_CONFIG_FILE", write("temporal.toml", fmt.Sprintf(
		"[profile.default.tls]\nserver_ca_cert_path = %q\nclient_cert_path = %q\nclient_key_path = %q\n", ca.File, cert, certKey)))
	write("payload.key", keys(t, "k1")[0])
	write("shadow.yaml", "")
	file := write("chimera.yaml", `
store: {driver: postgres, url: '${env:DATABASE}', origin: example.com/log, blobs: database}
temporal: {address: "127.0.0.1:1"}
payload: {keys: ['${file:payload.key}']}
pkcs11: {module: p11.so}
ledger: {key: 'pkcs11:token=t;object=k'}
guardian: {key: 'pkcs11:token=t;object=k?module-path=/opt/p11/own.so', shadow: [shadow.yaml]}
`)
	o := settingsOf(t, file, "tools")
	self, err := os.Executable()
	require.NoError(t, err)
	in := func(name string) string { return filepath.Join(dir, name) }
	require.ElementsMatch(t, []string{file, self, "/opt/p11/own.so", in("p11.so"), in("shadow.yaml"), ca.File, cert,
		in("database-ca.pem"), in("home/.postgresql/postgresql.crt")}, o.Relied)
}

// TestOpenSecrets: a worker does not begin if its children may read a key, wherever the configuration has
// it from.
func TestOpenSecrets(t *testing.T) {
	require.NoError(t, process.CanConfine(), "this test needs root, or these capabilities")
	for name, c := range map[string]struct {
		file, yaml, env, toml string
	}{
		"Temporal's own file":         {file: "temporal.toml", toml: "[profile.default]\napi_key = \"key of temporal\""},
		"a key that this file names":  {file: "client.key", toml: "[profile.default.tls]\nclient_cert_path = \"DIR/client.pem\"\nclient_key_path = \"DIR/client.key\""},
		"a key that a variable names": {file: "client.key", env: "TEMPORAL_TLS_CLIENT_KEY_PATH"},
		"the database":                {file: "x.db"},
		"its log of writes":           {file: "x.db-wal"},
		"the log's key":               {file: "x.key"},
		"the keyring":                 {file: "x.subjects"},
		"another keyring":             {file: "ring", yaml: "ledger: {subjects: ring}\n"},
		"large values":                {file: "blobs"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := strings.ReplaceAll(c.toml, "DIR", dir)
			profiles := filepath.Join(dir, "temporal.toml")
			if text != "" {
				require.NoError(t, os.WriteFile(profiles, []byte(text), 0o600))
			}
			t.Setenv("TEMPORAL_CONFIG_FILE", profiles)
			if c.env != "" {
				t.Setenv(c.env, filepath.Join(dir, c.file))
			}
			open := filepath.Join(dir, c.file)
			if c.toml == "" || c.file != "temporal.toml" {
				require.NoError(t, os.WriteFile(open, nil, 0o600))
			}
			require.NoError(t, os.Chmod(open, 0o644))
			file := filepath.Join(dir, "chimera.yaml")
			require.NoError(t, os.WriteFile(file, []byte("store: {path: x.db, dir: blobs}\ntemporal: {address: '127.0.0.1:1'}\nmcpServers: {a: {command: a, user: nobody}}\n"+c.yaml), 0o600))
			settings, ds := config.Load(file)
			require.Empty(t, ds)
			resolved, err := settings.Resolve("tools")
			require.NoError(t, err)
			at, err := host.Store(resolved)
			require.NoError(t, err)
			o := host.Options{
				Store: at, Roles: []host.Role{host.RoleTools}, Sealing: sealing(t, keys(t, "k1")[0]), Dev: true,
				Servers: map[string]mcp.Server{"a": {Command: "a", User: stage.ChildUser}}, Client: client.Options{HostPort: "127.0.0.1:1"},
				Private: append(resolved.SecretFiles(), at.Private()...),
			}
			_, err = host.New(t.Context(), o)
			require.ErrorContains(t, err, "may read "+open)
			require.NoError(t, os.Chmod(open, 0o600))
			_, err = host.New(t.Context(), o)
			require.Error(t, err, "there is no server")
			require.NotContains(t, err.Error(), "may read")
		})
	}
}

// TestFilesOfTheDatabase: what the driver of PostgreSQL reads is private, or not for others to change.
func TestFilesOfTheDatabase(t *testing.T) {
	t.Setenv("HOME", "/home/chimera")
	key, pass, service := "/home/chimera/.postgresql/postgresql.key", "/home/chimera/.pgpass", "/home/chimera/.pg_service.conf"
	cert, root := "/home/chimera/.postgresql/postgresql.crt", "/home/chimera/.postgresql/root.crt"
	for _, c := range []struct {
		url, variable   string
		private, relied []string
	}{
		{"postgres://a@127.0.0.1:1/x", "", []string{key, pass, service}, []string{cert, root}},
		{"postgres://a@127.0.0.1:1/x?sslmode=verify-full&sslkey=/etc/a%20key&sslcert=/etc/a.pem", "", []string{"/etc/a key", pass, service}, []string{"/etc/a.pem", root}},
		{"postgresql://a@127.0.0.1:1,127.0.0.1:2/x?ssl%6bey=/etc/a%26b&p%61ssfile=/etc/p&sslrootcert=system", "", []string{"/etc/a&b", "/etc/p", service}, []string{cert}},
		{"host=h dbname=x sslkey = /etc/a.key passfile='/etc/it\\'s' sslrootcert=/etc/ca.pem", "", []string{"/etc/a.key", "/etc/it's", service}, []string{cert, "/etc/ca.pem"}},
		{"host=h", "PGSSLKEY", []string{"/etc/of.variable", pass, service}, []string{cert, root}},
		{"host=h", "PGPASSFILE", []string{key, "/etc/of.variable", service}, []string{cert, root}},
		{"host=h", "PGSSLROOTCERT", []string{key, pass, service}, []string{cert, "/etc/of.variable"}},
		{"host=h", "PGSSLCERT", []string{key, pass, service}, []string{"/etc/of.variable", root}},
		{"host=h servicefile=/etc/s", "PGSERVICEFILE", []string{key, pass, "/etc/s"}, []string{cert, root}},
	} {
		t.Run(c.url+c.variable, func(t *testing.T) {
			if c.variable != "" {
				t.Setenv(c.variable, "/etc/of.variable")
			}
			t.Setenv("DATABASE", c.url)
			dir := t.TempDir()
			profiles := filepath.Join(dir, "none")
			t.Setenv("TEMPORAL_CONFIG_FILE", profiles)
			secret := filepath.Join(dir, "payload.key")
			require.NoError(t, os.WriteFile(secret, []byte(keys(t, "k1")[0]), 0o600))
			file := filepath.Join(dir, "chimera.yaml")
			require.NoError(t, os.WriteFile(file, []byte("store: {driver: postgres, url: '${env:DATABASE}', origin: example.com/log, blobs: database}\npayload: {keys: ['${file:payload.key}']}\ntemporal: {address: '127.0.0.1:1'}\n"), 0o600))
			o := settingsOf(t, file, "tools")
			self, err := os.Executable()
			require.NoError(t, err)
			require.ElementsMatch(t, append(c.private, secret, profiles), o.Private)
			require.ElementsMatch(t, append(c.relied, file, self), o.Relied)
		})
	}
}

// names are paths relative to a folder.
func names(t *testing.T, dir string, paths []string) (all []string) {
	t.Helper()
	for _, path := range paths {
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		all = append(all, name)
	}
	return all
}

// settingsOf are the options that a configuration file gives, with the secrets of roles.
func settingsOf(t *testing.T, file string, roles ...string) host.Options {
	t.Helper()
	settings, ds := config.Load(file)
	require.Empty(t, ds)
	resolved, err := settings.Resolve(roles...)
	require.NoError(t, err)
	o, ds, err := host.Settings(resolved)
	require.NoError(t, err)
	require.Empty(t, ds)
	return o
}
