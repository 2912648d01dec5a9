package causal

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

// report is the model of a report's size.
func report() *Model {
	m := model("report-size", []KPI{{Variable: "size", Max: new(20000.0), Unit: "bytes"}},
		Variable{Name: "length", Value: &Value{}, Range: &Range{Min: 0, Max: 100_000}},
		Variable{Name: "load", Noise: &Noise{Normal: &Normal{Mean: 0.4, SD: 0.1}}},
		Variable{Name: "mode", Values: []string{"draft", "final"}, Value: &Value{Category: "draft"}},
		Variable{Name: "size", Parents: []string{"length", "load"}, Linear: &Linear{Intercept: 12, Weights: map[string]float64{"length": 1.02, "load": 40}}, Noise: &Noise{Normal: &Normal{SD: 20}}})
	m.Bind = []Binding{{"length", "size(args.content)"}, {"mode", "args.mode"}}
	m.Observe = []Binding{{"size", "output.bytes"}}
	return m
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	v, err := schemas.Decode([]byte(text))
	require.NoError(t, err)
	return v
}

// TestValuesAreNotNull: what is missing in JSON is not 0.
func TestValuesAreNotNull(t *testing.T) {
	for text, want := range map[string]Value{`"a"`: {Category: "a"}, `1.5`: {Number: 1.5}, `0`: {}} {
		var v Value
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		require.Equal(t, want, v)
	}
	for _, text := range []string{`null`, `""`, `true`, `[]`, `1e999`} {
		var do []Intervention
		require.Error(t, json.Unmarshal([]byte(`[{"variable": "x", "value": `+text+`}]`), &do), text)
	}
	var none Variable
	require.NoError(t, json.Unmarshal([]byte(`{"value": null}`), &none))
	require.Nil(t, none.Value)
}

func TestBind(t *testing.T) {
	s, err := New(report())
	require.NoError(t, err)
	do, err := s.Bind(decoded(t, `{"content": "abc", "mode": "final"}`))
	require.NoError(t, err)
	require.Equal(t, []Intervention{{"length", Value{Number: 3}}, {"mode", Value{Category: "final"}}}, do)
	for _, c := range []struct {
		args, message string
		outside       bool
	}{
		{`{"content": "", "mode": "other"}`, "no category", true},
		{`{"content": "", "mode": ""}`, "no category", true},
		{`{"content": "` + strings.Repeat("x", 100_001) + `", "mode": "final"}`, "100001 is outside of the range from 0 to 100000", true},
		{`{"content": "", "mode": 1}`, "does not give the text", false},
		{`{"content": ""}`, "no such key", false},
		{`7`, "length", false},
	} {
		_, err := s.Bind(decoded(t, c.args))
		require.ErrorContains(t, err, c.message)
		var outside *OutsideError
		require.Equal(t, c.outside, errors.As(err, &outside), "%v", err)
	}
	m := report()
	m.Bind = []Binding{{"length", "args.n"}}
	s, err = New(m)
	require.NoError(t, err)
	for args, outside := range map[string]bool{`{"n": 1e400}`: true, `{"n": -1}`: true, `{"n": 1e300}`: true, `{"n": "1"}`: false, `{"n": null}`: false, `{"n": [1]}`: false, `{"n": true}`: false} {
		_, err := s.Bind(decoded(t, args))
		require.Error(t, err, args)
		var target *OutsideError
		require.Equal(t, outside, errors.As(err, &target), "%s: %v", args, err)
	}
	do, err = s.Bind(decoded(t, `{"n": -0.0}`))
	require.NoError(t, err)
	require.False(t, math.Signbit(do[0].Value.Number))
}

func TestObserve(t *testing.T) {
	m := report()
	m.KPIs = append([]KPI{{Variable: "mode"}}, m.KPIs...)
	m.Observe = append([]Binding{{"mode", "args.mode"}}, m.Observe...)
	s, err := New(m)
	require.NoError(t, err)
	seen, err := s.Observe(decoded(t, `{"mode": "final"}`), decoded(t, `{"bytes": 12.5}`))
	require.NoError(t, err)
	require.Equal(t, map[string]Value{"mode": {Category: "final"}, "size": {Number: 12.5}}, seen)
	seen, err = s.Observe(decoded(t, `{"mode": "other"}`), decoded(t, `{"bytes": 1}`))
	require.ErrorContains(t, err, "mode")
	require.Equal(t, map[string]Value{"size": {Number: 1}}, seen)
	seen, err = s.Observe(nil, nil)
	require.ErrorContains(t, err, "mode")
	require.ErrorContains(t, err, "size")
	require.Empty(t, seen)
}

