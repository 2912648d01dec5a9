package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/client"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// actingHead begins a plan of effects.
const actingHead = `apiVersion: chimera/v1
kind: Plan
name: bench-effects
version: ` + version + `
agent: bench
allow: [pure, committing]
input_schema: {type: object, required: [x], properties: {x: {type: string}}}
output_schema: {type: object, properties: {x: {type: string}}}
nodes:
`

const actingPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [bench/stdin]
allow: [{effects: [committing], agents: [bench], operations: [bench/stdin], tainted: true}]
rules:
  - {id: short, type: hard, operations: [bench/stdin], require: action.inputs.x.size() < 100}
`

// actingCatalog is echoCatalog, with the operation as an effect that costs something.
func actingCatalog() *catalog.Catalog {
	c := echoCatalog()
	c.Templates[0].Effect = plan.Committing
	c.Templates[0].Commit = &catalog.CommitPolicy{Waived: "it has no effect"}
	c.Templates[0].Cost = &catalog.Cost{Expr: "'0.01'", Currency: "USD"}
	return c
}

// effects compares effects that are decided on, paid from a budget, permitted and recorded
// with bare activities that call the same executable.
func effects(ctx context.Context, pairs int, server *devserver.Server, dir string) (err error) {
	secret, _, err := ledger.NewKey("bench.example.com/log")
	if err != nil {
		return err
	}
	logKey, err := ledger.ParseKey(secret)
	if err != nil {
		return err
	}
	admin, _, err := trust.NewKey()
	if err != nil {
		return err
	}
	guard, _, err := trust.NewKey()
	if err != nil {
		return err
	}
	root, err := trust.DevBootstrap("bench", "ada", admin, trust.LogKey{Origin: logKey.Name(), Key: logKey.Public()}, time.Now())
	if err != nil {
		return err
	}
	bundle, ds := policy.Parse(compiler.Source{Name: "policy", Text: []byte(actingPolicy)})
	if ds.HasErrors() {
		return fmt.Errorf("the policy: %v", ds)
	}
	connection := sdk.Options{HostPort: server.Address, Namespace: server.Namespace}
	h, err := host.New(ctx, host.Options{
		Dev: true, Roles: host.Roles(), Client: connection, Store: store.Options{Dir: filepath.Join(dir, "store"), Key: secret},
		Catalog: actingCatalog(), Policy: bundle, Trust: root, GuardianKey: guard, Executables: echoProgram, SharedQueue: true, ActivityPollers: pollers,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := h.Start(); err != nil {
		return err
	}
	limit, err := ledger.ParseMoney("1000000.00", "USD")
	if err != nil {
		return err
	}
	over := &authority.Authority{Bootstrap: root, Ledger: h.Store().Ledger}
	said, err := over.Propose(ctx, trust.Acts{
		&trust.AddPublisher{ID: "ada", Person: "ada", Key: admin.Public(), Uses: []string{"plans"}},
		&trust.AddAgent{AgentID: "bench", Owner: "ada", Keys: []string{admin.Public()}}, &trust.AddGuardian{ID: "guardian", Key: guard.Public()},
		&trust.SetBudget{Agent: "bench", Currency: "USD", Every: ledger.Forever, Limit: limit},
	}, admin)
	if err != nil {
		return err
	}
	if _, err := over.Apply(ctx, said.Envelope); err != nil {
		return err
	}
	plain, err := dialPlain(ctx, server)
	if err != nil {
		return err
	}
	defer plain.Close()
	hand := handWorker(plain)
	if err := hand.Start(); err != nil {
		return err
	}
	defer hand.Stop()
	const n = 40
	b := &bench{client: h.Client(), plain: plain, pairs: pairs, server: server.PID, ledger: h.Store().Ledger}
	engine, err := b.granted(ctx, over, admin, bundle, programs(actingHead, n), server.Namespace)
	if err != nil {
		return err
	}
	fmt.Printf("\nEffects: median and [quartiles] of %d pairs of runs\n", pairs)
	return b.compare(ctx, fmt.Sprintf("%d guarded effects in sequence beside as many bare activities", n), 0.2, engine, b.hand(handTools, n, json.RawMessage(input)))
}

// granted publishes a plan, and runs it with start grants.
func (b *bench) granted(ctx context.Context, over *authority.Authority, key *trust.Key, bundle *policy.Bundle, source, namespace string) (execution, error) {
	_, all, err := host.Catalog(actingCatalog(), nil)
	if err != nil {
		return nil, err
	}
	compiled, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, all, bundle)
	if ds.HasErrors() {
		return nil, fmt.Errorf("the plan does not compile: %v", ds)
	}
	raw, err := compiled.Encode()
	if err != nil {
		return nil, err
	}
	digest := plan.DigestOf(raw)
	if _, err := over.Publish(ctx, authority.Plan{Name: compiled.Name, Version: compiled.Version, Digest: digest, Agent: compiled.Agent, Author: "ada", Source: []byte(source)}, key); err != nil {
		return nil, err
	}
	runs := client.New(b.client, client.Options{Namespace: namespace})
	count := 0
	return func(ctx context.Context) (sdk.WorkflowRun, error) {
		count++
		r := client.Request{ID: fmt.Sprintf("effects-%d", count), Start: contract.Start{Plan: compiled.Name + "@" + compiled.Version, Input: json.RawMessage(input)}}
		if err := runs.Grant(key, &r, trust.Grant{Deployment: "bench", Audience: trust.Dev, Plan: digest, Agent: "bench", Requester: "rae"}); err != nil {
			return nil, err
		}
		run, err := runs.Start(ctx, r)
		if err != nil {
			return nil, err
		}
		return b.client.GetWorkflow(ctx, run.ID, run.RunID), nil
	}, nil
}
