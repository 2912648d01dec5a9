package graph

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a bytes.Buffer does not fail
	return b.String()
}

// num writes a coordinate: one decimal, the same on every machine.
func num(x float64) string {
	x = math.Round(x*10) / 10
	if x == 0 {
		x = 0 // not -0
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}
