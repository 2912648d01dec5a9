package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/task"
)

const (
	// auditEntries are the entries of the export, and auditNodes the nodes of each
	// of its runs.
	auditEntries, auditNodes = 1_000_000, 34
	// auditBar is how long the verification may take on two cores, in seconds.
	auditBar = 30
)

// generator writes an export fact by fact, as one of a store would be.
type generator struct {
	entries, bodies *bufio.Writer
	tree            ledger.Frontier
	heads           map[string]tip
	now             time.Time
	err             error
}

// tip is the last entry of a chain.
type tip struct {
	n    int64
	hash ledger.Hash
}

// state writes an entry with its body.
func (g *generator) state(d ledger.Draft, data any) {
	if g.err != nil {
		return
	}
	g.now = g.now.Add(time.Millisecond)
	raw, err := json.Marshal(data)
	if err != nil {
		g.err = err
		return
	}
	body := ledger.Body{Data: raw}
	copy(body.Salt[:], fmt.Sprintf("%016d", g.tree.Size()))
	stored, err := body.Encode()
	if err != nil {
		g.err = err
		return
	}
	at, ok := g.heads[d.Chain]
	if ok {
		at.n++
	}
	line, err := d.Entry(logOrigin, at.n, at.hash, ledger.At(g.now), ledger.BodyDigest(stored)).Encode()
	if err != nil {
		g.err = err
		return
	}
	at.hash = ledger.LeafHash(line)
	g.heads[d.Chain] = at
	g.tree.Add(at.hash)
	_, err = g.entries.Write(append(line, '\n'))
	_, err2 := g.bodies.Write(append(stored, '\n'))
	g.err = errors.Join(err, err2)
}

// run states a run: nodes that call nothing, and one effect with its decision,
// permit, hold and task.
func (g *generator) run(i int) {
	digest := ledger.BodyDigest(fmt.Append(nil, i))
	id := fmt.Sprintf("payout-%07d", i)
	r := ledger.Run{
		Workflow: id, Root: "r", Origin: "r", PlanDigest: digest, PlanName: "payout", PlanVersion: "1.0", Agent: "agent-42",
		Requester: "alice", InputDigest: digest, State: ledger.RunRunning, OpenedAt: ledger.At(g.now),
	}
	chain := r.Chain()
	say := func(kind ledger.Kind, about string, data any) {
		key := string(kind)
		if about != "" {
			key += "/" + about
		}
		g.state(ledger.Draft{Chain: chain, Key: key, Kind: kind, Run: id, Agent: r.Agent, Plan: digest}, data)
	}
	say(ledger.RunOpened, "", r)
	for n := range auditNodes {
		o := ledger.Outcome{Node: fmt.Sprintf("node-%d", n), Kind: ledger.NodeSucceeded, Activity: "text/count", Attempts: 1, InputDigest: digest, OutputDigest: digest}
		g.state(ledger.Draft{
			Chain: chain, Key: fmt.Sprintf("node/%s/0/0", o.Node), Kind: o.Kind, Run: id, Node: o.Node, Agent: r.Agent, Plan: digest,
			Refs: []ledger.Ref{{Name: "input", Digest: digest}, {Name: "output", Digest: digest}},
		}, o)
	}
	by := id + "/1" // the decision, and what follows from it
	budget := func(kind ledger.Kind, data any) {
		g.state(ledger.Draft{Chain: ledger.BudgetChain("USD"), Key: string(kind) + "/" + by, Kind: kind, Agent: r.Agent}, data)
	}
	one, err := ledger.Minor(100, "USD")
	g.err = errors.Join(g.err, err)
	budget(ledger.HoldOpened, ledger.Hold{ID: by, Agent: r.Agent, Charges: []ledger.Charge{{Agent: r.Agent, Period: string(ledger.Forever)}}, Amount: one, Status: ledger.TxPending, ExpiresAt: ledger.At(g.now.Add(time.Hour))})
	draft := task.Draft{
		TaskID: by, AgentID: r.Agent, Description: "Pay out", Resources: []string{"bank"}, CostEstimate: "1.00",
		Priority: task.High, State: task.StateDraft, CreatedAt: g.now,
	}
	say(ledger.TaskDrafted, by, draft)
	say(ledger.DecisionMade, by, ledger.Decision{
		ID: by, Invocation: id, ActionDigest: digest, PolicyDigest: digest, Decision: ledger.Approve, Reason: "policy_clear", Record: json.RawMessage(`{"rules":["amount"]}`), DecidedAt: ledger.At(g.now),
	})
	signed, err := draft.Sign(task.Signature{SignerID: "guardian", SigType: "guardian", Signature: digest, SignedAt: g.now})
	g.err = errors.Join(g.err, err)
	say(ledger.TaskSigned, by, signed)
	until := ledger.At(g.now.Add(time.Minute))
	permitted, err := ledger.Invocation{}.Allow(ledger.Permission{
		ID: id, Origin: r.Origin, ActionDigest: digest, DecisionID: by, TaskID: by, HoldID: by, Permit: json.RawMessage(`{"payload":"e30="}`), Until: until,
	}, ledger.At(g.now))
	g.err = errors.Join(g.err, err)
	say(ledger.InvocationPermitted, by, permitted)
	budget(ledger.HoldRunning, ledger.HoldData{ID: by})
	say(ledger.InvocationCalling, id+"/1", ledger.AttemptData{ID: id, DecisionID: by, Attempt: 1, CallNotAfter: &until})
	budget(ledger.HoldPosted, ledger.HoldData{ID: by, Posted: &one})
	say(ledger.TaskExecuted, by, ledger.ExecutedData{TaskID: by, ExecutedAt: ledger.At(g.now), Result: json.RawMessage(`{"receipt":"r"}`)})
	say(ledger.InvocationSettled, id+"/1", ledger.AttemptData{ID: id, Attempt: 1, OutputDigest: digest})
	at := ledger.At(g.now)
	r.State, r.ClosedAt, r.OutputDigest = ledger.RunSucceeded, &at, digest
	say(ledger.RunClosed, fmt.Sprint(g.heads[chain].n+1), r)
}

