package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	chimera "chimera.ai/engine/client"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/trust"
)

// recording is a run whose histories are kept: between them they have every sort
// of event that the interpreter causes, and every way in which a run ends.
type recording struct {
	name, source, input string
	// after is the number of events after which the run continues as new; 0 is
	// the default, which is never reached here.
	after int
	// acting: the plan has effects, so it is published and granted.
	acting bool
	// asks: editors are asked what a call did of which nobody knows.
	asks bool
	// has lists the types of events that the recording must contain to be what
	// its name says.
	has []enumspb.EventType
	// during acts on the run while it goes on. It returns the run to record, if
	// that is another one.
	during func(t *testing.T, s *studio, run client.WorkflowRun) client.WorkflowRun
}

const (
	started   = enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED
	timedOut  = enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT
	failing   = enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED
	marker    = enumspb.EVENT_TYPE_MARKER_RECORDED
	fired     = enumspb.EVENT_TYPE_TIMER_FIRED
	continued = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
	cancelled = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED
	completed = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
	failed    = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED
	begotten  = enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
	signaled  = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
	updated   = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED
	broken    = enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED
)

type types = []enumspb.EventType

func recordings(t *testing.T) []recording {
	all := []recording{
		{name: "mixed", source: mixed, input: `{"x":"hello","flaky":true}`, has: types{started, marker, completed}},
		{name: "mixed-continued", source: mixed, input: `{"x":"hello","flaky":true}`, after: 10, has: types{continued, completed}},
		{name: "failed", source: mixed, input: `{"x":"hello","flaky":false}`, has: types{failing, failed}},
		{name: "refused", source: "nodes: []", input: `{}`, has: types{failed}},
		{name: "input-refused", source: mixed, input: `{"x":1}`, has: types{failed}},
		{name: "chain", source: chain(205), input: `{"x":"hello"}`, has: types{marker, completed}},
		{name: "slow-chain", source: slowChain(8), input: `{}`, has: types{marker, started, completed}},
		{name: "parallel", source: parallel(12), input: `{"x":"hello"}`, has: types{started, completed}},
		{name: "parallel-continued", source: parallel(12), input: `{"x":"hello"}`, after: 10, has: types{continued, completed}},
		{name: "cancelled", source: holding(60_000, 0), input: `{"x":"hello"}`, has: types{cancelled}, during: cancelling},
		{name: "cancelled-continued", source: holding(60_000, 0), input: `{"x":"hello"}`, after: 8, has: types{continued, cancelled}, during: cancelling},
		{name: "deadline", source: holding(60_000, 2000), input: `{"x":"hello"}`, has: types{fired, failed}},
		{name: "deadline-continued", source: holding(60_000, 2000), input: `{"x":"hello"}`, after: 8, has: types{continued, fired, failed}},
		{name: "retried", source: flaky(contract.Transport), input: `{}`, has: types{completed}},
		{name: "retries-used-up", source: flaky(contract.ToolError), input: `{}`, has: types{failing, failed}},
		{name: "retries-used-up-continued", source: flaky(contract.ToolError), input: `{}`, after: 8, has: types{continued, failed}},
		{name: "local-retried", source: strings.ReplaceAll(flaky(contract.Transport), "timeout_ms: 5000", "timeout_ms: 500"), input: `{}`, has: types{marker, completed}},
		{name: "store-away", source: flaky(contract.StoreUnavailable), input: `{}`, has: types{failing, completed}},
		{name: "store-away-continued", source: flaky(contract.StoreUnavailable), input: `{}`, after: 8, has: types{continued, completed}},
		{name: "long-call-continued", source: beside("hold, template: engine/sleep, timeout_ms: 60000, with: {ms: 2000}"), input: `{"x":"hello"}`, after: 10, has: types{begotten, continued, signaled, completed}},
		{name: "long-retry-continued", source: beside("hold, template: engine/fail, timeout_ms: 5000, with: {kind: tool_error, message: again}, retry_policy: {max_retries: 1, initial_ms: 12000, on: [tool_error]}"), input: `{"x":"hello"}`, after: 10, has: types{failing, continued, fired, failed}},
		{name: "lost-worker", source: remote, input: `{}`, has: types{timedOut, fired, completed}, during: losing},
		{name: "reset", source: flaky(contract.ToolError), input: `{}`, has: types{broken, completed}, during: resetting},
		{name: "large", source: large, input: fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 40_000)), has: types{completed}},
		{name: "large-continued", source: large, input: fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 40_000)), after: 8, has: types{continued, completed}},
		{name: "effect", source: effect, input: `{"x":"one"}`, acting: true, has: types{started, completed}},
		{name: "effect-refused", source: effect, input: `{"x":"a text that is too long"}`, acting: true, has: types{failing, failed}},
		{name: "effect-continued", source: effect, input: `{"x":"one"}`, after: 8, acting: true, has: types{continued, completed}},
		{name: "effect-unknown", source: strings.Replace(effect, "sh/write", "sh/hang", 1), input: `{"x":"one"}`, acting: true, has: types{failing, failed}},
		{name: "effect-verified", source: verified, input: `{"x":"one"}`, acting: true, has: types{failing, completed}},
		{name: "approved", source: approved, input: `{"x":"one"}`, acting: true, has: types{signaled, completed}, during: approving},
		{name: "approved-continued", source: approved, input: `{"x":"one"}`, after: 8, acting: true, has: types{continued, signaled, completed}, during: approving},
		{name: "paused", source: approved, input: `{"x":"one"}`, acting: true, has: types{updated, completed}, during: pausing},
		{name: "paused-continued", source: approved, input: `{"x":"one"}`, after: 8, acting: true, has: types{updated, continued, completed}, during: pausing},
		{name: "stated", source: strings.Replace(effect, "second, template: sh/write", "second, template: sh/hang", 1), input: `{"x":"one"}`, acting: true, asks: true, has: types{signaled, failed}, during: stating},
		{name: "escalated", source: escalated, input: `{"x":"one"}`, acting: true, has: types{fired, signaled, completed}, during: escalating},
		{name: "escalated-continued", source: escalated, input: `{"x":"one"}`, after: 8, acting: true, has: types{continued, signaled, completed}, during: escalating},
		{name: "reviewed", source: reviewed, input: `{"x":"one"}`, acting: true, has: types{signaled, completed}, during: approving},
		{name: "checked", source: checked, input: `{"x":"one"}`, acting: true, has: types{signaled, completed}, during: approving},
		{name: "checked-continued", source: checked, input: `{"x":"one"}`, after: 8, acting: true, has: types{continued, signaled, completed}, during: approving},
		{name: "undone", source: undone, input: `{"x":"one"}`, acting: true, has: types{started, failed}},
		{name: "undone-continued", source: undone, input: `{"x":"one"}`, after: 8, acting: true, has: types{continued, failed}},
		{name: "recovered", source: recovered, input: `{"x":"one"}`, acting: true, has: types{failing, completed}},
		{name: "recovered-continued", source: recovered, input: `{"x":"one"}`, after: 8, acting: true, has: types{failing, continued, completed}},
		{name: "recovered-overtaken", source: overtaken, input: `{"x":"one"}`, acting: true, has: types{failing, failed}},
		{name: "paid", source: paid, input: `{"x":"one"}`, acting: true, has: types{started, completed}},
		{name: "paid-continued", source: paid, input: `{"x":"one"}`, after: 8, acting: true, has: types{continued, completed}},
		{name: "paid-deadline", source: document("currency: USD\nlimits: {deadline_ms: 3000}\n", "  - {id: wait, template: sh/wait, cost_estimate: 2}\n", "  - wait.x -> $output.x\n"), input: `{}`, acting: true, has: types{started, fired, failed}},
		{name: "output-too-large", source: vast, input: `{}`, has: types{failed}},
	}
	for i, g := range stage.Graphs() {
		end := completed
		if g.Failure.Kind != "" {
			end = failed
		}
		all = append(all, recording{name: fmt.Sprintf("graph-%02d-%s", i+1, g.Plan), source: g.Source(t), input: g.Input, has: types{end}})
	}
	return all
}

