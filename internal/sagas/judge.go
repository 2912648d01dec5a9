package sagas

import (
	"fmt"
	"slices"
	"strings"
)

// Seen is what was seen of a run that has ended.
type Seen struct {
	Journal string
	// State is succeeded, failed or cancelled; Kind and Node are those of the failure.
	State, Kind, Node           string
	Compensated, NotCompensated []string
	// Armed has the effects in the order in which the guardian was asked about them first.
	Armed []string
	// Cancelled: somebody has asked for that. Killed: a worker was killed meanwhile.
	Cancelled, Killed bool
}

// trial holds one run against the model.
type trial struct {
	p        *Plan
	s        *Seen
	j        *journal
	g        *graph
	findings []string
}

func (t *trial) find(format string, args ...any) {
	t.findings = append(t.findings, fmt.Sprintf(format, args...))
}

// Judge returns what is wrong with a run.
func Judge(p *Plan, s *Seen) []string {
	t := &trial{p: p, s: s}
	var err error
	if t.j, err = parse(s.Journal); err != nil {
		return []string{err.Error()}
	}
	t.g = resolve(p.Nodes, func(*Node) bool { return true }, func(n *Node) []*call { return t.j.of(operation(n.Op), n.ID) }, s.Killed)
	t.known()
	for _, n := range p.Nodes {
		t.once(n, n.ID)
		for _, u := range n.Undo {
			t.once(u, key(n.ID, u.ID))
		}
		t.began(n)
	}
	t.ended()
	t.undone()
	t.order()
	return t.findings
}

// known reports calls of nobody.
func (t *trial) known() {
	all := map[string]bool{}
	for _, n := range t.p.Nodes {
		all[operation(n.Op)+" "+n.ID] = true
		for _, u := range n.Undo {
			all[operation(u.Op)+" "+key(n.ID, u.ID)] = true
			all["look "+key(n.ID, u.ID)] = u.Verify != Never
		}
		all["look "+n.ID] = n.Verify != Never
	}
	for _, c := range t.j.calls {
		if k := c.op + " " + key(c.id, c.step); !all[k] {
			t.find("%s was called, and the plan has no such call", k)
		}
	}
}

// once reports an effect that was called again, although its call may have had it.
func (t *trial) once(n *Node, name string) {
	if n.Op != Write && n.Op != Erase {
		return
	}
	calls := t.j.of(operation(n.Op), name)
	for i, c := range calls {
		last := i == len(calls)-1
		if !last && !slices.Contains(after(c, n.Verify, t.s.Killed), row{released, nothing}) {
			t.find("%s was called again after its call number %d", name, i+1)
		}
		if last && i > n.Retries {
			t.find("%s was called %d times, and may be called %d times", name, i+1, n.Retries+1)
		}
	}
	if len(calls) > 0 && n.Does == Rejected {
		t.find("%s was called, and the policy rejects it", name)
	}
}

// began reports a node that was called before what it needs, or that must not be called.
func (t *trial) began(n *Node) {
	calls := t.j.of(operation(n.Op), n.ID)
	if len(calls) == 0 {
		return
	}
	first := calls[0]
	if !t.g.may[n.ID] {
		t.find("%s was called, and does not run", n.ID)
	}
	for _, x := range t.p.Nodes {
		if !t.g.before(x, n) || t.g.runs[x.ID] && operation(x.Op) == "" {
			continue
		}
		earlier := t.j.of(operation(x.Op), x.ID)
		if len(earlier) == 0 && x.Does != Rejected && operation(x.Op) != "" && !t.s.Killed {
			t.find("%s was called, and %s before it was not", n.ID, x.ID)
		}
		if x.ID == n.Rescues && n.From == outcomeUnknown {
			earlier = append(earlier, t.j.undoing(x.ID)...)
		}
		for _, c := range earlier {
			if c.began > first.began || c.answer != "" && c.ended > first.began {
				t.find("%s was called before %s had ended", n.ID, x.ID)
			}
		}
	}
	want := nothing
	if n.Page != "" {
		from := t.p.node(n.Page)
		if from.Op == Note {
			want = answered
		} else if slices.ContainsFunc(rows(from, t.j.of("write", from.ID), t.s.Killed), func(r row) bool { return r.page == first.page }) {
			want = first.page
		}
	}
	if first.page != want {
		t.find("%s was given the page %s", n.ID, first.page)
	}
}

