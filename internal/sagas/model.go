package sagas

import (
	"slices"
)

// row is what the ledger may say of an effect when all its calls are over.
type row struct {
	state rowState
	// page is what the call has answered, or "-" where it has failed or nobody knows.
	page string
}

type rowState string

const (
	absent   rowState = "absent" // it was not called
	settled  rowState = "settled"
	released rowState = "released"
	unknown  rowState = "unknown"
)

// state is how a node may end: "ok", "skipped", or a failure's kind.
type state string

const (
	succeeded state = "ok"
	skipped   state = "skipped"
	// Edges of these plans handle these two: the second once the effect is undone.
	toolError      state = "tool_error"
	outcomeUnknown state = "outcome_unknown"

	invalidOutput state = "invalid_output"
	unsent        state = "unsent"
	rejected      state = "rejected"
)

// pages that calls answer, and that verifications say they have answered.
const (
	answered = "7"
	verified = "8"
	nothing  = "-"
)

// after returns what may be in the ledger after a call. If a worker was killed, the end of a
// call that has answered may not have been recorded.
func after(c *call, v Verify, killed bool) (out []row) {
	switch c.answer {
	case "ok":
		out = append(out, row{settled, answered})
	case "error", "garbage":
		out = append(out, row{settled, nothing})
	}
	if c.answer != "" && !killed {
		return out
	}
	switch {
	case v != Truth:
		return append(out, row{unknown, nothing})
	case c.did:
		return append(out, row{settled, verified})
	}
	return append(out, row{released, nothing})
}

// rows returns what may be in the ledger of an effect.
func rows(n *Node, calls []*call, killed bool) []row {
	if len(calls) > 0 {
		return after(calls[len(calls)-1], n.Verify, killed)
	}
	out := []row{{absent, nothing}}
	if killed { // between the claim and the call
		out = append(append(out, row{released, nothing}), after(&call{}, n.Verify, true)...)
	}
	return out
}

// ends returns how a node that runs may end.
func ends(n *Node, calls []*call, killed bool) (out []state) {
	switch n.Op {
	case Pass:
		return []state{succeeded}
	case Fail:
		return []state{toolError}
	case Note:
		if n.Does == Refuse {
			return []state{toolError}
		}
		return []state{succeeded}
	}
	if n.Does == Rejected {
		return []state{rejected}
	}
	if len(calls) == 0 {
		calls = scripted(n)
		if killed {
			out = append(out, unsent) // it was not even started
			if n.Verify != Truth {
				out = append(out, outcomeUnknown)
			}
		}
	}
	last := calls[len(calls)-1]
	for _, r := range after(last, n.Verify, killed) {
		switch {
		case r.state == unknown:
			out = append(out, outcomeUnknown)
		case r.state == released:
			out = append(out, unsent)
		case r.page != nothing:
			out = append(out, succeeded)
		case last.answer == "garbage":
			out = append(out, invalidOutput)
		default:
			out = append(out, toolError)
		}
	}
	return out
}

// scripted returns how the calls of a node would go.
func scripted(n *Node) (out []*call) {
	for attempt := 0; ; attempt++ {
		c := &call{}
		first := attempt == 0
		switch {
		case n.Does == Refuse:
			c.answer = "error"
		case n.Does == Tear:
			c.did, c.answer = true, "error"
		case n.Does == Garble:
			c.did, c.answer = true, "garbage"
		case n.Does == Lose, n.Does == Died:
			c.did = true
		case n.Does == Vanish, first && (n.Does == Once || n.Does == Dies):
		case n.Does == Pretend:
			c.answer = "ok"
		default:
			c.did, c.answer = true, "ok"
		}
		out = append(out, c)
		if c.answer != "" || c.did || n.Verify != Truth || attempt == n.Retries {
			return out
		}
	}
}

