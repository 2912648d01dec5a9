package syntax

import (
	"fmt"

	"chimera.ai/engine/diag"
)

// place is what precedes a block value, which decides how it may begin.
type place int

const (
	afterStart    place = iota // the beginning of a document
	afterMarker                // "---"
	afterKey                   // "key:"
	afterDash                  // "- "
	afterProperty              // "&name" on the same line
)

// node reads the value that follows an indicator or begins a document. parent
// is the column of the collection that contains it, -1 for a document.
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
	if v != nil && v.start.line == v.end.line {
		p.noKey(start)
	}
	return v
}

// noKey reports a value that is followed by a colon but is not text: only text
// can be a key.
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

// value returns a value with the given range.
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
	v.Kind, v.source, v.Parts = kind, p.source, noParts
	v.start, v.end = positionOf(start), positionOf(end)
	return v
}

// empty is the value of a key or a dash that nothing follows.
func (p *parser) empty(at int) *Value {
	pos := p.loc.at(at)
	return p.value(Null, pos, pos)
}

// enter descends into a collection, if the limit allows it.
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

// tabs reports tabs in the indentation of a block, once per file.
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