// document writes a plan whose input may have the port x, a string.
func document(head, nodes, edges string) string {
	return `apiVersion: chimera/v1
kind: Plan
name: recorded
version: 1.0.0
agent: tester
input_schema: {type: object, properties: {x: {type: string, maxLength: 100000}}, required: [` + map[bool]string{true: "x", false: ""}[strings.Contains(edges, "$input.x")] + `]}
output_schema: {type: object, properties: {x: {}, y: {}, z: {}}}
defs: {X: {type: object, required: [x], properties: {x: {type: string, maxLength: 100000}}}}
` + head + "nodes:\n" + nodes + "edges:\n" + edges
}

const passing = "input_schema: {$ref: '#/defs/X'}, output_schema: {$ref: '#/defs/X'}"

// chain is n local nodes, which take several workflow tasks.
func chain(n int) string {
	var nodes, edges strings.Builder
	for i := range n {
		fmt.Fprintf(&nodes, "  - {id: n%d, template: engine/pass, timeout_ms: 500, %s}\n", i, passing)
		if i > 0 {
			fmt.Fprintf(&edges, "  - n%d.x -> n%d.x\n", i-1, i)
		}
	}
	return document("", nodes.String(), fmt.Sprintf("  - $input.x -> n0.x\n%s  - n%d.x -> $output.x\n", edges.String(), n-1))
}

