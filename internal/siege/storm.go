package siege

import (
	"fmt"
	"slices"
	"strings"
)

// storm is n failures with messages and details at their bounds, and edges with
// predicates that send them to one of two places.
func (b *builder) storm(n int) {
	at := b.part(fmt.Sprintf("storm%d", n))
	b.add(at+"a", Pass, b.local(), map[string]any{"x": "a"})
	b.add(at+"b", Pass, b.local(), map[string]any{"x": "b"})
	b.result(at+"a", "x")
	b.result(at+"b", "x")
	for i := range n {
		id := fmt.Sprintf("%sf%d", at, i)
		kind := pick(b, []string{"tool_error", "timeout", "server_error", "contract", "auth", "transport"})
		with := map[string]any{"message": text(pick(b, []int{1, 500, 501, 2600, 4096})), "kind": kind}
		if b.chance(2) {
			with["details"] = map[string]any{"d": text(pick(b, []int{1, 1000, 8<<10 - 8}))}
		}
		node := b.add(id, Fail, pick(b, []int64{500, 1000, 5000}), with)
		node.Retry = pick(b, []Retry{{}, {Max: 2, InitialMS: 1, MaxMS: 1}, {Max: 1, On: []string{"tool_error"}, InitialMS: 20}, {Max: 100, On: []string{}}})
		is := func(want string) (string, func(Facts) bool) {
			return fmt.Sprintf("error.kind == '%s'", want), func(f Facts) bool { return f.Error.Kind == want }
		}
		not := func(want string) (string, func(Facts) bool) {
			return fmt.Sprintf("error.kind != '%s'", want), func(f Facts) bool { return f.Error.Kind != want }
		}
		when, holds := is(kind)
		b.rescue(id, at+"a", when, holds)
		when, holds = not(kind)
		b.rescue(id, at+"b", when, holds)
		if b.chance(3) {
			b.rescue(id, at+"b", "input.n > 500", func(f Facts) bool { return integer(f.Input["n"]) > 500 })
		}
	}
}

// payloads is failures whose whole payload flows on as a value.
func (b *builder) payloads(n int) {
	at := b.part(fmt.Sprintf("payloads%d", n))
	for i := range n {
		from, to := fmt.Sprintf("%sf%d", at, i), fmt.Sprintf("%st%d", at, i)
		b.add(from, Fail, pick(b, []int64{500, 5000}), map[string]any{
			"message": text(pick(b, []int{1, 4096})), "details": map[string]any{"d": text(pick(b, []int{1, 8<<10 - 8}))},
		})
		b.add(to, Pass, pick(b, []int64{500, 5000}), nil)
		b.edge(Edge{From: from, FromPort: "$error", To: to, ToPort: "x", Type: "error", Required: true, Kind: b.chance(2)})
		if i == 0 {
			b.result(to, "y")
		}
	}
}

// retries is calls that fail some times first, with waits at both ends.
func (b *builder) retries(n int) {
	at := b.part(fmt.Sprintf("retries%d", n))
	for i := range n {
		fails := b.IntN(4)
		node := b.add(fmt.Sprintf("%sr%d", at, i), Blow, pick(b, []int64{1000, 5000}), map[string]any{
			"key": fmt.Sprintf("%d-%s-%d", b.p.Seed, at, i), "fails": whole(fails),
		})
		node.Retry = Retry{Max: 100, On: []string{"transport", "tool_error"}, InitialMS: 1, Multiplier: 1, MaxMS: 1}
		switch {
		case fails == 0:
			node.Retry.InitialMS, node.Retry.MaxMS = 24*60*60*1000, 24*60*60*1000
		case fails == 1 && b.chance(8):
			node.Retry.InitialMS, node.Retry.MaxMS, node.Retry.Multiplier = 11_000, 11_000, 100
		}
		b.result(node.ID, "z")
	}
}

// values is large values: made, handed on, and given out.
func (b *builder) values(sizes ...int) {
	at := b.part("values")
	for i, size := range sizes {
		if size > 1<<10 && b.large < 4*size {
			continue
		}
		b.large -= 4 * size
		from, to := fmt.Sprintf("%sg%d", at, i), fmt.Sprintf("%sh%d", at, i)
		b.add(from, Grow, pick(b, []int64{1000, 20_000}), map[string]any{"size": whole(size)})
		b.add(to, Pass, pick(b, []int64{1000, 20_000}), nil)
		b.flow(from, to)
		if i == 0 {
			b.result(to, "x")
		}
	}
}

// given is a large input, which many nodes read.
func (b *builder) given(size, n int) {
	at := b.part(fmt.Sprintf("given%d", size))
	if b.large < size*4 {
		return
	}
	b.large -= size * 4
	b.p.Input["x"] = text(size)
	for i := range n {
		id := fmt.Sprintf("%si%d", at, i)
		b.add(id, Pass, pick(b, []int64{1000, 20_000}), nil)
		b.flow(input, id)
	}
}

