package host_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

const postCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: post, operation: send, mode: deter, effect_class: irreversible, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
     trust_requirement: allow_auto, status: allow_auto}
  - {provider_type: skill, provider_name: post, operation: look, mode: deter, effect_class: pure, timeout_ms: 30000, retry_policy: {max_retries: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {weather: {type: string}}, required: [weather]},
     trust_requirement: allow_auto, status: allow_auto}
`

const postPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [post/send]
allow: [{effects: [irreversible], agents: [tester], operations: [post/send]}]
rules:
  - {id: short, type: hard, operations: [post/send], require: 'action.inputs.line.size() < 20', message: "a line is short"}
`

const postPlan = `{apiVersion: chimera/v1, kind: Plan, name: posts, version: "1", agent: tester, allow: [pure, irreversible],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [
    {id: send, template: post/send, with: {line: Dear Ann}, commit_policy: {approval: {groups: [{role: editor, min: 1}]}, prechecks: [look], rollback: {none: "a letter cannot be called back"}}},
    {id: look, template: post/look}],
  edges: [$input.line -> look.line, send.ok -> $output.ok]}`

// posts looks at the weather, which is what a file says, and sends.
const posts = `in=$(cat)
case "$1" in
look)
  weather=$(cat "$LINES_FILE.weather" 2>/dev/null)
  echo "$in" >> "$LINES_FILE.looks"
  case "$weather" in
  storm) exit 1;;
  fog) while ! test -e "$LINES_FILE.clear"; do sleep 0.05; done;;
  esac
  echo "{\"weather\":\"$weather\"}";;
send)
  echo "$in" >> "$LINES_FILE"; echo '{"ok":true}';;
esac`

// weather sets what the precheck sees.
func (a *acting) weather(t *testing.T, is string) {
	t.Helper()
	require.NoError(t, os.WriteFile(a.lines+".weather", []byte(is), 0o644))
}

// looks counts the calls of the precheck.
func (a *acting) looks(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile(a.lines + ".looks")
	require.NoError(t, err)
	return strings.Count(string(raw), "\n")
}

// TestIrreversible: an irreversible effect happens once people have approved it, and its
// precheck says after that what it said before.
func TestIrreversible(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "post", posts, postCatalog, postPolicy)
	eve := a.enrol(t, "eve", "editor")
	digest := a.publish(t, postPlan)
	a.weather(t, "sun")
	run := a.start(t, "sun", digest, `{"line":"x"}`)
	b := a.asked(t, run, 1)[0]
	require.Equal(t, 1, a.looks(t))
	require.True(t, a.update(t, run, eve.Sign(t, b, approval.Approve, nil)).Accepted)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, []string{`{"line":"Dear Ann"}`}, a.written(t))
	require.Equal(t, 2, a.looks(t), "the precheck is called once more")
	store := a.ledger()
	last, err := store.LastCheck(t.Context(), run.GetID(), run.GetRunID(), "look", 1, b.ID)
	require.NoError(t, err)
	require.Equal(t, 2, last.Number)
	require.Equal(t, ledger.CheckSucceeded, last.State)
	a.replays(t, run)
	require.NoError(t, os.RemoveAll(a.lines+".looks"))

	// A reset asks nobody again, and repeats nothing, whatever the precheck says by now.
	a.weather(t, "rain")
	tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	for _, e := range tasks[:len(tasks)-1] {
		again := a.reset(t, run, e.GetEventId())
		require.NoError(t, stage.Await(t, a.h.Client(), again, nil), "reset to %d", e.GetEventId())
		a.replays(t, again)
	}
	require.Len(t, a.written(t), 1)

	// What the precheck says has changed: people are asked again, and the signature is for
	// nothing else.
	a.weather(t, "sun")
	run = a.start(t, "changes", digest, `{"line":"x"}`)
	b = a.asked(t, run, 1)[0]
	first := eve.Sign(t, b, approval.Approve, nil)
	a.weather(t, "rain")
	require.True(t, a.update(t, run, first).Accepted)
	var anew ledger.Barrier
	stage.Until(t, "people are asked again", func() bool {
		open, err := store.ListBarriers(t.Context(), ledger.BarrierOpen, ledger.Page{})
		require.NoError(t, err)
		if len(open) == 1 {
			anew = open[0]
		}
		return len(open) == 1 && len(stage.State(t, a.h.Client(), run).Barriers) == 1
	})
	require.NotEqual(t, b.Actions[0].Action, anew.Actions[0].Action, "it is another action")
	require.Len(t, a.written(t), 1)
	require.True(t, a.update(t, run, first).Accepted, "it has counted, and counts for no other barrier")
	require.True(t, a.update(t, run, eve.Sign(t, anew, approval.Approve, nil)).Accepted)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Len(t, a.written(t), 2)
	a.replays(t, run)

	// A precheck that fails between fails the effect.
	a.weather(t, "sun")
	run = a.start(t, "fails", digest, `{"line":"x"}`)
	b = a.asked(t, run, 1)[0]
	a.weather(t, "storm")
	require.True(t, a.update(t, run, eve.Sign(t, b, approval.Approve, nil)).Accepted)
	f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Equal(t, "send", f.Node)
	require.Contains(t, f.Message, "the precheck look failed")
	require.Len(t, a.written(t), 2)
	a.replays(t, run)
}

