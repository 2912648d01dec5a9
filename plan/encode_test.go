package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

var same = cmpopts.IgnoreUnexported(plan.Plan{})

func encode(t require.TestingT, p *plan.Plan) []byte {
	b, err := p.Encode()
	require.NoError(t, err)
	return b
}

// TestBytesNeverChange holds the bytes of one plan, and so the digests of all:
// runs in flight and stored plans are found by them.
func TestBytesNeverChange(t *testing.T) {
	b := encode(t, valid())
	require.True(t, bytes.HasPrefix(b, []byte(`{"format":"chimera.ai/plan/v1","name":"p","version":"1.0.0","agent":"a","expr":2,"limits":{"max_parallel":4,"deadline_ms":60000},"nodes":[{"id":"$input","kind":"input","input_schema":-1,`)), "%s", b)
	require.Contains(t, string(b), `{"from":0,"from_port":"y","to":2,"to_port":"$","type":"conditional","when":"value > 1 && input.x"}`)
	require.Equal(t, "sha256:588e825f7472827325b47cbc9e590b89f1acb3c31c448d9a4e88b90b675b346a", plan.DigestOf(b))
}

func TestDigestOf(t *testing.T) {
	require.Equal(t, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", plan.DigestOf(nil))
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plans().Draw(t, "plan")
		require.NoError(t, p.Verify())
		b := encode(t, p)
		require.Equal(t, string(b), string(encode(t, p)))
		back, err := plan.Decode(b)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(p, back, same))
		require.Equal(t, string(b), string(encode(t, back)))
	})
}

// TestAnyChangeChangesTheBytes: the encoding omits nothing.
func TestAnyChangeChangesTheBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := plans().Draw(t, "a"), plans().Draw(t, "b")
		require.Equal(t, cmp.Equal(a, b, same), bytes.Equal(encode(t, a), encode(t, b)))
	})
}

func TestDecodeRefuses(t *testing.T) {
	good := string(encode(t, valid()))
	_, err := plan.Decode([]byte(good))
	require.NoError(t, err)
	replaced := func(old, with string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, with, 1)
	}
	for _, c := range []struct{ name, in, want string }{
		{"nothing", ``, "decode plan: EOF"},
		{"half", good[:len(good)/2], "decode plan: unexpected EOF"},
		{"no JSON", `plan`, "decode plan: invalid character"},
		{"a list", `[]`, "decode plan: json: cannot unmarshal array"},
		{"null", `null`, `format is ""`},
		{"an empty object", `{}`, `format is ""`},
		{"an unknown field", replaced(`"name":`, `"more":1,"name":`), `unknown field "more"`},
		{"an unknown field of a node", replaced(`{"id":"first"`, `{"more":1,"id":"first"`), `unknown field "more"`},
		{"an unknown field of an edge", replaced(`{"from":0`, `{"more":1,"from":0`), `unknown field "more"`},
		{"another plan behind", good + good, "data after the document"},
		{"a bracket behind", good + `}`, "data after the document"},
		{"another format", replaced("plan/v1", "plan/v2"), `format is "chimera.ai/plan/v2", this build reads "chimera.ai/plan/v1"`},
		{"another meaning of expressions", replaced(`"expr":2`, `"expr":1`), "expressions of version 1, this build knows 2"},
		{"a number out of range", replaced(`"max_parallel":4`, `"max_parallel":1e99`), "decode plan: json: cannot unmarshal number"},
		{"a fraction", replaced(`"to":1`, `"to":1.5`), "decode plan: json: cannot unmarshal number"},

		{"a newline behind", good + "\n", "not canonical"},
		{"white space", replaced(`"name":`, ` "name":`), "not canonical"},
		{"a field in other letters", replaced(`"name":`, `"NAME":`), "not canonical"},
		{"a field twice", replaced(`"name":"p"`, `"name":"q","name":"p"`), "not canonical"},
		{"fields in another order", replaced(`"name":"p","version":"1.0.0"`, `"version":"1.0.0","name":"p"`), "not canonical"},
		{"a field that says nothing", replaced(`"in_process":true,`, `"in_process":true,"fingerprint":"",`), "not canonical"},
		{"a needless escape", replaced(`"id":"first"`, `"id":"\u0066irst"`), "not canonical"},
		{"a wide template", replaced(`{"n":"${output.n}"}`, `{"n": "${output.n}"}`), "not canonical"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.Decode([]byte(c.in))
			require.ErrorContains(t, err, c.want)
			require.Nil(t, p)
		})
	}
}

