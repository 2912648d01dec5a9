package syntax

import (
	"fmt"
	"strings"
)

// blockKey reads a key of a block map and the colon after it.
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

// scalarKey returns a key for the scalar [start, end), which is on one line.
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

// add adds an entry, or reports its key if it is a duplicate.
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
		first := mine[at].Key.Range()
		d := p.report(key.Range().Start.Byte, key.Range().End.Byte, fmt.Sprintf("the key %s stands twice in this map", quote(key.Text)),
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

// quote writes a name for a message, cut if it is long.
func quote(name string) string {
	if runes := []rune(name); len(runes) > 40 {
		name = string(runes[:40]) + "…"
	}
	return fmt.Sprintf("%q", name)
}