// beside is a node beside a chain of ordinary ones, which are more events than one
// execution may have.
func beside(node string) string {
	var nodes, edges strings.Builder
	for i := range 16 {
		fmt.Fprintf(&nodes, "  - {id: n%d, template: engine/pass, timeout_ms: 5000, %s}\n", i, passing)
		if i > 0 {
			fmt.Fprintf(&edges, "  - n%d.x -> n%d.x\n", i-1, i)
		}
	}
	return document("", nodes.String()+"  - {id: "+node+"}\n", "  - $input.x -> n0.x\n"+edges.String()+"  - $input.x -> $output.x\n")
}

// slowChain is n local nodes that take long enough to be cut by their time.
func slowChain(n int) string {
	var nodes, edges strings.Builder
	for i := range n {
		fmt.Fprintf(&nodes, "  - {id: n%d, template: engine/sleep, timeout_ms: 500, with: {ms: 100}}\n", i)
		if i > 0 {
			fmt.Fprintf(&edges, "  - n%d -> n%d\n", i-1, i)
		}
	}
	return document("", nodes.String(), fmt.Sprintf("%s  - n%d.slept_ms -> $output.x\n", edges.String(), n-1))
}

// parallel is n chains of a local and an ordinary node, of which five may run at
// one time.
func parallel(n int) string {
	var nodes, edges strings.Builder
	for i := range n {
		fmt.Fprintf(&nodes, "  - {id: local%d, template: engine/pass, timeout_ms: 500, %s}\n  - {id: ordinary%d, template: engine/pass, timeout_ms: 5000, %s}\n", i, passing, i, passing)
		fmt.Fprintf(&edges, "  - $input.x -> local%d.x\n  - local%d.x -> ordinary%d.x\n", i, i, i)
	}
	return document("limits: {max_parallel: 5}\n", nodes.String(), edges.String()+"  - ordinary0.x -> $output.x\n")
}

// holding waits in a call until it is cancelled, beside a node that ends.
func holding(timeout, deadline int) string {
	head := ""
	if deadline > 0 {
		head = fmt.Sprintf("limits: {deadline_ms: %d}\n", deadline)
	}
	return document(head, fmt.Sprintf(`  - {id: first, template: engine/pass, timeout_ms: 5000, %s}
  - {id: hold, template: test/hold, timeout_ms: %d}
  - {id: never, template: engine/pass, timeout_ms: 5000}
`, passing, timeout), "  - $input.x -> first.x\n  - first -> hold\n  - hold -> never\n  - first.x -> $output.x\n")
}

// flaky has a call that fails twice with a kind. It has one retry if the kind is
// the tool's own, else two.
func flaky(kind contract.Kind) string {
	retries := 2
	if kind == contract.ToolError {
		retries = 1
	}
	return document("", fmt.Sprintf(`  - {id: before, template: engine/sleep, timeout_ms: 5000, with: {ms: 1}}
  - {id: flaky, template: test/flaky, timeout_ms: 5000, with: {kind: %s}, retry_policy: {max_retries: %d, initial_ms: 10, on: [transport, tool_error]}}
  - {id: after, template: engine/sleep, timeout_ms: 5000, with: {ms: 1}}
`, kind, retries), "  - before -> flaky\n  - flaky -> after\n  - after.slept_ms -> $output.x\n")
}

