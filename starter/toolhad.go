package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

// hadBefore is what catalogs have before an import.
type hadBefore struct {
	// have are the tools that the file has which is written, and base those that the imported ones are
	// held against: these and the others of the configuration's file of tools.
	have, base map[string]catalog.Template
	// others are the operations that stand elsewhere.
	others map[string]bool
	// servers are what servers said of themselves.
	servers []catalog.Server
}

// imported reads the tools that a catalog file has, and the operations that stand elsewhere.
func (p *Program) imported(c *config.Config, file string) (*hadBefore, error) {
	had := &hadBefore{have: map[string]catalog.Template{}, base: map[string]catalog.Template{}, others: map[string]bool{}}
	read := func(names ...string) (*catalog.Catalog, error) {
		all, texts, ds, err := host.LoadCatalog(names...)
		if err == nil && ds.HasErrors() {
			err = &failure{code: exitUsage, message: "the catalog is not valid", diagnostics: ds, sources: texts}
		}
		return all, err
	}
	there := func(file string) bool {
		_, err := os.Stat(file)
		return !errors.Is(err, fs.ErrNotExist)
	}
	if there(file) {
		all, err := read(file)
		if err != nil {
			return nil, asUse(err)
		}
		if len(all.Adapters) > 0 {
			return nil, misuse("%s has adapters, and is not a file of imported tools alone", file)
		}
		for _, t := range all.Templates {
			if t.Definition == nil && t.Resource == nil {
				return nil, misuse("%s has %s without its definition, and is not a file of imported tools alone", file, foreign(t.Name())).
					withHint("Name another file with --out, or with tools in chimera.yaml.")
			}
			had.have[t.Name()] = t
		}
		had.servers = all.Servers
	}
	maps.Copy(had.base, had.have)
	for _, name := range []string{c.CatalogFile, c.ToolsFile} {
		if name == "" || name == file || name == c.ToolsFile && !there(name) {
			continue
		}
		all, err := read(name)
		if err != nil {
			return nil, asUse(err)
		}
		for _, t := range all.Templates {
			_, known := had.base[t.Name()]
			switch {
			case name == c.ToolsFile && known:
			case name == c.ToolsFile && (t.Definition != nil || t.Resource != nil):
				had.base[t.Name()] = t
			default:
				had.others[t.Name()] = true
			}
		}
		if name == c.ToolsFile {
			had.servers = append(had.servers, all.Servers...)
		}
	}
	return had, nil
}

// knownNames are the servers of the configuration and the providers of operations, each with the
// names of its operations.
func knownNames(c *config.Config, have map[string]catalog.Template, others map[string]bool) map[string][]string {
	known := map[string][]string{}
	for name := range c.MCPServers {
		known[name] = nil
	}
	for _, operation := range slices.Concat(slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(others))) {
		provider, name, _ := strings.Cut(operation, "/")
		known[provider] = append(known[provider], name)
	}
	return known
}

// asUse is the failure of a file that cannot be read, unless the error is a failure already.
func asUse(err error) error {
	if f := (*failure)(nil); errors.As(err, &f) {
		return err
	}
	return misuse("%s", err)
}

// another says how a server introduces itself otherwise than when it was imported, and how where it is differs,
// or "".
func (h *hadBefore) another(server string, is introduced) string {
	i := slices.IndexFunc(h.servers, func(s catalog.Server) bool { return s.Name == server })
	if i < 0 {
		return ""
	}
	was := &h.servers[i]
	var all []string
	if old, now := selfName(was.Initialize), selfName(is.Introduction.Raw); old != now {
		all = append(all, fmt.Sprintf("It called itself %s, and calls itself %s now.", old, now))
	}
	if was.Endpoint != "" && was.Endpoint != is.Introduction.Endpoint {
		for _, line := range movedFrom(was, nil, is.place) {
			all = append(all, strings.ToUpper(line[:1])+line[1:]+".")
		}
	}
	return strings.Join(all, " ")
}

// selfName is the name and the version by which a server introduces itself.
func selfName(initialize json.RawMessage) string {
	v, err := schemas.Decode(initialize)
	if err != nil {
		return ""
	}
	said, _ := v.(map[string]any)
	info, _ := said["serverInfo"].(map[string]any)
	name, _ := info["name"].(string)
	version, _ := info["version"].(string)
	return excerpt.Clip(strings.TrimSpace(name+" "+version), maxSelfName)
}

// maxSelfName bounds a server's name and version as they are shown, in bytes.
const maxSelfName = 200
