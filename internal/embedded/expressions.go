// Package embedded compiles the expressions in a document, and reports what is
// wrong with one in its place, with what its author probably meant.
package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/parallel"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Expressions compiles the expressions of a file, each text once, and reports what
// is wrong with them.
type Expressions struct {
	*fields.Reader
	predicates map[Source]predicateResult
	templates  map[Source]templateResult
	// guesses is the work left for finding expressions of other languages in
	// texts.
	guesses int
	// elsewhere reports whether the file has something of that name that
	// expressions cannot read.
	elsewhere func(name string) bool
}

// NewExpressions returns the expressions of a file. elsewhere distinguishes names
// that expressions cannot read from misspelt ones.
func NewExpressions(rep *fields.Reader, elsewhere func(name string) bool) *Expressions {
	return &Expressions{
		Reader: rep, elsewhere: elsewhere, guesses: maxLookalikes,
		predicates: map[Source]predicateResult{}, templates: map[Source]templateResult{},
	}
}

// CompilePredicates compiles predicates in parallel. The results do not depend on
// the order.
func (u *Expressions) CompilePredicates(keys []Source) {
	var todo []Source
	for _, key := range keys {
		if _, known := u.predicates[key]; !known {
			u.predicates[key] = predicateResult{}
			todo = append(todo, key)
		}
	}
	made := make([]predicateResult, len(todo))
	parallel.Do(len(todo), func(i int) {
		made[i].program, made[i].err = expr.CompilePredicate(todo[i].Text, todo[i].Scope)
	})
	for i, key := range todo {
		u.predicates[key] = made[i]
	}
}

// Template is a compiled JSON template.
type Template struct {
	*expr.Template
	// Value is what stands in the document, Raw its canonical text.
	Value any
	Raw   json.RawMessage
	Scope expr.Scope
	// Converted reports that Value has conversions of numbers that Template
	// does not.
	Converted bool
}

// Fixed is the value of a constant template: what stands in the document, with its escapes undone.
func (t *Template) Fixed() any {
	if v, err := t.Eval(nil); err == nil {
		return v
	}
	return t.Value
}

// Source is the text of an expression, and what it may read.
type Source struct {
	Text  string
	Scope expr.Scope
}

type predicateResult struct {
	program *expr.Program
	err     error
}

type templateResult struct {
	template *Template
	errs     []expr.TemplateError
}

// Predicate compiles a CEL predicate, or reports why not and returns nil.
func (u *Expressions) Predicate(v *syntax.Value, scope expr.Scope, node, edge string) *expr.Program {
	if v == nil || !u.Quoted(v, node, edge) {
		return nil
	}
	if strings.TrimSpace(v.Text) == "" {
		return nil
	}
	key := Source{v.Text, scope}
	r, ok := u.predicates[key]
	if !ok {
		r.program, r.err = expr.CompilePredicate(v.Text, scope)
		u.predicates[key] = r
	}
	if r.err == nil {
		return r.program
	}
	at, bad := v.Range(), expr.Error{Message: r.err.Error()}
	var where *expr.Error
	if errors.As(r.err, &where) {
		at, bad = Point(v, where.Offset), *where
	}
	meant := Fix(v.Text, func(text string) bool {
		_, err := expr.CompilePredicate(text, scope)
		return err == nil
	})
	if word := strings.ToLower(strings.TrimSpace(v.Text)); scope == expr.When && edge != "" && (word == "otherwise" || word == "else" || word == "default") {
		meant = "otherwise"
	}
	if strings.HasPrefix(strings.TrimSpace(v.Text), "${") {
		bad = expr.Error{Message: "a condition is an expression as it is, without `${` and `}`"}
	}
	u.Refuse(at, v, bad, scope, meant, node, edge)
	return nil
}

