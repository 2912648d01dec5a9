// Package plot draws causal models, their forecasts, and how good those were, as SVG.
//
// A picture is a file of its own: it has no script, no style sheet and no font of others, and a white
// ground, so that it looks the same on dark pages. Its title and description say in words what it
// shows, and no meaning is in a colour alone. Names in it are foreign: they are escaped, on one line,
// clipped to the room that they have, and their invisible characters are shown. Equal values give
// equal bytes, whose number is bounded.
package plot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"chimera.ai/engine/internal/draw"
)

// Colours.
const (
	ink   = "#212121"
	faint = "#546e7a"
	grid  = "#cfd8dc"
	// blue is with the action, and grey without. What breaks a bound is red, paler without the action.
	blue  = "#1e6fc0"
	grey  = "#90a4ae"
	red   = "#c62828"
	pale  = "#e59a9a"
	blush = "#fdecea"
)

// Measures, in pixels.
const (
	pageWidth = 760.0
	margin    = 24.0
	// charWidth is that of the font at size 1.
	charWidth = 0.602
)

// canvas gathers the parts of a picture.
type canvas struct{ b bytes.Buffer }

// picture returns the whole picture.
func (c *canvas) picture(width, height float64, title, description string) []byte {
	var b bytes.Buffer
	w, h := draw.Num(width), draw.Num(height)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="11">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n", draw.Escape(title), draw.Escape(description))
	fmt.Fprintf(&b, `<rect width="%s" height="%s" fill="#ffffff"/>`+"\n", w, h)
	b.Write(c.b.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (c *canvas) rect(x, y, w, h float64, fill, more string) {
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"%s/>`+"\n", draw.Num(x), draw.Num(y), draw.Num(w), draw.Num(h), fill, more)
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke, more string) {
	fmt.Fprintf(&c.b, `<path d="M%s %s L%s %s" stroke="%s"%s/>`+"\n", draw.Num(x1), draw.Num(y1), draw.Num(x2), draw.Num(y2), stroke, more)
}

// Attributes of text.
const (
	bold   = ` font-weight="bold"`
	small  = ` font-size="10"`
	middle = ` text-anchor="middle"`
	end    = ` text-anchor="end"`
)

func (c *canvas) text(x, y float64, fill, s, more string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" fill="%s"%s>%s</text>`+"\n", draw.Num(x), draw.Num(y), fill, more, draw.Escape(s))
}

// fit returns foreign text on one line, of at most so many columns.
func fit(s string, columns int) string {
	s = clip(unstacked(draw.Visible(s, columns)), columns)
	if strings.ContainsFunc(s, func(r rune) bool { return r >= 0x0590 && r != '…' }) {
		// Isolated, so that text from right to left does not move what stands beside it.
		return isolate + s + isolated
	}
	return s
}

// unstacked leaves out marks on a character after the second: a tower of them would cover what is above it.
func unstacked(s string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
			return r
		}
		if marks++; marks > 2 {
			return -1
		}
		return r
	}, s)
}

// The signs around isolated text, which are not seen.
const (
	isolate  = "\u2068"
	isolated = "\u2069"
)

// clip cuts a line to so many columns.
func clip(s string, columns int) string {
	if columnsIn(s) <= columns {
		return s
	}
	used := 0
	for i, r := range s {
		if used += columnsOf(r); used >= columns {
			return s[:i] + "…"
		}
	}
	return s
}

func columnsIn(s string) int {
	columns := 0
	for _, r := range s {
		columns += columnsOf(r)
	}
	return columns
}

// columnsOf says how wide a character is: those of East Asia and pictures take two columns.
func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && (r < 0x2000 || r >= 0x2300):
		return 2
	}
	return 1
}

func width(s string, size float64) float64 {
	return float64(float64(columnsIn(s)) * size * charWidth)
}

// parse reads a number of a prediction.
func parse(n json.Number) (float64, bool) {
	x, err := strconv.ParseFloat(string(n), 64)
	return x, err == nil && usable(x)
}

// usable reports whether a number can be drawn: differences and products of such are finite.
func usable(x float64) bool { return math.Abs(x) <= 1e150 }

// short formats a number for people: four significant digits.
func short(x float64) string {
	size := math.Abs(x)
	switch {
	case x == 0:
		return "0"
	case size < 1e-4 || size >= 1e7:
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	places := 3
	for at := 10.0; at <= size && places > 0; at *= 10 {
		places--
	}
	for at := 1.0; at > size; at /= 10 {
		places++
	}
	s := strconv.FormatFloat(x, 'f', places, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// shown formats a number of a prediction.
func shown(n json.Number) string {
	x, ok := parse(n)
	if !ok {
		return "?"
	}
	return short(x)
}

// percent formats a probability. Only 0 and 1 look like them.
func percent(p float64) string {
	switch {
	case !(p >= 0 && p <= 1):
		return "?"
	case p > 0 && p < 0.0001:
		return "< 0.01 %"
	case p < 1 && p > 0.9999:
		return "> 99.99 %"
	}
	s := strconv.FormatFloat(100*p, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".") + " %"
}

func percentOf(n json.Number) string {
	p, ok := parse(n)
	if !ok {
		return "?"
	}
	return percent(p)
}

// ticks returns round numbers between low and high, about five of them.
func ticks(low, high float64) []float64 {
	if !(low < high) {
		return nil
	}
	// By the decimal digits: logarithms differ between machines.
	digits, exponent, _ := strings.Cut(strconv.FormatFloat((high-low)/5, 'e', 3, 64), "e")
	lead, _ := strconv.ParseFloat(digits, 64)
	for _, round := range []float64{1, 2, 5, 10} {
		if lead <= round {
			lead = round
			break
		}
	}
	step, err := strconv.ParseFloat(strconv.FormatFloat(lead, 'f', 0, 64)+"e"+exponent, 64)
	if err != nil || step <= 0 {
		return nil
	}
	var out []float64
	first := math.Ceil(low / step)
	for i := range 12 {
		x := float64((first + float64(i)) * step)
		if x > high {
			break
		}
		if len(out) == 0 || x > out[len(out)-1] {
			out = append(out, x)
		}
	}
	return out
}

// mark formats the number of a tick.
func mark(x float64) string {
	if s := strconv.FormatFloat(x, 'g', 12, 64); len(s) <= 10 {
		if f := strconv.FormatFloat(x, 'f', -1, 64); strings.Contains(s, "e") && len(f) <= 8 {
			return f
		}
		return s
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}
