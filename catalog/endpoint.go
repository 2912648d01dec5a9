package catalog

import (
	"fmt"
	"slices"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// MaxEndpoints bounds a template's endpoints.
const MaxEndpoints = 64

// readPlace reads where the operation may be called, and what its server says to models.
func (t *TemplateEntry) readPlace(rep *fields.Reader, r *fields.Record) {
	refuse := func(field, summary, detail string) {
		rep.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: summary, Detail: detail, Subject: fields.KeyOf(r.At, field)})
	}
	if list := r.Get("endpoints"); list != nil {
		if len(list.Items) == 0 {
			refuse("endpoints", fmt.Sprintf("template %s names no endpoint", fields.Quote(t.Name())), "Leave `endpoints` out if it may be called wherever it is.")
		}
		for _, item := range rep.AtMost(rep.Texts(list, "endpoints"), MaxEndpoints, "endpoints") {
			if digest := rep.Named(item, "endpoints", fields.Fingerprints); digest != "" {
				t.Endpoints = append(t.Endpoints, digest)
			}
		}
		slices.Sort(t.Endpoints)
		if t.InProcess {
			refuse("endpoints", "a Go skill of this build has no endpoint", "It is a part of the worker.")
		}
	}
	t.Instructions = rep.Named(r.Get("instructions"), "instructions", fields.Fingerprints)
	if t.Instructions != "" && t.ProviderType == plan.Skill {
		refuse("instructions", "only MCP servers have instructions", "")
	}
}
