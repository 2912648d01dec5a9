package containment

import (
	"encoding/json"
	"slices"

	"chimera.ai/engine/schemas"
)

// Project returns schemas of the objects that are values of s, reduced to names: each
// such object, without its other properties, is a value of at least one of the schemas.
// They may admit more values, but never fewer, and allow no other names. They preserve
// which values occur together in an alternative of s, which calls of [Property] would
// lose. The result is nil if s has more than most alternatives or the steps run out,
// and empty if no object is a value of s. Project does not panic.
func Project(s *schemas.Schema, names []string, most int, o Options) []*schemas.Schema {
	if s == nil {
		s = schemas.True()
	}
	p := newProver(o.steps())
	p.part = true
	if o.Spent != nil {
		defer func() { *o.Spent += 1 + p.spent + o.steps() - max(p.left, 0) }()
	}
	pr := &projection{prover: p, names: names, most: most, listed: map[string]bool{}}
	if !pr.run(s.Compiled()) {
		return nil
	}
	return pr.out
}

// projection gathers what the alternatives of a schema demand of some names.
type projection struct {
	*prover
	names []string
	most  int
	out   []*schemas.Schema
	// ways holds the elements of out that are not listed values, and listed the texts
	// of those that are.
	ways   []way
	listed map[string]bool
}

// way is what one alternative demands: of each name, and whether it is present.
type way struct {
	asked  [][]lit
	absent []bool
	needed []bool
}

func (w way) equal(o way) bool {
	return slices.EqualFunc(w.asked, o.asked, slices.Equal) && slices.Equal(w.absent, o.absent) && slices.Equal(w.needed, o.needed)
}

func (pr *projection) run(s *schema) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			ok = false
		}
	}()
	pr.survey(s)
	pr.out = []*schemas.Schema{}
	if !admits(s, "object") {
		return true
	}
	pr.depth = 1
	c := newConj("object", []lit{{s, false}})
	c.gather = func(c *conj, values []any) {
		if values == nil {
			pr.alternative(c.base)
			return
		}
		for _, v := range values {
			if yes, sure := pr.check(c.goal, v); yes || !sure {
				pr.value(v)
			}
		}
	}
	pr.expand(c)
	return true
}

// alternative adds what one alternative demands of the names.
func (pr *projection) alternative(base []atom) {
	with := func(a atom) bool {
		more := append(base[:len(base):len(base)], a)
		return !pr.contradictory(more) && pr.object(more).state != empty
	}
	if pr.contradictory(base) || pr.object(base).state == empty {
		return
	}
	var w way
	for _, name := range pr.names {
		there := with(atom{op: required, key: name})
		var asked []lit
		for _, a := range base {
			if there && (a.op == every || a.op == some && a.class.named) && a.class.has(name) {
				asked = append(asked, a.lit)
			}
		}
		w.asked = append(w.asked, asked)
		w.absent = append(w.absent, !there)
		w.needed = append(w.needed, !with(atom{op: absent, key: name}))
	}
	if slices.ContainsFunc(pr.ways, w.equal) {
		return
	}
	pr.ways = append(pr.ways, w)
	k := closed()
	for i, name := range pr.names {
		k.Properties[name] = schemas.False()
		if !w.absent[i] {
			k.Properties[name] = join([][]lit{w.asked[i]}, pr.wild)
		}
		if w.needed[i] {
			k.Required = append(k.Required, name)
		}
	}
	pr.add(k)
}

// value adds one value that the schema lists.
func (pr *projection) value(v any) {
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	cut := map[string]any{}
	k := closed()
	for _, name := range pr.names {
		if e, there := object[name]; there {
			cut[name] = e
			k.Properties[name] = schemas.Make(schemas.Keywords{Const: []any{e}})
			k.Required = append(k.Required, name)
		}
	}
	text, err := json.Marshal(cut)
	if err != nil {
		panic(exhausted{})
	}
	pr.charge(1 + len(text)/256)
	if !pr.listed[string(text)] {
		pr.listed[string(text)] = true
		pr.add(k)
	}
}

func (pr *projection) add(k schemas.Keywords) {
	if len(pr.out) >= pr.most {
		panic(exhausted{})
	}
	pr.out = append(pr.out, schemas.Make(k))
}

// closed returns the keywords of an object that allows no names; the caller adds them.
func closed() schemas.Keywords {
	return schemas.Keywords{Types: []string{"object"}, Properties: map[string]*schemas.Schema{}, Rest: schemas.False()}
}
