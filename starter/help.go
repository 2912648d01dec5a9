package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"
)

func helpCommand(p *Program, _ *flag.FlagSet) action {
	return func(_ context.Context, topic []string) error { return p.help(topic) }
}

// help shows the help of a command, or of all.
func (p *Program) help(topic []string) error {
	if len(topic) == 0 || topic[0] == "help" {
		if p.json() {
			return p.document(contents("", commands()))
		}
		writeHelp(p.Stdout)
		return nil
	}
	var c command
	root := p.root()
	at, among := root, commands()
	for _, word := range topic {
		i := slices.IndexFunc(among, func(c command) bool { return c.name == word })
		switch {
		case i < 0 && len(among) == 0:
			return misuse("%s has no parts", at.CommandPath()).withHint("%s", showsFlags(at))
		case i < 0:
			return noCommand(at, word)
		}
		c, among = among[i], among[i].parts
		at, _, _ = at.Find([]string{word}) // the tree is made of these commands
	}
	path := strings.Join(topic, " ")
	if p.json() {
		return p.document(content(path, c))
	}
	p.printf("%s\n\n%s\n", usage(path, c), sentence(c))
	if c.parts != nil {
		p.printf("\nParts:\n")
		for _, part := range c.parts {
			p.printf("  %-12s%s\n", part.name, part.summary)
		}
		p.printf("\nchimera help %s PART shows the flags of a part.\n", path)
	}
	if c.prepare != nil {
		p.printf("\nFlags:\n")
		root.PersistentFlags().Lookup("format").Usage = "`FORMAT` of the answer: " + either(c.all())
		at.InheritedFlags() // merges them into the command's
		at.Flags().VisitAll(func(f *flag.Flag) { writeFlag(p.Stdout, f) })
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
	if !c.supported() {
		s += " Not supported yet."
	}
	return s
}

func writeFlag(w io.Writer, f *flag.Flag) {
	name, text := flag.UnquoteUsage(f)
	short := ""
	if f.Shorthand != "" {
		short = "-" + f.Shorthand + ", "
	}
	_, _ = fmt.Fprintf(w, "  %s--%s\n        %s\n", short, strings.TrimSpace(f.Name+" "+name), text)
}

func writeHelp(w io.Writer) {
	_, _ = fmt.Fprint(w, "Chimera runs agents' plans safely.\n\nUsage: chimera COMMAND [flags] [operands]\n\nCommands:\n")
	var later []string
	for _, c := range commands() {
		if !c.supported() {
			later = append(later, c.name)
			continue
		}
		_, _ = fmt.Fprintf(w, "  %-12s%s\n", c.name, c.summary)
	}
	_, _ = fmt.Fprintf(w, "\nNot supported yet: %s.\n\n", strings.Join(later, ", "))
	_, _ = fmt.Fprint(w, "On every command: --config FILE, --format text|json. chimera help COMMAND shows the rest.\n"+
		"Exit codes: 0 yes or done, 1 no, 2 wrong use, 3 no answer.\n")
}

// entry is a command in the JSON form of help.
type entry struct {
	Name      string  `json:"name"`
	Usage     string  `json:"usage"`
	Summary   string  `json:"summary"`
	Supported bool    `json:"supported"`
	Parts     []entry `json:"parts,omitempty"`
}

func content(path string, c command) entry {
	return entry{c.name, usage(path, c), c.summary, c.supported(), contents(path+" ", c.parts)}
}

func contents(prefix string, list []command) []entry {
	var all []entry
	for _, c := range list {
		all = append(all, content(prefix+c.name, c))
	}
	return all
}
