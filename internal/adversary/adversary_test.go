package adversary

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/stage"
)

var (
	whole = flag.Bool("whole", false, "make every attack, and random ones, not the core alone")
	seed  = flag.Uint64("seed", 1, "chooses what attacks lie about, and is the first seed of random ones")
	drawn = flag.Int("random", 100, "how many random attacks are made")
	match = flag.String("match", "", "make only attacks whose names have this part")
)

func TestMain(m *testing.M) { stage.Main(m) }

// TestAdversary: whatever a thief does is refused, found, shown or documented as out of reach.
func TestAdversary(t *testing.T) {
	d := Deploy(t, newBank)
	base := d.Base(t)
	attacks := d.Attacks(t, *seed)
	if *whole {
		attacks = append(attacks, d.Randoms(t, *seed, *drawn)...)
	} else {
		attacks = Core(attacks)
	}
	if testing.Short() {
		attacks = Few(attacks)
	}
	var all []Result
	for _, a := range attacks {
		if !strings.Contains(a.String(), *match) {
			continue
		}
		r := d.Judge(t, a, base)
		all = append(all, r)
		if r.Outcome.Failed() {
			t.Errorf("%s: %s: %s\nagain: go test ./internal/adversary -count=1 -whole -seed %d -random %d -match %q\n%v", r.Outcome, a, r.Says, *seed, *drawn, a.Name, a.SQL)
		}
	}
	require.NotEmpty(t, all, "no attack has %q in its name", *match)
	require.NoError(t, Print(t.Output(), all))
}

// thieves reads the table of the documents: a line for each thief.
func thieves(t *testing.T) (order []Thief, lines map[Thief]string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "audit.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(raw), "<!-- table of thieves -->\n")
	require.True(t, found)
	lines = map[Thief]string{}
	for i, line := range slices.Collect(strings.SplitSeq(rest, "\n")) {
		if !strings.HasPrefix(line, "| ") {
			if i > 0 && line == "" {
				break
			}
			continue
		}
		thief := Thief(strings.ReplaceAll(strings.TrimSpace(strings.Split(line, "|")[1]), "`", ""))
		if thief == "who holds" {
			continue
		}
		order, lines[thief] = append(order, thief), line
	}
	return order, lines
}

// TestDocumented: the thieves of the documents are those of the drill, and what the drill lets
// pass stands there.
func TestDocumented(t *testing.T) {
	order, lines := thieves(t)
	require.Equal(t, Thieves(), order)
	for _, r := range reaches {
		require.Contains(t, lines[r.Thief], r.Words, r.Thief)
	}
	for _, thief := range ownPart {
		require.Contains(t, lines[thief], stopsItself, thief)
	}
}
