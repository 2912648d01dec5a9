package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/store"
)

// TestDatabaseUsers: whoever applies, publishes, prunes or erases is another user of the
// database, and a command says which it needs.
func TestDatabaseUsers(t *testing.T) {
	lengthy.Skip(t)
	database := pgtest.URL(t)
	d := &desk{t.TempDir(), nil}
	d.write(t, "chimera.yaml", `
store: {driver: postgres, url: "${env:DATABASE}", origin: example.com/log, dir: store}
ledger: {key: "${file:ledger.key}", retention: {operational: 90d}}
trust: {bootstrap: bootstrap.json, author_key: "${file:fay.key}"}
author: fay
`)
	d.write(t, "plan.yaml", `{apiVersion: chimera/v1, kind: Plan, name: idle, version: "1", agent: bot, input_schema: {type: object}, output_schema: {type: object},
  nodes: [{id: a, template: engine/pass, mode: deter, effect_class: pure}], edges: [$input.$ -> a.$, a.$ -> $output.$]}`)
	as := func(role string) *desk {
		env := []string{"DATABASE=" + database}
		if role != "" {
			env = []string{"DATABASE=" + database + "&role=" + role}
		}
		return &desk{d.dir, append(env, d.env...)}
	}
	for _, who := range []string{"ada", "ben", "fay"} {
		d.write(t, who+".pub", as("").must(t, "trust", "key", who+".key"))
	}
	as("").must(t, "migrate", "--grant", "--new-key", "ledger.key")
	pin := as("").must(t, "trust", "init", "--deployment", "example", "--admin", "ada,ada,ada.pub", "--admin", "ben,ben,ben.pub", "--auditors", "trust.json", "--out", "bootstrap.json")
	d.env = append(d.env, "CHIMERA_TRUST_PIN="+pin)
	d.write(t, "acts.json", fmt.Sprintf(`[{"act": "agent.add", "data": {"agent_id": "bot", "owner": "ada", "keys": []}},
		{"act": "publisher.add", "data": {"id": "fay", "person": "fay", "key": %q, "uses": ["plans"]}},
		{"act": "budget.set", "data": {"agent": "bot", "currency": "USD", "every": "forever", "limit": {"amount": "1.00", "currency": "USD"}}}]`, as("").must(t, "trust", "key", "fay.key")))
	r := store.Roles
	as(r.Reader).must(t, "trust", "draft", "acts.json", "--key", "ada.key", "--key", "ben.key", "--out", "statement")
	const owner = "the owner of the ledger's tables"
	for _, c := range []struct {
		args  []string
		by    string // "" is the owner
		needs string
	}{
		{[]string{"trust", "apply", "statement"}, r.Applier, r.Applier},
		{[]string{"publish", "plan.yaml"}, r.Publisher, r.Publisher},
		{[]string{"audit", "prune"}, r.Engine, r.Engine},
		{[]string{"audit", "hold", "plans", "--reason", "case"}, "", owner},
		{[]string{"audit", "lift", "plans", "--reason", "case"}, "", owner},
	} {
		for _, role := range []string{r.Reader, r.Engine, r.Guardian, r.Effects, r.Applier, r.Publisher} {
			if role == c.by {
				continue
			}
			_, said, code, err := as(role).run(c.args...)
			require.NoError(t, err)
			require.Equal(t, exitUnanswered, code, "%s: %v: %s", role, c.args, said)
			require.Contains(t, said, c.needs, "%s: %v", role, c.args)
			if c.by != "" {
				require.Contains(t, said, "GRANT "+c.needs+" TO", "%s: %v", role, c.args)
			}
		}
		as(c.by).must(t, c.args...)
	}
	_, said, code, err := as("").run("audit", "erase", "person-1", "--reason", "asked")
	require.NoError(t, err)
	require.Equal(t, exitUsage, code, said)
	require.Contains(t, said, "ledger.subjects is not set")
	_, said, code, err = as(r.Tools).run("runs")
	require.NoError(t, err)
	require.NotZero(t, code, said)
	_, said, code, err = as(r.Tools).run("trust", "list")
	require.NoError(t, err)
	require.Equal(t, exitUnanswered, code)
	require.Contains(t, said, r.Reader)
}
