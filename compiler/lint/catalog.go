package lint

import (
	"encoding/json"
	"slices"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Catalog indexes the operator's catalog by name.
type Catalog struct {
	byName map[string]*catalog.Template
	// operations lists the operations of each provider, sorted; providers their
	// names, sorted.
	operations map[string][]string
	types      map[string]plan.ProviderType
	providers  []string
	names      []string
	// Adapters finds adapters by id; AdapterNames are their ids, sorted.
	Adapters     map[string]*catalog.Adapter
	AdapterNames []string
	pool         *pool.Pool
	// unknown are the providers that were reported, where the catalog has none but the engine's.
	unknown map[string]bool
	// schemas caches the contracts of templates.
	schemas map[*catalog.Template]*Contract
}

// Contract holds the schemas of a template. Fault is what is wrong with them, or
// nil.
type Contract struct {
	Input, Output *Schema
	// Undeclared reports that the tool declares no output, so that Output is
	// the object of the protocol.
	Undeclared bool
	Fault      error
}

// Index indexes a catalog, which may be nil. Schemas go into the pool.
func Index(cat *catalog.Catalog, p *pool.Pool) *Catalog {
	x := &Catalog{
		byName: map[string]*catalog.Template{}, operations: map[string][]string{},
		types: map[string]plan.ProviderType{}, schemas: map[*catalog.Template]*Contract{},
		Adapters: map[string]*catalog.Adapter{}, pool: p,
	}
	if cat == nil {
		return x
	}
	for i := range cat.Templates {
		t := &cat.Templates[i]
		name := catalog.OperationName(t.Provider, t.Operation)
		if x.byName[name] != nil {
			continue
		}
		x.byName[name] = t
		x.names = append(x.names, name)
		if _, known := x.types[t.Provider]; !known {
			x.types[t.Provider] = t.ProviderType
			x.providers = append(x.providers, t.Provider)
		}
		x.operations[t.Provider] = append(x.operations[t.Provider], t.Operation)
	}
	for i := range cat.Adapters {
		a := &cat.Adapters[i]
		if x.Adapters[a.ID] == nil {
			x.Adapters[a.ID] = a
			x.AdapterNames = append(x.AdapterNames, a.ID)
		}
	}
	slices.Sort(x.AdapterNames)
	slices.Sort(x.names)
	slices.Sort(x.providers)
	for _, ops := range x.operations {
		slices.Sort(ops)
	}
	return x
}

// Contract reads the schemas of a template.
func (x *Catalog) Contract(t *catalog.Template) *Contract {
	if c := x.schemas[t]; c != nil {
		return c
	}
	c := new(Contract)
	output := t.OutputSchema
	if c.Undeclared = t.ProviderType == plan.MCP && len(output) == 0; c.Undeclared {
		output = json.RawMessage(catalog.ContentSchema)
	}
	if c.Input, c.Fault = x.Schema(t.InputSchema); c.Fault == nil {
		c.Output, c.Fault = x.Schema(output)
	}
	x.schemas[t] = c
	return c
}

// Schema reads a schema of the catalog. It refers to nothing outside itself.
func (x *Catalog) Schema(raw json.RawMessage) (*Schema, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	value, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	s, err := x.pool.Add(value)
	if err != nil {
		return nil, err
	}
	return &Schema{Schema: s}, nil
}
