package typing

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/schemas"
)

// maxBoundaries bounds the values at which an expression is tried.
const maxBoundaries = 48

// boundaries gathers the values and sizes at which a result may change.
type boundaries struct {
	seen map[string]bool
	out  []*schemas.Schema
	// left is the number of schemas still to be looked at.
	left int
}

// literal matches a number or a string in an expression.
var literal = regexp.MustCompile(`\d+(?:\.\d+)?|'[^'\\]*'|"[^"\\]*"`)

// boundaries lists schemas of the values at which the template may begin to fail:
// what it compares with, the ends of intervals, and their neighbours.
func (q *search) boundaries(hint any) []*schemas.Schema {
	e := &boundaries{seen: map[string]bool{}, left: 400}
	e.value(hint)
	eachExpression(q.template.Value, func(text string) {
		for _, m := range literal.FindAllString(text, 16) {
			if m[0] == '\'' || m[0] == '"' {
				e.value(m[1 : len(m)-1])
			} else {
				e.value(json.Number(m))
			}
		}
	})
	e.schema(q.target, 6)
	s := q.scope
	for _, n := range names {
		if x := *n.of(&s); x != nil && q.reads[n.name] {
			e.schema(x, 6)
		}
	}
	return e.out
}

// add adds a schema, unless one of the same key is there.
func (e *boundaries) add(key string, k schemas.Keywords) {
	if !e.seen[key] && len(e.out) < maxBoundaries {
		e.seen[key] = true
		e.out = append(e.out, schemas.Make(k))
	}
}

// number adds a number and its two neighbours.
func (e *boundaries) number(r *big.Rat) {
	if r == nil {
		return
	}
	for _, d := range []int64{0, 1, -1} {
		x := new(big.Rat).Add(r, big.NewRat(d, 1))
		if n, exact := x.FloatPrec(); exact && n < 20 {
			e.add("n"+x.RatString(), proof.Constant(json.Number(x.FloatString(n))))
		}
	}
}

// size adds strings and lists of a length, and of the lengths beside it.
func (e *boundaries) size(n int) {
	if n < 0 || n > 4096 {
		return
	}
	for _, d := range []int{n, n + 1, max(n-1, 0)} {
		e.add("s"+strconv.Itoa(d), schemas.Keywords{
			MinLength: &d, MaxLength: &d, MinItems: &d, MaxItems: &d, Types: []string{"string", "array"},
		})
	}
}

// value adds a value, or those in it.
func (e *boundaries) value(v any) {
	switch v := v.(type) {
	case json.Number:
		if len(v) <= 64 && !strings.ContainsAny(v.String(), "eE") {
			if r, ok := new(big.Rat).SetString(v.String()); ok {
				e.number(r)
			}
		}
	case string:
		if len(v) <= 256 {
			e.add("t"+v, proof.Constant(v))
		}
	case []any:
		for _, x := range v[:min(len(v), 8)] {
			e.value(x)
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			e.value(v[k])
		}
	}
}

// eachExpression calls do for each string of a template that has expressions.
func eachExpression(t any, do func(text string)) {
	switch t := t.(type) {
	case string:
		if strings.Contains(t, "${") {
			do(t)
		}
	case []any:
		for _, x := range t {
			eachExpression(x, do)
		}
	case map[string]any:
		for _, k := range sortedKeys(t) {
			eachExpression(t[k], do)
		}
	}
}

// schema adds the bounds of a schema and of its parts.
func (e *boundaries) schema(s *schemas.Schema, depth int) {
	if e.left--; e.left < 0 || depth == 0 {
		return
	}
	c := s.Compiled()
	for _, v := range c.Constant {
		e.value(v)
	}
	for _, v := range c.Enum[:min(len(c.Enum), 8)] {
		e.value(v)
	}
	for _, r := range []*big.Rat{c.Minimum, c.Maximum, c.ExclusiveMinimum, c.ExclusiveMaximum} {
		e.number(r)
	}
	for _, n := range []int{c.MinLength, c.MaxLength, c.MinItems, c.MaxItems} {
		e.size(n)
	}
	if c.Ref != nil {
		e.schema(schemas.Wrap(c.Ref), depth-1)
	}
	if c.Items2020 != nil {
		e.schema(schemas.Wrap(c.Items2020), depth-1)
	}
	if c.Not != nil {
		e.schema(schemas.Wrap(c.Not), depth-1)
	}
	for _, name := range sortedKeys(c.Properties) {
		e.schema(schemas.Wrap(c.Properties[name]), depth-1)
	}
	for _, x := range slices.Concat(c.AllOf, c.AnyOf, c.OneOf) {
		e.schema(schemas.Wrap(x), depth-1)
	}
}
