package plot

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	valid(t, got)
	file := filepath.Join("testdata", name+".svg")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "go test ./guardian/causal/plot -update")
	require.Empty(t, cmp.Diff(string(want), string(got)), "go test ./guardian/causal/plot -update")
}

// valid checks that a picture is XML with a title and a description, that it names nothing outside of it, and that
// every number of it can be read and every text is in the picture. It returns the texts.
func valid(t *testing.T, svg []byte) []string {
	t.Helper()
	require.Less(t, len(svg), 4<<20)
	known := []string{"svg", "title", "desc", "rect", "path", "text", "circle", "g"}
	d := xml.NewDecoder(bytes.NewReader(svg))
	var texts, open []string
	var wide, tall, x, y float64
	size, anchor := 11.0, ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "%s", svg)
		switch e := token.(type) {
		case xml.StartElement:
			require.Contains(t, known, e.Name.Local)
			open = append(open, e.Name.Local)
			size, anchor = 11, ""
			for _, a := range e.Attr {
				require.NotContains(t, []string{"href", "style", "class", "id"}, a.Name.Local)
				require.False(t, strings.HasPrefix(a.Name.Local, "on"))
				require.NotContains(t, a.Value, "NaN")
				require.NotContains(t, a.Value, "Inf")
				n, err := strconv.ParseFloat(a.Value, 64)
				switch a.Name.Local {
				case "x", "y", "width", "height", "cx", "cy", "r", "font-size":
					require.NoError(t, err)
					require.Less(t, math.Abs(n), 1e5)
				}
				switch a.Name.Local {
				case "x":
					x = n
				case "y":
					y = n
				case "font-size":
					size = n
				case "text-anchor":
					anchor = a.Value
				case "width":
					require.GreaterOrEqual(t, n, 0.0)
					if e.Name.Local == "svg" {
						wide = n
					}
				case "height":
					require.GreaterOrEqual(t, n, 0.0)
					if e.Name.Local == "svg" {
						tall = n
					}
				}
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			s := string(e)
			if len(open) < 2 {
				continue
			}
			for _, r := range s {
				require.True(t, unicode.IsPrint(r) || r == '\u2068' || r == '\u2069' || r == '\n', "%U in %q", r, s)
			}
			texts = append(texts, s)
			if open[len(open)-1] == "text" {
				w := width(s, size)
				left := x
				switch anchor {
				case "middle":
					left -= w / 2
				case "end":
					left -= w
				}
				require.GreaterOrEqual(t, left, 0.0, "%q begins outside of the picture", s)
				require.LessOrEqual(t, left+w, wide+1, "%q ends outside of the picture", s)
				require.Less(t, y, tall)
			}
		}
	}
	require.Contains(t, string(svg), `role="img"`)
	require.True(t, bytes.Contains(svg, []byte("<title>")) && bytes.Contains(svg, []byte("<desc>")))
	return texts
}

func num(x float64) json.Number { return json.Number(strconv.FormatFloat(x, 'g', -1, 64)) }

func ptr(x float64) *float64 { return &x }

// bell returns bins and moments of a normal distribution between low and high.
func bell(mean, sd, low, high float64) causal.Distribution {
	const n = 60
	d := causal.Distribution{
		Mean: num(mean), Variance: num(sd * sd), P05: num(mean - 1.645*sd), P50: num(mean), P95: num(mean + 1.645*sd), Bins: make([]float64, n),
	}
	cumulative := func(x float64) float64 { return math.Erf((x-mean)/(sd*math.Sqrt2)) / 2 }
	for i := range n {
		a, b := low+(high-low)*float64(i)/n, low+(high-low)*float64(i+1)/n
		// Rounded, so that golden files are the same on every machine.
		d.Bins[i] = math.Round(1e6*(cumulative(b)-cumulative(a))) / 1e6
	}
	return d
}

func constant(x float64, at int) causal.Distribution {
	d := causal.Distribution{Mean: num(x), Variance: "0", P05: num(x), P50: num(x), P95: num(x), Bins: make([]float64, 60)}
	d.Bins[at] = 1
	return d
}

