package activities

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/plan"
)

// TestLazyPanics: what panicked while it was made never passes for made.
func TestLazyPanics(t *testing.T) {
	var l lazy[*int]
	require.Panics(t, func() { _, _ = l.get(func() (*int, error) { panic("no") }) })
	v, err := l.get(func() (*int, error) { return new(int), nil })
	require.ErrorIs(t, err, errUnmade)
	require.Nil(t, v)

	var once lazy[int]
	for range 3 {
		made, err := once.get(func() (int, error) { return 1, errors.New("kept") })
		require.Equal(t, 1, made)
		require.EqualError(t, err, "kept")
	}
}

// TestPreparationPanics: a node that cannot be prepared says so on every call.
func TestPreparationPanics(t *testing.T) {
	p := &plan.Plan{Nodes: []plan.Node{{ID: "n", InputSchema: 5, OutputSchema: -1}}}
	p.Index()
	q := prepare(p, func(int) {}).(*prepared)
	for range 2 {
		n := q.node(0)
		require.NotNil(t, n)
		require.ErrorContains(t, n.err, "the preparation of node n panicked")
	}
}

func TestRecentIsBounded(t *testing.T) {
	var s recent
	_, ok := s.get("a")
	require.False(t, ok)
	for i := range maxRecent + 1 {
		s.remember(fmt.Sprint(i), fmt.Sprint("digest ", i))
		s.remember(fmt.Sprint(i), "another")
	}
	require.Len(t, s.values, maxRecent)
	require.Len(t, s.order, maxRecent)
	_, ok = s.get("0")
	require.False(t, ok, "the oldest goes")
	got, ok := s.get("1")
	require.True(t, ok)
	require.Equal(t, "digest 1", got)
	require.NotContains(t, s.values, sha256.Sum256([]byte("0")))
}

func FuzzClip(f *testing.F) {
	f.Add("aä\xff€😀", 3)
	f.Add(strings.Repeat("\x80", 9), 4)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1<<20 {
			return
		}
		got := excerpt.Bytes(s, n)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), n+len("…"))
		if whole := strings.ToValidUTF8(s, "\uFFFD"); len(whole) <= n {
			require.Equal(t, whole, got)
		} else {
			require.True(t, strings.HasPrefix(whole, strings.TrimSuffix(got, "…")))
		}
	})
}

// TestKeyed: an effect has its own key, whatever a value brings along.
func TestKeyed(t *testing.T) {
	for _, c := range []struct {
		input any
		want  any
	}{
		{map[string]any{}, map[string]any{"key": "k"}},
		{map[string]any{"line": "a"}, map[string]any{"line": "a", "key": "k"}},
		{map[string]any{"line": "a", "key": "of another"}, map[string]any{"line": "a", "key": "k"}},
		{"text", nil},
		{[]any{"key"}, nil},
		{nil, nil},
	} {
		before := fmt.Sprint(c.input)
		have, ok := keyed(c.input, "key", "k")
		require.Equal(t, c.want != nil, ok)
		require.Equal(t, c.want, have)
		require.Equal(t, before, fmt.Sprint(c.input), "others read it, too")
	}
}