// TestIrreversibleIsVerified: of an irreversible call that did not answer, verify says whether it
// was made. One that was not is made again, and nobody is asked again.
func TestIrreversibleIsVerified(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := actBy(t, "post", `in=$(cat)
case "$1" in
look) echo '{"weather":"sun"}';;
find) if [ -e "$LINES_FILE" ]; then echo '{"found":true}'; else echo '{"found":false}'; fi;;
send)
  echo "$in" >> "$LINES_FILE.calls"
  case "$(cat "$LINES_FILE.way")" in
  sent) echo "$in" >> "$LINES_FILE"; exec sleep 60;;
  lost) if [ "$(grep -c . "$LINES_FILE.calls")" = 1 ]; then exec sleep 60; fi; echo "$in" >> "$LINES_FILE"; echo '{"ok":true}';;
  esac;;
esac`, strings.Replace(postCatalog, "max_retries: 0", "max_retries: 1, on: [unsent]", 1)+`
  - {provider_type: skill, provider_name: post, operation: find, mode: deter, effect_class: pure, timeout_ms: 10000, retry_policy: {max_retries: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {found: {type: boolean}}, required: [found]},
     trust_requirement: allow_auto, status: allow_auto}
`, postPolicy)
	eve := a.enrol(t, "eve", "editor")
	digest := a.publish(t, strings.NewReplacer("template: post/send,", "template: post/send, timeout_ms: 1500,",
		"prechecks: [look],", `prechecks: [look], verify: {node: find, with: {line: "${args.line}"}, executed: "output.found", output: {ok: true}},`,
		"{id: look, template: post/look}", "{id: look, template: post/look}, {id: find, template: post/find}").Replace(postPlan))
	for way, calls := range map[string]int{"sent": 1, "lost": 2} {
		require.NoError(t, os.WriteFile(a.lines+".way", []byte(way), 0o644))
		run := a.start(t, way, digest, `{"line":"x"}`)
		require.True(t, a.update(t, run, eve.Sign(t, a.asked(t, run, 1)[0], approval.Approve, nil)).Accepted)
		var out struct{ OK bool }
		require.NoError(t, stage.Await(t, a.h.Client(), run, &out), way)
		require.True(t, out.OK)
		require.Equal(t, []string{`{"line":"Dear Ann"}`}, a.written(t), way)
		made, err := os.ReadFile(a.lines + ".calls")
		require.NoError(t, err)
		require.Equal(t, calls, strings.Count(string(made), "\n"), way)
		a.replays(t, run)
		require.NoError(t, os.Remove(a.lines))
		require.NoError(t, os.Remove(a.lines+".calls"))
	}
}

