package approval_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/plan"
)

var roles = []string{"finance", "legal", "risk"}

// groupsOf draws at most three groups, sorted by role, no two of one role.
func groupsOf(t *rapid.T, name string, least int) []plan.Group {
	some := rapid.SliceOfNDistinct(rapid.SampledFrom(roles), least, len(roles), rapid.ID).Draw(t, name)
	slices.Sort(some)
	groups := []plan.Group{}
	for _, role := range some {
		groups = append(groups, plan.Group{Role: role, Min: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, name+": "+role)})
	}
	return groups
}

// votesOf draws votes of at most five persons, in several roles, some for another.
func votesOf(t *rapid.T) []approval.Vote {
	person := rapid.SampledFrom([]string{"ada", "ben", "cleo", "dan", "eli"})
	var votes []approval.Vote
	for i := range rapid.SampledFrom([]int{0, 1, 2, 4, 6, 8, 10, 12}).Draw(t, "votes") {
		v := approval.Vote{ID: fmt.Sprintf("vote-%d", i), Decision: approval.Approve, Role: rapid.SampledFrom(roles).Draw(t, "role"), Persons: []string{person.Draw(t, "person")}}
		if rapid.SampledFrom([]bool{false, false, false, false, true}).Draw(t, "delegated") {
			v.Persons = append(v.Persons, person.Draw(t, "delegator"))
		}
		if rapid.SampledFrom([]bool{false, false, false, false, false, true}).Draw(t, "rejects") {
			v.Decision = approval.Reject
		}
		votes = append(votes, v)
	}
	return votes
}

// one is a person of the model, with those that count as the same: which roles they have
// signed in.
type one map[string]bool

// people finds who counts as one, by merging sets until nothing changes.
func people(votes []approval.Vote) (all []one, of map[string]int) {
	var sets [][]string
	for _, v := range votes {
		if v.Decision == approval.Approve {
			sets = append(sets, slices.Clone(v.Persons))
		}
	}
	for merged := true; merged; {
		merged = false
		for i := range sets {
			for j := range i {
				if slices.ContainsFunc(sets[i], func(p string) bool { return slices.Contains(sets[j], p) }) {
					sets[j], sets, merged = append(sets[j], sets[i]...), slices.Delete(sets, i, i+1), true
					break
				}
			}
			if merged {
				break
			}
		}
	}
	of = map[string]int{}
	for i, set := range sets {
		all = append(all, one{})
		for _, p := range set {
			of[p] = i
		}
	}
	for _, v := range votes {
		if v.Decision == approval.Approve {
			all[of[v.Persons[0]]][v.Role] = true
		}
	}
	return all, of
}

// most is how many seats can be filled at once, by trying everything.
func most(groups []plan.Group, all []one) int {
	if len(all) == 0 {
		return 0
	}
	best := most(groups, all[1:])
	for i, g := range groups {
		if g.Min > 0 && all[0][g.Role] {
			left := slices.Clone(groups)
			left[i].Min--
			best = max(best, 1+most(left, all[1:]))
		}
	}
	return best
}

// TestCount holds the count against one that tries every assignment of persons to groups.
func TestCount(t *testing.T) {
	met, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rule, votes := approval.Rule{Groups: groupsOf(t, "groups", 0)}, votesOf(t)
		before := slices.Clone(votes)
		tally := rule.Count(votes)
		require.Equal(t, before, votes, "the votes are left as they are")
		all, of := people(votes)
		filled := most(rule.Groups, all)
		require.Equal(t, filled == seats(rule.Groups), tally.Met())
		switch {
		case len(rule.Groups) < 2:
		case tally.Met():
			met++
		case len(all) >= seats(rule.Groups):
			missed++
		}
		require.Equal(t, seats(rule.Groups)-filled, seats(tally.Missing), "no more are missing than have to")
		require.Len(t, tally.Counted, filled)
		require.True(t, slices.IsSorted(tally.Counted))
		// What counts are approvals, each of another person, as many of each role as are not
		// missing.
		sat, role := map[int]bool{}, map[string]int{}
		for _, id := range tally.Counted {
			v := votes[slices.IndexFunc(votes, func(v approval.Vote) bool { return v.ID == id })]
			require.Equal(t, approval.Approve, v.Decision)
			require.False(t, sat[of[v.Persons[0]]], "a person counts twice")
			sat[of[v.Persons[0]]] = true
			role[v.Role]++
		}
		for _, g := range tally.Missing {
			require.Positive(t, g.Min)
			role[g.Role] += g.Min
		}
		for _, g := range rule.Groups {
			require.Equal(t, g.Min, role[g.Role], g.Role)
			delete(role, g.Role)
		}
		require.Empty(t, role, "what counts and what is missing are of groups")

		// Neither the order of votes nor that of groups matters.
		order := rapid.Permutation(votes).Draw(t, "order")
		other := approval.Rule{Groups: rapid.Permutation(rule.Groups).Draw(t, "order of groups")}
		again := other.Count(order)
		require.Equal(t, tally.Met(), again.Met())
		require.Equal(t, seats(tally.Missing), seats(again.Missing))
		// What counts is enough for as much, without the rest.
		if len(tally.Counted) == len(votes) {
			require.Equal(t, tally.Counted, again.Counted)
		}
		// Rejections, and what is sent again, change nothing.
		approvals := slices.DeleteFunc(slices.Clone(votes), func(v approval.Vote) bool { return v.Decision != approval.Approve })
		require.Equal(t, tally, rule.Count(approvals))
		require.Equal(t, tally, rule.Count(slices.Concat(votes, votes)))
		// One more who signs alone never makes less of it; who signs for another may.
		more := approval.Vote{ID: "more", Decision: approval.Approve, Role: rapid.SampledFrom(roles).Draw(t, "more"), Persons: []string{rapid.SampledFrom([]string{"ada", "fay"}).Draw(t, "who")}}
		require.LessOrEqual(t, seats(rule.Count(append(approvals, more)).Missing), seats(tally.Missing))
	})
	t.Logf("of rules with several groups %d are met, and %d are not though enough people have signed", met, missed)
}

