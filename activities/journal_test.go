package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// recordingLedger is a ledger in memory.
type recordingLedger struct {
	// err, if set, is the answer to everything.
	err error
	// unread is the answer where outcomes are listed.
	unread   error
	plans    map[string]ledger.Plan
	blobs    map[string][]byte
	open     []ledger.Run
	outcomes []ledger.Outcome
	closed   []ledger.Run
	// last is how many outcomes came with the last end.
	last int
}

func (b *recordingLedger) Plan(_ context.Context, ref string) (ledger.Plan, error) {
	p, ok := b.plans[ref]
	if b.err == nil && !ok {
		return p, fmt.Errorf("find plan: %w", ledger.ErrNotFound)
	}
	return p, b.err
}

func (b *recordingLedger) GetBlob(_ context.Context, digest string) ([]byte, error) {
	source, ok := b.blobs[digest]
	if !ok {
		return nil, fmt.Errorf("get blob: %w", ledger.ErrNotFound)
	}
	return source, nil
}

func (b *recordingLedger) Run(_ context.Context, workflow, root string) (ledger.Run, error) {
	for _, r := range slices.Concat(b.closed, b.open) {
		if b.err == nil && r.Workflow == workflow && r.Root == root {
			return r, nil
		}
	}
	if b.err == nil {
		return ledger.Run{}, fmt.Errorf("find run: %w", ledger.ErrNotFound)
	}
	return ledger.Run{}, b.err
}

func (b *recordingLedger) OpenRun(_ context.Context, r ledger.Run) error {
	if b.err == nil {
		b.open = append(b.open, r)
	}
	return b.err
}

func (b *recordingLedger) RecordOrder(context.Context, string, string, ledger.Order) error {
	return b.err
}

func (b *recordingLedger) RecordOutcomes(_ context.Context, workflow, root string, outcomes []ledger.Outcome) error {
	if b.err == nil && (len(b.open) == 0 || b.open[0].Workflow != workflow || b.open[0].Root != root) {
		return fmt.Errorf("record outcomes: %w", ledger.ErrNotFound)
	}
	if b.err == nil && slices.ContainsFunc(b.closed, func(have ledger.Run) bool { return have.Root == root }) {
		return fmt.Errorf("record outcomes: %w", ledger.ErrConflict)
	}
	b.outcomes = append(b.outcomes, outcomes...)
	return b.err
}

func (b *recordingLedger) CloseRun(_ context.Context, r ledger.Run, last []ledger.Outcome) (ledger.Run, bool, error) {
	if b.err != nil {
		return ledger.Run{}, false, b.err
	}
	for _, have := range b.closed {
		if have.Root == r.Root {
			return have, true, nil
		}
	}
	if !slices.ContainsFunc(b.open, func(have ledger.Run) bool { return have.Root == r.Root }) {
		return ledger.Run{}, false, fmt.Errorf("close run: %w", ledger.ErrNotFound)
	}
	b.outcomes, b.last = append(b.outcomes, last...), len(last)
	b.closed = append(b.closed, r)
	return r, false, nil
}

func (b *recordingLedger) Outcomes(_ context.Context, _, _ string, page ledger.Page) ([]ledger.Outcome, error) {
	return b.outcomes[min(page.Offset, len(b.outcomes)):min(page.Offset+page.Limit, len(b.outcomes))], b.unread
}

// journal writes a batch with an engine over a recording ledger.
func journal(t *testing.T, b *recordingLedger, request func(digest string) contract.JournalRequest) *failure {
	s := shape{}
	e := environ(t, s.plan(t))
	engine := &activities.Engine{Plans: e.store, Values: inline{}, Ledger: b}
	e.env.RegisterActivityWithOptions(engine.Write, activity.RegisterOptions{Name: contract.ActivityJournal})
	_, err := e.env.ExecuteActivity(contract.ActivityJournal, request(e.digest))
	if err != nil {
		return read(t, err)
	}
	return nil
}

var identity = contract.Identity{Workflow: "w", Root: "r", Origin: "o"}

