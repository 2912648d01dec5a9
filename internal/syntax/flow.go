package syntax

import (
	"fmt"
	"strings"

	"chimera.ai/engine/diag"
)

// flow reads a list or map in brackets. parent is the column of the block
// collection that contains it: the content of the brackets must be indented
// deeper, which shows where a bracket is missing.
func (p *parser) flow(parent int) *Value {
	if !p.enter(p.off) {
		return nil
	}
	defer func() { p.depth-- }()
	if p.text[p.off] == '[' {
		return p.flowList(parent)
	}
	return p.flowMap(parent)
}

// next moves to the next content inside the brackets that open at byte open.
func (p *parser) next(open, parent int) bool {
	p.skip()
	if p.end() {
		p.unclosed(open, "bracket", len(p.text))
		return false
	}
	if c := p.text[p.off]; p.fresh() && p.off > open &&
		(p.marker() != "" || p.column() <= parent && c != ']' && c != '}') {
		p.unclosed(open, "bracket", p.off)
		p.off = p.line - 1 // this line is read again as one of the block
		return false
	}
	// A whole file in brackets may be indented with tabs, as JSON often is.
	if p.fresh() && p.tab >= 0 && p.tab-p.line <= parent {
		p.tabs()
	}
	return true
}

// flowList reads a list in brackets.
func (p *parser) flowList(parent int) *Value {
	open, start := p.off, p.loc.at(p.off)
	base := len(p.items)
	p.off++
	for p.next(open, parent) {
		if p.text[p.off] == ']' {
			p.off++
			v := p.value(List, start, p.loc.at(p.off))
			v.Parts = &Parts{Items: p.takeItems(base)}
			return v
		}
		item := p.flowNode(open, parent)
		if item == nil || !p.next(open, parent) {
			break
		}
		p.items = append(p.items, item)
		c := p.text[p.off]
		if c == ',' {
			p.off++
			continue
		}
		if c == ']' {
			continue
		}
		if c == ':' {
			p.report(item.Range().Start.Byte, p.off+1, "a key inside a list",
				"Put the pair in braces, {key: value}, if a map is meant, or the text in quotes.")
		} else {
			p.separator(c, ']', item)
		}
		break
	}
	p.items = p.items[:base]
	return nil
}

// separator reports what stands where a comma or the closing bracket should, after a value.
func (p *parser) separator(c, closing byte, before *Value) {
	if c == '#' {
		p.unexpected()
		return
	}
	if from := before.Range().Start.Byte; c == '{' && p.off > from && p.text[p.off-1] == '$' {
		// An expression without quotes.
		if to := p.expressionEnd(from); to > 0 {
			p.unquoted(from, to, "an expression between brackets must be in quotes", "Between brackets, YAML takes `{` and `}` for its own.")
			return
		}
	}
	p.report(p.off, p.off+1, fmt.Sprintf(`expected "," or %q`, closing),
		"The value ended before it. Put the whole value in quotes if this belongs to it.")
}

// flowMap reads a map in braces.
func (p *parser) flowMap(parent int) *Value {
	open, start := p.off, p.loc.at(p.off)
	set := p.fieldSet()
	p.off++
	for p.next(open, parent) {
		if p.text[p.off] == '}' {
			p.off++
			v := p.value(Map, start, p.loc.at(p.off))
			v.Parts = &Parts{Fields: set.take()}
			return v
		}
		key := p.flowKey(open, parent)
		if key == nil {
			break
		}
		p.off++
		colon := p.off
		if !p.next(open, parent) {
			break
		}
		var value *Value
		if c := p.text[p.off]; c == ',' || c == '}' {
			value = p.empty(colon)
		} else if value = p.flowNode(open, parent); value == nil {
			break
		}
		set.add(key, value)
		if !p.next(open, parent) {
			break
		}
		c := p.text[p.off]
		if c == ',' {
			p.off++
		} else if c != '}' {
			p.separator(c, '}', value)
			break
		}
	}
	p.fields = p.fields[:set.base]
	return nil
}

