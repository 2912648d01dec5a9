package approval_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// ruleOf draws a rule as requests have it.
func ruleOf(t *rapid.T, name string) approval.Rule {
	excluded := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"ada", "ben", "cleo", "rae"}), rapid.ID).Draw(t, name+": excluded")
	slices.Sort(excluded)
	rule := approval.Rule{Groups: groupsOf(t, name, 0), Excluded: excluded, Alone: rapid.Bool().Draw(t, name+": alone")}
	if rapid.Bool().Draw(t, name+": escalates") {
		rule.FollowUp.EscalateAfterMS = rapid.SampledFrom([]int64{1, 2, 3_600_000}).Draw(t, name+": after")
		rule.FollowUp.To = groupsOf(t, name+": to", 1)
	}
	return rule
}

func canonical(t require.TestingT, r approval.Rule) string {
	raw, err := trust.Encode(r)
	require.NoError(t, err)
	return string(raw)
}

// TestJoin: rules are a lattice, whose order is AtLeast and whose join is Join.
func TestJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := ruleOf(t, "a"), ruleOf(t, "b"), ruleOf(t, "c")
		before := []string{canonical(t, a), canonical(t, b)}
		ab := a.Join(b)
		require.NoError(t, ab.AtLeast(a))
		require.NoError(t, ab.AtLeast(b))
		require.Equal(t, canonical(t, ab), canonical(t, b.Join(a)), "commutative")
		require.Equal(t, canonical(t, a), canonical(t, a.Join(a)), "idempotent")
		require.Equal(t, canonical(t, a), canonical(t, a.Join(approval.Rule{})), "what asks for nothing adds nothing")
		require.Equal(t, canonical(t, ab.Join(c)), canonical(t, a.Join(b.Join(c))), "associative")
		if c.AtLeast(a) == nil && c.AtLeast(b) == nil {
			require.NoError(t, c.AtLeast(ab), "it asks for no more than it has to")
		}
		require.Equal(t, before, []string{canonical(t, a), canonical(t, b)}, "the rules are left as they are")

		require.NoError(t, a.AtLeast(a), "reflexive")
		require.NoError(t, a.AtLeast(approval.Rule{}))
		if a.AtLeast(b) == nil && b.AtLeast(a) == nil {
			require.Equal(t, canonical(t, a), canonical(t, b), "antisymmetric")
		}
		if a.AtLeast(b) == nil && b.AtLeast(c) == nil {
			require.NoError(t, a.AtLeast(c), "transitive")
		}
		require.Equal(t, a.AtLeast(b) == nil, canonical(t, ab) == canonical(t, a), "a is at least b if b adds nothing to it")

		// What is enough for a rule is enough for whatever it is at least, escalated or not.
		votes := votesOf(t)
		for _, escalated := range []bool{false, true} {
			met := func(rule approval.Rule) bool {
				return (&approval.Request{Rule: rule, Escalated: escalated}).Count(votes).Met()
			}
			if met(ab) {
				require.True(t, met(a))
				require.True(t, met(b))
			}
			require.True(t, !met(a) || (&approval.Request{Rule: a}).Count(votes).Met(), "an escalation asks for no less")
		}
		// A joined rule stands in a request as it is.
		if len(ab.Groups) > 0 {
			r := &approval.Request{Audience: trust.Dev, Rule: ab, Actions: make([]approval.Action, 1), Opened: minutes(0), Expires: minutes(1)}
			again, _ := parsed(t, r)
			require.Equal(t, ab, again.Rule)
		}
	})
}

