package approval

import (
	"slices"

	"chimera.ai/engine/plan"
)

// Tally is how far a request is approved.
type Tally struct {
	// Missing lists for each role how many persons still have to approve.
	Missing []plan.Group
	// Counted are the votes that count, by id, sorted.
	Counted []string
}

// Met reports whether enough people have approved.
func (t Tally) Met() bool { return len(t.Missing) == 0 }

// Count counts approvals. A person counts once over all groups, in the group where that
// helps most; so do two persons of whom one has signed for the other. Votes that reject do
// not count.
func (r Rule) Count(votes []Vote) Tally {
	votes = slices.DeleteFunc(slices.Clone(votes), func(v Vote) bool { return v.Decision != Approve })
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
