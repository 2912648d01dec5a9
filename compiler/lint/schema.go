package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/parallel"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Schema is a schema in its place in the plan. At is nil if the template gave it.
type Schema struct {
	*pool.Schema
	At *syntax.Value
	// Uses are the definitions that it refers to directly.
	Uses []string
}

// prepareSchemas prepares the schemas of all nodes side by side.
func (l *linter) prepareSchemas() {
	var todo []*pool.Schema
	seen := map[*pool.Schema]bool{}
	for _, doc := range l.Documents {
		for _, n := range doc.Nodes {
			for _, c := range []*Schema{n.Input, n.Output} {
				if c != nil && !seen[c.Schema] {
					seen[c.Schema] = true
					todo = append(todo, c.Schema)
				}
			}
		}
	}
	parallel.Do(len(todo), func(i int) { todo[i].Prepare() })
}

// defs holds the plan's shared definitions.
type defs struct {
	Names  []string
	ByName map[string]*definition
	// users caches the schemas that refer to definitions by their canonical
	// text, since most nodes of a large plan repeat the schemas of others.
	users map[string]*pool.Schema
}

type definition struct {
	At    *syntax.Value
	Value any
	// Uses lists the definitions that it refers to, itself included,
	// transitively, sorted.
	Uses []string
	// Bad reports that the definition is refused, so that the schemas that use
	// it are not examined.
	Bad bool
}

// DefsPrefix begins a reference to a definition of the plan.
const DefsPrefix = "#/defs/"

// readDefs reads the plan's shared definitions.
func (l *linter) readDefs(v *syntax.Value) *defs {
	d := &defs{ByName: map[string]*definition{}}
	if v == nil {
		return d
	}
	if len(v.Fields) > MaxDefinitions {
		l.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("the plan has %d definitions", len(v.Fields)),
			Detail: fmt.Sprintf("A plan has at most %d.", MaxDefinitions), Subject: v.Fields[MaxDefinitions].Key.Range(),
		})
	}
	direct := map[string][]string{}
	for i := range v.Fields[:min(len(v.Fields), MaxDefinitions)] {
		key, val := v.Fields[i].Key, v.Fields[i].Value
		if !l.Name(key, "defs", fields.DefinitionNames) {
			continue
		}
		if fields.FormOf(val.Kind)&fields.FormSchema == 0 {
			l.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the definition %s is a JSON Schema (a map, true or false), not %s", fields.Quote(key.Text), fields.KindOf(val)),
				Subject: val.Range(),
			})
			continue
		}
		d.Names = append(d.Names, key.Text)
		d.ByName[key.Text] = &definition{At: val, Value: val.Any()}
	}
	slices.Sort(d.Names)
	for _, name := range d.Names {
		direct[name] = l.refs(d.ByName[name].At, d)
	}
	for _, name := range d.Names {
		def := d.ByName[name]
		if def.Uses = closure(name, direct); def.Uses == nil {
			def.Bad, def.Uses = true, []string{name}
			l.Report(diag.Diagnostic{
				Code: diag.PlanLimits, Summary: fmt.Sprintf("the definition %s uses more than %d others", fields.Quote(name), MaxUses),
				Detail: "What they refer to counts too: every schema carries along the definitions that it uses.", Subject: fields.Head(def.At),
			})
		}
	}
	return d
}

// closure lists the definitions that name reaches, itself included, sorted. It
// returns nil if they are more than MaxUses others.
func closure(name string, direct map[string][]string) []string {
	seen := map[string]bool{name: true}
	todo := []string{name}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, r := range direct[next] {
			if !seen[r] {
				if len(seen) > MaxUses {
					return nil
				}
				seen[r] = true
				todo = append(todo, r)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// refs lists the definitions that a schema refers to directly, and reports
// references to missing ones.
func (l *linter) refs(v *syntax.Value, d *defs) []string {
	var out []string
	seen := map[string]bool{}
	var walk func(v *syntax.Value)
	walk = func(v *syntax.Value) {
		for _, item := range v.Items {
			walk(item)
		}
		for i := range v.Fields {
			key, val := v.Fields[i].Key, v.Fields[i].Value
			if key.Text != "$ref" || val.Kind != syntax.String {
				walk(val)
				continue
			}
			rest, ok := strings.CutPrefix(val.Text, DefsPrefix)
			if !ok {
				continue
			}
			name, _, _ := strings.Cut(rest, "/")
			if d.ByName[name] == nil {
				suggestion := l.Near(name, d.Names)
				if suggestion != "" {
					suggestion = DefsPrefix + suggestion
				}
				l.Report(diag.Diagnostic{
					Code: diag.TypeSchema, Summary: fmt.Sprintf("the plan has no definition %s", fields.Quote(name)),
					Detail:  "A reference that starts with #/defs/ is to an entry of the plan's `defs`; #/$defs/ is for definitions inside one schema.",
					Subject: val.Range(), Suggestion: suggestion, Edits: l.Replace(val.Range(), suggestion),
				})
				continue
			}
			if !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	walk(v)
	return out
}

// readSchema reads a schema of the plan and makes it self-contained: the
// definitions that it uses, and those that they use, are put into it under the
// key "defs". It is nil if v is nil or was refused.
func (l *linter) readSchema(v *syntax.Value, d *defs) *Schema {
	if v == nil {
		return nil
	}
	errs := l.Errors
	direct := l.refs(v, d)
	if own := v.Get("defs"); own != nil && len(d.Names) > 0 {
		l.Report(diag.Diagnostic{
			Code: diag.TypeSchema, Summary: "`defs` inside a schema hides the plan's own",
			Detail:  "Definitions of one schema stand under `$defs`.",
			Subject: fields.KeyOf(v, "defs"), Suggestion: "$defs", Edits: l.Replace(fields.KeyOf(v, "defs"), "$defs"),
		})
	}
	if l.Errors > errs {
		return nil
	}
	c, err := l.pooled(v.Any(), direct, d)
	if err != nil {
		l.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: err.Error(), Subject: fields.Head(v)})
		return nil
	}
	c.At = v
	return c
}

// pooled returns the schema for a decoded value that refers directly to some definitions. The
// value is not changed.
func (l *linter) pooled(value any, direct []string, d *defs) (*Schema, error) {
	object, is := value.(map[string]any)
	if !is {
		direct = nil // true and false refer to nothing
	}
	c := &Schema{Uses: direct}
	definitions := 0
	var own string
	if len(direct) > 0 {
		if raw, err := plan.Canonical(value); err == nil {
			own = string(raw)
			if c.Schema = d.users[own]; c.Schema != nil {
				return c, nil
			}
		}
		used := map[string]any{}
		for _, name := range direct {
			for _, n := range d.ByName[name].Uses {
				used[n] = d.ByName[n].Value
			}
		}
		object = maps.Clone(object)
		object["defs"] = used
		value = object
		definitions = len(used)
	}
	s, err := l.pool.With(value, definitions)
	if err != nil {
		return nil, err
	}
	c.Schema = s
	if own != "" {
		if d.users == nil {
			d.users = map[string]*pool.Schema{}
		}
		d.users[own] = s
	}
	return c, nil
}
