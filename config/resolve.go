package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"chimera.ai/engine/trust/pkcs11"
)

// Resolve returns a copy for a process with the given roles, or with those of
// worker.roles where none is given: in what these roles need, every reference to a
// secret is replaced by the secret, and what they do not need is removed. MCP servers
// and executables belong to the roles tools and effects, each to those that it names.
// Only a worker calls Resolve; the result is never printed or stored. The error names
// all references that could not be resolved, each with its key. The API key of section
// temporal, the store's URL, the log's key, the keys of sections trust, guardian and
// payload, the PIN of tokens, and the console's tokens stay references: [Config.Client],
// [Config.StoreURL], [Config.LedgerKey], [Config.Referred], [Config.PayloadKeys],
// [Config.PIN], [Config.CodecToken] and [Config.JudgeToken] resolve them.
func (c Config) Resolve(roles ...string) (Config, error) {
	if len(roles) > 0 {
		c.Worker.Roles = slices.Clone(roles)
	}
	c.MCPServers, c.Skills = maps.Clone(c.MCPServers), maps.Clone(c.Skills)
	maps.DeleteFunc(c.MCPServers, func(_ string, s Server) bool { return !c.calls(s.Roles) })
	maps.DeleteFunc(c.Skills, func(_ string, s Skill) bool { return !c.calls(s.Roles) })
	r := c.resolver()
	var found []Secret
	r.found = func(value string) { found = append(found, Secret(value)) }
	c.opened = nil
	r.opened = func(file string) { c.opened = append(c.opened, file) }
	c.resolved = func() []Secret { return found }
	var failed []error
	one := func(at string, s Secret) Secret {
		value, err := r.resolve(s)
		if err != nil {
			failed = append(failed, fmt.Errorf("resolving %s: %w", at, err))
		}
		return value
	}
	all := func(at string, values map[string]Secret) map[string]Secret {
		open := make(map[string]Secret, len(values))
		for _, name := range slices.Sorted(maps.Keys(values)) {
			open[name] = one(at+"."+name, values[name])
		}
		return open
	}
	servers := make(map[string]Server, len(c.MCPServers))
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		s := c.MCPServers[name]
		at := "mcpServers." + name
		s.Public = public(s.Env)
		s.Env, s.Headers = all(at+".env", s.Env), all(at+".headers", s.Headers)
		s.JWT.Key = one(at+".jwt.key", s.JWT.Key)
		s.OAuth.ClientSecret = one(at+".oauth.client_secret", s.OAuth.ClientSecret)
		servers[name] = s
	}
	c.MCPServers = servers
	skills := make(map[string]Skill, len(c.Skills))
	for _, name := range slices.Sorted(maps.Keys(c.Skills)) {
		s := c.Skills[name]
		s.Public = public(s.Env)
		s.Env = all("skills."+name+".env", s.Env)
		skills[name] = s
	}
	c.Skills = skills
	if err := errors.Join(failed...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// public returns the names whose values hold no reference, sorted.
func public(values map[string]Secret) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts, err := split(values[name].Reveal())
		if err == nil && !slices.ContainsFunc(parts, func(p part) bool { return p.scheme != "" }) {
			names = append(names, name)
		}
	}
	return names
}

// Folder is the absolute path of the file's folder, or "" if there was no file.
func (c Config) Folder() string {
	if c.File == "" {
		return ""
	}
	dir, err := filepath.Abs(filepath.Dir(c.File))
	if err != nil {
		return ""
	}
	return dir
}

// Has reports whether a worker of this configuration has a role.
func (c Config) Has(role string) bool { return slices.Contains(c.Worker.Roles, role) }

// calls reports whether a worker of this configuration has one of the roles that call a
// server or an executable.
func (c Config) calls(by []string) bool {
	return slices.ContainsFunc(callers, func(role string) bool { return c.Has(role) && (len(by) == 0 || slices.Contains(by, role)) })
}

// compiles reports whether a worker of this configuration has a role that reads plans with a
// catalog, a policy and a root of trust: each but tools.
func (c Config) compiles() bool { return c.Has("engine") || c.Has("guardian") || c.Has("effects") }

// NeedsDatabase reports whether a worker of this configuration connects to the ledger's
// database: the role tools does so only for large values.
func (c Config) NeedsDatabase() bool { return c.compiles() || c.Store.Blobs == "database" }

// needs reports whether a worker of this configuration needs the secret of a scalar key.
func (c Config) needs(name string) bool {
	switch name {
	case "ledger.key":
		return c.Has("engine")
	case "store.url":
		return c.NeedsDatabase()
	case "guardian.key":
		return c.Has("guardian")
	case "pkcs11.pin":
		return slices.ContainsFunc(c.tokenKeys(), func(u pkcs11.URI) bool { return u.PINSource == "" })
	case "trust.author_key", "trust.start_key", "console.codec.token", "console.guardian.token":
		return false // commands use it
	}
	return true
}

