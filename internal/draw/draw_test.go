package draw

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestLayered: the slots of a layer do not lie over each other, arrows lead down unless they close a cycle,
// and every node is in an even layer.
func TestLayered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "nodes")
		const gap = 10
		widths := make([]float64, n)
		for i := range widths {
			widths[i] = float64(rapid.IntRange(20, 300).Draw(t, "width"))
		}
		sink := rapid.IntRange(-1, n-1).Draw(t, "sink")
		var edges []Edge
		if n > 0 {
			for range rapid.IntRange(0, 80).Draw(t, "edges") {
				e := Edge{rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")}
				if e.From != sink {
					edges = append(edges, e)
				}
			}
		}
		l := Layered(edges, widths, make([]float64, len(edges)), sink, gap)
		seen := 0
		for _, layer := range l.Layers {
			for i, s := range layer {
				seen++
				if i > 0 {
					left, right := l.Slots[layer[i-1]], l.Slots[s]
					require.GreaterOrEqual(t, right.X-left.X+0.01, (left.Width+right.Width)/2+gap)
				}
			}
		}
		require.Equal(t, len(l.Slots), seen)
		for i, w := range l.Wires {
			require.Equal(t, edges[i], w.Edge)
			require.Equal(t, w.Back, len(w.Through) == 0)
			if !w.Back {
				require.Less(t, l.Slots[w.From].Layer, l.Slots[w.To].Layer)
			}
		}
		for i := range n {
			require.Equal(t, i, l.Slots[i].Node)
			require.Zero(t, l.Slots[i].Layer%2)
			if sink >= 0 && i != sink {
				require.Less(t, l.Slots[i].Layer, l.Slots[sink].Layer)
			}
		}
	})
}

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "  a \n b ": "a b", "a\x00": "aU+0000", "\u202e": "U+202E", "\xff": "U+FFFD", "абв": "абв",
		strings.Repeat("x", 100): strings.Repeat("x", 10) + "…",
	} {
		require.Equal(t, want, Visible(s, 10))
	}
	require.Equal(t, "&lt;a b=&#34;&amp;&#39;&#34;&gt;\uFFFD", Escape("<a b=\"&'\">\x00"))
	for x, want := range map[float64]string{0: "0", math.Copysign(0, -1): "0", -0.01: "0", 1.25: "1.3", 100: "100", -3.5: "-3.5"} {
		require.Equal(t, want, Num(x))
	}
}
