package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devroot"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// maxSource bounds a plan and an input, in bytes.
const maxSource = 64 << 20

// stdinName is the name of standard input in findings.
const stdinName = "stdin"

// read reads a file, or standard input for "-", of bounded size.
func (p *Program) read(name string) (compiler.Source, error) {
	if name == "-" {
		text, err := bounded(p.Stdin, stdinName)
		return compiler.Source{Name: stdinName, Text: text}, err
	}
	f, err := os.Open(name)
	if err != nil {
		return compiler.Source{}, misuse("%s", err)
	}
	text, err := bounded(f, name)
	if closed := f.Close(); err == nil && closed != nil {
		err = misuse("reading %s: %s", name, closed)
	}
	return compiler.Source{Name: name, Text: text}, err
}

func bounded(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSource+1))
	if err != nil {
		return nil, misuse("reading %s: %s", name, err)
	}
	if len(text) > maxSource {
		return nil, misuse("%s is over %d bytes", name, maxSource)
	}
	return text, nil
}

// settings reads the configuration.
func (p *Program) settings() (config.Config, error) {
	c, ds := config.Load(p.configFile)
	if !ds.HasErrors() {
		if len(ds) > 0 {
			p.diagnose(ds, nil)
		}
		return c, nil
	}
	f := misuse("the configuration is not valid")
	f.diagnostics, f.sources = ds, map[string][]byte{}
	for _, d := range ds {
		if name := d.Subject.File; name != "" && f.sources[name] == nil {
			if src, err := p.read(name); err == nil {
				f.sources[name] = src.Text
			}
		}
	}
	return c, f
}

// environment is what plans are compiled against: the catalog and the policy.
type environment struct {
	catalog *catalog.Catalog
	// own is what the files say, without what is built in or registered; nil if there is none.
	own *catalog.Catalog
	// policy is nil if none was given.
	policy *policy.Bundle
	// findings concern the files of catalog and policy, whose texts are in sources.
	findings diag.Diagnostics
	sources  map[string][]byte
}

// environment reads the catalog file and the files of the policy bundle, given
// or configured, and adds the built-in skills. Several policy files are
// separated by commas. Where a file carries statements of the admins, its word is held against them.
func (p *Program) environment(ctx context.Context, file, policies string) (*environment, error) {
	s, err := p.unheld(ctx, file, policies)
	if err != nil || s.findings.HasErrors() {
		return s, err
	}
	return s, p.hold(s, file)
}

// unheld is environment for what files say, whatever the admins have stated.
func (p *Program) unheld(ctx context.Context, file, policies string) (*environment, error) {
	files, catalogs := strings.Split(policies, ","), []string{file}
	if file == "" || policies == "" {
		c, err := p.settings()
		if err != nil {
			return nil, err
		}
		if file == "" {
			catalogs = []string{c.CatalogFile, c.ToolsFile}
		}
		if policies == "" {
			files = c.PolicyFiles
		}
	}
	var under *catalog.Catalog
	if file == "" {
		under = p.registered(ctx)
	}
	s, err := p.catalog(under, catalogs...)
	if err != nil {
		return nil, err
	}
	return s, s.bundle(files)
}

// there is the deployment's store, or nil if there is none.
func (p *Program) there() *place {
	at, err := p.place()
	if err != nil || at.existing() != nil || at.store.Driver == store.Postgres && !at.known {
		return nil
	}
	return at
}

// registered is the catalog of the tools that are registered in the deployment's store, or nil.
// Without the store, there is what files say.
func (p *Program) registered(ctx context.Context) *catalog.Catalog {
	at := p.there()
	if at == nil {
		return nil
	}
	if dir := at.settings.Dev.Dir; at.settings.Trust.Bootstrap == "" && !exists(filepath.Join(dir, devroot.BootstrapFile)) {
		return nil // nobody has stated anything, and nothing is made here
	}
	all, err := at.registered(ctx, p)
	if err != nil {
		p.say("the registry of tools was not read: %s", err)
	}
	return all
}

// registered opens the store for itself, since chimera dev has yet to claim its folder.
func (at *place) registered(ctx context.Context, p *Program) (all *catalog.Catalog, err error) {
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if at.opened, err = store.Open(bounded, at.store); err != nil {
		return nil, storeError(err)
	}
	defer func() { err = errors.Join(err, at.opened.Close()) }()
	root, err := at.trustRoot(bounded, p)
	if err != nil || root.bootstrap == nil {
		return nil, err
	}
	s, err := trust.Read(bounded, at.opened.Ledger, root.bootstrap)
	if err != nil {
		return nil, err
	}
	return registry.Catalog(bounded, at.opened.Ledger, s)
}

// catalog reads catalog files, and adds the built-in skills, and what they do not have of another
// catalog, which may be nil.
func (p *Program) catalog(under *catalog.Catalog, files ...string) (*environment, error) {
	own, texts, ds, err := host.LoadCatalog(files...)
	if err != nil {
		return nil, misuse("%s", err)
	}
	s := &environment{own: own, findings: ds, sources: texts}
	if ds.HasErrors() {
		return s, nil
	}
	if under != nil {
		own = registry.Under(own, under)
	}
	_, merged, err := host.Catalog(own, nil)
	if err != nil {
		return nil, &failure{code: exitNegative, message: err.Error()}
	}
	s.catalog = merged
	return s, nil
}

// bundle reads the files of a policy bundle.
func (s *environment) bundle(files []string) error {
	for i, name := range files {
		if name == "-" {
			return misuse("a policy is read from a file, not from standard input")
		}
		if _, again := s.sources[name]; again || slices.Contains(files[:i], name) {
			return misuse("%s is given twice", name)
		}
	}
	policy, texts, ds, err := host.LoadPolicy(files)
	if err != nil {
		return misuse("%s", err)
	}
	maps.Copy(s.sources, texts)
	s.findings = append(s.findings, ds...)
	s.policy = policy
	return nil
}

// exists reports whether name is a file or folder.
func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil || !errors.Is(err, os.ErrNotExist)
}

// agree returns the form of a word that agrees with a number.
func agree(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// plural formats a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