// TestCountSeats: a person with several roles sits where that helps most, whoever came first.
func TestCountSeats(t *testing.T) {
	vote := func(role string, persons ...string) approval.Vote {
		return approval.Vote{ID: role + " by " + fmt.Sprint(persons), Decision: approval.Approve, Role: role, Persons: persons}
	}
	for _, c := range []struct {
		name   string
		groups []plan.Group
		votes  []approval.Vote
		want   approval.Tally
	}{
		{"nobody is asked", nil, []approval.Vote{vote("finance", "ada")}, approval.Tally{}},
		{"nobody has signed", []plan.Group{{Role: "finance", Min: 2}, {Role: "legal", Min: 1}}, nil, approval.Tally{Missing: []plan.Group{{Role: "finance", Min: 2}, {Role: "legal", Min: 1}}}},
		{"a vote in a role of none", []plan.Group{{Role: "finance", Min: 1}}, []approval.Vote{vote("legal", "ada")}, approval.Tally{Missing: []plan.Group{{Role: "finance", Min: 1}}}},
		{
			"the first gives way", []plan.Group{{Role: "finance", Min: 1}, {Role: "legal", Min: 1}},
			[]approval.Vote{vote("finance", "ada"), vote("legal", "ada"), vote("finance", "ben")},
			approval.Tally{Counted: []string{"finance by [ben]", "legal by [ada]"}},
		},
		{
			"a chain gives way", []plan.Group{{Role: "finance", Min: 1}, {Role: "legal", Min: 1}, {Role: "risk", Min: 1}},
			[]approval.Vote{vote("finance", "ada"), vote("legal", "ada"), vote("legal", "ben"), vote("risk", "ben"), vote("finance", "cleo")},
			approval.Tally{Counted: []string{"finance by [cleo]", "legal by [ada]", "risk by [ben]"}},
		},
		{
			"one in all roles is one", []plan.Group{{Role: "finance", Min: 1}, {Role: "legal", Min: 1}, {Role: "risk", Min: 1}},
			[]approval.Vote{vote("risk", "ada"), vote("legal", "ada"), vote("finance", "ada")},
			approval.Tally{Counted: []string{"finance by [ada]"}, Missing: []plan.Group{{Role: "legal", Min: 1}, {Role: "risk", Min: 1}}},
		},
		{
			"delegator, delegate and delegate's delegate", []plan.Group{{Role: "finance", Min: 3}},
			[]approval.Vote{vote("finance", "ada"), vote("finance", "cleo", "ben"), vote("finance", "ben", "ada")},
			approval.Tally{Counted: []string{"finance by [ada]"}, Missing: []plan.Group{{Role: "finance", Min: 2}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, approval.Rule{Groups: c.groups}.Count(c.votes))
		})
	}
}

// gains reports, by trying everything, whether votes fill more seats than before of some that
// others have left.
func gains(groups []plan.Group, before, after []one) bool {
	if most(groups, after) > most(groups, before) {
		return true
	}
	for i, g := range groups {
		if g.Min > 0 {
			left := slices.Clone(groups)
			left[i].Min--
			if gains(left, before, after) {
				return true
			}
		}
	}
	return false
}

// TestHelps holds the answer against one that tries all that others may sign afterwards.
func TestHelps(t *testing.T) {
	helped, counted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		q, votes := &approval.Request{Rule: approval.Rule{Groups: groupsOf(t, "groups", 1)}}, votesOf(t)
		role, who := rapid.SampledFrom(roles).Draw(t, "in"), rapid.SampledFrom([]string{"ada", "ben", "fay"}).Draw(t, "signer")
		before, _ := people(votes)
		after, _ := people(append(slices.Clone(votes), approval.Vote{Decision: approval.Approve, Role: role, Persons: []string{who}}))
		require.Equal(t, gains(q.Rule.Groups, before, after), q.Helps(votes, role, who))
		if q.Helps(votes, role, who) {
			helped++
			if q.Count(votes).Met() {
				t.Fatal("nothing is missing")
			}
			if most(q.Rule.Groups, after) == most(q.Rule.Groups, before) {
				counted++
			}
		}
	})
	t.Logf("%d votes help, %d of them only with others", helped, counted)
}

// TestHelpsSuffices: if all sign whose votes help, and nobody else, a request is answered that
// can be answered at all.
func TestHelpsSuffices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &approval.Request{Rule: approval.Rule{Groups: groupsOf(t, "groups", 1)}}
		var all, votes []approval.Vote
		for _, who := range []string{"ada", "ben", "cleo", "dan", "eli"} {
			for _, role := range rapid.SliceOfDistinct(rapid.SampledFrom(roles), rapid.ID).Draw(t, who) {
				all = append(all, approval.Vote{ID: who + " as " + role, Decision: approval.Approve, Role: role, Persons: []string{who}})
			}
		}
		for again := true; again; {
			again = false
			for _, v := range rapid.Permutation(all).Draw(t, "order") {
				if q.Helps(votes, v.Role, v.Persons...) {
					votes, again = append(votes, v), true
				}
			}
		}
		require.Equal(t, seats(q.Count(all).Missing), seats(q.Count(votes).Missing))
	})
}
