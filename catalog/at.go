package catalog

import (
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// FieldAt returns where a field of the template stands in the text of its file, or where the
// template does if it is not there.
func (t *Template) FieldAt(text []byte, field string) diag.Range {
	docs, ds := syntax.Parse(t.Range.File, text, fields.Limits)
	if ds.HasErrors() || len(docs) == 0 {
		return t.Range
	}
	list := docs[0].Root.Get("templates")
	if list == nil {
		return t.Range
	}
	for _, item := range list.Items {
		if name := item.Get("operation"); name != nil && name.Range() == t.Range && item.Get(field) != nil {
			return fields.KeyOf(item, field)
		}
	}
	return t.Range
}

// FieldOf returns the field of a template in which a file says a fact: see [Template.Facts].
func FieldOf(fact string) string {
	switch fact {
	case "egress_allowed":
		return "egress"
	case "no_rollback", "verify":
		return "commit_policy"
	case "given_output_schema":
		return "output_schema"
	}
	return fact
}
