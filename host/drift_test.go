package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/mcp"
)

// bankScript is an MCP server that lists what the file "tools" has, counts its calls, and does what the
// file "change" says after each listing or call.
const bankScript = `while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
	case "$line" in
	*'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"bank","version":"1"}}' ;;
	*'"tools/list"'*) answer "{\"tools\":[$(cat tools)]}"; sh listed ;;
	*'"pay"'*) echo pay >> "$LINES_FILE"; sh called; answer '{"content":[],"structuredContent":{"ok":true}}' ;;
	*'"refund"'*) echo refund >> "$LINES_FILE"; sh called; answer '{"content":[],"structuredContent":{"ok":true}}' ;;
	*'"tools/call"'*) echo look >> "$LINES_FILE"; sh called; answer '{"content":[],"structuredContent":{"ok":true}}' ;;
	esac
done
`

const (
	payTool  = `{"name":"pay","description":"Pays.","inputSchema":{"type":"object","properties":{"line":{"type":"string"}},"required":["line"]},"outputSchema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}}`
	lookTool = `{"name":"look","description":"Looks.","inputSchema":{"type":"object","properties":{"line":{"type":"string"}},"required":["line"]},"outputSchema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}}`
)

const bankPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
approval: {review: [{role: reviewer, min: 1}]}
unmodelled: [bank/pay]
rules:
  - {id: short, type: hard, operations: [bank/pay], require: 'action.inputs.line.size() < 20', message: "a line is short"}
`

// bankPlan looks, and then pays.
const bankPlan = `{apiVersion: chimera/v1, kind: Plan, name: pays, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: look, template: bank/look}, {id: pay, template: bank/pay, commit_policy: {rollback: {none: "what is paid stays"}}}],
  edges: [$input.line -> look.line, $input.line -> pay.line, look.$done -> pay.$start, pay.ok -> $output.ok]}`

// bank is a deployment with an MCP server that changes its tools.
type bank struct {
	*acting
	folder string
}

// put replaces a file of the server.
func (b *bank) put(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(b.folder, name+".new"), []byte(text), 0o600))
	require.NoError(t, os.Rename(filepath.Join(b.folder, name+".new"), filepath.Join(b.folder, name)))
}

// lists is a script that makes the server list other tools from then on.
func (b *bank) lists(t *testing.T, tools ...string) string {
	t.Helper()
	b.put(t, "next", strings.Join(tools, ","))
	return "cp next next.new && mv next.new tools\n"
}

func newBank(t *testing.T) *bank {
	t.Helper()
	return bankOf(t, bankPolicy, 0, banked{"pay, effect_class: committing", payTool}, banked{"look, effect_class: pure, open_world: false", lookTool})
}

// banked is a tool of the bank: what the catalog says of it, apart from what it says of all of them, and its
// definition.
type banked struct{ facts, definition string }

// bankOf is a deployment with tools, whose runs continue as new after so many events, or as usual if that is 0.
func bankOf(t *testing.T, rules string, after int, tools ...banked) *bank {
	t.Helper()
	b := &bank{folder: t.TempDir()}
	for name, text := range map[string]string{"main.sh": bankScript, "tools": "", "listed": "", "called": ""} {
		b.put(t, name, text)
	}
	var operations strings.Builder
	operations.WriteString("apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n")
	var definitions []string
	for _, x := range tools {
		facts := x.facts
		if !strings.Contains(facts, "retry_policy:") {
			facts += ", retry_policy: {max_retries: 0}"
		}
		if !strings.Contains(facts, "timeout_ms:") {
			facts += ", timeout_ms: 60000"
		}
		fmt.Fprintf(&operations, "  - {provider_type: mcp, provider_name: bank, mode: deter, trust_requirement: allow_auto, status: allow_auto, operation: %s, definition: %s}\n", facts, x.definition)
		definitions = append(definitions, x.definition)
	}
	b.put(t, "tools", strings.Join(definitions, ","))
	b.acting = prepare(t, "none", "", operations.String(), rules)
	b.options.ContinueAfter = after
	b.options.Servers = map[string]mcp.Server{"bank": {Command: "sh", Args: []string{"main.sh"}, Dir: b.folder, Env: map[string]string{"LINES_FILE": b.acting.lines}}}
	b.options.Store.Dir = filepath.Join(t.TempDir(), "store")
	b.Deployment = stage.Deploy(t, &b.options)
	b.again(t)
	b.Begin(t, b.ledger())
	return b
}

// Tools as they become, each changed in one way.
var (
	ioPay = strings.Replace(payTool, `"required":["line"]`, `"required":[]`, 1)
)

// TestDrift: a tool that has changed once people have approved a call of it is not called; and what a call did
// after which it has changed is unknown. The server counts its calls.
func TestDrift(t *testing.T) {
	stage.Parallel(t)
	b := newBank(t)
	eve := b.enrol(t, "eve", "reviewer")
	digest := b.publish(t, strings.Replace(bankPlan, "commit_policy: {", "commit_policy: {approval: {groups: [{role: reviewer, min: 1}]}, ", 1))
	for _, c := range []struct {
		event string
		kind  contract.Kind
		calls []string
	}{
		{"", contract.Drift, []string{"look"}},
		{"called", contract.OutcomeUnknown, []string{"look", "look", "pay"}},
	} {
		b.put(t, "tools", payTool+","+lookTool)
		b.put(t, "called", "")
		run := b.start(t, string(c.kind), digest, `{"line":"one"}`)
		at := b.asked(t, run, 1)[0]
		if changes := b.lists(t, ioPay, lookTool); c.event != "" {
			b.put(t, c.event, changes)
		} else {
			b.put(t, "tools", ioPay+","+lookTool)
		}
		v := b.update(t, run, eve.Sign(t, at, approval.Approve, nil))
		require.True(t, v.Accepted, v.Detail)
		f := stage.FailureOf(t, stage.Await(t, b.h.Client(), run, nil))
		require.Equal(t, c.kind, f.Kind, f.Message)
		require.Equal(t, "pay", f.Node)
		require.Equal(t, c.calls, b.written(t))
		b.replays(t, run)
	}
	b.verifies(t)
}
