package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of what effects wait for.
const (
	// maxShared is the number of barriers with several members: each costs a
	// walk through the plan.
	maxShared = 256
	// maxCount bounds numbers of people, elements and visits.
	maxCount = 1_000_000
)

// Acts reports whether a call of the class has an effect outside.
func (e EffectClass) Acts() bool { return e == Staged || e.Commits() }

// Commits reports whether the effect of a call of the class is final.
func (e EffectClass) Commits() bool { return e == Committing || e == Irreversible }

// Weaker reports whether a call of the class may do less than one of another.
func (e EffectClass) Weaker(than EffectClass) bool {
	order := []EffectClass{Pure, Staged, Committing, Irreversible}
	return slices.Index(order, e) < slices.Index(order, than)
}

// verifyEffect checks what a node says of its effect, alone.
func (n *Node) verifyEffect() error {
	effect := n.Effect != Pure
	switch {
	case (n.Commit != nil) != n.Effect.Commits():
		return errors.New("commit is given for committing and irreversible nodes, and only there")
	case (n.Taint != nil) != n.Guarded():
		return errors.New("taint is given for nodes whose calls need a permit, and only there")
	case n.IdempotencyPort != "" && !effect:
		return errors.New("an idempotency port without an effect")
	case n.Plan != "" && (effect || n.ProviderType != Skill || !digest(n.Plan)):
		return errors.New("a plan that is called by no digest, or with an effect")
	case n.Relied && (n.Guarded() || n.Local || n.Plan != ""):
		return errors.New("relied on by effects, and not a pure call that the role effects can make, or reviewed")
	case n.Called && n.Guarded():
		return errors.New("called to verify, and not pure, or reviewed")
	case n.Undoes != 0 && n.Called:
		return errors.New("called to verify, and part of a compensation")
	case (n.Description != "" || n.Resources != nil || n.Priority != "") && !n.Guarded():
		return errors.New("words for people where nobody waits")
	case n.Priority != "" && !slices.Contains([]string{"low", "medium", "high"}, n.Priority):
		return fmt.Errorf("unknown priority %q", n.Priority)
	}
	if t := n.Taint; t != nil {
		if !ascending(t.Ports) || !ascending(t.InputPorts) {
			return errors.New("the tainted ports are not sorted")
		}
		if t.Decision && t.InputDecision || slices.ContainsFunc(t.InputPorts, func(port string) bool { return slices.Contains(t.Ports, port) }) {
			return errors.New("what is tainted by the plan's input is tainted without it")
		}
		if t.Accepted && !t.Any() {
			return errors.New("taint is accepted where there is none")
		}
	}
	for _, c := range []*Cost{n.Estimate, n.Cost} {
		if err := c.verify(); err != nil {
			return err
		}
	}
	if f := n.ForEach; f != nil && (f.MaxParallel < 1 || f.MaxParallel > maxCount || f.MaxItems < 1 || f.MaxItems > maxCount) {
		return errors.New("for_each out of range")
	}
	return nil
}

