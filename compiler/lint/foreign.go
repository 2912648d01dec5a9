package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// People and language models who know other engines write what these call things. What is meant
// is often plain; then the finding says how it is written here.

// Words that other engines put before the name of a node, and between that and its output, and
// those by which they read the input.
var (
	leadWords   = []string{"nodes", "steps", "step", "tasks", "task", "jobs", "needs", "activities", "states", "outputs", "output", "results", "node", "stages", "ctx", "context", "data"}
	middleWords = []string{"output", "outputs", "result", "results", "parameters", "json", "data", "value", "response", "body", "return", "returns"}
	inputWords  = []string{"inputs", "parameters", "params", "workflow", "trigger", "payload", "event", "vars", "args"}
)

// path is a name and what is selected from it, in the syntax of any language.
type path struct {
	start, end int
	names      []string
}

var step = regexp.MustCompile(`^(?:\??\.\??\$?([A-Za-z_][A-Za-z0-9_-]*)|\[\s*(?:"([^"\]]*)"|'([^'\]]*)')\s*\]|\[[0-9*]*\])`)

// paths finds the names of an expression that it does not bind itself, with what is selected from
// them.
func paths(src string) (out []path) {
	end := 0
	for _, at := range expr.Names(src) {
		if at[0] < end {
			continue // a part of an id with hyphens
		}
		p := path{start: at[0], end: at[1], names: []string{src[at[0]:at[1]]}}
		for {
			m := step.FindStringSubmatchIndex(src[p.end:])
			if m == nil {
				break
			}
			for g := 2; g < len(m); g += 2 {
				if m[g] >= 0 {
					p.names = append(p.names, src[p.end+m[g]:p.end+m[g+1]])
				}
			}
			p.end += m[1]
		}
		// A call is no selection.
		if p.end < len(src) && src[p.end] == '(' {
			if len(p.names) == 1 {
				continue
			}
			last := p.names[len(p.names)-1]
			p.names = p.names[:len(p.names)-1]
			p.end = strings.LastIndex(src[:p.end], last) - 1
		}
		out = append(out, p)
		end = p.end
	}
	return out
}

// meaning returns the reference that a path of another engine means, or "". sure reports that
// its parts have these very names. A path that is one of this language means itself.
func (x *expander) meaning(names []string, guess bool) (ref string, sure bool) {
	if names[0] == "input" {
		return "input" + selected(names[1:]), true
	}
	if slices.Contains(inputWords, names[0]) {
		rest := names[1:]
		for len(rest) > 1 && slices.Contains(inputWords, rest[0]) {
			rest = rest[1:]
		}
		if len(rest) > 0 && x.doc.Input != nil && x.doc.Input.Takes(rest[0]) {
			return "input" + selected(rest), true
		}
	}
	for len(names) > 1 && slices.Contains(leadWords, names[0]) && x.doc.Index[names[0]] == 0 {
		names = names[1:]
	}
	at, known := x.doc.Index[names[0]]
	id := names[0]
	if !known {
		if !guess {
			return "", false
		}
		if id = x.Near(names[0], x.doc.ids); id == "" || !syntax.Slip(names[0], id) || !fields.NodeIDs.Re.MatchString(id) {
			return "", false
		}
		at = x.doc.Index[id]
	}
	if at == 0 || x.doc.Nodes[at].Kind != plan.KindCall {
		return "", false
	}
	out := x.outputOf(x.doc.Nodes[at])
	rest := names[1:]
	for len(rest) > 0 && slices.Contains(middleWords, rest[0]) && (out == nil || !out.Ports().Has(rest[0])) {
		known = known && (len(rest) > 1 || strings.HasPrefix(rest[0], "output") || strings.HasPrefix(rest[0], "result")) // else it may be a port
		rest = rest[1:]
	}
	ref = nodesName + "." + id
	switch {
	case len(rest) == 0 && out != nil && len(out.Ports().Names) == 1:
		rest = out.Ports().Names
	case len(rest) > 0 && out != nil && !out.Ports().Has(rest[0]):
		near := x.Near(rest[0], out.Ports().Names)
		if near == "" {
			return ref + selected(rest), false
		}
		rest, known = append([]string{near}, rest[1:]...), false
	}
	return ref + selected(rest), known
}

// selected writes selections of members.
func selected(names []string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(Member(name))
	}
	return b.String()
}

// outputOf returns the schema of what a node returns, as far as the plan and the catalog say it.
func (x *expander) outputOf(n *Node) *Schema {
	if n.Output != nil {
		return n.Output
	}
	name := catalog.OperationName(n.Provider, n.Operation)
	if n.TemplateAt != nil {
		name = n.TemplateAt.Text
	}
	t := x.Catalog.byName[name]
	if t == nil || t.Passes() {
		return nil
	}
	return x.Catalog.Contract(t).Output
}

