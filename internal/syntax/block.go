package syntax

import (
	"fmt"
	"strings"

	"chimera.ai/engine/diag"
)

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
		end = key.Range.End
		value := p.node(indent, afterKey)
		if value == nil {
			p.recover(indent)
			continue
		}
		end = value.Range.End
		set.add(key, value)
	}
	v := p.value(Map, start, end)
	v.Fields = set.take()
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
		end = item.Range.End
		p.items = append(p.items, item)
	}
	v := p.value(List, start, end)
	v.Items = p.takeItems(base)
	return v
}

// follows goes to the next content and reports whether it is at column indent,
// where the entries of a block stand. tabbed says that these are indented with
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
				// Where the line belongs is not known; most likely here.
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

// blockKey reads a key of a block map and the colon behind it.
func (p *parser) blockKey() *Value {
	start := p.off
	end, ok := p.key()
	if !ok {
		p.badKey()
		return nil
	}
	key := p.scalarKey(start, end)
	p.off = strings.IndexByte(p.text[end:], ':') + end + 1
	return key
}

// badKey reports what stands where a key should.
func (p *parser) badKey() {
	start, end := p.off, p.lineEnd(p.off)
	c := p.text[start]
	switch {
	case p.indicator('?'):
		p.complexKey()
	case p.indicator('-'):
		p.report(start, end, "a list item among the keys of a map",
			"A block is either a list or a map. Check the indentation.")
	case p.indicator(':'):
		p.report(start, start+1, "a key is missing before the colon", `Write key: value, or quote an empty key ("").`)
	case c == '&' || c == '!' || c == '*':
		p.report(start, end, "an anchor, an alias or a tag before a key",
			"Only values can have them. Text that begins so must be in quotes.")
	case c == '[' || c == '{':
		p.report(start, end, "a key must be a string",
			"Only text can be a key. An expression such as ${…} or {{…}} must be in quotes.")
	default:
		p.missingColon(start, p.plainEnd(start, false))
	}
}

// missingColon reports text [start, end) that should be a key.
func (p *parser) missingColon(start, end int) {
	d := p.report(start, end, "expected a key with a colon",
		"Write key: value. If the text belongs to the value above, indent it deeper or put the whole value in quotes.")
	text := p.text[start:end]
	if i := strings.IndexByte(text, ':'); i > 0 && text[0] != '"' && text[0] != '\'' {
		d.Detail = "A space is missing behind the colon."
		d.Suggestion = text[:i] + ": " + text[i+1:]
	}
}

// scalarKey makes a key of the scalar [start, end), which is on one line.
func (p *parser) scalarKey(start, end int) *Value {
	if end-start > maxKey {
		p.report(start, end, "a key is too long", fmt.Sprintf("It may have %d bytes.", maxKey))
	}
	if c := p.text[start]; c == '"' || c == '\'' {
		p.off = end
		return p.quotedText(start, end, false)
	}
	text := p.text[start:end]
	v := p.value(String, p.loc.at(start), p.loc.at(end))
	v.Text, v.style = text, plain
	if text == "<<" {
		p.report(start, end, "a merge key is not supported", `Write the keys out. A key that is called "<<" must be in quotes.`)
	} else if kind, _, _ := resolve(text); kind != String {
		p.report(start, end, "a key must be a string",
			fmt.Sprintf("Without quotes it is a %s.", kind)).Suggestion = `"` + text + `"`
	}
	return v
}

// fields collects the entries of one map on the parser's stack of fields.
type fields struct {
	parser *parser
	base   int
	seen   map[string]int
}

// few is the number of keys up to which they are compared one by one.
const few = 12

func (p *parser) fieldSet() fields { return fields{parser: p, base: len(p.fields)} }

// add adds an entry, or reports its key if it is there already.
func (f *fields) add(key, value *Value) {
	p := f.parser
	mine := p.fields[f.base:]
	at := -1
	switch {
	case f.seen != nil:
		if i, ok := f.seen[key.Text]; ok {
			at = i
		}
	default:
		for i := range mine {
			if mine[i].Key.Text == key.Text {
				at = i
				break
			}
		}
	}
	if at >= 0 {
		first := mine[at].Key.Range
		d := p.report(key.Range.Start.Byte, key.Range.End.Byte, fmt.Sprintf("the key %s stands twice in this map", quote(key.Text)),
			fmt.Sprintf("It is already on line %d. Remove or rename one of the two.", first.Start.Line))
		d.Context = first
		return
	}
	if f.seen == nil && len(mine) == few {
		f.seen = make(map[string]int, 4*few)
		for i := range mine {
			f.seen[mine[i].Key.Text] = i
		}
	}
	if f.seen != nil {
		f.seen[key.Text] = len(mine)
	}
	p.fields = append(p.fields, Field{key, value})
}

