package compiler

import (
	"fmt"
	"regexp"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// apiVersion is the version of every file format of the language.
const apiVersion = "chimera/v1"

// readAll turns the documents of the file into plans and reports everything
// that is wrong with their shape.
func (u *unit) readAll() {
	docs, ds := syntax.Parse(u.src.Name, u.src.Text, syntaxLimits)
	for _, d := range ds {
		u.report(d)
	}
	if ds.HasErrors() {
		return
	}
	if len(docs) == 0 {
		u.report(diag.Diagnostic{
			Code: diag.PlanSyntax, Summary: "the file holds no plan",
			Subject: diag.Range{File: u.src.Name, Start: diag.Pos{Line: 1, Column: 1}, End: diag.Pos{Line: 1, Column: 1}},
		})
		return
	}
	if len(docs) > MaxDocuments {
		u.report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the file holds %d documents", len(docs)),
			Detail: fmt.Sprintf("A file holds at most %d plans.", MaxDocuments), Subject: head(docs[MaxDocuments].Root),
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
	u.grow(size)
	u.prepareSchemas()
}

func (u *unit) readDocument(root *syntax.Value) *document {
	r := u.read(root, planFields, "")
	if r == nil {
		return nil
	}
	doc := &document{at: root, index: map[string]int{}}
	u.constant(r, "apiVersion", apiVersion)
	u.constant(r, "kind", "Plan")
	if v := r.get("name"); u.name(v, "name", planNames) {
		doc.name = v
	}
	if v := r.get("version"); u.name(v, "version", versions) {
		doc.version = v
	}
	if v := r.get("agent"); u.name(v, "agent", agents) {
		doc.agent = v
	}
	if v := r.get("currency"); u.name(v, "currency", currencies) {
		doc.currency = v
	}
	u.text(r.get("description"), "description")
	doc.defs = u.readDefs(r.get("defs"))
	errs := u.errors
	doc.allow = u.readAllow(r.get("allow"))
	if u.errors > errs || r.has("allow") && r.get("allow") == nil {
		doc.allow = nil
	}
	doc.limits = u.readLimits(r.get("limits"))
	doc.cycles = u.readCycles(r)
	doc.input = u.readSchema(r.get("input_schema"), doc.defs)
	doc.output = u.readSchema(r.get("output_schema"), doc.defs)
	u.readNodes(doc, r)
	u.readEdges(doc, r)
	return doc
}

// constant checks a field that has one possible value.
func (rep *reporter) constant(r *record, name, want string) {
	if v := r.get(name); v != nil && v.Text != want {
		rep.report(diag.Diagnostic{
			Code:       diag.PlanSchema,
			Summary:    fmt.Sprintf("`%s` is `%s`, not %s", name, want, quote(v.Text)),
			Subject:    v.Range(),
			Suggestion: want,
		})
	}
}

func (rep *reporter) readAllow(v *syntax.Value) map[plan.EffectClass]bool {
	if v == nil {
		return map[plan.EffectClass]bool{plan.Pure: true}
	}
	allow := map[plan.EffectClass]bool{}
	for _, item := range rep.texts(v, "allow") {
		if w := rep.word(item, "allow", effectClasses); w != "" {
			allow[plan.EffectClass(w)] = true
		}
	}
	return allow
}

// texts gives the strings of a list and reports everything else in it.
func (rep *reporter) texts(v *syntax.Value, name string) []*syntax.Value {
	if v == nil {
		return nil
	}
	var out []*syntax.Value
	seen := map[string]bool{}
	for _, item := range v.Items {
		switch {
		case item.Kind != syntax.String:
			rep.report(diag.Diagnostic{
				Code:    diag.PlanSchema,
				Summary: fmt.Sprintf("`%s` is a list of strings, and this is %s", name, kindName(item)),
				Subject: item.Range(),
			})
		case seen[item.Text]:
			rep.report(diag.Diagnostic{
				Code:    diag.PlanDuplicateID,
				Summary: fmt.Sprintf("%s stands twice in `%s`", quote(item.Text), name),
				Subject: item.Range(),
			})
		default:
			seen[item.Text] = true
			out = append(out, item)
		}
	}
	return out
}

func (rep *reporter) readLimits(v *syntax.Value) plan.Limits {
	lim := plan.Limits{MaxParallel: DefaultParallel, DeadlineMS: DefaultDeadlineMS}
	if v == nil {
		return lim
	}
	r := rep.read(v, limitsFields, "")
	if n, ok := rep.whole(r.get("max_parallel"), "max_parallel", 1, MaxParallel); ok {
		lim.MaxParallel = int(n)
	}
	if n, ok := rep.whole(r.get("deadline_ms"), "deadline_ms", 1, MaxDeadlineMS); ok {
		lim.DeadlineMS = n
	}
	return lim
}

func (rep *reporter) readCycles(doc *record) *cycles {
	v := doc.get("cycles")
	if v == nil {
		// A refused policy still says that loops are meant.
		if doc.has("cycles") {
			return &cycles{at: doc.at.Get("cycles"), maxIterations: 1}
		}
		return nil
	}
	c := &cycles{at: v, maxIterations: 1}
	r := rep.read(v, cyclesFields, "")
	if n, ok := rep.whole(r.get("max_iterations"), "max_iterations", 1, MaxIterations); ok {
		c.maxIterations = n
	}
	c.carryOn = rep.word(r.get("on_exhausted"), "on_exhausted", exhaustions) == "continue"
	return c
}

func (u *unit) readNodes(doc *document, r *record) {
	doc.addNode(&node{kind: plan.KindInput, id: plan.InputNode, output: doc.input, sound: doc.input != nil})
	if list := r.get("nodes"); list != nil {
		items := list.Items
		if len(items) > MaxNodes {
			u.report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d nodes", len(items)),
				Detail: fmt.Sprintf("A plan has at most %d nodes; use sub-plans.", MaxNodes), Subject: head(items[MaxNodes]),
			})
			items = items[:MaxNodes]
			doc.broken = true
		}
		if len(items) == 0 {
			u.report(diag.Diagnostic{
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
		u.report(diag.Diagnostic{
			Code:    diag.PlanDuplicateID,
			Summary: fmt.Sprintf("a node %s is there already", quote(n.id)),
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

func (u *unit) readEdges(doc *document, r *record) {
	list := r.get("edges")
	if list == nil {
		doc.broken = doc.broken || r.has("edges")
		return
	}
	items := list.Items
	if len(items) > MaxEdges {
		u.report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d edges", len(items)),
			Detail: fmt.Sprintf("A plan has at most %d edges.", MaxEdges), Subject: head(items[MaxEdges]),
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