// TestWrite: what nodes came to is stated, and a run that nothing was stated about
// is opened first.
func TestWrite(t *testing.T) {
	input, output := plan.DigestOf([]byte("in")), plan.DigestOf([]byte("out"))
	b := &recordingLedger{}
	var digest string
	f := journal(t, b, func(d string) contract.JournalRequest {
		digest = d
		return contract.JournalRequest{
			Run: identity, Plan: d, Input: input,
			Entries: []contract.JournalEntry{
				{Node: target, Visit: 1, State: contract.Succeeded, Attempts: 2, Input: input, Output: output},
				{Node: target, Visit: 2, State: contract.Failed, Attempts: 1, Output: "sha256:nonsense", Error: &contract.ErrorPayload{Kind: contract.Timeout, Message: "late"}},
				{Node: target, Visit: 3, State: contract.Skipped},
			},
		}
	})
	require.Nil(t, f)
	require.Len(t, b.open, 1, "it was not open")
	require.Equal(t, "o", b.open[0].Origin)
	require.Equal(t, digest, b.open[0].PlanDigest)
	require.Equal(t, input, b.open[0].InputDigest)
	require.Empty(t, cmp.Diff([]ledger.Outcome{
		{Node: "target", Visit: 1, Kind: ledger.NodeSucceeded, Activity: "test/target", Attempts: 2, InputDigest: input, OutputDigest: output},
		{Node: "target", Visit: 2, Kind: ledger.NodeFailed, Activity: "test/target", Attempts: 1,
			Error: json.RawMessage(`{"kind":"timeout","message":"late","node":"","attempts":0,"details":null}`)},
		{Node: "target", Visit: 3, Kind: ledger.NodeSkipped, Activity: "test/target"},
	}, b.outcomes), "a digest that is none is left out")
}

// TestWriteWhereAnEndStands: a run that closes may send what the ledger no longer
// accepts; any other may not.
func TestWriteWhereAnEndStands(t *testing.T) {
	ask := func(b *recordingLedger, closing bool) *failure {
		return journal(t, b, func(d string) contract.JournalRequest {
			return contract.JournalRequest{
				Run: identity, Plan: d, Entries: []contract.JournalEntry{{Node: target, Visit: 1, State: contract.Succeeded}}, Closing: closing,
			}
		})
	}
	b := &recordingLedger{}
	require.Nil(t, ask(b, true))
	require.Len(t, b.outcomes, 1, "none stands yet")
	b.closed = []ledger.Run{{Workflow: "w", Root: "r", State: ledger.RunFailed}}
	require.Nil(t, ask(b, true))
	f := ask(b, false)
	require.NotNil(t, f)
	require.Equal(t, contract.Conflict, f.kind)
	require.Len(t, b.outcomes, 1)

	// What contradicts an open run is refused all the same.
	b.closed[0].State = ledger.RunRunning
	f = ask(b, true)
	require.NotNil(t, f)
	require.Equal(t, contract.Conflict, f.kind)
}

// TestWriteRefusals: a batch is retried until the store is back, and not retried if
// the ledger refuses it.
func TestWriteRefusals(t *testing.T) {
	for _, c := range []struct {
		err     error
		kind    contract.Kind
		retried bool
	}{
		{errors.New("something new"), contract.StoreUnavailable, true},
		{fmt.Errorf("x: %w", ledger.ErrUnavailable), contract.StoreUnavailable, true},
		{fmt.Errorf("x: %w", ledger.ErrConflict), contract.Conflict, false},
		{fmt.Errorf("x: %w", ledger.ErrInvalid), contract.Contract, false},
	} {
		for _, closing := range []bool{false, true} {
			request := contract.JournalRequest{Entries: []contract.JournalEntry{{Node: target, Visit: 1, State: contract.Succeeded}}, Closing: closing}
			if closing && c.kind == contract.Conflict {
				continue // the ledger is asked whether it has an end
			}
			f := journal(t, &recordingLedger{err: c.err}, func(d string) contract.JournalRequest {
				request.Run, request.Plan = identity, d
				return request
			})
			require.NotNil(t, f)
			require.Equal(t, c.kind, f.kind)
			require.Equal(t, c.retried, f.retried, "%s", c.err)
		}
	}
	for name, request := range map[string]contract.JournalRequest{
		"no such node": {Entries: []contract.JournalEntry{{Node: 99, State: contract.Succeeded}}},
		"has not ende": {Entries: []contract.JournalEntry{{Node: target, State: contract.Running}}},
		"does not end": {Entries: []contract.JournalEntry{{Node: target, State: "y"}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &recordingLedger{}
			f := journal(t, b, func(d string) contract.JournalRequest {
				request.Run, request.Plan = identity, d
				return request
			})
			require.NotNil(t, f)
			require.Equal(t, contract.Contract, f.kind)
			require.Empty(t, b.closed)
		})
	}
	f := journal(t, &recordingLedger{}, func(string) contract.JournalRequest {
		return contract.JournalRequest{Run: identity, Plan: plan.DigestOf([]byte("none"))}
	})
	require.Equal(t, contract.StoreUnavailable, f.kind)
}

