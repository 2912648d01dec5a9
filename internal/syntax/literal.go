package syntax

import "strings"

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
	v.Text, v.style, v.Parts = string(d.out), st, &Parts{indent: indent}
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
