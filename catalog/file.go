package catalog

import (
	"encoding/json"
	"fmt"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// CatalogFields and those below are the tables of a catalog file.
// schemas/catalog.json states the same for editors; a test compares the two.
var CatalogFields = &fields.Table{What: "a catalog", Fields: []fields.Field{
	fields.Required("apiVersion", fields.FormText, "always `chimera/v1`"),
	fields.Required("kind", fields.FormText, "always `Catalog`"),
	fields.Required("templates", fields.FormList, "the list of operations that plans may call"),
	fields.Optional("adapters", fields.FormList, "the list of transforms that edges may name by their id"),
	fields.Optional("servers", fields.FormList, "what MCP servers said of themselves when they were imported; `chimera tools import` writes it"),
	fields.Optional("statements", fields.FormList, "the admins' statements, as DSSE envelopes, from the first on; `chimera tools export` writes them"),
}}

var TemplateFields = &fields.Table{What: "a template", Fields: []fields.Field{
	fields.Required("provider_type", fields.FormText, "`skill` or `mcp`"),
	fields.Required("provider_name", fields.FormText, "the name of the skill provider or MCP server"),
	fields.Required("operation", fields.FormText, "the skill or tool"),
	fields.Optional("description", fields.FormText, "for people"),
	fields.Required("mode", fields.FormText, "`deter` if equal inputs give equal outputs, else `prob`"),
	fields.Required("effect_class", fields.FormText, "what a call does outside: `pure`, `staged`, `committing` or `irreversible`"),
	fields.Optional("definition", fields.FormMap, "an MCP tool as its server declares it, which gives the schemas, the description and the fingerprint; `chimera tools import` writes it"),
	fields.Optional("resource", fields.FormMap, "which resources of the MCP server the operation reads or lists, if it is not a tool"),
	fields.Optional("input_schema", fields.FormSchema, "the JSON Schema of what the operation takes; required without `definition` and `resource`"),
	fields.Optional("output_schema", fields.FormSchema, "the JSON Schema of what the operation returns; an MCP tool without one returns the protocol's object {content: […]}"),
	fields.Optional("timeout_ms", fields.FormNumber, "the longest time that one call may take, in milliseconds"),
	fields.Optional("retry_policy", fields.FormMap, "how often, when and after what wait a failed call is repeated"),
	fields.Optional("trust_requirement", fields.FormText, "the least trust state that nodes ask for"),
	fields.Required("status", fields.FormText, "the operation's trust state: `allow_auto`, `manual_review` or `block`"),
	fields.Optional("fingerprint", fields.FormText, "what plans pin of an MCP tool or a resource: `sha256:` and 64 hex digits"),
	fields.Optional("endpoints", fields.FormList, "the digests of the endpoints at which it may be called: programs and addresses"),
	fields.Optional("instructions", fields.FormText, "the digest of what the MCP server tells models, also if that is nothing"),
	fields.Optional("trusted_output", fields.FormBool, "whether the operation adds no taint: its output is as clean as its input"),
	fields.Optional("endorses", fields.FormBool, "whether the operation checks what it gets, so that its output is clean whatever went in"),
	fields.Optional("egress", fields.FormText, "`allowed` if arguments that are not trusted may leave through it, else `denied`"),
	fields.Optional("open_world", fields.FormBool, "whether it talks to parties outside; an MCP tool does unless this is false"),
	fields.Optional("idempotency_port", fields.FormText, "the input port that takes an idempotency key"),
	fields.Optional("cost", fields.FormMap, "what a call costs"),
	fields.Optional("commit_policy", fields.FormMap, "what the commit policy of every node that calls the operation begins with"),
	fields.Optional("in_process", fields.FormBool, "whether it is a Go skill of this build"),
}}

var CostFields = &fields.Table{What: "a `cost` map", Fields: []fields.Field{
	fields.Required("expr", fields.FormText, "a CEL expression over `args`, and `output` where it is taken from there, that gives an amount from 0 on"),
	fields.Required("currency", fields.FormText, "an ISO 4217 code, such as USD"),
	fields.Optional("from_output", fields.FormBool, "whether the actual cost is taken from the output"),
}}

// CommitFields are those of a template's commit policy.
var CommitFields = &fields.Table{What: "a template's `commit_policy`", Nested: []fields.Nested{{Field: "verify", Table: VerifyFields}, {Field: "rollback", Table: RollbackFields}}, Fields: []fields.Field{
	fields.Optional("verify", fields.FormMap, "by which operation it is found out whether the effect happened"),
	fields.Optional("rollback", fields.FormMap, "`{none: reason}` where the effect cannot be undone or verified"),
}}

// VerifyFields are those of the verify of a template's commit policy.
var VerifyFields = &fields.Table{What: "a template's `verify` map", Fields: append([]fields.Field{
	fields.Required("operation", fields.FormText, "a pure operation of the catalog, as provider/operation"),
}, VerifyCall...)}

// VerifyCall are the fields of every verify, which say how it calls and reads what it calls.
var VerifyCall = []fields.Field{
	fields.Optional("with", fields.FormMap, "a map from its input ports to constants or ${…} expressions over `args`, `output` and `input`"),
	fields.Required("executed", fields.FormText, "a CEL predicate over its `output`: the effect happened"),
	fields.Optional("output", fields.FormAny, "a template over its `output` that gives what the effect returned"),
}

// RollbackFields are those of the rollback of a commit policy.
var RollbackFields = &fields.Table{What: "a `rollback` map", Fields: []fields.Field{
	fields.Required("none", fields.FormText, "the reason why nothing can be undone"),
}}

// ReadRollback returns the reason that a rollback gives why nothing can be undone.
func ReadRollback(rep *fields.Reader, v *syntax.Value) string {
	r := rep.Read(v, RollbackFields, "")
	reason := r.Get("none")
	rep.Bounded(reason, "none")
	if reason == nil {
		return ""
	}
	if strings.TrimSpace(reason.Text) == "" {
		rep.Report(diag.Diagnostic{
			Code: diag.EffectRollback, Summary: "the reason is empty",
			Detail: "Say why nothing can be undone: approvers read it.", Subject: reason.Range(),
		})
	}
	return reason.Text
}

// Egresses are the words of `egress`.
var Egresses = []string{"denied", "allowed"}

// MaxTemplates bounds a catalog file.
const MaxTemplates = 10_000

var AdapterFields = &fields.Table{What: "an adapter", Fields: []fields.Field{
	fields.Required("id", fields.FormText, "what the `transform` of an edge says"),
	fields.Optional("description", fields.FormText, "for people"),
	fields.Required("input_schema", fields.FormSchema, "the JSON Schema of the values that it takes"),
	fields.Required("output_schema", fields.FormSchema, "the JSON Schema of what it gives, which is proved"),
	fields.Required("transform", fields.FormAny, "a JSON template with ${…} expressions over `value`"),
}}

// MaxAdapters bounds the adapters of a catalog file.
const MaxAdapters = 10_000

// File holds the fields of a catalog file. A compiler proves what depends on its
// schemas, prices and transforms.
type File struct {
	Templates []*TemplateEntry
	Adapters  []*AdapterEntry
	Servers   []Server
	// Statements and StatementsAt are as in [Catalog].
	Statements   []json.RawMessage
	StatementsAt diag.Range
}

// TemplateEntry is a template with its place in the file.
type TemplateEntry struct {
	// Template is without the schemas that the file gives.
	Template
	Fields *fields.Record
	// Input and Output are the schemas, nil if there are none.
	Input, Output *syntax.Value
	// Refused reports that it has errors.
	Refused bool
}

// AdapterEntry is an adapter with its place in the file.
type AdapterEntry struct {
	// Adapter is without its schemas and transform.
	Adapter
	Fields *fields.Record
	// Refused reports that it has errors.
	Refused bool
}

// Read reads a catalog file (kind: Catalog) of one document, YAML or JSON. It
// returns nil if the document is not a catalog, and reports everything it refuses.
func Read(r *fields.Reader) *File {
	root := r.Single("catalog", fields.Limits)
	if root == nil {
		return nil
	}
	top := r.Read(root, CatalogFields, "")
	if top == nil {
		return nil
	}
	r.Fixed(top, "apiVersion", fields.APIVersion)
	r.Fixed(top, "kind", "Catalog")
	list := top.Get("templates")
	if list == nil {
		return nil
	}
	f := new(File)
	for _, item := range r.AtMost(list.Items, MaxTemplates, "templates") {
		if t := readTemplate(r, item); t != nil {
			f.Templates = append(f.Templates, t)
		}
	}
	if list := top.Get("adapters"); list != nil {
		for _, item := range r.AtMost(list.Items, MaxAdapters, "adapters") {
			if a := readAdapter(r, item); a != nil {
				f.Adapters = append(f.Adapters, a)
			}
		}
	}
	f.readServers(r, top.Get("servers"))
	f.readStatements(r, top)
	return f
}

// MaxStatements bounds the statements that a catalog file carries.
const MaxStatements = 10_000

// readStatements reads the statements that a file carries. Whoever believes them verifies them.
func (f *File) readStatements(rep *fields.Reader, top *fields.Record) {
	list := top.Get("statements")
	if list == nil {
		return
	}
	f.StatementsAt = fields.KeyOf(top.At, "statements")
	for _, item := range rep.AtMost(list.Items, MaxStatements, "statements") {
		raw, err := json.Marshal(item.Any())
		if err != nil || item.Kind != syntax.Map {
			rep.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: "a statement is a map with `payloadType`, `payload` and `signatures`, and this is " + fields.KindOf(item), Subject: item.Range()})
			continue
		}
		f.Statements = append(f.Statements, raw)
	}
}

