package discover

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/internal/syntax"
)

// registryName is the form of a server's name in a registry.
var registryName = regexp.MustCompile(`^[A-Za-z0-9.-]{1,200}/[A-Za-z0-9._-]{1,200}$`)

// ServerJSON reads the server.json of an MCP registry, alone or as the registry's API
// returns it. Each package and each remote is a server of its own; they are alternatives,
// and whoever imports picks one.
//
// The variables of a package keep their names; those of headers are called
// SERVER_HEADER. A package without an exact version is marked as unpinned.
func ServerJSON(raw []byte) (Found, error) {
	root, err := read("server.json", raw, false)
	if err != nil {
		return Found{}, err
	}
	if inner := root.Get("server"); inner != nil && inner.Kind == syntax.Map && root.Get("name") == nil {
		root = inner
	}
	p := parser{file: "server.json", variables: newVariables()}
	name := root.Get("name")
	if name == nil || name.Kind != syntax.String || !registryName.MatchString(name.Text) {
		return Found{}, p.errorf(root, "the name must be of the form io.github.user/server")
	}
	j := manifest{parser: &p, base: fit(name.Text[strings.IndexByte(name.Text, '/')+1:])}
	if status := root.Get("status"); text(status) == "deprecated" || text(status) == "deleted" {
		p.add(status, "the server is %s", status.Text)
	}
	for _, list := range []struct {
		key  string
		read func(*syntax.Value)
	}{{"packages", j.pkg}, {"remotes", j.remote}} {
		v := root.Get(list.key)
		if v == nil || v.Kind == syntax.Null {
			continue
		}
		if v.Kind != syntax.List {
			return Found{}, p.errorf(v, "%s is a %s, but must be a list", list.key, v.Kind)
		}
		for _, item := range v.Items {
			list.read(item)
		}
	}
	j.names()
	return p.finish()
}

// manifest reads a server.json into drafts.
type manifest struct {
	*parser
	base string
	// kinds are the registry types or transports of the drafts.
	kinds []string
}

// about notes something of a package or remote.
func (j *manifest) about(at *syntax.Value, what, format string, args ...any) {
	j.add(at, "%s: %s", what, fmt.Sprintf(format, args...))
}

// skip notes that a package or remote was left out.
func (j *manifest) skip(at *syntax.Value, what, format string, args ...any) {
	j.add(at, "%s was left out: %s", what, fmt.Sprintf(format, args...))
}

// names gives the drafts the name of the server, with their kind if there are several.
func (j *manifest) names() {
	used := map[string]int{}
	for i := range j.drafts {
		name := j.base
		if len(j.drafts) > 1 {
			name = name[:min(len(name), 100)] + "-" + j.kinds[i]
			if used[name]++; used[name] > 1 {
				name = fmt.Sprintf("%s-%d", name, used[name])
			}
		}
		j.drafts[i].Name = name
	}
}

// text is the text of a string, or "".
func text(v *syntax.Value) string {
	if v == nil || v.Kind != syntax.String {
		return ""
	}
	return v.Text
}

// yes reports whether a value is true.
func yes(v *syntax.Value) bool { return v != nil && v.Kind == syntax.Bool && v.Text == "true" }

// packageType says how packages of a registry are run.
type packageType struct {
	// registry is the one that the commands ask.
	registry   string
	identifier *regexp.Regexp
	// hints are the commands that may run a package; the first is the default.
	hints []string
	// before stand before the package, join between it and its version, after behind both.
	before []string
	join   string
	after  []string
}

var packageTypes = map[string]packageType{
	"npm":   {"https://registry.npmjs.org", npmName, []string{"npx", "bunx"}, []string{"-y"}, "@", nil},
	"pypi":  {"https://pypi.org", pypiName, []string{"uvx"}, nil, "@", nil},
	"oci":   {"https://docker.io", imageName, []string{"docker", "podman"}, []string{"run", "-i", "--rm"}, ":", nil},
	"nuget": {"https://api.nuget.org", nugetName, []string{"dnx"}, []string{"--yes"}, "@", []string{"--"}},
}

var (
	npmName   = regexp.MustCompile(`^(?:@[a-z0-9~_][a-z0-9._~-]*/)?[A-Za-z0-9~_][A-Za-z0-9._~-]{0,213}$`)
	pypiName  = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?$`)
	nugetName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$`)
	imageName = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._/:-]{0,400}(?:@sha256:[0-9a-f]{64})?$`)
	// packageVersion is what may stand behind a package, exact or not.
	packageVersion = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+!_-]{0,127}$`)
)

