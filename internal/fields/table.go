package fields

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// Form is a set of JSON types that a field takes.
type Form uint8

// The JSON types.
const (
	FormText Form = 1 << iota
	FormNumber
	FormBool
	FormList
	FormMap
	FormNull

	FormSchema = FormMap | FormBool
	FormAny    = FormText | FormNumber | FormBool | FormList | FormMap | FormNull
)

// FormOf is the form of a value.
func FormOf(k syntax.Kind) Form {
	switch k {
	case syntax.String:
		return FormText
	case syntax.Number:
		return FormNumber
	case syntax.Bool:
		return FormBool
	case syntax.List:
		return FormList
	case syntax.Map:
		return FormMap
	case syntax.Null:
	}
	return FormNull
}

func (f Form) String() string {
	if f == FormAny {
		return "any value"
	}
	var names []string
	for _, n := range []struct {
		f Form
		s string
	}{{FormText, "a string"}, {FormNumber, "a number"}, {FormBool, "true or false"}, {FormList, "a list"}, {FormMap, "a map"}, {FormNull, "null"}} {
		if f&n.f != 0 {
			names = append(names, n.s)
		}
	}
	return strings.Join(names, " or ")
}

// Field is one entry of a table.
type Field struct {
	Name     string
	Form     Form
	Required bool
	// Say completes the sentence "`name` is …" in messages and schemas.
	Say string
	// Elsewhere are names that such a field has in other notations, in lower case; Surely are
	// those of them that mean nothing else.
	Elsewhere, Surely []string
	// Usual returns what the field probably is where it is missing from a map, and whether that
	// is certain; it may be nil.
	Usual func(at *syntax.Value) (value string, sure bool)
}

// Called returns the field with names that it has in other notations, in lower case.
func (f Field) Called(elsewhere ...string) Field {
	f.Elsewhere = elsewhere
	return f
}

// SurelyCalled returns the field with names of other notations that mean nothing else, in lower
// case.
func (f Field) SurelyCalled(elsewhere ...string) Field {
	f.Elsewhere, f.Surely = append(slices.Clone(elsewhere), f.Elsewhere...), elsewhere
	return f
}

// Usually returns the field with what it probably is where it is missing.
func (f Field) Usually(usual func(at *syntax.Value) (value string, sure bool)) Field {
	f.Usual = usual
	return f
}

// Required returns a field that must be present; say completes "`name` is …".
func Required(name string, form Form, say string) Field {
	return Field{Name: name, Form: form, Required: true, Say: say}
}

// Optional returns a field that may be left out; say completes "`name` is …".
func Optional(name string, form Form, say string) Field {
	return Field{Name: name, Form: form, Say: say}
}

// Table is the closed set of fields of one construct.
type Table struct {
	// What names the construct: "a node".
	What   string
	Fields []Field
	// Nested lists the tables of the maps in it, for fields that are one level
	// too high.
	Nested []Nested
}

// Nested is the table of the map that a field takes.
type Nested struct {
	Field string
	Table *Table
}

func (t *Table) names() []string {
	names := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		names[i] = f.Name
	}
	return names
}

// Record is a map that was read by a table.
type Record struct {
	Table *Table
	At    *syntax.Value
	vals  []*syntax.Value
	// Complete reports that every required field is present in the right form.
	Complete bool
	// Meant are the fields that unknown ones were probably meant to be.
	Meant []string
}

// Get returns the field's value, or nil if it is absent or was refused.
func (r *Record) Get(name string) *syntax.Value {
	if r == nil {
		return nil
	}
	for i := range r.Table.Fields {
		if r.Table.Fields[i].Name == name {
			return r.vals[i]
		}
	}
	panic("fields: no field " + name + " in the table of " + r.Table.What)
}

// Has reports whether the source holds the field, sound or not.
func (r *Record) Has(name string) bool { return r != nil && r.At.Get(name) != nil }

