package guardian

import (
	"time"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// QuestionFields are those of a question, whose action and given are as in a case.
var QuestionFields = &fields.Table{What: "a question", Fields: []fields.Field{
	fields.Required("action", fields.FormMap, "the call that is judged"),
	fields.Optional("given", fields.FormMap, "what is known besides; an absent time is now"),
}}

// ParseQuestion reads what somebody asks about an action, a JSON object. The catalog says
// what effect an operation has. The result is nil if the diagnostics contain an error.
func ParseQuestion(src diag.Source, cat *catalog.Catalog, now time.Time) (*Case, diag.Diagnostics) {
	rep := fields.NewReader(src)
	c := readQuestion(rep, cat, now)
	rep.Found.Sort()
	if rep.Found.HasErrors() {
		return nil, rep.Found
	}
	return c, rep.Found
}

func readQuestion(rep *fields.Reader, cat *catalog.Catalog, now time.Time) *Case {
	root := rep.Single("question", fields.Limits)
	if root == nil {
		return nil
	}
	r := rep.Read(root, QuestionFields, "")
	if r == nil {
		return nil
	}
	c := new(Case)
	readAction(rep, c, r.Get("action"), effects(cat))
	readGiven(rep, c, r.Get("given"))
	if given := r.Get("given"); given == nil || given.Get("at") == nil {
		c.Facts.At = now
	}
	return c
}

// effects are the classes of a catalog's operations, by name.
func effects(cat *catalog.Catalog) map[string]plan.EffectClass {
	all := map[string]plan.EffectClass{}
	if cat != nil {
		for i := range cat.Templates {
			all[cat.Templates[i].Name()] = cat.Templates[i].Effect
		}
	}
	return all
}
