package review_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/ledger/sqlite"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/review"
	"chimera.ai/engine/trust"
)

// counted counts what a reader asks the store.
type counted struct {
	ledger.Store
	asked int
}

func (c *counted) Barrier(ctx context.Context, id string) (ledger.Barrier, error) {
	c.asked++
	return c.Store.Barrier(ctx, id)
}

func (c *counted) ListBarriers(ctx context.Context, state ledger.BarrierState, page ledger.Page) ([]ledger.Barrier, error) {
	c.asked++
	return c.Store.ListBarriers(ctx, state, page)
}

func (c *counted) Accepted(ctx context.Context, barriers []string, page ledger.Page) ([]ledger.Approval, error) {
	c.asked++
	return c.Store.Accepted(ctx, barriers, page)
}

// stores are the stores that a deployment may have.
var stores = map[string]func(t *testing.T) ledger.Store{
	"sqlite": func(t *testing.T) ledger.Store {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin})
		require.NoError(t, err)
		return s
	},
	"postgres": func(t *testing.T) ledger.Store {
		o := postgres.Options{URL: pgtest.URL(t), Origin: ledgertest.Origin}
		_, err := postgres.Migrate(t.Context(), o)
		require.NoError(t, err)
		s, err := postgres.Open(t.Context(), o)
		require.NoError(t, err)
		return s
	},
}

// TestManyBarriers: what is asked of the store does not grow with each barrier that is listed.
func TestManyBarriers(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			const barriers = 1000
			r := wait(t, s, barriers)
			c := &counted{Store: s}
			r.Ledger = c
			begun := time.Now()
			list, err := r.List(t.Context(), ledger.BarrierOpen, ledger.Page{Limit: barriers})
			require.NoError(t, err)
			for i := range list {
				require.Equal(t, fmt.Sprintf("b-%04d", i), list[i].Barrier.ID)
				require.False(t, list[i].Waits(r.State, "eve-key"), "she has signed it")
				require.True(t, list[i].Waits(r.State, "fay-key"))
				require.Equal(t, []plan.Group{{Role: "finance", Min: 1}}, list[i].Tally.Missing)
			}
			t.Logf("%d barriers, of each one signature: %s, with %d queries", len(list), time.Since(begun).Round(time.Millisecond), c.asked)
			require.Len(t, list, barriers)
			require.LessOrEqual(t, c.asked, 3)

			c.asked = 0
			one, err := r.Find(t.Context(), "b-0007")
			require.NoError(t, err)
			require.Len(t, one.Votes, 1)
			require.LessOrEqual(t, c.asked, 2)
		})
	}
}

// wait opens barriers at which an editor has signed, and finance has not, and returns a reader
// of them.
func wait(t *testing.T, s ledger.Store, barriers int) *review.Reader {
	t.Helper()
	d := stage.Deploy(t, new(host.Options))
	eve := d.Enrol(t, s, trust.SigDev, "Eve", "editor")
	d.Enrol(t, s, trust.SigDev, "Fay", "finance")
	state, err := trust.Read(t.Context(), s, d.Root)
	require.NoError(t, err)
	run := ledger.Run{
		Workflow: "w", Root: "r", Origin: "r", PlanDigest: plan.DigestOf([]byte("plan")), PlanName: "pay", PlanVersion: "1.0",
		Agent: "tester", Requester: "Rae", InputDigest: plan.DigestOf([]byte("input")),
	}
	require.NoError(t, s.OpenRun(t.Context(), run))
	now := time.Now()
	for i := range barriers {
		id, expires := fmt.Sprintf("b-%04d", i), ledger.At(now.Add(time.Hour+time.Duration(i)*time.Second))
		got, err := s.Authorize(t.Context(), run, ledgertest.Ask(id, id), func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := ledgertest.Rule("ESCALATE")(st)
			r.Waits = &expires
			return r, err
		})
		require.NoError(t, err)
		q := approval.Request{
			Deployment: state.Deployment, Audience: state.Audience, Namespace: "default", Workflow: "w", Origin: "r", Barrier: id, Name: "post", Plan: run.PlanDigest, PlanName: "pay@1.0",
			Agent: "tester", Requester: "Rae", Text: plan.DigestOf([]byte(id)), Renderer: approval.Renderer, Opened: ledger.At(now), Expires: expires,
			Rule:    approval.Rule{Groups: []plan.Group{{Role: "editor", Min: 1}, {Role: "finance", Min: 1}}, Excluded: []string{"rae"}},
			Actions: []approval.Action{{Node: "post", Path: "post/1", Operation: "site/post", Effect: plan.Committing, Invocation: id, Action: got.Decision.ActionDigest, Decision: got.Decision.ID}},
		}
		raw, err := q.Encode()
		require.NoError(t, err)
		b, err := s.OpenBarrier(t.Context(), run, ledger.Barrier{
			ID: id, Name: "post", Request: raw, ExpiresAt: expires,
			Actions: []ledger.Awaited{{Invocation: id, Action: got.Decision.ActionDigest, Decision: got.Decision.ID}},
		})
		require.NoError(t, err)
		require.NoError(t, s.RecordApproval(t.Context(), run, ledger.Approval{
			ID: id, Barrier: id, Signer: eve.ID, Accepted: true, Actions: []string{got.Decision.ActionDigest}, Envelope: eve.Sign(t, b, approval.Approve, nil),
		}))
	}
	return &review.Reader{State: state, Namespace: "default"}
}
