package compiler

import (
	"encoding/json"
	"slices"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/plan"
)

// catalogIndex finds templates by name.
type catalogIndex struct {
	byName map[string]*catalog.Template
	// operations lists the operations of each provider, sorted; providers their
	// names, sorted.
	operations map[string][]string
	types      map[string]plan.ProviderType
	providers  []string
	names      []string
	// adapters finds adapters by id; adapterNames are their ids, sorted.
	adapters     map[string]*catalog.Adapter
	adapterNames []string
	// schemas keeps what was read of each template.
	schemas map[*catalog.Template]*templateContract
}

// templateContract is a template's schemas, read once; fault says what is wrong
// with them.
type templateContract struct {
	input, output *contractSchema
	// undeclared: output is the protocol's object, since the tool declares none.
	undeclared bool
	fault      error
}

func indexCatalog(cat *catalog.Catalog) *catalogIndex {
	x := &catalogIndex{
		byName: map[string]*catalog.Template{}, operations: map[string][]string{},
		types: map[string]plan.ProviderType{}, schemas: map[*catalog.Template]*templateContract{},
		adapters: map[string]*catalog.Adapter{},
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
		if x.adapters[a.ID] == nil {
			x.adapters[a.ID] = a
			x.adapterNames = append(x.adapterNames, a.ID)
		}
	}
	slices.Sort(x.adapterNames)
	slices.Sort(x.names)
	slices.Sort(x.providers)
	for _, ops := range x.operations {
		slices.Sort(ops)
	}
	return x
}

// contract reads the schemas of a template.
func (u *unit) contract(t *catalog.Template) *templateContract {
	if c := u.cat.schemas[t]; c != nil {
		return c
	}
	c := new(templateContract)
	output := t.OutputSchema
	if c.undeclared = t.ProviderType == plan.MCP && len(output) == 0; c.undeclared {
		output = json.RawMessage(catalog.ContentSchema)
	}
	if c.input, c.fault = u.templateSchema(t.InputSchema); c.fault == nil {
		c.output, c.fault = u.templateSchema(output)
	}
	u.cat.schemas[t] = c
	return c
}
