package syntax

import (
	"fmt"
	"strings"
)

// anchor is a value that aliases may name.
type anchor struct {
	value *Value // nil while it is being read
	// size and height are the number of values in it and their depth, with all
	// aliases in it expanded.
	size, height int
}

// mark remembers what an anchored value is measured against.
type mark struct {
	anchor         *anchor
	nodes, deepest int
}

// property reads an anchor, or reports a tag.
func (p *parser) property(m *mark) bool {
	start := p.off
	if p.text[start] == '!' {
		if n := strings.IndexAny(p.text[start:], "> \n"); strings.HasPrefix(p.text[start:], "!<") && n > 0 && p.text[start+n] == '>' {
			p.off += n
		}
		for p.off++; !p.blank(p.off) && !isFlow(p.text[p.off]); p.off++ {
		}
		p.report(start, p.off, "a tag is not supported",
			"The type of a value follows from how it is written: quotes make it text. Remove the tag.")
		return true
	}
	name, ok := p.name()
	if !ok {
		return false
	}
	if m.anchor != nil {
		p.report(start, p.off, "a second anchor for one value", "A value has at most one name.")
		return false
	}
	*m = mark{anchor: &anchor{}, nodes: p.nodes + p.aliased, deepest: p.deepest}
	p.deepest = p.depth
	if p.anchors == nil {
		p.anchors = map[string]*anchor{}
	}
	p.anchors[name] = m.anchor
	return true
}

// anchored completes an anchor with the value that it names.
func (p *parser) anchored(m mark, v *Value) {
	if m.anchor == nil {
		return
	}
	if m.anchor.value = v; v == nil {
		m.anchor.value = p.empty(p.off)
	}
	m.anchor.size = p.nodes + p.aliased - m.nodes
	m.anchor.height = p.deepest - p.depth
	p.deepest = max(p.deepest, m.deepest)
}

// anchoredAlias reports an alias behind an anchor.
func (p *parser) anchoredAlias() {
	p.report(p.off, p.plainEnd(p.off+1, true), "an anchor before an alias", "The value that it repeats has a name already.")
}

// name reads the name of an anchor or alias behind its indicator.
func (p *parser) name() (string, bool) {
	start := p.off
	p.off++
	for p.off < len(p.text) {
		c := p.text[p.off]
		if c|' ' >= 'a' && c|' ' <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			p.off++
			continue
		}
		break
	}
	if p.off == start+1 || !p.blank(p.off) && strings.IndexByte(",]}", p.text[p.off]) < 0 {
		for !p.blank(p.off) {
			p.off++
		}
		p.report(start, p.off, "not a name of an anchor",
			"A name has letters, digits, -, _ and . only. Text that begins with & or * must be in quotes.")
		return "", false
	}
	return p.text[start+1 : p.off], true
}

// alias reads an alias and copies what it stands for.
func (p *parser) alias() *Value {
	start := p.off
	name, ok := p.name()
	if !ok {
		return nil
	}
	a := p.anchors[name]
	switch {
	case a == nil:
		names := make([]string, 0, len(p.anchors))
		for n := range p.anchors {
			names = append(names, n)
		}
		d := p.report(start, p.off, fmt.Sprintf("no anchor %q stands before this alias", name),
			"An alias repeats the value that &name marks earlier in the same document. Text that begins with * must be in quotes.")
		if near := Nearest(name, names); near != "" {
			d.Suggestion = "*" + near
		}
		return nil
	case a.value == nil:
		p.report(start, p.off, fmt.Sprintf("the alias %q stands inside the value that it repeats", name),
			"Such a value would have no end.")
		return nil
	}
	p.aliased += a.size
	if p.aliased > p.limits.AliasNodes {
		p.report(start, p.off, "aliases stand for too many values",
			fmt.Sprintf("With all aliases written out, the file has over %d more values.", p.limits.AliasNodes))
		p.stop = true
		return nil
	}
	p.deepest = max(p.deepest, p.depth+a.height)
	if p.depth+a.height > p.limits.Depth {
		p.tooDeep(start, p.off)
		return nil
	}
	v := p.value(a.value.Kind, p.loc.at(start), p.loc.at(p.off))
	v.Text = a.value.Text
	v.Parts = &Parts{Items: a.value.Items, Fields: a.value.Fields, target: a.value.written()}
	v.commented = p.comment()
	return v
}