func prediction() *causal.Prediction {
	return &causal.Prediction{
		ID: "sim_0123456789abcdef0123456789abcdef", Name: "report-size", Method: causal.MonteCarlo, Samples: 20000,
		Risk: "0.211", Estimate: "0.2031", Baseline: "0.0402",
		Interventions: []causal.Intervention{{Variable: "length", Value: causal.Value{Number: 19400}}, {Variable: "mode", Value: causal.Value{Category: "fast"}}},
		KPIs: []causal.Forecast{
			{
				KPI: causal.KPI{Variable: "cost", Min: ptr(0), Max: ptr(100)}, Broken: "0.02",
				With: bell(60, 20, -20, 140), Without: bell(40, 15, -20, 140), Low: -20, High: 140,
			},
			{
				KPI: causal.KPI{Variable: "outcome", Allow: []string{"ok"}}, Broken: "0.095",
				With:    causal.Distribution{P: []causal.Share{{Category: "ok", P: "0.905"}, {Category: "late", P: "0.09"}, {Category: "lost", P: "0.005"}}},
				Without: causal.Distribution{P: []causal.Share{{Category: "ok", P: "0.96"}, {Category: "late", P: "0.04"}, {Category: "lost", P: "0"}}},
			},
			{
				KPI: causal.KPI{Variable: "size", Max: ptr(20000), Unit: "bytes"}, Broken: "0.1302",
				With: bell(19000, 900, 0, 23000), Without: constant(12, 0), Low: 0, High: 23000,
			},
			{
				KPI: causal.KPI{Variable: "wait", Unit: "s"}, Broken: "0",
				With: bell(5, 1, 0, 10), Without: bell(3, 1, 0, 10), Low: 0, High: 10,
			},
		},
	}
}

func TestForecast(t *testing.T) {
	p := prediction()
	golden(t, "forecast", Forecast(p))
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	var stored causal.Prediction
	require.NoError(t, json.Unmarshal(raw, &stored))
	golden(t, "stored", Forecast(&stored))
	require.Equal(t, Forecast(p), Forecast(prediction()))
}

// TestBounds: what is out of the picture is said at its edge.
func TestBounds(t *testing.T) {
	draw := func(min, max *float64) string {
		p := prediction()
		p.KPIs = []causal.Forecast{{KPI: causal.KPI{Variable: "x", Min: min, Max: max}, Broken: "0.5", With: bell(50, 10, 0, 100), Without: bell(40, 10, 0, 100), Low: 0, High: 100}}
		svg := Forecast(p)
		valid(t, svg)
		return string(svg)
	}
	require.Contains(t, draw(nil, ptr(1e9)), ">max 1e+09 →<")
	require.NotContains(t, draw(nil, ptr(1e9)), `fill="`+red+`"/>`+"\n<path")
	require.Contains(t, draw(ptr(-1e9), ptr(-1e8)), ">← max -1e+08<")
	require.Contains(t, draw(ptr(-1e9), nil), ">← min -1e+09<")
	require.Contains(t, draw(ptr(1e9), nil), ">min 1e+09 →<")
	require.Contains(t, draw(ptr(20), ptr(70)), ">max 70<")
	require.Contains(t, draw(ptr(math.NaN()), ptr(math.Inf(1))), "no bound")
}

func TestCategories(t *testing.T) {
	p := prediction()
	f := causal.Forecast{KPI: causal.KPI{Variable: "kind", Allow: []string{"c0", "c1", "c2", "c40"}}, Broken: "0.5"}
	for i := range causal.MaxCategories {
		f.With.P = append(f.With.P, causal.Share{Category: "c" + strconv.Itoa(i), P: num(1. / 64)})
		f.Without.P = append(f.Without.P, causal.Share{Category: "c" + strconv.Itoa(i), P: num(float64(i) / 2016)})
	}
	p.KPIs = []causal.Forecast{f}
	texts := valid(t, Forecast(p))
	require.Contains(t, texts, "c63")
	require.Contains(t, texts, "4 others")
	require.Contains(t, texts, "50 others")
}

