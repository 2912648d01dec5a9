package activities_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
)

// edgesPlan has nodes and edges, and says with which kind one of them has failed, if it has.
const edgesPlan = `{apiVersion: chimera/v1, kind: Plan, name: refused-%[1]s, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}, kind: {type: string}}},
  nodes: [
    %[2]s
    {id: other, template: engine/pass, input_schema: {type: object, properties: {kind: {type: string}}, required: [kind]}, output_schema: {type: object, properties: {kind: {type: string}}, required: [kind]}}],
  edges: [$input.line -> look.line, %[3]s
    {from_node: %[1]s, from_port: $error, to_node: other, to_port: kind, edge_type: error, required: true, when: "error.kind in ['drift', 'blocked', 'needs_review']", transform: "${error.kind}"},
    {from_node: %[1]s, from_port: ok, to_node: $output, to_port: ok, edge_type: data, required: false},
    {from_node: other, from_port: kind, to_node: $output, to_port: kind, edge_type: data, required: false}]}`

// TestRefusalsTakeErrorEdges: a tool that is not the one that was approved, or of which nobody can say so, is
// not called, and the plan goes on along its error edges. The server counts its calls.
func TestRefusalsTakeErrorEdges(t *testing.T) {
	t.Parallel()
	const unread = "7"
	b := newDriftBank(t)
	digests := map[string]string{
		"look": b.Publish(t, fmt.Sprintf(edgesPlan, "look", `{id: look, template: bank/look},`, "")),
		"pay": b.Publish(t, fmt.Sprintf(edgesPlan, "pay", `{id: look, template: bank/look}, {id: pay, template: bank/pay, commit_policy: {rollback: {none: "what is paid stays"}}},`,
			"$input.line -> pay.line, look.$done -> pay.$start,")),
	}
	ioLook := strings.Replace(driftLook, `"required":["line"]`, `"required":[]`, 1)
	calls := 0
	for i, c := range []struct {
		node  string
		tools []string // from the call before the node on
		kind  contract.Kind
	}{
		{"look", []string{driftPay, driftLook}, ""},
		{"look", []string{driftPay, driftProseLook}, contract.NeedsReview},
		{"look", []string{driftPay, ioLook}, contract.Drift},
		{"look", []string{unread}, contract.Blocked},
		{"pay", []string{driftPay, driftLook}, ""},
		{"pay", []string{driftIO, driftLook}, contract.Drift},
		{"pay", []string{unread}, contract.Blocked},
	} {
		name := fmt.Sprintf("%d %s %s", i, c.node, c.kind)
		b.put(t, "called", "")
		b.put(t, "tools", strings.Join([]string{driftPay, driftLook}, ","))
		if c.node == "look" {
			b.put(t, "tools", strings.Join(c.tools, ","))
		} else {
			b.put(t, "called", b.lists(t, c.tools...))
		}
		var out struct {
			OK   bool
			Kind contract.Kind
		}
		run := b.Start(t, fmt.Sprint("run", i), digests[c.node], `{"line":"one"}`)
		require.NoError(t, stage.Await(t, b.Client(), run, &out), name)
		require.Equal(t, c.kind, out.Kind, name)
		require.Equal(t, c.kind == "", out.OK, name)
		switch {
		case c.node == "pay" && c.kind == "":
			calls += 2
		case c.node == "pay" || c.kind == "":
			calls++
		}
		require.Len(t, b.Written(t), calls, name)
	}
	b.Verifies(t)
}
