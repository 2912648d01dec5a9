package syntax

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"chimera.ai/engine/diag"
)

// Document is one document of a file. Root is never nil; it is a Null if the
// document is empty or could not be read.
type Document struct{ Root *Value }

// Limits bound what [Parse] accepts. A zero field means its default.
type Limits struct {
	// Bytes is the largest size of a file in bytes; by default 64 MiB.
	Bytes int
	// Depth is the deepest nesting of lists and maps, through aliases too; by
	// default 200.
	Depth int
	// Nodes is the largest number of values and keys in a file; by default four
	// million.
	Nodes int
	// AliasNodes is the largest number of values and keys that all aliases of a
	// file stand for, aliases inside of aliases counted as often as they would
	// be expanded; by default 250,000.
	AliasNodes int
	// Documents is the largest number of documents in a file; by default 256.
	Documents int
}

// maxFindings is the number of findings after which a file is read no further.
const maxFindings = 50

// maxKey is the length of a key in bytes, set by YAML 1.2.2, section 7.4.
const maxKey = 1024

func (l Limits) withDefaults() Limits {
	return Limits{
		Bytes:      cmp.Or(l.Bytes, 64<<20),
		Depth:      cmp.Or(l.Depth, 200),
		Nodes:      cmp.Or(l.Nodes, 4_000_000),
		AliasNodes: cmp.Or(l.AliasNodes, 250_000),
		Documents:  cmp.Or(l.Documents, 256),
	}
}

// parser reads one file.
//
// Its methods that read a value return nil if they could not; the finding is
// then reported, and the nearest block collection resumes after the error.
type parser struct {
	source *source
	text   string
	limits Limits
	loc    *locator
	diags  diag.Diagnostics
	// stop reports that a limit was exceeded, so that reading ends.
	stop bool

	off int
	// line is where the current line begins, begin where its content does.
	line, begin int
	// tab is the first tab in the white space that skip went over on this line,
	// or -1, and stood where skip ended.
	tab, stood int
	// hidden is the last comment that skip went over that has a closing bracket in it.
	hidden int
	// tabbed reports that tabs in the indentation were reported.
	tabbed bool

	depth, deepest int
	nodes, aliased int
	anchors        map[string]*anchor

	slab   []Value
	items  []*Value
	fields []Field
}

// Parse reads all documents of a file. Every finding is an error with code
// plan/syntax. Parse returns what it could read, which is the whole file only if
// there are no findings. src must not be changed afterwards.
func Parse(file string, src []byte, limits Limits) ([]*Document, diag.Diagnostics) {
	s := &source{name: file, text: string(src)}
	p := &parser{
		source: s, text: s.text, limits: limits.withDefaults(), loc: newLocator(s),
		tab: -1, begin: -1, stood: -1, off: s.first().Byte,
	}
	p.line = p.off
	if len(src) > p.limits.Bytes {
		p.report(p.off, p.off, "the file is too large",
			fmt.Sprintf("It has %d bytes; at most %d are read.", len(src), p.limits.Bytes))
		return nil, p.diags
	}
	if !p.characters() {
		return nil, p.diags
	}
	docs := p.documents()
	p.diags.Sort()
	return docs, p.diags
}

// documents reads the stream: documents between the markers "---" and "...".
func (p *parser) documents() []*Document {
	var docs []*Document
	for !p.stop {
		p.skip()
		if p.end() {
			break
		}
		if p.column() == 0 && p.text[p.off] == '%' {
			p.report(p.off, p.lineEnd(p.off), "a directive is not supported",
				"Lines that begin with % set a YAML version or tag names. Remove it.")
			p.off = p.lineEnd(p.off)
			continue
		}
		if p.marker() == "..." {
			p.closing()
			continue
		}
		if len(docs) == p.limits.Documents {
			p.report(p.off, p.lineEnd(p.off), "too many documents",
				fmt.Sprintf("A file may hold %d documents.", p.limits.Documents))
			break
		}
		docs = append(docs, p.document())
	}
	return docs
}

// document reads one document, up to the marker after it.
func (p *parser) document() *Document {
	p.anchors = nil
	after := afterStart
	if p.marker() == "---" {
		p.off += 3
		after = afterMarker
	}
	start := p.off
	root := p.node(-1, after)
	for !p.stop {
		p.skip()
		if p.end() || p.marker() == "---" {
			break
		}
		if p.marker() == "..." {
			p.closing()
			break
		}
		if root != nil {
			p.unexpected()
		}
		p.recover(-1)
	}
	if root == nil {
		root = p.empty(start)
	}
	return &Document{Root: root}
}

// closing reads the marker "..." and the rest of its line.
func (p *parser) closing() {
	p.off += 3
	p.skip()
	if !p.end() && !p.fresh() {
		p.report(p.off, p.lineEnd(p.off), "text behind the end of the document",
			`Behind "..." a line may only hold a comment.`)
		p.off = p.lineEnd(p.off)
	}
}