// digest reports whether s is as DigestOf writes it.
func digest(s string) bool {
	hex, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

func (c *Cost) verify() error {
	switch {
	case c == nil:
		return nil
	case (c.Amount == "") == (c.Expr == ""):
		return errors.New("a cost is an amount or an expression")
	case c.Amount != "" && (!isNumber(c.Amount) || c.Amount[0] == '-' || c.FromOutput):
		return errors.New("a cost's amount is a number from 0 on, known beforehand")
	case len(c.Currency) != 3 || strings.Trim(c.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return errors.New("a currency is three capital letters")
	}
	return nil
}

// verifyCommits checks what effects say of other nodes: prechecks and their
// edges, barriers, and nodes that are called.
func (p *Plan) verifyCommits() error {
	called := make([]bool, len(p.Nodes))
	waits := make([]int, len(p.Barriers))
	implicit := len(p.Edges)
	for implicit > 0 && p.Edges[implicit-1].Implicit {
		implicit--
	}
	next := implicit
	for i := range p.Nodes {
		c := p.Nodes[i].Commit
		if c == nil {
			continue
		}
		if err := p.verifyCommit(i, &next, called); err != nil {
			return fmt.Errorf("node %q: %w", p.Nodes[i].ID, err)
		}
		if c.Barrier >= 0 {
			b := &p.Barriers[c.Barrier]
			if at := waits[c.Barrier]; at >= len(b.Members) || b.Members[at] != i {
				return fmt.Errorf("node %q: it is no member of its barrier", p.Nodes[i].ID)
			}
			waits[c.Barrier]++
		}
	}
	if next != len(p.Edges) || slices.ContainsFunc(p.Edges[:implicit], func(e Edge) bool { return e.Implicit }) {
		return errors.New("implicit edges that no precheck makes")
	}
	for i := range p.Nodes {
		if p.Nodes[i].Called != called[i] {
			return fmt.Errorf("node %q: called is marked wrongly", p.Nodes[i].ID)
		}
	}
	for i := range p.Edges {
		if e := &p.Edges[i]; called[e.From] || called[e.To] {
			return fmt.Errorf("edge %d: it touches a node that is called to verify", i)
		}
	}
	return p.verifyBarriers(waits)
}

func (p *Plan) verifyCommit(i int, next *int, called []bool) error {
	c := p.Nodes[i].Commit
	call := func(at int) bool { return at > 0 && at < len(p.Nodes)-1 }
	if c.Barrier < -1 || c.Barrier >= len(p.Barriers) {
		return errors.New("barrier out of range")
	}
	for at, check := range c.Prechecks {
		if !call(check) || check == i || p.Nodes[check].Guarded() || at > 0 && c.Prechecks[at-1] >= check {
			return errors.New("prechecks are not sorted pure nodes that nobody reviews")
		}
		if *next >= len(p.Edges) || p.Edges[*next].From != check || p.Edges[*next].To != i {
			return errors.New("a precheck without its implicit edge")
		}
		*next++
	}
	if v := c.Verify; v != nil {
		if !call(v.Node) || v.Executed == "" || len(v.With) == 0 {
			return errors.New("verify is not complete")
		}
		called[v.Node] = true
	}
	if p.Nodes[i].Effect == Irreversible && (len(c.Prechecks) == 0 || c.Verify == nil && c.Waived == "") {
		return errors.New("irreversible, without a precheck, or neither verified nor waived")
	}
	return nil
}

// verifyBarriers checks the barriers; waits counts the nodes that wait at each.
func (p *Plan) verifyBarriers(waits []int) error {
	ids := map[string]bool{}
	first, shared := 0, 0
	loopOf := p.loopOf()
	for i := range p.Barriers {
		b := &p.Barriers[i]
		bad := func(text string) error { return fmt.Errorf("barrier %d: %s", i, text) }
		switch {
		case len(b.Members) == 0 || waits[i] != len(b.Members):
			return bad("its members are not the nodes that wait at it")
		case b.Members[0] <= first:
			return bad("barriers are not in the order of their first members")
		case b.ID == "" && (len(b.Members) > 1 || len(b.Groups) == 0 && b.ExpiresInMS == 0 && b.Exclude == nil && b.FollowUp.IsZero()):
			return bad("it has no name, and is shared or asks for nothing")
		case b.ID != "" && ids[b.ID]:
			return bad("its name is taken")
		case b.ExpiresInMS < 0 || b.ExpiresInMS > maxMS:
			return bad("expiry out of range")
		case !ascending(b.Exclude):
			return bad("exclude is not a sorted list of names")
		case slices.ContainsFunc(b.Exclude, func(x string) bool { return !IsPerson(x) }):
			return bad("exclude has what is not the id of a person")
		}
		first, ids[b.ID] = b.Members[0], true
		for _, err := range []error{sorted(b.Groups), b.FollowUp.Verify()} {
			if err != nil {
				return bad(err.Error())
			}
		}
		if len(b.Members) == 1 {
			continue
		}
		if shared++; shared > maxShared {
			return errors.New("too many shared barriers")
		}
		for _, m := range b.Members[1:] {
			if loopOf[m] != loopOf[b.Members[0]] || p.Nodes[m].Undoes != p.Nodes[b.Members[0]].Undoes {
				return bad("its members do not run equally often")
			}
		}
		if p.ordered(b.Members) {
			return bad("one of its members comes before another")
		}
	}
	return nil
}

// ordered reports whether a path leads from one member to another, without back
// edges, which lead to another visit.
func (p *Plan) ordered(members []int) bool {
	out := p.forward()
	seen := make([]bool, len(p.Nodes))
	todo := slices.Clone(members)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, to := range out[n] {
			if _, member := slices.BinarySearch(members, to); member {
				return true
			}
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return false
}

// verifyBlocks checks that the nodes which undo an effect are reached only through
// its $compensate edges.
func (p *Plan) verifyBlocks() error {
	last := len(p.Nodes) - 1
	entered := make([]bool, len(p.Nodes))
	for i := range p.Edges {
		e := &p.Edges[i]
		bad := func(text string) error { return fmt.Errorf("edge %d: %s", i, text) }
		owner, from, to := e.From, p.Nodes[e.From].Undoes, p.Nodes[e.To].Undoes
		if e.FromPort != CompensatePort {
			if from != to {
				return bad("it leads into a compensation, or out of one")
			}
			entered[e.To] = true
			continue
		}
		switch {
		case p.Nodes[owner].Effect == Pure:
			return bad("it undoes a node without an effect")
		case from != 0:
			return bad("it undoes what undoes another effect")
		case to != owner:
			return bad("its target does not undo its source")
		case !e.Carries() || e.When != "" || len(e.Transform) == 0:
			return bad("a compensation brings a value that a transform makes, always")
		}
		entered[e.To] = true
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Undoes != 0 && (n.Undoes < 0 || n.Undoes >= last || !entered[i]) {
			return fmt.Errorf("node %q: it undoes nothing", n.ID)
		}
	}
	return nil
}
