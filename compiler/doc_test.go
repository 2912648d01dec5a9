package compiler

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPassesAreDocumented: ARCHITECTURE.md and the package comment list the passes
// in their order, and no other.
func TestPassesAreDocumented(t *testing.T) {
	want := []string{}
	for _, p := range passes {
		want = append(want, p.name)
	}
	want = append(want, "refuse")
	for file, row := range map[string]*regexp.Regexp{
		"../ARCHITECTURE.md": regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|[^|\n]+\\| `compiler/"),
		"doc.go":             regexp.MustCompile(`(?m)^//\t([a-z]+) {2,}\S`),
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		have := []string{}
		for _, m := range row.FindAllStringSubmatch(string(text), -1) {
			have = append(have, m[1])
		}
		require.Equal(t, want, have, file)
	}
}