// Refuse reports what is wrong with the expression v; meant is what to write in its
// place, which compiles, or "".
func (u *Expressions) Refuse(at diag.Range, v *syntax.Value, bad expr.Error, scope expr.Scope, meant, node, edge string) {
	detail := fields.Sentence(v.Authored(bad.Message, expr.InMessage))
	meant = v.Authored(meant, expr.InMessage)
	edits, how := u.replace(v, meant), diag.Certain
	if meant == "" && bad.Unknown != "" {
		meant = u.nearReference(bad, scope)
		edits, how = u.Replace(at, meant), diag.Maybe
	}
	switch {
	case bad.Call:
		detail += " docs/expressions.md, Functions, lists all that there are."
	case bad.Unknown != "" && u.elsewhere(bad.Unknown):
		if scope == expr.With {
			detail += " Another node is read as `nodes.ID.PORT`."
		} else {
			detail += " The expressions of an edge read no other node: what they need of one comes by an edge."
		}
	}
	u.Report(diag.Diagnostic{
		Code: diag.TypeExpr, Summary: "the expression does not compile", Detail: detail,
		Subject: at, Context: v.Range(), Node: node, Edge: edge, Suggestion: meant, Edits: edits, Applicability: how,
	})
}

// replace returns the edit that puts a text in the place of a string, if that stands in the file.
// A text in quotes is one that takes its quotes along.
func (u *Expressions) replace(v *syntax.Value, text string) []diag.Edit {
	if !v.Whole() {
		return nil
	}
	if s, err := strconv.Unquote(text); err == nil && strings.HasPrefix(text, `"`) {
		text = s
	}
	return u.Replace(v.Origin().Range(), text)
}

// nearReference returns the name or function that was most probably meant, or "".
func (u *Expressions) nearReference(bad expr.Error, scope expr.Scope) string {
	if bad.Call {
		if name := functionWords[bad.Unknown]; name != "" {
			return name
		}
		return u.Near(bad.Unknown, expr.Functions())
	}
	switch bad.Unknown {
	case "null", "None", "nil", "undefined":
		return "null"
	case "True", "TRUE", "False", "FALSE":
		return strings.ToLower(bad.Unknown)
	}
	return u.Near(bad.Unknown, scope.Names())
}

// functionWords are the functions of other languages, and what CEL calls them.
var functionWords = map[string]string{
	"length": "size", "len": "size", "count": "size", "lenght": "size",
	"lower": "lowerAscii", "toLower": "lowerAscii", "toLowerCase": "lowerAscii",
	"upper": "upperAscii", "toUpper": "upperAscii", "toUpperCase": "upperAscii",
	"strip": "trim", "includes": "contains", "match": "matches", "substr": "substring", "slice": "substring",
	"str": "string", "toString": "string", "parseInt": "int", "toInt": "int", "float": "double", "number": "double",
	"some": "exists", "any": "exists", "every": "all", "default": "orValue", "coalesce": "orValue",
}

// Point returns the range of the name or character at a byte of a string's text, or
// of the last character if that is the end.
func Point(v *syntax.Value, offset int) diag.Range {
	if v.Text == "" {
		return v.Range()
	}
	offset = min(max(offset, 0), len(v.Text)-1)
	for offset > 0 && v.Text[offset]&0xC0 == 0x80 {
		offset--
	}
	end := offset + 1
	if c := v.Text[offset]; (c == '.' || c == '?') && end < len(v.Text) {
		// A selection is shown with what it selects.
		for end < len(v.Text) && (v.Text[end] == '?' || v.Text[end] == '.') {
			end++
		}
		for end < len(v.Text) && word(v.Text[end]) {
			end++
		}
		return v.Sub(offset, end)
	}
	for end < len(v.Text) && (v.Text[end]&0xC0 == 0x80 || (word(v.Text[offset]) && word(v.Text[end]))) {
		end++
	}
	return v.Sub(offset, end)
}

// Quoted refuses a comment directly after an unquoted expression: YAML ends the
// expression there, which its author may not have meant.
func (u *Expressions) Quoted(v *syntax.Value, node, edge string) bool {
	return Quoted(u.Reader, v, node, edge)
}

