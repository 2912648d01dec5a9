package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/raced"
	"chimera.ai/engine/internal/stage"
)

// TestABarrierOfMany: people sign for as many nodes as may share a barrier, by the client of the
// command line: an envelope is sent as it is, however long.
func TestABarrierOfMany(t *testing.T) {
	raced.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	eve := a.enrol(t, "eve", "editor")
	const members = 200
	var nodes, edges []string
	for i := range members {
		asks := ""
		if i == 0 {
			asks = "approval: {groups: [{role: editor, min: 1}]}, "
		}
		nodes = append(nodes, fmt.Sprintf(`{id: w%d, template: book/write, with: {line: "%d"}, commit_policy: {barrier: all, %srollback: {none: "it stays"}}}`, i, i, asks))
		edges = append(edges, fmt.Sprintf("$input -> w%d", i))
	}
	run := a.start(t, "many", a.publish(t, fmt.Sprintf(`{apiVersion: chimera/v1, kind: Plan, name: many, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object}, output_schema: {type: object}, nodes: [%s], edges: [%s]}`, strings.Join(nodes, ", "), strings.Join(edges, ", "))), `{}`)
	envelope := eve.Sign(t, a.asked(t, run, 1)[0], approval.Approve, nil)
	require.Greater(t, len(envelope), contract.ByReference)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := client.New(a.dial(t), client.Options{}).Sign(ctx, run.GetID(), envelope)
	require.NoError(t, err)
	require.True(t, v.Accepted, v.Detail)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Len(t, a.written(t), members)
}

// TestAnActionThatIsTooLarge: what cannot be judged fails, also where it would undo something,
// and the run ends.
func TestAnActionThatIsTooLarge(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", pages, strings.ReplaceAll(sagaCatalog, "page: {type: integer}}, required: [line]", "page: {type: integer}, more: {type: string}}, required: [line]"), strings.Replace(sagaPolicy, "action.inputs.line.size() < 20", "true", 1))
	digest := a.publish(t, `{apiVersion: chimera/v1, kind: Plan, name: large, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: first, template: book/write, commit_policy: {}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}}, `+fails+`],
  edges: [$input.line -> first.line, first -> last,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"},
    {from_node: first, from_port: $compensate, to_node: back, to_port: more, edge_type: error, required: true, transform: "${args.line}"}]}`)
	for _, c := range []struct {
		size int
		kind contract.Kind
		left []string
	}{{600_000, contract.ToolError, []string{"first"}}, {1<<20 + 10, contract.TooLarge, []string{}}} {
		run := a.start(t, fmt.Sprint(c.size), digest, `{"line":"`+strings.Repeat("x", c.size)+`"}`)
		f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
		require.Equal(t, c.kind, f.Kind, f.Message)
		require.Equal(t, c.left, f.NotCompensated)
	}
}
