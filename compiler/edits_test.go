package compiler

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/syntax"
)

// edited makes the edits of a finding.
func edited(t *testing.T, text []byte, edits []diag.Edit) []byte {
	t.Helper()
	edits = slices.Clone(edits)
	slices.SortFunc(edits, func(a, b diag.Edit) int { return b.Range.Start.Byte - a.Range.Start.Byte })
	out := string(text)
	for _, e := range edits {
		require.True(t, e.Range.IsValid())
		require.NotEmpty(t, e.Range.File)
		out = out[:e.Range.Start.Byte] + e.Replacement + out[e.Range.End.Byte:]
	}
	return []byte(out)
}

// repaired makes certain edits, one finding at a time, until there are none.
func repaired(t *testing.T, text []byte) (last []byte, left diag.Diagnostics, made int) {
	t.Helper()
	const most = 100
	for made < most {
		_, left = Check(Source{Name: "plan.yaml", Text: text}, testCatalog(t), nil)
		i := slices.IndexFunc(left, func(d diag.Diagnostic) bool { return d.Applicability == diag.Certain })
		if i < 0 {
			return text, left, made
		}
		text = edited(t, text, left[i].Edits)
		made++
	}
	t.Fatalf("still not done after %d edits:\n%s\n%s", most, text, show(left))
	return nil, nil, 0
}

// typical is a plan with typical mistakes: each line with a mistake says so.
const typical = `apiVersion: chimera/v2 # another version
kind: plan # another case
name: typical
version: 1 # a number
descripton: "a misspelt field"
input_schema: {type: dict, properties: {text: {type: str}, most: {type: int}, loud: {type: bool}}, required: [text, most, loud]} # four types of other languages
output_schema: {type: map, properties: {lines: {type: integer}}} # a fifth
limits: {max_paralel: 4, deadline_ms: "60000"} # a misspelt field, a number in quotes
nodes:
  - id: keep
    provider_type: skil # a misspelt word
    provider_name: engine
    opration: pass # a misspelt field
    mode: detr # a misspelt word
    effect_class: pur # a misspelt word
    input_schema: {type: object, properties: {lines: {type: integer}}, required: [lines]}
    output_schema: {type: object, properties: {lines: {type: integer}}, required: [lines]}
    timeout_ms: "1000" # a number in quotes
    retry_policy: {max_retrys: 0} # a misspelt field
    trust_requirement: allow-auto # another hyphen
    priority: hihg # a misspelt word
    description: 42 # a number
edges:
  - {from_node: $input, from_port: most, to_node: keep, to_port: lines, edge_type: dta, required: yes} # a misspelt word, another language's true
  - {from_node: $input, from_port: most, to_node: keep, to_prot: $start, edge_type: conditional, required: false, when: "value > 3 and input.loud === true"} # a misspelt field, operators of other languages
  - {from_node: keep, from_port: lines, to_node: $output, to_port: lines, edge_type: conditional, required: false, when: "${value > 3}", chek: runtime} # marks, a misspelt field
`

// TestCertainEdits: a plan of typical mistakes compiles once a program has made the
// certain edits.
func TestCertainEdits(t *testing.T) {
	var text []byte
	var left diag.Diagnostics
	made := 0
	for name, form := range forms {
		if name == "wide characters" {
			continue // its fields are of no plan
		}
		text, left, made = repaired(t, []byte(form(typical)))
		require.Empty(t, left, "%s\n%s\n%s", name, text, show(left))
		require.GreaterOrEqual(t, made, 24, name)
	}

	// What is missing, or names another node, needs a person.
	for from, to := range map[string]string{
		"    provider_name: engine\n": "", "from_node: keep": "from_node: kep", "from_port: lines": "from_port: line",
		"name: typical": "name: Typical Plan",
	} {
		require.Contains(t, typical, from)
		text, left, _ = repaired(t, []byte(strings.Replace(typical, from, to, 1)))
		require.NotEmpty(t, left, text)
		for _, d := range left {
			require.NotEqual(t, diag.Certain, d.Applicability)
		}
	}

	// Names that fields have in other notations are only probably meant.
	for from, to := range map[string]string{
		"nodes:\n": "steps:\n", "edges:\n": "connections:\n", "- id: keep": "- name: keep", "input_schema: {type: dict": "inputs: {type: dict",
		"from_node: keep": "source: keep", "edge_type: dta": "kind: dta", `when: "${`: `if: "${`,
	} {
		require.Contains(t, typical, from)
		_, left, _ = repaired(t, []byte(strings.Replace(typical, from, to, 1)))
		at := slices.IndexFunc(left, func(d diag.Diagnostic) bool { return strings.HasPrefix(d.Summary, "unknown field") })
		require.GreaterOrEqual(t, at, 0, to)
		require.Equal(t, diag.Maybe, left[at].Applicability, to)
		require.Equal(t, strings.Trim(strings.SplitN(from, ":", 2)[0], "- "), left[at].Suggestion)
		require.NotEmpty(t, left[at].Edits)
	}

	// Where one text has several places, nothing is certain.
	anchored := strings.Replace(typical, "input_schema: {type: dict", "input_schema: &it {type: dict", 1)
	_, _, made = repaired(t, []byte(anchored))
	require.Zero(t, made)
}