// remote has a call of the tools role.
const remoteNodes = `  - {id: before, template: engine/sleep, timeout_ms: 5000, with: {ms: 1}}
  - {id: remote, template: sh/echo, timeout_ms: 1000}
`

var remote = document("", remoteNodes, "  - before -> remote\n  - remote.x -> $output.x\n")

// large has values that the history has by reference: an input, outputs of a
// local and of an ordinary node, and a result.
var large = document("", `  - {id: local, template: engine/pass, timeout_ms: 500, `+passing+`}
  - {id: ordinary, template: engine/pass, timeout_ms: 5000, `+passing+`}
  - {id: bulky, template: test/bulk, timeout_ms: 5000, with: {size: 300000}}
  - {id: last, template: engine/pass, timeout_ms: 5000, `+passing+`}
`, "  - $input.x -> local.x\n  - local.x -> ordinary.x\n  - ordinary -> bulky\n  - ordinary.x -> last.x\n  - bulky -> last\n  - bulky.x -> $output.y\n  - last.x -> $output.x\n")

// vast has an output that no run may have.
var vast = document("", `  - {id: bulky, template: test/bulk, timeout_ms: 20000, with: {size: 9000000}}
`, "  - bulky.x -> $output.x\n  - bulky.x -> $output.y\n")

// shell is the catalog of the calls of the tools role.
const shell = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: sh, operation: echo, mode: deter, effect_class: pure, input_schema: {type: object}, timeout_ms: 20000,
     output_schema: {type: object, properties: {x: {type: string}}, required: [x]}, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto}
  - {provider_type: skill, provider_name: sh, operation: wait, mode: deter, effect_class: pure, input_schema: {type: object}, timeout_ms: 20000,
     output_schema: {type: object, properties: {x: {type: string}}, required: [x]}, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto}
  - {provider_type: skill, provider_name: sh, operation: write, mode: deter, effect_class: committing, input_schema: {type: object, properties: {x: {type: string}}, required: [x]}, timeout_ms: 20000,
     output_schema: {type: object, properties: {x: {type: string}}, required: [x]}, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto, commit_policy: {}}
  - {provider_type: skill, provider_name: sh, operation: hang, mode: deter, effect_class: committing, input_schema: {type: object, properties: {x: {type: string}}, required: [x]}, timeout_ms: 1000,
     output_schema: {type: object, properties: {x: {type: string}}, required: [x]}, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto, commit_policy: {}}
`

// effect is a plan with two effects, the second of them after pure nodes.
var effect = strings.Replace(document("", `  - {id: first, template: sh/write}
  - {id: a, template: engine/pass, timeout_ms: 5000, `+passing+`}
  - {id: b, template: engine/pass, timeout_ms: 500, `+passing+`}
  - {id: second, template: sh/write}
`, `  - $input.x -> first.x
  - $input.x -> a.x
  - a.x -> b.x
  - b.x -> second.x
  - first -> second
  - second.x -> $output.x
`), "agent: tester\n", "agent: tester\nallow: [pure, committing]\n", 1)

// verified is a plan with an effect that does not answer, and of which another node says that
// it happened.
var verified = strings.Replace(document("", `  - {id: hang, template: sh/hang, commit_policy: {verify: {node: find, executed: "output.x == 'y'", output: {x: "${output.x}"}}}}
  - {id: find, template: sh/echo}
`, `  - $input.x -> hang.x
  - hang.x -> $output.x
`), "agent: tester\n", "agent: tester\nallow: [pure, committing]\n", 1)

// approved is a plan with an effect that people must approve.
var approved = strings.Replace(document("", `  - {id: write, template: sh/write, commit_policy: {approval: {groups: [{role: editor, min: 1}]}}}
`, `  - $input.x -> write.x
  - write.x -> $output.x
