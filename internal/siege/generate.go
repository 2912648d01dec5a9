package siege

import (
	"fmt"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
)

// Parallels are the values of max_parallel that are drawn; 0 is the default.
var Parallels = []int{0, 1, 2, 32, 400, 2300, 10_000}

// Generate draws a plan by seed. A small one runs within seconds.
func Generate(seed uint64, small bool) *Plan {
	b := newBuilder(seed)
	b.p.Input["n"] = whole(b.IntN(1001))
	b.p.Parallel = Parallels[b.IntN(len(Parallels))]
	parts := 1 + b.IntN(3)
	for range parts {
		if small {
			b.smallPart()
		} else {
			b.heavyPart()
		}
	}
	b.deadline()
	b.rename()
	return b.p
}

// draws bounds how often [Draw] draws a plan.
const draws = 3

// Draw is [Generate], and again with another seed where the compiler refuses the plan
// for a node that can never run, or for an edge that is there twice: fewer than one
// draw in a hundred comes to that. Any other refusal is an error.
func Draw(seed uint64, small bool, catalog *catalog.Catalog) (*Plan, error) {
	for again := uint64(0); ; again++ {
		p := Generate(seed+again<<32, small)
		source, err := p.Source()
		if err != nil {
			return nil, err
		}
		_, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, catalog, nil)
		if !ds.HasErrors() {
			return p, nil
		}
		for _, d := range ds {
			if d.Severity == diag.Error && (again+1 == draws || d.Code != diag.PlanUnreachable && d.Code != diag.PlanDuplicateID) {
				return nil, fmt.Errorf("seed %d (%s): %s: %s: %s", seed, p.Name, d.Code, d.Summary, d.Detail)
			}
		}
	}
}

func (b *builder) smallPart() {
	switch b.IntN(10) {
	case 0:
		b.chain(1+b.IntN(120), b.either())
	case 1:
		b.wide(1+b.IntN(60), pick(b, []int{1, 15_000, 16_000, 16_384}), b.chance(2), b.either())
	case 2:
		b.fanin(1+b.IntN(60), b.local)
	case 3:
		b.storm(1 + b.IntN(12))
	case 4:
		b.payloads(1 + b.IntN(6))
	case 5:
		b.retries(1 + b.IntN(6))
	case 6:
		b.values(15_000, 17_000, 300_000)
	case 7:
		b.fatal(4, 50)
	case 8:
		b.tools(1 + b.IntN(5))
	default:
		b.mesh(10 + b.IntN(60))
	}
}

func (b *builder) heavyPart() {
	// Few at a time would make these last for minutes.
	many := b.p.Parallel == 0 || b.p.Parallel >= 32
	switch b.IntN(21) {
	case 0:
		b.chain(pick(b, []int{1, 449, 450, 2000}), b.local)
	case 1:
		b.chain(pick(b, []int{10_000, 5000}), b.local)
	case 2:
		b.chain(pick(b, []int{3, 150}), b.either())
	case 3:
		b.wide(pick(b, []int{320, 330, 64}), 15_000, b.chance(2), b.local)
	case 4:
		b.wide(pick(b, []int{1, 40, 200}), pick(b, []int{16_000, 16_383, 16_384, 16_500, 30_000}), b.chance(2), b.either())
	case 5:
		b.wide(pick(b, []int{500, 3000}), 1, b.chance(2), b.either())
	case 6:
		b.fanin(pick(b, []int{2, 5000}), b.local)
	case 7:
		if many {
			b.sleeps(pick(b, []int{300, 1200}), 1500)
		}
	case 8:
		if b.p.Parallel == 0 || b.p.Parallel >= 400 {
			b.sleeps(2300, 1500)
		}
	case 9:
		b.fatal(31, pick(b, []int{20, 100, 300}))
	case 10:
		b.long(pick(b, []int{5000, 12_000}), pick(b, []int{300, 1500}))
	case 11:
		// What opens the gate needs room beside those that wait for it.
		if b.p.Parallel >= 400 {
			b.burst(pick(b, []int{99, 300}))
		}
	case 12:
		if many {
			b.names(pick(b, []int{100, 450}))
		}
	case 13:
		b.storm(pick(b, []int{5, 60, 250}))
	case 14:
		b.payloads(pick(b, []int{3, 100}))
	case 15:
		b.retries(pick(b, []int{3, 40}))
	case 16:
		b.values(15_000, 16_200, 16_384, 17_000, 262_100, 263_000, 1<<20)
	case 17:
		b.values(3 << 20)
	case 18:
		b.given(pick(b, []int{16_300, 300_000, 1 << 20}), pick(b, []int{1, 100}))
	case 19:
		b.tools(pick(b, []int{4, 30}))
	default:
		b.mesh(pick(b, []int{30, 150, 400}))
	}
	if len(b.p.Nodes) == 0 {
		b.mesh(20)
	}
}

// either is local nodes, ordinary ones, or some of both.
func (b *builder) either() func() int64 {
	switch b.IntN(3) {
	case 0:
		return b.local
	case 1:
		return b.ordinary
	}
	return func() int64 {
		if b.chance(2) {
			return b.local()
		}
		return b.ordinary()
	}
}

// Late is the deadline up to which a run may be late.
const Late = 60 * 1000

// deadline draws one: none, far, or one that passes. A call without end makes
// sure that it does.
func (b *builder) deadline() {
	switch b.IntN(12) {
	case 0:
		b.p.DeadlineMS = pick(b, []int64{1, 300, 2000, 4000})
	case 1:
		b.p.DeadlineMS = 3000
		b.never()
	case 2, 3:
		b.p.DeadlineMS = 366 * 24 * 60 * 60 * 1000
	}
}

// rename gives some nodes names that differ by case only, or are the longest.
func (b *builder) rename() {
	if !b.chance(3) {
		return
	}
	names := map[string]string{}
	for i, n := range b.p.Nodes {
		switch {
		case i%7 == 3:
			names[n.ID] = strings.ToUpper(n.ID)
		case i%11 == 5:
			names[n.ID] = n.ID + strings.Repeat("_", 63-len(n.ID))
		}
		if to := names[n.ID]; to != "" && b.taken[to] {
			delete(names, n.ID)
		}
	}
	for _, n := range b.p.Nodes {
		if to, ok := names[n.ID]; ok {
			n.ID = to
		}
	}
	for _, e := range b.p.Edges {
		if to, ok := names[e.From]; ok {
			e.From = to
		}
		if to, ok := names[e.To]; ok {
			e.To = to
		}
	}
}