// ended reports an end that the run cannot have.
func (t *trial) ended() {
	may, must := false, false
	for _, n := range t.p.Nodes {
		m, f := t.g.fails(n)
		may, must = may || m, must || f
		if t.s.State == "succeeded" && t.g.runs[n.ID] && operation(n.Op) != "" && !t.s.Killed && len(t.j.of(operation(n.Op), n.ID)) == 0 {
			t.find("the run has succeeded without %s", n.ID)
		}
	}
	switch {
	case t.s.State == "succeeded" && must:
		t.find("the run has succeeded, and a failure of it is not handled")
	case t.s.State == "succeeded":
	case t.s.State == "cancelled":
		if !t.s.Cancelled {
			t.find("the run was cancelled by nobody")
		}
	case t.s.State != "failed":
		t.find("the run has ended as %s", t.s.State)
	case t.s.Kind == "deadline" && t.s.Node == "":
		if t.p.DeadlineMS == 0 {
			t.find("the run has no deadline")
		}
	default:
		n := t.p.node(t.s.Node)
		if n == nil || !slices.Contains(t.g.ends[n.ID], state(t.s.Kind)) || !may {
			t.find("the run has failed as %s at %q", t.s.Kind, t.s.Node)
			return
		}
		if may, must := t.g.fatal(n, state(t.s.Kind)); !may || !must && !slices.Contains(t.s.NotCompensated, n.ID) {
			t.find("the run has failed as %s at %q, which is handled", t.s.Kind, t.s.Node)
		}
		for _, x := range t.p.Nodes {
			if t.g.before(x, n) && operation(x.Op) != "" && x.Does != Rejected && !t.s.Killed && len(t.j.of(operation(x.Op), x.ID)) == 0 {
				t.find("the run has failed at %s, and %s before it was not called", n.ID, x.ID)
			}
		}
	}
}

// undone holds what was undone, and what is reported of it, against what had to be.
func (t *trial) undone() {
	for _, n := range t.p.Nodes {
		comp, not := slices.Contains(t.s.Compensated, n.ID), slices.Contains(t.s.NotCompensated, n.ID)
		calls := t.j.undoing(n.ID)
		h := rescuer(t.p.Nodes, n, outcomeUnknown)
		if t.s.State == "succeeded" && h == nil || n.Op != Write || len(n.Undo) == 0 {
			if comp || not || len(calls) > 0 {
				t.find("%s is not to be undone", n.ID)
			}
			continue
		}
		var reasons []string
		for _, r := range rows(n, t.j.of("write", n.ID), t.s.Killed) {
			var why string
			switch {
			case t.s.State != "succeeded":
				why = t.consistent(n, r, comp, not, calls)
			case r.state != unknown && len(calls) > 0:
				why = "it is not to be undone"
			case r.state == unknown && len(t.j.of(operation(h.Op), h.ID)) == 0:
				why = h.ID + " was not called"
			case r.state == unknown:
				why = t.consistent(n, r, true, false, calls)
			}
			if why == "" {
				reasons = nil
				break
			}
			reasons = append(reasons, fmt.Sprintf("if it is %s: %s", r.state, why))
		}
		if reasons != nil {
			t.find("%s, compensated %t, not compensated %t: %s", n.ID, comp, not, strings.Join(reasons, "; "))
		}
	}
}

