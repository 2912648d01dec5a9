package typing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/parallel"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/schemas"
)

// checker types the plans of a file, or the entries of a catalog file. It caches
// what it compiles, checks and proves.
type checker struct {
	*embedded.Expressions
	pool   *pool.Pool
	prover *proof.Prover
	*Graph

	checkedPredicates map[programAt]predicateCheck
	checkedTemplates  map[templateAt]templateCheck
	narrowed          map[narrowing]scope
	// readied holds expressions as a run evaluates them.
	readied           map[*embedded.Template]*expr.Template
	readiedPredicates map[programAt]*expr.Program
	// judgement is the last one, of the condition and scope in judged: a
	// condition that has just been checked is usually narrowed by next.
	judged    programAt
	judgement *expr.Judgement
	prices    map[priceOf]priceCheck
	adapters  map[adapterIn]*boundAdapter
	inputs    map[assembled]bool
	// everyFailure and knownFailure cache failures and handled.
	everyFailure, knownFailure *schemas.Schema
	// key caches keys.
	key *schemas.Schema
	// tries is what remains of the search for counterexamples, and fixes what
	// remains for proving proposed edits.
	tries, fixes int
}

func newChecker(rep *fields.Reader, schemas *pool.Pool, prover *proof.Prover, linted *lint.Graph) *checker {
	check := &checker{
		Graph: &Graph{Graph: linted}, pool: schemas, prover: prover,
		checkedPredicates: map[programAt]predicateCheck{}, checkedTemplates: map[templateAt]templateCheck{},
		readied: map[*embedded.Template]*expr.Template{}, readiedPredicates: map[programAt]*expr.Program{},
		narrowed: map[narrowing]scope{}, inputs: map[assembled]bool{},
		prices: map[priceOf]priceCheck{}, adapters: map[adapterIn]*boundAdapter{}, tries: maxTriesEver, fixes: maxFixes,
	}
	check.Expressions = embedded.NewExpressions(rep, check.isNode)
	return check
}

// Check compiles the schemas and expressions of a linted graph, and proves what it
// can about its edges, inputs, costs and output.
func Check(rep *fields.Reader, schemas *pool.Pool, prover *proof.Prover, linted *lint.Graph) *Graph {
	check := newChecker(rep, schemas, prover, linted)
	for _, doc := range linted.Documents {
		check.Documents = append(check.Documents, typed(doc))
	}
	for _, doc := range check.Documents {
		check.typeDefs(doc)
		check.compileAll(doc)
		for _, n := range doc.Nodes {
			check.typeSchema(doc, n, n.Input)
			check.typeSchema(doc, n, n.Output)
			check.typeNode(n)
		}
		check.compileConditions(doc)
		for _, e := range doc.Edges {
			if e.Shaped {
				check.typeExpressions(e)
			}
		}
		for _, n := range doc.Nodes {
			check.typeWith(doc, n)
			check.typeVerify(doc, n)
			check.typeCost(doc, n)
		}
		check.typeEdges(doc)
		check.missingInputs(doc)
		check.typeInputs(doc)
		check.flows(doc)
	}
	check.typeCalls()
	for _, doc := range check.Documents {
		for i, n := range doc.Nodes {
			if t := n.Template; t != nil && !n.Subplan() && (n.TypeAt == nil || n.ProviderType == "" || n.ProviderType == t.ProviderType) {
				check.weakerCost(doc, i, t)
			}
		}
	}
	return check.Graph
}

// compileAll compiles the schemas of a document's nodes in parallel. The results do
// not depend on the order.
func (check *checker) compileAll(doc *Document) {
	var todo []*pool.Schema
	seen := map[*pool.Schema]bool{}
	for _, n := range doc.Nodes {
		for _, c := range []*Schema{n.Input, n.Output} {
			if c != nil && !seen[c.Schema.Schema] && !doc.usesBad(c) {
				seen[c.Schema.Schema] = true
				if check.pool.Admit(c.Schema.Schema) {
					todo = append(todo, c.Schema.Schema)
				}
			}
		}
	}
	parallel.Do(len(todo), func(i int) {
		// The schema keeps its error.
		_, _ = todo[i].Compile()
	})
}

