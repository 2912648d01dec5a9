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

// foreign holds the keys of mcpServers that other hosts know, or that later versions of
// this one will know.
var foreign = []string{"url", "headers", "auth", "oauth", "disabled", "autoApprove", "alwaysAllow", "timeout"}

func (l *loader) server(v *syntax.Value, name, at string) {
	s := Server{Env: map[string]Secret{}, Dir: l.dir}
	known := v
	for _, f := range v.Fields {
		switch {
		case f.Key.Text == "type" && f.Value.Kind == syntax.String && f.Value.Text == "stdio":
		case f.Key.Text == "type":
			l.report(diag.ConfigNotSupported, f.Value.Range(), "not supported yet: MCP servers that are not of type stdio",
				"Servers that are started as a child and spoken to on standard input and output are supported.")
		case slices.Contains(foreign, f.Key.Text):
			l.report(diag.ConfigNotSupported, f.Key.Range(), fmt.Sprintf("not supported yet: %s.%s", at, f.Key.Text),
				"Servers that are started as a child and spoken to on standard input and output are supported.")
			if f.Key.Text == "url" {
				known = nil // a missing command would not be the mistake to report
			}
		}
	}
	fields(l, serverKeys, &s, v, at, known != nil, append([]string{"type"}, foreign...))
	l.config.MCPServers[name] = s
}

func (l *loader) skill(v *syntax.Value, name, at string) {
	if name == "engine" || name == "plan" {
		l.report(diag.ConfigKey, v.Range(), fmt.Sprintf("the provider %s is built in", name), "Choose another name for this executable.")
		return
	}
	s := Skill{Env: map[string]Secret{}, Dir: l.dir}
	fields(l, skillKeys, &s, v, at, true, nil)
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
		fields(l, witnessKeys, &w, item, at, true, nil)
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
func fields[T any](l *loader, table []key[T], into *T, v *syntax.Value, at string, complete bool, passed []string) {
	var names []string
	for _, k := range table {
		names = append(names, k.name)
		if k.required && complete && v.Get(k.name) == nil {
			l.report(diag.ConfigValue, v.Range(), fmt.Sprintf("%s has no %s", at, k.name), k.doc)
		}
	}
	for _, f := range v.Fields {
		if slices.Contains(passed, f.Key.Text) {
			continue
		}
		i := slices.Index(names, f.Key.Text)
		if i < 0 {
			l.unknown(f.Key, at+"."+f.Key.Text, names)
			continue
		}
		set(l, table[i], into, f.Value, at+"."+names[i])
	}
}