// consistent returns why what was seen of the undoing of an effect does not fit its row.
func (t *trial) consistent(n *Node, r row, comp, not bool, calls []*call) string {
	if r.state == absent || r.state == released {
		if comp || not || len(calls) > 0 {
			return "there is nothing to undo"
		}
		return ""
	}
	if comp == not {
		return "it is to be undone, and reported once"
	}
	g := undone(n, r.page, t.j, t.s.Killed)
	ran, mayFail := false, false
	for _, u := range n.Undo {
		m, must := g.fails(u)
		mayFail, ran = mayFail || m, ran || g.may[u.ID]
		if must && comp {
			return u.ID + " has failed"
		}
	}
	if comp {
		g.spared()
	}
	for _, u := range n.Undo {
		name := key(n.ID, u.ID)
		got := t.j.of(operation(u.Op), name)
		if len(got) > 0 && !g.may[u.ID] {
			return name + " was called, and does not run"
		}
		// What was not called has not succeeded, whatever was killed.
		excused := u.Does == Rejected || t.s.Killed || slices.ContainsFunc(n.Undo, func(x *Node) bool {
			m, _ := g.fails(x)
			return x != u && m && !g.before(x, u) && !g.before(u, x)
		})
		if len(got) == 0 && g.runs[u.ID] && (comp || !excused) {
			return name + " was not called"
		}
		want := nothing
		if u.head() && u.Reads {
			want = r.page
		}
		for _, c := range got {
			if c.page != want {
				return fmt.Sprintf("%s was given the page %s, not %s", name, c.page, want)
			}
			for _, x := range n.Undo {
				if !g.before(x, u) {
					continue
				}
				for _, e := range t.j.of(operation(x.Op), key(n.ID, x.ID)) {
					if e.began > c.began || e.answer != "" && e.ended > c.began {
						return name + " was called before " + x.ID + " had ended"
					}
				}
			}
		}
	}
	stands := t.j.stands(n.ID)
	switch {
	case comp && len(calls) == 0:
		return "nothing undoes it"
	case n.Verify == Truth && stands && comp:
		return "it still stands"
	case n.Verify == Broken && comp:
		return "nobody has verified that"
	case not && ran && !mayFail && (n.Verify == Never || n.Verify == Truth && !stands):
		return "it was undone"
	}
	if n.Verify != Never && ran && (comp || !mayFail) {
		looks := t.j.of("look", n.ID)
		if len(looks) == 0 || len(calls) > 0 && looks[len(looks)-1].began < calls[len(calls)-1].began {
			return "nobody has looked whether it still stands"
		}
	}
	return ""
}

// order holds the order of what was undone against that in which it was armed.
func (t *trial) order() {
	var back []string
	for _, id := range slices.Backward(t.s.Armed) {
		if n := t.p.node(id); n != nil && len(n.Undo) > 0 {
			back = append(back, id)
		}
	}
	place := func(id string) int { return slices.Index(back, id) }
	// What may be undone while the run goes on comes in any order.
	meanwhile := func(id string) bool {
		n := t.p.node(id)
		return n != nil && rescuer(t.p.Nodes, n, outcomeUnknown) != nil
	}
	for _, list := range [][]string{t.s.Compensated, t.s.NotCompensated} {
		before := ""
		for _, id := range list {
			switch {
			case place(id) < 0:
				t.find("%s is reported, and was not armed", id)
			case meanwhile(id):
			case before != "" && place(before) >= place(id):
				t.find("%s is reported after %s, against the order in which they were armed: %v", id, before, t.s.Armed)
			default:
				before = id
			}
		}
	}
	last, first, latest := "", -1, -1
	for _, c := range t.j.calls {
		if c.op == "write" || c.op == "note" && c.step == "-" {
			if c.op == "write" {
				latest = max(latest, c.began, c.ended)
			}
			continue
		}
		if c.op == "look" || meanwhile(c.id) {
			continue
		}
		if first < 0 {
			first = c.began
		}
		if last != c.id {
			if last != "" && place(last) >= place(c.id) {
				t.find("%s is undone after %s, against the order in which they were armed: %v", c.id, last, t.s.Armed)
			}
			last = c.id
		}
	}
	if first >= 0 && latest > first {
		t.find("an effect is called while others are undone")
	}
}

func (p *Plan) node(id string) *Node {
	for _, n := range p.Nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}
