package lint

import (
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// nodesName is the name by which expressions of short forms read other nodes.
const nodesName = "nodes"

// port is a port of a node, by the names in the source.
type port struct{ node, name string }

// source is a port that a short form reads, and where that is written.
type source struct {
	port
	nodeAt, portAt diag.Range
	// text is the reference as its author wrote it.
	text string
}

// reference is one place of a template or condition that reads a node.
type reference struct {
	expr.Reference
	// in is the string that holds it; Start and End are bytes of that.
	in *syntax.Value
}

// read is what the text of a template or condition reads.
type read struct {
	refs []reference
	// alternatives reports that there is a `??` in an expression.
	alternatives bool
	// strings caches in: where the references of each string are.
	strings map[*syntax.Value][2]int
}

// readTemplate finds the references in a template.
func readTemplate(v *syntax.Value) (r read) {
	for _, item := range v.Items {
		r.add(readTemplate(item))
	}
	for _, f := range byKey(v.Fields) {
		r.add(readTemplate(f.Value))
	}
	if v.Kind != syntax.String || !strings.Contains(v.Text, "${") || !strings.Contains(v.Text, nodesName) && !strings.Contains(v.Text, "??") {
		return r
	}
	segments, ok := expr.Segments(v.Text)
	if !ok {
		return r
	}
	for _, s := range segments {
		if s.Expression {
			r.add(readExpression(v, s.Start, s.End))
		}
	}
	return r
}

// readPredicate finds the references in a condition.
func readPredicate(v *syntax.Value) read { return readExpression(v, 0, len(v.Text)) }

func readExpression(v *syntax.Value, start, end int) (r read) {
	text := v.Text[start:end]
	for _, found := range expr.References(text, nodesName) {
		found.Start, found.End = found.Start+start, found.End+start
		for _, at := range []*[2]int{&found.FirstAt, &found.SecondAt} {
			at[0], at[1] = at[0]+start, at[1]+start
		}
		r.refs = append(r.refs, reference{found, v})
	}
	parts, fault := expr.Alternatives(text)
	r.alternatives = len(parts) > 1 || fault != expr.SoundAlternatives
	return r
}

func (r *read) add(other read) {
	r.refs = append(r.refs, other.refs...)
	r.alternatives = r.alternatives || other.alternatives
}

// port is the port that a reference reads.
func (r *reference) port() port {
	if r.Second == "" {
		return port{r.First, plan.WholePort}
	}
	return port{r.First, r.Second}
}

// sources lists the ports that are read, each once, in their order.
func (r *read) sources() (out []source) {
	seen := make(map[port]bool, len(r.refs))
	for i := range r.refs {
		ref := &r.refs[i]
		p := ref.port()
		if seen[p] {
			continue
		}
		seen[p] = true
		s := source{port: p, nodeAt: ref.in.Sub(ref.FirstAt[0], ref.FirstAt[1]), text: ref.in.Text[ref.Start:ref.End]}
		if s.portAt = s.nodeAt; ref.Second != "" {
			s.portAt = ref.in.Sub(ref.SecondAt[0], ref.SecondAt[1])
		}
		out = append(out, s)
	}
	return out
}

// in lists the references in a string. They stand one after the other.
func (r *read) in(v *syntax.Value) []reference {
	if r.strings == nil {
		r.strings = make(map[*syntax.Value][2]int, len(r.refs))
		for i := range r.refs {
			at, known := r.strings[r.refs[i].in]
			if !known {
				at[0] = i
			}
			at[1] = i + 1
			r.strings[r.refs[i].in] = at
		}
	}
	at := r.strings[v]
	return r.refs[at[0]:at[1]]
}

// oneNode reports whether all sources are ports of one node.
func oneNode(sources []source) bool {
	return !slices.ContainsFunc(sources, func(s source) bool { return s.node != sources[0].node })
}

// under names the ports of one node as members of its whole output.
func under(whole string, sources []source) map[port]string {
	names := map[port]string{}
	for _, s := range sources {
		names[s.port] = whole
		if s.name != plan.WholePort {
			names[s.port] = whole + Member(s.name)
		}
	}
	return names
}

// isIdentifier reports whether an expression selects a member of that name by a dot.
func isIdentifier(name string) bool {
	if name == "" || name[0] >= '0' && name[0] <= '9' || celWords[name] {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// celWords are the words that CEL does not take for the name of a member.
var celWords = map[string]bool{"in": true, "as": true, "break": true, "const": true, "continue": true, "else": true, "for": true, "function": true, "if": true, "import": true, "let": true, "loop": true, "package": true, "namespace": true, "return": true, "var": true, "void": true, "while": true, "true": true, "false": true, "null": true}

// Member selects a member of an object.
func Member(name string) string {
	if isIdentifier(name) {
		return "." + name
	}
	return "[" + quoteCEL(name) + "]"
}

func quoteCEL(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`).Replace(s) + "'"
}

// readable checks what a template or condition of a short form reads, and reports what it
// cannot.
func (x *expander) readable(r read, v *syntax.Value, node, field string) bool {
	ok := true
	if text := r.crowded(); text != nil {
		x.bad(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("one text reads more than %d times", maxReferences), Subject: fields.Head(text), Node: node,
			Detail: "Gather what it reads in an `engine/pass` node.",
		})
		return false
	}
	for i := range r.refs {
		if in := r.refs[i].in; len(in.Text) > maxReading {
			x.bad(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("a text that reads nodes has %d bytes", len(in.Text)), Subject: fields.Head(in), Node: node,
				Detail: fmt.Sprintf("It has at most %d.", maxReading),
			})
			return false
		}
	}
	for i := range r.refs {
		ref := &r.refs[i]
		d := diag.Diagnostic{Code: diag.TypeExpr, Subject: ref.in.Sub(ref.Start, ref.End), Node: node}
		switch {
		case ref.First == "":
			d.Summary = "`nodes` is followed by the name of a node"
			d.Detail = "Write `nodes.ID` for all that a node returns, and `nodes.ID.PORT` for one of its output ports."
		case strings.HasPrefix(ref.First, "$"):
			d.Summary = fmt.Sprintf("`nodes` reads steps, and %s is none", fields.Quote(ref.First))
			d.Suggestion = strings.TrimPrefix(ref.First, "$")
		case strings.HasPrefix(ref.Second, "$"):
			d.Code, d.Summary = diag.PlanErrorEdge, fmt.Sprintf("an expression does not read `%s`", ref.Second)
			d.Detail = fmt.Sprintf("What a node reports of its failure comes by an edge: `- %s.%s -> %s.PORT`, or `{edge: …, when: …, transform: …}` with expressions over `error`.", ref.First, ref.Second, node)
		case ref.First == node && field != "":
			d.Code, d.Summary = diag.PlanCycle, fmt.Sprintf("%s reads its own output", fields.Quote(node))
			d.Detail = "What a node takes is there before it runs. A loop needs a `cycles` policy, and an edge back to its first node."
		default:
			continue
		}
		ok = false
		x.bad(d)
	}
	if ok && (len(r.refs) > 0 || field == "when") {
		ok = x.strange(v, node, field == "when")
	}
	return ok
}

// Bounds of a text that reads nodes: the references in it, and its bytes.
const (
	maxReferences = 256
	maxReading    = 64 << 10
)

// crowded returns a string with more references than one may have, or nil.
func (r *read) crowded() *syntax.Value {
	if len(r.refs) <= maxReferences {
		return nil
	}
	for i := maxReferences; i < len(r.refs); i++ {
		if r.refs[i].in == r.refs[i-maxReferences].in {
			return r.refs[i].in
		}
	}
	return nil
}

// quoted refuses a comment right after an unquoted expression.
func (x *expander) quoted(v *syntax.Value, node string) bool {
	if v.Kind != syntax.String || embedded.Quoted(x.Reader, v, node, "") {
		return true
	}
	x.doc.Broken = true
	x.doc.doubt(node)
	return false
}

// strange refuses names of edges in an entry that reads nodes.
func (x *expander) strange(v *syntax.Value, node string, condition bool) bool {
	ok := true
	for _, item := range v.Items {
		ok = x.strange(item, node, condition) && ok
	}
	for i := range v.Fields {
		ok = x.strange(v.Fields[i].Value, node, condition) && ok
	}
	if v.Kind != syntax.String {
		return ok
	}
	spans := []expr.Segment{{Start: 0, End: len(v.Text), Expression: true}}
	if !condition {
		spans, _ = expr.Segments(v.Text)
	}
	for _, s := range spans {
		if !s.Expression {
			continue
		}
		for _, at := range expr.Free(v.Text[s.Start:s.End], "value", "output", "error", "args") {
			name := v.Text[s.Start+at[0] : s.Start+at[1]]
			x.bad(diag.Diagnostic{
				Code: diag.TypeExpr, Summary: fmt.Sprintf("there is no `%s` here", name), Subject: v.Sub(s.Start+at[0], s.Start+at[1]), Context: v.Range(), Node: node,
				Detail: "A short form reads `nodes` and `input`. `value`, `output` and `error` belong to the expressions of edges.",
			})
			ok = false
		}
	}
	return ok
}

// predicate returns a condition with other names for what it reads.
func (r *read) predicate(v *syntax.Value, names map[port]string) *syntax.Value {
	return renamed(v, r.refs, names)
}

// renamed returns a string with other names for the ports that the references in it read.
func renamed(v *syntax.Value, refs []reference, names map[port]string) *syntax.Value {
	w := writer{v: v}
	w.renamed(refs, names, 0, len(v.Text))
	return w.value(false)
}

// template returns a template with other names for what it reads.
func (r *read) template(v *syntax.Value, names map[port]string) *syntax.Value {
	switch v.Kind {
	case syntax.List:
		items := make([]*syntax.Value, len(v.Items))
		for i, item := range v.Items {
			items[i] = r.template(item, names)
		}
		return v.ListAs(items)
	case syntax.Map:
		entries := make([]syntax.Field, len(v.Fields))
		for i, f := range v.Fields {
			entries[i] = syntax.Field{Key: f.Key, Value: r.template(f.Value, names)}
		}
		return v.MapAs(entries)
	case syntax.String:
		if refs := r.in(v); len(refs) > 0 {
			return renamed(v, refs, names)
		}
	case syntax.Null, syntax.Bool, syntax.Number:
	}
	return v
}
