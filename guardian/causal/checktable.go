package causal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
)

// table checks that there is one row for each combination of the parents' categories.
func (c *checker) table(v *Variable, at []any) {
	sizes, combinations := make([]int, len(v.Parents)), 1
	for i, name := range v.Parents {
		parent := c.byName[name]
		if !parent.Categorical() {
			c.say(diag.ModelInvalid, atValue, path("variables", v.Name, "parents", i), fmt.Sprintf("%s is a number, and a `table` needs categories", fields.Quote(name)), "Use `linear` or `expression`.")
			return
		}
		if sizes[i] = len(parent.Values); combinations <= MaxRows {
			combinations *= sizes[i]
		}
	}
	if combinations > MaxRows {
		c.say(diag.PlanLimits, atKey, at, fmt.Sprintf("the parents have more than %d combinations of categories", MaxRows), fmt.Sprintf("A table has a row for each, and at most %d.", MaxRows))
		return
	}
	seen, sound := make([]bool, combinations), true
	for i := range v.Table {
		if c.full() {
			return
		}
		row, p := &v.Table[i], under(at, i)
		c.outcome(v, row, p)
		k, known := c.combination(v, row, under(p, "when"))
		switch {
		case !known:
			sound = false
		case seen[k]:
			c.say(diag.PlanDuplicateID, atKey, under(p, "when"), "there is a row for these categories already", "The table has one row for each combination of its parents' categories.")
		default:
			seen[k] = true
		}
	}
	if k := slices.Index(seen, false); k >= 0 && sound {
		var when []string
		for i := len(v.Parents) - 1; i >= 0; i-- {
			when = append(when, v.Parents[i]+": "+excerpt.Clip(c.byName[v.Parents[i]].Values[k%sizes[i]], MaxCategory))
			k /= sizes[i]
		}
		slices.Reverse(when)
		missed := 0
		for _, there := range seen {
			if !there {
				missed++
			}
		}
		detail := fmt.Sprintf("There is none for {%s}.", listed(when))
		if missed > 1 {
			detail = fmt.Sprintf("%d are missing, such as that for {%s}.", missed, listed(when))
		}
		c.say(diag.ModelInvalid, atKey, at, "the table has no row for some combination of categories", detail)
	}
}

// combination is the number of the combination that a row is about: the categories of the last parent
// change first.
func (c *checker) combination(v *Variable, row *Row, at []any) (k int, known bool) {
	known = true
	for _, name := range v.Parents {
		parent := c.byName[name]
		category, there := row.When[name]
		if !there {
			c.say(diag.ModelInvalid, atKey, at, fmt.Sprintf("the row has no category of the parent %s", fields.Quote(name)), "The categories are: "+listed(parent.Values)+".")
			known = false
			continue
		}
		if !c.category(atValue, under(at, name), parent, category) {
			known = false
			continue
		}
		k = k*len(parent.Values) + slices.Index(parent.Values, category)
	}
	if len(row.When) > len(v.Parents) || !known {
		for _, name := range slices.Sorted(maps.Keys(row.When)) {
			if !slices.Contains(v.Parents, name) {
				c.unknown(atKey, under(at, name), fmt.Sprintf("%s is no parent of %s", fields.Quote(name), fields.Quote(v.Name)), "The parents are: "+listed(v.Parents)+".", name, v.Parents)
				known = false
			}
		}
	}
	return k, known
}

// outcome checks what a row gives: probabilities of categories, or a number.
func (c *checker) outcome(v *Variable, row *Row, at []any) {
	switch {
	case v.Categorical() && (row.P == nil || row.Value != nil):
		c.say(diag.ModelInvalid, atValue, at, fmt.Sprintf("%s has categories, and a row has `p`, and no `value`", fields.Quote(v.Name)), "`p` has the probabilities of its categories: "+listed(v.Values)+".")
	case !v.Categorical() && (row.Value == nil || row.P != nil):
		c.say(diag.ModelInvalid, atValue, at, fmt.Sprintf("%s is a number, and a row has `value`, and no `p`", fields.Quote(v.Name)), "A variable with categories lists them in `values`.")
	case v.Categorical():
		c.shares(v, under(at, "p"), row.P)
	default:
		c.number(under(at, "value"), "value", *row.Value)
	}
}

// cycles reports cycles, at least one if there is any. It looks at each variable
// and each parent a bounded number of times, and does not recurse.
func (c *checker) cycles() {
	// What has no parents is taken away until nothing is left but cycles, and what depends on them.
	children, waits := map[string][]string{}, map[string]int{}
	for _, name := range c.list {
		for _, parent := range c.known(c.byName[name]) {
			children[parent] = append(children[parent], name)
			waits[name]++
		}
	}
	var free []string
	for _, name := range c.list {
		if waits[name] == 0 {
			free = append(free, name)
		}
	}
	for done := 0; done < len(free); done++ {
		for _, child := range children[free[done]] {
			if waits[child]--; waits[child] == 0 {
				free = append(free, child)
			}
		}
	}
	// Each of the rest has a parent among the rest: to go from parent to parent ends in a cycle, or
	// where an earlier walk has been.
	walk := map[string]int{}
	for i, start := range c.list {
		var trail []string
		name := start
		for waits[name] > 0 && walk[name] == 0 {
			walk[name] = i + 1
			trail = append(trail, name)
			for _, parent := range c.known(c.byName[name]) {
				if waits[parent] > 0 {
					name = parent
					break
				}
			}
		}
		if len(trail) > 0 && walk[name] == i+1 {
			c.cycle(trail[slices.Index(trail, name):])
		}
	}
}

// known are the parents of a variable that exist, sorted.
func (c *checker) known(v *Variable) []string {
	if c.isBroken("variables", v.Name) {
		return nil
	}
	parents := slices.DeleteFunc(slices.Clone(v.Parents), func(name string) bool { return c.byName[name] == nil })
	slices.Sort(parents)
	return slices.Compact(parents)
}

// cycle reports a cycle, whose members are given from child to parent.
func (c *checker) cycle(members []string) {
	slices.Reverse(members)
	first := slices.Index(members, slices.Min(members))
	members = append(slices.Clone(members[first:]), members[:first]...)
	shown := slices.Clone(members)
	if len(shown) > maxShown {
		shown = append(shown[:maxShown-1], "…")
	}
	shown = append(shown, members[0])
	last := members[len(members)-1]
	c.say(diag.ModelCycle, atValue, path("variables", members[0], "parents", slices.Index(c.byName[members[0]].Parents, last)),
		"variables depend on each other in a circle", "`"+strings.Join(shown, " -> ")+"`. A cause comes before its effect: for values that act on each other, use one variable for each time.")
}
