package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/plan"
)

// writeTools writes the file of imported tools: what it had, as it stands there, and what was decided.
func (p *Program) writeTools(c *config.Config, file string, have map[string]catalog.Template, answers []intakeAnswer, configured bool) error {
	var changes []catalog.Entry
	for _, a := range answers {
		for _, x := range a.Tools {
			if x.State != toolNew && x.State != toolChanged {
				continue
			}
			e, err := x.entry(a.Server, c.MCPServers[a.Server].Defaults)
			if err == nil && x.was != nil {
				e.Was, err = x.was.Said()
			}
			if err != nil {
				return negative("%s", err)
			}
			changes = append(changes, e)
		}
	}
	before, err := os.ReadFile(file)
	known := new(catalog.Catalog)
	if err == nil {
		var ds diag.Diagnostics
		if known, ds = compiler.ParseCatalog(compiler.Source{Name: file, Text: before}); ds.HasErrors() {
			return &failure{code: exitUsage, message: "the catalog is not valid", diagnostics: ds, sources: map[string][]byte{file: before}}
		}
	}
	servers := p.snapshots(answers, have, known)
	if len(changes) == 0 && len(servers) == 0 {
		if !configured {
			p.say("nothing is new or has changed: %s is not written", fromHere(file))
		}
		return nil
	}
	slices.SortFunc(changes, func(a, b catalog.Entry) int { return strings.Compare(a.Operation, b.Operation) })
	var text []byte
	if errors.Is(err, fs.ErrNotExist) {
		text, err = catalog.Write(changes)
	} else if err == nil {
		if text, err = catalog.Update(before, changes); err != nil {
			err = fmt.Errorf("%s cannot be changed as it is written: %w", file, err)
		}
	}
	if err != nil {
		return negative("%s", err).withHint("--out FILE writes what is proposed to another file.")
	}
	if more, err := catalog.UpdateServers(text, servers); err == nil {
		text = more
	} else {
		p.say("%s does not have what servers say of themselves: %s", file, err)
		servers = nil
	}
	all, ds := compiler.ParseCatalog(compiler.Source{Name: file, Text: text})
	if ds.HasErrors() {
		return &failure{code: exitNegative, message: "what would be written is no catalog", diagnostics: ds, sources: map[string][]byte{file: text}}
	}
	if bytes.Equal(text, before) {
		return nil
	}
	if err := written(all, have, changes, servers); err != nil {
		return negative("%s cannot be changed as it is written: %s", file, err).withHint("--out FILE writes what is proposed to another file.")
	}
	if err := replaceFile(file, text); err != nil {
		return misuse("%s", err)
	}
	if !configured || c.ToolsFile != "" {
		return nil
	}
	return p.nameTools(c)
}

// snapshots are what servers say of themselves, for those of which the file has, or will have, an
// operation. What the file has already stays unless all its operations of the server are as this now
// offers them. What is too long is left out, and a line says so.
func (p *Program) snapshots(answers []intakeAnswer, have map[string]catalog.Template, known *catalog.Catalog) (servers []catalog.Server) {
	for _, a := range answers {
		is, there := map[string]bool{}, false
		for _, x := range a.Tools {
			if x.State == toolNew || x.State == toolChanged || x.State == toolSame {
				is[catalog.OperationName(a.Server, x.Name)] = true
				there = there || x.State != toolSame
			}
		}
		other := false
		for name, t := range have {
			other = other || t.Provider == a.Server && !is[name]
			there = there || is[name]
		}
		if !there || other && known.Server(a.Server) != nil {
			continue
		}
		s := catalog.Server{Name: a.Server, Fingerprint: a.Fingerprint, Initialize: a.said.Initialize, Endpoint: a.said.Endpoint, Place: a.said.Place, Templates: a.said.Templates}
		if n := len(s.Templates); n > catalog.MaxInitialize {
			p.say("the catalog does not have the resource templates of %s: they have %d bytes, and %d are the most", foreign(a.Server), n, catalog.MaxInitialize)
			s.Templates = nil
		}
		if err := s.Check(); err != nil {
			p.say("the catalog does not have what the server %s says of itself: %s", foreign(a.Server), foreign(err.Error()))
			continue
		}
		servers = append(servers, s)
	}
	return servers
}

// written compares a catalog with what it had before and what was to change.
func written(all *catalog.Catalog, have map[string]catalog.Template, changes []catalog.Entry, servers []catalog.Server) error {
	for _, s := range servers {
		is := all.Server(s.Name)
		if is == nil || is.Fingerprint != s.Fingerprint {
			return fmt.Errorf("what the server %s says of itself would be missing", foreign(s.Name))
		}
		changes, err := fingerprint.Compare(s.Initialize, is.Initialize)
		if err != nil {
			return err
		}
		if len(changes) > 0 || s.Endpoint != is.Endpoint {
			return fmt.Errorf("what the server %s says of itself would not be what it should", foreign(s.Name))
		}
	}
	want := map[string]string{}
	for name, t := range have {
		facts, err := t.Said()
		if err != nil {
			return err
		}
		want[name] = said(facts, t.Status, t.Fingerprint)
	}
	for _, e := range changes {
		digest := e.Fingerprint
		if e.Definition != nil {
			print, err := fingerprint.Tool(e.Definition)
			if err != nil {
				return err
			}
			digest = print.Digest
		}
		want[e.Operation] = said(e.Facts, e.Status, digest)
	}
	for i := range all.Templates {
		t := &all.Templates[i]
		facts, err := t.Said()
		if err != nil {
			return err
		}
		if want[t.Name()] != said(facts, t.Status, t.Fingerprint) {
			return fmt.Errorf("%s would not be what it should", foreign(t.Name()))
		}
		delete(want, t.Name())
	}
	for name := range want {
		return fmt.Errorf("%s would be missing", foreign(name))
	}
	return nil
}

// said is what a catalog says of a tool, apart from what its definition does.
func said(facts json.RawMessage, status plan.Trust, fingerprint string) string {
	var all map[string]any
	_ = json.Unmarshal(facts, &all) // of Template.Facts
	delete(all, "input_schema")
	delete(all, "output_schema")
	raw, _ := json.Marshal(all)
	return fmt.Sprintf("%s %s %s", raw, status, fingerprint)
}

// nameTools makes the configuration name the file of imported tools.
func (p *Program) nameTools(c *config.Config) error {
	name := cmp.Or(c.File, config.DefaultFile)
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return misuse("%s", err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return p.rewriteSettings(name, text, append(slices.Clone(text), "tools: "+toolsFile+"\n"...))
}

// rewriteSettings replaces the configuration, unless the new one is not valid.
func (p *Program) rewriteSettings(name string, text, next []byte) error {
	if err := replaceFile(name, next); err != nil {
		return misuse("%s", err)
	}
	_, ds := config.Load(name)
	if !ds.HasErrors() {
		return nil
	}
	if len(text) > 0 {
		if err := replaceFile(name, text); err != nil {
			return misuse("%s", err)
		}
	}
	return &failure{code: exitUsage, message: name + " cannot be changed", diagnostics: ds, sources: map[string][]byte{name: next}}
}

// replaceFile writes a file that others may read, or keeps the mode that it has. Where a link is, it replaces
// the file to which that leads. It refuses to take the place of what is no file: a device would be gone.
func replaceFile(name string, text []byte) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(name); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("writing %s: it is not a regular file", name)
		}
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
		mode = info.Mode().Perm()
	}
	if err := wholefile.Replace(name, text); err != nil {
		return err
	}
	return os.Chmod(name, mode)
}
