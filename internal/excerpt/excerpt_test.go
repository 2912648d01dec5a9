package excerpt

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"aéb", 2, "a…"}, // é has two bytes
		{"é", 0, "…"},
		{"a\r\nb\nc\u2028d", 80, "a b c d"},
		{"a\xffb", 80, "a\uFFFDb"},
		{"\x80\x80\x80", 2, "…"},
	} {
		require.Equal(t, c.want, Clip(c.in, c.n), "%q", c.in)
	}
}

func TestQuote(t *testing.T) {
	require.Equal(t, `"a\nb"`, Quote("a\nb", 80))
	require.Equal(t, `"a…"`, Quote("aéb", 2))
	require.Equal(t, `"\xff"`, Quote("\xff", 80))
}

func FuzzExcerpt(f *testing.F) {
	f.Add("a\u0085b\xff", 3)
	f.Add("é\u202e", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n &= 0xff
		for _, text := range []string{Clip(s, n), Quote(s, n)} {
			require.True(t, utf8.ValidString(text))
			require.False(t, strings.ContainsAny(text, "\r\n\v\f\u0085\u2028\u2029"))
			require.LessOrEqual(t, len(text), 4*n+len(`"…"`))
		}
	})
}
