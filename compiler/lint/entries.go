package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// ports writes the entries of one map of input ports as edges.
type ports struct {
	x    *expander
	to   int
	node *Node
	form Form
	// before counts the edges into the node that other short forms stand for.
	before int
	// changed reports that an entry that is kept is not the one in the file.
	changed bool
	// defaulted is an entry whose last alternative reads no node, or nil: the node runs without
	// any of the edges.
	defaulted *syntax.Value
	// gathered are the entries that read several nodes.
	gathered []entryRead
}

// entryRead is an entry and what it reads.
type entryRead struct {
	key, value *syntax.Value
	read
}

// edge returns an edge into a port.
func (p *ports) edge(key, at *syntax.Value) *Edge {
	return &Edge{
		At: at, Form: p.form, ToNode: p.node.ID, ToPort: key.Text, toNodeAt: key.Range(), ToPortAt: key.Range(),
		Kind: plan.Data, kindAt: key.Range(), Required: p.form != FormOutput || p.x.doc.requires(key.Text),
	}
}

// requires reports whether the plan's output has to have a port.
func (d *Document) requires(port string) bool {
	return port == plan.WholePort || d.Output == nil || d.Output.Ports().Requires(port)
}

// plain writes an entry that is nothing but a reference to a port of another node, as most are.
// It reports false for all others.
func (p *ports) plain(key, v *syntax.Value) bool {
	const open = "${" + nodesName + "."
	if v.Kind != syntax.String || !strings.HasPrefix(v.Text, open) || !strings.HasSuffix(v.Text, "}") || v.Plain() && v.Commented() {
		return false
	}
	from, to := len(open), len(v.Text)-1
	dot := strings.IndexByte(v.Text[from:to], '.')
	if dot <= 0 {
		return false
	}
	id, name := v.Text[from:from+dot], v.Text[from+dot+1:to]
	if _, known := p.x.doc.Index[id]; !known || id == p.node.ID || id[0] == '$' || !isIdentifier(name) || slices.Contains(middleWords, name) {
		return false
	}
	e := p.edge(key, v)
	p.x.leave(e, source{port: port{id, name}, nodeAt: v.Sub(from, from+dot), portAt: v.Sub(from+dot+1, to), text: v.Text[2:to]})
	p.x.add(p.to, e)
	return true
}

// entry writes an entry that reads nodes as edges. It returns what remains as the default of the
// port, or nil.
func (p *ports) entry(key, v *syntax.Value, r read) *syntax.Value {
	if !p.x.readable(r, v, p.node.ID, key.Text) || !p.x.quoted(v, p.node.ID) {
		return nil
	}
	if r.alternatives {
		return p.choose(key, v, r)
	}
	sources := r.sources()
	if !oneNode(sources) {
		p.gathered = append(p.gathered, entryRead{key, v, r})
		return nil
	}
	p.x.add(p.to, p.from(key, v, r, sources, func(names map[port]string) *syntax.Value { return r.template(v, names) }))
	return nil
}

// from returns the edge of an entry, or of an alternative of one, that reads ports of one node.
func (p *ports) from(key, v *syntax.Value, r read, sources []source, template func(map[port]string) *syntax.Value) *Edge {
	e := p.edge(key, v)
	p.x.leave(e, sources[0])
	names := map[port]string{sources[0].port: "value"}
	if len(sources) > 1 {
		e.FromPort, e.FromPortAt = plan.WholePort, sources[0].nodeAt
		names = under("value", sources)
	}
	e.Transform = unlessIdentity(template(names))
	return e
}

// unlessIdentity returns a transform, or nil if it is the value itself.
func unlessIdentity(t *syntax.Value) *syntax.Value {
	if t.Kind == syntax.String && strings.HasPrefix(t.Text, "${") && strings.HasSuffix(t.Text, "}") && strings.TrimSpace(t.Text[2:len(t.Text)-1]) == "value" {
		return nil
	}
	return t
}

// finish writes the entries that read several nodes: a node gathers what they read. One does so
// for all required edges, and one for each other, which may arrive without the rest.
func (p *ports) finish() {
	var required []entryRead
	for _, a := range p.gathered {
		if p.edge(a.key, a.value).Required {
			required = append(required, a)
		} else {
			p.gather([]entryRead{a})
		}
	}
	p.gather(required)
	slices.SortStableFunc(p.x.made[p.to][p.before:], func(a, b *Edge) int { return strings.Compare(a.ToPort, b.ToPort) })
	if p.defaulted != nil && p.node.Kind == plan.KindCall && !p.x.required[p.node.ID] {
		at := p.defaulted.Range()
		p.x.add(p.to, &Edge{
			At: p.defaulted, Form: FormDefault, FromNode: plan.InputNode, FromPort: plan.DonePort, fromNodeAt: at, FromPortAt: at,
			ToNode: p.node.ID, ToPort: plan.StartPort, toNodeAt: at, ToPortAt: at, Kind: plan.Control, kindAt: at, Required: true,
		})
	}
}

