package causal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/schemas"
)

// fileOf is a file of testdata.
func fileOf(t testing.TB, name string) diag.Source {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return diag.Source{Name: name, Text: text}
}

// show writes findings one a line.
func show(ds diag.Diagnostics) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "%s:%d:%d %s %s %s\n\t%s\n", d.Subject.File, d.Subject.Start.Line, d.Subject.Start.Column, d.Severity, d.Code, d.Summary, d.Detail)
		if d.Suggestion != "" {
			fmt.Fprintf(&b, "\tsuggestion: %s\n", d.Suggestion)
		}
	}
	return b.String()
}

// expectation matches a comment that says what is found: `# ERROR code "text"`, and what the finding
// covers and suggests. It is about its line, or, alone on a line, about the next that holds something
// else; ERROR+2 means two lines further down.
var expectation = regexp.MustCompile(`#\s*ERROR([+-]\d+)?\s+(\S+)\s+("(?:[^"\\]|\\.)*")(?:\s+at\s+("(?:[^"\\]|\\.)*"))?(?:\s+suggest\s+("(?:[^"\\]|\\.)*"))?\s*$`)

// TestErrors compares what is found in files with the comments in them, both ways.
func TestErrors(t *testing.T) {
	for _, file := range []string{"syntax.yaml", "shape.yaml", "meaning.yaml"} {
		t.Run(file, func(t *testing.T) {
			src := fileOf(t, file)
			m, found := Parse(src)
			require.Nil(t, m)
			lines := strings.Split(string(src.Text), "\n")
			for i, line := range lines {
				x := expectation.FindStringSubmatch(line)
				if x == nil {
					require.NotContains(t, line, "# ERROR", "line %d is no expectation", i+1)
					continue
				}
				at := i + 1
				for x[1] == "" && strings.HasPrefix(strings.TrimSpace(lines[at-1]), "#") {
					at++
				}
				if x[1] != "" {
					more, err := strconv.Atoi(x[1])
					require.NoError(t, err)
					at += more
				}
				unquote := func(s string) string {
					if s == "" {
						return ""
					}
					out, err := strconv.Unquote(s)
					require.NoError(t, err)
					return out
				}
				says, covers, suggests := unquote(x[3]), unquote(x[4]), unquote(x[5])
				k := slices.IndexFunc(found, func(d diag.Diagnostic) bool {
					return string(d.Code) == x[2] && d.Subject.Start.Line == at && strings.Contains(d.Summary+"\n"+d.Detail, says) &&
						(covers == "" || covers == string(src.Text[d.Subject.Start.Byte:d.Subject.End.Byte])) && (suggests == "" || suggests == d.Suggestion)
				})
				if k < 0 {
					t.Errorf("%s:%d: not found: %s", file, at, x[0])
					continue
				}
				found = slices.Delete(found, k, k+1)
			}
			require.Empty(t, show(found), "not expected")
		})
	}
}

// parsed is the model of a file of testdata, which has no finding.
func parsed(t testing.TB, name string) *Model {
	t.Helper()
	m, ds := Parse(fileOf(t, name))
	require.Empty(t, show(ds))
	require.NotNil(t, m)
	return m
}

// TestParse: what a file says is what the model holds.
func TestParse(t *testing.T) {
	m := parsed(t, "model.yaml")
	half, low := 0.0, 100.0
	five, twelve := 5.0, 12.5
	require.Equal(t, "report-size", m.Name)
	require.Equal(t, []string{"files/write_file"}, m.Operations)
	require.Equal(t, 20_000, m.Samples)
	require.Empty(t, cmp.Diff([]KPI{
		{Variable: "cost", Min: &half, Max: &low}, {Variable: "outcome", Allow: []string{"ok"}}, {Variable: "size", Max: new(20000.0), Unit: "bytes"},
	}, m.KPIs))
	require.Empty(t, cmp.Diff([]Binding{{"length", "size(args.content)"}}, m.Bind))
	require.Empty(t, cmp.Diff([]Binding{{"size", "output.bytes"}}, m.Observe))
	require.Empty(t, cmp.Diff(&Variable{
		Name: "length", Value: &Value{}, Range: &Range{0, 100000}, Provenance: Assumed,
	}, m.Variable("length")))
	require.Empty(t, cmp.Diff(&Variable{
		Name: "load", Noise: &Noise{Normal: &Normal{0.4, 0.1}}, Provenance: Fitted,
		Fit: &Fit{Source: "history.csv", Digest: "sha256:" + strings.Repeat("0", 64), Rows: 100, HeldOut: 20},
	}, m.Variable("load")))
	require.Empty(t, cmp.Diff(&Variable{
		Name: "delay", Parents: []string{"weather"}, Provenance: Assumed, Noise: &Noise{Empirical: []float64{0, 0, 1, 3}},
		Table: []Row{{When: map[string]string{"weather": "dry"}, Value: &five}, {When: map[string]string{"weather": "wet"}, Value: &twelve}},
	}, m.Variable("delay")))
	require.Equal(t, []string{"delay", "size"}, m.Variable("cost").Parents)
	require.Equal(t, []string{"dry", "wet"}, m.Variable("weather").Values)
	require.Empty(t, Check(m))
}