// rewrite returns a text with the paths of other engines written as references, and whether there
// are any; sure reports that all are certain.
func (x *expander) rewrite(src string) (text string, found, sure bool) {
	text, at, sure := x.rewritten(src, false)
	return text, at[1] > 0, sure
}

// rewritten is rewrite with the bytes of the first such path; they are none if there is none. guess
// allows for names of nodes that are misspelt.
func (x *expander) rewritten(src string, guess bool) (text string, at [2]int, sure bool) {
	var b strings.Builder
	done := 0
	sure = true
	for _, p := range paths(src) {
		if len(p.names) == 1 || wellFormed(p.names, src[p.start:p.end]) && x.ownPort(p.names) {
			continue
		}
		ref, exact := x.meaning(p.names, guess)
		if ref == "" || ref == src[p.start:p.end] {
			continue
		}
		if sure = sure && exact; at[1] == 0 {
			at = [2]int{p.start, p.end}
		}
		b.WriteString(src[done:p.start] + ref)
		done = p.end
	}
	return b.String() + src[done:], at, sure
}

// wellFormed reports whether a path is a reference of this language as it stands.
func wellFormed(names []string, text string) bool {
	return (names[0] == nodesName || names[0] == "input") && !strings.Contains(text, "?.")
}

// ownPort reports whether a reference names a node and, if it is known, one of its ports.
func (x *expander) ownPort(names []string) bool {
	if names[0] != nodesName || len(names) < 2 {
		return true
	}
	at, known := x.doc.Index[names[1]]
	if !known || len(names) < 3 || at == 0 {
		return known || !slices.Contains(leadWords, names[1])
	}
	out := x.outputOf(x.doc.Nodes[at])
	return out == nil || out.Ports().Has(names[2]) || !slices.Contains(middleWords, names[2])
}

// marks are what other languages put around an expression in a text.
var marks = regexp.MustCompile(`\$?\{\{-?\s*(.*?)\s*-?\}\}|\$\(([^()]*)\)|\{([A-Za-z_][^{}]*)\}|\$\.?([A-Za-z_]+(?:\.[A-Za-z_][A-Za-z0-9_-]*)+)`)

// doubled matches the marks of GitHub Actions, where they are no escape.
var doubled = regexp.MustCompile(`(?:^|[^$])\$\{\{`)

// compiles reports whether a text with references is a template.
func compiles(text string) bool {
	segments, ok := expr.Segments(text)
	if !ok {
		return false
	}
	var b strings.Builder
	done := 0
	for _, s := range segments {
		if !s.Expression {
			continue
		}
		b.WriteString(text[done:s.Start])
		done = s.Start
		for _, r := range expr.References(text[s.Start:s.End], nodesName) {
			b.WriteString(text[done:s.Start+r.Start] + "value")
			done = s.Start + r.End
		}
	}
	_, bad := expr.CompileTemplate(b.String()+text[done:], expr.Transform)
	return len(bad) == 0
}

// eachMark replaces the expressions between the marks of other languages; an escaped one stays.
func eachMark(text string, replace func(mark, inner string) string) string {
	var b strings.Builder
	done := 0
	for _, m := range marks.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > 0 && text[m[0]-1] == '$' {
			continue
		}
		inner := ""
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				inner += text[m[g]:m[g+1]]
			}
		}
		b.WriteString(text[done:m[0]] + replace(text[m[0]:m[1]], inner))
		done = m[1]
	}
	return b.String() + text[done:]
}

// filters are functions of other template languages that change nothing that matters.
var filters = regexp.MustCompile(`\s*\|\s*(?:trim|string|int|float|safe|tojson|json)\s*$`)

// foreign reports the references of other engines in an entry of a short form, and whether one is
// an error.
func (x *expander) foreign(v *syntax.Value, node, field string) (refused bool) {
	for _, item := range v.Items {
		refused = x.foreign(item, node, field) || refused
	}
	for i := range v.Fields {
		refused = x.foreign(v.Fields[i].Value, node, field) || refused
	}
	if v.Kind != syntax.String || len(v.Text) > 4_096 {
		return refused
	}
	meant, at, sure, severity := "", [2]int{}, false, diag.Error
	if field == "when" {
		if meant, at, sure = x.rewritten(unmarked(v.Text), true); unmarked(v.Text) != v.Text {
			at[0] = 0
		}
	} else {
		meant, at, sure, severity = x.foreignText(v.Text)
	}
	if at[1] == 0 {
		return refused
	}
	d := diag.Diagnostic{
		Code: diag.TypeExpr, Severity: severity, Summary: "a node is read as `nodes.ID.PORT`", Subject: v.Sub(at[0], at[1]), Context: v.Range(), Node: node,
		Detail: "Other languages write it otherwise. What a node returns is `nodes.ID.PORT`, the plan's input is `input.NAME`, and in a text an expression stands between `${` and `}`.",
	}
	if severity == diag.Warning {
		d.Summary = "the text looks like an expression"
		d.Detail = "It is a text as it stands. An expression stands between `${` and `}`, and reads a node as `nodes.ID.PORT`."
	}
	d.Suggestion = fmt.Sprintf("%q", meant)
	if field == "when" {
		d.Suggestion = "when: " + d.Suggestion
	}
	d.Edits = x.Replace(v.Range(), meant)
	if sure && severity == diag.Error {
		d.Applicability = diag.Certain
	}
	if severity == diag.Warning {
		x.Report(d)
		return refused
	}
	x.bad(d)
	return true
}