// usesBad reports whether a schema refers to a definition that is refused.
func (d *Document) usesBad(c *Schema) bool {
	return slices.ContainsFunc(c.Uses, func(name string) bool {
		return slices.ContainsFunc(d.Defs.ByName[name].Uses, func(used string) bool { return d.refused[used] })
	})
}

// typeDefs compiles each definition by itself, so that an invalid one is reported
// in its place and not at all its users.
func (check *checker) typeDefs(doc *Document) {
	sound := check.soundDefs(doc)
	for _, name := range doc.Defs.Names {
		d := doc.Defs.ByName[name]
		if doc.refused[name] || sound[name] {
			continue
		}
		used := map[string]any{}
		for _, n := range d.Uses {
			used[n] = doc.Defs.ByName[n].Value
		}
		s, err := check.pool.With(map[string]any{"$ref": lint.DefsPrefix + name, "defs": used}, len(used))
		if err != nil {
			check.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: err.Error(), Subject: fields.Head(d.At)})
			doc.refused[name] = true
			continue
		}
		check.pool.Admit(s)
		if _, err := s.Compile(); err != nil {
			doc.refused[name] = true
			// The fault may be in another definition that this one uses.
			at, pointer := d.At, pointerOf(err)
			if rest, ok := strings.CutPrefix(pointer, "/defs/"); ok {
				owner, _, _ := strings.Cut(rest, "/")
				if owner != name && doc.Defs.ByName[owner] != nil {
					continue
				}
				pointer = strings.TrimPrefix(rest, owner)
			}
			check.badSchema(err, at, pointer, "")
		}
	}
}

// soundDefs compiles definitions together with those they use, the largest first,
// so that a chain is compiled once and not once for each definition. A definition
// that is not in the result may be sound as well.
func (check *checker) soundDefs(doc *Document) (sound map[string]bool) {
	all := doc.Defs
	sound = map[string]bool{}
	order := slices.Clone(all.Names)
	slices.SortStableFunc(order, func(a, b string) int { return len(all.ByName[b].Uses) - len(all.ByName[a].Uses) })
	for _, name := range order {
		d := all.ByName[name]
		if doc.refused[name] || sound[name] || len(d.Uses) == 1 {
			continue
		}
		used := map[string]any{}
		var each []any
		for _, n := range d.Uses {
			used[n] = all.ByName[n].Value
			each = append(each, map[string]any{"$ref": lint.DefsPrefix + n})
		}
		s, err := check.pool.With(map[string]any{"allOf": each, "defs": used}, len(used))
		if err != nil {
			break // what is left is reported one by one
		}
		check.pool.Admit(s)
		if _, err := s.Compile(); err == nil {
			for _, n := range d.Uses {
				sound[n] = true
			}
		}
	}
	return sound
}

// typeSchema compiles one schema of a node.
func (check *checker) typeSchema(doc *Document, n *Node, c *Schema) {
	if c == nil {
		return
	}
	if doc.usesBad(c) {
		n.sound, c.Faulty = false, true
		return
	}
	if _, err := c.Compile(); err != nil {
		n.sound, c.Faulty = false, true
		if c.At == nil && n.Followed {
			check.Report(diag.Diagnostic{
				Code: diag.TypeSchema, Summary: fmt.Sprintf("the schema that follows for %s cannot be used", fields.Quote(n.ID)),
				Detail: fields.Sentence(err.Error()) + " Declare a simpler one.", Subject: n.Key, Node: n.ID,
			})
			return
		}
		if c.At == nil {
			lint.BadTemplate(check.Reader, n.Node, n.Template, err)
			return
		}
		check.badSchemas(err, c.At, n.ID)
	}
}

// jsonTypes are the values of the keyword `type`.
var jsonTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// typeWords maps the types of other languages to those of JSON Schema.
var typeWords = map[string]string{
	"str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number", "double": "number", "decimal": "number",
	"bool": "boolean", "list": "array", "tuple": "array", "map": "object", "dict": "object", "struct": "object", "none": "null", "nil": "null",
}

