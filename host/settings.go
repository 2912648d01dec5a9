package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	"chimera.ai/engine/policy"
	"chimera.ai/engine/redact"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// maxCatalog bounds a catalog file and a policy file, in bytes.
const maxCatalog = 64 << 20

// LoadCatalog reads a catalog file, and also returns its text, for showing the findings.
// The error reports that the file cannot be read. The catalog is nil if there is such an
// error, or one among the findings.
func LoadCatalog(file string) (*catalog.Catalog, []byte, diag.Diagnostics, error) {
	text, err := readFile(file, maxCatalog)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read the catalog: %w", err)
	}
	catalog, ds := compiler.ParseCatalog(compiler.Source{Name: file, Text: text})
	return catalog, text, ds, nil
}

// LoadPolicy reads the files of the operator's policy bundle and merges them. It also
// returns their texts, by file, for showing the findings. The error reports that a file
// cannot be read. The policy is nil if there is such an error, an error among the
// findings, or no file.
func LoadPolicy(files []string) (*policy.Bundle, map[string][]byte, diag.Diagnostics, error) {
	texts := make(map[string][]byte, len(files))
	for _, file := range files {
		text, err := readFile(file, maxCatalog)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read the policy: %w", err)
		}
		texts[file] = text
	}
	bundle, ds := parsePolicy(files, texts)
	return bundle, texts, ds, nil
}

func parsePolicy(files []string, texts map[string][]byte) (*policy.Bundle, diag.Diagnostics) {
	var parts []*policy.Bundle
	var ds diag.Diagnostics
	for _, file := range files {
		part, found := policy.Parse(compiler.Source{Name: file, Text: texts[file]})
		ds = append(ds, found...)
		parts = append(parts, part)
	}
	if ds.HasErrors() {
		return nil, ds
	}
	merged, found := policy.Merge(parts...)
	return merged, append(ds, found...)
}

func readFile(file string, limit int64) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s is over %d bytes", file, limit)
	}
	return text, nil
}

// Store returns the configured store, with absolute paths. It resolves only the
// references to the connection string and the log's key.
func Store(c config.Config) (store.Options, error) {
	o := store.Options{Driver: c.Store.Driver, Origin: c.Store.Origin, InDatabase: c.Store.Blobs == "database"}
	var err error
	if o.Dir, err = filepath.Abs(c.Store.Dir); err != nil {
		return o, fmt.Errorf("find the store: %w", err)
	}
	if o.Path, err = filepath.Abs(c.Store.Path); err != nil {
		return o, fmt.Errorf("find the store: %w", err)
	}
	if o.Driver == store.Postgres {
		if o.URL, err = c.StoreURL(); err != nil {
			return o, err
		}
	}
	o.Key, err = c.LedgerKey()
	return o, err
}

// Retention returns the configured retention policy, which may be empty.
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

// Sealing returns the configured protection of payloads. It resolves only the references
// to the payload keys.
func Sealing(c config.Config) (payload.Sealing, error) {
	s := payload.Sealing{Compress: c.Payload.Compress, AcceptPlain: c.Payload.AcceptPlain}
	keys, err := c.PayloadKeys()
	if err == nil {
		s.Keys, err = payload.ParseKeys(keys)
	}
	return s, err
}

// ClientSealing is like [Sealing], for a command. A key that cannot be resolved is an
// error only when a sealed payload has to be opened or a large one sealed.
func ClientSealing(c config.Config) payload.Sealing {
	s, err := Sealing(c)
	if err != nil {
		s.Keys = payload.LockedKeys(err)
	}
	return s
}

// Settings returns the configured options for the configured roles: all but those that
// only code can set. For the role engine, which compiles, it reads the catalog and
// policy files. It resolves no secrets of tools: the configuration must come from
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
	if o.has(RoleTools) {
		o.settleTools(c)
	}
	var ds diag.Diagnostics
	if o.has(RoleEngine) {
		if ds, err = o.settleEngine(c); err != nil {
			return Options{}, nil, err
		}
	}
	return o, ds, nil
}

// workerStore is like [Store], with only the secrets of the worker's roles.
func workerStore(c config.Config) (store.Options, error) {
	if !c.Has(string(RoleEngine)) {
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
			Command: s.Command, Args: s.Args, Env: s.Environ(), Dir: s.Dir,
			MaxOutput: s.MaxOutput, MaxMemory: s.MaxMemory,
		}
	}
	o.Servers = make(map[string]mcp.Server, len(c.MCPServers))
	for name, s := range c.MCPServers {
		o.Servers[name] = mcp.Server{Command: s.Command, Args: s.Args, Env: s.Environ(), Dir: s.Dir}
	}
}

func (o *Options) settleEngine(c config.Config) (ds diag.Diagnostics, err error) {
	if o.Trust, err = Bootstrap(c); err != nil {
		return nil, err
	}
	o.Witnesses, o.FormerKeys = Witnesses(c), c.Ledger.FormerKeys
	if o.Retention, err = Retention(c); err != nil {
		return nil, err
	}
	if c.CatalogFile != "" {
		if o.Catalog, _, ds, err = LoadCatalog(c.CatalogFile); err != nil {
			return nil, err
		}
	}
	policy, _, found, err := LoadPolicy(c.PolicyFiles)
	if err != nil {
		return nil, err
	}
	o.Policy = policy
	return append(ds, found...), nil
}

// Witnesses returns the configured witnesses of the log.
func Witnesses(c config.Config) []witness.Witness {
	var all []witness.Witness
	for _, w := range c.Ledger.Witnesses {
		all = append(all, witness.Witness{Name: w.Name, Key: w.Key, Dir: w.File, URL: w.URL})
	}
	return all
}

// keyText is less than the length of a key's text.
const keyText = 32

// confidential returns the secrets that a configuration has resolved, and also the
// password of the store's URL by itself.
func confidential(c config.Config, kept store.Options) *redact.Secrets {
	all := []string{kept.Password()}
	for _, secret := range c.Secrets() {
		s := secret.Reveal()
		all = append(all, s)
		// Keys are written with a name before them: "ID:KEY", "PRIVATE+KEY+NAME+KEY".
		if i := strings.LastIndexAny(s, ":+"); i >= 0 && len(s)-i > keyText {
			all = append(all, s[i+1:])
		}
	}
	if keys, err := c.PayloadKeys(); err == nil { // an error is reported elsewhere
		for _, key := range keys {
			_, secret, _ := strings.Cut(key, ":") // the id is no secret
			all = append(all, strings.TrimSpace(secret))
		}
	}
	return redact.New(all)
}
