package approval

import (
	"slices"

	"chimera.ai/engine/plan"
)

// Tally is how far a request is answered.
type Tally struct {
	// Decision is what people say that a call did, or "".
	Decision Decision
	// Missing lists for each role how many persons still have to say so.
	Missing []plan.Group
	// Counted are the votes that count, by id, sorted.
	Counted []string
}

// Met reports whether enough people have said the same.
func (t Tally) Met() bool { return len(t.Missing) == 0 }

// Count counts the votes on a request, as its barrier stands. Those on a call of unknown
// outcome count for what the first of them says.
func (r *Request) Count(votes []Vote) Tally {
	asked := Rule{Groups: r.Asked()}
	if r.Kind != Outcome {
		return asked.Count(votes)
	}
	for _, v := range votes {
		if v.Decision.States() {
			t := asked.count(votes, v.Decision)
			t.Decision = v.Decision
			return t
		}
	}
	return asked.count(nil, "")
}

// Objection returns the first vote that ends a request without an answer: a rejection, or a
// statement that contradicts one before it. If there is none, ok is false.
func (r *Request) Objection(votes []Vote) (v Vote, ok bool) {
	for _, v := range votes {
		if v.Decision == Reject || r.Kind == Outcome && v.Decision != votes[0].Decision {
			return v, true
		}
	}
	return Vote{}, false
}

// Count counts approvals. Votes that say anything else do not count.
func (r Rule) Count(votes []Vote) Tally { return r.count(votes, Approve) }

// count counts the votes with a decision. A person counts once over all groups, in the group
// where that helps most; so do two persons of whom one has signed for the other.
func (r Rule) count(votes []Vote, d Decision) Tally {
	votes = slices.DeleteFunc(slices.Clone(votes), func(v Vote) bool { return v.Decision != d })
	person := unite(votes)
	// Each group has as many seats as it asks for.
	var seats []string
	for _, g := range r.Groups {
		for range g.Min {
			seats = append(seats, g.Role)
		}
	}
	sits := map[string]int{} // the seat of a person
	held := make([]int, len(seats))
	for i := range held {
		held[i] = -1
	}
	// seat gives a person's vote a seat, by moving others where need be.
	var seat func(v int, seen []bool) bool
	seat = func(v int, seen []bool) bool {
		for i, role := range seats {
			if seen[i] || !slices.ContainsFunc(votes, func(x Vote) bool { return x.Role == role && person[x.Persons[0]] == person[votes[v].Persons[0]] }) {
				continue
			}
			seen[i] = true
			if held[i] < 0 || seat(held[i], seen) {
				held[i] = v
				return true
			}
		}
		return false
	}
	for v := range votes {
		who := person[votes[v].Persons[0]]
		if _, ok := sits[who]; ok {
			continue
		}
		if seat(v, make([]bool, len(seats))) {
			sits[who] = v
		}
	}
	var t Tally
	for i, role := range seats {
		if held[i] < 0 {
			at := len(t.Missing) - 1
			if at < 0 || t.Missing[at].Role != role {
				t.Missing = append(t.Missing, plan.Group{Role: role})
				at++
			}
			t.Missing[at].Min++
			continue
		}
		// The vote that counts is the person's first in the role of the seat.
		who := person[votes[held[i]].Persons[0]]
		v := slices.IndexFunc(votes, func(x Vote) bool { return x.Role == role && person[x.Persons[0]] == who })
		t.Counted = append(t.Counted, votes[v].ID)
	}
	slices.Sort(t.Counted)
	return t
}

// Helps reports whether one more vote with the decision of votes, in a role, brings the request
// nearer to its answer: at once, or as soon as others sign who have not. persons are those of
// the vote, as in [Vote]. One who has signed in other roles helps with another if that may free
// a seat; who signs for another does not help once one of the two has signed, since from then
// on they are one person.
func (r *Request) Helps(votes []Vote, role string, persons ...string) bool {
	d := Approve
	if r.Kind == Outcome {
		if d = r.Count(votes).Decision; d == "" {
			d = Executed
		}
	}
	more := Vote{Decision: d, Role: role, Persons: persons}
	same := slices.DeleteFunc(slices.Clone(votes), func(v Vote) bool { return v.Decision != d })
	person := unite(append(slices.Clone(same), more))
	var had []string // the roles in which the person has signed
	for _, v := range same {
		if person[v.Persons[0]] == person[more.Persons[0]] {
			had = append(had, v.Role)
		}
	}
	if len(had) > 0 && len(persons) > 1 {
		return false
	}
	// Others may yet fill the seats that the person may have without this vote. So it helps if
	// and only if a seat in the role can be left empty while of all other seats as many as
	// possible are filled.
	rest := Rule{Groups: slices.DeleteFunc(slices.Clone(r.Asked()), func(g plan.Group) bool { return slices.Contains(had, g.Role) })}
	return places(rest.count(append(same, more), d).Missing) < places(rest.count(same, d).Missing)
}

// places is how many persons groups ask for.
func places(groups []plan.Group) int {
	n := 0
	for _, g := range groups {
		n += g.Min
	}
	return n
}

// unite maps each person to one of those that count as the same.
func unite(votes []Vote) map[string]string {
	same := map[string]string{}
	find := func(p string) string {
		for same[p] != p {
			p = same[p]
		}
		return p
	}
	for _, v := range votes {
		for _, p := range v.Persons {
			if _, ok := same[p]; !ok {
				same[p] = p
			}
		}
		for _, p := range v.Persons[1:] {
			same[find(p)] = find(v.Persons[0])
		}
	}
	for _, v := range votes {
		for _, p := range v.Persons {
			same[p] = find(p)
		}
	}
	return same
}
