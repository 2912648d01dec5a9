// Package draw holds what pictures share: the layout of layered graphs, and foreign text in SVG.
package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Escape returns text of XML. What XML cannot hold becomes U+FFFD.
func Escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a bytes.Buffer does not fail
	return b.String()
}

// Num writes a coordinate: one decimal, the same on every machine.
func Num(x float64) string {
	x = math.Round(x*10) / 10
	if x == 0 {
		x = 0 // not -0
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}

// Visible returns a name on one line: white space becomes one space, other invisible
// characters become code points, and what is too long is cut.
func Visible(s string, most int) string {
	var b strings.Builder
	count, blank := 0, false
	for _, r := range s {
		if count >= most {
			b.WriteRune('…')
			break
		}
		if r == ' ' || r == '\t' || r == '\n' || r == '\r' {
			blank = b.Len() > 0
			continue
		}
		if blank {
			b.WriteByte(' ')
			blank = false
			count++
		}
		if strconv.IsPrint(r) && r != 0xFFFD {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "U+%04X", r)
		}
		count++
	}
	return b.String()
}
