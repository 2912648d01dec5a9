package review_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
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

// TestManyBarriers: a thousand barriers are listed, for one signer, too, and what is asked of the
// store does not grow with each.
func TestManyBarriers(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			barriers := 1000
			if testing.Short() {
				barriers = 100
			}
			r, fay := wait(t, s, barriers)
			c := &counted{Store: s}
			r.Ledger = c
			lent := lends(t, r.State, fay, "leo-key", func(*approval.Delegation) {})
			useless := [][]byte{
				nil, lends(t, r.State, fay, "eve-key", func(*approval.Delegation) {}),
				lends(t, r.State, fay, "leo-key", func(d *approval.Delegation) { d.Agents = []string{"another"} }),
				lends(t, r.State, fay, "leo-key", func(d *approval.Delegation) { d.Roles = []string{"editor"} }),
				lends(t, r.State, fay, "leo-key", func(d *approval.Delegation) { d.Expires = d.NotBefore }),
			}
			list, err := r.List(t.Context(), ledger.BarrierOpen, ledger.Page{Limit: barriers})
			require.NoError(t, err)
			require.Len(t, list, barriers)
			require.LessOrEqual(t, c.asked, 3)
			for i := range list {
				require.Equal(t, fmt.Sprintf("b-%04d", i), list[i].Barrier.ID)
				waits(t, r, &list[i], "eve-key", "no") // she has signed it
				waits(t, r, &list[i], "fay-key", "yes")
				waits(t, r, &list[i], "leo-key", "no")
				waits(t, r, &list[i], "leo-key", "no", useless...)
				waits(t, r, &list[i], "leo-key", "for fay-key", append(useless, lent)...)
				waits(t, r, &list[i], "fay-key", "yes", lent)
				waits(t, r, &list[i], "eve-key", "no", useless...)
				require.Equal(t, []plan.Group{{Role: "finance", Min: 1}}, list[i].Tally.Missing)
			}

			c.asked = 0
			one, err := r.Find(t.Context(), "b-0007")
			require.NoError(t, err)
			require.Len(t, one.Votes, 1)
			require.LessOrEqual(t, c.asked, 2)
		})
	}
}

// waits expects that a barrier waits for a signer, "yes" or "no", or for whom else that signs.
func waits(t *testing.T, r *review.Reader, o *review.Open, signer, want string, delegations ...[]byte) {
	t.Helper()
	by, ok := o.Waits(r.State, signer, delegations...)
	switch {
	case by != "":
		require.True(t, ok)
		require.Equal(t, want, "for "+by)
	case ok:
		require.Equal(t, want, "yes")
	default:
		require.Equal(t, want, "no")
	}
}