// TestDraft: mechanisms and KPIs of a draft may be missing, and nothing else.
func TestDraft(t *testing.T) {
	const head = "apiVersion: chimera/v1\nkind: CausalModel\nname: draft\noperations: [a/b]\nbind: {x: args.x}\n"
	text := head + "variables:\n  x: {value: 0, range: [0, 1]}\n  y: {parents: [x]}\n  z: {parents: [x], noise: {normal: {sd: 1}}}\n  w: {}\n"
	src := diag.Source{Name: "draft.yaml", Text: []byte(text)}
	m, ds := ParseDraft(src)
	require.Empty(t, show(ds))
	require.Empty(t, Check(m))
	for _, name := range []string{"y", "z", "w"} {
		require.True(t, m.Variable(name).Drafted())
	}
	m, ds = Parse(src)
	require.Nil(t, m)
	require.Len(t, ds, 4, show(ds))
	require.Contains(t, show(ds), "no KPI has a bound")
	unbound := diag.Source{Name: "draft.yaml", Text: []byte(strings.Replace(text, "bind: {x: args.x}\n", "", 1))}
	m, ds = ParseDraft(unbound)
	require.NotNil(t, m, show(ds))
	require.Equal(t, m.Digest(), roundTrip(t, m).Digest())
	m, ds = Parse(unbound)
	require.Nil(t, m)
	require.Contains(t, show(ds), "`bind` is empty")
	m, ds = ParseDraft(diag.Source{Name: "draft.yaml", Text: []byte(text + "  v: {parents: [u]}\n")})
	require.Nil(t, m)
	require.Len(t, ds, 1, show(ds))
	require.Equal(t, diag.ModelUnknown, ds[0].Code)
}

// TestOneValidation: what is refused in a file is refused in the model that it would be, too.
func TestOneValidation(t *testing.T) {
	for name, change := range map[string]func(m *Model){
		"twice":       func(m *Model) { m.Variables = append(m.Variables, m.Variables[0]) },
		"name":        func(m *Model) { m.Variables[0].Name = "a b" },
		"bound twice": func(m *Model) { m.Bind = append(m.Bind, m.Bind[0]) },
		"KPI twice":   func(m *Model) { m.KPIs = append(m.KPIs, m.KPIs[0]) },
		"observation": func(m *Model) { m.Observe = append(m.Observe, m.Observe[0]) },
		"operation":   func(m *Model) { m.Operations = append(m.Operations, m.Operations[0]) },
		"parent":      func(m *Model) { m.Variable("cost").Parents = []string{"size", "size"} },
		"category":    func(m *Model) { m.Variable("weather").Values = []string{"dry", "dry"} },
		"cycle":       func(m *Model) { m.Variable("load").Parents = []string{"cost"} },
		"nothing":     func(m *Model) { *m = Model{} },
		"no noise":    func(m *Model) { m.Variable("load").Noise = &Noise{} },
		"no sd":       func(m *Model) { m.Variable("load").Noise.Normal.SD = 0 },
		"no rows":     func(m *Model) { m.Variable("delay").Table = []Row{} },
		"no source":   func(m *Model) { m.Variable("load").Fit = &Fit{} },
		"word":        func(m *Model) { m.Variable("load").Provenance = "guessed" },
		"no range":    func(m *Model) { m.Variable("length").Range = nil },
	} {
		t.Run(name, func(t *testing.T) {
			m := parsed(t, "model.yaml")
			change(m)
			found := append(Check(m), Incomplete(m)...)
			require.NotEmpty(t, found)
			for _, p := range found {
				require.NotEmpty(t, p.Path)
				require.NotEmpty(t, p.Summary)
				require.NotEmpty(t, p.Code)
			}
		})
	}
}

// roundTrip is the model that the JSON of another one decodes to.
func roundTrip(t testing.TB, m *Model) *Model {
	t.Helper()
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	out := new(Model)
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(out))
	return out
}

// TestRoundTrip: a model is the same after JSON.
func TestRoundTrip(t *testing.T) {
	m := parsed(t, "model.yaml")
	other := roundTrip(t, m)
	require.Empty(t, cmp.Diff(m, other))
	require.Equal(t, m.Digest(), other.Digest())
	require.Empty(t, Check(other))
}

// TestEditors: the schema for editors accepts what is accepted, and refuses what is wrong in its shape.
func TestEditors(t *testing.T) {
	s, err := schemas.CompileNamed("causal")
	require.NoError(t, err)
	read := func(name string) any {
		docs, _ := syntax.Parse(name, fileOf(t, name).Text, limits)
		return docs[0].Root.Any()
	}
	require.NoError(t, s.Validate(read("model.yaml")))
	require.NoError(t, s.Validate(read("wide.yaml")))
	require.Error(t, s.Validate(read("shape.yaml")))
}
