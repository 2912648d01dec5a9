package lint

import (
	"fmt"
	"regexp"
	"slices"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// readAll reads the plans of the file and reports what is malformed.
func (l *linter) readAll() {
	l.Foreign = l.foreignField
	defer func() { l.Foreign = nil }()
	docs, ds := syntax.Parse(l.Src.Name, l.Src.Text, fields.Limits)
	for _, d := range ds {
		l.Report(d)
	}
	if ds.HasErrors() {
		return
	}
	if len(docs) == 0 {
		l.Report(diag.Diagnostic{
			Code: diag.PlanSyntax, Summary: "the file holds no plan",
			Subject: diag.Range{File: l.Src.Name, Start: diag.Pos{Line: 1, Column: 1}, End: diag.Pos{Line: 1, Column: 1}},
		})
		return
	}
	if len(docs) > MaxDocuments {
		l.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the file holds %d documents", len(docs)),
			Detail: fmt.Sprintf("A file holds at most %d plans.", MaxDocuments), Subject: fields.Head(docs[MaxDocuments].Root),
		})
		docs = docs[:MaxDocuments]
	}
	for _, d := range docs {
		if doc := l.readDocument(d.Root); doc != nil {
			l.Documents = append(l.Documents, doc)
		}
	}
	l.prepareSchemas()
}

func (l *linter) readDocument(root *syntax.Value) *Document {
	if l.foreignPlan(root) {
		return nil
	}
	l.reading, l.steps = nil, nil
	if nodes := nodesIn(root); nodes != nil {
		l.reading = nodes.Items
	}
	r := l.Read(root, planFields, "")
	if r == nil {
		return nil
	}
	doc := &Document{At: root, Index: map[string]int{}}
	l.Fixed(r, "apiVersion", fields.APIVersion)
	l.Fixed(r, "kind", "Plan")
	if v := r.Get("name"); l.Name(v, "name", fields.PlanNames) {
		doc.Name = v
	}
	if v := r.Get("version"); l.Name(v, "version", fields.Versions) {
		doc.Version = v
	}
	if v := r.Get("agent"); l.Name(v, "agent", fields.AgentNames) {
		doc.Agent = v
	}
	if v := r.Get("currency"); l.Name(v, "currency", fields.Currencies) {
		doc.Currency = v
	}
	l.Bounded(r.Get("description"), "description")
	doc.Defs = l.readDefs(r.Get("defs"))
	errs := l.Errors
	doc.Allow = readAllow(l.Reader, r.Get("allow"))
	if l.Errors > errs || r.Has("allow") && r.Get("allow") == nil {
		doc.Allow = nil
	}
	doc.Limits = readLimits(l.Reader, r.Get("limits"))
	doc.Cycles = readCycles(l.Reader, r)
	doc.Input = l.readSchema(r.Get("input_schema"), doc.Defs)
	doc.Output = l.readSchema(r.Get("output_schema"), doc.Defs)
	doc.Returns = l.readReturns(doc, r)
	l.readNodes(doc, r)
	l.readEdges(doc, r)
	if len(doc.ids) > 0 {
		l.expand(doc)
	}
	return doc
}

// readReturns reads the short form of edges into $output.
func (l *linter) readReturns(doc *Document, r *fields.Record) *syntax.Value {
	v := r.Get("output")
	if v == nil {
		doc.Broken = doc.Broken || r.Has("output")
		return nil
	}
	if v.Get("type") != nil && v.Get("properties") != nil && !r.Has("output_schema") {
		l.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "`output` says where the plan's output comes from, and this looks like its schema", Subject: fields.KeyOf(r.At, "output"),
			Detail: "`output` maps output ports to expressions, such as `{total: \"${nodes.sum.total}\"}`.", Suggestion: "output_schema", Edits: l.Replace(fields.KeyOf(r.At, "output"), "output_schema"),
		})
		doc.Broken = true
		return nil
	}
	return v
}

// nodesIn is the list of nodes of a plan, by any name.
func nodesIn(root *syntax.Value) *syntax.Value {
	if v := root.Get("nodes"); v != nil {
		return v
	}
	for _, f := range planFields.Fields {
		if f.Name != "nodes" {
			continue
		}
		for _, name := range f.Elsewhere {
			if v := root.Get(name); v != nil && v.Kind == syntax.List {
				return v
			}
		}
	}
	return nil
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
		// A malformed policy still means that the author wants loops.
		if doc.Has("cycles") {
			return &cycles{at: doc.At.Get("cycles"), MaxIterations: 1}
		}
		return nil
	}
	c := &cycles{at: v, MaxIterations: 1}
	r := rep.Read(v, cyclesFields, "")
	if n, ok := rep.Whole(r.Get("max_iterations"), "max_iterations", 1, MaxIterations); ok {
		c.MaxIterations = n
	}
	c.CarryOn = rep.Word(r.Get("on_exhausted"), "on_exhausted", exhaustions) == "continue"
	return c
}