`), "agent: tester\n", "agent: tester\nallow: [pure, committing]\n", 1)

// escalated is a plan with an effect that more people must approve after a while.
var escalated = strings.Replace(approved, "min: 1}]}", "min: 1}], remind_every_ms: 1000, escalate_after_ms: 1500, to: [{role: chief, min: 1}]}", 1)

// reviewed is a plan with a call without effect that people review.
var reviewed = document("", "  - {id: look, template: engine/pass, timeout_ms: 500, trust_requirement: manual_review, "+passing+"}\n", "  - $input.x -> look.x\n  - look.x -> $output.x\n")

// checked is a plan whose effect people approve, and whose precheck is called once more then.
var checked = strings.Replace(strings.Replace(approved, "min: 1}]}}}", "min: 1}]}, prechecks: [look]}}\n  - {id: look, template: sh/echo}", 1),
	"edges:\n", "edges:\n  - $input.$ -> look.$\n", 1)

// undone is a plan that fails after two effects, which are undone.
var undone = strings.Replace(document("", `  - {id: one, template: sh/write}
  - {id: two, template: sh/write}
  - {id: not-one, template: sh/write}
  - {id: not-two, template: sh/write}
  - {id: fails, template: engine/fail, timeout_ms: 5000, with: {kind: tool_error, message: it ends here}}
`, `  - $input.x -> one.x
  - $input.x -> two.x
  - one -> two
  - two -> fails
  - {from_node: one, from_port: $compensate, to_node: not-one, to_port: x, edge_type: error, required: true, transform: "${args.x}"}
  - {from_node: two, from_port: $compensate, to_node: not-two, to_port: x, edge_type: error, required: true, transform: "${args.x}"}
  - $input.x -> $output.x
`), "agent: tester\n", "agent: tester\nallow: [pure, committing]\n", 1)

// recovered is a plan with an effect of unknown outcome, which is undone while the run goes on,
// and whose failure is handled then.
var recovered = strings.Replace(document("", `  - {id: one, template: sh/hang}
  - {id: not-one, template: sh/write}
  - {id: noted, template: engine/pass, timeout_ms: 500, input_schema: {type: object, properties: {x: {type: string}}, required: [x]}, output_schema: {type: object, properties: {x: {type: string}}, required: [x]}}
`, `  - $input.x -> one.x
  - {from_node: one, from_port: $compensate, to_node: not-one, to_port: x, edge_type: error, required: true, transform: "${args.x}"}
  - {from_node: one, from_port: $error, to_node: noted, to_port: x, edge_type: error, required: true, when: "error.kind == 'outcome_unknown'", transform: "${error.kind}"}
  - {from_node: noted, from_port: x, to_node: $output, to_port: y, edge_type: data, required: false}
  - $input.x -> $output.x
`), "agent: tester\n", "agent: tester\nallow: [pure, committing]\n", 1)

// overtaken fails elsewhere while that effect is being undone.
var overtaken = strings.Replace(strings.Replace(recovered, "not-one, template: sh/write", "not-one, template: sh/hang", 1), "edges:\n",
	`  - {id: naps, template: engine/sleep, timeout_ms: 8000, with: {ms: 1600}}
  - {id: fails, template: engine/fail, timeout_ms: 5000, with: {kind: tool_error, message: it ends here}}
edges:
  - naps -> fails
`, 1)

// paid is a plan with calls that cost something, one after the other and beside each other.
var paid = document("currency: USD\n", `  - {id: first, template: sh/echo, cost_estimate: 1.5}
  - {id: a, template: engine/pass, timeout_ms: 500, cost_estimate: 1, `+passing+`}
  - {id: b, template: engine/pass, timeout_ms: 5000, cost_estimate: "1", `+passing+`}
  - {id: free, template: engine/pass, timeout_ms: 500, `+passing+`}
`, `  - $input.x -> a.x
  - a.x -> b.x
  - b.x -> free.x
  - first -> free
  - free.x -> $output.x
`)

const effectPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
approval: {review: [{role: editor, min: 1}]}
unmodelled: [sh/write, sh/hang]
rules:
  - {id: short, type: hard, operations: [sh/write, sh/hang], require: action.inputs.x.size() < 20}
`