// Read reads v by the table and reports unknown, malformed and missing fields. id
// names the construct in messages, or is "". The record is nil if v is not a map.
func (rep *Reader) Read(v *syntax.Value, t *Table, id string) *Record {
	what := t.What
	if id != "" {
		what = strings.TrimPrefix(strings.TrimPrefix(what, "a "), "an ") + " " + Quote(id)
	}
	if v.Kind != syntax.Map {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("%s is a map, not %s", t.What, KindOf(v)),
			Detail: "Its fields are: " + strings.Join(t.names(), ", ") + ".", Subject: v.Range(),
		})
		return nil
	}
	r := &Record{Table: t, At: v, vals: make([]*syntax.Value, len(t.Fields)), Complete: true}
	seen := make([]bool, len(t.Fields))
	for i := range v.Fields {
		key, val := v.Fields[i].Key, v.Fields[i].Value
		at := slices.IndexFunc(t.Fields, func(f Field) bool { return f.Name == key.Text })
		if at < 0 {
			r.Meant = append(r.Meant, rep.unknownField(r, key, val, what))
			continue
		}
		seen[at] = true
		f := &t.Fields[at]
		if FormOf(val.Kind)&f.Form == 0 {
			rep.wrongForm(r, f, key, val)
			r.Complete = r.Complete && !f.Required
			continue
		}
		r.vals[at] = val
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if !f.Required || seen[i] {
			continue
		}
		r.Complete = false
		if slices.Contains(r.Meant, f.Name) {
			continue // the unknown field says it
		}
		detail := ""
		if f.Say != "" {
			detail = fmt.Sprintf("`%s` is %s.", f.Name, f.Say)
		}
		d := diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("%s has no `%s`", what, f.Name),
			Detail: detail, Subject: Head(v),
		}
		if f.Usual != nil {
			if value, sure := f.Usual(v); value != "" {
				d.Suggestion, d.Edits = f.Name+": "+Inline(value), rep.Set(v, f.Name, value)
				if sure {
					d.Applicability = diag.Certain
				}
			}
		}
		rep.Report(d)
	}
	return r
}

// Meaning is what is meant by a field that a table does not have.
type Meaning struct {
	// Field is the field that is meant, or "".
	Field string
	// Suggestion is what to write, and Detail why, or "".
	Suggestion, Detail string
	// Text takes the place of the field and its value, if it is not "". Certain reports that
	// this is what is meant.
	Text    string
	Certain bool
}

// unknownField reports a field that the table of r does not have, and gives the one
// that was probably meant, or "".
func (rep *Reader) unknownField(r *Record, key, val *syntax.Value, what string) string {
	t := r.Table
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("unknown field %s in %s", Quote(key.Text), what),
		Detail:  "The fields here are: " + strings.Join(t.names(), ", ") + ".",
		Subject: key.Range(), Suggestion: rep.Near(key.Text, t.names()),
	}
	other := t.elsewhere(key.Text, FormOf(val.Kind))
	if other != "" {
		d.Suggestion = other
	}
	if rep.Foreign != nil {
		if m, ok := rep.Foreign(t, r.At, key, val); ok {
			return rep.foreign(d, m, key, val)
		}
	}
	meant := d.Suggestion
	for _, inner := range t.Nested {
		if slices.Contains(inner.Table.names(), key.Text) {
			d.Suggestion = fmt.Sprintf("%s: {%s: …}", inner.Field, key.Text)
			meant = ""
		}
	}
	if meant != "" && r.At.Get(meant) == nil && !slices.Contains(r.Meant, meant) {
		d.Edits = rep.Replace(key.Range(), meant)
		if t.surely(key.Text, meant) || t.onlySlip(key.Text, meant, FormOf(val.Kind)) {
			d.Applicability = diag.Certain
		}
	}
	rep.Report(d)
	return meant
}

// foreign reports a field that means something else here.
func (rep *Reader) foreign(d diag.Diagnostic, m Meaning, key, val *syntax.Value) string {
	d.Suggestion, d.Applicability = m.Suggestion, ""
	if m.Detail != "" {
		d.Detail = m.Detail
	}
	at := diag.Range{File: key.Range().File, Start: key.Range().Start, End: val.Range().End}
	if old, ok := rep.at(at); ok && m.Text != "" && !strings.Contains(old, "\n") && !rep.json() {
		d.Edits = []diag.Edit{{Range: at, Replacement: m.Text}}
		if m.Certain {
			d.Applicability = diag.Certain
		}
	}
	rep.Report(d)
	return m.Field
}

