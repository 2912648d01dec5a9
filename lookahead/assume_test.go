package lookahead_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/lookahead"
)

// TestAssumptions: what says nothing about the plan is refused, with what there is.
func TestAssumptions(t *testing.T) {
	p := compiled(t, `
nodes: [{id: read, template: book/read}, {id: w, template: book/write}]
edges: [$input.text -> read.path, read.text -> w.text]`)
	type said struct {
		path  string
		value any
	}
	for _, c := range []struct {
		name  string
		say   []said
		error string
		names []string
	}{
		{name: "a port", say: []said{{"read.text", "x"}}},
		{name: "two ports", say: []said{{"read.text", "x"}, {"read.ok", true}}},
		{name: "all", say: []said{{"read", map[string]any{"text": "x", "ok": true}}}},
		{name: "no node", say: []said{{"raed.text", "x"}}, error: `the plan has no node "raed"`, names: []string{"read", "w"}},
		{name: "no call", say: []said{{"$input.text", "x"}}, error: `the plan has no node "$input"`, names: []string{"read", "w"}},
		{name: "no port", say: []said{{"read.txt", "x"}}, error: `what read returns has no "txt"`, names: []string{"note", "ok", "text"}},
		{name: "no path", say: []said{{"read..text", "x"}}, error: `"read..text" is no path`},
		{name: "twice", say: []said{{"read.text", "x"}, {"read.text", "y"}}, error: "read.text is assumed twice"},
		{name: "beside all", say: []said{{"read", map[string]any{"text": "x", "ok": true}}, {"read.text", "y"}}, error: "read.text is assumed twice"},
		{name: "all beside", say: []said{{"read.text", "y"}, {"read", map[string]any{"text": "x", "ok": true}}}, error: "read is assumed twice"},
		{name: "through a text", say: []said{{"read.text", "y"}, {"read.text.length", json.Number("1")}}, error: "read.text.length is assumed twice"},
		{name: "another type", say: []said{{"read.text", json.Number("1")}}, error: "read does not return that: "},
		{name: "all of another type", say: []said{{"read", map[string]any{"text": "x"}}}, error: "read does not return that: "},
		{name: "an object of members", say: []said{{"read.text.first", "x"}}, error: "read does not return that: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := lookahead.Assumed{}
			var err error
			for _, s := range c.say {
				if err == nil {
					err = a.Add(p, s.path, s.value)
				}
			}
			if err == nil {
				err = a.Check(p)
			}
			if c.error == "" {
				require.NoError(t, err)
				return
			}
			var bad *lookahead.AssumeError
			require.ErrorAs(t, err, &bad)
			require.Contains(t, bad.Message, c.error)
			require.Equal(t, c.names, bad.Names)
		})
	}
}
