package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// resolve finds each node's template in the catalog, completes the node from
// it where the plan says `template:`, and reports what is still missing.
func (l *linter) resolve(doc *Document) {
	for _, n := range doc.Nodes {
		if n.Kind != plan.KindCall {
			continue
		}
		if n.TemplateAt != nil {
			l.complete(n)
		} else if n.Operation != "" {
			n.Template = l.Catalog.byName[catalog.OperationName(n.Provider, n.Operation)]
		}
		n.inheritCommit()
		l.missing(n)
		l.reserved(n)
		if !n.Sound {
			doc.Broken = true
		}
	}
	l.addVerifiers(doc)
}

// addVerifiers adds a node for each effect whose template says how it is verified: verify
// calls that node.
func (l *linter) addVerifiers(doc *Document) {
	last := len(doc.Nodes) - 1
	output := doc.Nodes[last]
	for _, n := range doc.Nodes[:last] {
		if n.Template == nil || n.Template.Commit == nil || n.Template.Commit.Verify == nil || !n.Effect.Commits() || n.ID == "" {
			continue
		}
		v := n.Template.Commit.Verify
		if own := n.Commit.Verify; own != nil {
			l.Report(diag.Diagnostic{
				Code: diag.TrustWeaker, Summary: fmt.Sprintf("`verify` of %s is the catalog's word", fields.Quote(n.Template.Name())),
				Detail: fmt.Sprintf("By the catalog %s says whether the effect happened.", fields.Quote(v.Operation)), Subject: own.at.Range(), Context: n.Template.Range, Node: n.ID,
				Suggestion: "leave verify out",
			})
			continue
		}
		t := l.Catalog.byName[v.Operation]
		if t == nil || t.Effect != plan.Pure {
			l.Report(diag.Diagnostic{
				Code: diag.TrustOperation, Summary: fmt.Sprintf("the catalog verifies %s by %s, which is no pure operation of it", fields.Quote(n.Template.Name()), fields.Quote(v.Operation)),
				Detail: "`verify` of a template names a pure operation of the catalog.", Subject: n.OperationRange(), Context: n.Template.Range, Node: n.ID,
			})
			doc.Broken = true
			continue
		}
		by := &Node{
			Kind: plan.KindCall, At: &syntax.Value{Kind: syntax.Map, Parts: &syntax.Parts{}}, ID: doc.unused(n.ID + "-verify"), Key: n.Key,
			Called: true, Sound: true, Template: t,
		}
		c := l.Catalog.Contract(t)
		if c.Fault != nil {
			BadTemplate(l.Reader, by, t, c.Fault)
			by.Sound = false
		}
		by.inherit(t, c)
		l.missing(by)
		doc.Broken = doc.Broken || !by.Sound
		at := len(doc.Nodes) - 1
		doc.Nodes[at] = by
		doc.Nodes = append(doc.Nodes, output)
		doc.Index[by.ID], doc.Index[plan.OutputNode] = at, at+1
		n.Commit.Verify = &Verify{With: v.With, Executed: v.Executed, Output: v.Output, Target: at}
	}
}

// unused is an id that no node has: the wanted one, or one like it.
func (d *Document) unused(id string) string {
	return unused(id, func(id string) bool { _, taken := d.Index[id]; return taken })
}

// unused is a name that is not taken: the wanted one, or one like it.
func unused(name string, taken func(string) bool) string {
	const most = 60 // a number follows
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	for n, unique := 2, name; ; n++ {
		if !taken(unique) {
			return unique
		}
		unique = name + strconv.Itoa(n)
	}
}