// TestEditsOfJSON: edits of a plan in JSON leave it JSON.
func TestEditsOfJSON(t *testing.T) {
	const plan = `{"apiVersion": "chimera/v1", "kind": "plan", "name": "j", "version": 2,
  "input_schema": {"type": "dict", "properties": {"x": {"type": "int"}}, "required": ["x"]},
  "output_schema": {"type": "object", "properties": {"x": {"type": "int"}}},
  "nodes": [{"id": "n", "template": "engine/pass", "timeout_ms": "100", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}],
  "edges": [
    {"from_node": "$input", "from_port": "x", "to_node": "n", "to_port": "x", "edge_type": "data", "required": "true"},
    {"from_node": "n", "from_port": "$", "to_node": "$output", "to_prot": "$", "edge_type": "data", "required": true, "when": "value.x > 1 and true"}]}`
	text, left, made := repaired(t, []byte(plan))
	require.True(t, json.Valid(text), "%s", text)
	require.Greater(t, made, 7)
	for _, d := range left {
		require.True(t, json.Valid(edited(t, text, d.Edits)), d.Summary)
	}
	require.NotEmpty(t, left) // a data edge has no condition
}

// forms write one plan in several ways. They keep its lines, but for JSON.
var forms = map[string]func(text string) string{
	"as it is":          func(text string) string { return text },
	"line ends":         func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") },
	"a byte order mark": func(text string) string { return "\ufeff" + text },
	"no line end":       func(text string) string { return strings.TrimRight(text, "\n") },
	"wide characters":   func(text string) string { return strings.ReplaceAll(text, "{id: ", "{\"é😀u\u0308\": 1, id: ") },
	"JSON":              func(text string) string { return asJSON(text, "  ") },
	"JSON on one line":  func(text string) string { return asJSON(text, "") },
}

// asJSON writes a plan of one document as JSON, or returns "".
func asJSON(text, indent string) string {
	docs, ds := syntax.Parse("plan.yaml", []byte(text), fields.Limits)
	if len(ds) > 0 || len(docs) != 1 {
		return ""
	}
	raw, err := json.Marshal(docs[0].Root.Any())
	if err == nil && indent != "" {
		raw, err = json.MarshalIndent(docs[0].Root.Any(), "", indent)
	}
	if err != nil {
		return ""
	}
	return string(raw)
}

// TestEditsOfErrors: whatever edits a finding has, the file still parses after them;
// certain ones also remove the finding, and malform nothing else in its place. That
// holds however the file is written.
func TestEditsOfErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(t, err)
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			if name != "as it is" && name != "JSON on one line" {
				lengthy.Skip(t)
			}
			counts := map[diag.Applicability]int{}
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				if written := form(string(text)); strings.Contains(string(text), "kind: Plan") && written != "" {
					editsOf(t, file, []byte(written), counts)
				}
			}
			require.Greater(t, counts[diag.Certain], 10)
			require.Greater(t, counts[diag.Maybe], 40)
			require.Positive(t, counts[diag.Placeholder])
		})
	}
}

// editsOf checks the edits of each finding of a file, and counts them.
func editsOf(t *testing.T, file string, text []byte, counts map[diag.Applicability]int) {
	t.Helper()
	isJSON := json.Valid(text)
	_, found := Check(Source{Name: "plan.yaml", Text: text}, testCatalog(t), testPolicy(t))
	for _, d := range found {
		require.Equal(t, len(d.Edits) > 0, d.Applicability != "", "%s: %s", file, d.Summary)
		if len(d.Edits) == 0 {
			continue
		}
		counts[d.Applicability]++
		after := edited(t, text, d.Edits)
		_, ds := syntax.Parse("plan.yaml", after, fields.Limits)
		require.Empty(t, ds, "%s: %s\n%s", file, d.Summary, d.Edits[0].Replacement)
		require.Equal(t, isJSON, json.Valid(after), "%s: %s", file, d.Summary)
		if d.Applicability != diag.Certain {
			continue
		}
		_, left := Check(Source{Name: "plan.yaml", Text: after}, testCatalog(t), testPolicy(t))
		line := d.Subject.Start.Line
		before := at(found, line)
		for code, n := range at(left, line) {
			// What was not understood before may be wrong in other ways, and in JSON on one
			// line all is on that line.
			if code != diag.PlanSchema && code != diag.PlanSyntax || isJSON {
				continue
			}
			require.LessOrEqual(t, n, before[code], "%s:%d: %s: %s\n%s", file, line, d.Summary, code, show(left))
		}
		require.Less(t, same(left, d), same(found, d), "%s:%d: %s", file, line, d.Summary)
	}
}

// same counts the findings that say what d says.
func same(ds diag.Diagnostics, d diag.Diagnostic) (n int) {
	for _, x := range ds {
		if x.Code == d.Code && x.Summary == d.Summary {
			n++
		}
	}
	return n
}

// at counts the findings of a line by code.
func at(ds diag.Diagnostics, line int) map[diag.Code]int {
	n := map[diag.Code]int{}
	for _, d := range ds {
		if d.Subject.Start.Line == line {
			n[d.Code]++
		}
	}
	return n
}
