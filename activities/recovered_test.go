package activities_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

// heldPages is the tool of stage.SagaCatalog; it erases a line that is slow, and looks at a line, only
// when the test lets it.
const heldPages = `in=$(cat)
line=$(printf '%s' "$in" | sed -n 's/.*"line":"\([^"]*\)".*/\1/p')
held() { while ! [ -e "$LINES_FILE-$1-$line" ]; do sleep 0.01; done; }
case $1 in
write) echo "write $line" >> "$LINES_FILE"
	case $line in *hangs*) kill -9 $$ ;; esac
	echo '{"page":7}' ;;
erase) echo "erase $line" >> "$LINES_FILE"
	case $line in *slow*) held erase ;; esac
	case $line in *ink*) echo '{"kind":"tool_error","message":"it does not go away"}'; exit 1 ;; esac
	echo '{}' ;;
look) held look; echo '{"kind":"tool_error","message":"it is not there"}'; exit 1 ;;
esac`

// recoveredPlan writes two lines, of which nobody knows the second. It is erased, and the plan
// goes on; it fails then if that is asked of it. Something beside it may fail.
const recoveredPlan = `{apiVersion: chimera/v1, kind: Plan, name: recovered, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {one: {type: string}, two: {type: string}, beside: {type: boolean}, fails: {type: boolean}, when: {type: string}}, required: [one, two, beside, fails, when]},
  output_schema: {type: object, properties: {failure: {type: object}}},
  nodes: [
    {id: first, template: book/write, commit_policy: {}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: second, template: book/write, commit_policy: {}}, {id: back2, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: noted, template: engine/pass, input_schema: {type: object, properties: {failure: {type: object}}, required: [failure]}, output_schema: {type: object, properties: {failure: {type: object}}, required: [failure]}},
    {id: beside, template: book/look},
    {id: last, template: engine/fail, with: {message: "it ends here"}}],
  edges: [$input.one -> first.line, first -> second, $input.two -> second.line,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"},
    {from_node: second, from_port: $compensate, to_node: back2, to_port: line, edge_type: error, required: true, transform: "${args.line}"},
    {from_node: second, from_port: $error, to_node: noted, to_port: failure, edge_type: error, required: true, when: "error.kind == input.when && error.details != null"},
    {from_node: $input, from_port: beside, to_node: beside, to_port: $start, edge_type: conditional, required: true}, $input.two -> beside.line,
    {from_node: noted, from_port: $done, to_node: last, to_port: $start, edge_type: conditional, required: true, when: "input.fails"},
    {from_node: noted, from_port: failure, to_node: $output, to_port: failure, edge_type: data, required: false}]}`

// recovering is the input of a run, in canonical order.
type recovering struct {
	Beside bool   `json:"beside"`
	Fails  bool   `json:"fails"`
	One    string `json:"one"`
	Two    string `json:"two"`
	When   string `json:"when"`
}

func recovers(t *testing.T, a *stage.Acting, name, digest string, in recovering) client.WorkflowRun {
	t.Helper()
	raw, err := json.Marshal(in)
	require.NoError(t, err)
	return a.Start(t, strings.ReplaceAll(name, " ", "-"), digest, string(raw))
}

// lets lets the tool go on with a line.
func lets(t *testing.T, a *stage.Acting, what, line string) {
	t.Helper()
	require.NoError(t, os.WriteFile(a.Lines+"-"+what+"-"+line, nil, 0o600))
}

// of are the lines that the tool has written for a run.
func (in recovering) of(t *testing.T, a *stage.Acting) (lines []string) {
	t.Helper()
	for _, line := range a.Written(t) {
		if _, about, _ := strings.Cut(line, " "); about == in.One || about == in.Two {
			lines = append(lines, line)
		}
	}
	return lines
}