// mesh is n nodes with edges of every type between them.
func (b *builder) mesh(n int) {
	at := b.part(fmt.Sprintf("mesh%d", n))
	var nodes []*Node
	for i := range n {
		id := fmt.Sprintf("%sm%d", at, i)
		switch b.IntN(8) {
		case 0:
			node := b.add(id, Fail, pick(b, []int64{500, 5000}), map[string]any{"message": "broken " + id, "kind": pick(b, []string{"tool_error", "contract", "expr"})})
			b.into(node, nodes, false)
			b.handle(at, node, i)
			nodes = append(nodes, node)
		case 1:
			b.into(b.add(id, Sleep, pick(b, []int64{1000, 5000}), map[string]any{"ms": whole(b.IntN(40))}), nodes, false)
			nodes = append(nodes, b.p.Nodes[len(b.p.Nodes)-1])
		case 2:
			node := b.add(id, Sleep, pick(b, []int64{1, 20}), map[string]any{"ms": whole(60_000)})
			b.into(node, nodes, false)
			b.handle(at, node, i)
			nodes = append(nodes, node)
		default:
			node := b.add(id, Pass, pick(b, []int64{1, 500, 1000, 5000}), map[string]any{"n": whole(b.IntN(1001))})
			if b.chance(6) {
				node.Longest = 8
				b.handle(at, node, i)
			}
			b.into(node, nodes, true)
			nodes = append(nodes, node)
		}
	}
	for range 3 {
		from := nodes[b.IntN(len(nodes))]
		if from.Op == Pass {
			b.result(from.ID, pick(b, []string{"x", "y", "z"}))
		}
	}
}

// handle gives a node of a mesh that fails someone who handles that, most times.
func (b *builder) handle(at string, from *Node, i int) {
	if b.chance(40) {
		return // fatal, if it runs
	}
	id := fmt.Sprintf("%sh%d", at, i)
	b.add(id, Pass, pick(b, []int64{500, 5000}), map[string]any{"x": "handled"})
	b.rescue(from.ID, id, "", nil)
	if b.chance(2) {
		b.rescue(from.ID, id, "error.kind == 'tool_error'", func(f Facts) bool { return f.Error.Kind == "tool_error" })
	}
}

// into adds edges from earlier nodes. Ports of a Pass may be filled by them; other
// operations wait for them alone.
func (b *builder) into(n *Node, earlier []*Node, data bool) {
	for range min(b.IntN(4), len(earlier)) {
		from := earlier[b.IntN(len(earlier))]
		e := Edge{From: from.ID, To: n.ID, FromPort: "$done", ToPort: "$start", Type: "control", Required: b.chance(4)}
		switch kind := b.IntN(6); {
		case from.Op != Pass: // fails or sleeps
		case kind < 2 && data:
			e.Type, e.FromPort, e.ToPort = "data", pick(b, []string{"y", "n"}), pick(b, []string{"x", "y", "z"})
			e.Required = e.Required && e.FromPort == "n" && !b.filled(n.ID, e.ToPort)
		case kind == 2:
			limit := b.IntN(1001)
			e.Type, e.FromPort, e.When = "conditional", "n", fmt.Sprintf("value > %d", limit)
			e.Holds = func(f Facts) bool { return integer(f.Value) > int64(limit) }
		case kind == 3:
			limit := b.IntN(1001)
			e.Type, e.When = "conditional", fmt.Sprintf("input.n < %d", limit)
			e.Holds = func(f Facts) bool { return integer(f.Input["n"]) < int64(limit) }
		case kind == 4 && b.branches(from.ID):
			e.Type, e.When = "conditional", Otherwise
			// Conditions on the input may be known to hold, and then this one never does.
			e.Required = e.Required && !b.onInput(from.ID)
		}
		if e.Type == "conditional" && b.asked(&e) {
			e.Required = false // together they might never hold, and the compiler says so
		}
		if !b.same(&e) {
			b.edge(e)
		}
	}
}

// filled reports whether a required edge fills the port.
func (b *builder) filled(id, port string) bool {
	for _, e := range b.p.Edges {
		if e.To == id && e.ToPort == port && e.Required {
			return true
		}
	}
	return false
}

// branches reports whether a node has a conditional edge, and none for otherwise.
func (b *builder) branches(id string) bool {
	found := false
	for _, e := range b.p.Edges {
		if e.From == id && e.When == Otherwise {
			return false
		}
		found = found || e.From == id && e.Type == "conditional"
	}
	return found
}

// onInput reports whether a node has a condition on its input.
func (b *builder) onInput(id string) bool {
	return slices.ContainsFunc(b.p.Edges, func(e *Edge) bool { return e.From == id && strings.HasPrefix(e.When, "input.") })
}

// asked reports whether a required condition leads from e's node to the same one.
func (b *builder) asked(e *Edge) bool {
	return slices.ContainsFunc(b.p.Edges, func(o *Edge) bool {
		return o.From == e.From && o.To == e.To && o.Type == "conditional" && o.Required
	})
}

// same reports whether there is such an edge already.
func (b *builder) same(e *Edge) bool {
	for _, o := range b.p.Edges {
		if strings.EqualFold(o.String(), e.String()) {
			return true
		}
	}
	return false
}
