package deps

import (
	"fmt"
	"slices"
	"strings"
)

// Package is one package and what it imports.
type Package struct {
	Path string
	// Standard: a package of the standard library.
	Standard bool
	Imports  []string
}

// Graph holds packages by import path: those of the module, and all that they
// reach.
type Graph map[string]Package

// Check holds g against rules and answers with one line for each violation,
// sorted; nil means that there is none.
func Check(g Graph, rules []Rule) []string {
	var found []string
	for _, path := range sorted(g) {
		if !ours(path) {
			continue
		}
		r, ok := ruleOf(path, rules)
		if !ok {
			found = append(found, fmt.Sprintf("%s is not in the table of internal/deps: add a row that says what it owns and what it never imports", inside(path)))
			continue
		}
		found = append(found, checkPackage(g, path, r)...)
		found = append(found, checkSole(g[path])...)
	}
	for _, r := range rules {
		if exists := slices.ContainsFunc(sorted(g), func(p string) bool { return ours(p) && covers(r.Path, inside(p)) }); exists == r.Planned {
			if exists {
				found = append(found, r.Path+" exists, but the table of internal/deps says that it is planned")
			} else {
				found = append(found, r.Path+" stands in the table of internal/deps, but does not exist")
			}
		}
	}
	slices.Sort(found)
	return found
}

// checkPackage walks the packages of ours that path reaches, breadth first, so
// that the way it reports is a shortest one.
func checkPackage(g Graph, path string, r Rule) []string {
	var found []string
	from := map[string]string{path: ""}
	for queue := []string{path}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, to := range slices.Sorted(slices.Values(g[at].Imports)) {
			if name, no := r.forbids(to); no {
				found = append(found, fmt.Sprintf("%s imports %s: it never imports %s", way(from, at), inside(to), name))
			}
			if _, seen := from[to]; !seen && ours(to) {
				from[to] = at
				queue = append(queue, to)
			}
		}
	}
	return found
}

// forbids says which entry of Never covers the import path to.
func (r Rule) forbids(to string) (string, bool) {
	if slices.Contains(Harmless, to) {
		return "", false
	}
	own := inside(to)
	for _, never := range r.Never {
		paths, group := Groups[never]
		if !group {
			paths = []string{Module + "/" + never}
		}
		for _, p := range paths {
			if !below(p, to) {
				continue
			}
			if ours(to) && slices.ContainsFunc(r.Except, func(e string) bool { return below(e, own) }) {
				continue
			}
			// What a package keeps in its own folder is part of it.
			if ours(to) && covers(r.Path, own) || ours(to) && below(strings.TrimSuffix(r.Path, "/..."), own) {
				continue
			}
			return never, true
		}
	}
	return "", false
}

func checkSole(p Package) []string {
	var found []string
	for _, s := range Sole {
		for _, to := range p.Imports {
			if below(s.Library, to) && !slices.ContainsFunc(s.Owners, func(o string) bool { return covers(o, inside(p.Path)) }) {
				found = append(found, fmt.Sprintf("%s imports %s: only %s may, because %s", inside(p.Path), to, owners(s.Owners), s.Why))
			}
		}
	}
	return found
}

func owners(paths []string) string {
	if len(paths) == 0 {
		return "nobody"
	}
	return strings.Join(paths, ", ")
}

// ruleOf finds the row of a package: an exact path before a folder.
func ruleOf(path string, rules []Rule) (Rule, bool) {
	for _, exact := range []bool{true, false} {
		for _, r := range rules {
			if exact && r.Path == inside(path) || !exact && covers(r.Path, inside(path)) {
				return r, true
			}
		}
	}
	return Rule{}, false
}

// covers reports whether the row's path names the package own, both inside the module.
func covers(row, own string) bool {
	folder, deep := strings.CutSuffix(row, "/...")
	return row == own || deep && below(folder, own)
}

// below reports whether path is root or lies below it.
func below(root, path string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func ours(path string) bool { return below(Module, path) }

// inside shortens an import path of ours to its path inside the module.
func inside(path string) string { return strings.TrimPrefix(path, Module+"/") }

// way writes how a package was reached: "a imports b imports c", without the end.
func way(from map[string]string, at string) string {
	names := []string{inside(at)}
	for at = from[at]; at != ""; at = from[at] {
		names = append(names, inside(at))
	}
	slices.Reverse(names)
	return strings.Join(names, " imports ")
}

func sorted(g Graph) []string {
	paths := make([]string, 0, len(g))
	for p := range g {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}
