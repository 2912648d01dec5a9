package host

import (
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
)

// Catalog returns a registry of the built-in skills and extra, and a catalog with them
// and the operations of base, which may be nil.
func Catalog(base *catalog.Catalog, extra []skills.Skill) (*skills.Registry, *catalog.Catalog, error) {
	registry := new(skills.Registry)
	own := new(catalog.Catalog)
	for _, s := range append(skills.Builtin(), extra...) {
		if err := registry.Register(s); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range registry.All() {
		own.Templates = append(own.Templates, catalog.Template{
			ProviderType: plan.Skill, Provider: s.Provider, Operation: s.Operation, Description: s.Description,
			Mode: s.Mode, Effect: plan.Pure, InputSchema: s.InputSchema, OutputSchema: s.OutputSchema,
			Trust: plan.AllowAuto, Status: plan.AllowAuto, InProcess: true,
		})
	}
	merged, conflicts := own.Merge(base)
	if conflicts.HasErrors() {
		d := conflicts[0]
		return nil, nil, fmt.Errorf("catalog: %s:%d: %s", d.Subject.File, d.Subject.Start.Line, d.Summary)
	}
	return registry, merged, nil
}