// rogueConfirm asks the guardian in place of a run, and rogueCheck the role effects.
func rogueConfirm(ctx workflow.Context, call contract.Call) (contract.Decided, error) {
	var out contract.Decided
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: contract.QueueGuardian, StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}), contract.ActivityConfirm, call).Get(ctx, &out)
	return out, err
}

func rogueCheck(ctx workflow.Context, call contract.Call) (contract.Outcome, error) {
	var out contract.Outcome
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: contract.QueueEffects, StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}), "post/look", call).Get(ctx, &out)
	return out, err
}

// TestNobodySkipsTheSecondCheck: neither an engine that asks the guardian at once, nor one
// that calls the precheck before people have approved, gets a permit; and whoever answers in
// the guardian's place gives none.
func TestNobodySkipsTheSecondCheck(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "post", posts, postCatalog, postPolicy)
	eve := a.enrol(t, "eve", "editor")
	digest := a.publish(t, postPlan)
	judges := a.options
	judges.Roles = []host.Role{host.RoleGuardian}
	a.options.Roles = []host.Role{host.RoleEngine, host.RoleTools, host.RoleEffects}
	a.again(t)
	guardian := a.begin(t, judges)[0]
	asker := worker.New(a.h.Client(), t.Name(), worker.Options{})
	asker.RegisterWorkflow(rogueConfirm)
	asker.RegisterWorkflow(rogueCheck)
	require.NoError(t, asker.Start())
	defer asker.Stop()
	do := func(name string, what any, call contract.Call, out any) error {
		asked, err := a.h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: t.Name() + name, TaskQueue: t.Name()}, what, call)
		require.NoError(t, err)
		return stage.Await(t, a.h.Client(), asked, out)
	}
	a.weather(t, "sun")
	run, second := a.start(t, "skipped", digest, `{"line":"x"}`), a.start(t, "second", digest, `{"line":"x"}`)
	waits, signed := map[string]ledger.Barrier{}, map[string]json.RawMessage{}
	for _, r := range []client.WorkflowRun{run, second} {
		waits[r.GetID()] = a.asked(t, r, 1)[0]
	}
	b := waits[run.GetID()]
	call := contract.Call{Run: contract.Identity{Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID()}, Plan: digest, Node: 1, Visit: 1, Request: "rogue"}
	check := call
	check.Node, check.Barrier, check.Deliveries = 2, b.ID, []contract.Delivery{{Edge: 0, Value: contract.Value(`"x"`)}}
	var application *temporal.ApplicationError
	require.ErrorAs(t, do("early", rogueCheck, check, nil), &application)
	require.Equal(t, contract.Blocked, kindOf(application), "nobody has approved it yet")
	check.Barrier = "elsewhere/1"
	require.ErrorAs(t, do("elsewhere", rogueCheck, check, nil), &application)
	require.Equal(t, contract.Blocked, kindOf(application))
	check.Barrier = ""
	require.NoError(t, do("before", rogueCheck, check, nil), "it may be called again, for no barrier")
	require.Equal(t, 3, a.looks(t))

	// The runs wait in the second check; whoever asks the guardian meanwhile is told that it
	// has to be made.
	a.weather(t, "fog")
	for _, r := range []client.WorkflowRun{run, second} {
		signed[r.GetID()] = eve.Sign(t, waits[r.GetID()], approval.Approve, nil)
		require.True(t, a.update(t, r, signed[r.GetID()]).Accepted)
	}
	stage.Until(t, "the prechecks are called once more", func() bool { return a.looks(t) == 5 })
	var out contract.Decided
	require.NoError(t, do("confirm", rogueConfirm, call, &out))
	require.Nil(t, out.Permit)
	require.Equal(t, b.ID, out.Recheck)
	require.Empty(t, a.written(t))

	a.develops(t, "in production an answer is sealed by the role that gives it")
	// Others answer in its place: that there is nothing to permit, and with a permit of their
	// own.
	require.NoError(t, guardian.Close())
	require.NoError(t, os.WriteFile(a.lines+".clear", nil, 0o600))
	poller, key, salt := rogue{t, a.h.Client()}, newKey(t), []byte("0123456789abcdef")
	for _, c := range []struct {
		forges bool
		says   string
	}{{false, "not found"}, {true, "the guardian guardian has not signed the permit"}} {
		task := poller.takesFrom(contract.QueueGuardian, "")
		require.Equal(t, contract.ActivityConfirm, task.GetActivityType().GetName())
		var asked contract.Call
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(task.GetInput(), &asked))
		answer := contract.Decided{Request: asked.Request}
		if w := waits[asked.Run.Workflow]; c.forges {
			now := time.Now()
			permit, err := trust.SignPermit(key, trust.Permit{
				Deployment: "test", Audience: a.Root.Audience, Guardian: "guardian", Invocation: w.Actions[0].Invocation, Decision: w.Actions[0].Decision,
				Call: trust.Call{Operation: "post/send", Input: []byte(`{"line":"Dear Ann"}`)}.Digest(salt), Issued: ledger.At(now), Expires: ledger.At(now.Add(trust.MaxPermit)),
			})
			require.NoError(t, err)
			answer.Permit = &contract.Permit{Envelope: permit, Salt: salt, Approved: &contract.Approved{Request: w.Request, Envelopes: []json.RawMessage{signed[asked.Run.Workflow]}}}
		}
		said, err := converter.GetDefaultDataConverter().ToPayloads(answer)
		require.NoError(t, err)
		poller.answers(task, said)
		f := failureOf(t, stage.Await(t, a.h.Client(), a.h.Client().GetWorkflow(t.Context(), asked.Run.Workflow, ""), nil))
		require.Equal(t, "send", f.Node)
		require.Contains(t, f.Message, c.says)
	}
	require.Empty(t, a.written(t))
}