// pkg reads a package.
func (j *manifest) pkg(v *syntax.Value) {
	kind, id, version := text(v.Get("registryType")), text(v.Get("identifier")), text(v.Get("version"))
	what := "package " + quote(id)
	if strings.Contains(id, "://") {
		what = "package " + quote(hideUser(id))
	}
	t, ok := packageTypes[kind]
	switch {
	case !ok:
		j.skip(v, what, "packages of type %s cannot be started by a command", quote(kind))
		return
	case !t.identifier.MatchString(id) || version != "" && !packageVersion.MatchString(version):
		j.skip(v, what, "its identifier or version is malformed")
		return
	}
	if transport := v.Get("transport"); transport != nil && text(transport.Get("type")) != "stdio" {
		j.skip(transport, what, "it does not speak on standard input and output: start it yourself, and give its address")
		return
	}
	image := id
	if base := strings.TrimSuffix(text(v.Get("registryBaseUrl")), "/"); base != "" && base != t.registry {
		host, https := strings.CutPrefix(base, "https://")
		if kind != "oci" || !https {
			j.skip(v.Get("registryBaseUrl"), what, "its registry is not %s", t.registry)
			return
		}
		if !strings.HasPrefix(id, host+"/") {
			image = host + "/" + id
		}
	}
	d := draft{at: v, Server: Server{Name: j.base, Command: t.hints[0]}}
	if hint := v.Get("runtimeHint"); hint != nil {
		if slices.Contains(t.hints, text(hint)) {
			d.Command = text(hint)
		} else {
			j.about(hint, what, "runtimeHint was dropped: %s starts it", d.Command)
		}
	}
	add := func(texts ...string) {
		for _, s := range texts {
			d.args = append(d.args, v.TextAs(s))
		}
	}
	own := j.arguments(what, v.Get("runtimeArguments"))
	for _, s := range t.before {
		if d.Command == "bunx" && s == "-y" || slices.ContainsFunc(own, func(a *syntax.Value) bool { return a.Text == s }) {
			continue
		}
		add(s)
	}
	d.args = append(d.args, own...)
	j.variables(what, v.Get("environmentVariables"), &d.env)
	if kind == "oci" {
		for _, e := range d.env {
			add("-e", e.name)
		}
	}
	spec := image
	if version != "" && (kind != "oci" || !strings.Contains(image, "@") && strings.LastIndexByte(image, ':') <= strings.LastIndexByte(image, '/')) {
		spec += t.join + version
	}
	add(spec)
	if rest := j.arguments(what, v.Get("packageArguments")); len(rest) > 0 {
		add(t.after...)
		d.args = append(d.args, rest...)
	}
	j.drafts, j.kinds = append(j.drafts, d), append(j.kinds, kind)
}

// remote reads a server at an address.
func (j *manifest) remote(v *syntax.Value) {
	at := v.Get("url")
	what := "remote " + quote(text(v.Get("type")))
	transport := transports[text(v.Get("type"))]
	if at == nil || at.Kind != syntax.String || len(at.Text) > maxText || hidden(at.Text) || transport != "http" && transport != "sse" {
		j.skip(v, what, "it has no address, or is neither streamable-http nor sse")
		return
	}
	address, missing := substitute(at.Text, v.Get("variables"))
	if missing != "" {
		j.skip(at, what, "its address needs a value for %s", quote(missing))
		return
	}
	d := draft{at: v, Server: Server{Name: j.base, URL: address, Type: transport}}
	j.headers(what, v.Get("headers"), &d.headers)
	j.drafts, j.kinds = append(j.drafts, d), append(j.kinds, transport)
}

// list returns the items of a list that are objects.
func list(v *syntax.Value) []*syntax.Value {
	if v == nil || v.Kind != syntax.List {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(v.Items), func(item *syntax.Value) bool { return item.Kind != syntax.Map })
}

