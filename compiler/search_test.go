package compiler

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// TestSearch: for a transform whose results may not fit, either a value of the
// source is found whose result really does not fit, or none is claimed.
func TestSearch(t *testing.T) {
	for _, c := range []struct {
		name          string
		value, target string
		when          string
		transform     string
		code          diag.Code
		before, after string
	}{
		{"a selection", `{type: object, properties: {k: {type: integer}}, required: [k]}`, `{type: integer, minimum: 5}`, "", `"${value.k}"`, diag.TypeNotContained, `{"k":4}`, `4`},
		{"a default", `{type: object, properties: {k: {type: string}}}`, `{type: string, minLength: 1}`, "", `"${value.?k.orValue('')}"`, diag.TypeNotContained, "", `""`},
		{"a branch", `{type: integer}`, `{enum: [low, high]}`, "", `"${value > 1000 ? 'huge' : 'low'}"`, diag.TypeNotContained, "", `"huge"`},
		{"an object", `{type: string}`, `{type: object, properties: {a: {maxLength: 2}}}`, "", `{a: "${value}", b: 1}`, diag.TypeNotContained, "", ""},
		{"text around a value", `{type: string}`, `{type: string, pattern: "^a"}`, "", `"b${value}"`, diag.TypeNotContained, "", ""},
		{"the end of an interval", `{type: integer, minimum: 0, maximum: 1000}`, `{type: integer, maximum: 10}`, "", `"${value + 1}"`, diag.TypeNotContained, "", ""},
		{"both ends", `{type: integer, minimum: 0, maximum: 1000}`, `{type: integer, maximum: 1000}`, "", `"${value + 1}"`, diag.TypeNotContained, `1000`, `1001`},
		{"beside a number of the expression", `{type: integer}`, `{enum: [few, many]}`, "", `"${value == 7 ? 'seven' : value > 3 ? 'many' : 'few'}"`, diag.TypeNotContained, `7`, `"seven"`},
		{"beside a text of the expression", `{type: string}`, `{enum: [few, many]}`, "", `"${value == 'x y' ? 'seven' : 'few'}"`, diag.TypeNotContained, `"x y"`, `"seven"`},
		{"the length of a list", `{type: array, items: {type: integer}, maxItems: 9}`, `{type: integer, maximum: 8}`, "", `"${size(value)}"`, diag.TypeNotContained, "", `9`},
		{"the condition counts", `{type: integer}`, `{type: integer, maximum: 10}`, "value > 4 && value <= 10 || value == 7", `"${value}"`, "", "", ""},
		{"what never comes out is not claimed", `{type: string}`, `{type: string, pattern: "^[^x]*$"}`, "", `"${value.replace('x', 'y')}"`, diag.TypeUnknown, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := "data"
			when := ""
			if c.when != "" {
				kind, when = "conditional", ", when: "+quotedYAML(c.when)
			}
			text := `apiVersion: chimera/v1
kind: Plan
name: search
version: "1"
input_schema: {type: object, properties: {v: ` + c.value + `}, required: [v]}
output_schema: {type: object}
nodes:
  - {id: a, template: engine/pass, input_schema: {type: object, properties: {t: ` + c.target + `}}}
edges:
  - {from_node: $input, from_port: v, to_node: a, to_port: t, edge_type: ` + kind + `, required: true, transform: ` + c.transform + when + `}
`
			_, ds := Compile(Source{Name: "search.yaml", Text: []byte(text)}, testCatalog(t), nil)
			if c.code == "" {
				require.Empty(t, show(ds))
				return
			}
			require.Len(t, ds, 1, show(ds))
			require.Equal(t, c.code, ds[0].Code, show(ds))
			if c.code != diag.TypeNotContained {
				require.Empty(t, ds[0].Witness)
				return
			}
			require.NotEmpty(t, ds[0].Witness)
			require.NotEmpty(t, ds[0].Before)
			if c.before != "" {
				require.Equal(t, c.before, ds[0].Before)
			}
			if c.after != "" {
				require.Equal(t, c.after, ds[0].Witness)
			}
		})
	}
}

func quotedYAML(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}
