package typing

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Bounds of the search for a value whose result does not fit: the values tried for
// one finding, and in one compilation.
const (
	maxTries     = 400
	maxTriesEver = 8_000
)

// search looks for values of an expression's names for which the result of a
// template does not fit a schema. Each is confirmed by evaluation, so it does not
// matter how candidates are found.
type search struct {
	check    *checker
	template *embedded.Template
	scope    scope
	target   *schemas.Schema
	// reads are the names that the template and the conditions read.
	reads map[string]bool
	// admits reports whether values can occur together; nil means that all can.
	// condition is the predicate that it evaluates, if it is not the edge's.
	admits    func(expr.Vars) bool
	condition *expr.Program
	left      int
}

// search looks for a value of an edge's source whose result does not fit target.
// hint is a value that target refuses. It returns the value that goes in (a map if
// there are several names) and the one that comes out.
func (check *checker) search(doc *Document, e *Edge, s scope, hint any, target *schemas.Schema) (before, after any, found bool) {
	q := &search{check: check, template: e.Template, scope: s, target: target, reads: map[string]bool{}, admits: func(vars expr.Vars) bool {
		switch {
		case e.Otherwise:
			for _, x := range doc.Siblings[e.From] {
				if x.Otherwise {
					continue
				}
				if value, there := plan.PortValue(vars["output"], x.FromPort); there && check.delivers(doc, x, value, vars) != no {
					return false
				}
			}
			return true
		case e.Kind == plan.Conditional || e.Predicate != nil:
			return check.delivers(doc, e, vars["value"], vars) == yes
		}
		return true
	}}
	for _, n := range names {
		q.reads[n.name] = e.Template.Reads(n.name) || e.Otherwise || e.Predicate != nil && e.Predicate.Reads(n.name) ||
			n.name == "value" && e.Kind == plan.Conditional && e.When == nil
	}
	if !q.reads["output"] {
		q.scope.port = ""
	} else if q.scope.port != "" {
		q.reads["value"] = false
	}
	if e.Kind == plan.Error && e.FromPort != plan.CompensatePort && (q.reads["value"] || q.reads["error"]) {
		// Both names stand for one value.
		q.reads["value"], q.reads["error"] = false, true
	}
	return q.run(hint)
}

// searchWhole is search for a template that is not on an edge.
func (check *checker) searchWhole(q *search, hint any) (before, after any, found bool) {
	q.check, q.reads = check, map[string]bool{}
	for _, n := range names {
		q.reads[n.name] = q.template.Reads(n.name) || q.condition != nil && q.condition.Reads(n.name)
	}
	if q.scope.port == plan.WholePort {
		// Both names stand for one value.
		q.reads["output"] = q.reads["output"] || q.reads["value"]
		q.reads["value"] = false
	}
	return q.run(hint)
}

// searchInput is search for a template that reads only the plan's input.
func (check *checker) searchInput(t *embedded.Template, s scope, hint any, target *schemas.Schema) (before, after any, found bool) {
	q := &search{check: check, template: t, scope: s, target: target, reads: map[string]bool{"input": true}}
	return q.run(hint)
}

// unfound says that no value was found, or that none was looked for.
func (check *checker) unfound(what string) string {
	if check.tries <= 0 {
		return fmt.Sprintf("No %s was looked for that comes out so: a file has %d tries, which others of it took.", what, maxTriesEver)
	}
	return fmt.Sprintf("No %s was found that comes out so.", what)
}

type answer int

const (
	no answer = iota
	yes
	fails
)

// delivers evaluates the condition of an edge.
func (check *checker) delivers(doc *Document, e *Edge, value any, vars expr.Vars) answer {
	if e.Predicate == nil {
		switch value {
		case true:
			return yes
		case false:
			return no
		}
		return fails
	}
	mine := maps.Clone(vars)
	mine["value"] = value
	ok, err := check.readyPredicate(doc, e).EvalBool(mine)
	switch {
	case err != nil:
		return fails
	case ok:
		return yes
	}
	return no
}

func (q *search) run(hint any) (before, after any, found bool) {
	if q.check.tries <= 0 {
		return nil, nil, false
	}
	q.left = min(maxTries, q.check.tries)
	start := q.left
	defer func() { q.check.tries -= start - q.left }()
	p := q.check.prover
	if shape := q.mirror(q.template.Value, hint); shape != nil {
		if before, after, found = q.try(shape); found {
			return before, after, true
		}
	}
	if before, after, found = q.try(nil); found {
		return before, after, true
	}
	shapes := append(q.boundaries(hint), edges(p)...)
	for _, path := range q.paths(q.template.Value) {
		for _, s := range shapes {
			if before, after, found = q.try(along(path, s)); found || q.left <= 0 {
				return before, after, found
			}
		}
		if len(path) > 1 {
			// The last step of the path may not exist.
			absent := schemas.Make(schemas.Keywords{Not: p.Having(path[len(path)-1])})
			if before, after, found = q.try(along(path[:len(path)-1], absent)); found {
				return before, after, true
			}
		}
	}
	return nil, nil, false
}

