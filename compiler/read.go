package compiler

import (
	"fmt"
	"regexp"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// readAll turns the documents of the file into plans and reports everything
// that is wrong with their shape.
func (u *unit) readAll() {
	docs, ds := syntax.Parse(u.Src.Name, u.Src.Text, fields.Limits)
	for _, d := range ds {
		u.Report(d)
	}
	if ds.HasErrors() {
		return
	}
	if len(docs) == 0 {
		u.Report(diag.Diagnostic{
			Code: diag.PlanSyntax, Summary: "the file holds no plan",
			Subject: diag.Range{File: u.Src.Name, Start: diag.Pos{Line: 1, Column: 1}, End: diag.Pos{Line: 1, Column: 1}},
		})
		return
	}
	if len(docs) > MaxDocuments {
		u.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the file holds %d documents", len(docs)),
			Detail: fmt.Sprintf("A file holds at most %d plans.", MaxDocuments), Subject: fields.Head(docs[MaxDocuments].Root),
		})
		docs = docs[:MaxDocuments]
	}
	for _, d := range docs {
		if doc := u.readDocument(d.Root); doc != nil {
			u.docs = append(u.docs, doc)
		}
	}
	size := 0
	for _, doc := range u.docs {
		size += len(doc.nodes) + len(doc.edges)
	}
	u.prover.Grow(size)
	u.prepareSchemas()
}

func (u *unit) readDocument(root *syntax.Value) *document {
	r := u.Read(root, planFields, "")
	if r == nil {
		return nil
	}
	doc := &document{at: root, index: map[string]int{}}
	u.Fixed(r, "apiVersion", fields.APIVersion)
	u.Fixed(r, "kind", "Plan")
	if v := r.Get("name"); u.Name(v, "name", fields.PlanNames) {
		doc.name = v
	}
	if v := r.Get("version"); u.Name(v, "version", fields.Versions) {
		doc.version = v
	}
	if v := r.Get("agent"); u.Name(v, "agent", fields.AgentNames) {
		doc.agent = v
	}
	if v := r.Get("currency"); u.Name(v, "currency", fields.Currencies) {
		doc.currency = v
	}
	u.Bounded(r.Get("description"), "description")
	doc.defs = u.readDefs(r.Get("defs"))
	errs := u.Errors
	doc.allow = readAllow(u.Reader, r.Get("allow"))
	if u.Errors > errs || r.Has("allow") && r.Get("allow") == nil {
		doc.allow = nil
	}
	doc.limits = readLimits(u.Reader, r.Get("limits"))
	doc.cycles = readCycles(u.Reader, r)
	doc.input = u.readSchema(r.Get("input_schema"), doc.defs)
	doc.output = u.readSchema(r.Get("output_schema"), doc.defs)
	u.readNodes(doc, r)
	u.readEdges(doc, r)
	return doc
}

func readAllow(rep *fields.Reader, v *syntax.Value) map[plan.EffectClass]bool {
	if v == nil {
		return map[plan.EffectClass]bool{plan.Pure: true}
	}
	allow := map[plan.EffectClass]bool{}
	for _, item := range rep.Texts(v, "allow") {
		if w := rep.Word(item, "allow", fields.EffectClasses); w != "" {
			allow[plan.EffectClass(w)] = true
		}
	}
	return allow
}

func readLimits(rep *fields.Reader, v *syntax.Value) plan.Limits {
	lim := plan.Limits{MaxParallel: DefaultParallel, DeadlineMS: DefaultDeadlineMS}
	if v == nil {
		return lim
	}
	r := rep.Read(v, limitsFields, "")
	if n, ok := rep.Whole(r.Get("max_parallel"), "max_parallel", 1, MaxParallel); ok {
		lim.MaxParallel = int(n)
	}
	if n, ok := rep.Whole(r.Get("deadline_ms"), "deadline_ms", 1, MaxDeadlineMS); ok {
		lim.DeadlineMS = n
	}
	return lim
}

func readCycles(rep *fields.Reader, doc *fields.Record) *cycles {
	v := doc.Get("cycles")
	if v == nil {
		// A refused policy still says that loops are meant.
		if doc.Has("cycles") {
			return &cycles{at: doc.At.Get("cycles"), maxIterations: 1}
		}
		return nil
	}
	c := &cycles{at: v, maxIterations: 1}
	r := rep.Read(v, cyclesFields, "")
	if n, ok := rep.Whole(r.Get("max_iterations"), "max_iterations", 1, MaxIterations); ok {
		c.maxIterations = n
	}
	c.carryOn = rep.Word(r.Get("on_exhausted"), "on_exhausted", exhaustions) == "continue"
	return c
}

func (u *unit) readNodes(doc *document, r *fields.Record) {
	doc.addNode(&node{kind: plan.KindInput, id: plan.InputNode, output: doc.input, sound: doc.input != nil})
	if list := r.Get("nodes"); list != nil {
		items := list.Items
		if len(items) > MaxNodes {
			u.Report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d nodes", len(items)),
				Detail: fmt.Sprintf("A plan has at most %d nodes; use sub-plans.", MaxNodes), Subject: fields.Head(items[MaxNodes]),
			})
			items = items[:MaxNodes]
			doc.broken = true
		}
		if len(items) == 0 {
			u.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: "the plan has no nodes",
				Detail: "A plan has at least one node.", Subject: list.Range(),
			})
		}
		for _, item := range items {
			if n := u.readNode(item, doc.defs); n != nil {
				u.place(doc, n)
			} else {
				doc.broken = true
			}
		}
	} else {
		doc.broken = true
	}
	doc.addNode(&node{kind: plan.KindOutput, id: plan.OutputNode, input: doc.output, sound: doc.output != nil})
}

func (d *document) addNode(n *node) {
	if _, taken := d.index[n.id]; !taken && n.id != "" {
		d.index[n.id] = len(d.nodes)
		if n.kind == plan.KindCall {
			d.ids = append(d.ids, n.id)
		}
	}
	d.nodes = append(d.nodes, n)
}

// place adds a node to the document and refuses an id that is taken.
func (u *unit) place(doc *document, n *node) {
	if i, taken := doc.index[n.id]; taken && n.idAt != nil {
		u.Report(diag.Diagnostic{
			Code:    diag.PlanDuplicateID,
			Summary: fmt.Sprintf("a node %s is there already", fields.Quote(n.id)),
			Detail:  "Every node of a plan has an id of its own.",
			Subject: n.idAt.Range(), Context: doc.nodes[i].key, Node: n.id,
		})
		doc.broken = true
		doc.doubt(n.id)
	}
	doc.addNode(n)
}

// nodeNames are what may be ids of nodes in the text of an edge.
var nodeNames = regexp.MustCompile(`\$?[0-9A-Za-z_-]+`)

func (u *unit) readEdges(doc *document, r *fields.Record) {
	list := r.Get("edges")
	if list == nil {
		doc.broken = doc.broken || r.Has("edges")
		return
	}
	items := list.Items
	if len(items) > MaxEdges {
		u.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d edges", len(items)),
			Detail: fmt.Sprintf("A plan has at most %d edges.", MaxEdges), Subject: fields.Head(items[MaxEdges]),
		})
		items = items[:MaxEdges]
		doc.broken = true
	}
	doc.edges = make([]*edge, 0, len(items))
	for _, item := range items {
		if e := u.readEdge(item); e != nil {
			doc.edges = append(doc.edges, e)
		} else {
			doc.broken = true
			for _, id := range nodeNames.FindAllString(item.Text, -1) {
				doc.doubt(id)
			}
		}
	}
}
