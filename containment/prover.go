package containment

import (
	"encoding/binary"
	"errors"
	"regexp"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"chimera.ai/engine/schemas"
)

type schema = jsonschema.Schema

// lit is a schema or its negation.
type lit struct {
	s   *schema
	neg bool
}

func (l lit) not() lit { return lit{l.s, !l.neg} }

type state int

const (
	unknown state = iota
	empty
	found
)

// result is what is known about a goal: that it has no value, a value that it has, or
// why neither is known.
type result struct {
	state state
	value any
	why   reason
}

const noGoal = 1 << 30

// maxDepth bounds goals inside goals.
const maxDepth = 120

type exhausted struct{}

type prover struct {
	left int
	// spent is work beyond the budget, which the size of a schema bounds.
	spent int
	// depth is the number of goals around the one being solved, plus one.
	depth int
	buf   []byte
	ids   map[*schema]uint64
	memo  map[string]result
	// open are the goals that are being solved, with their depths. low is the
	// outermost of them that was taken for empty since it was last set.
	open map[string]int
	low  int
	// wild are the schemas that lead to what is not interpreted: what they mean
	// depends on where they stand.
	wild map[*schema]bool
	// part is set if the result is a part of a schema, which may be used elsewhere.
	part bool
	// depends is set if there is a dependencies keyword.
	depends bool

	pairs  map[[2]*schema]bool
	equals map[[2]*schema]bool
	apart  map[exclusion]bool
	consts map[string]*schema
	enums  map[*schema]*values
	langs  map[string]*lang
	keys   map[string]result
	loads  map[*schema]load
	sizes  map[*regexp.Regexp]int
}

func newProver(steps int) *prover {
	return &prover{left: steps, low: noGoal}
}

func (p *prover) step() { p.charge(1) }

func (p *prover) charge(n int) {
	if p.left -= n; p.left < 0 {
		panic(exhausted{})
	}
}

func rejected(err error) bool {
	var invalid *schemas.Invalid
	return errors.As(err, &invalid)
}

// check reports whether v is a value of all lits. sure is false if that is not known.
func (p *prover) check(lits []lit, v any) (yes, sure bool) {
	sure = true
	for _, l := range lits {
		y, s := p.test(l, v)
		if !y && s {
			return false, true
		}
		sure = sure && s
	}
	return sure, sure
}

// try looks for a value of lits among all candidates.
func (p *prover) try(lits []lit, values []any) result {
	r := result{state: empty}
	for _, v := range values {
		yes, sure := p.check(lits, v)
		if yes {
			return result{state: found, value: v}
		}
		if !sure {
			r = result{why: p.wildest(lits)}
		}
	}
	return r
}

// id returns the number that identifies a schema in keys.
func (p *prover) id(s *schema) uint64 {
	n, ok := p.ids[s]
	if !ok {
		if p.ids == nil {
			p.ids = map[*schema]uint64{}
		}
		n = uint64(len(p.ids))
		p.ids[s] = n
	}
	return n
}

// normal sorts lits, drops duplicates, and writes a key into p.buf.
func (p *prover) normal(lits []lit) []lit {
	id := func(l lit) uint64 {
		n := 2 * p.id(l.s)
		if l.neg {
			n++
		}
		return n
	}
	lits = slices.Clone(lits)
	slices.SortFunc(lits, func(a, b lit) int { return int(id(a)) - int(id(b)) })
	lits = slices.Compact(lits)
	p.buf = p.buf[:0]
	for _, l := range lits {
		p.buf = binary.AppendUvarint(p.buf, id(l))
	}
	return lits
}

// sat looks for a value of all of lits.
func (p *prover) sat(lits []lit) result {
	p.step()
	if len(lits) == 0 {
		return result{state: found}
	}
	lits = p.normal(lits)
	if p.memo == nil {
		p.memo, p.open = map[string]result{}, map[string]int{}
	}
	if r, ok := p.memo[string(p.buf)]; ok {
		return r
	}
	if depth, ok := p.open[string(p.buf)]; ok {
		p.low = min(p.low, depth)
		return result{state: empty}
	}
	key := string(p.buf)
	for _, a := range lits {
		for _, b := range lits {
			if !a.neg && b.neg && p.within(a.s, b.s) {
				r := result{state: empty}
				p.memo[key] = r
				return r
			}
		}
	}
	if len(p.open) > maxDepth {
		return result{why: reason{other: "values are nested too deeply"}}
	}
	depth := len(p.open)
	p.open[key] = depth
	outer := p.low
	p.low = noGoal
	p.depth++
	r := p.kinds(lits)
	p.depth--
	delete(p.open, key)
	// A result that depends on the emptiness of a goal that is still open is not
	// cached. That this goal is empty inside itself is no assumption: its smallest
	// value contains no smaller one.
	if r.state != empty || p.low >= depth {
		p.memo[key] = r
		p.low = outer
	} else {
		p.low = min(outer, p.low)
	}
	return r
}

var kinds = []string{"null", "boolean", "number", "string", "object", "array"}

func (p *prover) kinds(lits []lit) result {
	for _, l := range lits {
		if vs, ok := p.finite(l); ok {
			return p.try(lits, vs)
		}
	}
	all := result{state: empty}
	for _, t := range kinds {
		if slices.ContainsFunc(lits, func(l lit) bool { return !l.neg && !takes(l.s, t) }) {
			continue
		}
		var r result
		switch t {
		case "null":
			r = p.try(lits, []any{nil})
		case "boolean":
			r = p.try(lits, []any{true, false})
		default:
			r = p.expand(newConj(t, lits))
		}
		if r.state == found {
			return r
		}
		if r.state == unknown {
			all = result{why: all.why.or(r.why)}
		}
	}
	return all
}

// finite returns the values that l lists, if it does.
func (p *prover) finite(l lit) ([]any, bool) {
	if l.neg || l.s.Always != nil {
		return nil, false
	}
	switch {
	case len(l.s.Constant) > 0:
		return l.s.Constant[:1], true
	case len(l.s.Enum) > 0:
		return l.s.Enum, true
	}
	return nil, false
}

// takes is like admits, but follows references and allOf.
func takes(s *schema, t string) bool {
	left := maxTogether
	return !together(s, &left, func(s *schema) bool { return !admits(s, t) })
}

func admits(s *schema, t string) bool {
	if s.Always != nil {
		return *s.Always
	}
	return len(s.Types) == 0 || slices.Contains(s.Types, t) || t == "number" && slices.Contains(s.Types, "integer")
}
