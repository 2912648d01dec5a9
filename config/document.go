package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/syntax"
)

// document reads the root of the file.
func (l *loader) document(root *syntax.Value) {
	if root == nil || root.Kind == syntax.Null {
		return
	}
	l.section(root, "")
}

// section reads a map whose keys are those of the table under prefix.
func (l *loader) section(v *syntax.Value, prefix string) {
	if v.Kind == syntax.Null {
		return // a section whose lines are all comments
	}
	if !l.isMap(v, strings.TrimSuffix(prefix, ".")) {
		return
	}
	names := children(prefix)
	for _, f := range v.Fields {
		name := prefix + f.Key.Text
		switch {
		case name == "mcpServers":
			entries(l, f.Value, name, l.server)
		case name == "skills":
			entries(l, f.Value, name, l.skill)
		case name == witnessesKey:
			l.witnesses(f.Value)
		case !slices.Contains(names, f.Key.Text):
			l.unknown(f.Key, name, names)
		default:
			if i := slices.IndexFunc(keys, func(k key[Config]) bool { return k.name == name }); i >= 0 {
				set(l, keys[i], &l.config, f.Value, name)
				l.said[name] = true
			} else {
				l.section(f.Value, name+".")
			}
		}
	}
}

// children returns the names that are allowed under a prefix, in table order.
func children(prefix string) []string {
	var names []string
	for _, k := range keys {
		rest, ok := strings.CutPrefix(k.name, prefix)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch prefix {
	case "":
		names = append(names, "mcpServers", "skills")
	case "ledger.":
		names = append(names, "witnesses")
	}
	return names
}

func (l *loader) unknown(at *syntax.Value, name string, names []string) {
	d := diag.Diagnostic{
		Code:    diag.ConfigKey,
		Subject: at.Range(),
		Summary: fmt.Sprintf("there is no key %s", excerpt.Quote(name, 80)),
		Detail:  "Known here: " + strings.Join(names, ", ") + ".",
	}
	short := at.Text
	if near := syntax.Nearest(short, names); near != "" {
		d.Suggestion = near
	}
	l.ds.Add(d)
}

var providerName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}$`)

// entries reads a map of named entries.
func entries(l *loader, v *syntax.Value, section string, read func(*syntax.Value, string, string)) {
	if v.Kind == syntax.Null {
		return
	}
	if !l.isMap(v, section) {
		return
	}
	if len(v.Fields) > maxNamed {
		l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s has %d entries; at most %d are possible", section, len(v.Fields), maxNamed), "")
		return
	}
	for _, f := range v.Fields {
		name := section + "." + f.Key.Text
		if !providerName.MatchString(f.Key.Text) {
			l.report(diag.ConfigKey, f.Key.Range(), fmt.Sprintf("%s cannot be the name of a provider", excerpt.Quote(f.Key.Text, 80)), "A name is "+nameRule+".")
			continue
		}
		if l.isMap(f.Value, name) {
			read(f.Value, f.Key.Text, name)
		}
	}
}

func (l *loader) skill(v *syntax.Value, name, at string) {
	if name == "engine" || name == "plan" {
		l.report(diag.ConfigKey, v.Range(), fmt.Sprintf("the provider %s is built in", name), "Choose another name for this executable.")
		return
	}
	s := Skill{Env: map[string]Secret{}, Dir: l.dir}
	fields(l, skillKeys, &s, v, at, nil)
	l.config.Skills[name] = s
}

// witnesses reads the list of witnesses.
func (l *loader) witnesses(v *syntax.Value) {
	switch {
	case v.Kind == syntax.Null:
		return
	case v.Kind != syntax.List:
		l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s is a %s, but must be a list", witnessesKey, v.Kind), "")
		return
	case len(v.Items) > maxWitnesses:
		l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s has %d entries; at most %d are possible", witnessesKey, len(v.Items), maxWitnesses), "")
		return
	}
	for i, item := range v.Items {
		at := fmt.Sprintf("%s[%d]", witnessesKey, i)
		if !l.isMap(item, at) {
			continue
		}
		var w Witness
		fields(l, witnessKeys, &w, item, at, nil)
		if (w.File == "") == (w.URL == "") {
			l.report(diag.ConfigValue, item.Range(), at+" must have either file or url", "A witness is asked in a shared folder, or by HTTPS.")
		}
		if slices.ContainsFunc(l.config.Ledger.Witnesses, func(o Witness) bool { return o.Name == w.Name || o.Key == w.Key }) {
			l.report(diag.ConfigValue, item.Range(), at+" has the name or the key of another witness", "")
		}
		l.config.Ledger.Witnesses = append(l.config.Ledger.Witnesses, w)
	}
}

// fields reads an entry by its table. It ignores the keys in passed, which were read before.
func fields[T any](l *loader, table []key[T], into *T, v *syntax.Value, at string, passed []string) {
	within(l, table, "", into, v, at, passed)
}

// within reads a map of an entry, whose keys are those of the table under prefix.
func within[T any](l *loader, table []key[T], prefix string, into *T, v *syntax.Value, at string, passed []string) {
	var names []string
	for _, k := range table {
		rest, ok := strings.CutPrefix(k.name, prefix)
		if !ok {
			continue
		}
		name, _, deeper := strings.Cut(rest, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if k.required && !deeper && v.Get(name) == nil {
			l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s has no %s", at, name), k.doc)
		}
	}
	for _, f := range v.Fields {
		name := f.Key.Text
		i := slices.IndexFunc(table, func(k key[T]) bool { return k.name == prefix+name })
		switch {
		case slices.Contains(passed, name):
		case !slices.Contains(names, name):
			l.unknown(f.Key, at+"."+name, names)
		case i >= 0:
			set(l, table[i], into, f.Value, at+"."+name)
		case l.isMap(f.Value, at+"."+name):
			within(l, table, prefix+name+".", into, f.Value, at+"."+name, nil)
		}
	}
}