// elsewhere returns the field that has a name in other notations, and takes a value of the
// given form, or "".
func (t *Table) elsewhere(name string, given Form) string {
	name = strings.ToLower(name)
	for i := range t.Fields {
		if f := &t.Fields[i]; f.Form&given != 0 && slices.Contains(f.Elsewhere, name) {
			return f.Name
		}
	}
	return ""
}

// surely reports whether a name of other notations means a field and nothing else.
func (t *Table) surely(name, meant string) bool {
	at := slices.IndexFunc(t.Fields, func(f Field) bool { return f.Name == meant })
	return at >= 0 && slices.Contains(t.Fields[at].Surely, strings.ToLower(name))
}

// onlySlip reports whether name is a slip of meant, of no other field, and has a
// value of the form that meant takes.
func (t *Table) onlySlip(name, meant string, given Form) bool {
	at := slices.IndexFunc(t.Fields, func(f Field) bool { return f.Name == meant })
	return t.Fields[at].Form&given != 0 && onlySlip(name, meant, t.names())
}

// onlySlip reports whether a word is a slip of meant, and of no other word of a set.
func onlySlip(word, meant string, set []string) bool {
	others := slices.DeleteFunc(slices.Clone(set), func(s string) bool { return s == meant })
	return syntax.Slip(word, meant) && syntax.Nearest(word, others) == ""
}

func (rep *Reader) wrongForm(r *Record, f *Field, key, val *syntax.Value) {
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is %s, not %s", f.Name, f.Form, KindOf(val)),
		Subject: val.Range(), Context: key.Range(),
	}
	if f.Say != "" {
		d.Detail = fmt.Sprintf("`%s` is %s.", f.Name, f.Say)
	}
	switch {
	case val.Kind == syntax.Null:
		d.Summary = fmt.Sprintf("`%s` is empty", f.Name)
		d.Subject = key.Range()
		d.Context = diag.Range{}
		d.Detail = strings.TrimSpace(d.Detail + " Give it a value or leave the field out.")
	case f.Form == FormBool && val.Kind == syntax.String:
		switch strings.ToLower(val.Text) {
		case "true", "yes", "on", "y":
			d.Suggestion = f.Name + ": true"
			d.Edits = rep.Replace(val.Range(), true)
		case "false", "no", "off", "n":
			d.Suggestion = f.Name + ": false"
			d.Edits = rep.Replace(val.Range(), false)
		}
	case f.Form == FormNumber && val.Kind == syntax.String:
		if plainNumber.MatchString(val.Text) {
			d.Suggestion = f.Name + ": " + val.Text
			d.Edits = rep.Replace(val.Range(), json.Number(val.Text))
		}
	case f.Form == FormText && (val.Kind == syntax.Number || val.Kind == syntax.Bool):
		d.Detail = strings.TrimSpace(d.Detail + " YAML reads it as " + KindOf(val) + " unless it is quoted.")
		d.Suggestion = fmt.Sprintf("%s: %q", f.Name, rep.Text(val))
		if text, ok := rep.at(val.Range()); ok {
			d.Edits = []diag.Edit{{Range: val.Range(), Replacement: quoted(text)}}
		}
	}
	d.Applicability = diag.Certain
	if rep.Foreign != nil && len(d.Edits) == 0 {
		if m, ok := rep.Foreign(r.Table, r.At, key, val); ok {
			rep.foreign(d, m, key, val)
			return
		}
	}
	rep.Report(d)
}

// plainNumber is a number that somebody put in quotes.
var plainNumber = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,18})?$`)

// KindOf names a value's type for people.
func KindOf(v *syntax.Value) string {
	switch v.Kind {
	case syntax.Null:
		return "null"
	case syntax.Bool:
		return "a boolean"
	case syntax.Number:
		return "a number"
	case syntax.String:
		return "a string"
	case syntax.List:
		return "a list"
	case syntax.Map:
	}
	return "a map"
}
