package plot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"chimera.ai/engine/guardian/causal"
)

// row is a category, or several together.
type row struct {
	name          string
	with, without float64
	broken        bool
	of            int
}

// rows returns the categories to draw, in the order of the model.
func (k *panel) rows() []row {
	without := map[string]json.Number{}
	for _, s := range k.Without.P {
		without[s.Category] = s.P
	}
	all := make([]row, 0, len(k.With.P))
	for _, s := range k.With.P {
		all = append(all, row{
			name: fit(s.Category, 22), with: value(s), without: value(causal.Share{P: without[s.Category]}),
			broken: len(k.Allow) > 0 && !slices.Contains(k.Allow, s.Category), of: 1,
		})
	}
	if len(all) <= maxRows {
		return all
	}
	byWeight := make([]int, len(all))
	for i := range byWeight {
		byWeight[i] = i
	}
	slices.SortStableFunc(byWeight, func(a, b int) int {
		return cmp.Compare(max(all[b].with, all[b].without), max(all[a].with, all[a].without))
	})
	kept := slices.Sorted(slices.Values(byWeight[:maxRows-2]))
	var rows []row
	for _, i := range kept {
		rows = append(rows, all[i])
	}
	for _, broken := range []bool{false, true} {
		rest := row{broken: broken}
		for _, i := range slices.Sorted(slices.Values(byWeight[maxRows-2:])) {
			if r := all[i]; r.broken == broken {
				rest.of++
				rest.with += r.with
				rest.without += r.without
			}
		}
		rest.name = fmt.Sprintf("%d others", rest.of)
		if rest.of > 0 {
			rows = append(rows, rest)
		}
	}
	return rows
}

// shares draws the probabilities of categories.
func (k *panel) shares(y float64) float64 {
	top := y
	for _, r := range k.rows() {
		with, without := blue, grey
		if r.broken {
			with, without = red, pale
			k.rect(margin, y-2, pageWidth-2*margin, rowTall-6, blush, "")
			k.text(noteLeft, y+16, red, "breaks the bound", "")
		}
		k.text(barsLeft-10, y+16, ink, r.name, end)
		k.bar(y, r.with, with)
		k.bar(y+12, r.without, without)
		y += rowTall
	}
	k.line(barsLeft, top-2, barsLeft, y-6, faint, "")
	return y + 18
}

func (k *panel) bar(y, p float64, colour string) {
	long := float64(min(max(p, 0), 1) * (barsRight - barsLeft))
	k.rect(barsLeft, y, long, 11, colour, "")
	k.text(barsLeft+long+5, y+9, ink, percent(min(p, 1)), small)
}
