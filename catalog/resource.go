package catalog

import (
	"encoding/json"
	"fmt"
	"slices"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// ResourceFields are those of the resource of a template.
var ResourceFields = &fields.Table{What: "a template's `resource` map", Fields: []fields.Field{
	fields.Required("uris", fields.FormList, "the URIs that may be read, as patterns: `*` within a segment, `**` for one or more segments"),
	fields.Optional("as", fields.FormText, "what is read: `text`, or the `json` of the text"),
	fields.Optional("list", fields.FormBool, "whether the operation lists the resources in place of reading one"),
}}

// ResourceForms are the words of `as`.
var ResourceForms = []string{string(plan.AsText), string(plan.AsJSON)}

// readResource reads which resources an operation reads or lists. What the file leaves out of the
// schemas follows.
func (t *TemplateEntry) readResource(rep *fields.Reader, v *syntax.Value) {
	if v == nil {
		return
	}
	refuse := func(at diag.Range, summary, detail string) {
		rep.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: summary, Detail: detail, Subject: at})
	}
	switch {
	case t.ProviderType != plan.MCP:
		refuse(fields.Head(v), "only MCP servers have a `resource`", "")
	case t.Definition != nil:
		refuse(fields.Head(v), "a `resource` has no `definition`", "That is what a server declares of a tool.")
	}
	if t.Mode == plan.Prob {
		refuse(t.Fields.Get("mode").Range(), "a `resource` is `deter`, not `prob`", "")
	}
	if t.Effect != "" && t.Effect != plan.Pure {
		refuse(t.Fields.Get("effect_class").Range(), fmt.Sprintf("a `resource` is `pure`, not `%s`", t.Effect), "The protocol reads and lists resources without an effect.")
	}
	r := rep.Read(v, ResourceFields, "")
	res := &plan.Resource{As: plan.ResourceForm(rep.Word(r.Get("as"), "as", ResourceForms))}
	switch list := fields.IsTrue(r.Get("list")); {
	case list && r.Has("as"):
		refuse(fields.KeyOf(v, "as"), "a list of resources has no `as`", "It says what is read of one.")
	case !list && !r.Has("as"):
		res.As = plan.AsText
	}
	uris := r.Get("uris")
	for _, x := range rep.Texts(uris, "uris") {
		if err := plan.CheckPattern(x.Text); err != nil {
			refuse(x.Range(), fmt.Sprintf("%s is not a pattern of URIs: %s", fields.Quote(x.Text), err), "An example is file:///docs/**, or demo://notes/*.md.")
			continue
		}
		res.URIs = append(res.URIs, x.Text)
	}
	if uris != nil {
		rep.AtMost(uris.Items, plan.MaxURIPatterns, "uris")
		if len(uris.Items) == 0 {
			refuse(fields.Head(uris), "`uris` is empty", "Nothing could be read.")
		}
	}
	slices.Sort(res.URIs)
	if t.Fingerprint != "" && (res.As == "" || res.Literal() == "") {
		refuse(t.Fields.Get("fingerprint").Range(), "a `fingerprint` is that of one resource", "Give one URI without `*`, and no `list: true`.")
	}
	t.Resource = res
	t.InputSchema, t.OutputSchema = resourceInput(res), resourceOutput(res)
}

// resourceInput is the schema of what an operation on resources takes.
func resourceInput(r *plan.Resource) json.RawMessage {
	if r.As == "" {
		return schemaOf(map[string]any{"type": "object", "additionalProperties": false})
	}
	return schemaOf(map[string]any{
		"type": "object", "properties": map[string]any{"uri": uriSchema(r)}, "required": []any{"uri"}, "additionalProperties": false,
	})
}

// resourceOutput is the schema of what it returns. Of the JSON of a resource nothing is known.
func resourceOutput(r *plan.Resource) json.RawMessage {
	text := map[string]any{"type": "string"}
	object := func(properties map[string]any, required ...any) map[string]any {
		return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	switch r.As {
	case plan.AsText:
		return schemaOf(object(map[string]any{"text": text, "mimeType": text}, "text"))
	case plan.AsJSON:
		return schemaOf(object(map[string]any{"value": map[string]any{}}, "value"))
	}
	return schemaOf(object(map[string]any{"resources": map[string]any{"type": "array", "items": object(map[string]any{
		"uri": uriSchema(r), "name": text, "mimeType": text, "description": text,
		"size": map[string]any{"type": "integer"},
	}, "uri", "name")}}, "resources"))
}

func uriSchema(r *plan.Resource) map[string]any {
	return map[string]any{"type": "string", "pattern": r.Pattern(), "maxLength": json.Number(fmt.Sprint(plan.MaxURI))}
}

// schemaOf writes a schema of texts and numbers, which cannot fail.
func schemaOf(schema map[string]any) json.RawMessage {
	raw, err := plan.Canonical(schema)
	if err != nil {
		panic("catalog: " + err.Error())
	}
	return raw
}
