package compiler

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/compiler/internal/pool"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// ParseCatalog reads a catalog file (kind: Catalog), YAML or JSON, of one
// document, and proves what it says of prices and adapters. The catalog is nil
// exactly if the diagnostics hold an error. It is pure.
func ParseCatalog(src Source) (*catalog.Catalog, diag.Diagnostics) {
	u := newUnit(src, nil, nil)
	var cat *catalog.Catalog
	if f := catalog.Read(u.Reader); f != nil {
		cat = u.proveCatalog(f)
	}
	u.Found.Sort()
	if u.Found.HasErrors() {
		return nil, u.Found
	}
	return cat, u.Found
}

// proveCatalog completes a catalog with what its schemas, prices and transforms
// mean.
func (u *unit) proveCatalog(f *catalog.File) *catalog.Catalog {
	u.prover.Grow(len(f.Templates) + len(f.Adapters))
	all := new(catalog.Catalog)
	for _, t := range f.Templates {
		errs := u.Errors
		if u.proveTemplate(t); u.Errors == errs && !t.Refused {
			all.Templates = append(all.Templates, t.Template)
		}
	}
	for _, a := range f.Adapters {
		errs := u.Errors
		if u.proveEntry(a); u.Errors == errs && !a.Refused {
			all.Adapters = append(all.Adapters, a.Adapter)
		}
	}
	// Merging with nothing finds what the file says twice.
	merged, ds := (*catalog.Catalog)(nil).Merge(all)
	for _, d := range ds {
		u.Report(d)
	}
	return merged
}

// proveTemplate reads the schemas of a template and checks what hangs on them: the
// idempotency port, and the price for all that the operation takes and returns.
func (u *unit) proveTemplate(t *catalog.TemplateEntry) {
	var input, output *pool.Schema
	r := t.Fields
	t.InputSchema, input = u.fileSchema(r.Get("input_schema"))
	t.OutputSchema, output = u.fileSchema(r.Get("output_schema"))
	if t.ProviderType == plan.MCP && !r.Has("output_schema") {
		if c, fault := u.templateSchema(json.RawMessage(catalog.ContentSchema)); fault == nil {
			output = c.Schema
		}
	}
	if x := r.Get("idempotency_port"); x != nil && input != nil && !input.Ports().Has(x.Text) {
		u.Report(diag.Diagnostic{
			Code: diag.PlanUnknownPort, Summary: fmt.Sprintf("the input schema has no port %s", fields.Quote(x.Text)),
			Subject: x.Range(), Suggestion: u.Near(x.Text, input.Ports().Names),
		})
	}
	if x := r.Get("cost").Get("expr"); t.Cost != nil && x != nil && x.Kind == syntax.String {
		u.readPrice(x, t.Cost, input, output, t.Name())
	}
}

// proveEntry reads the schemas of an adapter and proves that it gives what it
// promises for all that it takes.
func (u *unit) proveEntry(a *catalog.AdapterEntry) {
	var input, output *pool.Schema
	a.InputSchema, input = u.fileSchema(a.Fields.Get("input_schema"))
	a.OutputSchema, output = u.fileSchema(a.Fields.Get("output_schema"))
	if x := a.Fields.Get("transform"); x != nil {
		if t := u.adapterTemplate(x, a.ID); t != nil {
			a.Transform = t.Raw
			u.proveAdapter(x, t, input, output, a.ID)
		}
	}
}

// fileSchema reads a schema of a catalog, which stands on its own.
func (u *unit) fileSchema(v *syntax.Value) (json.RawMessage, *pool.Schema) {
	if v == nil {
		return nil, nil
	}
	s, err := u.pool.Add(v.Any())
	if err != nil {
		u.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: err.Error(), Subject: fields.Head(v)})
		return nil, nil
	}
	if _, err := s.Compile(); err != nil {
		u.badSchemas(err, v, "")
		return nil, nil
	}
	return s.Raw, s
}
