package syntax

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	fields := []string{"id", "provider_type", "provider_name", "operation", "mode", "effect_class", "timeout_ms", "retry_policy", "trust_requirement", "with"}
	tests := []struct {
		name       string
		candidates []string
		want       string
	}{
		{"timout_ms", fields, "timeout_ms"},
		{"provider_tpye", fields, "provider_type"},
		{"providername", fields, "provider_name"},
		{"MODE", fields, "mode"},
		{"Id", fields, "id"},
		{"wiht", fields, "with"},
		{"trust", fields, "trust_requirement"},
		{"timeout", fields, "timeout_ms"},
		{"Amount", []string{"currency", "amount-minor"}, "amount-minor"},
		{"provider", fields, ""},
		{"time", []string{"timeout_ms"}, ""},
		{"to", []string{"to_node"}, ""},
		{"xyz", fields, ""},
		{"", fields, ""},
		{"i", []string{"a", "b"}, ""},
		{"ab", []string{"ba"}, "ba"},
		{"fetch", []string{"Fetch", "fetsh"}, "Fetch"},
		{"aB", []string{"ab", "AB", "aBc"}, "ab"},
		{"fetc", []string{"fetch", "fetcx"}, "fetch"},
		{"größe", []string{"grösse", "größen"}, "größen"},
		{strings.Repeat("a", 65), []string{strings.Repeat("a", 64)}, ""},
		{"abcdef", []string{"abcxyf", "abcdxx", "abcdef1"}, "abcdef1"},
		{"abc", []string{"xyz", "abd", "abe"}, "abd"},
		{"same", []string{"same"}, ""},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, Nearest(tt.name, tt.candidates), tt.name)
	}
}

// A bound on the distance changes nothing but how soon it gives up.
func TestDistance(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b, limit := []rune(word.Draw(t, "a")), []rune(word.Draw(t, "b")), rapid.IntRange(0, 9).Draw(t, "limit")
		exact := distance(a, b, 100)
		if got := distance(a, b, limit); exact <= limit && got != exact || exact > limit && got <= limit {
			t.Fatalf("distance %d, bounded by %d: %d", exact, limit, got)
		}
		if back := distance(b, a, 100); back != exact {
			t.Fatalf("%d one way, %d the other", exact, back)
		}
	})
}
