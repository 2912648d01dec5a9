package compiler

import (
	"chimera.ai/engine/internal/fields"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// template is a compiled JSON template of the plan.
type template struct {
	*expr.Template
	value any
	raw   json.RawMessage
	scope expr.Scope
	// converted: value has conversions of numbers that Template does not.
	converted bool
}

// sourceKey finds an expression that was compiled before.
type sourceKey struct {
	text  string
	scope expr.Scope
}

type predicateResult struct {
	program *expr.Program
	err     error
}

type templateResult struct {
	template *template
	errs     []expr.TemplateError
}

// predicate compiles a CEL predicate where it stands, or gives nil.
func (u *unit) predicate(v *syntax.Value, scope expr.Scope, node, edge string) *expr.Program {
	if v == nil || !u.quoted(v, node, edge) {
		return nil
	}
	if strings.TrimSpace(v.Text) == "" {
		return nil
	}
	key := sourceKey{v.Text, scope}
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
		at, bad = u.point(v, where.Offset), *where
	}
	meant := slip(v.Text, func(text string) bool {
		_, err := expr.CompilePredicate(text, scope)
		return err == nil
	})
	if word := strings.ToLower(strings.TrimSpace(v.Text)); scope == expr.When && edge != "" && (word == "otherwise" || word == "else" || word == "default") {
		meant = "otherwise"
	}
	if strings.HasPrefix(strings.TrimSpace(v.Text), "${") {
		bad = expr.Error{Message: "a condition is an expression as it is, without `${` and `}`"}
	}
	u.badExpression(at, v.Range(), bad, scope, meant, node, edge)
	return nil
}

// badExpression reports what is wrong with an expression; meant is what to write
// instead, if that is known.
func (u *unit) badExpression(at, whole diag.Range, bad expr.Error, scope expr.Scope, meant, node, edge string) {
	detail := sentence(bad.Message)
	if meant == "" && bad.Unknown != "" {
		meant = u.nearReference(bad, scope)
	}
	switch {
	case bad.Call:
		detail += " docs/expressions.md, Functions, lists all that there are."
	case bad.Unknown != "" && u.isNode(bad.Unknown):
		detail += " An expression reads no other node: what it needs of one comes by an edge."
	}
	u.Report(diag.Diagnostic{
		Code: diag.TypeExpr, Summary: "the expression does not compile", Detail: detail,
		Subject: at, Context: whole, Node: node, Edge: edge, Suggestion: meant,
	})
}

// isNode reports whether a plan of the file has a node of that name, or the name
// is what other languages of workflows have for all nodes.
func (u *unit) isNode(name string) bool {
	return slices.Contains([]string{"nodes", "node", "steps", "outputs"}, name) ||
		slices.ContainsFunc(u.docs, func(d *document) bool { _, there := d.index[name]; return there })
}

