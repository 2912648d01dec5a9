package postgres_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
)

// byRole is a store that does everything as the database user that does it in a deployment, and
// what only the owner does as the owner.
type byRole struct {
	ledger.Store
	engine, guardian, effects, applier, publisher ledger.Store
}

func (r byRole) PublishPlan(ctx context.Context, p ledger.Plan) (ledger.Plan, error) {
	return r.publisher.PublishPlan(ctx, p)
}

func (r byRole) OpenRun(ctx context.Context, x ledger.Run) error {
	return r.engine.OpenRun(ctx, x)
}

func (r byRole) RecordOutcomes(ctx context.Context, w, root string, o []ledger.Outcome) error {
	return r.engine.RecordOutcomes(ctx, w, root, o)
}

func (r byRole) CloseRun(ctx context.Context, x ledger.Run, l []ledger.Outcome) (ledger.Run, bool, error) {
	return r.engine.CloseRun(ctx, x, l)
}

func (r byRole) RecordOrder(ctx context.Context, w, root string, o ledger.Order) error {
	return r.engine.RecordOrder(ctx, w, root, o)
}

func (r byRole) AddAgent(ctx context.Context, a ledger.Agent) error {
	return r.applier.AddAgent(ctx, a)
}

func (r byRole) EnrollSigner(ctx context.Context, a ledger.Signer) error {
	return r.applier.EnrollSigner(ctx, a)
}

func (r byRole) RevokeSigner(ctx context.Context, id string) error {
	return r.applier.RevokeSigner(ctx, id)
}

func (r byRole) RegisterTool(ctx context.Context, a ...ledger.Tool) error {
	return r.applier.RegisterTool(ctx, a...)
}

func (r byRole) TrustTools(ctx context.Context, status string, ids ...string) error {
	return r.applier.TrustTools(ctx, status, ids...)
}

func (r byRole) SetBudget(ctx context.Context, b ledger.Budget) error {
	return r.guardian.SetBudget(ctx, b)
}

func (r byRole) OpenHold(ctx context.Context, h ledger.Hold) (ledger.Hold, error) {
	return r.guardian.OpenHold(ctx, h)
}

func (r byRole) PostHold(ctx context.Context, id string, m ledger.Money) (ledger.Hold, error) {
	return r.guardian.PostHold(ctx, id, m)
}

func (r byRole) VoidHold(ctx context.Context, id string) (ledger.Hold, error) {
	return r.guardian.VoidHold(ctx, id)
}

func (r byRole) ExpireHolds(ctx context.Context) (int, error) {
	return r.guardian.ExpireHolds(ctx)
}

func (r byRole) Authorize(ctx context.Context, run ledger.Run, a ledger.Authorization, j func(ledger.Standing) (ledger.Ruling, error)) (ledger.Authorized, error) {
	return r.guardian.Authorize(ctx, run, a, j)
}

func (r byRole) Claim(ctx context.Context, id, d, tok string, du time.Duration) (ledger.Invocation, error) {
	return r.effects.Claim(ctx, id, d, tok, du)
}

func (r byRole) Settle(ctx context.Context, id string, e ledger.Effect) (ledger.Invocation, error) {
	if e.Orphaned {
		return r.guardian.Settle(ctx, id, e)
	}
	return r.effects.Settle(ctx, id, e)
}

func (r byRole) RecordCheck(ctx context.Context, run ledger.Run, c ledger.Check) (ledger.Check, error) {
	return r.effects.RecordCheck(ctx, run, c)
}

func (r byRole) Abandoned(ctx context.Context, l int) ([]ledger.Invocation, error) {
	return r.guardian.Abandoned(ctx, l)
}

func (r byRole) OpenBarrier(ctx context.Context, run ledger.Run, b ledger.Barrier) (ledger.Barrier, error) {
	return r.guardian.OpenBarrier(ctx, run, b)
}

func (r byRole) CloseBarrier(ctx context.Context, id string, e ledger.BarrierState, re string) (ledger.Barrier, error) {
	return r.guardian.CloseBarrier(ctx, id, e, re)
}

func (r byRole) ApproveBarrier(ctx context.Context, id, re string, e bool) (ledger.Barrier, error) {
	return r.guardian.ApproveBarrier(ctx, id, re, e)
}

func (r byRole) RemindBarrier(ctx context.Context, id string) (ledger.Barrier, error) {
	return r.guardian.RemindBarrier(ctx, id)
}

func (r byRole) EscalateBarrier(ctx context.Context, id string) (ledger.Barrier, error) {
	return r.guardian.EscalateBarrier(ctx, id)
}

func (r byRole) RecordApproval(ctx context.Context, run ledger.Run, a ledger.Approval) error {
	return r.guardian.RecordApproval(ctx, run, a)
}

func (r byRole) StateHypothesis(ctx context.Context, h ledger.Hypothesis) error {
	return r.guardian.StateHypothesis(ctx, h)
}

func (r byRole) ObserveHypothesis(ctx context.Context, id string, o json.RawMessage) error {
	return r.effects.ObserveHypothesis(ctx, id, o)
}

func (r byRole) TakeSnapshot(ctx context.Context, s ledger.Snapshot) error {
	return r.effects.TakeSnapshot(ctx, s)
}

func (r byRole) StateAuthority(ctx context.Context, s json.RawMessage, p string) error {
	return r.applier.StateAuthority(ctx, s, p)
}

func (r byRole) Integrate(ctx context.Context, size int64, b []ledger.Hash, ti []ledger.Tile, cp []byte) error {
	return r.engine.Integrate(ctx, size, b, ti, cp)
}

func (r byRole) SetAside(ctx context.Context, rows []ledger.Aside) error {
	return r.engine.SetAside(ctx, rows)
}

func (r byRole) Recover(ctx context.Context, a int64) (int, int64, error) {
	return r.engine.Recover(ctx, a)
}

func (r byRole) AddCosignatures(ctx context.Context, c []byte) error {
	return r.engine.AddCosignatures(ctx, c)
}

func (r byRole) Prune(ctx context.Context, c ledger.Class, b time.Time, re string) (int, error) {
	return r.engine.Prune(ctx, c, b, re)
}

func (r byRole) Retain(ctx context.Context, p ledger.Policy, re string) (map[ledger.Class]int, error) {
	return r.engine.Retain(ctx, p, re)
}

// TestSuiteByRole: the roles have the rights that the store's suite needs.
func TestSuiteByRole(t *testing.T) {
	lengthy.Skip(t)
	ledgertest.Run(t, func(t testing.TB) ledgertest.Open {
		o, _ := migrated(t, "granted", granting)
		o.Connections = 2
		r := postgres.DefaultRoles
		all := byRole{nil, as(t, o, r.Engine), as(t, o, r.Guardian), as(t, o, r.Effects), as(t, o, r.Applier), as(t, o, r.Publisher)}
		return func(t testing.TB) ledger.Store {
			s, err := postgres.Open(t.Context(), o)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			own := all
			own.Store = s
			return own
		}
	})
}