// unmarked returns a condition without the marks of a template, around it or around its parts.
func unmarked(text string) string {
	inner := strings.TrimSpace(text)
	for _, m := range [][2]string{{"${{", "}}"}, {"{{", "}}"}} {
		if rest, ok := strings.CutPrefix(inner, m[0]); ok && strings.HasSuffix(rest, m[1]) && strings.Count(inner, "{{") == 1 {
			return strings.TrimSpace(strings.TrimSuffix(rest, m[1]))
		}
	}
	segments, ok := expr.Segments(inner)
	if !ok {
		return text
	}
	var b strings.Builder
	marked := false
	for _, s := range segments {
		if b.WriteString(inner[s.Start:s.End]); s.Expression {
			marked = true
		}
	}
	if !marked {
		return text
	}
	return strings.TrimSpace(b.String())
}

// bareRead matches a text that looks like what an expression reads.
var bareRead = regexp.MustCompile(`^(nodes|input|args|output|error)\.([0-9A-Za-z_-]+)(?:\.[A-Za-z_][0-9A-Za-z_]*)*$`)

// looksRead reports whether a text without marks is probably meant to read a node or the input.
func (x *expander) looksRead(text string) bool {
	m := bareRead.FindStringSubmatch(text)
	switch {
	case m == nil:
	case m[1] == nodesName:
		return x.doc.Index[m[2]] > 0
	case m[1] == "input":
		return x.doc.Input != nil && x.doc.Input.Ports().Has(m[2])
	}
	return false
}

// textRead warns about a text that an expression was probably meant to be.
func (l *linter) textRead(v *syntax.Value, node string) {
	l.Report(diag.Diagnostic{
		Code: diag.TypeExpr, Severity: diag.Warning, Summary: "the text looks like an expression", Subject: v.Range(), Node: node,
		Detail:     "It is a text as it stands. An expression stands between `${` and `}`.",
		Suggestion: fmt.Sprintf("%q", "${"+v.Text+"}"), Edits: l.Replace(v.Range(), "${"+v.Text+"}"),
	})
}

// foreignText rewrites the references of other engines in a text: in its expressions, and between
// the marks of other languages.
func (x *expander) foreignText(text string) (out string, at [2]int, sure bool, severity diag.Severity) {
	severity, sure = diag.Warning, true
	var b strings.Builder
	if x.looksRead(text) {
		return "${" + text + "}", [2]int{0, len(text)}, false, severity
	}
	segments, ok := expr.Segments(text)
	actions := doubled.MatchString(text) && !compiles(text) // the marks of GitHub Actions
	if !ok || actions {
		segments = []expr.Segment{{Start: 0, End: len(text)}}
	}
	done := 0
	for _, s := range segments {
		part := text[s.Start:s.End]
		if !s.Expression {
			b.WriteString(text[done:s.Start])
			done = s.End
			own := false
			b.WriteString(eachMark(part, func(m, inner string) string {
				plain := filters.ReplaceAllString(inner, "")
				other, is, exact := x.rewrite(plain)
				if either, ok := defaults(other, is); ok {
					other, exact = either, false
				}
				if !is && !slices.ContainsFunc(paths(plain), func(p path) bool { return wellFormed(p.names, "") && len(p.names) > 1 }) {
					return m
				}
				own = own || is || strings.Contains(plain, nodesName+".")
				sure = sure && exact && plain == inner
				return "${" + other + "}"
			}))
			if own && at[1] == 0 {
				at = [2]int{s.Start, s.End}
			}
			if own && actions {
				severity = diag.Error // which is no expression of this language
			}
			continue
		}
		other, place, exact := x.rewritten(part, true)
		if either, ok := defaults(other, place[1] > 0); ok {
			other, place, exact = either, [2]int{0, len(part)}, false
		}
		if place[1] > 0 {
			b.WriteString(text[done:s.Start] + other)
			done = s.End
			sure, severity = sure && exact, diag.Error
			if at[1] == 0 {
				at = [2]int{s.Start + place[0], s.Start + place[1]}
			}
		}
	}
	return b.String() + text[done:], at, sure, severity
}