func readTemplate(rep *fields.Reader, v *syntax.Value) *TemplateEntry {
	id := ""
	if p, o := v.Get("provider_name"), v.Get("operation"); p != nil && o != nil && p.Kind == syntax.String && o.Kind == syntax.String {
		id = OperationName(p.Text, o.Text)
	}
	errs := rep.Errors
	r := rep.Read(v, TemplateFields, id)
	if r == nil {
		return nil
	}
	t := &TemplateEntry{Fields: r, Template: Template{Range: fields.Head(v)}}
	if x := r.Get("operation"); rep.Name(x, "operation", fields.OperationNames) {
		t.Operation, t.Range = x.Text, x.Range()
	}
	if x := r.Get("provider_name"); rep.Name(x, "provider_name", fields.ProviderNames) {
		t.Provider = x.Text
		if x.Text == EngineProvider || x.Text == PlanProvider {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the provider name %s is reserved", fields.Quote(x.Text)),
				Detail:  "`engine` is the engine's own skills, which are always there; `plan` calls sub-plans.",
				Subject: x.Range(),
			})
		}
	}
	t.ProviderType = plan.ProviderType(rep.Word(r.Get("provider_type"), "provider_type", fields.ProviderTypes))
	t.Mode = plan.Mode(rep.Word(r.Get("mode"), "mode", fields.Modes))
	t.Effect = plan.EffectClass(rep.Word(r.Get("effect_class"), "effect_class", fields.EffectClasses))
	t.Trust = plan.Trust(rep.Word(r.Get("trust_requirement"), "trust_requirement", fields.TrustStates))
	t.Status = plan.Trust(rep.Word(r.Get("status"), "status", fields.TrustStates))
	t.Description = rep.Bounded(r.Get("description"), "description")
	t.TimeoutMS, _ = rep.Whole(r.Get("timeout_ms"), "timeout_ms", 1, MaxTimeoutMS)
	if x := r.Get("retry_policy"); x != nil {
		t.Retry = ReadRetry(rep, x)
	}
	t.readDefinition(rep, r)
	t.readResource(rep, r.Get("resource"))
	if t.ProviderType == plan.Skill && !r.Has("output_schema") {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("the skill %s has no `output_schema`", fields.Quote(OperationName(t.Provider, t.Operation))),
			Detail:  "Only MCP tools go without one: they return the protocol's object `{content: […]}`.",
			Subject: fields.Head(v), Suggestion: "output_schema: …",
		})
	}
	t.InputAt, t.OutputAt = fields.OneLine(t.Input), fields.OneLine(t.Output)
	t.TrustedOutput = fields.IsTrue(r.Get("trusted_output"))
	t.Endorses = fields.IsTrue(r.Get("endorses"))
	t.EgressAllowed = rep.Word(r.Get("egress"), "egress", Egresses) == "allowed"
	// An MCP tool counts as open unless the file says otherwise.
	t.OpenWorld = fields.IsTrue(r.Get("open_world")) || (t.ProviderType == plan.MCP && !r.Has("open_world"))
	t.InProcess = fields.IsTrue(r.Get("in_process"))
	if t.InProcess && t.ProviderType == plan.MCP {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "an MCP tool does not run in process", Subject: fields.KeyOf(v, "in_process"),
		})
	}
	t.readPlace(rep, r)
	if x := r.Get("idempotency_port"); x != nil {
		t.IdempotencyPort = x.Text
	}
	t.Cost = readCost(rep, r.Get("cost"))
	t.Commit = readCommit(rep, r.Get("commit_policy"), &t.Template)
	t.Refused = rep.Errors > errs
	return t
}

