package discover

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"chimera.ai/engine/internal/syntax"
)

// finish gives values their variables and removes secrets from arguments and addresses.
func (p *parser) finish() (Found, error) {
	if len(p.drafts) > maxServers {
		return Found{}, p.errorf(p.drafts[maxServers].at, "more than %d servers", maxServers)
	}
	first := map[string]*syntax.Value{}
	for i := range p.drafts {
		d := &p.drafts[i]
		if before, ok := first[d.Name]; ok {
			start := before.Range().Start
			return Found{}, p.errorf(d.at, "server %s is called %s here, and so is that of line %d, column %d: rename one of them", quote(d.at.Text), d.Name, start.Line, start.Column)
		}
		first[d.Name] = d.at
		p.argumentEnv(d)
		for _, list := range [][]pair{d.env, d.headers} {
			for _, e := range list {
				if e.reference.env != "" {
					p.variables.referred[e.reference.env] = true
				}
			}
		}
		for _, e := range d.env {
			if e.literal {
				p.variables.literal[e.name]++
			}
		}
	}
	for _, d := range p.drafts {
		for _, list := range [][]pair{d.env, d.headers} {
			for _, e := range list {
				if e.reference.input != "" {
					p.variables.input(e.reference.input)
				}
			}
		}
	}
	var servers []Server
	for i := range p.drafts {
		if s, ok := p.complete(&p.drafts[i]); ok {
			servers = append(servers, s)
		}
	}
	for _, input := range p.declared {
		if name, ok := p.variables.inputs[input.Key.Text]; ok {
			p.add(input.Key, "input %s is the variable %s here: set it in the environment of the worker", quote(input.Key.Text), name)
			delete(p.variables.inputs, input.Key.Text)
		} else {
			p.add(input.Key, "input %s was dropped: no value of a variable or header is this input", quote(input.Key.Text))
		}
	}
	return Found{Servers: servers, Notes: p.all()}, nil
}

// complete makes a server out of a draft, if one is left.
func (p *parser) complete(d *draft) (Server, bool) {
	s := d.Server
	if s.Command != "" {
		if strings.Contains(s.Command, "${") {
			p.skip(d.at, s.Name, "its command holds a reference")
			return Server{}, false
		}
		if secretCommand(s.Command) {
			p.skip(d.at, s.Name, "its command holds a secret")
			return Server{}, false
		}
		if len(d.headers) > 0 {
			p.about(d.at, s.Name, "headers were dropped: it has a command")
		}
		if !p.arguments(d, &s) {
			return Server{}, false
		}
		s.Env = p.values(d, "env", d.env)
		s.Unpinned = FindUnpinned(s.Command, s.Args)
		if slices.Contains(shells, program(s.Command)) {
			p.about(d.at, s.Name, "whether what its shell runs is pinned is not known")
		}
		if u := s.Unpinned; u != nil {
			p.about(d.at, s.Name, "not pinned: %s", quote(u.String()))
		}
		return s, true
	}
	if len(d.args) > 0 || len(d.env) > 0 || s.Dir != "" {
		p.about(d.at, s.Name, "args, env and cwd were dropped: it has an address")
		s.Dir = ""
	}
	if !p.address(d, &s) {
		return Server{}, false
	}
	s.Headers = p.values(d, "headers", d.headers)
	return s, true
}

// values gives a reference to each value of env or headers, but for those that are copied.
func (p *parser) values(d *draft, what string, pairs []pair) map[string]string {
	if len(pairs) == 0 {
		return nil
	}
	values := make(map[string]string, len(pairs))
	for _, e := range pairs {
		r := e.reference
		if r.defaulted {
			p.about(e.at, d.Name, "the default of %s.%s was dropped: set %s in the environment of the worker", what, e.name, r.env)
		}
		switch {
		case e.why != "":
			p.about(e.at, d.Name, "the value of %s.%s was copied: it is %s", what, e.name, e.why)
			values[e.name] = e.copied
		case e.literal:
			name := ""
			if what == "env" {
				name = p.variables.env(d.Name, e.name)
			} else {
				name = p.variables.free(upper(d.Name, e.name))
			}
			p.about(e.at, d.Name, "the value of %s.%s was not taken over: set %s in the environment of the worker", what, e.name, name)
			values[e.name] = "${env:" + name + "}"
		case r.input != "":
			values[e.name] = r.scheme + "${env:" + p.variables.input(r.input) + "}"
		case r.file != "":
			values[e.name] = r.scheme + "${file:" + r.file + "}"
		default:
			if !r.defaulted {
				p.about(e.at, d.Name, "%s.%s is the variable %s in the environment of the worker", what, e.name, r.env)
			}
			values[e.name] = r.scheme + "${env:" + r.env + "}"
		}
	}
	return values
}

// shells run what an argument says.
var shells = []string{"sh", "bash", "zsh", "dash", "fish", "powershell", "pwsh"}

// switches are options without a value, which stay if what follows them goes.
var switches = []string{"-y", "--yes", "-q", "--quiet", "-i", "-t", "-it", "-ti", "--rm", "--init", "--", "--stdio"}