// undoneAfter is how long after an effect of a run was found to be unknown the next one was called.
func undoneAfter(t *testing.T, a *stage.Acting, run client.WorkflowRun) time.Duration {
	t.Helper()
	l := a.Ledger()
	r, err := l.Run(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	records, err := l.Chain(t.Context(), r.Chain(), 0, 1000)
	require.NoError(t, err)
	var unknown time.Time
	for _, x := range records {
		e, err := ledger.DecodeEntry(x.Bytes)
		require.NoError(t, err)
		switch {
		case e.Kind == ledger.InvocationUnknown:
			unknown = e.At.Time()
		case e.Kind == ledger.InvocationCalling && !unknown.IsZero():
			return e.At.Time().Sub(unknown)
		}
	}
	require.Fail(t, "nothing was undone")
	return 0
}

// TestRecovered: an effect of unknown outcome is undone while the run goes on, and then an error
// edge handles it. Otherwise its failure ends the run.
func TestRecovered(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", heldPages, stage.SagaCatalog, stage.SagaPolicy)
	digest := a.Publish(t, recoveredPlan)
	cases := map[string]struct {
		in        recovering
		kind      contract.Kind
		done, not []string
		lines     []string
	}{
		"handled": {recovering{One: "a", Two: "hangs", When: "outcome_unknown"}, "", nil, nil,
			[]string{"write a", "write hangs", "erase hangs"}},
		"handled, and it fails later": {recovering{One: "b", Two: "hangs b", Fails: true, When: "outcome_unknown"}, contract.ToolError, []string{"second", "first"}, []string{},
			[]string{"write b", "write hangs b", "erase hangs b", "erase b"}},
		"it cannot be undone": {recovering{One: "c", Two: "hangs ink", When: "outcome_unknown"}, contract.OutcomeUnknown, []string{"first"}, []string{"second"},
			[]string{"write c", "write hangs ink", "erase hangs ink", "erase c"}},
		"no error edge takes it": {recovering{One: "d", Two: "hangs d", When: "tool_error"}, contract.OutcomeUnknown, []string{"second", "first"}, []string{},
			[]string{"write d", "write hangs d", "erase hangs d", "erase d"}},
	}
	runs := map[string]client.WorkflowRun{}
	for name, c := range cases {
		runs[name] = recovers(t, a, name, digest, c.in)
	}
	for name, c := range cases {
		run := runs[name]
		var out struct{ Failure *contract.ErrorPayload }
		err := stage.Await(t, a.Client(), run, &out)
		if c.kind == "" {
			require.NoError(t, err)
			require.Equal(t, contract.OutcomeUnknown, out.Failure.Kind)
			require.JSONEq(t, `{"undone":true}`, string(out.Failure.Details))
			require.GreaterOrEqual(t, undoneAfter(t, a, run), ledger.CallSkew, "what the call has sent may arrive until then")
		} else {
			require.Error(t, err, name)
			f := stage.FailureOf(t, err)
			require.Equal(t, c.kind, f.Kind, "%s: %s", name, f.Message)
			require.Equal(t, c.done, f.Compensated, name)
			require.Equal(t, c.not, f.NotCompensated, name)
		}
		require.Equal(t, c.lines, c.in.of(t, a), name)
		if name != "handled" && c.kind != contract.ToolError {
			continue
		}
		err = a.Await(t, stage.Reset(t, a.Client(), run), nil)
		if c.kind == "" {
			require.NoError(t, err)
		} else {
			f := stage.FailureOf(t, err)
			require.Equal(t, contract.Conflict, f.Kind, "what was undone is not there: %s", f.Message)
			require.Equal(t, []string{"first"}, f.Compensated)
			require.Empty(t, f.NotCompensated)
		}
		require.Equal(t, c.lines, c.in.of(t, a), "a reset undoes nothing twice")
	}
}

// TestRecoveryIsSteady: whatever happens while an effect is undone, it is undone once.
func TestRecoveryIsSteady(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", heldPages, stage.SagaCatalog, stage.SagaPolicy)
	a.Options.ContinueAfter = 24
	a.Again(t)
	digest := a.Publish(t, recoveredPlan)
	cases := map[string]struct {
		in     recovering
		during func(run client.WorkflowRun, two string)
		ends   func(err error, name string)
	}{
		"it continues as new": {recovering{One: "one a", Two: "slow hangs a", Beside: false, When: "outcome_unknown"}, func(client.WorkflowRun, string) {}, func(err error, name string) { require.NoError(t, err, name) }},
		"another node fails": {recovering{One: "one b", Two: "slow hangs b", Beside: true, When: "outcome_unknown"}, func(run client.WorkflowRun, two string) {
			lets(t, a, "look", two)
			stage.Until(t, "the other has failed", func() bool {
				return slices.ContainsFunc(stage.State(t, a.Client(), run).Nodes, func(n contract.NodeStatus) bool { return n.ID == "beside" && n.State == contract.Failed })
			})
		}, func(err error, name string) {
			f := stage.FailureOf(t, err)
			require.Equal(t, contract.ToolError, f.Kind, name)
			require.Equal(t, "beside", f.Node, name)
			require.Equal(t, []string{"second", "first"}, f.Compensated, name)
			require.Empty(t, f.NotCompensated, name)
		}},
		"it is cancelled": {recovering{One: "one c", Two: "slow hangs c", Beside: true, When: "outcome_unknown"}, func(run client.WorkflowRun, two string) {
			require.NoError(t, a.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
		}, func(err error, name string) { require.Error(t, err, name) }},
	}
	runs := map[string]client.WorkflowRun{}
	for name, c := range cases {
		runs[name] = recovers(t, a, name, digest, c.in)
	}
	for name, c := range cases {
		run, one, two := runs[name], c.in.One, c.in.Two
		stage.Until(t, "it is being undone", func() bool { return slices.Contains(a.Written(t), "erase "+two) })
		c.during(run, two)
		lets(t, a, "erase", two)
		c.ends(stage.Await(t, a.Client(), run, nil), name)
		s := stage.State(t, a.Client(), run)
		require.Greater(t, s.Executions, 1, name)
		lines := []string{"write " + one, "write " + two, "erase " + two}
		if s.Failure != nil {
			require.Equal(t, []string{"second", "first"}, s.Failure.Compensated, name)
			lines = append(lines, "erase "+one)
		}
		require.Equal(t, lines, c.in.of(t, a), name)
		lets(t, a, "look", two)
	}
}

// looks is the tool of stage.SagaCatalog that says of a line that it is not there, once the test lets
// it; what it erases it holds.
var looks = heldPages[:strings.Index(heldPages, "look)")] + `look) if [ -e "$LINES_FILE-look-$line" ]; then echo '{"there":false}'; else echo '{"kind":"tool_error","message":"the light is out"}'; exit 1; fi ;;
esac`

// TestUndoneIsNotCalledAgain: an effect of unknown outcome was undone. After a reset, that it is
// not there does not mean that it never was: it is not called again, since what undoes it would
// not be called again either.
func TestUndoneIsNotCalledAgain(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", looks, stage.SagaCatalog, stage.SagaPolicy)
	source := strings.Replace(recoveredPlan, "{id: second, template: book/write, commit_policy: {}}",
		`{id: second, template: book/write, commit_policy: {verify: {node: looked, with: {line: "${args.line}"}, executed: "output.there", output: {page: 7}}}}, {id: looked, template: book/look}`, 1)
	digest := a.Publish(t, source)
	run := recovers(t, a, "seen", digest, recovering{One: "a", Two: "slow hangs", When: "outcome_unknown"})
	lines := []string{"write a", "write slow hangs", "erase slow hangs"}
	stage.Until(t, "it is being undone", func() bool { return slices.Equal(a.Written(t), lines) })
	lets(t, a, "look", "slow hangs")
	lets(t, a, "erase", "slow hangs")
	require.NoError(t, stage.Await(t, a.Client(), run, nil))
	require.NoError(t, a.Await(t, stage.Reset(t, a.Client(), run), nil))
	require.Equal(t, lines, a.Written(t))
}
