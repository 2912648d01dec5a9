package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/config"
)

// without says of which servers nothing is imported, and fails if there are no others.
func (p *Program) without(ctx context.Context, o *intakeOptions, c *config.Config, failed map[string]error, others int) error {
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if slices.Contains(o.added, name) {
			p.say("%s stays in %s, and nothing of it is imported: %s tries again", foreign(name), cmp.Or(c.File, config.DefaultFile), p.command("tools", "import", name))
		}
		if others > 0 || len(failed) > 1 {
			p.say("%s: nothing is imported: %s", foreign(name), failed[name])
			if f := (*failure)(nil); errors.As(failed[name], &f) && f.hint != "" {
				p.say("  %s", f.hint)
			}
			continue
		}
		return failed[name]
	}
	if ctx.Err() != nil {
		return unanswered("nothing is imported: interrupted")
	}
	if len(failed) > 0 && others == 0 {
		return unanswered("no server could be asked")
	}
	return nil
}

// leftOut is the failure if something was left out that nobody was asked about, or nil.
func (p *Program) leftOut(answers []intakeAnswer) error {
	n := 0
	hint := ""
	for _, a := range answers {
		for _, x := range a.Tools {
			if x.State != toolLeftOut {
				continue
			}
			n++
			switch name := foreign(catalog.OperationName(a.Server, x.Name)); {
			case hint != "":
			case x.was != nil && x.Resource == nil && (x.changed || !x.heeded):
				hint = p.command("tools", "diff", name) + " shows what has changed."
			case x.look:
				hint = p.command("tools", "show", name) + " shows it."
			}
		}
	}
	if n == 0 {
		return nil
	}
	return negative("%s left out", plural(n, "tool")+" "+agree(n, "is", "are")).withHint("%s", hint)
}

// sayImported prints what became of the tools.
func (p *Program) sayImported(answers []intakeAnswer, file string) error {
	if p.json() {
		if len(answers) == 1 {
			return p.document(answers[0])
		}
		return p.document(answers)
	}
	for _, a := range answers {
		imported := 0
		for _, x := range a.Tools {
			line := fmt.Sprintf("%-10s %s/%s", x.State, foreign(a.Server), foreign(x.Name))
			switch x.State {
			case toolNew, toolChanged:
				imported++
				line += fmt.Sprintf(" %s %s", x.Effect, x.Status)
			case toolLeftOut:
				if n := len(x.Warnings); n > 0 {
					line += ": " + foreign(x.Warnings[n-1])
					if n > 1 {
						line += foreign(" (" + strings.Join(x.Warnings[:n-1], "; ") + ")")
					}
				}
			case toolElsewhere:
				line += ": the catalog of the configuration has it"
			}
			p.printf("%s\n", line)
			p.sayAffected(a.Server, x)
		}
		if imported > 0 {
			p.say("%s of %s in %s", plural(imported, "tool"), foreign(a.Server), fromHere(file))
		}
	}
	return nil
}