// hostile are names that try to be something else.
var hostile = []string{
	`</text><script>alert(1)</script>`, `"><image href="http://example.org/x"/>`, "]]>&amp;<!--", "a\x00b\x1bc\r\nd", "\u202ereversed\u200f\u2066",
	"\xff\xfe", strings.Repeat("W", 5000), strings.Repeat("漢", 300), strings.Repeat("\u200b", 400), "e" + strings.Repeat("\u0301", 900), "שלום עולם", "",
}

func TestHostileForecast(t *testing.T) {
	for _, name := range hostile {
		p := prediction()
		p.Name = name
		p.Interventions = slices.Repeat([]causal.Intervention{{Variable: name, Value: causal.Value{Category: name}}}, 300)
		for i := range p.KPIs {
			p.KPIs[i].Variable, p.KPIs[i].Unit = name, name
		}
		p.KPIs[1].With.P[1].Category = name
		p.KPIs = slices.Repeat(p.KPIs, 20)
		svg := Forecast(p)
		require.NotContains(t, string(svg), "<script")
		require.NotContains(t, string(svg), "<image")
		require.Contains(t, valid(t, svg), "and 48 more KPIs")
	}
}

func TestHostileNumbers(t *testing.T) {
	valid(t, Forecast(nil))
	valid(t, Forecast(&causal.Prediction{Name: "empty"}))
	numbers := []float64{0, 1, math.NaN(), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 5e-324, -1e100, 1e15}
	if testing.Short() {
		numbers = []float64{0, math.NaN(), math.Inf(-1), math.MaxFloat64, 5e-324}
	}
	for _, a := range numbers {
		for _, b := range numbers {
			for _, bins := range [][]float64{nil, {a}, {a, b}, make([]float64, 2000), {0.5, 0.5}, {1}} {
				d := causal.Distribution{Mean: num(a), Variance: num(b), P05: num(a), P50: num(b), P95: num(b), Bins: bins}
				p := &causal.Prediction{Risk: num(a), KPIs: []causal.Forecast{{
					KPI: causal.KPI{Variable: "x", Min: &a, Max: &b}, Broken: num(b), With: d, Without: d, Low: a, High: b,
				}}}
				svg := Forecast(p)
				require.Less(t, len(svg), 20_000)
				valid(t, svg)
			}
		}
	}
	many := make([]float64, 100_000)
	for i := range many {
		many[i] = 1e-5
	}
	d := causal.Distribution{Bins: many}
	svg := Forecast(&causal.Prediction{KPIs: []causal.Forecast{{With: d, Without: d, High: 1}}})
	require.Less(t, len(svg), 20_000)
	valid(t, svg)
}

func TestFit(t *testing.T) {
	for s, want := range map[string]string{
		"length": "length", "abcdefghij": "abcdefghij", "abcdefghijk": "abcdefghi…", "a\nb": "a b",
		"\u202e": "U+202E", "漢漢漢漢漢漢": isolate + "漢漢漢漢…" + isolated, "e" + strings.Repeat("\u0301", 9): "e\u0301\u0301",
	} {
		require.Equal(t, want, fit(s, 10))
	}
	require.Equal(t, isolate+"ש"+isolated+" = …", clip(fit("ש", 3)+" = 1234", 5))
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1: "1", 20000: "20000", 1234567: "1234567", 0.12345: "0.1235", -3.14159: "-3.142", 1e7: "1e+07", 12.5: "12.5", 0.001: "0.001", 100: "100"} {
		require.Equal(t, want, short(x))
	}
	for p, want := range map[float64]string{0: "0 %", 1: "100 %", 1e-9: "< 0.01 %", 0.99999: "> 99.99 %", 0.5: "50 %", 0.1234567: "12.35 %", 2: "?", math.NaN(): "?"} {
		require.Equal(t, want, percent(p))
	}
	require.Equal(t, []float64{0, 20, 40, 60, 80, 100}, ticks(0, 100))
	require.Equal(t, []float64{0, 1, 2}, ticks(-0.3, 2.7)[:3])
	require.Empty(t, ticks(1, 1))
}
