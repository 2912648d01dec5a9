package causal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func ptr[T any](x T) *T { return &x }

// written is a model with everything that a file can say.
var written = &Model{
	Name: "report-size", Version: "1", Description: "How large: a \"report\" is.\n", Operations: []string{"files/write_file"}, Samples: 20000,
	Variables: []Variable{
		{Name: "cost", Parents: []string{"delay", "size"}, Expression: `size > 100.0 ? 2 * delay + noise : 0`, Noise: &Noise{Uniform: &Range{Min: 0, Max: 1}}, Provenance: Assumed},
		{Name: "delay", Parents: []string{"weather"}, Table: []Row{
			{When: map[string]string{"weather": "dry"}, Value: ptr(5.0)}, {When: map[string]string{"weather": "no"}, Value: ptr(12.5)},
		}, Noise: &Noise{Empirical: []float64{0, 1e-7, 1e21}}, Provenance: Assumed},
		{Name: "drafted", Provenance: Assumed},
		{Name: "flag", Noise: &Noise{Bernoulli: ptr(0.25)}, Provenance: Assumed},
		{Name: "length", Description: "characters", Range: &Range{Max: 100000}, Value: &Value{Number: 0}, Provenance: Assumed},
		{Name: "load", Noise: &Noise{Normal: &Normal{Mean: 0.4, SD: 0.1}}, Provenance: Fitted, Fit: &Fit{Source: "a.csv", Digest: "sha256:" + strings.Repeat("0", 64),
			Rows: 100, HeldOut: 20, Adjusted: []string{"flag"}, Marginalized: []string{"n"}, Errors: map[string]float64{"mean": 0.01, "a=b: c": 2}, HeldOutError: ptr(0.5)}},
		{Name: "mode", Values: []string{"1", "true"}, Value: &Value{Category: "1"}, Provenance: Assumed},
		{Name: "n", Provenance: Assumed},
		{Name: "outcome", Values: []string{"ok", "late"}, Parents: []string{"weather"}, Table: []Row{
			{When: map[string]string{"weather": "dry"}, P: map[string]float64{"ok": 0.95, "late": 0.05}}, {When: map[string]string{"weather": "no"}, P: map[string]float64{"ok": 1}},
		}, Provenance: Assumed},
		{Name: "size", Parents: []string{"length", "load"}, Linear: &Linear{Intercept: 12, Weights: map[string]float64{"length": 1.02, "load": -40}},
			Noise: &Noise{Normal: &Normal{SD: 20}}, Provenance: Assumed},
		{Name: "weather", Values: []string{"dry", "no"}, Noise: &Noise{Categorical: map[string]float64{"dry": 0.7, "no": 0.3}}, Provenance: Assumed},
	},
	Bind:    []Binding{{"length", `size(args["a"])`}, {"mode", "args.mode"}},
	KPIs:    []KPI{{Variable: "cost", Min: ptr(0.0), Max: ptr(100.0)}, {Variable: "outcome", Allow: []string{"ok"}}, {Variable: "size", Unit: "bytes"}},
	Observe: []Binding{{"size", "output.bytes"}},
}

const writtenText = `apiVersion: chimera/v1
kind: CausalModel
name: report-size
version: "1"
description: "How large: a \"report\" is.\n"
operations: [files/write_file]
samples: 20000
variables:
  cost:
    parents: [delay, size]
    expression: "size > 100.0 ? 2 * delay + noise : 0"
    noise: {uniform: {min: 0, max: 1}}
  delay:
    parents: [weather]
    table:
      - {when: {weather: dry}, value: 5}
      - {when: {weather: "no"}, value: 12.5}
    noise: {empirical: [0, 1e-07, 1e+21]}
  drafted: {}
  flag:
    noise: {bernoulli: 0.25}
  length:
    description: characters
    range: [0, 100000]
    value: 0
  load:
    noise: {normal: {mean: 0.4, sd: 0.1}}
    provenance: fitted
    fit:
      source: a.csv
      digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"
      rows: 100
      held_out: 20
      adjusted: [flag]
      marginalized: ["n"]
      standard_errors: {"a=b: c": 2, mean: 0.01}
      held_out_error: 0.5
  mode:
    values: ["1", "true"]
    value: "1"
  "n": {}
  outcome:
    values: [ok, late]
    parents: [weather]
    table:
      - {when: {weather: dry}, p: {late: 0.05, ok: 0.95}}
      - {when: {weather: "no"}, p: {ok: 1}}
  size:
    parents: [length, load]
    linear: {intercept: 12, weights: {length: 1.02, load: -40}}
    noise: {normal: {sd: 20}}
  weather:
    values: [dry, "no"]
    noise: {categorical: {dry: 0.7, "no": 0.3}}
bind:
  length: "size(args[\"a\"])"
  mode: "args.mode"
kpis:
  cost: {min: 0, max: 100}
  outcome: {allow: [ok]}
  size: {unit: bytes}
observe:
  size: "output.bytes"
`

func TestWrite(t *testing.T) {
	require.Equal(t, writtenText, string(Write(written)))
	for text, want := range map[string]string{
		"": `""`, "Null": `"Null"`, "-1": `"-1"`, "a b": `"a b"`, "a/b-c.d_1": "a/b-c.d_1", "<&>": `"<&>"`, "\u2028\u0085\ufeff\x7f\x00": `"\u2028\u0085\ufeff\u007f\u0000"`,
	} {
		require.Equal(t, want, writeText(text))
	}
}