var (
	orWords      = regexp.MustCompile(`\s*\|\|\s*|\s+or\s+`)
	operand      = regexp.MustCompile(`^(?:(?:nodes|input)(?:\.[A-Za-z0-9_-]+|\['[^']*'\])+|'[^']*'|"[^"]*"|[0-9]+)$`)
	literalStart = regexp.MustCompile(`^['"0-9]`)
)

// defaults returns an expression of values between `||` or `or` with `??` between them, if no
// condition is meant: the last one is a text or a number, or another language is written anyway.
func defaults(src string, foreign bool) (string, bool) {
	parts := orWords.Split(strings.TrimSpace(src), -1)
	for _, p := range parts {
		if !operand.MatchString(p) {
			return "", false
		}
	}
	if len(parts) < 2 || !literalStart.MatchString(parts[len(parts)-1]) && !foreign && !strings.Contains(src, " or ") {
		return "", false
	}
	return strings.Join(parts, " ?? "), true
}

// Durations as other engines write them.
var duration = regexp.MustCompile(`^(?:PT)?([0-9]{1,9})\s*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|S|M|H)$`)

// milliseconds reads a duration; a number counts seconds, by most engines.
func milliseconds(v *syntax.Value) (ms string, sure bool) {
	if v.Kind == syntax.Number && len(v.Text) < 9 {
		if n := fields.Number(v); n != nil && n.IsInt() {
			return n.Num().String() + "000", false
		}
		return "", false
	}
	m := duration.FindStringSubmatch(v.Text)
	if v.Kind != syntax.String || m == nil {
		return "", false
	}
	zeros := map[byte]string{'m': "0000", 's': "000", 'h': "00000"}[strings.ToLower(m[2])[0]]
	n := m[1]
	switch c := strings.ToLower(m[2]); {
	case c == "ms":
		return n, true
	case c[0] == 'm':
		return times(n, 6) + zeros, true
	case c[0] == 'h':
		return times(n, 36) + zeros, true
	}
	return n + zeros, true
}

// times multiplies a small decimal.
func times(n string, by int) string {
	product := 0
	for _, c := range n {
		product = product*10 + int(c-'0')
	}
	return fmt.Sprint(product * by)
}

// What other engines call the ends of an edge, and its condition.
var (
	sourceWords    = []string{"from", "source", "src", "start", "from_node"}
	targetWords    = []string{"to", "target", "dest", "destination", "end", "to_node"}
	conditionWords = []string{"when", "condition", "if", "guard"}
)

// foreignEdge reports an edge that only names its ends, as other engines write them.
func (l *linter) foreignEdge(doc *Document, v *syntax.Value) bool {
	for _, own := range []string{"from_port", "to_port", "edge_type", "required"} {
		if v.Get(own) != nil {
			return false
		}
	}
	find := func(words []string) *syntax.Value {
		for _, w := range words {
			if x := v.Get(w); x != nil && x.Kind == syntax.String {
				return x
			}
		}
		return nil
	}
	from, to, when := find(sourceWords), find(targetWords), find(conditionWords)
	if from == nil || to == nil {
		return false
	}
	ends := func(v *syntax.Value) string {
		switch strings.Trim(strings.ToUpper(v.Text), "_") {
		case "START", "INPUT":
			return plan.InputNode
		case "END", "OUTPUT", "FINISH":
			return plan.OutputNode
		}
		return v.Text
	}
	arrow := ends(from) + " -> " + ends(to)
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: "an edge is an arrow from node to node", Subject: fields.Head(v), Detail: arrowForms,
		Suggestion: arrow, Edits: l.Arrow(v.Range(), arrow, ""), Applicability: diag.Certain,
	}
	if when != nil {
		text := l.condition(doc, ends(from), unmarked(when.Text))
		d.Suggestion, d.Edits, d.Applicability = fmt.Sprintf("{edge: %q, when: %q}", arrow, text), l.Arrow(v.Range(), arrow, text), diag.Maybe
	} else if len(v.Fields) > 2 {
		d.Applicability = diag.Maybe
	}
	l.Report(d)
	doc.doubt(ends(from))
	doc.doubt(ends(to))
	return true
}

// condition writes the condition of an edge from a node over what that returns and the input.
func (l *linter) condition(doc *Document, from, src string) string {
	at, known := doc.Index[from]
	if !known {
		return src
	}
	x := expander{linter: l, doc: doc}
	out := x.outputOf(doc.Nodes[at])
	names := map[string]string{}
	for _, p := range paths(src) {
		switch name := p.names[0]; {
		case name == "input" || name == "output" || name == "value":
		case out != nil && out.Ports().Has(name):
			names[name] = "output" + Member(name)
		case doc.Input != nil && doc.Input.Ports().Has(name):
			names[name] = "input" + Member(name)
		}
	}
	return expr.Replaced(src, names)
}