// badSchemas reports a schema that does not compile, at each of the first few parts
// that break the rules of its draft.
func (check *checker) badSchemas(err error, v *syntax.Value, node string) {
	const most = 4
	var invalid *schemas.Invalid
	if !errors.As(err, &invalid) || len(invalid.Causes) < 2 {
		check.badSchema(err, v, pointerOf(err), node)
		return
	}
	var places []string
	for _, c := range invalid.Causes {
		// A part of one that is reported is probably wrong for the same reason.
		if len(places) == most || slices.ContainsFunc(places, func(p string) bool { return c.Instance == p || strings.HasPrefix(c.Instance, p+"/") }) {
			continue
		}
		places = append(places, c.Instance)
		check.badSchema(&schemas.Invalid{Causes: []schemas.Cause{c}}, v, c.Instance, node)
	}
}

// badSchema reports a schema that does not compile, at the part that pointer names,
// if it exists.
func (check *checker) badSchema(err error, v *syntax.Value, pointer, node string) {
	part := descend(v, pointer)
	at := fields.Head(part)
	text, suggestion, how := err.Error(), "", diag.Maybe
	var lost *schemas.ReferenceError
	if errors.As(err, &lost) {
		if part := reference(v, lost.Reference); part != nil {
			at = part.Range()
			if !lost.Outside {
				text, suggestion = "the reference "+fields.Quote(part.Text)+" leads nowhere", check.definitionFor(part)
			}
		}
	}
	if part.Kind == syntax.String && strings.HasSuffix(pointer, "/type") {
		// The list of words says everything; that a list is allowed would not help.
		text = "`type` is " + fields.Either(jsonTypes) + ", or a list of these, not " + fields.Quote(part.Text)
		how = diag.Certain
		if suggestion = typeWords[strings.ToLower(part.Text)]; suggestion == "" {
			suggestion, how = check.Near(part.Text, jsonTypes), diag.Maybe
		}
	}
	d := diag.Diagnostic{
		Code: diag.TypeSchema, Summary: "this is not a usable JSON Schema", Detail: fields.Sentence(text), Subject: at, Node: node,
		Suggestion: suggestion, Applicability: how,
	}
	d.Edits = check.Replace(at, suggestion)
	check.Report(d)
}

// pointerOf returns the place in a schema that its compile error is about, as a
// JSON pointer, or "".
func pointerOf(err error) string {
	var invalid *schemas.Invalid
	if errors.As(err, &invalid) && len(invalid.Causes) > 0 {
		return invalid.Causes[0].Instance
	}
	var place *schemas.PlaceError
	if errors.As(err, &place) {
		return place.Pointer
	}
	return ""
}

// definitionFor returns the reference to a definition of the plan whose name ends a
// reference that leads nowhere, or "".
func (check *checker) definitionFor(ref *syntax.Value) string {
	name := ref.Text[strings.LastIndexByte(ref.Text, '/')+1:]
	for _, doc := range check.Documents {
		whole, at := doc.At.Range(), ref.Range()
		if doc.Defs != nil && whole.Start.Byte <= at.Start.Byte && at.End.Byte <= whole.End.Byte && doc.Defs.ByName[name] != nil {
			return lint.DefsPrefix + name
		}
	}
	return ""
}

// reference finds the value in a schema that holds a reference, or returns nil.
func reference(v *syntax.Value, text string) *syntax.Value {
	for _, item := range v.Items {
		if found := reference(item, text); found != nil {
			return found
		}
	}
	for i := range v.Fields {
		key, val := v.Fields[i].Key.Text, v.Fields[i].Value
		if strings.HasPrefix(key, "$") && val.Kind == syntax.String && (strings.HasPrefix(val.Text, text) || strings.HasSuffix(text, "/"+val.Text)) {
			return val
		}
		if found := reference(val, text); found != nil {
			return found
		}
	}
	return nil
}

// descend follows a JSON pointer as far as possible.
func descend(v *syntax.Value, pointer string) *syntax.Value {
	if pointer == "" {
		return v
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = schemas.Unescape(token)
		next := v.Get(token)
		if i, err := strconv.Atoi(token); next == nil && err == nil && v.Kind == syntax.List && i >= 0 && i < len(v.Items) {
			next = v.Items[i]
		}
		if next == nil {
			return v
		}
		v = next
	}
	return v
}