// TestWaits: a barrier waits for everybody whose signature brings it nearer to its end, also in
// another role than one in which the person has signed.
func TestWaits(t *testing.T) {
	d := stage.Deploy(t, new(host.Options))
	s := stores["sqlite"](t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	ada := d.Enrol(t, s, trust.SigDev, "ada", "finance", "legal")
	d.Enrol(t, s, trust.SigDev, "ben", "finance")
	d.Enrol(t, s, trust.SigDev, "cleo", "legal")
	d.Enrol(t, s, trust.SigDev, "dan", "intern")
	d.Enrol(t, s, trust.SigDev, "rae", "finance", "legal")
	state, err := trust.Read(t.Context(), s, d.Root)
	require.NoError(t, err)
	lent := lends(t, state, ada, "dan-key", func(d *approval.Delegation) { d.Roles = []string{"finance", "legal"} })
	vote := func(role string, persons ...string) approval.Vote {
		return approval.Vote{ID: role + " by " + persons[0], Decision: approval.Approve, Role: role, Persons: persons}
	}
	known := func(v approval.Vote) approval.Vote { v.Decision = approval.NotExecuted; return v }
	both := []plan.Group{{Role: "finance", Min: 1}, {Role: "legal", Min: 1}}
	for _, c := range []struct {
		name   string
		kind   approval.Kind
		groups []plan.Group
		votes  []approval.Vote
		// want are those for whom it waits, with their roles: Dan has Ada's delegation.
		want map[string]string
	}{
		{"nobody has signed", "", both, nil, map[string]string{"ada": "finance", "ben": "finance", "cleo": "legal", "dan": "finance"}},
		{"the other role frees a seat", "", both, []approval.Vote{vote("finance", "ada")}, map[string]string{"ada": "legal", "cleo": "legal"}},
		{"the seat is free", "", both, []approval.Vote{vote("finance", "ada"), vote("legal", "ada")}, map[string]string{"ben": "finance", "cleo": "legal"}},
		{"another order", "", both, []approval.Vote{vote("legal", "ada"), vote("finance", "ada")}, map[string]string{"ben": "finance", "cleo": "legal"}},
		{"somebody else has signed", "", both, []approval.Vote{vote("finance", "ben")}, map[string]string{"ada": "legal", "cleo": "legal", "dan": "legal"}},
		{"another seat of the same role", "", []plan.Group{{Role: "finance", Min: 2}}, []approval.Vote{vote("finance", "ada")}, map[string]string{"ben": "finance"}},
		{"the other role is filled", "", []plan.Group{{Role: "finance", Min: 2}, {Role: "legal", Min: 1}}, []approval.Vote{vote("finance", "ada"), vote("legal", "cleo")}, map[string]string{"ben": "finance"}},
		{"Dan has signed for her", "", both, []approval.Vote{vote("finance", "dan", "ada")}, map[string]string{"ada": "legal", "cleo": "legal"}},
		{"all have signed", "", both, []approval.Vote{vote("finance", "ben"), vote("legal", "cleo")}, nil},
		{"of a call, too", approval.Outcome, both, []approval.Vote{known(vote("finance", "ada"))}, map[string]string{"ada": "legal", "cleo": "legal"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := review.Open{Votes: c.votes, Request: &approval.Request{
				Kind: c.kind, Deployment: state.Deployment, Audience: state.Audience, Agent: "tester",
				Rule: approval.Rule{Groups: c.groups, Excluded: []string{"rae"}},
			}}
			o.Tally = o.Request.Count(o.Votes)
			have := map[string]string{}
			for id, v := range state.Signers {
				var delegation []byte
				if id == "dan-key" {
					delegation = lent
				}
				role, by, ok := o.Role(state, id, delegation)
				require.Equal(t, ok && id == "dan-key", by == "ada-key")
				if ok {
					have[strings.ToLower(v.Person)] = role
				}
				_, waits := o.Waits(state, id, lent)
				require.Equal(t, ok, waits)
			}
			if len(have) == 0 {
				have = nil
			}
			require.Equal(t, c.want, have)
		})
	}
}

// lends returns a delegation by which another signs for finance.
func lends(t *testing.T, s trust.State, by stage.Signer, delegate string, edit func(*approval.Delegation)) []byte {
	t.Helper()
	d := approval.Delegation{
		Deployment: s.Deployment, Audience: s.Audience, Delegator: by.ID, Delegate: delegate, Roles: []string{"finance"}, Nonce: strings.Repeat("0a", 16),
		NotBefore: ledger.At(time.Now().Add(-time.Minute)), Expires: ledger.At(time.Now().Add(30 * time.Minute)),
	}
	edit(&d)
	e, err := d.Unsigned()
	require.NoError(t, err)
	require.NoError(t, e.Sign(by.Key))
	raw, err := e.Encode()
	require.NoError(t, err)
	return raw
}

// wait opens barriers at which an editor has signed, and finance has not, and returns a reader
// of them, and who may sign for finance.
func wait(t *testing.T, s ledger.Store, barriers int) (*review.Reader, stage.Signer) {
	t.Helper()
	d := stage.Deploy(t, new(host.Options))
	eve := d.Enrol(t, s, trust.SigDev, "eve", "editor")
	fay := d.Enrol(t, s, trust.SigDev, "fay", "finance")
	d.Enrol(t, s, trust.SigDev, "leo", "legal")
	state, err := trust.Read(t.Context(), s, d.Root)
	require.NoError(t, err)
	run := ledger.Run{
		Workflow: "w", Root: "r", Origin: "r", PlanDigest: plan.DigestOf([]byte("plan")), PlanName: "pay", PlanVersion: "1.0",
		Agent: "tester", Requester: "rae", InputDigest: plan.DigestOf([]byte("input")),
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
			Agent: "tester", Requester: "rae", Text: plan.DigestOf([]byte(id)), Renderer: approval.Renderer, Opened: ledger.At(now), Expires: expires,
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
	return &review.Reader{State: state, Namespace: "default"}, fay
}
