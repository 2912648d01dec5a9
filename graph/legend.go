package graph

import (
	"bytes"
	"fmt"

	"chimera.ai/engine/internal/draw"
)

// entry is one entry of the legend of an SVG: a sign and a text.
type entry struct {
	// sign draws it at x, on the line y.
	sign  func(b *bytes.Buffer, x, y float64)
	width float64
	text  string
}

// legendRows lists what the picture uses, in rows that fit it.
func (d *drawing) legendRows() [][]entry {
	var all []entry
	box := func(text string, l look, more string) {
		all = append(all, entry{func(b *bytes.Buffer, x, y float64) {
			fmt.Fprintf(b, `<rect x="%s" y="%s" width="14" height="10" rx="2" fill="%s" stroke="%s"%s/>`+"\n", draw.Num(x), draw.Num(y-9), l.fill, l.stroke, more)
		}, 20, text})
	}
	classes, undo := d.classes()
	for _, c := range classes {
		box(string(c), looks[c], "")
	}
	if undo {
		box("undoes an effect", look{fill: "#ffffff", stroke: "#546e7a"}, ` stroke-dasharray="3 2"`)
	}
	if len(d.p.Barriers) > 0 {
		box("waits for people", gate, "")
	}
	used, tainted := d.used()
	for _, s := range used {
		all = append(all, entry{func(b *bytes.Buffer, x, y float64) {
			dash := ""
			if s.dash != "" {
				dash = ` stroke-dasharray="` + s.dash + `"`
			}
			fmt.Fprintf(b, `<path d="M%s %s h24" stroke="%s" stroke-width="%s"%s/>`+"\n", draw.Num(x), draw.Num(y-4), s.stroke, draw.Num(s.width), dash)
		}, 30, s.name})
	}
	if tainted {
		all = append(all, entry{func(b *bytes.Buffer, x, y float64) {
			fmt.Fprintf(b, `<path d="M%s %s h24" stroke="%s" stroke-width="7" stroke-opacity="0.4"/>`+"\n", draw.Num(x), draw.Num(y-4), halo)
		}, 30, warning + " tainted: nobody vouches for it"})
	}
	var rows [][]entry
	x := d.width
	for _, e := range all {
		wide := e.width + e.wide()
		if x+wide > d.width-margin {
			rows = append(rows, nil)
			x = margin
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], e)
		x += wide
	}
	return rows
}

// wide returns the width of the text and the gap after it.
func (e *entry) wide() float64 { return float64(len([]rune(e.text)))*labelWidth + 16 }

// legend explains what the picture uses.
func (d *drawing) legend(b *bytes.Buffer) {
	y := d.height - margin - float64(len(d.rows)-1)*legendGap
	for _, row := range d.rows {
		x := margin
		for _, e := range row {
			e.sign(b, x, y)
			x += e.width
			fmt.Fprintf(b, `<text x="%s" y="%s" font-size="10" fill="#546e7a">%s</text>`+"\n", draw.Num(x), draw.Num(y), draw.Escape(e.text))
			x += e.wide()
		}
		y += legendGap
	}
}
