package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJudge: other judges hear what the policy says of an action, with the token alone, and
// learn what is wrong with a question.
func TestJudge(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("JUDGE", "a-token-of-enough-letters")
	for name, text := range map[string]string{
		"chimera.yaml": "console: {guardian: {token: '${env:JUDGE}'}}\ncatalog: catalog.yaml\npolicy: [policy.yaml]\n",
		"catalog.yaml": `{apiVersion: chimera/v1, kind: Catalog, templates: [
			{provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, timeout_ms: 1000, retry_policy: {max_retries: 0},
			 input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object}, trust_requirement: allow_auto, status: allow_auto}]}`,
		"policy.yaml": `{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", unmodelled: [book/write],
			rules: [{id: short, type: hard, operations: [book/write], require: 'action.inputs.line.size() < 5', message: "a line is short"}]}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	p := &Program{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	require.NoError(t, p.Parse([]string{"console", "--config", filepath.Join(dir, "chimera.yaml")}))
	settings, err := p.settings()
	require.NoError(t, err)
	handler, err := p.judge(t.Context(), settings)
	require.NoError(t, err)
	require.NotNil(t, handler)
	ask := func(method, path, token, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const path, token = "/v1/guardian/evaluate", "a-token-of-enough-letters"
	for name, c := range map[string]struct {
		method, path, token, body string
		status                    int
		want                      string
	}{
		"approved":      {"POST", path, token, `{"action":{"operation":"book/write","inputs":{"line":"ok"}}}`, 200, `"ok":true,"advisory":true,"decision":"APPROVE","reason":"policy_clear"`},
		"rejected":      {"POST", path, token, `{"action":{"operation":"book/write","inputs":{"line":"too long"}}}`, 200, `"decision":"REJECT","reason":"policy:short"`},
		"over budget":   {"POST", path, token, `{"action":{"operation":"book/write","inputs":{"line":"ok"}},"given":{"budget":"exceeded"}}`, 200, `"decision":"ESCALATE","reason":"budget_exceeded"`},
		"no operation":  {"POST", path, token, `{"action":{"operation":"book/burn"}}`, 200, `"reason":"malformed_action"`},
		"unknown field": {"POST", path, token, `{"action":{"operation":"book/write"},"approved":true}`, 422, `"ok":false,"advisory":true,"diagnostics":[`},
		"not JSON":      {"POST", path, token, `{`, 422, `"diagnostics":[`},
		"empty":         {"POST", path, token, ``, 422, `"diagnostics":[`},
		"no token":      {"POST", path, "", `{}`, 401, "missing or wrong"},
		"wrong token":   {"POST", path, token + "x", `{}`, 401, "missing or wrong"},
		"GET":           {"GET", path, token, ``, 405, "use POST"},
		"elsewhere":     {"POST", path + "/x", token, `{}`, 404, ""},
		"too large":     {"POST", path, token, strings.Repeat(" ", 3<<20), http.StatusRequestEntityTooLarge, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := ask(c.method, c.path, c.token, c.body)
			require.Equal(t, c.status, status, body)
			require.Contains(t, body, c.want)
			if status == 200 || status == 422 {
				require.True(t, json.Valid([]byte(body)))
			}
		})
	}
	t.Setenv("JUDGE", "short")
	_, err = p.judge(t.Context(), settings)
	require.ErrorContains(t, err, "fewer than 16")
	require.NoError(t, p.Close())
}
