package sagas

import (
	"fmt"
	"math/rand/v2"
)

// maker makes one plan.
type maker struct {
	*rand.Rand
	p      *Plan
	deadly bool
}

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

// Draw returns the plan of a seed. Only deadly ones kill workers.
func Draw(seed uint64, deadly bool) *Plan {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 0x5341474153)), p: &Plan{Seed: seed, CancelAt: -1, CancelAgain: -1, TimeoutMS: 60_000}, deadly: deadly}
	if deadly { // calls of a worker that is killed end no sooner
		m.p.TimeoutMS = 8000
	}
	effects := 1 + m.IntN(4)
	if m.chance(20) {
		effects = 1 + m.IntN(12)
	}
	if m.chance(60) {
		m.chain(effects)
	} else {
		m.branches(effects)
	}
	if m.chance(30) {
		m.p.Parallel = 1 + m.IntN(3)
	}
	switch n := m.IntN(100); {
	case n < 15:
		m.p.CancelAt = m.IntN(4 * effects)
	case n < 25:
		m.p.DeadlineMS = int64(500 + m.IntN(6000))
	}
	if m.chance(15) {
		m.p.CancelAgain = max(m.p.CancelAt, 0) + m.IntN(6*effects)
	}
	return m.p
}

func (m *maker) add(n *Node) *Node {
	n.ID = fmt.Sprintf("n%d", len(m.p.Nodes)+1)
	m.p.Nodes = append(m.p.Nodes, n)
	return n
}

// chain is effects one after the other, with other nodes between, and mostly a failure at
// the end.
func (m *maker) chain(effects int) {
	var last *Node
	next := func(n *Node) {
		if last != nil {
			n.Needs = []string{last.ID}
			m.takes(n, last)
		}
		last = m.rescued(m.add(n))
	}
	for range effects {
		switch m.IntN(5) {
		case 0:
			next(&Node{Op: Pass})
		case 1:
			next(&Node{Op: Note, Does: OK})
		}
		next(m.effect())
	}
	if m.chance(75) {
		m.add(&Node{Op: Fail, Needs: []string{last.ID}})
	}
}

// branches is effects of which several may be in flight at one time.
func (m *maker) branches(effects int) {
	var all []*Node
	link := func(n *Node) {
		for _, i := range m.Perm(len(all)) {
			if len(n.Needs) == 2 || m.chance(40) {
				break
			}
			n.Needs = append(n.Needs, all[i].ID)
			m.takes(n, all[i])
		}
	}
	for range effects {
		if m.chance(25) {
			n := &Node{Op: Note, Does: OK}
			link(n)
			all = append(all, m.add(n))
		}
		n := m.effect()
		link(n)
		all = append(all, m.rescued(m.add(n)))
	}
	if m.chance(75) {
		n := &Node{Op: Fail}
		for _, i := range m.Perm(len(all))[:min(2, len(all))] {
			n.Needs = append(n.Needs, all[i].ID)
		}
		m.add(n)
	}
}

// takes lets a node take the page of one before it, sometimes.
func (m *maker) takes(n, from *Node) {
	if (n.Op == Write || n.Op == Note) && (from.Op == Write || from.Op == Note) && n.Page == "" && m.chance(40) {
		n.Page = from.ID
	}
}

// rescued adds a node that handles the failure of another, if that is told to fail, and
// returns the one after which the plan goes on.
func (m *maker) rescued(n *Node) *Node {
	if n.Op != Write {
		return n
	}
	from := toolError
	switch n.Does {
	case Refuse, Tear:
		if m.chance(50) {
			return n
		}
		n.Verify = Truth // what happened is known, whatever is killed
	case Vanish, Lose:
		if n.Verify == Truth || len(n.Undo) == 0 || m.chance(30) {
			return n
		}
		from = outcomeUnknown // it is undone first
	default:
		return n
	}
	h := &Node{Op: Note, Does: OK}
	if m.chance(40) {
		h = m.effect()
	}
	h.Rescues, h.From = n.ID, from
	return m.add(h)
}

func (m *maker) verify() Verify {
	switch n := m.IntN(10); {
	case n < 4:
		return Truth
	case n < 5:
		return Broken
	}
	return Never
}

// effect makes a node with an effect, and the block that undoes it.
func (m *maker) effect() *Node {
	n := &Node{Op: Write, Does: OK, Verify: m.verify(), Retries: m.IntN(2)}
	switch {
	case m.chance(20):
		n.Does = m.fault()
	case m.chance(8):
		n.Does, n.Verify = []Does{Vanish, Lose}[m.IntN(2)], Never
	}
	if !m.chance(80) {
		return n
	}
	for i := range 1 + m.IntN(3) {
		u := &Node{ID: fmt.Sprintf("n%d-u%d", len(m.p.Nodes)+1, i+1), Op: Erase, Does: OK, Verify: m.verify(), Retries: m.IntN(2)}
		if m.chance(25) {
			u.Op, u.Verify = Note, Never
		}
		if m.chance(20) {
			if u.Does = m.fault(); m.chance(20) {
				u.Does = Pretend
			}
			if u.Op == Note {
				u.Does = Refuse
			}
		}
		switch {
		case i > 0 && m.chance(60):
			before := n.Undo[m.IntN(i)]
			if (before.Does == Refuse || before.Does == Tear) && m.chance(60) {
				u.Rescues, u.From = before.ID, toolError
			} else {
				u.Needs = []string{before.ID}
			}
		case m.chance(50):
			u.Reads, u.Must = true, m.chance(30)
		}
		n.Undo = append(n.Undo, u)
	}
	return n
}

// fault is something that goes wrong.
func (m *maker) fault() Does {
	all := []Does{Refuse, Refuse, Tear, Garble, Vanish, Lose, Once, Rejected}
	if m.deadly && m.chance(25) {
		all = []Does{Dies, Died}
	}
	return all[m.IntN(len(all))]
}
