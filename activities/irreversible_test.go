package activities_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
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
func weather(t *testing.T, a *stage.Acting, is string) {
	t.Helper()
	require.NoError(t, os.WriteFile(a.Lines+".weather", []byte(is), 0o600))
}

// looked counts the calls of the precheck.
func looked(t *testing.T, a *stage.Acting) int {
	t.Helper()
	raw, err := os.ReadFile(a.Lines + ".looks")
	require.NoError(t, err)
	return strings.Count(string(raw), "\n")
}

// TestIrreversible: an irreversible effect happens once people have approved it, and its
// precheck says after that what it said before.
func TestIrreversible(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "post", posts, postCatalog, postPolicy)
	eve := a.Enrol(t, "eve", "editor")
	digest := a.Publish(t, postPlan)
	weather(t, a, "sun")
	run := a.Start(t, "sun", digest, `{"line":"x"}`)
	b := a.Asked(t, run, 1)[0]
	require.Equal(t, 1, looked(t, a))
	a.Sign(t, run, b, approval.Approve, eve)
	require.NoError(t, a.Await(t, run, nil))
	require.Equal(t, []string{`{"line":"Dear Ann"}`}, a.Written(t))
	require.Equal(t, 2, looked(t, a), "the precheck is called once more")
	store := a.Ledger()
	last, err := store.LastCheck(t.Context(), run.GetID(), run.GetRunID(), "look", 1, b.ID)
	require.NoError(t, err)
	require.Equal(t, 2, last.Number)
	require.Equal(t, ledger.CheckSucceeded, last.State)

	// A reset does not ask people again, and repeats nothing, whatever the precheck says by now.
	weather(t, a, "rain")
	require.NoError(t, a.Await(t, stage.Reset(t, a.Client(), run), nil))
	require.Len(t, a.Written(t), 1)

	// What the precheck says has changed: people are asked again, and the signature is for
	// nothing else.
	weather(t, a, "sun")
	run = a.Start(t, "changes", digest, `{"line":"x"}`)
	b = a.Asked(t, run, 1)[0]
	first := eve.Sign(t, b, approval.Approve, nil)
	weather(t, a, "rain")
	require.True(t, a.Update(t, run, first).Accepted)
	var anew ledger.Barrier
	stage.Until(t, "people are asked again", func() bool {
		open, err := store.ListBarriers(t.Context(), ledger.BarrierOpen, ledger.Page{})
		require.NoError(t, err)
		if len(open) == 1 {
			anew = open[0]
		}
		return len(open) == 1 && len(stage.State(t, a.Client(), run).Barriers) == 1
	})
	require.NotEqual(t, b.Actions[0].Action, anew.Actions[0].Action, "it is another action")
	require.Len(t, a.Written(t), 1)
	require.True(t, a.Update(t, run, first).Accepted, "it has counted, and counts for no other barrier")
	a.Sign(t, run, anew, approval.Approve, eve)
	require.NoError(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), 2)

	// A precheck that fails between fails the effect.
	weather(t, a, "sun")
	run = a.Start(t, "fails", digest, `{"line":"x"}`)
	b = a.Asked(t, run, 1)[0]
	weather(t, a, "storm")
	a.Sign(t, run, b, approval.Approve, eve)
	f := a.Fails(t, run)
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Equal(t, "send", f.Node)
	require.Contains(t, f.Message, "the precheck look failed")
	require.Len(t, a.Written(t), 2)
}

// TestIrreversibleIsVerified: of an irreversible call that did not answer, verify says whether it
// was made. One that was not is made again, and people are not asked again.
func TestIrreversibleIsVerified(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "post", `in=$(cat)
case "$1" in
look) echo '{"weather":"sun"}';;
find) if [ -e "$LINES_FILE" ]; then echo '{"found":true}'; else echo '{"found":false}'; fi;;
send)
  echo "$in" >> "$LINES_FILE.calls"
  case "$(cat "$LINES_FILE.way")" in
  sent) echo "$in" >> "$LINES_FILE"; kill -9 $$;;
  lost) if [ "$(grep -c . "$LINES_FILE.calls")" = 1 ]; then kill -9 $$; fi; echo "$in" >> "$LINES_FILE"; echo '{"ok":true}';;
  esac;;
esac`, strings.Replace(postCatalog, "max_retries: 0", "max_retries: 1, on: [unsent]", 1)+`
  - {provider_type: skill, provider_name: post, operation: find, mode: deter, effect_class: pure, timeout_ms: 10000, retry_policy: {max_retries: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {found: {type: boolean}}, required: [found]},
     trust_requirement: allow_auto, status: allow_auto}
`, postPolicy)
	eve := a.Enrol(t, "eve", "editor")
	digest := a.Publish(t, strings.NewReplacer("prechecks: [look],", `prechecks: [look], verify: {node: find, with: {line: "${args.line}"}, executed: "output.found", output: {ok: true}},`,
		"{id: look, template: post/look}", "{id: look, template: post/look}, {id: find, template: post/find}").Replace(postPlan))
	for way, calls := range map[string]int{"sent": 1, "lost": 2} {
		require.NoError(t, os.WriteFile(a.Lines+".way", []byte(way), 0o644))
		run := a.Start(t, way, digest, `{"line":"x"}`)
		a.Sign(t, run, a.Asked(t, run, 1)[0], approval.Approve, eve)
		var out struct{ OK bool }
		require.NoError(t, a.Await(t, run, &out), way)
		require.True(t, out.OK)
		require.Equal(t, []string{`{"line":"Dear Ann"}`}, a.Written(t), way)
		made, err := os.ReadFile(a.Lines + ".calls")
		require.NoError(t, err)
		require.Equal(t, calls, strings.Count(string(made), "\n"), way)
		require.NoError(t, os.Remove(a.Lines))
		require.NoError(t, os.Remove(a.Lines+".calls"))
	}
}

