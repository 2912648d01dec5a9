package syntax

import (
	"fmt"
	"strings"
)

// Classes of bytes that a plain scalar may have to end at.
const (
	classColon = 1 << iota
	classHash
	classBreak
	classFlow
)

var classes = [256]uint8{
	':': classColon, '#': classHash, '\n': classBreak,
	',': classFlow, '[': classFlow, ']': classFlow, '{': classFlow, '}': classFlow,
}

func isFlow(c byte) bool { return classes[c] == classFlow }

// plainStart reports whether a plain scalar may begin at off (YAML 1.2.2,
// section 7.3.3).
func (p *parser) plainStart(off int, flow bool) bool {
	switch p.text[off] {
	case ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
		return false
	case '-', '?', ':':
		return !p.blank(off+1) && !(flow && isFlow(p.text[off+1]))
	}
	return true
}

// plainEnd is the end of the plain scalar from off on this line.
func (p *parser) plainEnd(off int, flow bool) int {
	i := off
scan:
	for ; i < len(p.text); i++ {
		switch classes[p.text[i]] {
		case classBreak:
			break scan
		case classColon:
			if p.blank(i+1) || flow && isFlow(p.text[i+1]) {
				break scan
			}
		case classHash:
			if i > off && isBlank(p.text[i-1]) {
				break scan
			}
		case classFlow:
			if flow {
				break scan
			}
		}
	}
	for i > off && (isBlank(p.text[i-1]) || p.text[i-1] == '\r') {
		i--
	}
	return i
}

// key finds the end of the scalar at off if it is the key of a block map.
func (p *parser) key() (end int, ok bool) {
	switch c := p.text[p.off]; {
	case c == '"' || c == '\'':
		if end = p.quoteEnd(p.off); end < 0 {
			return 0, false
		}
	case p.plainStart(p.off, false):
		end = p.plainEnd(p.off, false)
	default:
		return 0, false
	}
	i := end
	for i < len(p.text) && isBlank(p.text[i]) {
		i++
	}
	return end, i < len(p.text) && p.text[i] == ':' && p.blank(i+1)
}

// quoteEnd is the offset behind the quote that closes the one at off, or -1 if
// that is not on the same line.
func (p *parser) quoteEnd(off int) int {
	q := p.text[off]
	for i := off + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '\n':
			return -1
		case c == '\\' && q == '"':
			if i++; i < len(p.text) && p.text[i] == '\n' {
				return -1
			}
		case c == q:
			if q == '\'' && i+1 < len(p.text) && p.text[i+1] == q {
				i++
				continue
			}
			return i + 1
		}
	}
	return -1
}

// comment reports whether a comment follows off on this line.
func (p *parser) comment() bool {
	i := p.off
	for i < len(p.text) && isBlank(p.text[i]) {
		i++
	}
	return i > p.off && i < len(p.text) && p.text[i] == '#'
}

// nextLine finds the next line with content behind off: where it begins, where
// its content does, and how many spaces it begins with. Both offsets are the
// end of the file if there is none.
func (p *parser) nextLine(off int) (line, content, spaces int) {
	for {
		n := strings.IndexByte(p.text[off:], '\n')
		if n < 0 {
			return len(p.text), len(p.text), 0
		}
		line = off + n + 1
		content = line
		for content < len(p.text) && p.text[content] == ' ' {
			content++
		}
		spaces = content - line
		for content < len(p.text) && (isBlank(p.text[content]) || p.text[content] == '\r') {
			content++
		}
		if content == len(p.text) || p.text[content] != '\n' {
			return line, content, spaces
		}
		off = content
	}
}

