package notation

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// errUnlike means that a text that was written does not mean what it should.
var errUnlike = errors.New("the other notation of the plan does not mean the same")

// comment matches what may be a comment, up to the end of its line.
var comment = regexp.MustCompile(`(?m)(?:^|[ \t])(#[^\r\n]*)`)

// comments lists the places of the comments of a file, without those that the long notation adds.
func comments(text []byte, g *lint.Graph) (out [][2]int) {
	var scalars [][2]int
	for _, doc := range g.Documents {
		scalars = texts(scalars, doc.At)
	}
	slices.SortFunc(scalars, func(a, b [2]int) int { return a[0] - b[0] })
	for done := 0; ; {
		m := comment.FindSubmatchIndex(text[done:])
		if m == nil {
			return out
		}
		at := [2]int{done + m[2], done + m[3]}
		done = at[1]
		i, _ := slices.BinarySearchFunc(scalars, at[0]+1, func(r [2]int, start int) int { return r[0] - start })
		if i > 0 && at[0] < scalars[i-1][1] {
			done = scalars[i-1][1]
		} else if !generated.Match(text[at[0]:at[1]]) {
			out = append(out, at)
		}
	}
}

// texts adds the places of the keys and scalars of a value.
func texts(out [][2]int, v *syntax.Value) [][2]int {
	for _, item := range v.Items {
		out = texts(out, item)
	}
	for _, f := range v.Fields {
		out = texts(texts(out, f.Key), f.Value)
	}
	if v.Kind != syntax.List && v.Kind != syntax.Map {
		out = append(out, [2]int{start(v), end(v)})
	}
	return out
}

// lost warns of the comments of a file that another text for it does not have: g and other are
// what they hold.
func lost(src diag.Source, g *lint.Graph, text []byte, other *lint.Graph) diag.Diagnostics {
	const most = 10
	kept := map[string]int{}
	for _, at := range comments(text, other) {
		kept[string(bytes.TrimSpace(text[at[0]:at[1]]))]++
	}
	var first diag.Range
	var lines []string
	for _, at := range comments(src.Text, g) {
		words := string(bytes.TrimSpace(src.Text[at[0]:at[1]]))
		if kept[words]--; kept[words] >= 0 {
			continue
		}
		if lines = append(lines, ""); len(lines) > most {
			continue
		}
		r := span(src, at[0], at[1])
		if len(lines) == 1 {
			first = r
		}
		lines[len(lines)-1] = strconv.Itoa(r.Start.Line)
	}
	if len(lines) == 0 {
		return nil
	}
	d := diag.Diagnostic{
		Code: diag.PlanSyntax, Severity: diag.Warning, Summary: "a comment is lost", Subject: first,
		Detail: "What it stands beside is written anew. Comments are kept on lines of their own before nodes and edges, and behind an edge.",
	}
	if n := len(lines); n > 1 {
		d.Summary = fmt.Sprintf("%d comments are lost", n)
		where := strings.Join(lines[:min(n, most)], ", ")
		if n > most {
			where += " and more"
		}
		d.Detail = "They stand on the lines " + where + ". " + strings.Replace(d.Detail, "it stands", "they stand", 1)
	}
	return diag.Diagnostics{d}
}

// span is the range of the bytes [start, end) of a file, on one line.
func span(src diag.Source, start, end int) diag.Range {
	line := 1 + bytes.Count(src.Text[:start], []byte("\n"))
	from := 1 + bytes.LastIndexByte(src.Text[:start], '\n')
	column := 1 + utf8.RuneCount(src.Text[from:start])
	return diag.Range{
		File:  src.Name,
		Start: diag.Pos{Line: line, Column: column, Byte: start},
		End:   diag.Pos{Line: line, Column: column + utf8.RuneCount(src.Text[start:end]), Byte: end},
	}
}

// beyond is errUnlike, or what is wrong with a text that cannot be read back since it is beyond the
// bounds of a file.
func beyond(src diag.Source, text []byte, cat *catalog.Catalog) error {
	if _, ds := read(diag.Source{Name: src.Name, Text: text}, cat, false); ds.HasErrors() {
		return fmt.Errorf("the other notation of the plan cannot be read back: %s", ds[0].Summary)
	}
	return errUnlike
}

// read reads a file as far as its notation goes.
func read(src diag.Source, cat *catalog.Catalog, follow bool) (*lint.Graph, diag.Diagnostics) {
	rep := fields.NewReader(src)
	g := lint.Read(rep, new(pool.Pool), cat, follow)
	if g == nil {
		rep.Found.Sort()
		return nil, rep.Found
	}
	return g, nil
}

// meaning is the canonical text of the long notation of all plans.
func meaning(docs []*syntax.Value) []byte {
	var b bytes.Buffer
	for _, doc := range docs {
		raw, err := plan.Canonical(doc.Any())
		if err != nil {
			return nil
		}
		b.Write(raw)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// longs returns the long notation of all plans.
func longs(g *lint.Graph) []*syntax.Value {
	out := make([]*syntax.Value, len(g.Documents))
	for i, doc := range g.Documents {
		out[i] = long(doc)
	}
	return out
}

// rewritten returns a text that means the plans whose long notation is given, with a warning of the
// comments that it loses: the edited one, or else docs written anew. It is nil if neither does.
func rewritten(src diag.Source, g *lint.Graph, cat *catalog.Catalog, want, edited []byte, docs []*syntax.Value) ([]byte, diag.Diagnostics) {
	text := edited
	other := reread(src, text, cat, want)
	if other == nil {
		text = emit(docs, src.Text)
		other = reread(src, text, cat, want)
	}
	if other == nil {
		return nil, nil
	}
	return text, lost(src, g, text, other)
}

// reread reads a text, and returns what it holds if that means the plans whose long notation is
// given, or nil.
func reread(src diag.Source, text []byte, cat *catalog.Catalog, want []byte) *lint.Graph {
	if text == nil || want == nil {
		return nil
	}
	g, _ := read(diag.Source{Name: src.Name, Text: text}, cat, false)
	if g == nil || !bytes.Equal(meaning(longs(g)), want) {
		return nil
	}
	return g
}