// nearReference is the name or function that was most probably meant, or "".
func (u *unit) nearReference(bad expr.Error, scope expr.Scope) string {
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

// point is the range of the name, or else the character, at a byte of a string's
// text; at its end the last character.
func (u *unit) point(v *syntax.Value, offset int) diag.Range {
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

// word reports whether c is part of a name in an expression.
func word(c byte) bool {
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}

// quoted refuses a comment right behind an unquoted expression: YAML ends the
// expression there, which its author may not have meant.
func (u *unit) quoted(v *syntax.Value, node, edge string) bool {
	if v.Kind != syntax.String || !v.Plain() || !v.Commented() {
		return true
	}
	u.Report(diag.Diagnostic{
		Code: diag.PlanSyntax, Summary: "a comment right after an unquoted expression: quote this",
		Detail:  "A `#` behind a blank starts a comment, so the expression ends before it. Quote the expression, and put the comment on a line of its own.",
		Subject: v.Range(), Node: node, Edge: edge, Suggestion: "'" + strings.ReplaceAll(v.Text, "'", "''") + "'",
	})
	return false
}

var emptyExpression = regexp.MustCompile(`\$\{\s*\}`)

// templateOf compiles a JSON template where it stands, or gives nil.
func (u *unit) templateOf(v *syntax.Value, scope expr.Scope, node, edge string) *template {
	refused := u.templateStrings(v, nil, scope, node, edge)
	value := v.Any()
	raw, err := plan.Canonical(value)
	if err != nil {
		u.badExpression(fields.Head(v), v.Range(), expr.Error{Message: err.Error()}, scope, "", node, edge)
		return nil
	}
	key := sourceKey{string(raw), scope}
	r, ok := u.templates[key]
	if !ok {
		t, errs := expr.CompileTemplate(value, scope)
		r = templateResult{&template{Template: t, value: value, raw: raw, scope: scope}, errs}
		u.templates[key] = r
	}
	for _, e := range r.errs {
		part := follow(v, e.Path)
		if slices.Contains(refused, part) {
			continue
		}
		at := fields.Head(part)
		if part.Kind == syntax.String {
			at = u.point(part, e.Offset)
		}
		meant := ""
		if part.Kind == syntax.String && strings.Count(part.Text, "${") == 1 {
			if meant = slip(part.Text, func(text string) bool {
				_, errs := expr.CompileTemplate("${"+text+"}", scope)
				return len(errs) == 0
			}); meant != "" {
				meant = fmt.Sprintf("%q", "${"+meant+"}")
			}
		}
		u.badExpression(at, part.Range(), expr.Error{Message: e.Message, Unknown: e.Unknown, Call: e.Call}, scope, meant, node, edge)
	}
	if len(r.errs)+len(refused) > 0 {
		return nil
	}
	return r.template
}

// templateStrings checks what only the text of the strings can tell, and adds
// those that are refused to the list.
func (u *unit) templateStrings(v *syntax.Value, refused []*syntax.Value, scope expr.Scope, node, edge string) []*syntax.Value {
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
	u.quoted(v, node, edge)
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

// follow finds the value at a path of keys and indexes, as far as it leads.
func follow(v *syntax.Value, path []any) *syntax.Value {
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

// scopes are what the expressions of an edge may read.
func (e *edge) scopes() (when, transform expr.Scope) {
	switch {
	case e.kind != plan.Error:
		return expr.When, expr.Transform
	case e.fromPort == plan.CompensatePort:
		return expr.ErrorWhen, expr.Compensate
	}
	return expr.ErrorWhen, expr.ErrorTransform
}

// compileConditions compiles the conditions of a document's edges, side by side.
// What comes of each is the same as if it were compiled when it is met.
func (u *unit) compileConditions(doc *document) {
	var todo []sourceKey
	for _, e := range doc.edges {
		if !e.shaped || e.when == nil || strings.TrimSpace(e.when.Text) == "" {
			continue
		}
		when, _ := e.scopes()
		key := sourceKey{e.when.Text, when}
		if _, known := u.predicates[key]; !known {
			u.predicates[key] = predicateResult{}
			todo = append(todo, key)
		}
	}
	made := make([]predicateResult, len(todo))
	sideBySide(len(todo), func(i int) {
		made[i].program, made[i].err = expr.CompilePredicate(todo[i].text, todo[i].scope)
	})
	for i, key := range todo {
		u.predicates[key] = made[i]
	}
}

// typeExpressions compiles the expressions of an edge.
func (u *unit) typeExpressions(e *edge) {
	when, transform := e.scopes()
	e.predicate = u.predicate(e.when, when, "", e.String())
	if e.predicate != nil && e.kind == plan.Conditional && e.fromPort == plan.DonePort && e.predicate.Reads("value") {
		u.Report(diag.Diagnostic{
			Code: diag.TypeExpr, Summary: "`$done` has no value",
			Detail:  "The condition of an edge from `$done` reads `output` (the whole output of the node) and `input` (the plan's).",
			Subject: e.when.Range(), Edge: e.String(), Suggestion: "output",
		})
		e.predicate = nil
	}
	switch {
	case e.transform == nil:
		return
	case e.adapter():
		u.findAdapter(e, transform)
		return
	}
	e.template = u.templateOf(e.transform, transform, "", e.String())
}

// bare reports whether a template is a string without an expression.
func bare(v *syntax.Value) bool { return v.Kind == syntax.String && !strings.Contains(v.Text, "${") }

// typeNode compiles the expressions of a node, and checks constants that fill
// its ports.
func (u *unit) typeNode(n *node) {
	if n.with != nil {
		for i := range n.with.Fields {
			key, val := n.with.Fields[i].Key, n.with.Fields[i].Value
			t := u.templateOf(val, expr.With, n.id, "")
			if t == nil {
				n.sound = false
				continue
			}
			n.fills = append(n.fills, fill{port: key.Text, template: t})
		}
	}
	if n.commit != nil && n.commit.verify != nil {
		v := n.commit.verify
		if v.with != nil {
			v.args = u.templateOf(v.with, expr.Compensate, n.id, "")
		}
		if v.executed != nil && strings.TrimSpace(v.executed.Text) == "" {
			u.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.executed.Range(), Node: n.id})
		}
		v.predicate = u.predicate(v.executed, expr.When, n.id, "")
		if v.output != nil {
			v.result = u.templateOf(v.output, expr.Transform, n.id, "")
		}
	}
}

// constantFits validates a constant against the port that it fills.
func (u *unit) constantFits(n *node, name string, t *template, at diag.Range, edge string) bool {
	s := u.wants(n, name)
	if s == nil {
		return true
	}
	err := s.Validate(t.value)
	if list, ok := t.value.([]any); err == nil && ok && n.splits(name) && n.most() >= 0 && len(list) > n.most() {
		err = fmt.Errorf("it has %d elements, and for_each takes at most %d", len(list), n.most())
	}
	if err == nil {
		return true
	}
	u.Report(diag.Diagnostic{
		Code: diag.TypeNotContained, Summary: fmt.Sprintf("the constant does not fit the port %s of %s", fields.Quote(name), fields.Quote(n.id)),
		Detail: sentence(err.Error()), Subject: at, Node: n.id, Edge: edge, Witness: clip(string(t.raw), 400),
	})
	return false
}

// clip bounds a text for a message.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most] + "…"
}