func (l *linter) readNodes(doc *Document, r *fields.Record) {
	doc.addNode(&Node{Kind: plan.KindInput, ID: plan.InputNode, Output: doc.Input, Sound: doc.Input != nil})
	list := r.Get("nodes")
	if list == nil && slices.Contains(r.Meant, "nodes") {
		list = nodesIn(doc.At) // so that all is said of them, too
		doc.Broken = true
	}
	if list == nil || slices.Contains(r.Meant, "output") || r.Has("output") && doc.Returns == nil {
		doc.doubt(plan.OutputNode)
	}
	if list != nil {
		items := list.Items
		if len(items) > MaxNodes {
			l.Report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d nodes", len(items)),
				Detail: fmt.Sprintf("A plan has at most %d nodes; use sub-plans.", MaxNodes), Subject: fields.Head(items[MaxNodes]),
			})
			items = items[:MaxNodes]
			doc.Broken = true
		}
		if len(items) == 0 {
			l.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: "the plan has no nodes",
				Detail: "A plan has at least one node.", Subject: list.Range(),
			})
		}
		for _, item := range items {
			if n := l.readNode(item, doc.Defs); n != nil {
				l.place(doc, n)
			} else {
				doc.Broken = true
			}
		}
	} else {
		doc.Broken = true
	}
	doc.addNode(&Node{Kind: plan.KindOutput, ID: plan.OutputNode, Input: doc.Output, Sound: doc.Output != nil})
}

func (d *Document) addNode(n *Node) {
	if _, taken := d.Index[n.ID]; !taken && n.ID != "" {
		d.Index[n.ID] = len(d.Nodes)
		if n.Kind == plan.KindCall && !n.Made {
			d.ids = append(d.ids, n.ID)
		}
	}
	d.Nodes = append(d.Nodes, n)
}

// place adds a node to the document and refuses an id that is taken.
func (l *linter) place(doc *Document, n *Node) {
	if i, taken := doc.Index[n.ID]; taken && n.idAt != nil {
		l.Report(diag.Diagnostic{
			Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("a node %s is there already", fields.Quote(n.ID)),
			Detail:  "Every node of a plan has an id of its own.",
			Subject: n.idAt.Range(), Context: doc.Nodes[i].Key, Node: n.ID,
		})
		doc.Broken = true
		doc.doubt(n.ID)
	}
	doc.addNode(n)
}

// nodeNames matches what may be node ids in the text of an edge.
var nodeNames = regexp.MustCompile(`\$?[0-9A-Za-z_-]+`)

func (l *linter) readEdges(doc *Document, r *fields.Record) {
	list := r.Get("edges")
	if list == nil {
		doc.Broken = doc.Broken || r.Has("edges")
		return
	}
	items := list.Items
	if len(items) > MaxEdges {
		l.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d edges", len(items)),
			Detail: fmt.Sprintf("A plan has at most %d edges.", MaxEdges), Subject: fields.Head(items[MaxEdges]),
		})
		items = items[:MaxEdges]
		doc.Broken = true
	}
	doc.Edges = make([]*Edge, 0, len(items))
	for _, item := range items {
		if len(doc.Edges) > MaxEdges {
			break // lists of nodes stand for many
		}
		if edges := l.readEdge(doc, item); edges != nil {
			doc.Edges = append(doc.Edges, edges...)
			e := edges[0]
			doc.Short = doc.Short || len(edges) > 1 || e.Form == FormMap || e.Form == FormArrow && e.Kind != plan.Data && e.Kind != plan.Control
		} else {
			doc.Broken = true
			doc.doubtNamed(item)
		}
	}
}

// doubtNamed doubts the nodes that an entry of the list of edges may name.
func (d *Document) doubtNamed(v *syntax.Value) {
	for _, id := range nodeNames.FindAllString(v.Text, -1) {
		d.doubt(id)
	}
	for _, f := range v.Fields {
		d.doubtNamed(f.Value)
	}
}