// readDefinition reads the schemas of a template, and the fingerprint: from the definition of an
// MCP tool, if there is one.
func (t *TemplateEntry) readDefinition(rep *fields.Reader, r *fields.Record) {
	def := r.Get("definition")
	t.Input, t.Output = r.Get("input_schema"), r.Get("output_schema")
	pinned := r.Get("fingerprint")
	t.Fingerprint = rep.Named(pinned, "fingerprint", fields.Fingerprints)
	refuse := func(at diag.Range, summary, detail string) {
		rep.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: summary, Detail: detail, Subject: at})
	}
	switch {
	case def == nil && t.Input == nil && r.Has("resource"):
		return
	case def == nil && t.Input == nil:
		refuse(fields.Head(r.At), fmt.Sprintf("template %s has no `input_schema`", fields.Quote(t.Name())), "It says what the operation takes. An MCP tool may have its `definition` instead.")
		return
	case def == nil || def.Kind != syntax.Map:
		return
	case t.ProviderType != plan.MCP:
		refuse(fields.KeyOf(r.At, "definition"), "only MCP tools have a `definition`", "")
		return
	case t.Input != nil:
		refuse(fields.KeyOf(r.At, "input_schema"), "the `definition` says what the tool takes", "Leave one of the two out.")
		return
	case t.Output != nil && declared(def, "outputSchema") != nil:
		refuse(fields.KeyOf(r.At, "output_schema"), "the `definition` says what the tool returns", "Leave one of the two out.")
		return
	}
	raw, err := json.Marshal(def.Any())
	var print fingerprint.Print
	if err == nil {
		print, err = fingerprint.Tool(raw)
	}
	switch {
	case err != nil:
		refuse(fields.Head(def), "the `definition` is not one of a tool: "+err.Error(), "")
		return
	case TaskOnly(raw):
		refuse(fields.Head(def), fmt.Sprintf("the tool %s cannot be called: %s", fields.Quote(print.Tool), NoTasks), "Remove the template.")
	case print.Tool != t.Operation:
		refuse(fields.Head(def), fmt.Sprintf("it defines the tool %s, not %s", fields.Quote(print.Tool), fields.Quote(t.Operation)), "")
	case pinned != nil && t.Fingerprint != print.Digest:
		refuse(pinned.Range(), "the `definition` has another fingerprint: "+print.Digest, "One of the two was changed. `chimera tools import` asks the server for the tool as it is.")
	case declared(def, "inputSchema") == nil:
		refuse(fields.Head(def), "the `definition` has no `inputSchema`", "The protocol requires one.")
	}
	t.Definition, t.Fingerprint, t.Parts = raw, print.Digest, map[string]string{}
	for part, digest := range print.Parts {
		t.Parts[string(part)] = digest
	}
	t.Input = declared(def, "inputSchema")
	if x := declared(def, "outputSchema"); x != nil {
		t.Output = x
	} else if t.Output != nil {
		t.Given = true
	}
	if x := def.Get("description"); t.Description == "" && x != nil && x.Kind == syntax.String {
		t.Description = excerpt.Clip(x.Text, fields.MaxText)
	}
}