func TestSimulate(t *testing.T) {
	s, err := New(report())
	require.NoError(t, err)
	p, err := s.Simulate(setTo("length", 3975), "seed")
	require.NoError(t, err)
	require.Equal(t, Gaussian, p.Method)
	require.Empty(t, p.Seed)
	require.Regexp(t, "^sim_[0-9a-f]{32}$", p.ID)
	require.Equal(t, "size is 4,082 bytes (90% between 4,049 and 4,116) instead of 28; it exceeds 20,000 with probability at most 0.000000001", p.Summary)
	require.Equal(t, json.Number("0.000000001"), p.Risk)
	s.force = MonteCarlo
	p, err = s.Simulate(setTo("length", 3975), "seed")
	require.NoError(t, err)
	require.Equal(t, DefaultSamples, p.Samples)
	require.Contains(t, p.Summary, "; it exceeds 20,000 with probability at most 0.000450")
	require.Equal(t, json.Number("0"), p.Estimate)
	require.Equal(t, json.Number("0.000449798"), p.Risk)
	ids := map[string]bool{p.ID: true}
	for _, c := range []struct {
		do   []Intervention
		seed string
	}{{setTo("length", 3975), "other"}, {setTo("length", 3976), "seed"}, {nil, "seed"}, {set("mode", "final"), "seed"}} {
		p, err := s.Simulate(c.do, c.seed)
		require.NoError(t, err)
		require.False(t, ids[p.ID])
		ids[p.ID] = true
	}
}

func TestSimulateRefuses(t *testing.T) {
	s, err := New(report())
	require.NoError(t, err)
	for _, c := range []struct {
		do      []Intervention
		outside bool
	}{
		{setTo("length", -1), true}, {setTo("length", math.NaN()), true}, {setTo("load", math.Inf(1)), true}, {set("mode", "other"), true},
		{set("length", "draft"), false}, {setTo("mode", 1), false}, {setTo("nothing", 1), false}, {append(setTo("length", 1), setTo("length", 1)...), false},
	} {
		p, err := s.Simulate(c.do, "")
		require.Error(t, err)
		require.Nil(t, p)
		var target *OutsideError
		require.Equal(t, c.outside, errors.As(err, &target), "%v", err)
	}
}

func TestSummaryIsBounded(t *testing.T) {
	long := strings.Repeat("x", 63)
	var kpis []KPI
	var variables []Variable
	for _, c := range "abcdef" {
		name := string(c) + long[1:]
		variables = append(variables, sumOf(name, 1, nil))
		kpis = append(kpis, KPI{Variable: name, Min: new(-1.234e90), Max: new(float64(c-'a') + 1.234567e88), Unit: long})
	}
	s, err := New(model("m", kpis, variables...))
	require.NoError(t, err)
	p, err := s.Simulate(setTo("a"+long[1:], 3e88), "")
	require.NoError(t, err)
	require.LessOrEqual(t, len(p.Summary), 500)
	require.True(t, strings.HasPrefix(p.Summary, "axxx"), p.Summary)
	require.NotContains(t, p.Summary, "\n")

	s, err = New(sprinkler())
	require.NoError(t, err)
	p, err = s.Simulate(set("sprinkler", "yes"), "")
	require.NoError(t, err)
	require.Equal(t, "wet is not no with probability 0.945000 instead of 0.647100", p.Summary)
}

// Simulations at once give what they give alone.
func TestConcurrentSimulations(t *testing.T) {
	s, err := New(calculatedOf("x > 1 ? exp(x) : x * x"))
	require.NoError(t, err)
	want, err := s.Simulate(setTo("x", 2), "seed")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			have, err := s.Simulate(setTo("x", 2), "seed")
			if err != nil || have.Summary != want.Summary || have.Risk != want.Risk {
				t.Errorf("%v: %v", err, have)
			}
		})
	}
	wg.Wait()
}

// TestPlain: messages have numbers as people write them.
func TestPlain(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 2e6: "2000000", -0.25: "-0.25", 1e100: "1e+100", 1e-9: "1e-09"} {
		require.Equal(t, want, plain(x))
	}
}
