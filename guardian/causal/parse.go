package causal

import (
	"fmt"
	"strconv"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// Parse reads a model's file (kind: CausalModel) of one document, YAML or JSON. The model is nil if and only
// if the diagnostics contain an error. Parse is pure.
func Parse(src diag.Source) (*Model, diag.Diagnostics) { return parse(src, false) }

// ParseDraft reads a model of which mechanisms may be missing, which are to be fitted: see
// [Variable.Drafted]. Its KPIs and bindings may be missing, too.
func ParseDraft(src diag.Source) (*Model, diag.Diagnostics) { return parse(src, true) }

func parse(src diag.Source, draft bool) (*Model, diag.Diagnostics) {
	r := &reading{Reader: fields.NewReader(src), broken: map[[2]string]bool{}}
	r.root = r.Single("causal model", limits)
	var m *Model
	if r.root != nil {
		m = r.model()
	}
	// Where variables are missing, every name might be one of them.
	if m != nil && !r.broken[[2]string{"", "variables"}] {
		c := newChecker(m)
		c.broken = r.broken
		if small := c.check(); small && !draft {
			c.incomplete()
		}
		for i := range c.found {
			r.problem(&c.found[i])
		}
	}
	r.Found.Sort()
	if r.Found.HasErrors() {
		return nil, r.Found
	}
	// Only now, since the places of problems are those of the file.
	m.arrange()
	return m, r.Found
}

// reading reads one file into a model, whose lists are in the order of the file.
type reading struct {
	*fields.Reader
	root *syntax.Value
	// broken are the parts that could not be read, by map and name.
	broken map[[2]string]bool
}

// part reads a part of the file, and notes if it could not.
func (r *reading) part(section, name string, read func()) {
	errs := r.Errors
	read()
	if r.Errors > errs {
		r.broken[[2]string{section, name}] = true
	}
}

// model reads the file. It returns nil if that is no map.
func (r *reading) model() *Model {
	top := r.Read(r.root, ModelFields, "")
	if top == nil {
		return nil
	}
	m := &Model{Samples: DefaultSamples}
	for i := range ModelFields.Fields {
		// What is missing, or of the wrong form, was reported.
		if f := &ModelFields.Fields[i]; top.Get(f.Name) == nil && (f.Required || top.Has(f.Name)) {
			r.broken[[2]string{"", f.Name}] = true
		}
	}
	r.Fixed(top, "apiVersion", fields.APIVersion)
	r.Fixed(top, "kind", "CausalModel")
	m.Name, m.Version, m.Description = text(top.Get("name")), text(top.Get("version")), text(top.Get("description"))
	if v := top.Get("version"); v != nil && v.Text == "" {
		r.Name(v, "version", fields.Versions)
	}
	r.part("", "operations", func() {
		m.Operations = texts(r.AtMost(r.Texts(top.Get("operations"), "operations"), MaxOperations, "operations"))
	})
	r.part("", "samples", func() {
		if n, ok := r.Whole(top.Get("samples"), "samples", MinSamples, MaxSamples); ok {
			m.Samples = int(n)
		}
	})
	r.each(top, "variables", MaxVariables, func(name string, v *syntax.Value) {
		m.Variables = append(m.Variables, r.variable(name, v))
	})
	r.each(top, "bind", MaxVariables, func(name string, v *syntax.Value) {
		m.Bind = append(m.Bind, Binding{name, r.expression(v, name)})
	})
	r.each(top, "kpis", MaxKPIs, func(name string, v *syntax.Value) { m.KPIs = append(m.KPIs, r.kpi(name, v)) })
	r.each(top, "observe", MaxKPIs, func(name string, v *syntax.Value) {
		m.Observe = append(m.Observe, Binding{name, r.expression(v, name)})
	})
	return m
}

// each reads the entries of a map, of bounded length.
func (r *reading) each(top *fields.Record, section string, most int, read func(name string, v *syntax.Value)) {
	v := top.Get(section)
	for _, f := range r.entries(v, most, section) {
		r.part(section, f.Key.Text, func() { read(f.Key.Text, f.Value) })
	}
	if v != nil && len(v.Fields) > most {
		r.broken[[2]string{"", section}] = true
	}
}

// entries returns the first entries of a map, and reports if there are more.
func (r *reading) entries(v *syntax.Value, most int, name string) []syntax.Field {
	if v == nil {
		return nil
	}
	if len(v.Fields) <= most {
		return v.Fields
	}
	r.Report(diag.Diagnostic{
		Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` has %d entries", name, len(v.Fields)),
		Detail: fmt.Sprintf("It has at most %d.", most), Subject: v.Fields[most].Key.Range(),
	})
	return v.Fields[:most]
}

// form reports what is not of a form that is asked for, and whether it is.
func (r *reading) form(v *syntax.Value, f fields.Form, what string) bool {
	if fields.FormOf(v.Kind)&f != 0 {
		return true
	}
	d := diag.Diagnostic{Code: diag.PlanSchema, Summary: fmt.Sprintf("%s is %s, not %s", what, f, fields.KindOf(v)), Subject: fields.OneLine(v)}
	if f == fields.FormText && (v.Kind == syntax.Number || v.Kind == syntax.Bool) {
		d.Detail = "YAML reads it as " + fields.KindOf(v) + " unless it is quoted."
		d.Suggestion = strconv.Quote(r.Text(v))
	}
	r.Report(d)
	return false
}

// expression reads a text of CEL.
func (r *reading) expression(v *syntax.Value, name string) string {
	if v == nil || !r.form(v, fields.FormText, fields.Quote(name)) || !embedded.Quoted(r.Reader, v, "", "") {
		return ""
	}
	if v.Text == "" {
		r.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.Range()})
	}
	return v.Text
}

// number reads a number, or 0 if it is absent.
func (r *reading) number(v *syntax.Value, name string) float64 {
	if v == nil || !r.form(v, fields.FormNumber, fields.Quote(name)) {
		return 0
	}
	x, err := strconv.ParseFloat(v.Text, 64)
	if err != nil {
		r.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("%s is out of range: %s", fields.Quote(name), fields.Quote(v.Text)),
			Detail: fmt.Sprintf("A number lies between %s and %s.", number(-MaxNumber), number(MaxNumber)), Subject: v.Range(),
		})
		return 0
	}
	if x == 0 {
		return 0 // without a sign
	}
	return x
}

// optional reads a number, or nil if it is absent.
func (r *reading) optional(v *syntax.Value, name string) *float64 {
	if v == nil {
		return nil
	}
	x := r.number(v, name)
	return &x
}

// numbers reads a map of numbers. It returns nil if that is absent.
func (r *reading) numbers(v *syntax.Value, most int, name string) map[string]float64 {
	if v == nil {
		return nil
	}
	out := map[string]float64{}
	for _, f := range r.entries(v, most, name) {
		out[f.Key.Text] = r.number(f.Value, f.Key.Text)
	}
	return out
}

// list reads a list of texts. It is not nil if it is there.
func (r *reading) list(v *syntax.Value, most int, name string) []string {
	if v == nil {
		return nil
	}
	return append([]string{}, texts(r.Texts(&syntax.Value{Parts: &syntax.Parts{Items: r.AtMost(v.Items, most, name)}}, name))...)
}

// problem reports a problem of the model in its place.
func (r *reading) problem(p *Problem) {
	key, v := r.root, r.root
	complete := true
	for _, step := range p.Path {
		k, next := follow(v, step)
		if next == nil {
			complete = false
			break
		}
		key, v = k, next
	}
	at := fields.OneLine(v)
	switch {
	case !complete && v != r.root, p.place == atKey && complete:
		at = key.Range()
	case !complete:
		at = fields.Head(v)
	case p.place == atOffset:
		at = embedded.Point(v, p.offset)
	}
	d := diag.Diagnostic{Code: p.Code, Summary: p.Summary, Detail: p.Detail, Suggestion: p.Suggestion, Subject: at}
	if p.place == atOffset {
		d.Context = v.Range()
	}
	if p.replaces && complete {
		d.Edits = r.Replace(at, p.Suggestion)
	}
	r.Report(d)
}

// follow is the key and the value that a step of a path leads to. An item is its own key.
func follow(v *syntax.Value, step any) (key, value *syntax.Value) {
	switch s := step.(type) {
	case string:
		for i := range v.Fields {
			if v.Fields[i].Key.Text == s {
				return v.Fields[i].Key, v.Fields[i].Value
			}
		}
	case int:
		if s >= 0 && s < len(v.Items) {
			return v.Items[s], v.Items[s]
		}
	}
	return nil, nil
}

func text(v *syntax.Value) string {
	if v == nil {
		return ""
	}
	return v.Text
}

func texts(list []*syntax.Value) (out []string) {
	for _, v := range list {
		out = append(out, v.Text)
	}
	return out
}
