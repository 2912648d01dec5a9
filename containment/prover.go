package containment

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"chimera.ai/engine/schemas"
)

type schema = jsonschema.Schema

// lit is a schema or its negation.
type lit struct {
	s   *schema
	neg bool
}

type state int

const (
	unknown state = iota
	empty
	found
)

// result is what is known of a goal. low is the outermost open goal whose
// emptiness was assumed, or noGoal.
type result struct {
	state state
	value any
	low   int
}

const noGoal = 1 << 30

type exhausted struct{}

type prover struct {
	left   int
	ids    map[*schema]int
	memo   map[string]result
	open   map[string]int
	reason string
	low    int
	equals map[[2]*schema]bool
}

func (p *prover) step() {
	if p.left--; p.left < 0 {
		panic(exhausted{})
	}
}

func (p *prover) because(s *schema, keyword string) {
	if p.reason == "" {
		p.reason = s.Location + "/" + keyword
	}
}

func rejected(err error) bool {
	var invalid *schemas.Invalid
	return errors.As(err, &invalid)
}

// holds reports what the validator says of v; sure is false if it gave up.
func (l lit) holds(v any) (yes, sure bool) {
	err := l.s.Validate(v)
	var ve *jsonschema.ValidationError
	if err != nil && !errors.As(err, &ve) {
		return false, false
	}
	return (err == nil) != l.neg, true
}

func (p *prover) check(lits []lit, v any) (yes, sure bool) {
	sure = true
	for _, l := range lits {
		p.step()
		y, s := l.holds(v)
		if !y && s {
			return false, true
		}
		sure = sure && s
	}
	return sure, sure
}

// try looks for a value among all that there can be.
func (p *prover) try(lits []lit, values []any) result {
	r := result{state: empty, low: noGoal}
	for _, v := range values {
		yes, sure := p.check(lits, v)
		if yes {
			return result{state: found, value: v, low: noGoal}
		}
		if !sure {
			r.state = unknown
		}
	}
	return r
}

func (p *prover) key(lits []lit) ([]lit, string) {
	id := func(l lit) int {
		n, ok := p.ids[l.s]
		if !ok {
			n = len(p.ids)
			p.ids[l.s] = n
		}
		n *= 2
		if l.neg {
			n++
		}
		return n
	}
	lits = slices.Clone(lits)
	slices.SortFunc(lits, func(a, b lit) int { return id(a) - id(b) })
	lits = slices.Compact(lits)
	var b strings.Builder
	for _, l := range lits {
		b.WriteString(strconv.Itoa(id(l)))
		b.WriteByte(',')
	}
	return lits, b.String()
}

// sat looks for a value of all of lits.
func (p *prover) sat(lits []lit) result {
	p.step()
	lits, key := p.key(lits)
	if r, ok := p.memo[key]; ok {
		return r
	}
	for _, a := range lits {
		for _, b := range lits {
			if !a.neg && b.neg && p.same(a.s, b.s) {
				return result{state: empty, low: noGoal}
			}
		}
	}
	if depth, ok := p.open[key]; ok {
		p.low = min(p.low, depth)
		return result{state: empty, low: depth}
	}
	if len(p.open) > 200 {
		p.reason = "nested too deeply"
		return result{}
	}
	depth := len(p.open)
	p.open[key] = depth
	outer := p.low
	p.low = noGoal
	r := p.kinds(lits)
	delete(p.open, key)
	if r.state != empty || p.low >= depth {
		p.memo[key] = r
		p.low = outer
	} else {
		p.low = min(outer, p.low)
	}
	return r
}

func (p *prover) kinds(lits []lit) result {
	for _, l := range lits {
		if !l.neg && len(l.s.Constant) > 0 {
			return p.try(lits, l.s.Constant[:1])
		}
		if !l.neg && len(l.s.Enum) > 0 {
			return p.try(lits, l.s.Enum)
		}
	}
	all := result{state: empty, low: noGoal}
	for _, t := range []string{"null", "boolean", "number", "string", "object", "array"} {
		if slices.ContainsFunc(lits, func(l lit) bool { return !l.neg && !admits(l.s, t) }) {
			continue
		}
		var r result
		switch t {
		case "null":
			r = p.try(lits, []any{nil})
		case "boolean":
			r = p.try(lits, []any{true, false})
		default:
			c := &conj{kind: t, goal: lits}
			for _, l := range lits {
				c.units = append(c.units, atom{op: literal, lit: l})
			}
			r = p.expand(c)
		}
		if r.state == found {
			return r
		}
		if r.state == unknown {
			all.state = unknown
		}
	}
	return all
}

func admits(s *schema, t string) bool {
	if s.Always != nil {
		return *s.Always
	}
	return len(s.Types) == 0 || slices.Contains(s.Types, t) || t == "number" && slices.Contains(s.Types, "integer")
}