// TestOthersDoNotState: what another worker answers for a precheck counts for nothing, since
// the role effects has not stated it.
func TestOthersDoNotState(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "post", posts, postCatalog, postPolicy)
	digest := a.publish(t, postPlan)
	a.options.Roles = []host.Role{host.RoleEngine, host.RoleTools, host.RoleGuardian}
	a.again(t)
	rogue := worker.New(a.h.Client(), contract.QueueEffects, worker.Options{DisableWorkflowWorker: true})
	rogue.RegisterDynamicActivity(func(_ context.Context, args converter.EncodedValues) (contract.Outcome, error) {
		var call contract.Call
		if err := args.Get(&call); err != nil {
			return contract.Outcome{}, err
		}
		return contract.Outcome{Request: call.Request, Held: []bool{true}, Output: plan.DigestOf([]byte(`{"weather":"sun"}`))}, nil
	}, activity.DynamicRegisterOptions{})
	require.NoError(t, rogue.Start())
	defer rogue.Stop()
	run := a.start(t, "forged", digest, `{"line":"x"}`)
	f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "has not stated that the precheck look was called")
	require.Empty(t, a.written(t))
}

// TestIrreversibleIsAllowed: guardian and effects find in their own policy that the agent may
// make the effect, whatever the engine's says.
func TestIrreversibleIsAllowed(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "post", posts, postCatalog, postPolicy)
	digest := a.publish(t, postPlan)
	strict, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(strings.Replace(postPolicy, "agents: [tester]", "agents: [another]", 1))})
	require.False(t, ds.HasErrors())
	other := a.options
	other.Roles, other.Policy = []host.Role{host.RoleGuardian, host.RoleEffects}, strict
	a.options.Roles = []host.Role{host.RoleEngine, host.RoleTools}
	a.again(t)
	a.thieve(t, other)
	a.weather(t, "sun")
	run := a.start(t, "forbidden", digest, `{"line":"x"}`)
	f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "does not compile here")
	require.Empty(t, a.written(t))
}
