package compiler

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// form is a set of JSON types that a field takes.
type form uint8

const (
	formText form = 1 << iota
	formNumber
	formBool
	formList
	formMap
	formNull

	formSchema = formMap | formBool
	formAny    = formText | formNumber | formBool | formList | formMap | formNull
)

func formOf(k syntax.Kind) form {
	switch k {
	case syntax.String:
		return formText
	case syntax.Number:
		return formNumber
	case syntax.Bool:
		return formBool
	case syntax.List:
		return formList
	case syntax.Map:
		return formMap
	case syntax.Null:
	}
	return formNull
}

func (f form) String() string {
	if f == formAny {
		return "any value"
	}
	var names []string
	for _, n := range []struct {
		f form
		s string
	}{{formText, "a string"}, {formNumber, "a number"}, {formBool, "true or false"}, {formList, "a list"}, {formMap, "a map"}, {formNull, "null"}} {
		if f&n.f != 0 {
			names = append(names, n.s)
		}
	}
	return strings.Join(names, " or ")
}

// field is one entry of a table.
type field struct {
	name     string
	form     form
	required bool
	// say completes the sentence "`name` is …" in messages and schemas.
	say string
}

// table is the closed set of fields of one construct.
type table struct {
	// what names the construct: "a node".
	what   string
	fields []field
	// open: further fields are the business of the caller.
	open bool
}

func (t *table) names() []string {
	names := make([]string, len(t.fields))
	for i, f := range t.fields {
		names[i] = f.name
	}
	return names
}

// record is a map that was read by a table.
type record struct {
	table *table
	at    *syntax.Value
	vals  []*syntax.Value
	// complete: every required field is there in the right form.
	complete bool
	// meant are the fields that unknown ones were probably meant to be.
	meant []string
}

// get returns the field's value, or nil if it is absent or was refused.
func (r *record) get(name string) *syntax.Value {
	if r == nil {
		return nil
	}
	for i := range r.table.fields {
		if r.table.fields[i].name == name {
			return r.vals[i]
		}
	}
	panic("compiler: no field " + name + " in the table of " + r.table.what)
}

// has reports whether the source holds the field, sound or not.
func (r *record) has(name string) bool { return r != nil && r.at.Get(name) != nil }

// read reads v by the table and reports unknown fields, wrong forms and what
// is missing. id names the construct in messages, or is "". The record is nil
// if v is no map.
func (rep *reporter) read(v *syntax.Value, t *table, id string) *record {
	what := t.what
	if id != "" {
		what = strings.TrimPrefix(strings.TrimPrefix(what, "a "), "an ") + " " + quote(id)
	}
	if v.Kind != syntax.Map {
		rep.report(diag.Diagnostic{
			Code:    diag.PlanSchema,
			Summary: fmt.Sprintf("%s is a map, not %s", t.what, kindName(v)),
			Detail:  "Its fields are: " + strings.Join(t.names(), ", ") + ".",
			Subject: v.Range(),
		})
		return nil
	}
	r := &record{table: t, at: v, vals: make([]*syntax.Value, len(t.fields)), complete: true}
	seen := make([]bool, len(t.fields))
	for i := range v.Fields {
		key, val := v.Fields[i].Key, v.Fields[i].Value
		at := slices.IndexFunc(t.fields, func(f field) bool { return f.name == key.Text })
		if at < 0 {
			if !t.open {
				r.meant = append(r.meant, rep.unknownField(key, t, what))
			}
			continue
		}
		seen[at] = true
		f := &t.fields[at]
		if formOf(val.Kind)&f.form == 0 {
			rep.wrongForm(f, key, val)
			r.complete = r.complete && !f.required
			continue
		}
		r.vals[at] = val
	}
	for i := range t.fields {
		f := &t.fields[i]
		if !f.required || seen[i] {
			continue
		}
		r.complete = false
		if slices.Contains(r.meant, f.name) {
			continue // the unknown field says it
		}
		detail := ""
		if f.say != "" {
			detail = fmt.Sprintf("`%s` is %s.", f.name, f.say)
		}
		rep.report(diag.Diagnostic{
			Code:    diag.PlanSchema,
			Summary: fmt.Sprintf("%s has no `%s`", what, f.name),
			Detail:  detail,
			Subject: head(v),
		})
	}
	return r
}

// unknownField reports a field that a table does not have, and gives the one that
// was probably meant, or "".
func (rep *reporter) unknownField(key *syntax.Value, t *table, what string) string {
	d := diag.Diagnostic{
		Code:       diag.PlanSchema,
		Summary:    fmt.Sprintf("unknown field %s in %s", quote(key.Text), what),
		Detail:     "The fields here are: " + strings.Join(t.names(), ", ") + ".",
		Subject:    key.Range(),
		Suggestion: rep.near(key.Text, t.names()),
	}
	meant := d.Suggestion
	for _, inner := range nested[t] {
		if slices.Contains(inner.table.names(), key.Text) {
			d.Suggestion = fmt.Sprintf("%s: {%s: …}", inner.field, key.Text)
			meant = ""
		}
	}
	rep.report(d)
	return meant
}

func (rep *reporter) wrongForm(f *field, key, val *syntax.Value) {
	d := diag.Diagnostic{
		Code:    diag.PlanSchema,
		Summary: fmt.Sprintf("`%s` is %s, not %s", f.name, f.form, kindName(val)),
		Subject: val.Range(),
		Context: key.Range(),
	}
	if f.say != "" {
		d.Detail = fmt.Sprintf("`%s` is %s.", f.name, f.say)
	}
	switch {
	case val.Kind == syntax.Null:
		d.Summary = fmt.Sprintf("`%s` is empty", f.name)
		d.Subject = key.Range()
		d.Context = diag.Range{}
		d.Detail = strings.TrimSpace(d.Detail + " Give it a value or leave the field out.")
	case f.form == formBool && val.Kind == syntax.String:
		switch strings.ToLower(val.Text) {
		case "true", "yes", "on", "y":
			d.Suggestion = f.name + ": true"
		case "false", "no", "off", "n":
			d.Suggestion = f.name + ": false"
		}
	case f.form == formNumber && val.Kind == syntax.String:
		if plainNumber.MatchString(val.Text) {
			d.Suggestion = f.name + ": " + val.Text
		}
	case f.form == formText && (val.Kind == syntax.Number || val.Kind == syntax.Bool):
		d.Detail = strings.TrimSpace(d.Detail + " YAML reads it as " + kindName(val) + " unless it is quoted.")
		d.Suggestion = fmt.Sprintf("%s: %q", f.name, rep.source(val))
	}
	rep.report(d)
}

// plainNumber is a number that somebody put in quotes.
var plainNumber = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,18})?$`)

// head is the token that stands for a whole map or list in messages: its first
// key, else itself.
func head(v *syntax.Value) diag.Range {
	if v.Kind == syntax.Map && len(v.Fields) > 0 {
		return v.Fields[0].Key.Range()
	}
	return v.Range()
}

// kindName names a value's type for people.
func kindName(v *syntax.Value) string {
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

// quote writes a name from the source for a message: bounded, on one line, with
// nothing hidden in it.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		cut := most
		for cut > 0 && s[cut]&0xC0 == 0x80 {
			cut--
		}
		s = s[:cut] + "…"
	}
	for _, r := range s {
		if r == '`' || !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return "`" + s + "`"
}