// TestEachFieldIsRead drops one field after the other: what is left is another
// plan, or none.
func TestEachFieldIsRead(t *testing.T) {
	good := encode(t, valid())
	v, err := decode(good)
	require.NoError(t, err)
	fields := v.(map[string]any)
	require.Len(t, fields, 9)
	for name := range fields {
		rest := map[string]any{}
		for k, x := range fields {
			if k != name {
				rest[k] = x
			}
		}
		raw, err := json.Marshal(rest)
		require.NoError(t, err)
		_, err = plan.Decode(raw)
		require.Error(t, err, name)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, valid()))
	f.Add(encode(f, large(3)))
	f.Add(encode(f, effectful()))
	f.Add([]byte(`{"format":"chimera.ai/plan/v1","nodes":[{},{}],"edges":[{"from":-1}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := plan.Decode(b)
		if err != nil {
			require.Nil(t, p)
			return
		}
		require.Equal(t, string(b), string(encode(t, p)))
		for i := range p.Nodes {
			p.In(i)
			p.Out(i)
		}
		for i := range p.Edges {
			require.NotEmpty(t, p.EdgeString(i))
		}
	})
}

// large is a chain of n nodes with all that a usual node has.
func large(n int) *plan.Plan {
	p := valid()
	p.Nodes = []plan.Node{p.Nodes[0]}
	p.Nodes[0].OutPorts = []string{"x"}
	p.Edges = nil
	for i := 1; i <= n; i++ {
		p.Nodes = append(p.Nodes, plan.Node{
			ID: fmt.Sprintf("node-%d", i), Kind: plan.KindCall, ProviderType: plan.MCP, Provider: "files", Operation: "read",
			Mode: plan.Prob, Effect: plan.Pure, Trust: plan.AllowAuto, TimeoutMS: 5000,
			Retry: plan.Retry{
				MaxAttempts: 3, On: []contract.Kind{contract.Timeout, contract.Transport}, InitialMS: 500, MultiplierMilli: 2000, MaxMS: 60_000,
			},
			InputSchema: 0, OutputSchema: 1, With: []plan.PortTemplate{{Port: "a", Template: json.RawMessage(`{"k":"${input.x}"}`)}},
			RequiredPorts: []string{"x"}, OutPorts: []string{"x"},
		})
		p.Edges = append(p.Edges,
			plan.Edge{From: i - 1, FromPort: "x", To: i, ToPort: "x", Type: plan.Data, Required: true, Transform: json.RawMessage(`{"v":"${value}"}`)},
			plan.Edge{From: i - 1, FromPort: plan.DonePort, To: i, ToPort: plan.StartPort, Type: plan.Control},
		)
	}
	p.Edges = append(p.Edges, plan.Edge{From: n, FromPort: "x", To: n + 1, ToPort: "x", Type: plan.Data, Required: true})
	p.Nodes = append(p.Nodes, plan.Node{ID: plan.OutputNode, Kind: plan.KindOutput, OutputSchema: -1})
	return p
}

func TestLargePlan(t *testing.T) {
	p := large(10_000)
	b := encode(t, p)
	back, err := plan.Decode(b)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(p.Nodes[9_999], back.Nodes[9_999]))
	require.Equal(t, []int{19_998, 19_999}, back.In(10_000))
}

func BenchmarkDecode(b *testing.B) {
	raw := encode(b, large(10_000))
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := plan.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	p := large(10_000)
	for b.Loop() {
		if err := p.Verify(); err != nil {
			b.Fatal(err)
		}
	}
}
