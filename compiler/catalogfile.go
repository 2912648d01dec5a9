package compiler

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

var catalogFields = &table{what: "a catalog", fields: []field{
	{"apiVersion", formText, true, "always `chimera/v1`"},
	{"kind", formText, true, "always `Catalog`"},
	{"templates", formList, true, "the list of operations that plans may call"},
	{"adapters", formList, false, "the list of transforms that edges may name by their id"},
}}

var templateFields = &table{what: "a template", fields: []field{
	{"provider_type", formText, true, "`skill` or `mcp`"},
	{"provider_name", formText, true, "the name of the skill provider or MCP server"},
	{"operation", formText, true, "the skill or tool"},
	{"description", formText, false, "for people"},
	{"mode", formText, true, "`deter` if equal inputs give equal outputs, else `prob`"},
	{"effect_class", formText, true, "what a call does outside: `pure`, `staged`, `committing` or `irreversible`"},
	{"input_schema", formSchema, true, "the JSON Schema of what the operation takes"},
	{"output_schema", formSchema, false, "the JSON Schema of what the operation returns; an MCP tool without one returns the protocol's object {content: […]}"},
	{"timeout_ms", formNumber, false, "the longest time that one call may take, in milliseconds"},
	{"retry_policy", formMap, false, "how often, when and after what wait a failed call is repeated"},
	{"trust_requirement", formText, false, "the least trust state that nodes ask for"},
	{"status", formText, true, "the operation's trust state: `allow_auto`, `manual_review` or `block`"},
	{"fingerprint", formText, false, "what plans pin of an MCP tool: `sha256:` and 64 hex digits"},
	{"trusted_output", formBool, false, "whether the operation adds no taint: its output is as clean as its input"},
	{"endorses", formBool, false, "whether the operation checks what it gets, so that its output is clean whatever went in"},
	{"egress", formText, false, "`allowed` if arguments that are not trusted may leave through it, else `denied`"},
	{"open_world", formBool, false, "whether it talks to parties outside; an MCP tool does unless this is false"},
	{"idempotency_port", formText, false, "the input port that takes an idempotency key"},
	{"cost", formMap, false, "what a call costs"},
	{"in_process", formBool, false, "whether it is a Go skill of this build"},
}}

var costFields = &table{what: "a `cost` map", fields: []field{
	{"expr", formText, true, "a CEL expression over `args`, and `output` where it is taken from there, that gives an amount from 0 on"},
	{"currency", formText, true, "an ISO 4217 code, such as USD"},
	{"from_output", formBool, false, "whether the actual cost is taken from the output"},
}}

var egresses = []string{"denied", "allowed"}

// MaxTemplates bounds a catalog file.
const MaxTemplates = 10_000

// ParseCatalog reads a catalog file (kind: Catalog), YAML or JSON, of one
// document. The catalog is nil exactly if the diagnostics hold an error. It is
// pure.
func ParseCatalog(src Source) (*Catalog, diag.Diagnostics) {
	u := newUnit(src, nil, nil)
	cat := u.readCatalog()
	u.ds.Sort()
	if u.ds.HasErrors() {
		return nil, u.ds
	}
	return cat, u.ds
}

// single parses a file of one document, or gives nil.
func (rep *reporter) single(what string) *syntax.Value {
	docs, ds := syntax.Parse(rep.src.Name, rep.src.Text, syntaxLimits)
	for _, d := range ds {
		rep.report(d)
	}
	if ds.HasErrors() {
		return nil
	}
	if len(docs) == 0 {
		rep.report(diag.Diagnostic{
			Code: diag.PlanSyntax, Summary: "the file holds no " + what,
			Subject: diag.Range{File: rep.src.Name, Start: diag.Pos{Line: 1, Column: 1}, End: diag.Pos{Line: 1, Column: 1}},
		})
		return nil
	}
	if len(docs) > 1 {
		rep.report(diag.Diagnostic{
			Code: diag.PlanSyntax, Summary: fmt.Sprintf("the file holds %d documents", len(docs)),
			Detail: fmt.Sprintf("A %s is one document.", what), Subject: head(docs[1].Root),
		})
	}
	return docs[0].Root
}

func (u *unit) readCatalog() *Catalog {
	root := u.single("catalog")
	if root == nil {
		return nil
	}
	r := u.read(root, catalogFields, "")
	if r == nil {
		return nil
	}
	u.constant(r, "apiVersion", apiVersion)
	u.constant(r, "kind", "Catalog")
	list, adapters := r.get("templates"), r.get("adapters")
	if list == nil {
		return nil
	}
	items := list.Items
	if len(items) > MaxTemplates {
		u.report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the catalog has %d templates", len(items)),
			Detail: fmt.Sprintf("A catalog has at most %d templates.", MaxTemplates), Subject: head(items[MaxTemplates]),
		})
		items = items[:MaxTemplates]
	}
	listed := len(items)
	if adapters != nil {
		listed += min(len(adapters.Items), MaxAdapters)
	}
	u.grow(listed)
	all := new(Catalog)
	for _, item := range items {
		if t := u.readTemplate(item); t != nil {
			all.Templates = append(all.Templates, *t)
		}
	}
	all.Adapters = u.readAdapters(adapters)
	// Merging with nothing finds what the file says twice.
	merged, ds := (*Catalog)(nil).Merge(all)
	for _, d := range ds {
		u.report(d)
	}
	return merged
}