// plainBlock reads a plain scalar in block context.
func (p *parser) plainBlock(parent int) *Value {
	start := p.off
	if !p.plainStart(start, false) {
		p.badStart()
		return nil
	}
	end := p.plainEnd(start, false)
	lines := false
	p.off = end
	for !p.comment() {
		line, content, spaces := p.nextLine(end)
		if content == len(p.text) || spaces <= parent || p.text[content] == '#' || p.markerAt(line) != "" {
			break
		}
		e := p.plainEnd(content, false)
		if i := e + len(p.text[e:p.lineEnd(e)]) - len(strings.TrimLeft(p.text[e:p.lineEnd(e)], " \t")); i < len(p.text) && p.text[i] == ':' {
			d := p.report(content, e, "a key inside a text of several lines",
				fmt.Sprintf("This line continues the text that begins on line %d, since it is indented deeper than the line before. Add the colon that is missing there, mend the indentation, or put the text in quotes.", p.loc.at(start).Line))
			d.Context = p.span(start, end)
			p.off, p.line, p.begin = content, line, content
			return nil
		}
		end, lines = e, true
		p.off, p.line, p.begin = end, line, content
	}
	return p.plainText(start, end, lines)
}

// plainText makes the value of the plain scalar [start, end).
func (p *parser) plainText(start, end int, lines bool) *Value {
	p.off = end
	text := p.text[start:end]
	if lines {
		d := decoder{stop: -1, at: -1}
		d.plain(p.text, start, end)
		text = string(d.out)
	}
	kind, value, problem := resolve(text)
	if problem != "" {
		p.report(start, end, "a number that is not accepted", problem)
	}
	v := p.value(kind, p.loc.at(start), p.loc.at(end))
	v.Text, v.style, v.commented = value, plain, p.comment()
	return v
}

// badStart reports a character that no plain scalar may begin with.
func (p *parser) badStart() {
	c := p.text[p.off]
	switch {
	case c == ']' || c == '}' || c == ',':
		p.report(p.off, p.off+1, fmt.Sprintf("unexpected %q", c), "No bracket is open here. Text that begins so must be in quotes.")
	case c == '#':
		p.unexpected()
	case p.indicator('-') || c == '-':
		p.report(p.off, p.off+1, `unexpected "-"`, `Inside brackets a list has no dashes. Text that is a dash must be in quotes.`)
	case c == ':' || c == '?':
		p.report(p.off, p.off+1, fmt.Sprintf("unexpected %q", c), "A key is missing before it. Text that begins so must be in quotes.")
	default:
		p.report(p.off, p.lineEnd(p.off), fmt.Sprintf("text may not begin with %q", c), "Put the whole text in quotes.")
	}
}

// quoted reads a quoted scalar, which may have several lines.
func (p *parser) quoted(parent int) *Value {
	start := p.off
	q := p.text[start]
	line := p.line
	for i := start + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '\n':
			next, content, spaces := p.nextLine(i)
			if content < len(p.text) && (p.markerAt(next) != "" || spaces <= parent) && p.text[content] != q {
				p.unclosed(start, "quote", content)
				return nil
			}
			line = next
			i = content - 1
		case c == '\\' && q == '"':
			if i+1 < len(p.text) && p.text[i+1] != '\n' && p.text[i+1] != '\r' {
				i++
			}
		case c == q:
			if q == '\'' && i+1 < len(p.text) && p.text[i+1] == q {
				i++
				continue
			}
			p.off = i + 1
			lines := line != p.line
			if lines {
				p.line, p.begin = line, line
			}
			return p.quotedText(start, p.off, lines)
		}
	}
	p.unclosed(start, "quote", len(p.text))
	return nil
}

// quotedText makes the value of the quoted scalar [start, end).
func (p *parser) quotedText(start, end int, lines bool) *Value {
	from, to := start+1, end-1
	text := p.text[from:to]
	st := double
	if p.text[start] == '\'' {
		st = single
	}
	switch {
	case st == single && (lines || strings.IndexByte(text, '\'') >= 0):
		d := decoder{stop: -1, at: -1}
		d.single(p.text, from, to)
		text = string(d.out)
	case st == double && (lines || strings.IndexByte(text, '\\') >= 0):
		d := decoder{stop: -1, at: -1}
		for _, bad := range d.double(p.text, from, to) {
			p.report(bad.from, bad.to, "not an escape", bad.detail)
		}
		text = string(d.out)
	}
	v := p.value(String, p.loc.at(start), p.loc.at(end))
	v.Text, v.style, v.commented = text, st, p.comment()
	return v
}
