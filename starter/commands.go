package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// action does a command with its operands.
type action func(ctx context.Context, operands []string) error

// command is one word of the command line.
type command struct {
	name string
	// operands is how they are written in help: "PLAN…".
	operands string
	summary  string
	// least and most bound the number of operands; most -1 is no bound.
	least, most int
	// formats are values of --format beside text and json.
	formats []string
	// prepare adds the command's flags. It is nil for what is not supported yet.
	prepare func(p *Program, fs *flag.FlagSet) action
}

// commands is the whole contract, in the order of the help.
func commands() []command {
	return []command{
		{name: "compile", operands: "PLAN…", least: 1, most: -1, prepare: compileCommand,
			summary: "check plans, and say what is wrong and where (- is standard input)"},
		{name: "graph", operands: "PLAN", least: 1, most: 1, prepare: graphCommand, formats: []string{"mermaid", "dot", "svg"},
			summary: "draw a plan"},
		{name: "contain", operands: "LHS RHS | --batch", most: 2, prepare: containCommand,
			summary: "decide whether every value of one JSON Schema is a value of another"},
		{name: "publish", operands: "PLAN", least: 1, most: 1, prepare: publishCommand,
			summary: "check a plan, sign it as its author, and keep its source under its name and version"},
		{name: "start", operands: "PLAN|NAME[@VERSION]|DIGEST", least: 1, most: 1, prepare: startCommand,
			summary: "start a run, and follow it with --wait"},
		{name: "status", operands: "RUN", least: 1, most: 1, prepare: statusCommand, summary: "show a run"},
		{name: "runs", prepare: runsCommand, summary: "list runs, the latest first"},
		{name: "cancel", operands: "RUN", least: 1, most: 1, prepare: cancelCommand, summary: "ask a run to end"},
		{name: "terminate", operands: "RUN --reason TEXT", least: 1, most: 1, prepare: terminateCommand,
			summary: "end a run that cannot end by itself; nothing is compensated"},
		{name: "upgrade", operands: "RUN… | --all", most: -1, prepare: upgradeCommand,
			summary: "move runs to this build of the worker, where their histories replay under it"},
		{name: "pause", summary: "hold a run before its next node"},
		{name: "resume", summary: "let a paused run go on"},
		{name: "retry", summary: "run again from a node"},
		{name: "approvals", summary: "list, show, sign and reject approvals"},
		{name: "signers", summary: "enroll, list and revoke signers"},
		{name: "tools", summary: "import MCP tools, and decide on them"},
		{name: "agents", operands: "add ID | list", least: 1, most: 2, prepare: agentsCommand,
			summary: "add and list agents, by statements of the admins"},
		{name: "budgets", summary: "set and show budgets"},
		{name: "policy", summary: "test, replay and compare policies"},
		{name: "simulate", summary: "say what would happen"},
		{name: "test", summary: "run the unit tests of plans"},
		{name: "audit", operands: "checkpoint | prove HASH | export | verify DIR | cosign DIR | prune | hold RUN | lift RUN | erase SUBJECT",
			least: 1, most: 2, prepare: auditCommand, summary: "export the ledger, verify an export offline, and say what is kept"},
		{name: "trust", operands: "key FILE | init | draft ACTS | sign FILE | apply FILE | list", least: 1, most: 2, prepare: trustCommand,
			summary: "make a bootstrap, and have the admins state who may do what"},
		{name: "migrate", prepare: migrateCommand, summary: "bring the store's database to the form that this version needs"},
		{name: "schema", operands: "[NAME]", most: 1, prepare: schemaCommand,
			summary: "print a JSON Schema for editors, or list them"},
		{name: "dev", prepare: devCommand, summary: "run everything on this machine: Temporal, its web pages, the worker"},
		{name: "console", prepare: consoleCommand, summary: "serve the codec endpoint, which opens payloads for the Temporal UI"},
		{name: "mcp", summary: "be an MCP server"},
		{name: "version", prepare: versionCommand, summary: "say which build this is"},
	}
}