// edges are the schemas of values at which expressions tend to go wrong.
func edges(p *proof.Prover) []*schemas.Schema {
	var out []*schemas.Schema
	for _, t := range []string{"null", "boolean", "integer", "string", "array", "object", "number"} {
		out = append(out, p.Typed(t))
	}
	one, many := 1, 100
	negative := p.Make("negative", func() schemas.Keywords {
		return schemas.Keywords{Not: schemas.Make(schemas.Keywords{Types: []string{"array", "boolean", "null", "object", "string"}}), Maximum: minusOne}
	})
	large := p.Make("large", func() schemas.Keywords {
		return schemas.Keywords{Types: []string{"number"}, Minimum: million}
	})
	fraction := p.Make("fraction", func() schemas.Keywords {
		return schemas.Keywords{Types: []string{"number"}, Not: p.Typed("integer")}
	})
	return append(out, negative, large, fraction,
		p.Make("empty text", func() schemas.Keywords { return proof.Constant("") }),
		p.Make("long text", func() schemas.Keywords { return schemas.Keywords{Types: []string{"string"}, MinLength: &many} }),
		p.Make("empty list", func() schemas.Keywords { return proof.Constant([]any{}) }),
		p.Make("some list", func() schemas.Keywords { return schemas.Keywords{Types: []string{"array"}, MinItems: &one} }),
	)
}

// along is the schema of objects that have s at the end of a path.
func along(path []string, s *schemas.Schema) *schemas.Schema {
	for _, name := range slices.Backward(path) {
		s = schemas.Make(schemas.Keywords{
			Types: []string{"object"}, Required: []string{name}, Properties: map[string]*schemas.Schema{name: s},
		})
	}
	return s
}

// selection is a name with keys behind it.
var selection = regexp.MustCompile(`(?:^|[^.\w])((?:value|output|input|error|args)(?:\??\.\??[A-Za-z_]\w*)*)`)

// plain matches an expression that only selects.
var plain = regexp.MustCompile(`^\$\{\s*((?:value|output|input|error|args)(?:\.[A-Za-z_]\w*)*)\s*\}$`)

// place is the path of a selection in the values of the names.
func (q *search) place(text string) []string {
	path := strings.Split(strings.ReplaceAll(text, "?", ""), ".")
	if path[0] != "value" {
		return path
	}
	if q.reads["error"] && !q.reads["value"] && q.scope.args == nil {
		return append([]string{"error"}, path[1:]...)
	}
	switch q.scope.port {
	case "":
		return path
	case plan.WholePort:
		return append([]string{"output"}, path[1:]...)
	}
	return append([]string{"output", q.scope.port}, path[1:]...)
}

// paths lists what a template's expressions select, except the names of methods.
func (q *search) paths(t any) [][]string {
	var out [][]string
	seen := map[string]bool{}
	eachExpression(t, func(text string) {
		for _, m := range selection.FindAllStringSubmatch(text, 16) {
			path := q.place(m[1])
			for n := len(path); n > 0; n-- {
				if key := strings.Join(path[:n], "."); !seen[key] && len(out) < 16 {
					seen[key] = true
					out = append(out, path[:n])
				}
			}
		}
	})
	return out
}

// mirror returns a schema in which everything that the template only selects has
// its value in result, or nil if it selects nothing.
func (q *search) mirror(t, result any) *schemas.Schema {
	var all []*schemas.Schema
	var walk func(t, result any)
	walk = func(t, result any) {
		switch t := t.(type) {
		case string:
			if m := plain.FindStringSubmatch(t); m != nil {
				all = append(all, along(q.place(m[1]), schemas.Make(proof.Constant(result))))
			}
		case []any:
			list, ok := result.([]any)
			for i := 0; ok && i < len(t) && i < len(list); i++ {
				walk(t[i], list[i])
			}
		case map[string]any:
			object, ok := result.(map[string]any)
			if !ok {
				return
			}
			for _, k := range sortedKeys(t) {
				if v, there := object[k]; there {
					walk(t[k], v)
				}
			}
		}
	}
	walk(t, result)
	if len(all) == 0 {
		return nil
	}
	return schemas.Make(schemas.Keywords{All: all})
}

// try evaluates the template for a sample of all names that fits shape.
func (q *search) try(shape *schemas.Schema) (before, after any, found bool) {
	if q.left--; q.left < 0 {
		return nil, nil, false
	}
	k := schemas.Keywords{Types: []string{"object"}, Properties: map[string]*schemas.Schema{}}
	s := q.scope
	for _, n := range names {
		if x := *n.of(&s); x != nil && q.reads[n.name] && (n.name != "value" || s.port == "") {
			k.Properties[n.name] = x
			k.Required = append(k.Required, n.name)
		}
	}
	if s.port != "" && s.port != plan.WholePort {
		k.Properties["output"] = q.check.prover.Both(s.output, along([]string{s.port}, s.value))
	}
	if shape != nil {
		k.All = []*schemas.Schema{shape}
	}
	v, ok := q.check.prover.Sample(schemas.Make(k))
	if !ok {
		return nil, nil, false
	}
	vars := expr.Vars{}
	object, _ := v.(map[string]any)
	for _, name := range k.Required {
		vars[name] = object[name]
	}
	if s.port != "" {
		if vars["value"], ok = plan.PortValue(vars["output"], s.port); !ok {
			return nil, nil, false
		}
	}
	if _, there := vars["error"]; there && s.args == nil {
		vars["value"] = vars["error"]
	}
	if q.admits != nil && !q.admits(vars) {
		return nil, nil, false
	}
	after, err := q.check.ready(q.template).Eval(vars)
	if err != nil {
		return nil, nil, false
	}
	if _, refused := causeOf(after, q.target); !refused {
		return nil, nil, false
	}
	read := map[string]any{}
	for _, n := range names {
		if v, there := vars[n.name]; there && q.template.Reads(n.name) {
			read[n.name] = v
		}
	}
	if len(read) == 1 {
		for _, v := range read {
			return v, after, true
		}
	}
	return read, after, true
}
