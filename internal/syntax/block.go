package syntax

import "fmt"

// mapping reads a block map whose first key is at off.
func (p *parser) mapping() *Value {
	if !p.enter(p.off) {
		return nil
	}
	defer func() { p.depth-- }()
	indent, tabbed, start := p.column(), p.tab >= 0, p.loc.at(p.off)
	end := start
	set := p.fieldSet()
	for more := true; more; more = p.follows(indent, tabbed) {
		key := p.blockKey()
		if key == nil {
			p.recover(indent)
			continue
		}
		end = key.Range().End
		value := p.node(indent, afterKey)
		if value == nil {
			p.recover(indent)
			continue
		}
		end = value.Range().End
		set.add(key, value)
	}
	v := p.value(Map, start, end)
	v.Parts = &Parts{Fields: set.take()}
	return v
}

// list reads a block list whose first dash is at off.
func (p *parser) list(parent int) *Value {
	if !p.enter(p.off) {
		return nil
	}
	defer func() { p.depth-- }()
	indent, tabbed, start := p.column(), p.tab >= 0, p.loc.at(p.off)
	end := start
	base := len(p.items)
	for more := true; more; more = p.follows(indent, tabbed) {
		if !p.indicator('-') {
			if indent == parent {
				break // a list at the column of its key; the next key follows
			}
			p.report(p.off, p.lineEnd(p.off), "expected a list item",
				`The lines above it begin with "- ". Begin this one so, or indent it otherwise.`)
			p.recover(indent)
			continue
		}
		p.off++
		end = p.loc.at(p.off)
		item := p.node(indent, afterDash)
		if item == nil {
			p.recover(indent)
			continue
		}
		end = item.Range().End
		p.items = append(p.items, item)
	}
	v := p.value(List, start, end)
	v.Parts = &Parts{Items: p.takeItems(base)}
	return v
}

// follows goes to the next content and reports whether it is at column indent,
// where the entries of a block stand. tabbed reports that they are indented with
// tabs.
func (p *parser) follows(indent int, tabbed bool) bool {
	for {
		p.skip()
		if p.end() || p.marker() != "" {
			return false
		}
		if !p.fresh() {
			p.unexpected()
			p.recover(indent)
			continue
		}
		column := p.column()
		if p.tab >= 0 {
			p.tabs()
			if !tabbed && column != indent {
				// It is not known where the line belongs; most likely here.
				p.off = p.lineEnd(p.off)
				continue
			}
		}
		if column <= indent {
			return column == indent
		}
		if p.tab < 0 {
			p.report(p.off, p.lineEnd(p.off), "bad indentation",
				fmt.Sprintf("It begins in column %d, the lines that it follows in column %d. Align it with them, or put text of several lines in quotes.", column+1, indent+1))
		}
		p.recover(indent)
	}
}

// takeItems moves the items from base on off the stack.
func (p *parser) takeItems(base int) []*Value {
	mine := append([]*Value(nil), p.items[base:]...)
	clear(p.items[base:])
	p.items = p.items[:base]
	return mine
}