// Quoted refuses a comment directly after an unquoted expression.
func Quoted(rep *fields.Reader, v *syntax.Value, node, edge string) bool {
	v = v.Origin()
	if v.Kind != syntax.String || !v.Plain() || !v.Commented() {
		return true
	}
	rep.Report(diag.Diagnostic{
		Code: diag.PlanSyntax, Summary: "a comment right after an unquoted expression: quote this",
		Detail:  "A `#` behind a blank starts a comment, so the expression ends before it. Quote the expression, and put the comment on a line of its own.",
		Subject: v.Range(), Node: node, Edge: edge, Suggestion: "'" + strings.ReplaceAll(v.Text, "'", "''") + "'",
		Edits: []diag.Edit{{Range: v.Range(), Replacement: "'" + strings.ReplaceAll(v.Text, "'", "''") + "'"}},
	})
	return false
}

var emptyExpression = regexp.MustCompile(`\$\{\s*\}`)

// Template compiles a JSON template, or reports why not and returns nil.
func (u *Expressions) Template(v *syntax.Value, scope expr.Scope, node, edge string) *Template {
	refused := u.templateStrings(v, nil, scope, node, edge)
	value := v.Any()
	raw, err := plan.Canonical(value)
	if err != nil {
		u.Refuse(fields.Head(v), v, expr.Error{Message: err.Error()}, scope, "", node, edge)
		return nil
	}
	key := Source{string(raw), scope}
	r, ok := u.templates[key]
	if !ok {
		t, errs := expr.CompileTemplate(value, scope)
		r = templateResult{&Template{Template: t, Value: value, Raw: raw, Scope: scope}, errs}
		u.templates[key] = r
	}
	for _, e := range r.errs {
		part := Follow(v, e.Path)
		if slices.Contains(refused, part) {
			continue
		}
		at := fields.Head(part)
		if part.Kind == syntax.String {
			at = Point(part, e.Offset)
		}
		meant := ""
		if part.Kind == syntax.String && strings.Count(part.Text, "${") == 1 {
			if meant = Fix(part.Text, func(text string) bool {
				_, errs := expr.CompileTemplate("${"+text+"}", scope)
				return len(errs) == 0
			}); meant != "" {
				meant = fmt.Sprintf("%q", "${"+meant+"}")
			}
		}
		u.Refuse(at, part, expr.Error{Message: e.Message, Unknown: e.Unknown, Call: e.Call}, scope, meant, node, edge)
	}
	if len(r.errs)+len(refused) > 0 {
		return nil
	}
	return r.template
}

// templateStrings checks what only the text of the strings shows, and adds those
// that are refused to the list.
func (u *Expressions) templateStrings(v *syntax.Value, refused []*syntax.Value, scope expr.Scope, node, edge string) []*syntax.Value {
	for _, item := range v.Items {
		refused = u.templateStrings(item, refused, scope, node, edge)
	}
	for i := range v.Fields {
		refused = u.templateStrings(v.Fields[i].Value, refused, scope, node, edge)
	}
	if v.Kind != syntax.String {
		return refused
	}
	u.lookalike(v, scope, node, edge)
	if !strings.Contains(v.Text, "${") {
		return refused
	}
	errs := u.Errors
	u.Quoted(v, node, edge)
	for _, m := range emptyExpression.FindAllStringIndex(v.Text, -1) {
		u.Report(diag.Diagnostic{
			Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.Sub(m[0], m[1]), Node: node, Edge: edge,
		})
	}
	if u.Errors > errs {
		refused = append(refused, v)
	}
	return refused
}

// Follow follows a path of keys and indexes as far as possible.
func Follow(v *syntax.Value, path []any) *syntax.Value {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			next := v.Get(s)
			if next == nil {
				return v
			}
			v = next
		case int:
			if s < 0 || s >= len(v.Items) {
				return v
			}
			v = v.Items[s]
		}
	}
	return v
}

// Bare reports whether a template is a string without an expression.
func Bare(v *syntax.Value) bool { return v.Kind == syntax.String && !strings.Contains(v.Text, "${") }
