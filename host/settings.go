package host

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/witness"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/redact"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/trust/pkcs11"
)

// maxCatalog bounds a catalog file and a policy file, in bytes.
const maxCatalog = 64 << 20

// LoadCatalog reads catalog files, which make one catalog; names may be "". It also returns the
// texts, by file, for showing the findings. The error means that a file cannot be read. The catalog
// is nil if there is an error, one among the findings, or no file.
func LoadCatalog(files ...string) (*catalog.Catalog, map[string][]byte, diag.Diagnostics, error) {
	files = named(files)
	texts := make(map[string][]byte, len(files))
	for _, file := range files {
		text, err := readFile(file, maxCatalog)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read the catalog: %w", err)
		}
		texts[file] = text
	}
	all, ds := parseCatalog(files, texts)
	return all, texts, ds, nil
}

// named are the files that have a name.
func named(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(name string) bool { return name == "" })
}

func parseCatalog(files []string, texts map[string][]byte) (all *catalog.Catalog, ds diag.Diagnostics) {
	for _, file := range files {
		one, found := compiler.ParseCatalog(compiler.Source{Name: file, Text: texts[file]})
		if ds = append(ds, found...); found.HasErrors() {
			continue
		}
		if all == nil {
			all = one
			continue
		}
		all, found = all.Merge(one)
		ds = append(ds, found...)
	}
	if ds.HasErrors() {
		return nil, ds
	}
	return all, ds
}

// Store returns the configured store, with absolute paths. It resolves only the
// references of the connection string and of the log's key. A key of the log on a token it
// does not open: [OpenLogKey] does.
func Store(c config.Config) (store.Options, error) {
	o := store.Options{Driver: c.Store.Driver, Origin: c.Store.Origin, InDatabase: c.Store.Blobs == "database"}
	var err error
	if o.Dir, err = filepath.Abs(c.Store.Dir); err != nil {
		return o, fmt.Errorf("find the store: %w", err)
	}
	if o.Path, err = filepath.Abs(c.Store.Path); err != nil {
		return o, fmt.Errorf("find the store: %w", err)
	}
	if c.Ledger.Subjects != "" {
		if o.Subjects, err = filepath.Abs(c.Ledger.Subjects); err != nil {
			return o, fmt.Errorf("find the store: %w", err)
		}
	}
	if o.Driver == store.Postgres {
		if o.URL, err = c.StoreURL(); err != nil {
			return o, err
		}
	}
	if o.Elsewhere = c.Ledger.Key.OnToken(); !o.Elsewhere {
		o.Key, err = c.LedgerKey()
	}
	return o, err
}

// Retention returns the configured policy, which may be empty.
func Retention(c config.Config) (ledger.Policy, error) {
	p := ledger.Policy{}
	for class, keep := range map[ledger.Class]time.Duration{
		ledger.Operational: c.Ledger.Retention.Operational,
		ledger.Evidence:    c.Ledger.Retention.Evidence,
		ledger.Financial:   c.Ledger.Retention.Financial,
	} {
		if keep != 0 {
			p[class] = keep
		}
	}
	return p, p.Check()
}

// Sealing returns the configured protection of payloads. It resolves only the
// references of the payload keys.
func Sealing(c config.Config) (payload.Sealing, error) {
	s := payload.Sealing{Compress: c.Payload.Compress, AcceptPlain: c.Payload.AcceptPlain}
	keys, err := c.PayloadKeys()
	if err == nil {
		s.Keys, err = payload.ParseKeys(keys)
	}
	return s, err
}

// ClientSealing is [Sealing] for a command. It needs the keys only for a sealed
// payload, or to seal a large one, and until then does without those that are
// missing.
func ClientSealing(c config.Config) payload.Sealing {
	s, err := Sealing(c)
	if err != nil {
		s.Keys = payload.LockedKeys(err)
	}
	return s
}