// NoTasks says why a tool cannot be called that is [TaskOnly].
const NoTasks = "it runs only as a task (`execution.taskSupport: required`), which is not supported yet"

// TaskOnly reports whether a server says of its tool that it runs only as a task of the protocol.
func TaskOnly(definition json.RawMessage) bool {
	v, err := schemas.Decode(definition)
	if err != nil {
		return false // it is not one of the protocol's, and its fingerprint tells
	}
	tool, _ := v.(map[string]any)
	execution, _ := tool["execution"].(map[string]any)
	return execution["taskSupport"] == "required"
}

// declared is a field of a definition, nil if it is not there, or null.
func declared(def *syntax.Value, name string) *syntax.Value {
	if v := def.Get(name); v != nil && v.Kind != syntax.Null {
		return v
	}
	return nil
}

// readCost reads what a call costs.
func readCost(rep *fields.Reader, v *syntax.Value) *Cost {
	if v == nil {
		return nil
	}
	r := rep.Read(v, CostFields, "")
	c := &Cost{FromOutput: fields.IsTrue(r.Get("from_output"))}
	c.Currency = rep.Named(r.Get("currency"), "currency", fields.Currencies)
	if x := r.Get("expr"); x != nil {
		c.Expr = x.Text
	}
	return c
}

// readCommit reads what a template says of committing the effect.
func readCommit(rep *fields.Reader, v *syntax.Value, t *Template) *CommitPolicy {
	if v == nil {
		return nil
	}
	if t.Effect != "" && !t.Effect.Commits() {
		rep.Report(diag.Diagnostic{
			Code: diag.EffectPolicy, Summary: fmt.Sprintf("%s is %s, so there is nothing to commit", fields.Quote(t.Name()), t.Effect),
			Detail: "A commit policy belongs to committing and irreversible operations.", Subject: fields.Head(v),
		})
	}
	c := new(CommitPolicy)
	r := rep.Read(v, CommitFields, "")
	if x := r.Get("rollback"); x != nil {
		c.Waived = ReadRollback(rep, x)
	}
	if x := r.Get("verify"); x != nil {
		of := rep.Read(x, VerifyFields, "")
		if operation, executed := of.Get("operation"), of.Get("executed"); operation != nil && executed != nil {
			c.Verify = &Verify{Operation: operation.Text, With: of.Get("with"), Executed: executed, Output: of.Get("output")}
		}
	}
	return c
}

func readAdapter(rep *fields.Reader, v *syntax.Value) *AdapterEntry {
	id := ""
	if x := v.Get("id"); x != nil && x.Kind == syntax.String {
		id = x.Text
	}
	errs := rep.Errors
	r := rep.Read(v, AdapterFields, id)
	if r == nil {
		return nil
	}
	a := &AdapterEntry{Fields: r, Adapter: Adapter{Range: fields.Head(v)}}
	if x := r.Get("id"); rep.Name(x, "id", fields.AdapterIDs) {
		a.ID, a.Range = x.Text, x.Range()
	}
	a.Description = rep.Bounded(r.Get("description"), "description")
	a.InputAt, a.OutputAt, a.TransformAt = fields.OneLine(r.Get("input_schema")), fields.OneLine(r.Get("output_schema")), fields.OneLine(r.Get("transform"))
	a.Refused = rep.Errors > errs
	return a
}
