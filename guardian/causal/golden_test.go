package causal

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
)

var update = flag.Bool("update", false, "write testdata/predictions.json")

// golden is one prediction of testdata/predictions.json, whose reader is testdata/predict.
type golden struct {
	Name       string         `json:"name"`
	Model      *Model         `json:"model"`
	Do         []Intervention `json:"do"`
	Prediction *Prediction    `json:"prediction"`
	Bins       []string       `json:"bins"`
}

// everything has all mechanisms and kinds of noise.
func everything() *Model {
	m := model("everything", []KPI{{Variable: "cost", Max: new(400.0), Unit: "USD"}, {Variable: "outcome", Allow: []string{"ok"}}, {Variable: "size", Min: new(-10.0), Max: new(90.0)}},
		Variable{Name: "length", Value: &Value{}},
		sumOf("load", 0.1, nil),
		Variable{Name: "size", Parents: []string{"length", "load", "spread"}, Linear: &Linear{Intercept: 12, Weights: map[string]float64{"length": 1.02, "load": 40, "spread": 1. / 3}}, Noise: &Noise{Normal: &Normal{SD: 20}}},
		Variable{Name: "spread", Noise: &Noise{Uniform: &Range{Min: -0.7, Max: 1.3}}},
		root("weather", 0.7, "dry", "wet"),
		Variable{Name: "delay", Parents: []string{"weather"}, Table: []Row{{When: map[string]string{"weather": "dry"}, Value: new(5.1)}, {When: map[string]string{"weather": "wet"}, Value: new(12.5)}},
			Noise: &Noise{Empirical: []float64{0, 0, 1.1, 3.7}}},
		Variable{Name: "outcome", Values: []string{"late", "ok"}, Parents: []string{"weather"}, Table: []Row{
			{When: map[string]string{"weather": "dry"}, P: map[string]float64{"ok": 0.95, "late": 0.05}}, {When: map[string]string{"weather": "wet"}, P: map[string]float64{"ok": 0.8, "late": 0.2}}}},
		Variable{Name: "lucky", Noise: &Noise{Bernoulli: new(0.3)}},
		Variable{Name: "cost", Parents: []string{"delay", "lucky", "size", "weather"}, Noise: &Noise{Normal: &Normal{Mean: 1, SD: 0.25}},
			Expression: `(size > 20.0 && weather in ["wet"] ? exp(min(noise, 3) + 0.1 * delay) * 3.3 : sqrt(abs(size)) / 7 + log(1 + noise * noise)) * max(0.5, 1 - lucky) + floor(delay * 1.7)`})
	return m
}

func goldens() []golden {
	var out []golden
	for _, c := range knownAnswers() {
		if c.name == "alarm-itself" || c.name == "what-if-sibling" || c.name == "berkeley-sex" {
			continue // much the same as others
		}
		out = append(out, golden{Name: c.name, Model: c.model, Do: c.do})
	}
	uniform := whatIf("X3")
	uniform.Name = "what-if-uniform"
	uniform.Variables[0].Noise = &Noise{Uniform: &Range{Min: -1, Max: 1}}
	two := whatIf("X3")
	two.Name = "what-if-two"
	two.KPIs = []KPI{{Variable: "X1", Max: new(4.0)}, {Variable: "X3", Max: new(0.9)}}
	return append(out, golden{Name: "report", Model: report(), Do: setTo("length", 19_900)},
		golden{Name: "tail", Model: report(), Do: setTo("length", 19_400)},
		golden{Name: "what-if-uniform", Model: uniform, Do: setTo("X2", 10)},
		golden{Name: "what-if-two", Model: two, Do: setTo("X0", 1./3)},
		golden{Name: "everything", Model: everything(), Do: setTo("length", 17)},
		golden{Name: "everything-twice", Model: everything(), Do: append(setTo("length", -7), set("weather", "wet")...)},
		golden{Name: "chain", Model: chainModel(""), Do: setTo("v0", math.Pi)})
}

func TestGoldenPredictions(t *testing.T) {
	all := goldens()
	methods := map[Method]int{}
	for i := range all {
		g := &all[i]
		s, err := New(g.Model)
		require.NoError(t, err, g.Name)
		g.Prediction, err = s.Simulate(g.Do, "golden")
		require.NoError(t, err, g.Name)
		methods[g.Prediction.Method]++
		for _, f := range g.Prediction.KPIs {
			g.Bins = append(g.Bins, fmt.Sprintf("%x %x %x %x", f.Low, f.High, f.With.Bins, f.Without.Bins))
		}
	}
	require.Len(t, methods, 3)
	var have bytes.Buffer
	out := json.NewEncoder(&have)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	require.NoError(t, out.Encode(all))
	file := filepath.Join("testdata", "predictions.json")
	if *update {
		require.NoError(t, os.WriteFile(file, have.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "go test ./guardian/causal -run TestGoldenPredictions -update writes it")
	require.Empty(t, cmp.Diff(string(want), have.String()))
}

// build builds the program that predicts.
func build(t *testing.T, env ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "predict")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/predict")
	build.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s: %s", env, text)
	return program
}

// Predictions have the same bytes where the compiler may fuse products with sums, and on 32 bits.
func TestPredictionsAreTheSameOnEachMachine(t *testing.T) {
	lengthy.Skip(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the programs are for amd64 and 386")
	}
	file := filepath.Join("testdata", "predictions.json")
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, env := range [][]string{{"GOARCH=amd64", "GOAMD64=v1"}, {"GOARCH=amd64", "GOAMD64=v3"}, {"GOARCH=386", "GO386=sse2"}, {"GOARCH=386", "GO386=softfloat"}} {
		program := build(t, env...)
		run := exec.CommandContext(t.Context(), program, file)
		run.Stderr = os.Stderr
		have, err := run.Output()
		require.NoError(t, err, "%s", env)
		require.Equal(t, string(want), string(have), "%s", env)
	}
}

// The compiler fuses products with sums on arm64 wherever it may: it must not in a calculation.
func TestNothingIsFused(t *testing.T) {
	lengthy.Skip(t)
	program := build(t, "GOOS=linux", "GOARCH=arm64")
	text, err := exec.CommandContext(t.Context(), "go", "tool", "objdump", "-s", `guardian/causal|internal/elementary|engine/expr\.`, program).CombinedOutput()
	require.NoError(t, err, "%.500s", text)
	require.Contains(t, string(text), "FMULD")
	require.Empty(t, regexp.MustCompile(`(?m)^.*\bFN?M(ADD|SUB)[SD]\b.*$`).FindAllString(string(text), -1))
}
