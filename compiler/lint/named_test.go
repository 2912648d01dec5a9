package lint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamed(t *testing.T) {
	for _, c := range []struct{ text, name, version, agent string }{
		{"name: a\nversion: \"1.0\"\nagent: bot\nnodes: nonsense\n", "a", "1.0", "bot"},
		{`{"name":"a","version":"1","agent":"bot"}`, "a", "1", "bot"},
		{"name: a\nversion: 1\nagent: bot", "a", "", "bot"},
		{"name: a\nversion: \"1.0\"\nagent: bot\nnodes: [", "a", "1.0", "bot"},
		{"name: A B\nversion: [1]\nagent: {}", "", "", ""},
		{"name: " + strings.Repeat("n", 64) + "\nagent: bot", "", "", "bot"},
		{"- a\n- b", "", "", ""},
		{"name: a\n" + strings.Repeat("#", maxNamed), "", "", ""},
		{"", "", "", ""},
		{"\xff", "", "", ""},
		{strings.Repeat("[", 100_000), "", "", ""},
	} {
		name, version, agent := Named([]byte(c.text))
		require.Equal(t, []string{c.name, c.version, c.agent}, []string{name, version, agent}, "%.80q", c.text)
	}
}