// parse finds the command and reads its flags.
func (p *Program) parse(args []string) error {
	format := p.format
	rest, err := scan(p.flags("chimera"), args, true)
	p.format = format // the command decides whether it is right
	switch {
	case errors.Is(err, errHelp) || err == nil && len(rest) > 0 && rest[0] == "help":
		return p.helpOn(rest)
	case err != nil:
		return err
	case len(rest) == 0:
		writeHelp(p.Stderr)
		return misuse("no command is given")
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == rest[0] })
	if i < 0 {
		return unknownCommand(all, rest[0])
	}
	c := all[i]
	if c.prepare == nil {
		if slices.ContainsFunc(rest[1:], func(a string) bool { return a == "-h" || a == "-help" || a == "--help" }) {
			return p.help([]string{"help", c.name})
		}
		return unsupported("chimera %s", c.name)
	}
	fs := p.flags(c.name)
	act := c.prepare(p, fs)
	leading := args[:len(args)-len(rest)] // the two flags may stand before the command too
	operands, err := scan(fs, slices.Concat(leading, rest[1:]), false)
	if errors.Is(err, errHelp) {
		return p.help([]string{"help", c.name})
	}
	if err != nil {
		return err
	}
	if !slices.Contains(c.all(), p.format) {
		p.format = format
		return misuse("--format is one of %s", strings.Join(c.all(), ", "))
	}
	if len(operands) < c.least || slices.Contains(operands, "") {
		return misuse("chimera %s needs %s", c.name, c.operands).withHint("%s", usage(c))
	}
	if c.most >= 0 && len(operands) > c.most {
		return misuse("chimera %s does not take %q", c.name, operands[c.most]).withHint("%s", usage(c))
	}
	p.action = func(ctx context.Context) error { return act(ctx, operands) }
	return nil
}

func unknownCommand(all []command, name string) error {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	return misuse("there is no command %q", name).meant("chimera ", name, names, "chimera help lists the commands.")
}

// all are the values of --format.
func (c command) all() []string { return append([]string{formatText, formatJSON}, c.formats...) }

func usage(c command) string {
	return strings.TrimSpace("Usage: chimera " + c.name + " [flags] " + c.operands)
}

// helpOn reads the operands of the command help.
func (p *Program) helpOn(rest []string) error {
	if len(rest) > 1 {
		format := p.format
		operands, err := scan(p.flags("help"), rest[1:], false)
		p.format = format
		if err != nil && !errors.Is(err, errHelp) {
			return err
		}
		rest = append(rest[:1:1], operands...)
	}
	return p.help(rest)
}

// help makes help the action.
func (p *Program) help(rest []string) error {
	if len(rest) < 2 {
		p.action = func(context.Context) error {
			if p.json() {
				return p.document(contents())
			}
			writeHelp(p.Stdout)
			return nil
		}
		return nil
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == rest[1] })
	if i < 0 {
		return unknownCommand(all, rest[1])
	}
	p.action = func(context.Context) error {
		c := all[i]
		if p.json() {
			return p.document(content(c))
		}
		p.printf("%s\n\n%s\n", usage(c), sentence(c))
		if c.prepare != nil {
			p.printf("\nFlags:\n")
			p.format = formatText
			fs := p.flags(c.name)
			c.prepare(p, fs)
			fs.Lookup("format").Usage = "`FORMAT` of the answer: " + either(c.all())
			fs.VisitAll(func(f *flag.Flag) { writeFlag(p.Stdout, f) })
		}
		return nil
	}
	return nil
}

// either lists words: a, b or c.
func either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func sentence(c command) string {
	s := strings.ToUpper(c.summary[:1]) + c.summary[1:] + "."
	if c.prepare == nil {
		s += " Not supported yet."
	}
	return s
}

func writeFlag(w io.Writer, f *flag.Flag) {
	name, text := flag.UnquoteUsage(f)
	_, _ = fmt.Fprintf(w, "  --%s\n        %s\n", strings.TrimSpace(f.Name+" "+name), text)
}

func writeHelp(w io.Writer) {
	_, _ = fmt.Fprint(w, "Chimera runs agents' plans safely.\n\nUsage: chimera COMMAND [flags] [operands]\n\nCommands:\n")
	var later []string
	for _, c := range commands() {
		if c.prepare == nil {
			later = append(later, c.name)
			continue
		}
		_, _ = fmt.Fprintf(w, "  %-10s%s\n", c.name, c.summary)
	}
	_, _ = fmt.Fprintf(w, "\nNot supported yet: %s.\n\n", strings.Join(later, ", "))
	_, _ = fmt.Fprint(w, "On every command: --config FILE, --format text|json. chimera help COMMAND shows the rest.\n"+
		"Exit codes: 0 yes or done, 1 no, 2 wrong use, 3 no answer.\n")
}

// entry is a command in the JSON form of help.
type entry struct {
	Name      string `json:"name"`
	Usage     string `json:"usage"`
	Summary   string `json:"summary"`
	Supported bool   `json:"supported"`
}

func content(c command) entry { return entry{c.name, usage(c), c.summary, c.prepare != nil} }

func contents() []entry {
	var all []entry
	for _, c := range commands() {
		all = append(all, content(c))
	}
	return all
}