// arguments takes over the arguments that hold neither secrets nor references. It reports
// false if the server cannot start without the others.
func (p *parser) arguments(d *draft, s *Server) bool {
	texts := make([]string, len(d.args))
	for i, a := range d.args {
		texts[i] = a.Text
	}
	spec := map[int]bool{}
	for _, k := range packages(s.Command, texts) {
		spec[k.Arg] = true
	}
	gone := map[int]bool{}
	drop := func(i int, why string) {
		if gone[i] {
			return
		}
		gone[i] = true
		if i > 0 && !gone[i-1] && !spec[i-1] && strings.HasPrefix(texts[i-1], "-") && !strings.Contains(texts[i-1], "=") && !strings.HasPrefix(texts[i], "-") && !slices.Contains(switches, texts[i-1]) {
			gone[i-1] = true
			p.about(d.args[i], s.Name, "arguments %d and %d were left out: the latter %s", i, i+1, why)
			return
		}
		p.about(d.args[i], s.Name, "argument %d was left out: it %s", i+1, why)
	}
	for i, text := range texts {
		flag := i > 0 && !spec[i] && secretFlag(texts[i-1])
		switch {
		case strings.Contains(text, "${"):
			drop(i, "holds a reference, and arguments are passed on as they are")
		case spec[i] && secretPackage(text), !spec[i] && secretArgument(text), flag && !strings.HasPrefix(text, "-"):
			drop(i, "seems to hold a secret, and arguments cannot refer to one")
		}
	}
	for i := range texts {
		if gone[i] && spec[i] {
			p.skip(d.args[i], s.Name, "what it runs could not be taken over")
			return false
		}
	}
	if len(gone) > 0 && slices.Contains(shells, program(s.Command)) {
		p.skip(d.at, s.Name, "a shell would run what is left of it")
		return false
	}
	for i, text := range texts {
		if !gone[i] {
			s.Args = append(s.Args, text)
		}
	}
	return true
}

// secretFlag reports whether an argument is an option whose value, in the next argument, is
// a secret.
func secretFlag(arg string) bool {
	return arg == "-H" || strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && secretName(strings.TrimLeft(arg, "-"))
}

// secretPackage reports whether the argument that names a package holds a secret. It may
// hold a digest.
func secretPackage(arg string) bool {
	i := strings.Index(arg, "://")
	return i >= 0 && secretText(commit.ReplaceAllString(arg[strings.LastIndexAny(arg[:i], " =")+1:], ""))
}

// secretCommand reports whether the name of a program holds a secret.
func secretCommand(command string) bool {
	if strings.Contains(command, "://") {
		return true
	}
	return strings.ContainsAny(command, " =") && secretArgument(command)
}

// engines are programs that run containers.
var engines = []string{"docker", "podman", "nerdctl"}

// argumentEnv turns variables in the arguments into variables of the environment: those of
// a container engine, -e NAME=VALUE, into -e NAME, by which it passes them on, and those of
// env, NAME=VALUE, which it then inherits.
func (p *parser) argumentEnv(d *draft) {
	engine := slices.Contains(engines, program(d.Command))
	if !engine && program(d.Command) != "env" {
		return
	}
	texts := make([]string, len(d.args))
	end := len(d.args)
	for i, a := range d.args {
		texts[i] = a.Text
	}
	for _, k := range packages(d.Command, texts) {
		if engine {
			end = k.Arg // behind the image are arguments for it
		}
	}
	var args []*syntax.Value
	for i, at := range d.args {
		before, rest := "", ""
		switch text := texts[i]; {
		case i >= end:
		case !engine && strings.Contains(text, "=") && !strings.HasPrefix(text, "-"):
			rest = text
		case !engine && !strings.HasPrefix(text, "-"):
			end = i // the program
		case !engine:
		case i > 0 && (texts[i-1] == "-e" || texts[i-1] == "--env"):
			rest = text
		case strings.HasPrefix(text, "--env="):
			before, rest = "--env=", text[len("--env="):]
		case strings.HasPrefix(text, "-e") && len(text) > 2 && text[2] != '=':
			before, rest = "-e", text[2:]
		}
		name, value, ok := strings.Cut(rest, "=")
		if !ok || !variableName.MatchString(name) {
			args = append(args, at)
			continue
		}
		if engine {
			args = append(args, at.TextAs(before+name))
		}
		d.env = slices.DeleteFunc(d.env, func(o pair) bool { return o.name == name })
		d.env = append(d.env, pairOf(name, at, value, true))
	}
	d.args = args
}

// address takes over a URL without the credentials in it. It reports false if none is left.
func (p *parser) address(d *draft, s *Server) bool {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		p.skip(d.at, s.Name, "its address is no http or https URL")
		return false
	case hidden(s.URL) || strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }):
		p.skip(d.at, s.Name, "its address has characters that do not show, or a host that is not ASCII")
		return false
	case strings.ContainsAny(u.Host+u.Path, "${}"):
		p.skip(d.at, s.Name, "its address holds a reference")
		return false
	case slices.ContainsFunc(strings.Split(u.Path, "/"), secretToken):
		p.skip(d.at, s.Name, "its address seems to hold a secret")
		return false
	}
	if u.User != nil {
		p.about(d.at, s.Name, "the user in its address was left out")
		u.User = nil
	}
	u.Fragment, u.RawFragment = "", ""
	query, err := url.ParseQuery(u.RawQuery)
	all := len(query)
	for name, values := range query {
		secret := secretName(name) || name == "code" || secretToken(name)
		for _, value := range values {
			secret = secret || secretArgument(value) || strings.Contains(value, "$")
		}
		if secret {
			delete(query, name)
		}
	}
	if err != nil || len(query) < all {
		p.about(d.at, s.Name, "parameters were left out of its address: they seem to hold secrets or references")
		u.RawQuery = query.Encode()
	}
	s.URL = u.String()
	return true
}