// arguments reads the arguments that have a value without asking anybody.
func (j *manifest) arguments(what string, v *syntax.Value) []*syntax.Value {
	var args []*syntax.Value
	for _, a := range list(v) {
		flag := ""
		label := text(a.Get("valueHint"))
		if text(a.Get("type")) == "named" {
			flag = text(a.Get("name"))
			label = flag
		}
		value, missing := input(a)
		switch {
		case hidden(flag) || hidden(value) || len(flag)+len(value) > maxText:
			j.about(a, what, "an argument was left out: it is too long, or holds characters that do not show")
			continue
		case yes(a.Get("isSecret")):
			j.about(a, what, "argument %s was left out: it is a secret, and arguments cannot refer to one", quote(label))
			continue
		case missing != "" && flag != "" && bare(a):
			args = append(args, a.TextAs(flag))
			continue
		case missing != "" && yes(a.Get("isRequired")):
			j.about(a, what, "argument %s was left out, but it is required: add it to args", quote(label))
			continue
		case missing != "" || a.Get("value") == nil && !yes(a.Get("isRequired")):
			j.about(a, what, "argument %s was left out: it is optional", quote(label))
			continue
		}
		switch {
		case strings.HasSuffix(flag, "="):
			args = append(args, a.TextAs(flag+value))
			continue
		case flag != "":
			args = append(args, a.TextAs(flag))
		}
		args = append(args, a.TextAs(value))
	}
	return args
}

// bare reports whether a named argument is a flag without a value.
func bare(a *syntax.Value) bool {
	return !slices.ContainsFunc(a.Fields, func(f syntax.Field) bool {
		return !slices.Contains([]string{"type", "name", "description", "isRequired", "isRepeated"}, f.Key.Text)
	})
}

// input returns the value of an input, or its default, or what is missing for it.
func input(v *syntax.Value) (value, missing string) {
	if at := v.Get("value"); at != nil {
		return substitute(text(at), v.Get("variables"))
	}
	if at := v.Get("default"); at != nil {
		return text(at), ""
	}
	return "", "value"
}

// variable matches a variable in the value of an input.
var variable = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_.-]*\}`)

// substitute replaces the variables in a value, or returns one for which there is no value.
func substitute(value string, variables *syntax.Value) (out, missing string) {
	out = variable.ReplaceAllStringFunc(value, func(name string) string {
		v := variables.Get(name[1 : len(name)-1])
		if v == nil {
			missing = name
			return name
		}
		at := v.Get("value")
		if at == nil {
			at = v.Get("default")
		}
		if at == nil || at.Kind != syntax.String || yes(v.Get("isSecret")) {
			missing = name
		}
		return text(at)
	})
	return out, missing
}

// wanted reports whether a variable or header is to be in chimera.yaml: one that is optional
// would have to be set.
func wanted(v *syntax.Value) bool {
	return yes(v.Get("isRequired")) || yes(v.Get("isSecret")) || v.Get("value") != nil
}

// variables reads the environment of a package.
func (j *manifest) variables(what string, v *syntax.Value, into *[]pair) {
	for _, item := range list(v) {
		name := text(item.Get("name"))
		switch {
		case !variableName.MatchString(name) || slices.ContainsFunc(*into, func(o pair) bool { return o.name == name }):
			j.about(item, what, "a variable was dropped: its name is malformed or stands twice")
		case !wanted(item):
			j.about(item, what, "variable %s was left out: it is optional", name)
		default:
			*into = append(*into, pair{name: name, at: item, reference: reference{env: name}})
		}
	}
}

// authentication matches the value of a header that is a scheme and a variable.
var authentication = regexp.MustCompile(`^((?:Bearer|Basic|Token) )\{([A-Za-z_][A-Za-z0-9_.-]*)\}$`)

// headers reads the headers of a remote.
func (j *manifest) headers(what string, v *syntax.Value, into *[]pair) {
	for _, item := range list(v) {
		name := text(item.Get("name"))
		switch {
		case !headerName.MatchString(name) || slices.ContainsFunc(*into, func(o pair) bool { return strings.EqualFold(o.name, name) }):
			j.about(item, what, "a header was dropped: its name is malformed or stands twice")
		case !wanted(item):
			j.about(item, what, "header %s was left out: it is optional", name)
		default:
			r := reference{env: upper(j.base, name)}
			if m := authentication.FindStringSubmatch(text(item.Get("value"))); m != nil {
				r = reference{scheme: m[1], env: upper(j.base, m[2])}
			}
			*into = append(*into, pair{name: name, at: item, reference: r})
		}
	}
}
