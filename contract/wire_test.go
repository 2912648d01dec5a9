package contract_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// section gives the first JSON block under a heading of a document.
func section(t *testing.T, file, heading string) string {
	text, err := os.ReadFile("../docs/" + file)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), heading+"\n")
	require.True(t, ok, "%s has no %q", file, heading)
	block := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(rest)
	require.NotNil(t, block)
	return block[1]
}

// exactly checks that v is written as the JSON text, no more and no less, and
// that the text is read as v.
func exactly[T any](t *testing.T, text string, v T) {
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	require.JSONEq(t, text, string(raw))
	var back T
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&back))
	again, err := json.Marshal(back)
	require.NoError(t, err)
	require.JSONEq(t, text, string(again))
}

// TestDocumentedForms: clients in other languages read and write what the
// documents show.
func TestDocumentedForms(t *testing.T) {
	const start = "start-from-any-language.md"
	t.Run("start", func(t *testing.T) {
		exactly(t, section(t, start, "The argument:"), contract.Start{
			Source: "apiVersion: chimera/v1\nkind: Plan\n…", Input: json.RawMessage(`{"name":"Ada"}`),
		})
	})
	t.Run("state", func(t *testing.T) {
		exactly(t, section(t, start, "## The state"), contract.State{
			Plan: "greet@1.0.0", Digest: "sha256:…", State: contract.RunRunning, Counts: contract.Counts{Running: 1},
			Nodes: []contract.NodeStatus{{
				ID: "greet", Operation: "engine/pass", State: contract.Running, Attempts: 2, StartedAt: "2026-01-02T15:04:05.125Z",
			}},
			StartedAt: "2026-01-02T15:04:05Z", Executions: 1,
			Waiting: []contract.Wait{{
				Kind: contract.WaitCall, Node: "greet", Since: "2026-01-02T15:04:06Z", Until: "2026-01-02T15:04:16Z",
			}},
		})
	})
	t.Run("reference", func(t *testing.T) {
		exactly(t, section(t, start, "## Large values"), contract.Reference{Ref: contract.Ref{Digest: "sha256:…", Bytes: 400_012, How: "…"}})
	})
	t.Run("error payload", func(t *testing.T) {
		exactly(t, section(t, "failure-semantics.md", "## Error edges"), contract.ErrorPayload{
			Kind: contract.ToolError, Message: "…", Node: "read_extra", Attempts: 1, Details: json.RawMessage(`{"exit_code":1}`),
		})
	})
	t.Run("failure", func(t *testing.T) {
		exactly(t, section(t, "failure-semantics.md", "## How a run ends"), contract.Failure{
			Kind: contract.Contract, Message: "…", Diagnostics: json.RawMessage(`[]`), Compensated: []string{}, NotCompensated: []string{},
		})
	})
}

// TestDocumentedNames: a client that has read the documents finds the engine.
func TestDocumentedNames(t *testing.T) {
	text, err := os.ReadFile("../docs/start-from-any-language.md")
	require.NoError(t, err)
	for _, name := range []string{
		"| workflow type | `" + contract.WorkflowType + "` |",
		"| task queue | `" + contract.QueueEngine + "` |",
		"| query | `" + contract.QueryState + "` |",
		"`" + contract.AttributePlan + "`", "`" + contract.AttributeAgent + "`", "`" + contract.AttributeState + "`",
	} {
		require.Contains(t, string(text), name)
	}
	_, states, _ := strings.Cut(string(text), "`state` is ")
	states, _, _ = strings.Cut(states, "A failed node has")
	for _, typ := range []string{"NodeState", "RunState"} {
		for _, state := range constants(t, typ) {
			require.Contains(t, states, "`"+state+"`")
		}
	}
}

// TestEmptyForms holds what is left out and what is not: a client that reads a
// field always finds it.
func TestEmptyForms(t *testing.T) {
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"start", contract.Start{}, `{}`},
		{"state", contract.State{}, `{"plan":"","digest":"","state":"","counts":{"pending":0,"running":0,"succeeded":0,"failed":0,"skipped":0,"dropped":0},"nodes":null}`},
		{"error payload", contract.ErrorPayload{}, `{"kind":"","message":"","node":"","attempts":0,"details":null}`},
		{"failure", contract.Failure{}, `{"kind":"","node":"","message":"","compensated":null,"not_compensated":null}`},
		{"error details", contract.ErrorDetails{}, `{"attempts":0}`},
		{"outcome", contract.Outcome{}, `{}`},
		{"call", contract.Call{}, `{"run":{"workflow":"","root":"","origin":""},"plan":"","node":0}`},
		{"route result", contract.RouteResult{}, `{"held":null}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := json.Marshal(c.v)
			require.NoError(t, err)
			require.Equal(t, c.want, string(raw))
		})
	}
}

// TestNullIsAValue: a port whose value is null is not an absent port.
func TestNullIsAValue(t *testing.T) {
	d := contract.Delivery{Edge: 1, Value: contract.Value("null"), Output: contract.Value(`{"x":null}`)}
	raw, err := json.Marshal(d)
	require.NoError(t, err)
	require.Equal(t, `{"edge":1,"value":null,"output":{"x":null}}`, string(raw))
	var back contract.Delivery
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Empty(t, cmp.Diff(d, back))

	raw, err = json.Marshal(contract.Delivery{Edge: 1})
	require.NoError(t, err)
	require.Equal(t, `{"edge":1}`, string(raw))
}

// TestResultIsTheTextItself: big numbers and the order of keys survive.
func TestResultIsTheTextItself(t *testing.T) {
	const text = `{"b":9007199254740993,"a":1.50}`
	raw, err := json.Marshal(contract.Result(text))
	require.NoError(t, err)
	require.Equal(t, text, string(raw))
	var back contract.Result
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, text, string(back))
	raw, err = json.Marshal(contract.Result(nil))
	require.NoError(t, err)
	require.Equal(t, "null", string(raw))
	_, err = json.Marshal(contract.Result("{"))
	require.Error(t, err)
}
