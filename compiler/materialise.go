package compiler

import (
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/internal/pool"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// materialise writes the plans of the file as compiled plans, each behind those
// that it runs, unless anything was found that forbids it.
func (u *unit) materialise() {
	if u.Errors > 0 || len(u.graph) == 0 {
		return
	}
	u.pinnable()
	if u.Errors > 0 {
		return
	}
	w := &writer{u: u, made: make([]*plan.Plan, len(u.graph)), digests: map[string]string{}}
	for i := range u.graph {
		w.write(i)
	}
	root := w.made[0]
	if root != nil {
		root.Children = w.children
		slices.SortFunc(root.Children, func(a, b plan.Child) int { return strings.Compare(a.Digest, b.Digest) })
		root.Children = slices.CompactFunc(root.Children, func(a, b plan.Child) bool { return a.Digest == b.Digest })
		if err := root.Verify(); err != nil {
			u.unmade(u.graph[0], err)
		}
	}
	if u.Errors > 0 {
		return
	}
	root.Index()
	u.made = root
}

// unmade: the passes should make this impossible. If they do not, nothing runs.
func (u *unit) unmade(doc *judgedDocument, err error) {
	u.Report(diag.Diagnostic{
		Code: diag.PlanSchema, Summary: "the compiler made a plan that does not verify", Detail: fields.Sentence(err.Error()), Subject: fields.Head(doc.at),
	})
}

// pinnable refuses sub-plans that stand in no document of the file: there is
// nothing to pin yet.
func (u *unit) pinnable() {
	known := map[string]bool{}
	for _, doc := range u.graph {
		known[doc.reference()] = true
	}
	for _, doc := range u.graph {
		for _, n := range doc.nodes {
			if n.subplan() && !known[n.operation] {
				u.unsupported("sub-plans", n.operationRange(), n.id, "")
			}
		}
	}
}

// writer writes all plans of a file.
type writer struct {
	u    *unit
	made []*plan.Plan
	// digests are those of the plans that are written, by name@version.
	digests  map[string]string
	children []plan.Child
}

// write writes a plan behind those that it runs. Lint has made sure that none
// runs itself.
func (w *writer) write(i int) {
	if w.made[i] != nil {
		return
	}
	doc := w.u.graph[i]
	for _, n := range doc.nodes {
		if !n.subplan() {
			continue
		}
		for at, other := range w.u.graph {
			if other.reference() == n.operation {
				w.write(at)
				break
			}
		}
	}
	m := &maker{doc: doc, digests: w.digests, schemas: map[string]*pool.Schema{}, reads: make([]map[string]bool, len(doc.nodes)), taint: doc.taint}
	p := m.plan()
	w.made[i] = p
	if i == 0 {
		return
	}
	if err := p.Verify(); err != nil {
		w.u.unmade(doc, err)
		return
	}
	encoded, err := p.Encode()
	if err != nil {
		w.u.unmade(doc, err)
		return
	}
	p.Index()
	digest := plan.DigestOf(encoded)
	w.digests[doc.reference()] = digest
	w.children = append(w.children, plan.Child{Digest: digest, Plan: p})
}

// maker gathers what nodes and edges share.
type maker struct {
	doc *judgedDocument
	// taint is what is tainted of the plan, its input being not.
	taint *taintResult
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
		Format: plan.Format, Name: doc.name.Text, Version: doc.version.Text, Expr: plan.ExprVersion, Limits: doc.limits,
	}
	if doc.agent != nil {
		p.Agent = doc.agent.Text
	}
	p.Nodes = make([]plan.Node, len(doc.nodes))
	for i, n := range doc.nodes {
		m.pool(n.input)
		m.pool(n.output)
		m.reads[i] = map[string]bool{}
	}
	p.Schemas = m.sorted()
	for i := range doc.nodes {
		p.Nodes[i] = m.node(i)
	}
	m.commits(p)
	m.loops(p)
	p.Edges = make([]plan.Edge, len(doc.edges))
	for i, e := range doc.edges {
		p.Edges[i] = m.edge(p, e)
	}
	for i := range p.Nodes {
		p.Nodes[i].OutPorts = slices.Sorted(maps.Keys(m.reads[i]))
	}
	m.marks(p)
	return p
}

func (m *maker) pool(c *typedSchema) {
	if c != nil {
		m.schemas[c.Digest] = c.Schema
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

func (m *maker) schema(c *typedSchema) int {
	if c == nil {
		return -1
	}
	return m.index[c.Digest]
}

func (m *maker) node(i int) plan.Node {
	doc := m.doc
	n := doc.nodes[i]
	out := plan.Node{ID: n.id, Kind: n.kind, InputSchema: m.schema(n.input), OutputSchema: m.schema(n.output)}
	if n.kind != plan.KindInput {
		out.RequiredPorts = doc.needs(i)
	}
	if n.kind != plan.KindCall {
		return out
	}
	out.ProviderType, out.Provider, out.Operation = n.providerType, n.provider, n.operation
	out.Mode, out.Effect, out.Trust = n.mode, n.effect, n.trust
	out.TimeoutMS, out.Retry = n.timeout, retryOf(n, n.retry)
	if t := n.template; t != nil {
		out.Fingerprint = t.Fingerprint
		out.InProcess = t.InProcess && n.providerType == plan.Skill
	}
	out.Local = out.InProcess && n.effect == plan.Pure && n.mode == plan.Deter && n.timeout <= LocalTimeoutMS
	for _, f := range n.fills {
		out.With = append(out.With, plan.PortTemplate{Port: f.port, Template: f.template.Raw})
		out.ReadsInput = out.ReadsInput || f.template.Reads("input")
	}
	slices.SortFunc(out.With, func(a, b plan.PortTemplate) int {
		if a.Port < b.Port {
			return -1
		}
		return 1
	})
	m.effect(&out, i)
	return out
}

// retryOf completes a retry policy of a node: `on` that was left out means the retried
// kinds, with invalid_output for a prob node; for an effect that must not be
// repeated blindly, the kinds that prove that nothing ran.
func retryOf(n *typedNode, r plan.Retry) plan.Retry {
	if r.On == nil {
		r.On = slices.Clone(catalog.RetriedKinds)
		if !n.repeatable() {
			r.On = slices.Clone(proven)
		}
		if n.mode == plan.Prob {
			r.On = append(r.On, contract.InvalidOutput)
		}
		slices.Sort(r.On)
	}
	return r
}

func (m *maker) edge(p *plan.Plan, e *typedEdge) plan.Edge {
	out := plan.Edge{
		From: e.from, FromPort: e.fromPort, To: e.to, ToPort: e.toPort,
		Type: e.kind, Required: e.required, Otherwise: e.otherwise, Implicit: e.implicit,
	}
	if e.when != nil {
		out.When = e.condition
		p.Nodes[e.from].RoutesOnInput = p.Nodes[e.from].RoutesOnInput || e.predicate.Reads("input")
	}
	if e.template != nil {
		out.Transform = e.template.Raw
		p.Nodes[e.to].ReadsInput = p.Nodes[e.to].ReadsInput || e.template.Reads("input")
		out.ReadsOutput = e.fromPort != plan.ErrorPort && e.template.Reads("output")
	}
	if e.kind != plan.Error && e.carries() {
		m.reads[e.from][e.fromPort] = true
	}
	if out.ReadsOutput {
		m.reads[e.from][plan.WholePort] = true
	}
	return out
}