// generate writes an export of at least so many entries, signed by key.
func generate(dir string, key *ledger.Key, entries int64) (_ int64, err error) {
	files := map[string]*os.File{}
	for _, name := range []string{audit.EntriesFile, audit.BodiesFile, audit.CheckpointFile} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		files[name] = f
	}
	g := &generator{
		entries: bufio.NewWriterSize(files[audit.EntriesFile], 1<<20), bodies: bufio.NewWriterSize(files[audit.BodiesFile], 1<<20),
		heads: map[string]tip{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	limit, err := ledger.Minor(1<<53, "USD")
	if err != nil {
		return 0, err
	}
	g.state(ledger.Draft{Chain: ledger.BudgetChain("USD"), Key: "budget.set/agent-42/2026/0", Kind: ledger.BudgetSet},
		ledger.BudgetData{Agent: "agent-42", Currency: "USD", Every: ledger.Forever, Limit: limit})
	for i := 0; g.tree.Size() < entries && g.err == nil; i++ {
		g.run(i)
	}
	if g.err != nil {
		return 0, g.err
	}
	signed, err := key.Sign(ledger.Checkpoint{Origin: logOrigin, Size: g.tree.Size(), Root: g.tree.Root()})
	if err != nil {
		return 0, err
	}
	_, err = files[audit.CheckpointFile].Write(signed)
	return g.tree.Size(), errors.Join(err, g.entries.Flush(), g.bodies.Flush())
}

// audit prints how long the verification of a large export takes.
func (b *bench) audit() (err error) {
	dir, err := os.MkdirTemp("", "chimera-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	secret, _, err := ledger.NewKey(logOrigin)
	if err != nil {
		return err
	}
	key, err := ledger.ParseKey(secret)
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	fmt.Printf("\nAudit: offline verification of an export on two cores, as min median max of %d runs\n", b.rounds)
	size, err := generate(dir, key, auditEntries)
	if err != nil {
		return err
	}
	var took, worked, held figures
	for range b.rounds {
		begin := time.Now()
		before, _ := usage()
		r, err := audit.Verify(dir, audit.Trust{Format: audit.TrustFormat, Origin: logOrigin, Log: key.Public()}, nil)
		if err != nil {
			return err
		}
		if !r.OK {
			return fmt.Errorf("the export does not verify: %v", r.Problems[0])
		}
		after, most := usage()
		took, worked, held = append(took, time.Since(begin).Seconds()), append(worked, (after-before).Seconds()), append(held, most)
	}
	fmt.Printf("%-44s seconds %s   bar < %d\n", fmt.Sprintf("verify %d entries with their bodies", size), took.row("%6.2f"), auditBar)
	// What other programs take of the processors is not in these.
	fmt.Printf("%-44s processor seconds %s   memory MiB %s\n", "", worked.row("%6.2f"), held.row("%6.0f"))
	return nil
}
