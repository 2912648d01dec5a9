package siege

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// builder puts parts of a plan together.
type builder struct {
	*rand.Rand
	p *Plan
	// parts counts parts, for ids and gates that are their own.
	parts int
	taken map[string]bool
	// large is how large values may still be in all, in bytes.
	large int
}

func newBuilder(seed uint64) *builder {
	return &builder{
		Rand: rand.New(rand.NewPCG(seed, 0x5349454745)), taken: map[string]bool{}, large: 24 << 20,
		p: &Plan{Seed: seed, Input: map[string]any{"n": whole(0)}},
	}
}

func whole(n int) json.Number { return json.Number(fmt.Sprint(n)) }

// part begins a part and returns the prefix of its ids.
func (b *builder) part(name string) string {
	b.parts++
	if b.p.Name != "" {
		b.p.Name += "+"
	}
	b.p.Name += name
	return fmt.Sprintf("p%d", b.parts)
}

// add adds a node and returns its id.
func (b *builder) add(id string, op Op, timeout int64, with map[string]any) *Node {
	n := &Node{ID: id, Op: op, TimeoutMS: timeout, With: with}
	b.p.Nodes = append(b.p.Nodes, n)
	b.taken[id] = true
	return n
}

func (b *builder) edge(e Edge) *Edge {
	b.p.Edges = append(b.p.Edges, &e)
	return &e
}

// flow adds a required data edge of port x, after a required control edge.
func (b *builder) flow(from, to string) {
	b.edge(Edge{From: from, FromPort: "x", To: to, ToPort: "x", Type: "data", Required: true})
}

func (b *builder) after(from, to string) {
	b.edge(Edge{From: from, FromPort: "$done", To: to, ToPort: "$start", Type: "control", Required: true})
}

// rescue handles every failure of a node by another, or one that a condition takes.
func (b *builder) rescue(from, to, when string, holds func(Facts) bool) {
	b.edge(Edge{From: from, FromPort: "$error", To: to, ToPort: "$start", Type: "error", When: when, Holds: holds})
}

// result gives a node's x to the run's output.
func (b *builder) result(from, port string) {
	b.edge(Edge{From: from, FromPort: "x", To: output, ToPort: port, Type: "data"})
}

// local and ordinary are timeouts of nodes that run as local activities and as
// ordinary ones.
func (b *builder) local() int64 { return pick(b, []int64{1, 500, 999, 1000}) }
func (b *builder) ordinary() int64 {
	return pick(b, []int64{1001, 5000, 10_000, 10_001, 60_000, 24 * 60 * 60 * 1000})
}

func pick[T any](b *builder, from []T) T { return from[b.IntN(len(from))] }

// chance is true once in n times.
func (b *builder) chance(n int) bool { return b.IntN(n) == 0 }

// text is a text of n bytes, most of which some writers of JSON escape.
func text(n int) string { return strings.Repeat("0<1&2>3<&><<<<>>>>&&&&<<<<>>>>&&&&<<", n/36+1)[:n] }

// chain is n nodes, one after the other, by data or by control alone.
func (b *builder) chain(n int, timeout func() int64) {
	at := b.part(fmt.Sprintf("chain%d", n))
	last := ""
	data := b.chance(2)
	for i := range n {
		id := fmt.Sprintf("%sc%d", at, i)
		node := b.add(id, Pass, timeout(), nil)
		switch {
		case i == 0:
			node.With = map[string]any{"x": at}
		case data:
			b.flow(last, id)
		default:
			b.after(last, id)
		}
		last = id
	}
	if data || n == 1 {
		b.result(last, "x")
	}
}

// wide is n independent nodes with constants of a size, which may meet in one.
func (b *builder) wide(n, size int, meet bool, timeout func() int64) {
	at := b.part(fmt.Sprintf("wide%dx%d", n, size))
	if meet {
		b.add(at+"meet", Pass, 1000, nil)
	}
	for i := range n {
		id := fmt.Sprintf("%sw%d", at, i)
		b.add(id, Pass, timeout(), map[string]any{"x": fmt.Sprintf("%d %s", i, text(size))})
		if meet {
			b.edge(Edge{From: id, FromPort: "x", To: at + "meet", ToPort: "x", Type: "data"})
		}
	}
	if meet {
		b.result(at+"meet", "y")
	}
}

