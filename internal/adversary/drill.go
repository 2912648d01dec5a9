package adversary

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Attacks are all attacks but those that are random: a seed chooses what they lie about.
func (d *Deployment) Attacks(t testing.TB, seed uint64) (all []*Attack) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	tables, log, export, state := d.tables(t), d.read(t), d.export(t), d.state(t)
	for _, role := range append(roles(), "") {
		all = append(all, d.rowAttacks(t, who(role), role, tables, random)...)
		all = append(all, log.entryAttacks(t, who(role), role, random)...)
		all = append(all, d.treeAttacks(t, who(role), role)...)
	}
	return slices.Concat(all, d.keyAttacks(t, state), d.logKeyAttacks(t, export), d.resignedAttacks(log, export), d.tailAttacks(log), blobAttacks(), d.exportAttacks(export, random), d.workerAttacks(), d.rollbackAttacks(export), d.toolAttacks(t, state))
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

// directed are attacks that the core makes in any case: by whom, about what, and how their names
// begin.
var directed = []struct {
	thief       Thief
	about, name string
}{
	{"user engine", "authority", "garbage"},
	{"user engine", "legal-hold.lifted", "from"},
	{"user engine", "pending", "all"},
	{"user engine", "run.closed", "garbage"},
	{"user engine", "runs", "doc at"},
	{"user engine", "tree", "an old checkpoint again, said to be of more"},
	{"user guardian", "approval.accepted", "about another thing"},
	{"user guardian", "decision.made", "hidden"},
	{"user guardian", "hold.opened", "about another thing"},
	{"user guardian", "invocation.permitted", "about another thing"},
	{"user effects", "checks", "another like one"},
	{"user effects", "invocations", "doubted"},
	{"user effects", "tasks", "all executed"},
	{"user effects", "invocation.calling", "about another thing"},
	{"user effects", "invocation.settled", "about another thing"},
	{Owner, "plan.published", "in the year 9999"},
	{LogKey, "approval.consumed", "dropped"},
	{LogKey, "compensation", "dropped"},
	{LogKey, "hold.opened", "dropped"},
	{LogKey, "invocation.permitted", "dropped"},
	{LogKey, "invocation.settled", "stated twice"},
}

// Core chooses attacks for tests: those that are directed, one of each class by each thief,
// and all with keys and on disks.
func Core(all []*Attack) (some []*Attack) {
	type key struct {
		thief Thief
		class Class
	}
	number, seen := map[key]int{}, map[key]int{}
	for _, a := range all {
		number[key{a.Thief, a.Class}]++
	}
	for _, a := range all {
		k := key{a.Thief, a.Class}
		middle := seen[k] == number[k]/2
		seen[k]++
		chosen := false
		for _, d := range directed {
			chosen = chosen || d.thief == a.Thief && d.about == a.About && strings.HasPrefix(a.Name, d.name)
		}
		if middle || chosen || a.Do != nil && !a.Long && (a.Class == Signature || a.Class == FileBent || a.Class == ServerBent) {
			some = append(some, a)
		}
	}
	return some
}

// Few chooses, among attacks, one of each class by each thief, for tests that have little time.
func Few(all []*Attack) (some []*Attack) {
	seen := map[[2]string]bool{}
	for _, a := range all {
		if k := [2]string{string(a.Thief), string(a.Class)}; !seen[k] {
			seen[k] = true
			some = append(some, a)
		}
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