// graph is nodes with how each may end if all of them come to their end.
type graph struct {
	nodes []*Node
	ends  map[string][]state
	// runs has the nodes that run for sure, and may those that may run.
	runs, may map[string]bool
}

// resolve works out a graph, in the order of its nodes. enters says whether a node without
// edges from others runs.
func resolve(nodes []*Node, enters func(*Node) bool, calls func(*Node) []*call, killed bool) *graph {
	g := &graph{nodes: nodes, ends: map[string][]state{}, runs: map[string]bool{}, may: map[string]bool{}}
	for _, n := range nodes {
		can, must := true, true
		if n.head() {
			can = enters(n)
			must = can
		}
		if n.Rescues != "" {
			must = must && n.From != outcomeUnknown // if it can be undone
		}
		for id, s := range n.wants() {
			can = can && slices.Contains(g.ends[id], s)
			must = must && g.must(id, s)
		}
		g.may[n.ID], g.runs[n.ID] = can, can && must
		if can {
			g.ends[n.ID] = ends(n, calls(n), killed)
		}
		if !can || !must {
			g.ends[n.ID] = append(g.ends[n.ID], skipped)
		}
	}
	return g
}

// wants has the nodes that must have ended before a node is started, and how.
func (n *Node) wants() map[string]state {
	all := map[string]state{}
	for _, id := range n.Needs {
		all[id] = succeeded
	}
	if n.Rescues != "" {
		all[n.Rescues] = n.From
	}
	return all
}

// must reports whether a node can end in one way only.
func (g *graph) must(id string, s state) bool { return len(g.ends[id]) == 1 && g.ends[id][0] == s }

// spared leaves out every end of a block's nodes that ends the block: it has come to its end.
func (g *graph) spared() {
	for _, n := range g.nodes {
		runs := g.may[n.ID]
		for id, s := range n.wants() {
			runs = runs && g.must(id, s)
		}
		g.runs[n.ID] = runs
		g.ends[n.ID] = slices.DeleteFunc(g.ends[n.ID], func(s state) bool {
			_, fatal := g.fatal(n, s)
			return fatal || s == skipped && runs
		})
	}
}

// rescuer returns the node that handles a way in which a node may end, or nil.
func rescuer(nodes []*Node, n *Node, s state) *Node {
	for _, h := range nodes {
		if h.Rescues == n.ID && h.From == s {
			return h
		}
	}
	return nil
}

// fatal says whether a way in which a node may end may end the run, and whether it must.
func (g *graph) fatal(n *Node, s state) (may, must bool) {
	if s == succeeded || s == skipped {
		return false, false
	}
	handled := rescuer(g.nodes, n, s) != nil
	return !handled || s == outcomeUnknown, !handled
}

// fails says whether a node may fail so that nothing handles it, and whether it must.
func (g *graph) fails(n *Node) (may, must bool) {
	must = true
	for _, s := range g.ends[n.ID] {
		m, f := g.fatal(n, s)
		may, must = may || m, must && f
	}
	return may, must
}

// before reports whether a node comes to its end before another may begin.
func (g *graph) before(a, b *Node) bool {
	if slices.Contains(b.Needs, a.ID) || b.Rescues == a.ID {
		return true
	}
	return slices.ContainsFunc(g.nodes, func(x *Node) bool {
		return (slices.Contains(b.Needs, x.ID) || b.Rescues == x.ID) && g.before(a, x)
	})
}

// undone works out the block of a node whose call has answered a page, or nothing known.
func undone(n *Node, page string, j *journal, killed bool) *graph {
	return resolve(n.Undo, func(u *Node) bool { return !u.Must || page != nothing },
		func(u *Node) []*call { return j.of(operation(u.Op), key(n.ID, u.ID)) }, killed)
}

// operation is an Op as the journal has it.
func operation(op Op) string {
	switch op {
	case Write:
		return "write"
	case Erase:
		return "erase"
	case Note:
		return "note"
	case Pass, Fail:
	}
	return ""
}