// TestNobodySkipsTheSecondCheck: neither an engine that asks the guardian at once, nor one
// that calls the precheck before people have approved, gets a permit; and whoever answers in
// the guardian's place gives none.
func TestNobodySkipsTheSecondCheck(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "post", posts, postCatalog, postPolicy)
	eve := a.Enrol(t, "eve", "editor")
	digest := a.Publish(t, postPlan)
	weather(t, a, "sun")
	run, second := a.Start(t, "skipped", digest, `{"line":"x"}`), a.Start(t, "second", digest, `{"line":"x"}`)
	waits, signed := map[string]ledger.Barrier{}, map[string]json.RawMessage{}
	for _, r := range []client.WorkflowRun{run, second} {
		waits[r.GetID()] = a.Asked(t, r, 1)[0]
	}
	b := waits[run.GetID()]
	call := contract.Call{Run: contract.Identity{Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID()}, Plan: digest, Node: 1, Visit: 1, Request: "rogue"}
	check := call
	check.Node, check.Barrier, check.Deliveries = 2, b.ID, []contract.Delivery{{Edge: 0, Value: contract.Value(`"x"`)}}
	checks := func() error { return stage.Ask(t, contract.QueueEffects, "post/look", check, nil) }
	var application *temporal.ApplicationError
	require.ErrorAs(t, checks(), &application)
	require.Equal(t, string(contract.Blocked), application.Type(), "nobody has approved it yet")
	check.Barrier = "elsewhere/1"
	require.ErrorAs(t, checks(), &application)
	require.Equal(t, string(contract.Blocked), application.Type())
	check.Barrier = ""
	require.NoError(t, checks(), "it may be called again, for no barrier")
	require.Equal(t, 3, looked(t, a))

	// The runs wait in the second check; whoever asks the guardian meanwhile is told that it
	// has to be made.
	weather(t, a, "fog")
	for _, r := range []client.WorkflowRun{run, second} {
		signed[r.GetID()] = eve.Sign(t, waits[r.GetID()], approval.Approve, nil)
		require.True(t, a.Update(t, r, signed[r.GetID()]).Accepted)
	}
	stage.Until(t, "the prechecks are called once more", func() bool { return looked(t, a) == 5 })
	var out contract.Decided
	require.NoError(t, stage.Ask(t, contract.QueueGuardian, contract.ActivityConfirm, call, &out))
	require.Nil(t, out.Permit)
	require.Equal(t, b.ID, out.Recheck)
	require.Empty(t, a.Written(t))

	// Others answer in its place: that there is nothing to permit, and with a permit of their
	// own.
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	salt := []byte("0123456789abcdef")
	stage.Instead(t, contract.ActivityConfirm, func(_ context.Context, asked any) (any, error) {
		c := asked.(contract.Call)
		answer := contract.Decided{Request: c.Request}
		if c.Run.Workflow == run.GetID() {
			return answer, nil
		}
		w, now := waits[c.Run.Workflow], time.Now()
		permit, err := trust.SignPermit(key, trust.Permit{
			Deployment: "test", Audience: a.Root.Audience, Guardian: "guardian", Invocation: w.Actions[0].Invocation, Decision: w.Actions[0].Decision,
			Call: trust.Call{Operation: "post/send", Input: []byte(`{"line":"Dear Ann"}`)}.Digest(salt), Issued: ledger.At(now), Expires: ledger.At(now.Add(trust.MaxPermit)),
		})
		answer.Permit = &contract.Permit{Envelope: permit, Salt: salt, Approved: &contract.Approved{Request: w.Request, Envelopes: []json.RawMessage{signed[c.Run.Workflow]}}}
		return answer, err
	})
	require.NoError(t, os.WriteFile(a.Lines+".clear", nil, 0o600))
	for r, says := range map[client.WorkflowRun]string{run: "not found", second: "the guardian guardian has not signed the permit"} {
		f := a.Fails(t, r)
		require.Equal(t, "send", f.Node)
		require.Contains(t, f.Message, says)
	}
	require.Empty(t, a.Written(t))
}

// TestOthersDoNotState: what another worker answers for a precheck counts for nothing, since
// the role effects has not stated it.
func TestOthersDoNotState(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "post", posts, postCatalog, postPolicy)
	stage.Instead(t, contract.QueueEffects, func(_ context.Context, asked any) (any, error) {
		return contract.Outcome{Request: asked.(contract.Call).Request, Held: []bool{true}, Output: plan.DigestOf([]byte(`{"weather":"sun"}`))}, nil
	})
	f := a.Fails(t, a.Start(t, "forged", a.Publish(t, postPlan), `{"line":"x"}`))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "has not stated that the precheck look was called")
	require.Empty(t, a.Written(t))
}

// TestIrreversibleIsAllowed: guardian and effects find in their own policy that the agent may
// make the effect, whatever the engine's says.
func TestIrreversibleIsAllowed(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "post", posts, postCatalog, postPolicy)
	digest := a.Publish(t, postPlan)
	strict, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(strings.Replace(postPolicy, "agents: [tester]", "agents: [another]", 1))})
	require.False(t, ds.HasErrors())
	other := a.Options
	other.Roles, other.Policy = []host.Role{host.RoleGuardian, host.RoleEffects}, strict
	a.Options.Roles = []host.Role{host.RoleEngine, host.RoleTools}
	a.Again(t)
	stage.Rehearse(t, other)
	weather(t, a, "sun")
	run := a.Start(t, "forbidden", digest, `{"line":"x"}`)
	f := a.Fails(t, run)
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "does not compile here")
	require.Empty(t, a.Written(t))
}