// policy is the policy under which the recording is made.
func (r recording) policy(t *testing.T) *policy.Bundle {
	t.Helper()
	rules := effectPolicy
	if r.asks {
		rules = strings.Replace(rules, "approval: {", "approval: {outcome: [{role: editor, min: 1}], ", 1)
	}
	bundle, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(rules)})
	require.Empty(t, ds, r.name)
	return bundle
}

// studio is where a recording is made.
type studio struct {
	options host.Options
	host    *host.Host
	// deployment is there for plans with effects.
	deployment *stage.Deployment
	// held has each call of test/hold that began.
	held chan struct{}
	// flaky counts calls of test/flaky.
	calls int
}

// operations are the skills of a studio.
func (s *studio) operations() []skills.Skill {
	one := func(operation, input, output string, run skills.Func) skills.Skill {
		return skills.Skill{Provider: "test", Operation: operation, Mode: plan.Deter, Description: "A skill of a test.",
			InputSchema: json.RawMessage(input), OutputSchema: json.RawMessage(output), Run: run}
	}
	return []skills.Skill{
		one("hold", `{"type":"object"}`, `{"type":"object"}`, func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			s.held <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		one("flaky", `{"type":"object","properties":{"kind":{"type":"string"}},"required":["kind"]}`, `{"type":"object"}`, func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			var in struct{ Kind contract.Kind }
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
			if s.calls++; s.calls <= 2 {
				return nil, contract.Errorf(in.Kind, "not yet")
			}
			return json.RawMessage(`{}`), nil
		}),
		one("bulk", `{"type":"object","properties":{"size":{"type":"integer"}},"required":["size"]}`, `{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`, func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			var in struct{ Size int }
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
			return json.RawMessage(`{"x":"` + strings.Repeat("x", in.Size) + `"}`), nil
		}),
	}
}

// newStudio starts what a recording needs. If a call is to be lost, it starts no
// worker of the tools role yet.
func newStudio(t *testing.T, r recording) *studio {
	s := &studio{held: make(chan struct{}, 10)}
	catalog, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(shell)})
	require.Empty(t, ds)
	s.options = host.Options{
		ContinueAfter: r.after, Skills: s.operations(), Catalog: catalog,
		Executables: map[string]skills.Executable{"sh": {Command: "/bin/sh", Args: []string{"-c", `cat >/dev/null; case "$1" in hang|wait) sleep 20;; esac; echo '{"x":"y"}'`, "sh"}}},
	}
	if r.acting {
		s.options.Policy = r.policy(t)
		s.deployment = stage.Deploy(t, &s.options)
	}
	s.options.Client.Identity = "recorded"
	s.options.Store.Dir = t.TempDir()
	s.options.Sealing.Compress = true
	first := s.options
	if r.source == remote {
		first.Roles = []host.Role{host.RoleEngine}
	}
	s.host = stage.Host(t, first)
	if r.acting {
		s.deployment.Begin(t, s.host.Store().Ledger)
	}
	return s
}

// start starts the run of a recording.
func (s *studio) start(t *testing.T, r recording) client.WorkflowRun {
	if !r.acting {
		return stage.Start(t, s.host.Client(), r.source, r.input)
	}
	digest := s.deployment.Publish(t, s.host.Store().Ledger, r.source, s.options.Catalog, s.options.Policy)
	return s.deployment.Start(t, s.host.Client(), r.name, digest, r.input)
}

// escalating approves what a run waits for, once people were reminded, and more were asked.
func escalating(t *testing.T, s *studio, run client.WorkflowRun) client.WorkflowRun {
	l := s.host.Store().Ledger
	eve, cid := s.deployment.Enrol(t, l, trust.SigDev, "Eve", "editor"), s.deployment.Enrol(t, l, trust.SigDev, "Cid", "chief")
	b := stage.Asked(t, l, run, 1)[0]
	stage.Until(t, "it is escalated", func() bool {
		var err error
		b, err = l.Barrier(t.Context(), b.ID)
		require.NoError(t, err)
		return b.Reminded > 0 && b.EscalatedAt != nil
	})
	for _, who := range []stage.Signer{eve, cid} {
		require.NoError(t, s.host.Client().SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, who.Sign(t, b, approval.Approve, nil)))
	}
	return run
}

