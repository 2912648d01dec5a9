package compiler

import (
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/judge"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/compiler/typing"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// materialise makes compiled plans of the file's plans, each after those that it
// runs. It does nothing once an error has been found.
func (c *compilation) materialise() {
	if c.Errors > 0 || len(c.judged.Documents) == 0 {
		return
	}
	c.pinnable()
	if c.Errors > 0 {
		return
	}
	w := &writer{c: c, made: make([]*plan.Plan, len(c.judged.Documents)), digests: map[string]string{}}
	for i := range c.judged.Documents {
		w.write(i)
	}
	root := w.made[0]
	if root != nil {
		root.Children = w.children
		slices.SortFunc(root.Children, func(a, b plan.Child) int { return strings.Compare(a.Digest, b.Digest) })
		root.Children = slices.CompactFunc(root.Children, func(a, b plan.Child) bool { return a.Digest == b.Digest })
		if err := root.Verify(); err != nil {
			c.unmade(c.judged.Documents[0], err)
		}
	}
	if c.Errors > 0 {
		return
	}
	root.Index()
	c.made = root
}

// unmade reports a plan that does not verify, which the passes should rule out.
func (c *compilation) unmade(doc *judge.Document, err error) {
	c.Report(diag.Diagnostic{
		Code: diag.PlanSchema, Summary: "the compiler made a plan that does not verify", Detail: fields.Sentence(err.Error()), Subject: fields.Head(doc.At),
	})
}

// pinnable refuses sub-plans that are not in the file.
func (c *compilation) pinnable() {
	known := map[string]bool{}
	for _, doc := range c.judged.Documents {
		known[doc.Reference()] = true
	}
	for _, doc := range c.judged.Documents {
		for _, n := range doc.Nodes {
			if n.Subplan() && !known[n.Operation] {
				c.unsupported("sub-plans", n.OperationRange(), n.ID, "")
			}
		}
	}
}

// writer writes all plans of a file.
type writer struct {
	c    *compilation
	made []*plan.Plan
	// digests holds those of the plans written so far, by name@version.
	digests  map[string]string
	children []plan.Child
}

// write writes a plan after those that it runs. Lint refuses plans that run
// themselves.
func (w *writer) write(i int) {
	if w.made[i] != nil {
		return
	}
	doc := w.c.judged.Documents[i]
	for _, n := range doc.Nodes {
		if !n.Subplan() {
			continue
		}
		for at, other := range w.c.judged.Documents {
			if other.Reference() == n.Operation {
				w.write(at)
				break
			}
		}
	}
	m := &maker{doc: doc, digests: w.digests, schemas: map[string]*pool.Schema{}, reads: make([]map[string]bool, len(doc.Nodes))}
	p := m.plan()
	w.made[i] = p
	if i == 0 {
		return
	}
	if err := p.Verify(); err != nil {
		w.c.unmade(doc, err)
		return
	}
	encoded, err := p.Encode()
	if err != nil {
		w.c.unmade(doc, err)
		return
	}
	p.Index()
	digest := plan.DigestOf(encoded)
	w.digests[doc.Reference()] = digest
	w.children = append(w.children, plan.Child{Digest: digest, Plan: p})
}

// maker gathers what nodes and edges share.
type maker struct {
	doc *judge.Document
	// digests are those of the plans that this one may run, by name@version.
	digests map[string]string
	schemas map[string]*pool.Schema
	index   map[string]int
	// reads are the output ports of each node that an edge takes along.
	reads []map[string]bool
}

// plan writes the whole plan.
func (m *maker) plan() *plan.Plan {
	doc := m.doc
	p := &plan.Plan{
		Format: plan.Format, Name: doc.Name.Text, Version: doc.Version.Text, Expr: plan.ExprVersion, Limits: doc.Limits,
	}
	if doc.Agent != nil {
		p.Agent = doc.Agent.Text
	}
	p.Nodes = make([]plan.Node, len(doc.Nodes))
	for i, n := range doc.Nodes {
		m.pool(n.Input)
		m.pool(n.Output)
		m.reads[i] = map[string]bool{}
	}
	p.Schemas = m.sorted()
	for i := range doc.Nodes {
		p.Nodes[i] = m.node(i)
	}
	m.commits(p)
	m.loops(p)
	p.Edges = make([]plan.Edge, len(doc.Edges))
	for i, e := range doc.Edges {
		p.Edges[i] = m.edge(p, e)
	}
	for i := range p.Nodes {
		p.Nodes[i].OutPorts = slices.Sorted(maps.Keys(m.reads[i]))
	}
	m.relied(p)
	m.marks(p)
	return p
}

func (m *maker) pool(c *typing.Schema) {
	if c != nil {
		m.schemas[c.Digest] = c.Schema.Schema
	}
}

func (m *maker) sorted() []plan.Schema {
	m.index = make(map[string]int, len(m.schemas))
	out := make([]plan.Schema, 0, len(m.schemas))
	for i, digest := range slices.Sorted(maps.Keys(m.schemas)) {
		m.index[digest] = i
		out = append(out, plan.Schema{Digest: digest, Schema: m.schemas[digest].Raw})
	}
	return out
}

func (m *maker) schema(c *typing.Schema) int {
	if c == nil {
		return -1
	}
	return m.index[c.Digest]
}

func (m *maker) node(i int) plan.Node {
	doc := m.doc
	n := doc.Nodes[i]
	out := plan.Node{ID: n.ID, Kind: n.Kind, InputSchema: m.schema(n.Input), OutputSchema: m.schema(n.Output)}
	if n.Kind != plan.KindInput {
		out.RequiredPorts = doc.Needs(i)
	}
	if n.Kind != plan.KindCall {
		return out
	}
	out.ProviderType, out.Provider, out.Operation = n.ProviderType, n.Provider, n.Operation
	out.Mode, out.Effect, out.Trust = n.Mode, n.Effect, n.Trust
	out.TimeoutMS, out.Retry = n.Timeout, judge.Retry(n, n.Retry)
	if t := n.Template; t != nil {
		out.Fingerprint, out.Parts, out.Endpoints, out.Instructions, out.Resource = t.Fingerprint, t.Parts, t.Endpoints, t.Instructions, t.Resource
		out.Structured = t.Definition != nil && t.OutputSchema != nil && !t.Given
		out.InProcess = t.InProcess && n.ProviderType == plan.Skill
	}
	for _, f := range n.Fills {
		out.With = append(out.With, plan.PortTemplate{Port: f.Port, Template: f.Template.Raw})
		out.ReadsInput = out.ReadsInput || f.Template.Reads("input")
	}
	slices.SortFunc(out.With, func(a, b plan.PortTemplate) int {
		if a.Port < b.Port {
			return -1
		}
		return 1
	})
	m.effect(&out, i)
	out.Local = out.InProcess && !out.Guarded() && n.Mode == plan.Deter && n.Timeout <= lint.LocalTimeoutMS && !out.Paid()
	return out
}

func (m *maker) edge(p *plan.Plan, e *typing.Edge) plan.Edge {
	out := plan.Edge{
		From: e.From, FromPort: e.FromPort, To: e.To, ToPort: e.ToPort,
		Type: e.Kind, Required: e.Required, Otherwise: e.Otherwise, Implicit: e.Implicit,
	}
	if e.When != nil {
		out.When = e.Condition
		p.Nodes[e.From].RoutesOnInput = p.Nodes[e.From].RoutesOnInput || e.Predicate.Reads("input")
	}
	if e.Template != nil {
		out.Transform = e.Template.Raw
		p.Nodes[e.To].ReadsInput = p.Nodes[e.To].ReadsInput || e.Template.Reads("input")
		out.ReadsOutput = e.FromPort != plan.ErrorPort && e.Template.Reads("output")
		out.ReadsError = e.FromPort == plan.CompensatePort && e.Template.Reads("error")
	}
	if e.Kind != plan.Error && e.Carries() {
		m.reads[e.From][e.FromPort] = true
	}
	if out.ReadsOutput {
		m.reads[e.From][plan.WholePort] = true
	}
	return out
}
