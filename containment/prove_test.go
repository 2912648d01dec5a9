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

func prove(t *testing.T, l, r string) containment.Result {
	a, err := schemas.Compile([]byte(l))
	require.NoError(t, err)
	b, err := schemas.Compile([]byte(r))
	require.NoError(t, err)
	return containment.Prove(a, b, containment.Options{})
}

func TestProve(t *testing.T) {
	for _, c := range []struct {
		left, right string
		want        containment.Verdict
	}{
		{`{"type":"integer"}`, `{"type":"number"}`, containment.Proved},
		{`{"type":"number"}`, `{"type":"integer"}`, containment.Refuted},
		{`{"multipleOf":6,"type":"number"}`, `{"multipleOf":4}`, containment.Refuted},
		{`{"multipleOf":6,"type":"number"}`, `{"multipleOf":3}`, containment.Proved},
		{`{"type":"string","pattern":"^a+$"}`, `{"pattern":"^[ab]"}`, containment.Proved},
		{`{"type":"string","pattern":"^a"}`, `{"maxLength":3}`, containment.Refuted},
		{`{"enum":["a","b"]}`, `{"maxLength":1}`, containment.Proved},
		{`{"type":"array","items":{"type":"integer"}}`, `{"items":{"type":"number"}}`, containment.Proved},
		{`{"properties":{"a":{"type":"integer"}},"required":["a"],"type":"object"}`, `{"properties":{"a":{"type":"number"}},"required":["a"]}`, containment.Proved},
		{`{"type":"object"}`, `{"required":["a"]}`, containment.Refuted},
		{`{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"n":{"$ref":"#/$defs/T"}},"required":["n"]}}}`, `false`, containment.Proved},
		{`{"format":"email"}`, `true`, containment.Proved},
		{`true`, `{"format":"email"}`, containment.Proved},
	} {
		require.Equal(t, c.want, prove(t, c.left, c.right).Verdict, "%s in %s", c.left, c.right)
	}
}

func TestPairs(t *testing.T) {
	f, err := os.Open("../../shared/data/subschema/pairs.jsonl")
	if errors.Is(err, os.ErrNotExist) {
		t.Log("no pairs here")
		return
	}
	require.NoError(t, err)
	defer f.Close()
	var total, mcp, wrong, disputed, uncompiled int
	counts, mcpCounts := map[containment.Verdict]int{}, map[containment.Verdict]int{}
	var times []time.Duration
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var p struct {
			ID, Dialect string
			LHS, RHS    json.RawMessage
			Expected    bool
			MCP         bool `json:"mcp_subset"`
			V5          bool `json:"v5_ok"`
		}
		require.NoError(t, json.Unmarshal(sc.Bytes(), &p))
		if !p.V5 {
			continue
		}
		l, lerr := schemas.Compile(withDialect(t, p.LHS, p.Dialect))
		r, rerr := schemas.Compile(withDialect(t, p.RHS, p.Dialect))
		total++
		if lerr != nil || rerr != nil {
			uncompiled++
			continue
		}
		start := time.Now()
		res := containment.Prove(l, r, containment.Options{})
		times = append(times, time.Since(start))
		counts[res.Verdict]++
		if p.MCP {
			mcp++
			mcpCounts[res.Verdict]++
		}
		if res.Verdict == containment.Refuted {
			require.NoError(t, l.Validate(res.Witness))
			require.Error(t, r.Validate(res.Witness))
			if p.Expected {
				// The validator bears the counterexample out against the file: said, not hidden.
				disputed++
				t.Logf("%s: disputed by %s: %s in %s", p.ID, res.JSON, p.LHS, p.RHS)
			}
		}
		if res.Verdict == containment.Proved && !p.Expected {
			wrong++
			t.Errorf("%s: %v, expected %v: %s in %s: %s", p.ID, res.Verdict, p.Expected, p.LHS, p.RHS, res.JSON)
		}
	}
	require.NoError(t, sc.Err())
	slices.Sort(times)
	t.Logf("all %d (not compiled %d): %v; mcp %d: %v; wrong proved %d; refuted against the file %d; median %v, longest %v", total, uncompiled, counts, mcp, mcpCounts, wrong, disputed,
		times[len(times)/2], times[len(times)-1])
}
