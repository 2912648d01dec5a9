package syntax

import (
	"fmt"
	"strings"

	"chimera.ai/engine/diag"
)

// place is what a block value stands behind, which decides how it may begin.
type place int

const (
	afterStart    place = iota // the beginning of a document
	afterMarker                // "---"
	afterKey                   // "key:"
	afterDash                  // "- "
	afterProperty              // "&name" on the same line
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

// node reads the value that follows an indicator or begins a document. parent
// is the column of the collection that it stands in, -1 for a document.
func (p *parser) node(parent int, after place) *Value {
	empty := p.off
	var m mark
	var v *Value
	for {
		p.skip()
		if p.absent(parent, after) {
			v = p.empty(empty)
			break
		}
		if p.fresh() && p.tab >= 0 {
			p.tabs()
		}
		c := p.text[p.off]
		if c != '&' && c != '!' {
			if c == '*' && m.anchor != nil {
				p.anchoredAlias()
				return nil
			}
			v = p.content(parent, after)
			break
		}
		if !p.property(&m) {
			return nil
		}
		empty = p.off
		if after != afterKey {
			after = afterProperty
		}
	}
	p.anchored(m, v)
	return v
}

// absent reports whether no value follows.
func (p *parser) absent(parent int, after place) bool {
	if p.end() || p.marker() != "" {
		return true
	}
	if !p.fresh() || p.column() > parent {
		return false
	}
	// A list may stand at the column of the key that it belongs to.
	return after != afterKey || p.column() < parent || !p.indicator('-')
}

// indicator reports whether c and white space follow.
func (p *parser) indicator(c byte) bool { return p.text[p.off] == c && p.blank(p.off+1) }

// content reads a value that begins at off.
func (p *parser) content(parent int, after place) *Value {
	// A block collection must be the first thing on its line, or follow a dash.
	compact := p.fresh() || after == afterDash
	c := p.text[p.off]
	switch {
	case c == '-' && p.blank(p.off+1):
		if !compact {
			p.report(p.off, p.lineEnd(p.off), "a list cannot begin on this line",
				"Begin the list on the next line, or write it in brackets.")
			return nil
		}
		if !p.fresh() && p.tab >= 0 {
			p.tabs()
		}
		return p.list(parent)
	case c == '?' && p.blank(p.off+1):
		return p.complexKey()
	case c == '|' || c == '>':
		return p.block(parent)
	}
	start := p.off
	if end, ok := p.key(); ok {
		switch {
		case after == afterProperty && !p.fresh():
			p.report(start, end, "an anchor or a tag before a key",
				"Put the map on the line below the anchor, or remove the anchor.")
			return nil
		case !compact:
			p.report(start, p.lineEnd(start), "a map cannot begin on this line",
				`Text that holds ": " must be in quotes. If a map is meant, begin it on the next line.`)
			return nil
		}
		if !p.fresh() && p.tab >= 0 {
			p.tabs()
		}
		return p.mapping()
	}
	var v *Value
	switch c {
	case '[', '{':
		v = p.flow(parent)
	case '*':
		v = p.alias()
	case '"', '\'':
		v = p.quoted(parent)
	default:
		v = p.plainBlock(parent)
	}
	if v != nil && v.Range.Start.Line == v.Range.End.Line {
		p.noKey(start)
	}
	return v
}

// noKey reports a value that a colon makes a key, which only text may be.
func (p *parser) noKey(start int) {
	i := p.off
	for i < len(p.text) && isBlank(p.text[i]) {
		i++
	}
	if i < len(p.text) && p.text[i] == ':' && p.blank(i+1) {
		p.report(start, p.off, "a key must be a string",
			"Only text can be a key. An expression such as ${…} or {{…}} must be in quotes.")
		p.off = p.lineEnd(p.off)
	}
}

// complexKey reports a key that a question mark introduces.
func (p *parser) complexKey() *Value {
	p.report(p.off, p.off+1, `keys that begin with "? " are not supported`,
		"Only text can be a key: write key: value.")
	return nil
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
	v.Text, v.Items, v.Fields, v.target = a.value.Text, a.value.Items, a.value.Fields, a.value.written()
	v.commented = p.comment()
	return v
}

// value makes a value with the given range.
func (p *parser) value(kind Kind, start, end diag.Pos) *Value {
	if p.nodes++; p.nodes > p.limits.Nodes {
		p.report(start.Byte, end.Byte, "the file holds too many values",
			fmt.Sprintf("At most %d values and keys are read.", p.limits.Nodes))
		p.stop = true
	}
	if len(p.slab) == 0 {
		p.slab = make([]Value, min(max(p.nodes, 16), 1024))
	}
	v := &p.slab[0]
	p.slab = p.slab[1:]
	v.Kind, v.source = kind, p.source
	v.Range = diag.Range{File: p.source.name, Start: start, End: end}
	return v
}

// empty is the value of a key or a dash that nothing follows.
func (p *parser) empty(at int) *Value {
	pos := p.loc.at(at)
	return p.value(Null, pos, pos)
}

// enter goes one collection deeper, if that is allowed.
func (p *parser) enter(start int) bool {
	if p.stop {
		return false
	}
	if p.depth == p.limits.Depth {
		p.tooDeep(start, start+1)
		return false
	}
	p.depth++
	p.deepest = max(p.deepest, p.depth)
	return true
}

func (p *parser) tooDeep(from, to int) {
	p.report(from, to, "lists and maps are nested too deep",
		fmt.Sprintf("At most %d levels are read.", p.limits.Depth))
	p.stop = true
}

// tabs reports tabs that a block is indented with, once for a file.
func (p *parser) tabs() {
	if p.tabbed {
		return
	}
	p.tabbed = true
	end := p.tab
	for end < len(p.text) && p.text[end] == '\t' {
		end++
	}
	p.report(p.tab, end, "a tab in the indentation",
		"Blocks are indented with spaces only. This is reported once for a file.")
}
