package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	protocol "github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
)

const wiredCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: mcp, provider_name: bank, operation: pay, mode: deter, effect_class: committing, timeout_ms: 60000,
     retry_policy: {max_retries: 2, on: [unsent, throttled, auth], initial_ms: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true, open_world: false, cost: {expr: "1.00", currency: USD}}
`

const wiredPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [bank/pay]
rules:
  - {id: any, type: hard, operations: [bank/pay], require: 'action.inputs.line.size() < 40'}
`

const wiredPlan = `{apiVersion: chimera/v1, kind: Plan, name: pays, version: "1", agent: tester, currency: USD, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: pay, template: bank/pay, commit_policy: {rollback: {none: "what is paid stays paid"}}}],
  edges: [$input.line -> pay.line, pay.ok -> $output.ok]}`

// wire is an MCP server of mcp-go over streamable HTTP, in place of which a handler answers calls with
// what their line says: a status, and how often.
type wire struct {
	*httptest.Server
	mu sync.Mutex
	// posted are the credentials of the calls with a line, in their order, and paid the lines that
	// the tool got.
	posted map[string][]string
	paid   []string
	tokens int
}

func newWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{posted: map[string][]string{}}
	s := mcpserver.NewMCPServer("bank", "1", mcpserver.WithToolCapabilities(true))
	s.AddTool(protocol.NewTool("pay", protocol.WithString("line")), w.pay)
	h := mcpserver.NewStreamableHTTPServer(s, mcpserver.WithStateful(true))
	t.Cleanup(func() { require.NoError(t, h.Shutdown(context.Background())) })
	w.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			w.mu.Lock()
			w.tokens++
			n := w.tokens
			w.mu.Unlock()
			out.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(out, `{"access_token":"token-%d","token_type":"bearer","expires_in":3600}`, n)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !w.answers(out, r, body) {
			h.ServeHTTP(out, r)
		}
	}))
	t.Cleanup(w.Close)
	return w
}

