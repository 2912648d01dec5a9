package discover

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/internal/syntax"
)

// Parse reads the servers of another host's file. name is the file's, for errors.
//
// The file is at most [MaxFile] bytes of JSON with comments and trailing commas. Parse
// refuses a file without servers, a key that stands twice in one object, and names that are
// equal once they fit the rule of chimera.yaml.
func Parse(name string, raw []byte) (Found, error) {
	root, err := read(name, raw, true)
	if err != nil {
		return Found{}, err
	}
	p := parser{file: name, variables: newVariables()}
	known := false
	for _, at := range []struct {
		servers, inputs *syntax.Value
		container       *syntax.Value
	}{
		{servers: root.Get("mcpServers")},
		{servers: root.Get("servers"), inputs: root.Get("inputs"), container: root},
		{servers: root.Get("mcp").Get("servers"), inputs: root.Get("mcp").Get("inputs"), container: root.Get("mcp")},
		{servers: root.Get("context_servers")},
	} {
		if at.servers == nil {
			continue
		}
		known = true
		if at.servers.Kind != syntax.Map {
			return Found{}, p.errorf(at.servers, "the servers are a %s, but must be an object", at.servers.Kind)
		}
		if at.container != nil {
			for _, f := range at.container.Fields {
				if !slices.Contains([]string{"servers", "inputs", "mcpServers", "mcp", "context_servers", "$schema"}, f.Key.Text) {
					p.add(f.Key, "%s was dropped", quote(f.Key.Text))
				}
			}
		}
		for _, f := range at.servers.Fields {
			p.server(f)
		}
		p.inputs(at.inputs)
	}
	if projects := root.Get("projects"); projects != nil {
		for _, f := range projects.Fields {
			if at := f.Value.Get("mcpServers"); at != nil && len(at.Fields) > 0 {
				p.add(at, "the servers of project %s were not read", quote(f.Key.Text))
			}
		}
	}
	if !known {
		return Found{}, fmt.Errorf("%s: the file has no mcpServers, servers, mcp.servers or context_servers", name)
	}
	return p.finish()
}

// parser reads servers into drafts, and finishes them when all references are known.
type parser struct {
	notes
	file      string
	variables *variables
	drafts    []draft
	// declared are the declarations of inputs.
	declared []syntax.Field
}

// draft is a server whose values have no variables yet.
type draft struct {
	Server
	at           *syntax.Value
	args         []*syntax.Value
	env, headers []pair
}

// pair is a variable or header with its value.
type pair struct {
	name string
	at   *syntax.Value
	// reference is the value if it is one; if literal is set, it is none.
	reference reference
	literal   bool
	// copied is a literal value that is taken over, since it plainly is what is said by why: no secret.
	copied, why string
}

// pairOf is a variable of the environment with its value; alone if it can be a reference.
func pairOf(name string, at *syntax.Value, value string, alone bool) pair {
	if r, ok := refer(value); ok && alone {
		return pair{name: name, at: at, reference: r}
	}
	if why := plain(name, value); why != "" {
		return pair{name: name, at: at, copied: value, why: why}
	}
	return pair{name: name, at: at, literal: true}
}

func (p *parser) errorf(at *syntax.Value, format string, args ...any) error {
	start := at.Range().Start
	return fmt.Errorf("%s:%d:%d: %s", p.file, start.Line, start.Column, fmt.Sprintf(format, args...))
}

// skip notes that a server was left out.
func (p *parser) skip(at *syntax.Value, server, format string, args ...any) {
	p.addOf(fit(server), at, "server %s was left out: %s", quote(server), fmt.Sprintf(format, args...))
}

// about notes something of a server.
func (p *parser) about(at *syntax.Value, server, format string, args ...any) {
	p.addOf(fit(server), at, "server %s: %s", quote(server), fmt.Sprintf(format, args...))
}

// permissions are keys by which hosts let tools run without asking.
var permissions = []string{"autoApprove", "alwaysAllow", "trust", "allowedTools", "autoAllow", "autoStart"}

// transports are the values of type, as hosts write them.
var transports = map[string]string{
	"stdio": "stdio", "local": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "sse": "sse",
}