func (u *unit) readTemplate(v *syntax.Value) *Template {
	id := ""
	if p, o := v.Get("provider_name"), v.Get("operation"); p != nil && o != nil && p.Kind == syntax.String && o.Kind == syntax.String {
		id = operationName(p.Text, o.Text)
	}
	errs := u.errors
	r := u.read(v, templateFields, id)
	if r == nil {
		return nil
	}
	t := &Template{Range: head(v)}
	if x := r.get("operation"); u.name(x, "operation", operations) {
		t.Operation, t.Range = x.Text, x.Range()
	}
	if x := r.get("provider_name"); u.name(x, "provider_name", providers) {
		t.Provider = x.Text
		if x.Text == engineProvider || x.Text == planProvider {
			u.report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the provider name %s is reserved", quote(x.Text)),
				Detail:  "`engine` is the engine's own skills, which are always there; `plan` calls sub-plans.",
				Subject: x.Range(),
			})
		}
	}
	t.ProviderType = plan.ProviderType(u.word(r.get("provider_type"), "provider_type", providerTypes))
	t.Mode = plan.Mode(u.word(r.get("mode"), "mode", modes))
	t.Effect = plan.EffectClass(u.word(r.get("effect_class"), "effect_class", effectClasses))
	t.Trust = plan.Trust(u.word(r.get("trust_requirement"), "trust_requirement", trustStates))
	t.Status = plan.Trust(u.word(r.get("status"), "status", trustStates))
	u.text(r.get("description"), "description")
	if x := r.get("description"); x != nil {
		t.Description = x.Text
	}
	t.TimeoutMS, _ = u.whole(r.get("timeout_ms"), "timeout_ms", 1, MaxTimeoutMS)
	if x := r.get("retry_policy"); x != nil {
		t.Retry = u.readRetry(x)
	}
	var input, output *schema
	t.InputSchema, input = u.fileSchema(r.get("input_schema"))
	t.OutputSchema, output = u.fileSchema(r.get("output_schema"))
	if t.ProviderType == plan.MCP && !r.has("output_schema") {
		if c, fault := u.templateSchema(json.RawMessage(contentSchema)); fault == nil {
			output = c.schema
		}
	}
	if t.ProviderType == plan.Skill && !r.has("output_schema") {
		u.report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("the skill %s has no `output_schema`", quote(operationName(t.Provider, t.Operation))),
			Detail:  "Only MCP tools go without one: they return the protocol's object `{content: […]}`.",
			Subject: head(v), Suggestion: "output_schema: …",
		})
	}
	t.InputAt, t.OutputAt = oneLine(r.get("input_schema")), oneLine(r.get("output_schema"))
	if x := r.get("fingerprint"); u.name(x, "fingerprint", fingerprints) {
		t.Fingerprint = x.Text
	}
	t.TrustedOutput = isTrue(r.get("trusted_output"))
	t.Endorses = isTrue(r.get("endorses"))
	t.EgressAllowed = u.word(r.get("egress"), "egress", egresses) == "allowed"
	// Nobody has said that an MCP tool is closed: it is taken for open.
	t.OpenWorld = isTrue(r.get("open_world")) || (t.ProviderType == plan.MCP && !r.has("open_world"))
	t.InProcess = isTrue(r.get("in_process"))
	if t.InProcess && t.ProviderType == plan.MCP {
		u.report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "an MCP tool does not run in process", Subject: keyOf(v, "in_process"),
		})
	}
	if x := r.get("idempotency_port"); x != nil {
		t.IdempotencyPort = x.Text
		if input != nil && !input.portsOf().has(x.Text) {
			u.report(diag.Diagnostic{
				Code: diag.PlanUnknownPort, Summary: fmt.Sprintf("the input schema has no port %s", quote(x.Text)),
				Subject: x.Range(), Suggestion: u.near(x.Text, input.portsOf().names),
			})
		}
	}
	t.Cost = u.readCost(r.get("cost"), input, output, id)
	if u.errors > errs {
		return nil
	}
	return t
}

// readCost reads what a call costs, and checks it for all that the operation
// takes and returns.
func (u *unit) readCost(v *syntax.Value, in, out *schema, id string) *Cost {
	if v == nil {
		return nil
	}
	r := u.read(v, costFields, "")
	c := &Cost{FromOutput: isTrue(r.get("from_output"))}
	if x := r.get("currency"); u.name(x, "currency", currencies) {
		c.Currency = x.Text
	}
	if x := r.get("expr"); x != nil {
		c.Expr = x.Text
		u.readPrice(x, c, in, out, id)
	}
	return c
}

func isTrue(v *syntax.Value) bool { return v != nil && v.Text == "true" }

// fileSchema reads a schema of a catalog, which stands on its own.
func (u *unit) fileSchema(v *syntax.Value) (json.RawMessage, *schema) {
	if v == nil {
		return nil, nil
	}
	s, err := u.pool.add(v.Any())
	if err != nil {
		u.report(diag.Diagnostic{Code: diag.PlanLimits, Summary: err.Error(), Subject: head(v)})
		return nil, nil
	}
	if _, err := schemas.Compile(s.raw); err != nil {
		u.badSchemas(err, v, "")
		return nil, nil
	}
	return s.raw, s
}
