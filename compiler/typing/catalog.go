package typing

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// ProveCatalog compiles the schemas of a catalog file, and proves what it states
// about prices and adapters.
func ProveCatalog(rep *fields.Reader, f *catalog.File) *catalog.Catalog {
	schemas, prover := new(pool.Pool), proof.New(rep)
	check := newChecker(rep, schemas, prover, &lint.Graph{Catalog: lint.Index(nil, schemas)})
	prover.Extend(len(f.Templates) + len(f.Adapters))
	all := &catalog.Catalog{Servers: f.Servers, Statements: f.Statements, StatementsAt: f.StatementsAt}
	for _, t := range f.Templates {
		errs := check.Errors
		if check.proveTemplate(t); check.Errors == errs && !t.Refused {
			all.Templates = append(all.Templates, t.Template)
		}
	}
	for _, a := range f.Adapters {
		errs := check.Errors
		if check.proveEntry(a); check.Errors == errs && !a.Refused {
			all.Adapters = append(all.Adapters, a.Adapter)
		}
	}
	// Merging with nothing finds duplicates within the file.
	merged, ds := (*catalog.Catalog)(nil).Merge(all)
	for _, d := range ds {
		check.Report(d)
	}
	return merged
}

// proveTemplate reads the schemas of a template and checks what depends on them:
// the idempotency port, and the price for every input and output of the operation.
func (check *checker) proveTemplate(t *catalog.TemplateEntry) {
	var input, output *pool.Schema
	r := t.Fields
	t.InputSchema, input = check.stated(t.Input, t.InputSchema)
	t.OutputSchema, output = check.stated(t.Output, t.OutputSchema)
	if t.ProviderType == plan.MCP && output == nil && t.Output == nil {
		if c, fault := check.Catalog.Schema(json.RawMessage(catalog.ContentSchema)); fault == nil {
			output = c.Schema
		}
	}
	if x := r.Get("idempotency_port"); x != nil && input != nil {
		check.proveKey(x, input)
	}
	if x := r.Get("cost").Get("expr"); t.Cost != nil && x != nil && x.Kind == syntax.String {
		check.readPrice(x, t.Cost, input, output, t.Name())
	}
}

// proveKey checks that the port x of an operation takes every idempotency key.
func (check *checker) proveKey(x *syntax.Value, input *pool.Schema) {
	s := input.Usable()
	switch {
	case !input.Ports().Has(x.Text):
		check.Report(diag.Diagnostic{
			Code: diag.PlanUnknownPort, Summary: fmt.Sprintf("the input schema has no port %s", fields.Quote(x.Text)),
			Subject: x.Range(), Suggestion: check.Near(x.Text, input.Ports().Names),
		})
	case s != nil && !check.prover.Holds(check.keys(), check.prover.Property(s, x.Text)):
		check.Report(diag.Diagnostic{
			Code: diag.TypeNotContained, Summary: fmt.Sprintf("port %s does not take every idempotency key", fields.Quote(x.Text)),
			Detail: "A run gives each effect a key of 32 hexadecimal digits, in lower case.", Subject: x.Range(),
		})
	}
}

// proveEntry reads the schemas of an adapter and proves that its output schema
// holds for every input it accepts.
func (check *checker) proveEntry(a *catalog.AdapterEntry) {
	var input, output *pool.Schema
	a.InputSchema, input = check.fileSchema(a.Fields.Get("input_schema"))
	a.OutputSchema, output = check.fileSchema(a.Fields.Get("output_schema"))
	if x := a.Fields.Get("transform"); x != nil {
		if t := check.adapterTemplate(x, a.ID); t != nil {
			a.Transform = t.Raw
			check.proveAdapter(x, t, input, output, a.ID)
		}
	}
}

// stated reads a schema of a catalog file, or, if that has none, the one that follows from the rest
// of a template.
func (check *checker) stated(v *syntax.Value, follows json.RawMessage) (json.RawMessage, *pool.Schema) {
	if v != nil || len(follows) == 0 {
		return check.fileSchema(v)
	}
	s, fault := check.Catalog.Schema(follows)
	if fault != nil {
		return nil, nil
	}
	return s.Raw, s.Schema
}

// fileSchema reads a schema of a catalog file.
func (check *checker) fileSchema(v *syntax.Value) (json.RawMessage, *pool.Schema) {
	if v == nil {
		return nil, nil
	}
	s, err := check.pool.Add(v.Any())
	if err != nil {
		check.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: err.Error(), Subject: fields.Head(v)})
		return nil, nil
	}
	if _, err := s.Compile(); err != nil {
		check.badSchemas(err, v, "")
		return nil, nil
	}
	return s.Raw, s
}
