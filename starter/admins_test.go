package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// desk is a folder in which the program runs as another process.
type desk struct {
	dir string
	env []string
}

// run runs the program, and returns its output and exit code.
func (d *desk) run(args ...string) (out, said string, code int, err error) {
	var stdout, stderr bytes.Buffer
	c := exec.Command("chimera", args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = d.dir, append(os.Environ(), d.env...), &stdout, &stderr
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	return strings.TrimSpace(stdout.String()), stderr.String(), code, err
}

func (d *desk) must(t *testing.T, args ...string) string {
	t.Helper()
	out, said, code, err := d.run(args...)
	require.NoError(t, err)
	require.Zero(t, code, "%v: %s", args, said)
	return out
}

func (d *desk) write(t *testing.T, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600))
}

// TestTwoAdmins: two people apply statements at the same moment, each with the
// program, on one PostgreSQL. One of two in the same place counts, the other is told
// so, and what the rows say is what counts in the end.
func TestTwoAdmins(t *testing.T) {
	d := &desk{t.TempDir(), []string{"DATABASE=" + pgtest.URL(t)}}
	d.write(t, "chimera.yaml", `
store: {driver: postgres, url: "${env:DATABASE}", origin: example.com/log, dir: store}
ledger: {key: "${file:ledger.key}"}
trust: {bootstrap: bootstrap.json}
`)
	for _, who := range []string{"ada", "ben"} {
		d.write(t, who+".pub", d.must(t, "trust", "key", who+".key"))
	}
	d.must(t, "migrate", "--new-key", "ledger.key")
	pin := d.must(t, "trust", "init", "--deployment", "example", "--admin", "ada,ada,ada.pub", "--admin", "ben,ben,ben.pub", "--auditors", "trust.json", "--out", "bootstrap.json")
	d.env = append(d.env, "CHIMERA_TRUST_PIN="+pin)
	both := []string{"--key", "ada.key", "--key", "ben.key"}
	d.must(t, append([]string{"agents", "add", "bot", "--owner", "ada"}, both...)...)

	const rounds = 3
	limit := 0
	draft := func(by string) string {
		limit++
		acts := fmt.Sprintf(`[{"act": "agent.add", "data": {"agent_id": "%s-%d", "owner": "ada", "keys": []}},
			{"act": "budget.set", "data": {"agent": "bot", "currency": "USD", "every": "forever", "limit": {"amount": "%d.00", "currency": "USD"}}}]`, by, limit, limit)
		name := fmt.Sprint(by, limit)
		d.write(t, name+".json", acts)
		d.must(t, append([]string{"trust", "draft", name + ".json", "--out", name}, both...)...)
		return name
	}
	for range rounds {
		files := []string{draft("ada"), draft("ben")}
		codes, said := make([]int, 2), make([]string, 2)
		var all sync.WaitGroup
		for i, file := range files {
			all.Go(func() {
				var err error
				if _, said[i], codes[i], err = d.run("trust", "apply", file); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.ElementsMatch(t, []int{0, 1}, codes, "%v", said)
		for i, code := range codes {
			if code == 0 {
				continue
			}
			// It was told by the chain that it read, or by the store.
			require.Regexp(t, `it is number \d+, not \d+|the authority changed meanwhile`, said[i])
			require.NotContains(t, said[i], "SQLSTATE")
			// Made anew it counts, while the other one is applied again beside it.
			next := draft("again")
			all.Go(func() {
				if _, _, _, err := d.run("trust", "apply", files[1-i]); err != nil {
					t.Error(err)
				}
			})
			d.must(t, "trust", "apply", next)
			all.Wait()
		}
	}

	var listed struct {
		Statements int `json:"statements"`
	}
	require.NoError(t, json.Unmarshal([]byte(d.must(t, "trust", "list", "--format", "json")), &listed))
	require.Equal(t, 1+2*rounds, listed.Statements)
	require.NotContains(t, d.must(t, "agents", "list"), "unstated")

	raw, err := os.ReadFile(filepath.Join(d.dir, "bootstrap.json"))
	require.NoError(t, err)
	b, err := trust.ParseBootstrap(raw)
	require.NoError(t, err)
	secret, err := os.ReadFile(filepath.Join(d.dir, "ledger.key"))
	require.NoError(t, err)
	opened, err := store.Open(t.Context(), store.Options{Driver: store.Postgres, URL: strings.TrimPrefix(d.env[0], "DATABASE="), Dir: filepath.Join(d.dir, "store"), Key: string(secret)})
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	state, err := trust.Read(t.Context(), opened.Ledger, b)
	require.NoError(t, err)
	_, err = trust.Limited(t.Context(), opened.Ledger, state, trust.BudgetKey{Agent: "bot", Currency: "USD"})
	require.NoError(t, err)

	// An auditor accepts it.
	for n := 1; n > 0; {
		n, err = (&ledger.Sequencer{Store: opened.Ledger, Key: opened.Key}).Integrate(t.Context())
		require.NoError(t, err)
	}
	d.must(t, "audit", "export", "--out", "export")
	trusted, err := os.ReadFile(filepath.Join(d.dir, "trust.json"))
	require.NoError(t, err)
	to, err := audit.ParseTrust(trusted)
	require.NoError(t, err)
	r, err := audit.Verify(filepath.Join(d.dir, "export"), to, nil)
	require.NoError(t, err)
	require.True(t, r.OK, "%v", r.Problems)
}
