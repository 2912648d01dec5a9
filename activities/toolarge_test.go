package activities_test

import (
	"fmt"
	"strings"
	"testing"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"github.com/stretchr/testify/require"
)

// TestAnActionThatIsTooLarge: what cannot be judged fails, also where it would undo something,
// and the run ends.
func TestAnActionThatIsTooLarge(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Pages, strings.ReplaceAll(stage.SagaCatalog, "page: {type: integer}}, required: [line]", "page: {type: integer}, more: {type: string}}, required: [line]"), strings.Replace(stage.SagaPolicy, "action.inputs.line.size() < 20", "true", 1))
	digest := a.Publish(t, `{apiVersion: chimera/v1, kind: Plan, name: large, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: first, template: book/write, commit_policy: {}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}}, `+failsLast+`],
  edges: [$input.line -> first.line, first -> last,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"},
    {from_node: first, from_port: $compensate, to_node: back, to_port: more, edge_type: error, required: true, transform: "${args.line}"}]}`)
	for _, c := range []struct {
		size int
		kind contract.Kind
		left []string
	}{{600_000, contract.ToolError, []string{"first"}}, {1<<20 + 10, contract.TooLarge, []string{}}} {
		run := a.Start(t, fmt.Sprint(c.size), digest, `{"line":"`+strings.Repeat("x", c.size)+`"}`)
		f := stage.FailureOf(t, stage.Await(t, a.Client(), run, nil))
		require.Equal(t, c.kind, f.Kind, f.Message)
		require.Equal(t, c.left, f.NotCompensated)
	}
}
