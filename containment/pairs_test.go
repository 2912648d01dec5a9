package containment_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

var dialects = map[string]string{
	"draft4": "http://json-schema.org/draft-04/schema#", "draft6": "http://json-schema.org/draft-06/schema#",
	"draft7": "http://json-schema.org/draft-07/schema#", "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
	"draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}

func withDialect(t *testing.T, raw json.RawMessage, dialect string) []byte {
	raw = bytes.TrimSpace(raw)
	if raw[0] != '{' || bytes.Contains(raw, []byte(`"$schema"`)) {
		return raw
	}
	require.Contains(t, dialects, dialect)
	out := []byte(`{"$schema":"` + dialects[dialect] + `"`)
	if rest := bytes.TrimSpace(raw[1:]); rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, raw[1:]...)
}

// pair is one question with its right answer.
type pair struct {
	ID, Dialect string
	LHS, RHS    json.RawMessage
	Expected    bool
	MCP         bool `json:"mcp_subset"`
	V5          bool `json:"v5_ok"`
}

func readPairs(t *testing.T, path string) []pair {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []pair
	sc := bufio.NewScanner(bytes.NewReader(raw))
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var p pair
		require.NoError(t, json.Unmarshal(sc.Bytes(), &p))
		out = append(out, p)
	}
	require.NoError(t, sc.Err())
	return out
}

// tally counts verdicts.
type tally struct{ total, proved, refuted, unknown, uncompiled int }

func (c tally) decided() float64 { return float64(c.proved+c.refuted) / float64(c.total) }

// disputed are pairs whose given answer takes a dot for every character. It takes
// no line end, neither in ECMA-262 nor at run time, and "\n" is the counterexample.
var disputed = map[string]bool{
	"a904ad9c0669": true, "c037564b8769": true, "2ad4fcaf0ebe": true, "757973d3f6ef": true, "86747622721a": true,
}

func TestPairs(t *testing.T) {
	public := "../../shared/data/subschema/pairs.jsonl"
	if _, err := os.Stat(public); errors.Is(err, os.ErrNotExist) {
		public = "testdata/pairs.jsonl"
	}
	for _, path := range slices.Compact([]string{"testdata/pairs.jsonl", public}) {
		t.Run(path, func(t *testing.T) { judge(t, readPairs(t, path)) })
	}
}

func judge(t *testing.T, pairs []pair) {
	var all, mcp tally
	var times []time.Duration
	steps := 0
	for _, p := range pairs {
		if !p.V5 {
			continue
		}
		counts := []*tally{&all}
		if p.MCP {
			counts = append(counts, &mcp)
		}
		count := func(what func(*tally)) {
			for _, c := range counts {
				what(c)
			}
		}
		count(func(c *tally) { c.total++ })
		l, lerr := schemas.Compile(withDialect(t, p.LHS, p.Dialect))
		r, rerr := schemas.Compile(withDialect(t, p.RHS, p.Dialect))
		if lerr != nil || rerr != nil {
			// Not admitted is not decided.
			count(func(c *tally) { c.uncompiled++ })
			continue
		}
		start := time.Now()
		res := containment.Prove(l, r, containment.Options{})
		times = append(times, time.Since(start))
		steps = max(steps, res.Steps)
		switch res.Verdict {
		case containment.Proved:
			count(func(c *tally) { c.proved++ })
			require.True(t, p.Expected, "%s: wrong proved: %s in %s", p.ID, p.LHS, p.RHS)
		case containment.Refuted:
			count(func(c *tally) { c.refuted++ })
			require.NoError(t, l.Validate(res.Witness), p.ID)
			require.Error(t, r.Validate(res.Witness), p.ID)
			if !disputed[p.ID] {
				require.False(t, p.Expected, "%s: wrong refuted by %s: %s in %s", p.ID, res.JSON, p.LHS, p.RHS)
			}
		case containment.Unknown:
			count(func(c *tally) { c.unknown++ })
			require.NotEmpty(t, res.Reason, p.ID)
			require.NotEqual(t, "not decided", res.Reason, p.ID)
		}
	}
	slices.Sort(times)
	t.Logf("%-6s %6s %7s %8s %8s %11s %8s", "", "pairs", "proved", "refuted", "unknown", "uncompiled", "decided")
	for _, row := range []struct {
		name string
		c    tally
	}{{"all", all}, {"mcp", mcp}} {
		t.Logf("%-6s %6d %7d %8d %8d %11d %7.2f%%", row.name, row.c.total, row.c.proved, row.c.refuted, row.c.unknown, row.c.uncompiled, 100*row.c.decided())
	}
	t.Logf("median %v, longest %v, most steps %d", times[len(times)/2], times[len(times)-1], steps)
	require.GreaterOrEqual(t, all.decided(), 0.97)
	require.GreaterOrEqual(t, mcp.decided(), 0.99)
}
