package host

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"chimera.ai/engine/discover"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// Check refuses options with which no host begins, whatever is there around it.
func (o Options) Check() error {
	for _, r := range o.Roles {
		if !slices.Contains(Roles(), r) {
			return fmt.Errorf("role %q is not supported yet; the roles are %v", r, Roles())
		}
	}
	if o.Trust != nil && o.Trust.Audience == trust.Dev && o.Store.Driver == store.Postgres {
		return errors.New("the bootstrap's audience is dev, which exists with the embedded store alone")
	}
	if err := o.apart(); err != nil {
		return err
	}
	if err := o.servers(); err != nil {
		return err
	}
	if err := o.exposed(); err != nil {
		return err
	}
	if o.has(RoleGuardian) || o.has(RoleEffects) {
		switch {
		case o.Trust == nil:
			return errors.New("the roles guardian and effects need a root of trust (trust.bootstrap)")
		case o.has(RoleGuardian) && o.GuardianKey == nil && o.OpenGuardianKey == nil:
			return errors.New("the role guardian needs a key that signs permits (guardian.key)")
		case o.production() && o.Seen == "":
			return errors.New("in production the roles guardian and effects keep the last statement of the admins that they have read outside of the database, in a file (trust.seen): none is named")
		}
	}
	return witness.CheckAll(o.Witnesses, 0)
}

// servers refuses MCP servers that no call could reach, and servers and executables that do not do for the
// catalog's operations.
func (o Options) servers() error {
	for _, name := range slices.Sorted(maps.Keys(o.Servers)) {
		if err := o.Servers[name].Check(); err != nil {
			return fmt.Errorf("the MCP server %s (mcpServers): %w", name, err)
		}
	}
	if o.Catalog == nil {
		return nil
	}
	verifies := map[string]bool{}
	for i := range o.Catalog.Templates {
		if c := o.Catalog.Templates[i].Commit; c != nil && c.Verify != nil {
			verifies[c.Verify.Operation] = true
		}
	}
	for i := range o.Catalog.Templates {
		t := &o.Catalog.Templates[i]
		if t.InProcess {
			continue
		}
		relied := t.TrustedOutput || t.Endorses || verifies[t.Name()]
		if err := o.unfit(t.Name(), t.ProviderType, t.Provider, t.Effect, relied, t.Endpoints); err != nil {
			return err
		}
	}
	return nil
}

// unfit is why, in production, what an operation calls does not do for it, if it has effects or is relied on
// by some: a program that is not the same one each time that it is started here, or, for effects, a remote
// server that cannot verify who calls it. endpoints are those of the operation's template.
func (o *Options) unfit(operation string, of plan.ProviderType, provider string, effect plan.EffectClass, relied bool, endpoints []string) error {
	if !o.production() || effect == plan.Pure && !relied {
		return nil
	}
	why := operation + " has effects"
	if effect == plan.Pure {
		why = "effects rely on what " + operation + " answers"
	}
	s, executable := o.Servers[provider], o.Executables[provider]
	what, command, args, pin := fmt.Sprintf("the MCP server %s (mcpServers)", provider), s.Command, s.Args, s.Pin
	if of != plan.MCP {
		what, command, args, pin = fmt.Sprintf("the executable %s (skills)", provider), executable.Command, executable.Args, executable.Pin
	}
	if effect != plan.Pure && of == plan.MCP && s.URL != "" && s.TLS.CertFile == "" && s.JWT == nil {
		return fmt.Errorf("%s, and nothing that is signed proves to %s who calls it: set tls.cert_file and tls.key_file, or jwt, for it", why, what)
	}
	if u := discover.FindUnpinned(command, args); u != nil {
		return fmt.Errorf("%s, and %s is started as whatever version of a package there is then: name an exact one, or a digest (%s)", why, what, u)
	}
	if interpreted(command) && len(pin) == 0 {
		return fmt.Errorf("%s, and %s is run by %s, whose digest says nothing about what it runs: name its script, and what that loads, in pin", why, what, command)
	}
	if command == "" || len(endpoints) > 0 {
		return nil
	}
	advice := fmt.Sprintf("import its tools again with --here (chimera tools import %s --here)", provider)
	if of != plan.MCP {
		advice = "set endpoints in it to the digest of the program that you have looked at"
		if digest, err := executable.Endpoint(); err == nil {
			advice += ", which is now " + digest
		}
	}
	return fmt.Errorf("%s, and its template pins no endpoint, so that any program in the place of %s would be called: %s", why, what, advice)
}

