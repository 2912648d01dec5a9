package main

import (
	"maps"
	"path"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
)

// check fails if a pattern of --only or --resources matches nothing that servers offer, or --accept names nothing. all
// reports whether all servers that were named are known.
func (o *intakeOptions) check(offered map[string]introduced, base map[string]catalog.Template, all bool) error {
	if !all {
		return nil
	}
	var names, operations []string
	for _, server := range slices.Sorted(maps.Keys(offered)) {
		var of []string
		for _, t := range offered[server].Tools {
			of = append(of, t.Name)
		}
		if len(offered[server].Resources)+len(offered[server].Templates)+len(o.resources) > 0 {
			of = append(of, readResource, readJSONResource, listResources)
		}
		for _, t := range base {
			if t.Provider == server && t.Resource != nil {
				of = append(of, t.Operation)
			}
		}
		for _, name := range of {
			names, operations = append(names, name), append(operations, catalog.OperationName(server, name))
		}
	}
	servers := strings.Join(slices.Sorted(maps.Keys(offered)), ", ")
	matches := func(pattern string, of []string) bool {
		return slices.ContainsFunc(of, func(name string) bool { return pattern == name || matchesName(pattern, name) })
	}
	hint := "chimera tools list lists them."
	for _, pattern := range o.only {
		if !matches(pattern, names) {
			return negative("no tool of %s matches --only %s", foreign(servers), foreign(pattern)).meant("--only ", pattern, names, hint)
		}
	}
	for _, pattern := range o.resources {
		if !slices.ContainsFunc(slices.Collect(maps.Values(offered)), func(s introduced) bool { return mayHave(pattern, s.Resources, s.Templates) }) {
			return negative("no resource of %s matches --resources %s", foreign(servers), foreign(pattern)).withHint("%s", hint)
		}
	}
	for _, name := range o.accept {
		if !matches(name, names) && !matches(name, operations) {
			return misuse("--accept: %s has no tool %s", foreign(servers), foreign(name)).meant("--accept ", name, append(names, operations...), hint)
		}
	}
	return nil
}

// named reports whether --accept names a tool of a server. A pattern does not name what was flagged.
func (o *intakeOptions) named(server string, x *importedTool) bool {
	for _, name := range []string{x.Name, catalog.OperationName(server, x.Name)} {
		if slices.Contains(o.accept, name) {
			return true
		}
		if !x.flagged && slices.ContainsFunc(o.accept, func(pattern string) bool { return matchesName(pattern, name) }) {
			return true
		}
	}
	return false
}

// takes reports whether an operation of a name is imported.
func (o *intakeOptions) takes(name string) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, func(pattern string) bool { return matchesName(pattern, name) })
}

// matchesName reports whether a name matches a pattern. One that is none matches nothing.
func matchesName(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}