// TestLoadStatesTheRun: a run is in the ledger before its first node begins.
func TestLoadStatesTheRun(t *testing.T) {
	l := load(shape{}.plan(t))
	loaded, f := l.start(t, `{"source":"s","input":{"b":1,"a":2.0}}`)
	require.Nil(t, f)
	want := plan.DigestOf([]byte(`{"a":2.0,"b":1}`))
	require.Equal(t, want, loaded.Head.InputDigest)
	require.Equal(t, []ledger.Run{{
		Workflow: "w", Root: "r", Origin: "o", Agent: l.plan.Agent, PlanDigest: loaded.Head.Digest, PlanName: l.plan.Name,
		PlanVersion: l.plan.Version, InputDigest: want,
	}}, l.recordingLedger.open)

	for _, c := range []struct {
		err     error
		kind    contract.Kind
		retried bool
	}{
		{ledger.ErrUnavailable, contract.StoreUnavailable, true},
		{ledger.ErrConflict, contract.Conflict, false},
		{ledger.ErrInvalid, contract.Contract, false},
	} {
		l.recordingLedger.err = c.err
		_, f := l.start(t, `{"source":"s"}`)
		require.NotNil(t, f)
		require.Equal(t, c.kind, f.kind)
		require.Equal(t, c.retried, f.retried)
	}
}

// TestLoadPublished: a published plan is compiled from its source, once, and is
// what it was when it was published.
func TestLoadPublished(t *testing.T) {
	l := load(shape{}.plan(t))
	b, err := l.plan.Encode()
	require.NoError(t, err)
	digest, source := plan.DigestOf(b), []byte("the source")
	kept := ledger.Plan{Name: "p", Version: "1", Digest: digest, SourceDigest: plan.DigestOf(source)}
	old := kept
	old.Name, old.Digest = "old", plan.DigestOf([]byte("another"))
	lost := kept
	lost.Name, lost.SourceDigest = "lost", old.Digest
	l.recordingLedger.plans = map[string]ledger.Plan{"p@1": kept, digest: kept, "old@1": old, "lost@1": lost}
	l.recordingLedger.blobs = map[string][]byte{kept.SourceDigest: source}

	for _, ref := range []string{"p@1", digest} {
		loaded, f := l.start(t, fmt.Sprintf(`{"plan":%q}`, ref))
		require.Nil(t, f)
		require.Equal(t, digest, loaded.Head.Digest)
	}
	require.Equal(t, 1, l.compiled)

	for ref, want := range map[string]string{
		"q@1":                    "no plan is published as q@1",
		"old@1":                  "publish it again: chimera publish --again",
		"lost@1":                 "not found",
		"p":                      "neither name@version nor sha256:…",
		"../p@1":                 "neither name@version nor sha256:…",
		strings.ToUpper(digest):  "neither name@version nor sha256:…",
		strings.Repeat("p", 9e3): "neither name@version nor sha256:…",
	} {
		_, f := l.start(t, fmt.Sprintf(`{"plan":%q}`, ref))
		require.NotNil(t, f, ref)
		require.Equal(t, contract.Contract, f.kind)
		require.False(t, f.retried)
		require.Contains(t, f.message, want)
		require.Less(t, len(f.message), 1000)
	}
	changed := load(nil)
	changed.recordingLedger.plans, changed.recordingLedger.blobs = l.recordingLedger.plans, l.recordingLedger.blobs
	changed.findings.Add(finding(3, diag.Error))
	_, f := changed.start(t, `{"plan":"p@1"}`)
	require.Contains(t, f.message, "p@1 compiled when it was published: the catalog or the policy of this worker differs")
	require.Contains(t, f.message, "finding 3")
	l.recordingLedger.err = ledger.ErrUnavailable
	_, f = l.start(t, `{"plan":"p@1"}`)
	require.Equal(t, contract.StoreUnavailable, f.kind)
	require.True(t, f.retried)
}