// skip skips white space, comments and line breaks to the next content.
func (p *parser) skip() {
	if p.off != p.stood {
		p.tab = -1
	}
	defer func() { p.stood = p.off }()
	for p.off < len(p.text) {
		switch c := p.text[p.off]; c {
		case '\t':
			if p.tab < 0 {
				p.tab = p.off
			}
			p.off++
		case ' ', '\r':
			p.off++
		case '\n':
			p.off++
			p.line, p.begin, p.tab = p.off, -1, -1
		case '#':
			if p.off > p.line && !isBlank(p.text[p.off-1]) {
				return
			}
			end := p.lineEnd(p.off)
			if strings.ContainsAny(p.text[p.off:end], "]}") {
				p.hidden = p.off
			}
			p.off = end
		default:
			if p.begin < 0 {
				p.begin = p.off
			}
			return
		}
	}
}

// end reports whether the file is at its end.
func (p *parser) end() bool { return p.stop || p.off >= len(p.text) }

// fresh reports whether the content at off is the first of its line.
func (p *parser) fresh() bool { return p.off == p.begin || p.off == p.line }

// column is the number of bytes before off on its line; before the first
// content of a block they are all white space or dashes.
func (p *parser) column() int { return p.off - p.line }

// lineEnd is the offset of the line break that follows off.
func (p *parser) lineEnd(off int) int {
	end := len(p.text)
	if n := strings.IndexByte(p.text[off:], '\n'); n >= 0 {
		end = off + n
	}
	if end > off && p.text[end-1] == '\r' {
		end--
	}
	return end
}

// marker returns the document marker at off, "---" or "...", or "".
func (p *parser) marker() string {
	if p.off != p.line {
		return ""
	}
	return p.markerAt(p.off)
}

// markerAt returns the document marker that begins the line at off, or "".
func (p *parser) markerAt(off int) string {
	if rest := p.text[off:]; len(rest) >= 3 && (rest[:3] == "---" || rest[:3] == "...") && p.blank(off+3) {
		return rest[:3]
	}
	return ""
}

// blank reports whether white space or the end of the file is at off.
func (p *parser) blank(off int) bool {
	return off >= len(p.text) || isBlank(p.text[off]) || p.text[off] == '\n' || p.text[off] == '\r'
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// recover moves to the next line that is not inside a block indented deeper
// than indent.
func (p *parser) recover(indent int) {
	for !p.end() {
		p.off = p.lineEnd(p.off)
		p.skip()
		if p.end() || p.marker() != "" {
			return
		}
		if c := p.text[p.off]; p.column() <= indent && c != ']' && c != '}' {
			return
		}
	}
}

// report adds a finding about the bytes [from, to) of the file.
func (p *parser) report(from, to int, summary, detail string) *diag.Diagnostic {
	if p.stop {
		return &diag.Diagnostic{}
	}
	start := p.loc.at(from)
	end := p.loc.at(max(from, to))
	p.diags.Add(diag.Diagnostic{
		Code: diag.PlanSyntax, Summary: summary, Detail: detail,
		Subject: diag.Range{File: p.source.name, Start: start, End: end},
	})
	d := &p.diags[len(p.diags)-1]
	if len(p.diags) == maxFindings {
		p.stop = true
		d.Detail += fmt.Sprintf(" This is finding %d; the file was read no further.", maxFindings)
	}
	return d
}

// span is the range of the bytes [from, to) of the file.
func (p *parser) span(from, to int) diag.Range {
	return diag.Range{File: p.source.name, Start: p.loc.at(from), End: p.loc.at(to)}
}

// unexpected reports text that stands where a line should have ended.
func (p *parser) unexpected() {
	if p.text[p.off] == '#' {
		p.report(p.off, p.lineEnd(p.off), "a comment without a space before it",
			"Write a space before the # if a comment is meant, or quotes around the whole value if text is meant.")
		return
	}
	if m := arrowOfList.FindStringSubmatchIndex(p.text[p.line:p.lineEnd(p.off)]); m != nil {
		p.unquoted(p.line+m[2], p.line+m[3], "a list before an arrow must be in quotes", "YAML takes `[` at the start of a value for a list of its own.")
		return
	}
	p.report(p.off, p.lineEnd(p.off), "unexpected text after a value",
		"The value ended before it. Put the whole value in quotes if this belongs to it, or begin a new line.")
}

// arrowOfList matches an entry of a list that is an arrow after a list of names.
var arrowOfList = regexp.MustCompile(`^\s*-\s+(\[[^\[\]#"]*\]\s*->\s*[^\s#"]+)\s*(?: #.*)?$`)

// unquoted reports the bytes [from, to) as a text that must be in quotes.
func (p *parser) unquoted(from, to int, summary, detail string) {
	d := p.report(from, to, summary, detail)
	if text := p.text[from:to]; !strings.ContainsAny(text, "\n\"\\") && !p.stop {
		d.Suggestion = `"` + text + `"`
		d.Edits = []diag.Edit{{Range: d.Subject, Replacement: d.Suggestion}}
		d.Applicability = diag.Certain
	}
}

// expressionEnd finds the end of a text with `${…}` that begins at an offset, on its line: before
// the comma or bracket that follows it. It returns 0 if there is none.
func (p *parser) expressionEnd(from int) int {
	depth, end := 0, p.lineEnd(from)
	for at := from; at < end; at++ {
		switch c := p.text[at]; {
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case depth == 0 && (c == ',' || c == '}' || c == ']'):
			return from + len(strings.TrimRight(p.text[from:at], " \t"))
		}
	}
	return 0
}
