package fields

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// TestRename: an unknown field is renamed in its quotes, for certain only where
// it can be no other one, and not where a second one of that name would be made.
func TestRename(t *testing.T) {
	table := &Table{What: "a thing", Fields: []Field{
		Optional("timeout_ms", FormNumber, ""), Optional("mode", FormText, ""),
		Optional("port_a", FormText, ""), Optional("port_b", FormText, ""),
	}}
	for _, c := range []struct {
		text, want string
		how        diag.Applicability
	}{
		{"timout_ms: 1", "timeout_ms: 1", diag.Certain},
		{"{\"timout_ms\": 1}", "{\"timeout_ms\": 1}", diag.Certain},
		{"'timout_ms': 1", "'timeout_ms': 1", diag.Certain},
		{"timout_ms: soon", "timeout_ms: soon", diag.Maybe},
		{"timeout: 1", "timeout_ms: 1", diag.Maybe},
		{"port_c: x", "port_a: x", diag.Maybe},
		{"\"m\\u006fed\": x", "\"mode\": x", diag.Certain},
		{"{mode: x, moed: y}", "", ""},
		{"wholly: x", "", ""},
	} {
		src := diag.Source{Name: "f", Text: []byte(c.text)}
		docs, ds := syntax.Parse(src.Name, src.Text, Limits)
		require.Empty(t, ds, c.text)
		rep := NewReader(src)
		rep.Read(docs[0].Root, table, "")
		require.Len(t, rep.Found, 1, c.text)
		d := rep.Found[0]
		require.Equal(t, c.how, d.Applicability, c.text)
		if c.want == "" {
			require.Empty(t, d.Edits, c.text)
			continue
		}
		require.Len(t, d.Edits, 1, c.text)
		e := d.Edits[0]
		require.Equal(t, d.Subject, e.Range)
		require.Equal(t, c.want, c.text[:e.Range.Start.Byte]+e.Replacement+c.text[e.Range.End.Byte:])
	}
}