// fanin is n nodes that one waits for.
func (b *builder) fanin(n int, timeout func() int64) {
	at := b.part(fmt.Sprintf("fanin%d", n))
	for i := range n {
		id := fmt.Sprintf("%sf%d", at, i)
		b.add(id, Pass, timeout(), map[string]any{"x": whole(i)})
		b.after(id, at+"all")
	}
	b.add(at+"all", Pass, b.ordinary(), map[string]any{"x": at})
	b.result(at+"all", "z")
}

// sleeps is n calls at a time that take the same while.
func (b *builder) sleeps(n, ms int) {
	at := b.part(fmt.Sprintf("sleeps%dx%d", n, ms))
	for i := range n {
		b.add(fmt.Sprintf("%ss%d", at, i), Sleep, 20_000+b.ordinary()/2, map[string]any{"ms": whole(ms)})
	}
}

// fatal is a failure that nobody handles, beside sleeps that end around then.
func (b *builder) fatal(n, ms int) {
	at := b.part(fmt.Sprintf("fatal%dx%d", n, ms))
	for i := range n {
		b.add(fmt.Sprintf("%ss%d", at, i), Sleep, 60_000, map[string]any{"ms": whole(ms + b.IntN(40))})
	}
	b.add(at+"wait", Sleep, 60_000, map[string]any{"ms": whole(ms)})
	b.add(at+"ends", Fail, pick(b, []int64{1000, 5000}), map[string]any{"message": "the end of " + at})
	b.after(at+"wait", at+"ends")
}

// long is one call of many seconds beside a chain.
func (b *builder) long(ms, n int) {
	at := b.part(fmt.Sprintf("long%d", ms))
	b.add(at+"long", Sleep, 24*60*60*1000, map[string]any{"ms": whole(ms)})
	b.chain(n, b.local)
}

// never is a call that nobody will see the end of.
func (b *builder) never() {
	at := b.part("never")
	if b.chance(2) {
		b.add(at+"never", Sleep, 24*60*60*1000, map[string]any{"ms": whole(24*60*60*1000 - 1)}).Never = true
		return
	}
	b.add(at+"never", Wait, 24*60*60*1000, map[string]any{"key": "none"}).Never = true
}

// burst is n calls that end together, while local nodes run: the local node opens
// the gate before which they wait.
func (b *builder) burst(n int) {
	at := b.part(fmt.Sprintf("burst%d", n))
	key := fmt.Sprintf("%d-%s", b.p.Seed, at)
	b.add(at+"first", Sleep, 60_000, map[string]any{"ms": whole(500)})
	for i := range n {
		b.add(fmt.Sprintf("%sw%d", at, i), Wait, 24*60*60*1000, map[string]any{"key": key})
	}
	b.add(at+"open", Open, 1000, map[string]any{"key": key})
	b.after(at+"first", at+"open")
	last := at + "open"
	for i := range 3 {
		id := fmt.Sprintf("%sl%d", at, i)
		b.add(id, Sleep, 1000, map[string]any{"ms": whole(400)})
		b.after(last, id)
		last = id
	}
}

// tools is calls of programs, a chain of them and some beside it.
func (b *builder) tools(n int) {
	at := b.part(fmt.Sprintf("tools%d", n))
	last := ""
	for i := range n {
		id := fmt.Sprintf("%st%d", at, i)
		b.add(id, Tool, 60_000, map[string]any{"key": id})
		if i > 0 && i < n/2 {
			b.after(last, id)
		}
		last = id
	}
	b.result(last, "z")
}

// names are nodes with the names of the engine's own things, in flight beside a
// chain that is cut.
func (b *builder) names(n int) {
	b.part("names")
	for _, id := range []string{
		"journal", "Journal", "JOURNAL", "engine", "node", "close", "load", "local", "route", "deadline", "output", "input",
		"journal-1", "_", "0", "1", "state", "chimera", "error", "root", "probe", "store", "wait", "again", "child",
		strings.Repeat("z", 63), strings.Repeat("Z", 63), strings.Repeat("-", 0) + "a-", "__proto__", "null", "true",
	} {
		if !b.taken[id] {
			b.add(id, Sleep, pick(b, []int64{20_000, 24 * 60 * 60 * 1000}), map[string]any{"ms": whole(700 + b.IntN(800))})
		}
	}
	b.chain(n, b.local)
}