// Secrets returns the values of references, so that they can be redacted in answers,
// errors and logs: those that [Config.Resolve] has replaced, and those of scalar keys, if
// they can be resolved. A variable that every child gets anyway, such as HOME, is not a
// secret. After [Config.Resolve] they are those of the roles: nobody reads the secrets of
// other roles, not even to hide them.
func (c Config) Secrets() []Secret {
	var all []Secret
	if c.resolved != nil {
		all = slices.Clone(c.resolved())
	}
	r := c.resolver()
	r.found = func(value string) { all = append(all, Secret(value)) }
	for _, pin := range c.resolveKeys(r) {
		all = append(all, Secret(pin))
	}
	// Temporal's own file and variables hold a key as it is.
	if key := c.profile.APIKey; key != "" && key != c.Temporal.APIKey.Reveal() {
		all = append(all, Secret(key))
	}
	return all
}

// SecretFiles returns the files that hold what [Config.Secrets] returns, and private keys of TLS, sorted:
// Temporal's own file, too, if there may be one.
func (c Config) SecretFiles() []string {
	all := slices.Clone(c.opened)
	r := c.resolver()
	r.opened = func(file string) { all = append(all, file) }
	c.resolveKeys(r)
	all = append(all, c.Temporal.TLS.KeyFile, c.profileFile)
	if c.profile.TLS != nil {
		all = append(all, c.profile.TLS.ClientKeyPath)
	}
	for _, s := range c.MCPServers {
		all = append(all, s.TLS.KeyFile)
	}
	all = slices.DeleteFunc(all, func(file string) bool { return file == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// resolveKeys resolves the scalar keys that the process needs, and returns the PINs of their tokens.
func (c Config) resolveKeys(r resolver) (pins []string) {
	for _, k := range keys {
		if c.resolved != nil && !c.needs(k.name) {
			continue
		}
		var list []Secret
		switch at := k.at(&c).(type) {
		case *Secret:
			list = []Secret{*at}
		case *[]Secret:
			list = *at
		}
		for _, s := range list {
			// Nobody uses what cannot be resolved; those who need it report that.
			_, _ = r.resolve(s)
		}
	}
	for _, u := range c.tokenKeys() {
		if u.PINSource == "" {
			continue
		}
		if pin, err := r.file(u.PINSource); err == nil {
			pins = append(pins, pin)
		}
	}
	return pins
}

// Unconfined returns a copy in which MCP servers and executables run as the user of this process, whatever
// the configuration says.
func (c Config) Unconfined() Config {
	c.Children.User = ""
	c.MCPServers, c.Skills = maps.Clone(c.MCPServers), maps.Clone(c.Skills)
	for name, s := range c.MCPServers {
		s.User = ""
		c.MCPServers[name] = s
	}
	for name, s := range c.Skills {
		s.User = ""
		c.Skills[name] = s
	}
	return c
}

// StoreURL resolves the reference to PostgreSQL's connection string; "" where
// none is said.
func (c Config) StoreURL() (string, error) { return c.secret("store.url", c.Store.URL) }

// LedgerKey resolves the reference to the log's key, which is not on a token; "" where none
// is said.
func (c Config) LedgerKey() (string, error) { return c.secret("ledger.key", c.Ledger.Key) }

// Referred resolves a reference, such as one that a command was given; what names it in
// errors.
func (c Config) Referred(what string, s Secret) (string, error) { return c.secret(what, s) }

// PayloadKeys resolves the references to the payload keys, in their order.
func (c Config) PayloadKeys() ([]string, error) {
	open := make([]string, len(c.Payload.Keys))
	for i, reference := range c.Payload.Keys {
		var err error
		if open[i], err = c.secret(fmt.Sprintf("payload.keys[%d]", i), reference); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// CodecToken resolves the reference to the codec endpoint's token; "" where none
// is said.
func (c Config) CodecToken() (string, error) {
	return c.secret("console.codec.token", c.Console.Codec.Token)
}

// JudgeToken resolves the reference to the token of the guardian's endpoint; "" where none
// is said.
func (c Config) JudgeToken() (string, error) {
	return c.secret("console.guardian.token", c.Console.Guardian)
}

func (c Config) secret(name string, s Secret) (string, error) {
	value, err := c.resolver().resolve(s)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", name, err)
	}
	return value.Reveal(), nil
}

func (c Config) resolver() resolver {
	return resolver{dir: filepath.Dir(c.File), lookup: os.LookupEnv}
}