// Settings returns the options that a configuration has for its roles: everything
// but what only code can supply. It reads the catalog and policy files for the roles
// that compile, but no secrets of tools: the configuration must have been resolved by
// [config.Config.Resolve].
func Settings(c config.Config) (Options, diag.Diagnostics, error) {
	o := Options{
		WorkflowPollers: c.Worker.WorkflowPollers,
		ActivityPollers: c.Worker.ActivityPollers,
		MaxActivities:   c.Worker.MaxActivities,
		MaxWorkflows:    c.Worker.MaxWorkflows,
		CacheBytes:      c.Worker.CacheBytes,
		CachedRuns:      c.Worker.CachedRuns,
		Drain:           c.Worker.Drain,
		SharedQueue:     c.Worker.ToolsQueue == "shared",
		Deployment:      Deployment{Name: c.Worker.Deployment, Build: c.Worker.Build},
	}
	for _, role := range c.Worker.Roles {
		o.Roles = append(o.Roles, Role(role))
	}
	var err error
	if o.Client, err = c.Client(); err != nil {
		return Options{}, nil, err
	}
	if o.Store, err = workerStore(c); err != nil {
		return Options{}, nil, err
	}
	if o.Sealing, err = Sealing(c); err != nil {
		return Options{}, nil, err
	}
	o.Secrets = confidential(c, o.Store)
	if o.has(RoleTools) || o.has(RoleEffects) {
		o.settleTools(c)
	}
	if o.has(RoleEngine) {
		o.Witnesses, o.FormerKeys = Witnesses(c), c.Ledger.FormerKeys
		if o.Retention, err = Retention(c); err != nil {
			return Options{}, nil, err
		}
	}
	if o.has(RoleGuardian) {
		if err := o.settleGuardian(c); err != nil {
			return Options{}, nil, err
		}
	}
	if o.has(RoleEngine) && c.Ledger.Key.OnToken() {
		if _, err := c.Token("ledger.key", c.Ledger.Key); err != nil {
			return Options{}, nil, err
		}
		o.OpenLogKey = func(ctx context.Context) (*ledger.Key, func() error, error) {
			return OpenLogKey(ctx, c, "ledger.key", c.Ledger.Key, c.Store.Origin)
		}
	}
	var ds diag.Diagnostics
	if o.compiles() {
		if ds, err = o.settlePlans(c); err != nil {
			return Options{}, nil, err
		}
	} else if c.Trust.Bootstrap != "" {
		b, err := Bootstrap(c)
		o.Production = err != nil || b.Audience != trust.Dev // the role need not be able to read it
	}
	return o, ds, nil
}

// workerStore is [Store] with the secrets of the worker's roles.
func workerStore(c config.Config) (store.Options, error) {
	if !c.Has(string(RoleEngine)) && !c.Ledger.Key.OnToken() {
		c.Ledger.Key = ""
	}
	if !c.NeedsDatabase() {
		c.Store.URL = ""
	}
	return Store(c)
}

func (o *Options) settleTools(c config.Config) {
	o.Executables = make(map[string]skills.Executable, len(c.Skills))
	for name, s := range c.Skills {
		o.Executables[name] = skills.Executable{
			Command: s.Command, Args: s.Args, Env: s.Environ(), Public: s.Public, Dir: s.Dir, Pin: s.Pin, Base: c.Folder(),
			User: cmp.Or(s.User, c.Children.User), MaxOutput: s.MaxOutput, MaxMemory: s.MaxMemory,
		}
	}
	o.Callers = make(map[string][]Role)
	called := func(name string, by []string) {
		for _, r := range by {
			o.Callers[name] = append(o.Callers[name], Role(r))
		}
	}
	for name, s := range c.Skills {
		called(name, s.Roles)
	}
	o.Manifests = make(map[string]string)
	for name, s := range c.MCPServers {
		called(name, s.Roles)
		if s.Manifest != "" {
			o.Manifests[name] = s.Manifest
		}
	}
	o.Servers = Servers(c)
	for name, s := range o.Servers {
		if s.Command != "" {
			s.User = cmp.Or(c.MCPServers[name].User, c.Children.User)
			o.Servers[name] = s
		}
	}
	private, public := databaseFiles(o.Store)
	o.Private = slices.Concat(c.SecretFiles(), o.Store.Private(), private)
	o.Relied = relied(c, public...)
}

// relied are the files by which a worker of a configuration decides what it does, itself included, and more.
func relied(c config.Config, more ...string) []string {
	all := slices.Concat([]string{c.File, c.CatalogFile, c.ToolsFile, c.Trust.Bootstrap, c.Trust.Seen, c.PKCS11.Module},
		c.PolicyFiles, c.Guardian.Shadow, readableModels(slices.Concat(c.PolicyFiles, c.Guardian.Shadow)), c.TemporalCertificates(), more)
	for _, key := range []config.Secret{c.Ledger.Key, c.Guardian.Key} {
		if key.OnToken() {
			if u, err := pkcs11.Parse(key.Reveal()); err == nil {
				all = append(all, u.Module)
			}
		}
	}
	for _, s := range c.MCPServers {
		all = append(all, s.Manifest, s.TLS.CAFile, s.TLS.CertFile)
	}
	if self, err := os.Executable(); err == nil {
		all = append(all, self)
	}
	all = named(all)
	slices.Sort(all)
	return slices.Compact(all)
}