// gather writes entries as edges from a node that gathers what they read.
func (p *ports) gather(entries []entryRead) {
	if len(entries) == 0 {
		return
	}
	var all read
	for i := range entries {
		all.add(entries[i].read)
	}
	g := p.x.gather(p.to, p.node.ID+"-inputs", entries[0].value, all.sources())
	for i := range entries {
		a := &entries[i]
		e := p.edge(a.key, a.value)
		e.Hidden = true
		e.FromNode, e.FromPort, e.fromNodeAt, e.FromPortAt = g.ID, plan.WholePort, a.value.Range(), a.value.Range()
		e.Transform = a.template(a.value, g.names)
		p.x.add(p.to, e)
	}
}

// maxAlternatives bounds the alternatives of an entry.
const maxAlternatives = 32

// chooseForm says how alternatives are written.
const chooseForm = "Write `\"${nodes.a.x ?? nodes.b.y ?? 'none'}\"`: the first value that arrives is taken, else the last, which is a constant or reads `input`."

var inputPort = regexp.MustCompile(`^input\.([A-Za-z_][A-Za-z0-9_]*)(?:[^A-Za-z0-9_(]|$)`)

// alternative is one of several values of an entry.
type alternative struct {
	// start and end are its bytes.
	start, end int
	read
	sources []source
	// port is the port of the plan's input that it begins with, or "".
	port string
}

// choose writes an entry with `??` as alternative edges into the port. It returns what remains:
// an entry that reads no node.
func (p *ports) choose(key, v *syntax.Value, r read) *syntax.Value {
	chain, all, ok := p.alternatives(v, r)
	if !ok {
		return nil
	}
	last := -1 // the last one that reads a node
	for i := range all {
		if len(all[i].sources) > 0 {
			last = i
		}
	}
	for i := range all[:last+1] {
		a := &all[i]
		var e *Edge
		if len(a.sources) > 0 {
			e = p.from(key, v, a.read, a.sources, func(names map[port]string) *syntax.Value { return part(v, a.refs, names, chain, a.start, a.end) })
		} else {
			ref := reference{expr.Reference{Start: a.start, End: a.start + len("input.") + len(a.port), First: plan.InputNode, Second: a.port}, v}
			s := source{port: ref.port(), nodeAt: v.Sub(a.start, a.start+len("input")), portAt: v.Sub(ref.End-len(a.port), ref.End), text: "input." + a.port}
			e = p.from(key, v, a.read, []source{s}, func(names map[port]string) *syntax.Value {
				return part(v, []reference{ref}, names, chain, a.start, a.end)
			})
		}
		e.Required, e.Alternative, e.Partial = false, i < len(all)-1, true
		p.x.add(p.to, e)
	}
	if last == len(all)-1 {
		return nil
	}
	p.changed = true
	if last >= 0 {
		p.defaulted = v
	}
	return fallback(v, chain, all[last+1:], last >= 0)
}

// alternatives reads the alternatives of an entry, or reports why it cannot.
func (p *ports) alternatives(v *syntax.Value, r read) (chain expr.Segment, all []alternative, ok bool) {
	bad := func(at diag.Range, code diag.Code, summary, detail string) (expr.Segment, []alternative, bool) {
		p.x.bad(diag.Diagnostic{Code: code, Summary: summary, Detail: detail, Subject: at, Context: v.Range(), Node: p.node.ID})
		return expr.Segment{}, nil, false
	}
	if v.Kind != syntax.String {
		return bad(fields.Head(v), diag.TypeExpr, "`??` stands in a text, not inside of a list or map", chooseForm)
	}
	segments, ok := expr.Segments(v.Text)
	if !ok {
		return expr.Segment{}, nil, false
	}
	for _, s := range segments {
		if !s.Expression {
			continue
		}
		parts, fault := expr.Alternatives(v.Text[s.Start:s.End])
		switch {
		case fault == expr.NestedAlternatives:
			return bad(v.Sub(s.Start, s.End), diag.TypeExpr, "`??` stands between whole alternatives, not inside of parentheses", chooseForm)
		case fault == expr.MixedAlternatives:
			return bad(v.Sub(s.Start, s.End), diag.TypeExpr, "beside `??`, a choice or a condition stands in parentheses", chooseForm)
		case len(parts) > 1 && chain.Expression:
			return bad(v.Sub(s.Start, s.End), diag.TypeExpr, "`??` stands in one expression of a text", chooseForm)
		case len(parts) > 1:
			chain = s
		case slices.ContainsFunc(r.refs, func(ref reference) bool { return ref.in == v && ref.Start >= s.Start && ref.End <= s.End }):
			return bad(v.Sub(s.Start, s.End), diag.TypeExpr, "beside an expression with `??`, a text reads `input` only", chooseForm)
		}
	}
	parts, _ := expr.Alternatives(v.Text[chain.Start:chain.End])
	if len(parts) > maxAlternatives {
		return bad(v.Sub(chain.Start, chain.End), diag.PlanLimits, fmt.Sprintf("the entry has %d alternatives", len(parts)), fmt.Sprintf("It has at most %d.", maxAlternatives))
	}
	seen := map[string]bool{}
	for i, span := range parts {
		a := alternative{start: chain.Start + span[0], end: chain.Start + span[1]}
		a.start, a.end = trimmed(v.Text, a.start, a.end)
		a.read = within(r, v, a.start, a.end)
		a.sources = a.read.sources()
		text := v.Text[a.start:a.end]
		if m := inputPort.FindStringSubmatch(text); m != nil && len(a.sources) == 0 {
			a.port = m[1]
		}
		switch {
		case text == "":
			return bad(v.Sub(chain.Start, chain.End), diag.TypeExpr, "an alternative of `??` is missing", chooseForm)
		case seen[text]:
			return bad(v.Sub(a.start, a.end), diag.PlanDuplicateID, "the alternative is there already", "")
		case len(a.sources) > 1 && !oneNode(a.sources):
			return bad(v.Sub(a.start, a.end), diag.TypeExpr, "an alternative of `??` reads one node", chooseForm)
		case len(a.sources) == 0 && a.port == "" && i < len(parts)-1:
			return bad(v.Sub(a.start, a.end), diag.TypeExpr, "what stands behind this is never taken", "It always has a value. "+chooseForm)
		}
		seen[text] = true
		all = append(all, a)
	}
	return chain, all, true
}

