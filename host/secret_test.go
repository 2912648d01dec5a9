package host_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/redact"
)

// betraying has programs that reveal what they were given: an executable, by its
// output and its failure, and a real MCP server with a tool that prints its
// environment.
const betraying = `
catalog: catalog.yaml
skills:
  leak: {command: sh, args: [leak.sh], env: {TOKEN: 'Bearer ${env:LEAK_TOKEN}', KEY: '${file:key.pem}', PLACE: '${env:HOME}'}}
mcpServers:
  everything: {command: %s, args: [stdio], env: {TOKEN: '${env:LEAK_TOKEN}'}}
`

const leak = `
case "$1" in
print) printf '{"text":"%s at %s","encoded":"%s"}' "$TOKEN" "$PLACE" "$(printf '%s' "$TOKEN" | od -An -tx1 | tr -d ' \n')" ;;
fail) echo "cannot log in with $TOKEN" >&2; exit 1 ;;
tell) printf '{"error":{"message":"no access for %s","details":{"key":"%s"}}}' "$TOKEN" "$(sed -n 2p key.pem)"; exit 1 ;;
esac
`

// betrayals is the catalog of what they offer.
func betrayals() string {
	var b strings.Builder
	b.WriteString("apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n")
	for _, t := range [][4]string{
		{"skill", "leak", "print", "{type: object, properties: {text: {type: string}, encoded: {type: string}}, required: [text, encoded]}"},
		{"skill", "leak", "fail", "{type: object}"},
		{"skill", "leak", "tell", "{type: object}"},
		{"mcp", "everything", "get-env", "{type: object, properties: {content: {type: array, items: {type: object}}}, required: [content]}"},
	} {
		fmt.Fprintf(&b, "  - {provider_type: %s, provider_name: %s, operation: %s, mode: deter, effect_class: pure, input_schema: {type: object, additionalProperties: false}, output_schema: %s, "+
			"timeout_ms: 60000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto}\n", t[0], t[1], t[2], t[3])
	}
	return b.String()
}

func betrayal(nodes, edges string) string {
	return `
apiVersion: chimera/v1
kind: Plan
name: leaks
version: "1"
agent: tester
input_schema: {type: object, additionalProperties: false}
output_schema: {type: object}
nodes:
` + nodes + `
edges:
` + edges
}

// buffer is a log that several goroutines write.
type buffer struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

// TestSecretsDoNotComeBack: neither outputs, nor errors, nor histories, nor the
// ledger, nor the log have what the configuration resolved.
func TestSecretsDoNotComeBack(t *testing.T) {
	const token, line = "tk-0123456789abcdef", "MC4CAQAwBQYDK2VwBCIEIK0f1ee0"
	t.Setenv("LEAK_TOKEN", token)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"chimera.yaml": fmt.Sprintf(betraying, npm.Bin(t, "mcp-server-everything")), "leak.sh": leak, "catalog.yaml": betrayals(),
		"key.pem": "-----BEGIN PRIVATE KEY-----\n" + line + "\n-----END PRIVATE KEY-----\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	settings, ds := config.Load(filepath.Join(dir, "chimera.yaml"))
	require.Empty(t, ds)
	resolved, err := settings.Resolve()
	require.NoError(t, err)
	options, ds, err := host.Settings(resolved)
	require.NoError(t, err)
	require.False(t, ds.HasErrors(), ds)
	var log buffer
	options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	options.Store.Dir, options.Store.Path = t.TempDir(), ""
	h := stage.Host(t, options)

	clean := func(what, text string) {
		t.Helper()
		for _, secret := range []string{token, line, fmt.Sprintf("%x", token)} {
			require.NotContains(t, text, secret, what)
		}
	}
	for _, c := range []struct {
		operation, node, want string
		fails                 bool
	}{
		{operation: "print", node: "leak/print", want: `"text":"Bearer [redacted] at ` + os.Getenv("HOME")},
		{operation: "fail", node: "leak/fail", want: "cannot log in with Bearer [redacted]", fails: true},
		{operation: "tell", node: "leak/tell", want: "no access for Bearer [redacted]", fails: true},
		{operation: "get-env", node: "everything/get-env", want: `TOKEN\": \"[redacted]`},
	} {
		t.Run(c.operation, func(t *testing.T) {
			run := stage.Start(t, h.Client(), betrayal("  - {id: a, template: "+c.node+"}", "  - a.$ -> $output.$"), `{}`)
			var out json.RawMessage
			err := stage.Await(t, h.Client(), run, &out)
			said := string(out)
			if c.fails {
				said = stage.FailureOf(t, err).Message
			} else {
				require.NoError(t, err)
			}
			require.Contains(t, strings.ReplaceAll(said, `": "`, `":"`), strings.ReplaceAll(c.want, `": "`, `":"`))
			clean("the answer", said)

			history := h.Client().GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, 0)
			events := 0
			for history.HasNext() {
				event, err := history.Next()
				require.NoError(t, err)
				raw, err := protojson.Marshal(event)
				require.NoError(t, err)
				// Payloads are in base64.
				clean("the history", string(raw)+event.String())
				events++
			}
			require.NotZero(t, events)
		})
	}
	store := h.Store().Ledger
	pending, err := store.Pending(t.Context(), 10_000)
	require.NoError(t, err)
	placed, err := store.Records(t.Context(), 0, 10_000)
	require.NoError(t, err)
	failures := 0
	for _, r := range append(pending, placed...) {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Body == "" {
			continue
		}
		body, err := store.Body(t.Context(), e.Body)
		require.NoError(t, err)
		clean("the ledger", string(body))
		if bytes.Contains(body, []byte(redact.Mark)) {
			failures++
		}
	}
	require.NotZero(t, failures, "the ledger has the failures, without the secrets")
	clean("the log", log.String())
	require.NotEmpty(t, log.String())
}
