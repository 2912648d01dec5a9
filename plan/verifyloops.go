package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// backs marks the back edges of all loops; indexes out of range are left out.
func (p *Plan) backs() []bool {
	back := make([]bool, len(p.Edges))
	for i := range p.Loops {
		for _, e := range p.Loops[i].Back {
			if e >= 0 && e < len(back) {
				back[e] = true
			}
		}
	}
	return back
}

// forward lists the targets of each node over all edges but back edges.
func (p *Plan) forward() [][]int {
	back := p.backs()
	out := make([][]int, len(p.Nodes))
	for i := range p.Edges {
		if !back[i] {
			out[p.Edges[i].From] = append(out[p.Edges[i].From], p.Edges[i].To)
		}
	}
	return out
}

// loopOf returns the loop of each node, counted from 1, or 0.
func (p *Plan) loopOf() []int {
	of := make([]int, len(p.Nodes))
	for i := range p.Loops {
		for _, n := range p.Loops[i].Body {
			if n >= 0 && n < len(of) {
				of[n] = i + 1
			}
		}
	}
	return of
}

// verifyLoops checks that each loop is natural, and that there is no other
// cycle.
func (p *Plan) verifyLoops() error {
	last := len(p.Nodes) - 1
	of := make([]int, len(p.Nodes))
	for i := range p.Loops {
		l := &p.Loops[i]
		bad := func(text string) error { return fmt.Errorf("loop %d: %s", i, text) }
		switch {
		case !has(l.Body, l.Header) || !has(l.Body, l.Latch):
			return bad("header or latch is not in its body")
		case l.Body[0] < 1 || l.Body[len(l.Body)-1] >= last || !ascending(l.Body):
			return bad("its body is not a sorted list of nodes")
		case i > 0 && p.Loops[i-1].Body[0] >= l.Body[0]:
			return bad("loops are not in the order of their first nodes")
		case len(l.Back) == 0 || l.Back[0] < 0 || l.Back[len(l.Back)-1] >= len(p.Edges) || !ascending(l.Back):
			return bad("its back edges are not a sorted list of edges")
		case l.MaxIterations < 1 || l.MaxIterations > maxCount:
			return bad("iterations out of range")
		case l.OnExhausted != Fail && l.OnExhausted != Continue:
			return bad("unknown on_exhausted")
		}
		for _, at := range l.Back {
			if e := &p.Edges[at]; e.From != l.Latch || e.To != l.Header || e.Type != Conditional || e.Required {
				return bad("a back edge is not an optional conditional edge from latch to header")
			}
		}
		for _, n := range l.Body {
			if of[n] != 0 {
				return bad("it shares a node with another loop")
			}
			of[n] = i + 1
		}
	}
	back := p.backs()
	entered := make([]bool, len(p.Loops)+1)
	for i := range p.Edges {
		e := &p.Edges[i]
		l := of[e.To]
		if l == 0 || back[i] {
			continue
		}
		switch header := p.Loops[l-1].Header; {
		case of[e.From] != l && e.To != header:
			return fmt.Errorf("loop %d: edge %d enters it beside its header", l-1, i)
		case of[e.From] == l && e.To == header:
			return fmt.Errorf("loop %d: edge %d goes back and is no back edge", l-1, i)
		case of[e.From] != l:
			entered[l] = true
		}
	}
	for i := range p.Loops {
		if !entered[i+1] {
			return fmt.Errorf("loop %d: no edge enters it", i)
		}
	}
	return p.verifyOrder(of)
}

// verifyOrder checks that edges other than back edges form no cycle, and that every
// node of a loop is on a path from its header to its latch.
func (p *Plan) verifyOrder(of []int) error {
	out := p.forward()
	waits := make([]int, len(p.Nodes))
	for _, targets := range out {
		for _, to := range targets {
			waits[to]++
		}
	}
	order := make([]int, 0, len(p.Nodes))
	for i, w := range waits {
		if w == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, to := range out[order[at]] {
			if waits[to]--; waits[to] == 0 {
				order = append(order, to)
			}
		}
	}
	if len(order) < len(p.Nodes) {
		return errors.New("a cycle that is no loop")
	}
	ends := make([]bool, len(p.Nodes))
	for _, n := range slices.Backward(order) {
		l := of[n]
		if l == 0 {
			continue
		}
		ends[n] = n == p.Loops[l-1].Latch || slices.ContainsFunc(out[n], func(to int) bool { return of[to] == l && ends[to] })
		if !ends[n] {
			return fmt.Errorf("loop %d: node %q does not lead to its latch", l-1, p.Nodes[n].ID)
		}
	}
	// A node of the body that no edge of the body enters is the header, since
	// edges from outside enter only there.
	inner := make([]bool, len(p.Nodes))
	for n, targets := range out {
		for _, to := range targets {
			inner[to] = inner[to] || of[n] == of[to]
		}
	}
	for n, l := range of {
		if l != 0 && !inner[n] && n != p.Loops[l-1].Header {
			return fmt.Errorf("loop %d: node %q is not reached from its header", l-1, p.Nodes[n].ID)
		}
	}
	return nil
}

// ascending reports whether the names are sorted and unique. A port may well be
// named "": every string is the name of a property.
func ascending[S cmp.Ordered](names []S) bool {
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			return false
		}
	}
	return true
}

func has[T cmp.Ordered](sorted []T, name T) bool {
	_, ok := slices.BinarySearch(sorted, name)
	return ok
}
