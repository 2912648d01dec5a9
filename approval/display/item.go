package display

import (
	"fmt"
	"strings"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

const (
	// budget is what the items of a text share, in bytes. A barrier of some actions shows all of
	// each; beyond that nobody reads.
	budget = 256 << 10
	// briefLimit bounds the strings of an item whose share is too small.
	briefLimit = 48
)

// item returns the lines of the view's item i.
func item(v *View, i int) (string, error) {
	it := &v.Items[i]
	value, err := schemas.Decode(it.Inputs)
	if err != nil {
		return "", fmt.Errorf("inputs: %w", err)
	}
	canonical, err := plan.Canonical(value)
	if err != nil {
		return "", fmt.Errorf("inputs: %w", err)
	}
	in := inputs{size: len(canonical), sum: Digest(string(canonical)), leaves: leaves(value)}

	title := fmt.Sprintf("action %d of %d", i+1, len(v.Items))
	share := budget / len(v.Items)
	full := page{limit: shownLimit, indent: 2}
	full.line(0, title)
	full.item(it, &in)
	lines := full.b.String()
	if len(lines) <= share {
		return lines + in.lines(share-len(lines)), nil
	}
	brief := page{limit: briefLimit, indent: 2}
	brief.line(0, title)
	brief.essence(it)
	brief.label("details")
	brief.word("", fmt.Sprintf("left out for want of room, %d bytes,", len(lines)))
	brief.word(" ", Digest(lines))
	brief.end()
	return brief.b.String(), nil
}

// essence is what every item shows.
func (p *page) essence(it *Item) {
	p.field("action digest", it.Action)
	p.field("operation", it.Operation)
	p.field("effect", it.Effect)
	p.label("amount")
	if it.Amount == "" && it.Currency == "" {
		p.word("", "unknown")
	} else {
		p.quote("", show(it.Amount, p.limit))
		p.word(" ", "in")
		p.quote(" ", show(it.Currency, p.limit))
	}
	p.end()
}

// item writes all lines of an item but the values of its inputs, which follow.
func (p *page) item(it *Item, in *inputs) {
	p.essence(it)
	p.field("node", it.Node)
	p.field("path", it.Path)
	p.field("fingerprint", it.Fingerprint)
	p.field("description", it.Description)
	p.list("resource", it.Resources)
	p.list("tainted port", it.TaintedPorts)
	p.words("taint decides", yes(it.TaintedDecision))
	for _, c := range it.Prechecks {
		p.label("precheck")
		p.quote("", show(c.Node, p.limit))
		p.word(" ", "returned")
		p.quote(" ", show(c.Output, p.limit))
		p.end()
	}
	for _, r := range it.Reworded {
		p.field("changed words", r.Path)
		p.whole("were", r.Was)
		p.whole("are now", r.Is)
	}
	p.list("reason", it.Reasons)
	p.field("undo", it.Undo)
	p.undoing(it.Undoing)
	p.field("invocation", it.Invocation)
	p.field("decision", it.Decision)
	p.field("evidence", it.Evidence)
	if it.Permitted != "" {
		p.field("permitted", it.Permitted)
	}
	p.label("inputs")
	p.word("", fmt.Sprintf("%s in %d bytes,", count(len(in.leaves), "value"), in.size))
	p.word(" ", in.sum)
	p.end()
}

// whole writes a foreign string with nothing left out.
func (p *page) whole(label, value string) {
	limit := p.limit
	p.limit = MaxFree
	p.field(label, value)
	p.limit = limit
}

// undoing writes a line for each action that is approved with the item.
func (p *page) undoing(actions []string) {
	for _, s := range actions {
		p.label("approved undo")
		p.quote("", show(s, p.limit))
		for _, word := range strings.Fields(covered) {
			p.word(" ", word)
		}
		p.end()
	}
}

// covered says when an action that is approved with another one happens, and with what.
const covered = "if the run fails later, with arguments from this call and its answer"

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
