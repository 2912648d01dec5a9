package ledgertest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// hostile: what a database cannot hold, or an entry, is refused by name on every
// store in the same way, and found nowhere.
func hostile(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	Story(t, s, false)
	going := run()
	going.Root = "going"
	require.NoError(t, s.OpenRun(ctx, going))
	no := func(_ any, err error) error { return err }
	long := strings.Repeat("x", 70_000)
	for what, bad := range map[string]string{"NUL": "a\x00b", "not UTF-8": "a\xff", "a newline": "a\nb", "long": long} {
		refused := func(method string, err error) {
			t.Helper()
			require.ErrorIs(t, err, ledger.ErrInvalid, "%s: %s", what, method)
			require.NotErrorIs(t, err, ledger.ErrUnavailable, "%s: %s", what, method)
		}
		refused("AddAgent", s.AddAgent(ctx, ledger.Agent{AgentID: bad}))
		r := run()
		r.Root = "r9"
		r.Workflow = bad
		refused("OpenRun", s.OpenRun(ctx, r))
		refused("SetBudget", s.SetBudget(ctx, ledger.Budget{Agent: bad, Currency: "USD", Every: ledger.Forever, Limit: usd(t, 1)}))
		refused("OpenHold", no(s.OpenHold(ctx, ledger.Hold{ID: bad, Agent: "agent-42", Amount: usd(t, 1)})))
		refused("Authorize", no(s.Authorize(ctx, going, Ask(bad, "a"), Rule(ledger.Approve))))
		refused("RecordApproval", s.RecordApproval(ctx, going, ledger.Approval{ID: bad, Barrier: "b", Envelope: json.RawMessage(`{}`)}))
		refused("Append", no(s.Append(ctx, ledger.Draft{Chain: bad, Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})))
		refused("Append", no(s.Append(ctx, ledger.Draft{Chain: "snapshots/c", Key: bad, Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})))
		refused("TakeSnapshot", s.TakeSnapshot(ctx, ledger.Snapshot{Server: bad}))
		refused("PublishPlan", no(s.PublishPlan(ctx, ledger.Plan{Name: bad, Version: "1", Digest: digest("x"), SourceDigest: digest("y")})))
		refused("RegisterTool", s.RegisterTool(ctx, ledger.Tool{ToolID: bad, Schema: json.RawMessage(`{}`), Status: "block"}))
		refused("StateHypothesis", s.StateHypothesis(ctx, ledger.Hypothesis{HypothesisID: bad, AgentID: "agent-42", Inputs: json.RawMessage(`{}`), Prediction: json.RawMessage(`{}`), RiskScore: "0"}))

		absent := func(method string, err error) {
			t.Helper()
			require.ErrorIs(t, err, ledger.ErrNotFound, "%s: %s", what, method)
		}
		absent("Agent", no(s.Agent(ctx, bad)))
		absent("Run", no(s.Run(ctx, bad, "")))
		absent("Task", no(s.Task(ctx, bad)))
		absent("Hold", no(s.Hold(ctx, bad)))
		absent("VoidHold", no(s.VoidHold(ctx, bad)))
		absent("Invocation", no(s.Invocation(ctx, bad)))
		absent("Claim", no(s.Claim(ctx, bad, "d", "token", time.Second)))
		absent("Settle", no(s.Settle(ctx, bad, ended(1, ledger.Unknown))))
		absent("GetBlob", no(s.GetBlob(ctx, bad)))
		absent("Decision", no(s.Decision(ctx, bad)))
		require.ErrorIs(t, no(s.Body(ctx, bad)), ledger.ErrGone)
		list, err := s.Approvals(ctx, bad, everything)
		require.NoError(t, err)
		require.Empty(t, list)
		list, err = s.Accepted(ctx, []string{bad}, everything)
		require.NoError(t, err)
		require.Empty(t, list)
	}
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}
	closing := func(r ledger.Run) {
		t.Helper()
		_, _, err := s.CloseRun(ctx, r, nil)
		refused(err)
	}
	r := run()
	r.Root = "a/b"
	refused(s.OpenRun(ctx, r))
	r = run()
	r.State = "done"
	closing(r)
	r.State = ledger.RunRunning
	closing(r)
	r.State, r.Value = ledger.RunFailed, []byte("v")
	closing(r)
	r.State, r.Value = ledger.RunSucceeded, make([]byte, ledger.MaxRunValue+1)
	closing(r)
	refused(s.RecordOutcomes(ctx, "w", "r1", []ledger.Outcome{{Node: "x", Kind: ledger.RunClosed}}))
	refused(no(s.Append(ctx, ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`[1]`)})))
	refused(no(s.Append(ctx, ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"a":1,"a":2}`)})))
	refused(no(s.Append(ctx, ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"a":"` + strings.Repeat("x", ledger.MaxBodyBytes) + `"}`)})))
	refused(no(s.Append(ctx, ledger.Draft{Chain: "c", Key: "k", Kind: "made.up"})))
	refused(no(s.Append(ctx, make([]ledger.Draft, 5000)...)))
	refused(no(s.Append(ctx, ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Subject: long, Data: json.RawMessage(`{}`)})))
	for _, risk := range []json.Number{"", "NaN", "1.1", "-0.1", "0x1p-2", "1e400", "1e-99999999", "Infinity"} {
		refused(s.StateHypothesis(ctx, ledger.Hypothesis{HypothesisID: "h-2", AgentID: "agent-42", Inputs: json.RawMessage(`{}`), Prediction: json.RawMessage(`{}`), RiskScore: risk}))
	}
	for i, risk := range []json.Number{"1e-7", "0.10", "1.0E0", "0", "1"} {
		require.NoError(t, s.StateHypothesis(ctx, ledger.Hypothesis{HypothesisID: fmt.Sprintf("risk-%d", i), AgentID: "agent-42", Inputs: json.RawMessage(`{}`), Prediction: json.RawMessage(`{}`), RiskScore: risk}))
	}
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}

