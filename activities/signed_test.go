package activities

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// signing is a store with one barrier. It notes the signatures that are recorded.
type signing struct {
	GuardianStore
	barrier  ledger.Barrier
	recorded []ledger.Approval
}

func (s *signing) Barrier(_ context.Context, id string) (ledger.Barrier, error) {
	if id != s.barrier.ID {
		return ledger.Barrier{}, ledger.ErrNotFound
	}
	return s.barrier, nil
}

func (s *signing) Approvals(context.Context, string, ledger.Page) ([]ledger.Approval, error) {
	return nil, nil
}

func (s *signing) RecordApproval(_ context.Context, _ ledger.Run, a ledger.Approval) error {
	s.recorded = append(s.recorded, a)
	return nil
}

// TestASignatureIsForItsRun: a run takes the signatures of its own barriers. What is signed at a
// barrier of another run is recorded as refused, without what it says of itself, also if the
// other run had the same workflow id.
func TestASignatureIsForItsRun(t *testing.T) {
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	now := time.Now()
	state := trust.State{Deployment: "d", Audience: trust.Dev, Signers: map[string]trust.Signer{"ada": {
		EnrollSigner: trust.EnrollSigner{
			ID: "ada", Person: "ada", Roles: []string{"editor"}, SigType: trust.SigDev, PublicKey: key.Public(),
			NotBefore: ledger.At(now.Add(-time.Hour)), NotAfter: ledger.At(now.Add(time.Hour)),
		}, Now: []string{"editor"},
	}}}
	own := ledger.Run{Workflow: "w", Root: "r2", Origin: "r2"}
	for name, c := range map[string]struct {
		of    ledger.Run
		count bool
	}{
		"its own":                         {own, true},
		"one before a reset":              {ledger.Run{Workflow: "w", Root: "r3", Origin: "r2"}, true},
		"an earlier run of the same id":   {ledger.Run{Workflow: "w", Root: "r1", Origin: "r1"}, false},
		"a run of another id":             {ledger.Run{Workflow: "x", Root: "r2", Origin: "r2"}, false},
		"a run whose id begins like this": {ledger.Run{Workflow: "w2", Root: "r2", Origin: "r2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &signing{}
			g := &Guardian{Acting: &Acting{Namespace: "default"}, Store: s}
			id := g.barrierID(state, &c.of, "node/pay") + "/1"
			r := approval.Request{
				Deployment: "d", Audience: trust.Dev, Namespace: "default", Workflow: c.of.Workflow, Origin: c.of.Origin, Barrier: id, Name: "node/pay",
				Rule:    approval.Rule{Groups: []plan.Group{{Role: "editor", Min: 1}}, Excluded: []string{}},
				Actions: []approval.Action{{Node: "pay", Operation: "bank/pay", Invocation: "i", Action: plan.DigestOf(nil), Decision: "i/1"}},
				Opened:  ledger.At(now.Add(-time.Minute)), Expires: ledger.At(now.Add(time.Hour)),
			}
			raw, err := r.Encode()
			require.NoError(t, err)
			s.barrier = ledger.Barrier{ID: id, Name: "node/pay", Workflow: c.of.Workflow, Root: c.of.Root, State: ledger.BarrierOpen, Request: raw, ExpiresAt: r.Expires}
			parsed, digest, err := approval.ParseRequest(raw)
			require.NoError(t, err)
			p := parsed.Payload(digest, approval.Approve)
			p.Signer, p.Role, p.Nonce = "ada", "editor", strings.Repeat("0f", 16)
			p.Issued, p.NotBefore, p.Expires = ledger.At(now), ledger.At(now.Add(-time.Second)), r.Expires
			e, err := p.Unsigned()
			require.NoError(t, err)
			require.NoError(t, e.Sign(key))
			envelope, err := e.Encode()
			require.NoError(t, err)

			v, err := g.receive(t.Context(), state, &own, envelope)
			require.NoError(t, err)
			require.Equal(t, c.count, v.Accepted, v.Detail)
			require.Len(t, s.recorded, 1)
			require.Equal(t, c.count, s.recorded[0].Accepted)
			if c.count {
				require.Equal(t, id, s.recorded[0].Barrier)
				return
			}
			require.Equal(t, string(approval.Foreign), v.Code)
			require.Equal(t, "none/r2", s.recorded[0].Barrier)
			require.Empty(t, s.recorded[0].Signer)
			require.Empty(t, s.recorded[0].Actions)
		})
	}
}
