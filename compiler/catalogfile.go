package compiler

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

var catalogFields = &fields.Table{What: "a catalog", Fields: []fields.Field{
	fields.Required("apiVersion", fields.FormText, "always `chimera/v1`"),
	fields.Required("kind", fields.FormText, "always `Catalog`"),
	fields.Required("templates", fields.FormList, "the list of operations that plans may call"),
	fields.Optional("adapters", fields.FormList, "the list of transforms that edges may name by their id"),
}}

var templateFields = &fields.Table{What: "a template", Fields: []fields.Field{
	fields.Required("provider_type", fields.FormText, "`skill` or `mcp`"),
	fields.Required("provider_name", fields.FormText, "the name of the skill provider or MCP server"),
	fields.Required("operation", fields.FormText, "the skill or tool"),
	fields.Optional("description", fields.FormText, "for people"),
	fields.Required("mode", fields.FormText, "`deter` if equal inputs give equal outputs, else `prob`"),
	fields.Required("effect_class", fields.FormText, "what a call does outside: `pure`, `staged`, `committing` or `irreversible`"),
	fields.Required("input_schema", fields.FormSchema, "the JSON Schema of what the operation takes"),
	fields.Optional("output_schema", fields.FormSchema, "the JSON Schema of what the operation returns; an MCP tool without one returns the protocol's object {content: […]}"),
	fields.Optional("timeout_ms", fields.FormNumber, "the longest time that one call may take, in milliseconds"),
	fields.Optional("retry_policy", fields.FormMap, "how often, when and after what wait a failed call is repeated"),
	fields.Optional("trust_requirement", fields.FormText, "the least trust state that nodes ask for"),
	fields.Required("status", fields.FormText, "the operation's trust state: `allow_auto`, `manual_review` or `block`"),
	fields.Optional("fingerprint", fields.FormText, "what plans pin of an MCP tool: `sha256:` and 64 hex digits"),
	fields.Optional("trusted_output", fields.FormBool, "whether the operation adds no taint: its output is as clean as its input"),
	fields.Optional("endorses", fields.FormBool, "whether the operation checks what it gets, so that its output is clean whatever went in"),
	fields.Optional("egress", fields.FormText, "`allowed` if arguments that are not trusted may leave through it, else `denied`"),
	fields.Optional("open_world", fields.FormBool, "whether it talks to parties outside; an MCP tool does unless this is false"),
	fields.Optional("idempotency_port", fields.FormText, "the input port that takes an idempotency key"),
	fields.Optional("cost", fields.FormMap, "what a call costs"),
	fields.Optional("in_process", fields.FormBool, "whether it is a Go skill of this build"),
}}