// complete fills the node from its template.
func (l *linter) complete(n *Node) {
	name := n.TemplateAt.Text
	t := l.Catalog.byName[name]
	if t == nil {
		if strings.Contains(name, "/") && n.Sound {
			provider, operation, _ := strings.Cut(name, "/")
			l.Catalog.UnknownOperation(l.Reader, n, n.TemplateAt.Range(), "", provider, operation, n.TemplateAt.Sub(0, len(provider)), true)
		}
		n.Sound = false
		return
	}
	same := func(field, given, want string, at diag.Range) {
		if given == "" || given == want {
			return
		}
		l.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is not that of the template %s", field, fields.Quote(name)),
			Detail:  "A node with a template takes its operation from there. Leave the field out.",
			Subject: at, Context: n.TemplateAt.Range(), Node: n.ID, Suggestion: want, Edits: l.Replace(at, want),
		})
		n.Sound = false
	}
	if n.TypeAt != nil {
		same("provider_type", string(n.ProviderType), string(t.ProviderType), n.TypeAt.Range())
	}
	if n.ProviderAt != nil {
		same("provider_name", n.Provider, t.Provider, n.ProviderAt.Range())
	}
	if n.OperationAt != nil {
		same("operation", n.Operation, t.Operation, n.OperationAt.Range())
	}
	c := l.Catalog.Contract(t)
	if c.Fault != nil {
		BadTemplate(l.Reader, n, t, c.Fault)
		n.Sound = false
		return
	}
	n.Template = t
	n.inherit(t, c)
}

// inherit fills what the plan does not say from the template.
func (n *Node) inherit(t *catalog.Template, c *Contract) {
	n.ProviderType, n.Provider, n.Operation = t.ProviderType, t.Provider, t.Operation
	if n.Mode == "" && n.ModeAt == nil {
		n.Mode = t.Mode
	}
	if n.Effect == "" && n.EffectAt == nil {
		n.Effect = t.Effect
	}
	if n.Trust == "" && n.TrustAt == nil {
		n.Trust = t.Trust
	}
	if n.Timeout == 0 && n.TimeoutAt == nil {
		n.Timeout = t.TimeoutMS
	}
	if n.Retry.MaxAttempts == 0 && n.RetryAt == nil {
		n.Retry = t.Retry
	}
	if t.InProcess {
		n.inProcessDefaults()
	}
	if n.Input == nil && n.At.Get("input_schema") == nil {
		n.Input = c.Input
	}
	if n.Output == nil && n.At.Get("output_schema") == nil {
		n.Output = c.Output
	}
}

// inheritCommit adds what the template says of committing the effect.
func (n *Node) inheritCommit() {
	if n.Template == nil || n.Template.Commit == nil || !n.Effect.Commits() {
		return
	}
	if n.Commit == nil {
		n.Commit = new(CommitPolicy)
	}
	if n.Commit.Waived == "" {
		n.Commit.Waived = n.Template.Commit.Waived
	}
}

// inProcessDefaults completes a node that calls a Go skill of this build, which is
// registered without a timeout and a retry policy: the timeout lets it run as a
// local activity, and it is not retried, since there is no connection to fail.
func (n *Node) inProcessDefaults() {
	if n.Timeout == 0 && n.TimeoutAt == nil {
		n.Timeout = LocalTimeoutMS
	}
	if n.Retry.MaxAttempts == 0 && n.RetryAt == nil {
		n.Retry = plan.Retry{MaxAttempts: 1, InitialMS: catalog.DefaultInitialMS, MultiplierMilli: catalog.DefaultMultiplierMilli, MaxMS: catalog.DefaultMaxMS}
	}
}

// BadTemplate reports a template whose schemas cannot be used.
func BadTemplate(rep *fields.Reader, n *Node, t *catalog.Template, err error) {
	rep.Report(diag.Diagnostic{
		Code: diag.TypeSchema, Summary: fmt.Sprintf("a schema of %s in the catalog cannot be used", fields.Quote(catalog.OperationName(t.Provider, t.Operation))),
		Detail: fields.Sentence(err.Error()), Subject: n.OperationRange(), Context: t.Range, Node: n.ID,
	})
}

// missing reports the contract fields that neither the node nor its template has.
func (l *linter) missing(n *Node) {
	if n.TemplateAt != nil && n.Template == nil {
		return
	}
	if slices.Contains(n.meant, "template") {
		n.Sound = false
		return
	}
	var absent []string
	for _, f := range contractFields {
		if n.given(f) || n.At.Get(f) != nil {
			continue
		}
		n.Sound = false
		if !slices.Contains(n.meant, f) {
			absent = append(absent, "`"+f+"`")
		}
	}
	if len(absent) == 0 {
		return
	}
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("node %s has no %s", fields.Quote(n.ID), strings.Join(absent, ", ")),
		Detail:  "Every node declares its whole contract, or takes it from the catalog by `template: provider/operation`.",
		Subject: n.Key, Node: n.ID,
	}
	if n.Template != nil && n.TemplateAt != nil {
		d.Detail = "The template does not give them either."
	} else if n.Template != nil {
		name := catalog.OperationName(n.Provider, n.Operation)
		d.Suggestion, d.Edits = "template: "+name, l.Set(n.At, "template", name)
	}
	if n.ID == "" {
		d.Summary = "the node has no " + strings.Join(absent, ", ")
	}
	l.Report(d)
}