// within returns the references in some bytes of a string.
func within(r read, v *syntax.Value, start, end int) (out read) {
	for _, ref := range r.refs {
		if ref.in == v && ref.Start >= start && ref.End <= end {
			out.refs = append(out.refs, ref)
		}
	}
	return out
}

// part returns a text with one alternative in the place of all.
func part(v *syntax.Value, refs []reference, names map[port]string, chain expr.Segment, start, end int) *syntax.Value {
	w := writer{v: v}
	w.copy(0, chain.Start)
	w.renamed(refs, names, start, end)
	w.copy(chain.End, len(v.Text))
	return w.value(true)
}

// fallback returns a text with alternatives that read no node in the place of all: the first port
// of the plan's input that is there, else the last one. edges reports that some fill the port as well.
func fallback(v *syntax.Value, chain expr.Segment, rest []alternative, edges bool) *syntax.Value {
	a := rest[len(rest)-1]
	if edges && len(rest) == 1 && chain.Start == len("${") && chain.End == len(v.Text)-len("}") {
		if c := constant(v, a.start, a.end); c != nil {
			return c
		}
	}
	w := writer{v: v}
	w.copy(0, chain.Start)
	closing := ""
	for _, x := range rest[:len(rest)-1] {
		if text := v.Text[x.start:x.end]; text == "input."+x.port {
			w.put("input.?"+x.port, x.start, x.end)
			w.put(".orValue(", x.end, x.end)
			closing += ")"
			continue
		}
		w.put("has(input."+x.port+") ? (", x.start, x.start)
		w.copy(x.start, x.end)
		w.put(") : (", x.end, x.end)
		closing += ")"
	}
	w.copy(a.start, a.end)
	w.put(closing, a.end, a.end)
	w.copy(chain.End, len(v.Text))
	return w.value(true)
}

var (
	plainNumber = regexp.MustCompile(`^(?:0|-?[1-9][0-9]{0,14})$`)
	plainString = regexp.MustCompile(`^(?:'[^'\\\n]*'|"[^"\\\n]*")$`)
)

// constant returns the value of a literal of CEL, or nil.
func constant(v *syntax.Value, start, end int) *syntax.Value {
	switch text := v.Text[start:end]; {
	case plainString.MatchString(text) && !strings.Contains(text, "${"):
		w := writer{v: v}
		w.copy(start+1, end-1)
		return w.value(true)
	case plainNumber.MatchString(text):
		return v.ScalarAs(syntax.Number, text)
	case text == "true" || text == "false":
		return v.ScalarAs(syntax.Bool, text)
	case text == "null":
		return v.ScalarAs(syntax.Null, "")
	}
	return nil
}

var onlyInput = regexp.MustCompile(`^\$\{\s*input(?:\.([A-Za-z_][A-Za-z0-9_]*))?\s*\}$`)

// fromInput writes an entry that reads no node as an edge from the plan's input. alone reports
// that the port has no other edge.
func (p *ports) fromInput(key, v *syntax.Value, alone bool) {
	e := p.edge(key, v)
	e.Required = e.Required && alone
	e.FromNode, e.FromPort, e.fromNodeAt, e.FromPortAt = plan.InputNode, plan.WholePort, v.Range(), v.Range()
	switch m := onlyInput.FindStringSubmatchIndex(v.Text); {
	case v.Kind == syntax.String && m != nil && m[2] >= 0:
		e.FromPort, e.FromPortAt = v.Text[m[2]:m[3]], v.Sub(m[2], m[3])
		e.Reference = "input." + e.FromPort
	case v.Kind == syntax.String && m != nil:
	case embedded.Bare(v):
		e.Transform = constantTransform(v)
	default:
		e.Transform = v
	}
	p.x.add(p.to, e)
}
