package fit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal"
)

const inputSchema = `{"type": "object", "required": ["content", "count", "dry-run", "mode"], "properties": {
	"content": {"type": "string"},
	"note": {"type": "string", "maxLength": 20},
	"count": {"type": "integer", "minimum": 1},
	"limit": {"type": "number", "default": 5, "minimum": 0, "maximum": 10},
	"unknown": {"type": "number"},
	"dry-run": {"type": "boolean"},
	"in": {"type": "boolean", "default": true},
	"mode": {"type": "string", "enum": ["append", "replace"], "default": "replace"},
	"cost": {"type": "integer", "default": 1, "minimum": 1, "maximum": 3},
	"list": {"type": "array"}
}}`

func history(n int, r *rand.Rand) []Call {
	var calls []Call
	for i := range n {
		c := Call{Succeeded: i%10 > 0, Duration: time.Duration(r.IntN(5000)) * time.Millisecond,
			Args: map[string]any{"content": strings.Repeat("é", 3+r.IntN(10)), "count": json.Number(fmt.Sprint(2 + r.IntN(5))), "dry-run": false, "mode": "append"}}
		if i%2 == 0 {
			cost := float64(r.IntN(1000)) / 100
			c.Cost = &cost
		}
		calls = append(calls, c)
	}
	return calls
}

func TestFromCalls(t *testing.T) {
	calls := history(1000, rand.New(rand.NewPCG(1, 1)))
	m, notes, err := FromCalls("files/write_file", json.RawMessage(inputSchema), calls, "ledger")
	require.NoError(t, err)
	readBack(t, m)
	require.Equal(t, "files-write-file", m.Name)
	require.Equal(t, []string{"files/write_file"}, m.Operations)
	require.Equal(t, []causal.Binding{
		{Variable: "arg_cost", Expression: "has(args.cost) ? args.cost : 1"},
		{Variable: "arg_in", Expression: `"in" in args ? (args["in"] ? 1 : 0) : 1`},
		{Variable: "content_length", Expression: "size(args.content)"},
		{Variable: "count", Expression: "args.count"},
		{Variable: "dry_run", Expression: `args["dry-run"] ? 1 : 0`},
		{Variable: "limit", Expression: "has(args.limit) ? args.limit : 5"},
		{Variable: "mode", Expression: "args.mode"},
		{Variable: "note_length", Expression: "has(args.note) ? size(args.note) : 0"},
	}, m.Bind)
	for name, want := range map[string]causal.Range{
		"content_length": {Min: 0, Max: 12}, "note_length": {Min: 0, Max: 20}, "count": {Min: 1, Max: 6}, "limit": {Min: 0, Max: 10},
		"arg_cost": {Min: 1, Max: 3}, "dry_run": {Min: 0, Max: 1}, "arg_in": {Min: 0, Max: 1},
	} {
		require.Equal(t, &want, m.Variable(name).Range, name)
	}
	require.Equal(t, 1.0, m.Variable("count").Value.Number, "the value lies in the range")
	require.Equal(t, 5.0, m.Variable("limit").Value.Number)
	require.Equal(t, "replace", m.Variable("mode").Value.Category)
	outcome := m.Variable("outcome")
	require.Equal(t, 100.5/1001, outcome.Noise.Categorical["failed"])
	require.Equal(t, causal.Fitted, outcome.Provenance)
	require.Equal(t, 1000, outcome.Fit.Rows)
	require.Greater(t, outcome.Fit.Errors["failed"], 0.0)
	require.Equal(t, 500, m.Variable("cost").Fit.Rows)
	require.Len(t, m.Variable("cost").Noise.Empirical, MaxEmpirical)
	require.Len(t, m.Variable("duration").Noise.Empirical, MaxEmpirical)
	require.Equal(t, []causal.KPI{{Variable: "cost"}, {Variable: "duration", Unit: "s"}, {Variable: "outcome", Allow: []string{"ok"}}}, m.KPIs)
	all := strings.Join(notes, "\n")
	for _, want := range []string{`"list" is left out`, `"unknown" is left out`, "`cost` has no bound", "say what the KPIs depend on"} {
		require.Contains(t, all, want)
	}
	again, _, err := FromCalls("files/write_file", json.RawMessage(inputSchema), calls, "ledger")
	require.NoError(t, err)
	require.Equal(t, string(causal.Write(m)), string(causal.Write(again)))
	calls[5].Duration++
	other, _, err := FromCalls("files/write_file", json.RawMessage(inputSchema), calls, "ledger")
	require.NoError(t, err)
	require.NotEqual(t, outcome.Fit.Digest, other.Variable("outcome").Fit.Digest)
}

// TestFromCallsWithoutHistory: nothing is known, and so nothing is stated.
func TestFromCallsWithoutHistory(t *testing.T) {
	m, notes, err := FromCalls("files/write_file", json.RawMessage(inputSchema), nil, "ledger")
	require.NoError(t, err)
	readBack(t, m)
	require.True(t, m.Variable("outcome").Drafted())
	require.True(t, m.Variable("duration").Drafted())
	require.Nil(t, m.Variable("cost"))
	require.Nil(t, m.Variable("content_length").Range, "nobody may judge by it before somebody says for which numbers it is valid")
	require.Contains(t, strings.Join(notes, "\n"), "the range of `content_length` is not known")
	m, notes, err = FromCalls("files/write_file", json.RawMessage(inputSchema), history(4, rand.New(rand.NewPCG(1, 1))), "ledger")
	require.NoError(t, err)
	require.False(t, m.Variable("outcome").Drafted())
	require.True(t, m.Variable("cost").Drafted())
	require.Contains(t, strings.Join(notes, "\n"), "2 values of `cost` are too few")
}

// TestFromCallsHostile: whatever the schema and the arguments are, the draft is one that can be read, or there is none.
func TestFromCallsHostile(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"p%d": {"type": "boolean"}`, i))
	}
	for _, c := range []struct{ name, schema, err string }{
		{"no JSON", `{`, "read the schema of the input"},
		{"no object", `true`, "a call would set nothing"},
		{"nothing to bind", `{"properties": {"a": {"type": "array"}, "b": 7, "c": {"type": ["number"]}}}`, "a call would set nothing"},
		{"strange names", `{"properties": {"a b": {"type": "string"}, "a-b": {"type": "string"}, "1": {"type": "string"}, "\u0000\"\u2028": {"type": "string"},
			"noise": {"type": "boolean"}, "arg_noise": {"type": "boolean"}, "` + strings.Repeat("x", 100) + `": {"type": "string"}, "": {"type": "boolean"}}}`, ""},
		{"strange bounds", `{"properties": {"a": {"type": "number", "default": 1e400, "minimum": 9, "maximum": 1}, "b": {"type": "number", "default": 5, "minimum": 9, "maximum": 1},
			"c": {"type": "string", "maxLength": -4}, "d": {"type": "string", "enum": ["x", "x"]}, "e": {"enum": ["", 1]}}}`, ""},
		{"many", `{"properties": {` + strings.Join(many, ",") + `}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := append(history(20, rand.New(rand.NewPCG(2, 2))), Call{}, Call{Args: []any{}}, Call{Args: "x", Duration: -1})
			m, _, err := FromCalls("a/b", json.RawMessage(c.schema), calls, "ledger")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Nil(t, m)
				return
			}
			require.NoError(t, err)
			readBack(t, m)
			require.LessOrEqual(t, len(m.Bind), MaxLevers)
			require.LessOrEqual(t, len(causal.Write(m)), causal.MaxFile)
		})
	}
}
