package conform

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/mcp"
	"chimera.ai/engine/schemas"
)

func TestTake(t *testing.T) {
	for line, message := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:            true,
		`{"jsonrpc":"2.0","id":"a","error":{"code":1}}`:   true,
		`{"jsonrpc":"2.0","method":"notifications/x"}`:    true,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`: false,
		`{"jsonrpc":"2.0","id":1}`:                        false,
		`{"jsonrpc":"2.0","result":{}}`:                   false,
		`{"jsonrpc":"1.0","id":1,"result":{}}`:            false,
		`{"id":1,"result":{}}`:                            false,
		`{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`:     false,
		`[{"jsonrpc":"2.0","method":"notifications/x"}]`:  false,
		`started`: false,
		``:        false,
		`{"jsonrpc":"2.0","id":1,"result":{}} {"jsonrpc": 1}`: false,
	} {
		w := &wire{}
		require.Equal(t, message, w.take([]byte(line)) != nil, line)
		require.Equal(t, message, w.strays == 0, line)
	}
}

func TestDifference(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`{"a":1}`, `{"a":2}`, "/a"},
		{`{"a":1}`, `{"b":1}`, "/a"},
		{`{"a":{"x/y":[1,2]}}`, `{"a":{"x/y":[1,3]}}`, "/a/x~1y/1"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "/a"},
		{`{"a":[1]}`, `{"a":{}}`, "/a"},
		{`{"a":{}}`, `{"a":null}`, "/a"},
		{`{}`, `{"z":null}`, "/z"},
	} {
		a, err := schemas.Decode([]byte(c.a))
		require.NoError(t, err)
		b, err := schemas.Decode([]byte(c.b))
		require.NoError(t, err)
		require.Equal(t, c.want, difference(a, b, ""), "%s and %s", c.a, c.b)
	}
}

// FuzzDefinition: no definition that a server may send ends the suite.
func FuzzDefinition(f *testing.F) {
	f.Add([]byte(`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"examples":[{"a":"b"},7]}}`))
	f.Add([]byte(`{"name":"t","inputSchema":{"properties":[]},"outputSchema":true,"annotations":{"readOnlyHint":true}}`))
	f.Add([]byte(`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}},"annotations":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := schemas.Decode(raw); err != nil {
			return
		} else if _, ok := v.(map[string]any); !ok {
			return // a listing has none
		}
		s := &suite{tools: []tool{read(mcp.Tool{Name: "t", Raw: raw})}}
		for _, check := range []func() []Result{
			func() []Result { return s.namesValid(t.Context()) },
			func() []Result { return s.definitionsPinnable(t.Context()) },
			func() []Result { return s.schemasCompile(t.Context()) },
			func() []Result { return s.hintsComplete(t.Context()) },
			func() []Result { return s.examplesMatch(t.Context()) },
		} {
			for _, r := range check() {
				require.NotEmpty(t, r.Detail)
			}
		}
		if args, why := s.bad(&s.tools[0]); args != nil {
			require.NotEmpty(t, why)
			_, err := s.tools[0].input.ValidateJSON(args)
			require.Error(t, err)
		}
	})
}