var costFields = &fields.Table{What: "a `cost` map", Fields: []fields.Field{
	fields.Required("expr", fields.FormText, "a CEL expression over `args`, and `output` where it is taken from there, that gives an amount from 0 on"),
	fields.Required("currency", fields.FormText, "an ISO 4217 code, such as USD"),
	fields.Optional("from_output", fields.FormBool, "whether the actual cost is taken from the output"),
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
	u.Found.Sort()
	if u.Found.HasErrors() {
		return nil, u.Found
	}
	return cat, u.Found
}

func (u *unit) readCatalog() *Catalog {
	root := u.Single("catalog", fields.Limits)
	if root == nil {
		return nil
	}
	r := u.Read(root, catalogFields, "")
	if r == nil {
		return nil
	}
	u.Fixed(r, "apiVersion", fields.APIVersion)
	u.Fixed(r, "kind", "Catalog")
	list, adapters := r.Get("templates"), r.Get("adapters")
	if list == nil {
		return nil
	}
	items := list.Items
	if len(items) > MaxTemplates {
		u.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the catalog has %d templates", len(items)),
			Detail: fmt.Sprintf("A catalog has at most %d templates.", MaxTemplates), Subject: fields.Head(items[MaxTemplates]),
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
		u.Report(d)
	}
	return merged
}

func (u *unit) readTemplate(v *syntax.Value) *Template {
	id := ""
	if p, o := v.Get("provider_name"), v.Get("operation"); p != nil && o != nil && p.Kind == syntax.String && o.Kind == syntax.String {
		id = operationName(p.Text, o.Text)
	}
	errs := u.Errors
	r := u.Read(v, templateFields, id)
	if r == nil {
		return nil
	}
	t := &Template{Range: fields.Head(v)}
	if x := r.Get("operation"); u.Name(x, "operation", fields.OperationNames) {
		t.Operation, t.Range = x.Text, x.Range()
	}
	if x := r.Get("provider_name"); u.Name(x, "provider_name", fields.ProviderNames) {
		t.Provider = x.Text
		if x.Text == engineProvider || x.Text == planProvider {
			u.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the provider name %s is reserved", fields.Quote(x.Text)),
				Detail:  "`engine` is the engine's own skills, which are always there; `plan` calls sub-plans.",
				Subject: x.Range(),
			})
		}
	}
	t.ProviderType = plan.ProviderType(u.Word(r.Get("provider_type"), "provider_type", fields.ProviderTypes))
	t.Mode = plan.Mode(u.Word(r.Get("mode"), "mode", fields.Modes))
	t.Effect = plan.EffectClass(u.Word(r.Get("effect_class"), "effect_class", fields.EffectClasses))
	t.Trust = plan.Trust(u.Word(r.Get("trust_requirement"), "trust_requirement", fields.TrustStates))
	t.Status = plan.Trust(u.Word(r.Get("status"), "status", fields.TrustStates))
	u.Bounded(r.Get("description"), "description")
	if x := r.Get("description"); x != nil {
		t.Description = x.Text
	}
	t.TimeoutMS, _ = u.Whole(r.Get("timeout_ms"), "timeout_ms", 1, MaxTimeoutMS)
	if x := r.Get("retry_policy"); x != nil {
		t.Retry = readRetry(u.Reader, x)
	}
	var input, output *schema
	t.InputSchema, input = u.fileSchema(r.Get("input_schema"))
	t.OutputSchema, output = u.fileSchema(r.Get("output_schema"))
	if t.ProviderType == plan.MCP && !r.Has("output_schema") {
		if c, fault := u.templateSchema(json.RawMessage(contentSchema)); fault == nil {
			output = c.schema
		}
	}
	if t.ProviderType == plan.Skill && !r.Has("output_schema") {
		u.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("the skill %s has no `output_schema`", fields.Quote(operationName(t.Provider, t.Operation))),
			Detail:  "Only MCP tools go without one: they return the protocol's object `{content: […]}`.",
			Subject: fields.Head(v), Suggestion: "output_schema: …",
		})
	}
	t.InputAt, t.OutputAt = oneLine(r.Get("input_schema")), oneLine(r.Get("output_schema"))
	if x := r.Get("fingerprint"); u.Name(x, "fingerprint", fields.Fingerprints) {
		t.Fingerprint = x.Text
	}
	t.TrustedOutput = fields.IsTrue(r.Get("trusted_output"))
	t.Endorses = fields.IsTrue(r.Get("endorses"))
	t.EgressAllowed = u.Word(r.Get("egress"), "egress", egresses) == "allowed"
	// Nobody has said that an MCP tool is closed: it is taken for open.
	t.OpenWorld = fields.IsTrue(r.Get("open_world")) || (t.ProviderType == plan.MCP && !r.Has("open_world"))
	t.InProcess = fields.IsTrue(r.Get("in_process"))
	if t.InProcess && t.ProviderType == plan.MCP {
		u.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "an MCP tool does not run in process", Subject: keyOf(v, "in_process"),
		})
	}
	if x := r.Get("idempotency_port"); x != nil {
		t.IdempotencyPort = x.Text
		if input != nil && !input.portsOf().has(x.Text) {
			u.Report(diag.Diagnostic{
				Code: diag.PlanUnknownPort, Summary: fmt.Sprintf("the input schema has no port %s", fields.Quote(x.Text)),
				Subject: x.Range(), Suggestion: u.Near(x.Text, input.portsOf().names),
			})
		}
	}
	t.Cost = u.readCost(r.Get("cost"), input, output, id)
	if u.Errors > errs {
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
	r := u.Read(v, costFields, "")
	c := &Cost{FromOutput: fields.IsTrue(r.Get("from_output"))}
	if x := r.Get("currency"); u.Name(x, "currency", fields.Currencies) {
		c.Currency = x.Text
	}
	if x := r.Get("expr"); x != nil {
		c.Expr = x.Text
		u.readPrice(x, c, in, out, id)
	}
	return c
}

// fileSchema reads a schema of a catalog, which stands on its own.
func (u *unit) fileSchema(v *syntax.Value) (json.RawMessage, *schema) {
	if v == nil {
		return nil, nil
	}
	s, err := u.pool.add(v.Any())
	if err != nil {
		u.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: err.Error(), Subject: fields.Head(v)})
		return nil, nil
	}
	if _, err := s.compile(); err != nil {
		u.badSchemas(err, v, "")
		return nil, nil
	}
	return s.raw, s
}