// shared is why, in production, the role effects does not call an operation: nothing here provides it, or
// nobody has said that the role alone has what can commit.
func (o *Options) shared(operation string, of plan.ProviderType, provider string, effect plan.EffectClass) error {
	switch {
	case !o.production() || !o.has(RoleEffects) || !effect.Commits() || len(o.Callers[provider]) > 0:
		return nil
	case !o.provides(of, provider):
		return fmt.Errorf("%s is not called: this worker's configuration has no %s.%s", operation, section(of), provider)
	}
	return fmt.Errorf("%s commits, and nothing says which roles have the secrets of %s: set roles: [effects] for it (mcpServers, skills)", operation, provider)
}

// provides reports whether the configuration has a provider outside of this program.
func (o *Options) provides(of plan.ProviderType, provider string) bool {
	if of == plan.MCP {
		_, there := o.Servers[provider]
		return there
	}
	_, there := o.Executables[provider]
	return there
}

// section is the part of the configuration that has the providers of a type.
func section(of plan.ProviderType) string {
	if of == plan.MCP {
		return "mcpServers"
	}
	return "skills"
}

// interpreters run what a file says: their own digest says nothing of that.
var interpreters = []string{
	"bash", "bun", "dash", "deno", "dotnet", "env", "fish", "java", "ksh", "lua", "node", "nodejs", "perl", "php", "powershell", "pwsh", "python", "rscript", "ruby", "sh", "ts-node", "tsx", "uv", "zsh",
}

// interpreted reports whether a command is that of an interpreter, of whatever version.
func interpreted(command string) bool {
	return slices.Contains(interpreters, strings.TrimRight(strings.ToLower(filepath.Base(command)), "0123456789."))
}

// production reports whether others than the machine's user rely on what a host does.
func (o Options) production() bool {
	return !o.Dev && (o.Production || o.Store.Driver == store.Postgres || o.Trust != nil && o.Trust.Audience != trust.Dev)
}

// apart refuses, in production, a process that could do what another role is to check.
func (o Options) apart() error {
	acts := o.has(RoleGuardian) || o.has(RoleEffects)
	switch {
	case !o.production(), !acts && o.Store.Driver != store.Postgres:
		return nil // SQLite serves one machine
	case o.has(RoleGuardian) && o.has(RoleEffects):
		return errors.New("in production the roles guardian and effects are separate processes: whoever has one of them must not have the other")
	case o.Sealing.Keys == nil:
		return errUnsealed
	case o.has(RoleEngine) && !o.Sealing.Keys.Whole():
		return errors.New("the role engine needs a whole payload key (payload.keys), and has one of a role")
	case o.has(RoleEngine):
		return nil
	}
	for _, r := range o.Roles {
		switch {
		case o.Sealing.Keys.Whole():
			return fmt.Errorf("the payload key of this worker is the engine's, with which it could answer for every role: "+
				"chimera migrate --new-payload-key FILE --role-payload-key %s=OTHER makes one of the role %s, for its payload.keys", r, r)
		case !o.Sealing.Keys.Seals(string(r)):
			return fmt.Errorf("the payload key of this worker (payload.keys) is not one of the role %s", r)
		}
	}
	return nil
}

// errUnsealed is why production does not start: a store on PostgreSQL is production.
var errUnsealed = errors.New("there are no payload keys (payload.keys), without which every client of the Temporal namespace could answer for a worker: " +
	"chimera migrate --new-payload-key FILE makes one, and every worker of the deployment has payload.keys: [\"${file:FILE}\"]")