// approving approves what a run waits for, once the forged signature is refused.
func approving(t *testing.T, s *studio, run client.WorkflowRun) client.WorkflowRun {
	l := s.host.Store().Ledger
	eve := s.deployment.Enrol(t, l, trust.SigDev, "Eve", "editor")
	b := stage.Asked(t, l, run, 1)[0]
	forged := eve
	forged.Key = s.deployment.Admin
	for _, who := range []stage.Signer{forged, eve} {
		require.NoError(t, s.host.Client().SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, who.Sign(t, b, approval.Approve, nil)))
		stage.Until(t, "the signature is verified", func() bool {
			list, err := l.Approvals(t.Context(), b.ID, ledger.Page{})
			require.NoError(t, err)
			return len(list) > 0 && (len(list) == 2 || who.Key == forged.Key)
		})
	}
	return run
}

// pausing pauses a run that waits for people, twice, and lets it go on once they have
// approved.
func pausing(t *testing.T, s *studio, run client.WorkflowRun) client.WorkflowRun {
	stage.Asked(t, s.host.Store().Ledger, run, 1)
	runs := chimera.New(s.host.Client(), chimera.Options{})
	tell := func(by func(context.Context, string, json.RawMessage) (contract.Steering, error)) {
		a, err := by(t.Context(), run.GetID(), json.RawMessage(`{"by":"bob","reason":"to look at it"}`))
		require.NoError(t, err)
		// An execution may have ended before it could say so.
		require.True(t, a.Accepted || a.Code == contract.CodeUnchanged, "%+v", a)
	}
	tell(runs.Pause)
	tell(runs.Resume)
	tell(runs.Pause)
	approving(t, s, run)
	stage.Until(t, "the run knows that it is approved", func() bool { return len(stage.State(t, s.host.Client(), run).Barriers) == 0 })
	tell(runs.Resume)
	return run
}

// stating states that the call had its effect about which people are asked.
func stating(t *testing.T, s *studio, run client.WorkflowRun) client.WorkflowRun {
	l := s.host.Store().Ledger
	eve := s.deployment.Enrol(t, l, trust.SigDev, "Eve", "editor")
	b := stage.Asked(t, l, run, 1)[0]
	require.NoError(t, s.host.Client().SignalWorkflow(t.Context(), run.GetID(), "", contract.SignalSignature, eve.Sign(t, b, approval.Executed, nil)))
	return run
}

// cancelling cancels a run whose call has begun.
func cancelling(t *testing.T, s *studio, run client.WorkflowRun) client.WorkflowRun {
	<-s.held
	require.NoError(t, s.host.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
	return run
}

// losing takes a call as a worker that dies would, and starts a worker once
// Temporal has noticed.
func losing(t *testing.T, s *studio, run client.WorkflowRun) client.WorkflowRun {
	namespace := stage.Temporal(t).Namespace
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	taken, err := s.host.Client().WorkflowService().PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueTools}, Identity: "lost",
	})
	require.NoError(t, err)
	require.Equal(t, run.GetID(), taken.GetWorkflowExecution().GetWorkflowId())
	stage.Until(t, "the call counts as lost", func() bool {
		return count(history(t, s.host.Client(), run.GetID(), run.GetRunID()), timedOut) > 0
	})
	o := s.options
	o.Roles = []host.Role{host.RoleTools}
	stage.Host(t, o)
	return run
}

// resetting waits for the end of a run and has it go on from its first task.
func resetting(t *testing.T, s *studio, run client.WorkflowRun) client.WorkflowRun {
	c, first := s.host.Client(), run.GetRunID()
	require.Error(t, stage.Await(t, c, run, nil))
	var task int64
	for _, event := range history(t, c, run.GetID(), first).GetEvents() {
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			task = event.GetEventId() // the last but one
			break
		}
	}
	reset, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: stage.Temporal(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: first},
		Reason: "the tool is there now", WorkflowTaskFinishEventId: task, RequestId: "once",
	})
	require.NoError(t, err)
	return c.GetWorkflow(t.Context(), run.GetID(), reset.GetRunId())
}