// TestAtLeastRefuses: a rule that asks for less in any way is less.
func TestAtLeastRefuses(t *testing.T) {
	floor := approval.Rule{
		Groups: []plan.Group{{Role: "finance", Min: 2}, {Role: "legal", Min: 1}}, Excluded: []string{"owen", "rae"}, Alone: true,
		FollowUp: plan.FollowUp{EscalateAfterMS: 1000, To: []plan.Group{{Role: "cfo", Min: 2}}},
	}
	for _, c := range []struct {
		name, says string
		edit       func(*approval.Rule)
	}{
		{"fewer of a role", `it does not ask for 2 of the role "finance"`, func(r *approval.Rule) { r.Groups[0].Min = 1 }},
		{"nobody of a role", `it does not ask for 1 of the role "legal"`, func(r *approval.Rule) { r.Groups = r.Groups[:1] }},
		{"as many of another role", `it does not ask for 1 of the role "legal"`, func(r *approval.Rule) { r.Groups[1].Role = "legals" }},
		{"the role in upper case", `it does not ask for 1 of the role "legal"`, func(r *approval.Rule) { r.Groups[1].Role = "Legal" }},
		{"nobody at all", "it does not ask for", func(r *approval.Rule) { r.Groups = nil }},
		{"one less is excluded", `it does not exclude "rae"`, func(r *approval.Rule) { r.Excluded = r.Excluded[:1] }},
		{"nobody is excluded", `it does not exclude "owen"`, func(r *approval.Rule) { r.Excluded = nil }},
		{"it never escalates", `it does not ask for 2 of the role "cfo"`, func(r *approval.Rule) { r.FollowUp = plan.FollowUp{} }},
		{"it escalates to fewer", `it does not ask for 2 of the role "cfo"`, func(r *approval.Rule) { r.FollowUp.To = []plan.Group{{Role: "cfo", Min: 1}} }},
		{"it escalates later", "it escalates after 1001 ms, not 1000", func(r *approval.Rule) { r.FollowUp.EscalateAfterMS = 1001 }},
		{"people sign for others", "it lets people sign for others", func(r *approval.Rule) { r.Alone = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := approval.Rule{Groups: slices.Clone(floor.Groups), Excluded: slices.Clone(floor.Excluded), Alone: true, FollowUp: floor.FollowUp}
			c.edit(&r)
			require.ErrorContains(t, r.AtLeast(floor), c.says)
			require.NoError(t, r.Join(floor).AtLeast(floor))
		})
	}
	more := floor.Join(approval.Rule{Groups: []plan.Group{{Role: "finance", Min: 3}, {Role: "risk", Min: 1}}, Excluded: []string{"ben"}})
	require.NoError(t, more.AtLeast(floor))
	require.Error(t, floor.AtLeast(more))
}

// TestRoleTwice: groups of one role add up, as they do in a count. A request has no such
// rule, but rules are joined before there is a request.
func TestRoleTwice(t *testing.T) {
	twice := approval.Rule{Groups: []plan.Group{{Role: "finance", Min: 1}, {Role: "finance", Min: 1}}, Excluded: []string{}}
	once := approval.Rule{Groups: twice.Groups[:1], Excluded: []string{}}
	both := approval.Rule{Groups: []plan.Group{{Role: "finance", Min: 2}}, Excluded: []string{}}
	ada := []approval.Vote{{ID: "1", Decision: approval.Approve, Role: "finance", Persons: []string{"ada"}}}
	require.True(t, once.Count(ada).Met())
	require.False(t, twice.Count(ada).Met())
	require.Equal(t, both, twice.Join(twice))
	require.Equal(t, both, twice.Join(once))
	require.Equal(t, both, once.Join(twice))
	require.Error(t, once.AtLeast(twice))
	require.NoError(t, twice.AtLeast(both))
	require.NoError(t, both.AtLeast(twice))
}

// TestExcludedTwice: who is excluded by two rules is so once.
func TestExcludedTwice(t *testing.T) {
	a, b := approval.Rule{Excluded: []string{"rae", "zoe"}}, approval.Rule{Excluded: []string{"owen", "rae"}}
	require.Equal(t, []string{"owen", "rae", "zoe"}, a.Join(b).Excluded)
	require.Equal(t, canonical(t, a.Join(b)), canonical(t, b.Join(a)))
	require.True(t, b.Excludes("rae"))
	require.False(t, b.Excludes("ra"))
}