// server reads an entry of a host.
func (p *parser) server(f syntax.Field) {
	name, v := f.Key.Text, f.Value
	if v.Kind != syntax.Map {
		p.skip(v, name, "it is a %s, not an object", v.Kind)
		return
	}
	for _, off := range []struct {
		key, value string
	}{{"disabled", "true"}, {"enabled", "false"}} {
		if at := v.Get(off.key); at != nil && at.Kind == syntax.Bool && at.Text == off.value {
			p.skip(at, name, "it is not in use there (%s: %s)", off.key, off.value)
			return
		}
	}
	d := draft{at: f.Key, Server: Server{Name: fit(name)}}
	if d.Name != name {
		p.addOf(d.Name, f.Key, "server %s is called %s here", quote(name), d.Name)
	}
	transport := ""
	var command *syntax.Value
	for _, f := range v.Fields {
		var ok bool
		switch f.Key.Text {
		case "command":
			command, ok = f.Value, true
		case "args":
			ok = p.args(&d, name, f.Value)
		case "env":
			ok = p.pairs(name, "env", f.Value, &d.env)
		case "headers":
			ok = p.pairs(name, "headers", f.Value, &d.headers)
		case "cwd":
			d.Dir, ok = p.text(name, f)
			if ok && strings.Contains(d.Dir, "${") {
				p.about(f.Value, name, "cwd was dropped, since it holds a reference: servers run in the folder of chimera.yaml")
				d.Dir = ""
			}
		case "url", "serverUrl", "httpUrl": // Windsurf's and Gemini CLI's names too
			if d.URL != "" {
				p.skip(f.Key, name, "it has two addresses")
				return
			}
			d.URL, ok = p.text(name, f)
			if f.Key.Text == "httpUrl" {
				transport = "http"
			}
		case "type", "transport":
			var said string
			if said, ok = p.text(name, f); ok {
				if transport = transports[said]; transport == "" {
					p.skip(f.Value, name, "its type %s is not known", quote(said))
					return
				}
			}
		case "source":
			// Zed's: custom, or the name of what brings the server along.
			if ok = f.Value.Kind == syntax.String; ok && f.Value.Text != "custom" {
				p.skip(f.Value, name, "an extension of the host starts it")
				return
			}
		case "envFile":
			p.about(f.Key, name, "envFile was dropped: name its variables in env")
			continue
		default:
			if slices.Contains(permissions, f.Key.Text) {
				p.about(f.Key, name, "%s was dropped: chimera trusts tools by the catalog and by statements only", f.Key.Text)
			} else {
				p.about(f.Key, name, "%s was dropped", quote(f.Key.Text))
			}
			continue
		}
		if !ok {
			return
		}
	}
	if command != nil && !p.command(&d, name, command) {
		return
	}
	switch {
	case d.Command != "" && d.URL != "":
		p.skip(f.Key, name, "it has both a command and an address")
		return
	case d.Command == "" && d.URL == "":
		p.skip(f.Key, name, "it has neither a command nor an address")
		return
	case d.URL != "" && transport == "stdio", d.Command != "" && transport != "" && transport != "stdio":
		p.skip(f.Key, name, "its type does not fit the rest")
		return
	case d.URL != "":
		d.Type = transport
	}
	p.drafts = append(p.drafts, d)
}

// command reads the program, or Zed's former object of path, args and env.
func (p *parser) command(d *draft, name string, v *syntax.Value) bool {
	if v.Kind != syntax.Map {
		var ok bool
		d.Command, ok = p.text(name, syntax.Field{Key: v.TextAs("command"), Value: v})
		return ok
	}
	for _, f := range v.Fields {
		ok := true
		switch f.Key.Text {
		case "path":
			d.Command, ok = p.text(name, f)
		case "args":
			ok = p.args(d, name, f.Value)
		case "env":
			ok = p.pairs(name, "env", f.Value, &d.env)
		default:
			p.about(f.Key, name, "%s was dropped", quote("command."+f.Key.Text))
		}
		if !ok {
			return false
		}
	}
	return true
}

// text reads a string; if it is none, the server is left out.
func (p *parser) text(name string, f syntax.Field) (string, bool) {
	switch {
	case f.Value.Kind != syntax.String:
		p.skip(f.Value, name, "%s is a %s, not a string", f.Key.Text, f.Value.Kind)
	case hidden(f.Value.Text):
		p.skip(f.Value, name, "%s holds characters that do not show", f.Key.Text)
	case len(f.Value.Text) > maxText:
		p.skip(f.Value, name, "%s is longer than %d bytes", f.Key.Text, maxText)
	default:
		return f.Value.Text, true
	}
	return "", false
}

func (p *parser) args(d *draft, name string, v *syntax.Value) bool {
	if v.Kind == syntax.Null {
		return true
	}
	if v.Kind != syntax.List || len(v.Items) > maxArgs {
		p.skip(v, name, "args must be a list of at most %d strings", maxArgs)
		return false
	}
	for i, item := range v.Items {
		switch item.Kind {
		case syntax.Number, syntax.Bool:
			item = item.TextAs(item.Text)
		case syntax.String, syntax.Null, syntax.List, syntax.Map:
		}
		if _, ok := p.text(name, syntax.Field{Key: item.TextAs(fmt.Sprintf("args[%d]", i)), Value: item}); !ok {
			return false
		}
		d.args = append(d.args, item)
	}
	return true
}

// pairs reads env or headers, called what.
func (p *parser) pairs(server, what string, v *syntax.Value, into *[]pair) bool {
	if v.Kind == syntax.Null {
		return true
	}
	if v.Kind != syntax.Map || len(v.Fields) > maxServers {
		p.skip(v, server, "%s must be an object of at most %d strings", what, maxServers)
		return false
	}
	for _, f := range v.Fields {
		name := f.Key.Text
		switch {
		case what == "env" && !variableName.MatchString(name), what == "headers" && !headerName.MatchString(name):
			p.about(f.Key, server, "%s was dropped from %s: it cannot be a name there", quote(name), what)
			continue
		case f.Value.Kind == syntax.Null, f.Value.Kind == syntax.List, f.Value.Kind == syntax.Map:
			p.about(f.Value, server, "%s.%s was dropped, since its value is a %s", what, name, f.Value.Kind)
			continue
		case what == "headers" && slices.ContainsFunc(*into, func(o pair) bool { return strings.EqualFold(o.name, name) }):
			p.skip(f.Key, server, "the header %s stands twice", quote(name))
			return false
		}
		if what == "env" {
			*into = append(*into, pairOf(name, f.Value, f.Value.Text, f.Value.Kind == syntax.String))
			continue
		}
		r, ok := refer(f.Value.Text)
		*into = append(*into, pair{name: name, at: f.Value, reference: r, literal: !ok || f.Value.Kind != syntax.String})
	}
	return true
}

// inputs reads VS Code's declarations of inputs.
func (p *parser) inputs(v *syntax.Value) {
	if v == nil {
		return
	}
	if v.Kind != syntax.List {
		p.add(v, "inputs were dropped: they are a %s, not a list", v.Kind)
		return
	}
	for _, item := range v.Items {
		id := item.Get("id")
		if id == nil || id.Kind != syntax.String {
			p.add(item, "an input without an id was dropped")
			continue
		}
		p.declared = append(p.declared, syntax.Field{Key: id, Value: item})
	}
}