// ambiguous: names that hold the separators of keys do not meet, and what is
// said twice in one breath is said once, or refused.
func ambiguous(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	no := func(_ any, err error) error { return err }
	Story(t, s, false)
	going := run()
	going.Root = "going"
	require.NoError(t, s.OpenRun(ctx, going))
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "a", Currency: "EUR", Every: ledger.Forever, Limit: eur(t, 100)}))
	hold := ledger.Hold{Agent: "a", Amount: eur(t, 1), ExpiresAt: ledger.At(time.Unix(1<<33, 0))}
	for _, id := range []string{"x", "x/hold.posted", "hold.posted/x", "hold.opened/x", "hold.posted"} {
		hold.ID = id
		require.NoError(t, no(s.OpenHold(ctx, hold)))
	}
	for _, id := range []string{"x", "x/hold.posted", "hold.posted/x", "hold.opened/x", "hold.posted"} {
		require.NoError(t, no(s.PostHold(ctx, id, eur(t, 1))))
	}
	for _, id := range []string{"t", "t/1", "t/trust/1", "tool.trusted/t"} {
		require.NoError(t, s.RegisterTool(ctx, ledger.Tool{ToolID: id, Schema: json.RawMessage(`{}`), Status: "block"}))
		require.NoError(t, s.TrustTools(ctx, "allow_auto", id))
		require.NoError(t, s.TrustTools(ctx, "manual_review", id))
		require.NoError(t, s.TrustTools(ctx, "allow_auto", id))
	}
	require.ErrorIs(t, s.RegisterTool(ctx, ledger.Tool{ToolID: "v", Schema: json.RawMessage(`{}`), Status: "exploded"}), ledger.ErrInvalid)
	require.ErrorIs(t, s.TrustTools(ctx, "exploded", "t"), ledger.ErrInvalid)
	far := ledger.At(time.Unix(1<<33, 0))
	for _, id := range []string{"s", "s/revoked", "signer.revoked/s"} {
		require.NoError(t, s.EnrollSigner(ctx, ledger.Signer{ID: id, NotAfter: far, NotBefore: far}))
		require.NoError(t, s.RevokeSigner(ctx, id))
	}
	for _, id := range []string{"i", "i/1", "i/approvals", "i/1/resolved"} {
		d, err := permitted(ctx, s, going, Ask(id, id))
		require.NoError(t, err)
		require.NoError(t, no(s.Claim(ctx, id, d, "token", time.Minute)))
		require.NoError(t, no(s.Settle(ctx, id, ended(1, ledger.Unknown))))
		require.NoError(t, no(s.Settle(ctx, id, ended(1, ledger.Released))))
		d, err = permitted(ctx, s, going, Ask(id, id))
		require.NoError(t, err)
		require.NoError(t, no(s.Claim(ctx, id, d, "token", time.Minute)))
		require.NoError(t, no(s.Settle(ctx, id, settled(2, ""))))
	}

	d := ledger.Draft{Chain: "snapshots/c", Key: "k", Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{"a":1}`)}
	records, err := s.Append(ctx, d, d)
	require.NoError(t, err)
	require.Equal(t, records[0], records[1])
	other := d
	other.Key, other.Data = "l", json.RawMessage(`{"a": 2}`)
	third := other
	third.Data = json.RawMessage(`{"a":3}`)
	require.ErrorIs(t, no(s.Append(ctx, other, third)), ledger.ErrConflict)
	bare := d
	bare.Data, bare.Key = nil, "bare"
	require.ErrorIs(t, no(s.Append(ctx, bare)), ledger.ErrInvalid, "an entry has a body")
	bare.Data, bare.Chain = d.Data, "elsewhere"
	require.ErrorIs(t, no(s.Append(ctx, bare)), ledger.ErrInvalid, "and stands where those of its kind do")
	chain, err := s.Chain(ctx, "snapshots/c", 0, everything.Limit)
	require.NoError(t, err)
	require.Len(t, chain, 1)

	// An approval belongs to its run.
	elsewhere := run()
	elsewhere.Root = "r2"
	require.NoError(t, s.OpenRun(ctx, elsewhere))
	require.ErrorIs(t, s.RecordApproval(ctx, elsewhere, ledger.Approval{ID: "a-1", Barrier: "b", Signer: "s-1", Accepted: true, Actions: []string{digest("action")}, Envelope: json.RawMessage(`{"e":1}`)}), ledger.ErrConflict)

	// A statement of authority is not made again behind others.
	second := json.RawMessage(`{"payload":"2"}`)
	first, err := s.Authority(ctx)
	require.NoError(t, err)
	require.NoError(t, s.StateAuthority(ctx, second, ledger.BodyDigest(first[0])))
	require.ErrorIs(t, s.StateAuthority(ctx, first[0], ledger.BodyDigest(second)), ledger.ErrConflict)

	// Sums stay within their column, overdrafts too.
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "rich", Currency: "EUR", Every: ledger.Forever, Limit: eur(t, math.MaxInt64)}))
	huge := ledger.Hold{ID: "h1", Agent: "rich", Amount: eur(t, math.MaxInt64), Overdraft: true, ExpiresAt: far}
	require.NoError(t, no(s.OpenHold(ctx, huge)))
	huge.ID = "h2"
	require.ErrorIs(t, no(s.OpenHold(ctx, huge)), ledger.ErrBudget)
	huge.ID, huge.Amount = "h3", eur(t, 1)
	require.ErrorIs(t, no(s.OpenHold(ctx, huge)), ledger.ErrBudget)
	require.NoError(t, no(s.PostHold(ctx, "h1", eur(t, math.MaxInt64))))
	require.ErrorIs(t, no(s.OpenHold(ctx, huge)), ledger.ErrBudget)
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}

// order: what was done last is listed first, within one millisecond too; pages
// are bounded and complete; times rise along a chain.
func order(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	const n = 25
	for i := range n {
		r := run()
		r.Workflow, r.Root = "same", fmt.Sprintf("r-%d", (i*7)%n)
		require.NoError(t, s.OpenRun(ctx, r))
		latest, err := s.Run(ctx, "same", "")
		require.NoError(t, err)
		require.Equal(t, r.Root, latest.Root)
		p, err := s.PublishPlan(ctx, ledger.Plan{Name: "p", Version: fmt.Sprint((i * 7) % n), Digest: digest(r.Root), SourceDigest: digest("s")})
		require.NoError(t, err)
		last, err := s.Plan(ctx, "p")
		require.NoError(t, err)
		require.Equal(t, p, last)
		// A server that changes to and fro is seen each time.
		require.NoError(t, s.TakeSnapshot(ctx, ledger.Snapshot{Server: "m", Fingerprint: fmt.Sprint(i % 2), Digest: digest("l")}))
		require.NoError(t, s.TakeSnapshot(ctx, ledger.Snapshot{Server: "m", Fingerprint: fmt.Sprint(i % 2), Digest: digest("l")}))
	}
	chain, err := s.Chain(ctx, "snapshots/m", 0, everything.Limit)
	require.NoError(t, err)
	require.Len(t, chain, n)
	at := ledger.Time{}
	for _, r := range chain {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		require.False(t, e.At.Time().Before(at.Time()))
		at = e.At
	}
	var seen []string
	for offset := 0; ; offset += 10 {
		page, err := s.ListRuns(ctx, ledger.Page{Limit: 10, Offset: offset})
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			seen = append(seen, r.Root)
		}
	}
	require.Len(t, seen, n)
	require.Equal(t, fmt.Sprintf("r-%d", ((n-1)*7)%n), seen[0])
	all, err := s.ListRuns(ctx, ledger.Page{Limit: -5, Offset: -5})
	require.NoError(t, err)
	require.Len(t, all, n)
	none, err := s.Records(ctx, 0, -1)
	require.NoError(t, err)
	require.Empty(t, none)
	pending, err := s.Pending(ctx, math.MaxInt32)
	require.NoError(t, err)
	require.Len(t, pending, 3*n)
}

// ahead: a task whose signer's clock is ahead of the store's is executed no
// earlier than it was signed.
func ahead(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	for i, later := range []time.Duration{0, time.Hour, time.Hour + 1, time.Hour + 999_999, 24*time.Hour - 1} {
		id := fmt.Sprint("i-", i)
		signedAt := time.Now().UTC().Truncate(time.Second).Add(later)
		got, err := s.Authorize(ctx, run(), Ask(id, "a"), func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := Rule(ledger.Approve)(st)
			if r.Signature.SignedAt = signedAt; later == 0 {
				r.Signature.SignedAt = st.At.Time()
			}
			return r, err
		})
		require.NoError(t, err)
		_, err = s.Claim(ctx, id, got.Decision.ID, "token", time.Minute)
		require.NoError(t, err)
		_, err = s.Settle(ctx, id, settled(1, "ok"))
		require.NoError(t, err)
		have, err := s.Task(ctx, got.Decision.ID)
		require.NoError(t, err)
		require.False(t, have.(task.Executed).ExecutedAt.Before(signedAt))
	}
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}

// places: a batch is the next entries in their order, each once, at the size
// that the log has.
func places(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	for i := range 6 {
		_, err := s.Append(ctx, ledger.Draft{Chain: "snapshots/c", Key: fmt.Sprint(i), Kind: ledger.SnapshotTaken, Data: json.RawMessage(`{}`)})
		require.NoError(t, err)
	}
	pending, err := s.Pending(ctx, 100)
	require.NoError(t, err)
	require.Len(t, pending, 6)
	h := func(i int) ledger.Hash { return pending[i].Hash }
	conflict := func(size int64, batch ...ledger.Hash) {
		t.Helper()
		require.ErrorIs(t, s.Integrate(ctx, size, batch, nil, []byte("x")), ledger.ErrConflict)
	}
	conflict(1, h(0))
	conflict(0, h(1), h(0))
	conflict(0, h(0), h(0))
	conflict(0, h(0), ledger.Hash{1})
	checkpoint, err := Key(t).Sign(ledger.Checkpoint{Origin: Origin, Size: 2})
	require.NoError(t, err)
	require.NoError(t, s.Integrate(ctx, 0, []ledger.Hash{h(0), h(1)}, nil, checkpoint))
	conflict(0, h(2))
	conflict(2, h(1))
	conflict(2, h(0), h(2))
	again, err := s.Pending(ctx, 100)
	require.NoError(t, err)
	require.Equal(t, pending[2:], again)
}