// answers answers a call in the server's place, or reports that it does not.
func (w *wire) answers(out http.ResponseWriter, r *http.Request, body []byte) bool {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ Line string } }
	}
	if json.Unmarshal(body, &m) != nil || m.Method != string(protocol.MethodToolsCall) {
		return false
	}
	line := m.Params.Arguments.Line
	w.mu.Lock()
	w.posted[line] = append(w.posted[line], r.Header.Get("Authorization"))
	n := len(w.posted[line])
	w.mu.Unlock()
	what, times, _ := strings.Cut(line, " ")
	if most, err := strconv.Atoi(times); err == nil && n > most {
		return false
	}
	if status, err := strconv.Atoi(what); err == nil {
		out.Header().Set("Location", "/elsewhere")
		out.WriteHeader(status)
		return true
	}
	switch what {
	case "cut":
		if c, _, err := http.NewResponseController(out).Hijack(); err == nil {
			c.Close()
		}
	case "garbage":
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprint(out, "<html>")
	case "unknown":
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool"}}`, m.ID)
	case "broken":
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"oops"}}`, m.ID)
	default:
		return false
	}
	return true
}

// pay is the tool.
func (w *wire) pay(_ context.Context, r protocol.CallToolRequest) (*protocol.CallToolResult, error) {
	line := r.GetString("line", "")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paid = append(w.paid, line)
	switch line {
	case "declined":
		return protocol.NewToolResultError("the card is declined"), nil
	case "odd":
		return protocol.NewToolResultStructured(map[string]any{"ok": "yes"}, "yes"), nil
	case "text":
		return protocol.NewToolResultText("paid"), nil
	}
	return protocol.NewToolResultStructured(map[string]any{"ok": true}, "paid"), nil
}

// TestEffectsOverHTTP: what a remote server answers to an effect decides what its row in the ledger
// says, whether it is called again, and what becomes of its cost.
func TestEffectsOverHTTP(t *testing.T) {
	stage.Parallel(t)
	a := prepare(t, "none", "", wiredCatalog, wiredPolicy)
	w := newWire(t)
	a.options.Executables = nil
	a.options.Servers = map[string]mcp.Server{"bank": {
		URL: w.URL + "/mcp", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		OAuth: &mcp.OAuth{Issuer: w.URL, TokenURL: w.URL + "/token", ClientID: "me", ClientSecret: "secret"},
	}}
	a.options.Store.Dir = t.TempDir()
	a.Deployment = stage.Deploy(t, &a.options)
	a.again(t)
	a.Begin(t, a.ledger())
	a.budget(t, "1000.00")
	digest := a.publish(t, wiredPlan)

	type answered struct {
		kind contract.Kind // of the run's failure, or ""
		row  ledger.InvocationState
		// posted counts the requests, and paid the calls that the tool got.
		posted, paid int
	}
	cases := map[string]answered{
		"good":     {"", ledger.Settled, 1, 1},
		"429":      {contract.Throttled, ledger.Released, 3, 0},
		"503":      {contract.Throttled, ledger.Released, 3, 0},
		"429 1":    {"", ledger.Settled, 2, 1},
		"503 2":    {"", ledger.Settled, 3, 1},
		"401":      {contract.Auth, ledger.Released, 2, 0},
		"403":      {contract.Auth, ledger.Released, 2, 0},
		"401 1":    {"", ledger.Settled, 2, 1},
		"403 1":    {"", ledger.Settled, 2, 1},
		"unknown":  {contract.Contract, ledger.Released, 1, 0},
		"500":      {contract.OutcomeUnknown, ledger.Unknown, 1, 0},
		"502":      {contract.OutcomeUnknown, ledger.Unknown, 1, 0},
		"504":      {contract.OutcomeUnknown, ledger.Unknown, 1, 0},
		"307":      {contract.OutcomeUnknown, ledger.Unknown, 1, 0},
		"cut":      {contract.OutcomeUnknown, ledger.Unknown, 1, 0},
		"garbage":  {contract.OutcomeUnknown, ledger.Unknown, 1, 0},
		"broken":   {contract.OutcomeUnknown, ledger.Unknown, 1, 0},
		"declined": {contract.ToolError, ledger.Settled, 1, 1},
		"odd":      {contract.InvalidOutput, ledger.Settled, 1, 1},
		"text":     {contract.InvalidOutput, ledger.Settled, 1, 1},
	}
	if testing.Short() {
		maps.DeleteFunc(cases, func(line string, _ answered) bool {
			return !slices.Contains([]string{"good", "429", "503 2", "401 1", "unknown", "500", "cut", "declined", "odd"}, line)
		})
	}
	runs := map[string]client.WorkflowRun{}
	for line := range cases {
		runs[line] = a.start(t, strings.ReplaceAll(line, " ", "-"), digest, fmt.Sprintf(`{"line":%q}`, line))
	}
	pending, posted := 0, 0
	for line, c := range cases {
		err := stage.Await(t, a.h.Client(), runs[line], nil)
		if c.kind == "" {
			require.NoError(t, err, line)
		} else {
			f := stage.FailureOf(t, err)
			require.Equal(t, c.kind, f.Kind, "%s: %s", line, f.Message)
			require.Equal(t, "pay", f.Node)
		}
		require.Equal(t, c.row, a.row(t, runs[line]).State, line)
		w.mu.Lock()
		sent := w.posted[line]
		paid := len(slices.DeleteFunc(slices.Clone(w.paid), func(is string) bool { return is != line }))
		w.mu.Unlock()
		require.Len(t, sent, c.posted, line)
		require.Equal(t, c.paid, paid, line)
		if c.kind == contract.Auth || strings.HasPrefix(line, "40") && c.kind == "" {
			require.NotEqual(t, sent[0], sent[1], "%s: it has another token", line)
		}
		switch c.row {
		case ledger.Settled:
			posted++
		case ledger.Unknown:
			pending++
		}
	}
	require.Equal(t, fmt.Sprintf("%d.00 %d.00", pending, posted), a.spent(t), "what is unknown is held, and what is released costs nothing")

	// One that says of no request in particular that it is bad may mean the session, and so ends that.
	run := a.start(t, "400", digest, `{"line":"400"}`)
	f := stage.FailureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.OutcomeUnknown, f.Kind, f.Message)
	require.Equal(t, ledger.Unknown, a.row(t, run).State)
	require.Len(t, w.posted["400"], 1)
	pending++

	// By the protocol, a server that says that it does not know the session has not looked at the call. It knew
	// the session just before, so it is not believed.
	run = a.start(t, "404", digest, `{"line":"404"}`)
	f = stage.FailureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.OutcomeUnknown, f.Kind, f.Message)
	require.Equal(t, ledger.Unknown, a.row(t, run).State)
	require.Len(t, w.posted["404"], 1)
	pending++
	require.Equal(t, fmt.Sprintf("%d.00 %d.00", pending, posted), a.spent(t))

	// What a call that answered wrongly did, a reset does not do again.
	tasks := events(t, a.h.Client(), runs["odd"], enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	f = stage.FailureOf(t, stage.Await(t, a.h.Client(), a.reset(t, runs["odd"], tasks[0].GetEventId()), nil))
	require.Equal(t, contract.InvalidOutput, f.Kind, f.Message)
	require.Len(t, w.posted["odd"], 1)
}

// row is the row of the only effect of a run.
func (a *acting) row(t *testing.T, run client.WorkflowRun) ledger.Invocation {
	t.Helper()
	records, err := a.ledger().Chain(t.Context(), ledger.RunChain(run.GetID(), run.GetRunID()), 0, 1000)
	require.NoError(t, err)
	ids := map[string]bool{}
	var last string
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Kind == ledger.DecisionMade {
			d, err := a.ledger().Decision(t.Context(), strings.TrimPrefix(e.Key, string(e.Kind)+"/"))
			require.NoError(t, err)
			last = d.Invocation
			ids[last] = true
		}
	}
	require.Len(t, ids, 1)
	i, err := a.ledger().Invocation(t.Context(), last)
	require.NoError(t, err)
	return i
}
