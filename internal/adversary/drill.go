package adversary

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Attacks are all attacks but those that are random: a seed chooses what they lie about.
func (d *Deployment) Attacks(t testing.TB, seed uint64) (all []*Attack) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	tables, log, export := d.tables(t), d.read(t), d.export(t)
	for _, role := range append(roles(), "") {
		all = append(all, d.rowAttacks(t, who(role), role, tables, random)...)
		all = append(all, log.entryAttacks(t, who(role), role, random)...)
		all = append(all, d.treeAttacks(t, who(role), role)...)
	}
	return slices.Concat(all, d.keyAttacks(t), d.logKeyAttacks(t, export), d.resignedAttacks(log, export), d.tailAttacks(log), blobAttacks(), d.exportAttacks(export, random), d.workerAttacks(), d.rollbackAttacks(export))
}

// who is the thief who has a user of a role, or the owner.
func who(role string) Thief {
	if role == "" {
		return Owner
	}
	return user(role)
}

// Randoms are n attacks that seeds choose, from one on: on a row, on the log, or on an export.
func (d *Deployment) Randoms(t testing.TB, seed uint64, n int) (all []*Attack) {
	t.Helper()
	tables, log, export := d.tables(t), d.read(t), d.export(t)
	for s := seed; s < seed+uint64(n); s++ {
		random := rand.New(rand.NewPCG(s, 1))
		role := append(roles(), "")[random.IntN(len(roles())+1)]
		var some []*Attack
		switch random.IntN(4) {
		case 0:
			some = d.rowAttacks(t, who(role), role, tables[random.IntN(len(tables)):][:1], random)
		case 1:
			some = log.entryAttacks(t, who(role), role, random)
		case 2:
			some = []*Attack{log.randomEntry(t, who(role), role, random)}
		case 3:
			some = d.exportAttacks(export, random)
		}
		a := some[random.IntN(len(some))]
		a.Random, a.Name = true, fmt.Sprintf("%s (seed %d)", a.Name, s)
		all = append(all, a)
	}
	return all
}

// Bases has what the honest parts see where nobody has attacked, by the quorum of witnesses.
type Bases [2]*Seen

// Base looks at a copy that nobody has attacked.
func (d *Deployment) Base(t testing.TB) (base Bases) {
	t.Helper()
	for quorum := range base {
		d.On(t, func(c *Copy) { base[quorum] = c.Proceed(t, quorum) })
		require.Empty(t, base[quorum].Troubles)
		require.True(t, base[quorum].Report.OK, "%v", base[quorum].Report.Problems)
	}
	return base
}

// Core is one attack of each class by each thief, of those that follow after another.
func Core(all []*Attack) (some []*Attack) {
	type key struct {
		thief Thief
		class Class
	}
	last := map[key]int{}
	for _, a := range all {
		last[key{a.Thief, a.Class}]++
	}
	seen := map[key]int{}
	for _, a := range all {
		k := key{a.Thief, a.Class}
		if seen[k] == last[k]/2 || a.Do != nil {
			some = append(some, a)
		}
		seen[k]++
	}
	return some
}

// randomly is the class of the table in which attacks are counted that a seed has chosen.
const randomly Class = "random"

// Print writes the table of results: a line for each thief and class, a column for each outcome.
func Print(w io.Writer, all []Result) error {
	type line struct {
		thief Thief
		class Class
	}
	counts := map[line]map[Outcome]int{}
	for _, r := range all {
		l := line{r.Thief, r.Class}
		if r.Random {
			l.class = randomly
		}
		if counts[l] == nil {
			counts[l] = map[Outcome]int{}
		}
		counts[l][r.Outcome]++
	}
	text := fmt.Sprintf("%-36s %-31s", "thief", "attack")
	for _, o := range Outcomes() {
		text += fmt.Sprintf(" %10s", o)
	}
	text += "\n"
	for _, thief := range Thieves() {
		for _, class := range append(Classes(), randomly) {
			n := counts[line{thief, class}]
			if n == nil {
				continue
			}
			text += fmt.Sprintf("%-36s %-31s", thief, class)
			for _, o := range Outcomes() {
				text += fmt.Sprintf(" %10d", n[o])
			}
			text += "\n"
		}
	}
	_, err := io.WriteString(w, text)
	return err
}