// take moves the entries off the stack.
func (f *fields) take() []Field {
	p := f.parser
	mine := append([]Field(nil), p.fields[f.base:]...)
	clear(p.fields[f.base:])
	p.fields = p.fields[:f.base]
	return mine
}

// takeItems moves the items from base on off the stack.
func (p *parser) takeItems(base int) []*Value {
	mine := append([]*Value(nil), p.items[base:]...)
	clear(p.items[base:])
	p.items = p.items[:base]
	return mine
}

// quote writes a name for a message, cut if it is long.
func quote(name string) string {
	if runes := []rune(name); len(runes) > 40 {
		name = string(runes[:40]) + "…"
	}
	return fmt.Sprintf("%q", name)
}

// block reads a literal or folded block scalar.
func (p *parser) block(parent int) *Value {
	start := p.off
	explicit, chomp, ok := p.blockHeader()
	if !ok {
		return nil
	}
	header := p.off
	from := p.lineEnd(header)
	if n := strings.IndexByte(p.text[from:], '\n'); n >= 0 {
		from += n + 1
	} else {
		from = len(p.text)
	}
	indent := -1
	if explicit > 0 {
		indent = max(parent, 0) + explicit
	}
	end, indent, ok := p.blockLines(from, max(parent+1, 1), indent)
	if !ok {
		return nil
	}
	st := literal
	if p.text[start] == '>' {
		st = folded
	}
	d := decoder{stop: -1, at: -1}
	last := d.block(p.text, from, end, indent, st == folded, chomp)
	if last == from {
		last = header
	}
	v := p.value(String, p.loc.at(start), p.loc.at(last))
	v.Text, v.style, v.indent = string(d.out), st, int32(indent)
	p.off, p.line, p.begin, p.tab = end, end, -1, -1
	return v
}

// blockHeader reads what follows the indicator of a block scalar on its line.
func (p *parser) blockHeader() (indent int, chomp byte, ok bool) {
	start := p.off
	for p.off++; !p.blank(p.off); p.off++ {
		switch c := p.text[p.off]; {
		case c >= '1' && c <= '9' && indent == 0:
			indent = int(c - '0')
			continue
		case (c == '+' || c == '-') && chomp == clip:
			chomp = c
			continue
		}
		p.off = start
		p.report(start, p.lineEnd(start), "text behind the indicator of a block scalar",
			`Behind | or > only the indentation (1 to 9), + or - may follow; the text begins on the next line. Text that begins with | or > must be in quotes.`)
		return 0, 0, false
	}
	i := p.off
	for i < len(p.text) && isBlank(p.text[i]) {
		i++
	}
	if !p.blank(i) && p.text[i] != '#' {
		p.report(start, p.lineEnd(start), "text behind the indicator of a block scalar",
			"The text of a block scalar begins on the next line. Text that begins with | or > must be in quotes.")
		return 0, 0, false
	}
	return indent, chomp, true
}

// blockLines finds the end of a block scalar's lines, which begin at from, and
// their indentation where indent is -1: that of the first line with content, at
// least least.
func (p *parser) blockLines(from, least, indent int) (end, found int, ok bool) {
	widest, wide := 0, from
	line := from
	for line < len(p.text) {
		i := line
		for i < len(p.text) && p.text[i] == ' ' {
			i++
		}
		spaces := i - line
		if i == len(p.text) || p.text[i] == '\n' || p.text[i] == '\r' {
			if spaces > widest {
				widest, wide = spaces, line
			}
		} else if p.text[i] == '\t' && spaces < max(indent, least) {
			p.tab = i
			p.tabs()
			break
		} else if indent < 0 {
			if spaces < least && p.depth == 0 {
				// YAML lets the text of a whole document begin in column 1,
				// where it looks like comments, keys and markers.
				p.report(i, p.lineEnd(i), "the text of a block scalar is not indented", "Indent it by at least one space.")
				return 0, 0, false
			}
			if spaces < least {
				break
			}
			if indent = spaces; widest > spaces {
				p.report(wide, wide+widest, "a blank line has more spaces than the text that follows it",
					"The first line of the text gives the indentation. Remove the spaces.")
				return 0, 0, false
			}
		} else if spaces < indent {
			break
		}
		n := strings.IndexByte(p.text[i:], '\n')
		if n < 0 {
			line = len(p.text)
			break
		}
		line = i + n + 1
	}
	if indent < 0 {
		indent = max(least, widest)
	}
	return line, indent, true
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
}
