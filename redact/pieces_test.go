package redact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestPieces: what is found is what a look at each form finds, also after some of them are gone.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.StringMatching(`[ab]{8,12}`)
		forms := rapid.SliceOfNDistinct(form, 0, 9, rapid.ID[string]).Draw(t, "forms")
		gone := rapid.IntRange(0, len(forms)).Draw(t, "gone")
		text := rapid.StringMatching(`[ab]{0,14}`).Draw(t, "text")
		var p pieces
		for _, f := range forms {
			p.add(f)
		}
		for _, f := range forms[:gone] {
			p.remove(f)
		}
		atEnd, atStart := 0, 0
		for _, f := range forms[gone:] {
			for n := minCut; n <= min(len(f), len(text)); n++ {
				if strings.HasSuffix(text, f[:n]) {
					atEnd = max(atEnd, n)
				}
				if strings.HasPrefix(text, f[len(f)-n:]) {
					atStart = max(atStart, n)
				}
			}
		}
		require.Equal(t, atEnd, p.atEnd(text))
		require.Equal(t, atStart, p.atStart(text))
	})
}

// TestManyPieces: of many forms, few are looked at for each length.
func TestManyPieces(t *testing.T) {
	var p pieces
	for i := range 12_288 {
		p.add(fmt.Sprintf("eyJhbGciOiJFUzI1NiJ9.%0640d", i))
	}
	compared := 0
	compare := func(a, b string) int {
		compared++
		return strings.Compare(a, b)
	}
	text := strings.Repeat("eyJh", 10_000)
	of := func(n int) string { return text[len(text)-n:] }
	require.Equal(t, 4, p.find(text, p.starts, compare, strings.HasPrefix, of))
	require.LessOrEqual(t, compared, 14*p.longest)
}