// Servers returns the MCP servers of a configuration whose secrets were resolved. They run as the user of
// this process, whatever the configuration says.
func Servers(c config.Config) map[string]mcp.Server {
	out := make(map[string]mcp.Server, len(c.MCPServers))
	for name, s := range c.MCPServers {
		if s.URL == "" {
			out[name] = mcp.Server{
				Command: s.Command, Args: s.Args, Env: s.Environ(), Public: s.Public, Dir: s.Dir, Pin: s.Pin, Base: c.Folder(),
				Sessions: mcp.Sharing(s.Sessions), MaxSessions: s.MaxSessions,
			}
			continue
		}
		remote := mcp.Server{
			URL: s.URL, SSE: s.Type == "sse", Headers: s.Sent(), Addresses: s.Addresses,
			Sessions: mcp.Sharing(s.Sessions), MaxSessions: s.MaxSessions,
			TLS: mcp.TLS{CAFile: s.TLS.CAFile, CertFile: s.TLS.CertFile, KeyFile: s.TLS.KeyFile, ServerName: s.TLS.ServerName, Pins: s.TLS.Pins},
		}
		if s.JWT.Key != "" {
			remote.JWT = &mcp.JWT{
				Key: s.JWT.Key.Reveal(), Issuer: s.JWT.Issuer, Subject: s.JWT.Subject, Audience: s.JWT.Audience, KeyID: s.JWT.KeyID, Lifetime: s.JWT.Lifetime,
			}
		}
		if s.OAuth.ClientID != "" {
			remote.OAuth = &mcp.OAuth{
				Issuer: s.OAuth.Issuer, TokenURL: s.OAuth.TokenURL, ClientID: s.OAuth.ClientID, ClientSecret: s.OAuth.ClientSecret.Reveal(), Scopes: s.OAuth.Scopes,
			}
		}
		out[name] = remote
	}
	return out
}

// settleGuardian sets the key that signs permits, if one is configured. One on a token is
// opened with the host.
func (o *Options) settleGuardian(c config.Config) (err error) {
	open := func(ctx context.Context) (*trust.Key, func() error, error) {
		return OpenKey(ctx, c, "guardian.key", c.Guardian.Key)
	}
	if c.Guardian.Key.OnToken() {
		o.OpenGuardianKey = open
		_, err = c.Token("guardian.key", c.Guardian.Key)
		return err
	}
	o.GuardianKey, _, err = open(context.Background())
	return err
}

// settlePlans reads what plans are compiled with, and whom to trust.
func (o *Options) settlePlans(c config.Config) (ds diag.Diagnostics, err error) {
	if o.Trust, err = Bootstrap(c); err != nil {
		return nil, err
	}
	o.Seen = c.Trust.Seen
	if o.Catalog, _, ds, err = LoadCatalog(c.CatalogFile, c.ToolsFile); err != nil {
		return nil, err
	}
	policy, _, found, err := LoadPolicy(c.PolicyFiles)
	if err != nil {
		return nil, err
	}
	o.Policy = policy
	ds = append(ds, found...)
	if o.has(RoleGuardian) {
		o.Shadow, _, found, err = LoadPolicy(c.Guardian.Shadow)
		ds = append(ds, found...)
	}
	return ds, err
}

// Witnesses returns the configured witnesses of the log.
func Witnesses(c config.Config) []witness.Witness {
	var all []witness.Witness
	for _, w := range c.Ledger.Witnesses {
		all = append(all, witness.Witness{Name: w.Name, Key: w.Key, Dir: w.File, URL: w.URL})
	}
	return all
}

// keyText is less than the length of a key as text.
const keyText = 32

// confidential returns the secrets that a configuration has resolved, and the
// password in the store's URL.
func confidential(c config.Config, kept store.Options) *redact.Secrets {
	all := []string{kept.Password()}
	for _, secret := range c.Secrets() {
		s := secret.Reveal()
		all = append(all, s)
		// Keys have a name as prefix: "ID:KEY", "PRIVATE+KEY+NAME+KEY".
		if i := strings.LastIndexAny(s, ":+"); i >= 0 && len(s)-i > keyText {
			all = append(all, s[i+1:])
		}
	}
	if keys, err := c.PayloadKeys(); err == nil { // else they are said to be missing elsewhere
		for _, key := range keys {
			_, secret, _ := strings.Cut(key, ":") // the id is no secret
			all = append(all, strings.TrimSpace(secret))
		}
	}
	return redact.New(all)
}