// reserved refuses an MCP server under a provider name of the engine's own.
func (l *linter) reserved(n *Node) {
	if n.ProviderType == plan.MCP && (n.Provider == catalog.EngineProvider || n.Provider == catalog.PlanProvider) && n.ProviderAt != nil {
		l.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("the provider name %s is reserved", fields.Quote(n.Provider)),
			Detail:  "`engine` is the engine's own skills, `plan` calls sub-plans; both are of type `skill`.",
			Subject: n.ProviderAt.Range(), Node: n.ID, Suggestion: "provider_type: skill", Edits: l.Set(n.At, "provider_type", "skill"),
		})
		// The operation cannot be what was meant, so nothing more is said about it.
		n.Sound, n.Operation = false, ""
	}
}

// OperationRange is the place that messages show for the node's operation.
func (n *Node) OperationRange() diag.Range {
	switch {
	case n.OperationAt != nil:
		return n.OperationAt.Range()
	case n.TemplateAt != nil:
		return n.TemplateAt.Range()
	}
	return n.Key
}

// UnknownOperation reports a provider or an operation that is not in the catalog.
// whole means that the name was written as provider/operation.
func (x *Catalog) UnknownOperation(rep *fields.Reader, n *Node, at diag.Range, kind plan.ProviderType, provider, operation string, providerAt diag.Range, whole bool) {
	ops := x.operations[provider]
	if provider == catalog.PlanProvider {
		rep.Report(diag.Diagnostic{
			Code: diag.TrustProvider, Summary: "a plan has no template",
			Detail:  "The catalog holds operations. A node that runs another plan of the file declares its whole contract.",
			Subject: at, Node: n.ID, Suggestion: fmt.Sprintf("provider_type: skill, provider_name: plan, operation: %s", operation),
		})
		return
	}
	if len(ops) == 0 {
		d := diag.Diagnostic{
			Code: diag.TrustProvider, Summary: fmt.Sprintf("the provider %s is not in the catalog", fields.Quote(provider)),
			Detail:  "Every skill and every MCP tool that a plan calls stands in the operator's catalog, the file that `--catalog` or the keys `catalog` and `tools` of chimera.yaml name. `chimera tools import` writes those of MCP servers.",
			Subject: providerAt, Node: n.ID, Suggestion: rep.Near(provider, x.providers),
		}
		d.Edits = rep.Replace(providerAt, d.Suggestion)
		if !slices.ContainsFunc(x.providers, func(p string) bool { return p != catalog.EngineProvider }) {
			d.Detail += " The catalog is empty. Give one."
			if x.unknown[provider] {
				return // it is said already
			}
			if x.unknown == nil {
				x.unknown = map[string]bool{}
			}
			x.unknown[provider] = true
		}
		rep.Report(d)
		return
	}
	suggestion := rep.Near(operation, ops)
	if suggestion != "" && whole {
		suggestion = catalog.OperationName(provider, suggestion)
	}
	d := diag.Diagnostic{
		Code: diag.TrustOperation, Summary: fmt.Sprintf("%s has no operation %s in the catalog", fields.Quote(provider), fields.Quote(operation)),
		Detail: Listing("It has ", ops), Subject: at, Node: n.ID, Suggestion: suggestion,
	}
	d.Edits = rep.Replace(at, suggestion)
	if kind != "" && kind != x.types[provider] {
		d.Detail += fmt.Sprintf(" The provider is of type `%s`.", x.types[provider])
	}
	rep.Report(d)
}

// Listing formats the first names of a list as a sentence.
func Listing(start string, names []string) string {
	const most = 12
	s := start
	for i, n := range names {
		if i == most {
			return fmt.Sprintf("%s and %d more.", s, len(names)-most)
		}
		if i > 0 {
			s += ", "
		}
		s += fields.Quote(n)
	}
	return s + "."
}