// flowKey reads a key and moves to the colon after it.
func (p *parser) flowKey(open, parent int) *Value {
	start := p.off
	var end int
	switch c := p.text[start]; {
	case c == '"' || c == '\'':
		if end = p.quoteEnd(start); end < 0 {
			p.unclosed(start, "quote", len(p.text))
			return nil
		}
	case p.indicator('?'):
		return p.complexKey()
	case c == '[' || c == '{':
		p.report(start, start+1, "a key must be a string",
			"Only text can be a key. An expression such as ${…} or {{…}} must be in quotes.")
		return nil
	case c == '&' || c == '!' || c == '*':
		p.report(start, p.plainEnd(start, true), "an anchor, an alias or a tag before a key",
			"Only values can have them. Text that begins so must be in quotes.")
		return nil
	case !p.plainStart(start, true):
		p.badStart()
		return nil
	default:
		end = p.plainEnd(start, true)
	}
	key := p.scalarKey(start, end)
	p.off = end
	line := p.line
	if !p.next(open, parent) {
		return nil
	}
	if p.text[p.off] == ':' && (key.style != plain || line == p.line && (p.blank(p.off+1) || strings.IndexByte(",}", p.text[p.off+1]) >= 0)) {
		return key
	}
	d := p.report(start, end, fmt.Sprintf("the key %s has no value", quote(key.Text)),
		"In braces write {key: value}. An expression such as ${…} or {{…}} must be in quotes.")
	if i := strings.IndexByte(p.text[start:min(end+1, len(p.text))], ':'); i > 0 && key.style == plain {
		d.Detail = "A space is missing behind the colon."
		d.Suggestion = p.text[start:start+i] + ": "
		if start+i+1 < end {
			d.Suggestion += p.text[start+i+1 : end]
		}
	}
	return nil
}

// flowNode reads a value in brackets.
func (p *parser) flowNode(open, parent int) *Value {
	var m mark
	var v *Value
	for {
		start := p.off
		switch c := p.text[start]; c {
		case '&', '!':
			if !p.property(&m) {
				return nil
			}
			at := p.off
			if !p.next(open, parent) {
				return nil
			}
			if c := p.text[p.off]; c != ',' && c != ']' && c != '}' {
				continue
			}
			v = p.empty(at)
		case '[', '{':
			v = p.flow(parent)
		case '*':
			if m.anchor != nil {
				p.anchoredAlias()
				return nil
			}
			v = p.alias()
		case '"', '\'':
			v = p.quoted(parent)
		default:
			v = p.plainFlow(parent)
		}
		break
	}
	p.anchored(m, v)
	return v
}

// plainFlow reads a plain scalar in brackets.
func (p *parser) plainFlow(parent int) *Value {
	start := p.off
	if !p.plainStart(start, true) {
		p.badStart()
		return nil
	}
	end := p.plainEnd(start, true)
	lines := false
	p.off = end
	for !p.comment() && p.blankLine(end) {
		line, content, _ := p.nextLine(end)
		if content == len(p.text) || content-line <= parent || p.markerAt(line) != "" {
			break
		}
		c := p.text[content]
		if c == '#' || isFlow(c) || c == ':' && (p.blank(content+1) || isFlow(p.text[content+1])) {
			break
		}
		end, lines = p.plainEnd(content, true), true
		p.off, p.line, p.begin = end, line, line
	}
	return p.plainText(start, end, lines)
}

// blankLine reports whether nothing follows off on its line.
func (p *parser) blankLine(off int) bool {
	for off < len(p.text) && isBlank(p.text[off]) {
		off++
	}
	return off == len(p.text) || p.text[off] == '\n' || p.text[off] == '\r'
}

// unclosed reports a bracket or quote that nothing closes.
func (p *parser) unclosed(open int, what string, stop int) {
	end := open + 1
	if what == "quote" {
		end = p.lineEnd(open)
	}
	d := p.report(open, end, "this "+what+" is never closed", "The file ends before it is closed.")
	if stop < len(p.text) {
		pos := p.loc.at(stop)
		d.Detail = fmt.Sprintf("It has to be closed before line %d, which is not indented as what belongs to it would be.", pos.Line)
		d.Context = diag.Range{File: p.source.name, Start: pos, End: p.loc.at(p.lineEnd(stop))}
	}
	if what == "bracket" && p.hidden > open {
		d.Detail = fmt.Sprintf("What stands behind the # on line %d is a comment, and a closing bracket with it. Quote the text that the # belongs to, or put the comment on a line of its own. ", p.loc.at(p.hidden).Line) + d.Detail
	}
}
