package audit_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/sqlite"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestAuthority: what admins have stated is verified from the bootstrap of the
// trust file on, and what nobody has stated is found.
func TestAuthority(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(ctx context.Context, s ledger.Store) error
		says string
	}{
		"nothing else": {func(context.Context, ledger.Store) error { return nil }, ""},
		"an agent that nobody has stated": {func(ctx context.Context, s ledger.Store) error {
			return s.AddAgent(ctx, ledger.Agent{AgentID: "mallory"})
		}, "the agent \"mallory\" is not in the store as the admins have stated it"},
		"a signer that nobody has stated": {func(ctx context.Context, s ledger.Store) error {
			return s.EnrollSigner(ctx, ledger.Signer{ID: "mallory", Roles: []string{"cfo"}})
		}, "no statement of the admins has enrolled the signer"},
		"a forged statement": {func(ctx context.Context, s ledger.Store) error {
			have, err := s.Authority(ctx)
			if err != nil {
				return err
			}
			return s.StateAuthority(ctx, json.RawMessage(`{"payload":"forged"}`), plan.DigestOf(have[0]))
		}, "statement 2:"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			secret, public, err := ledger.NewKey("example.com/log")
			require.NoError(t, err)
			key, err := ledger.ParseKey(secret)
			require.NoError(t, err)
			s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: key.Name()})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			admin, _, err := trust.NewKey()
			require.NoError(t, err)
			b, err := trust.DevBootstrap("example", "me", admin, trust.LogKey{Origin: key.Name(), Key: public}, time.Unix(0, 0))
			require.NoError(t, err)
			start, err := trust.Start(b)
			require.NoError(t, err)
			e, err := start.Draft(time.Unix(1, 0), &trust.AddAgent{AgentID: "bot", Owner: "me", Keys: []string{}}).Envelope(admin)
			require.NoError(t, err)
			raw, err := e.Encode()
			require.NoError(t, err)
			_, err = trust.Publish(ctx, s, b, raw, time.Unix(1, 0))
			require.NoError(t, err)
			require.NoError(t, c.do(ctx, s))
			q := &ledger.Sequencer{Store: s, Key: key}
			_, err = q.Integrate(ctx)
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "export")
			_, err = audit.Export(ctx, s, dir)
			require.NoError(t, err)

			file, err := json.Marshal(audit.Trust{Format: audit.TrustFormat, Origin: key.Name(), Log: public, Audience: "dev", Bootstrap: b})
			require.NoError(t, err)
			trusted, err := audit.ParseTrust(file)
			require.NoError(t, err)
			r, err := audit.Verify(dir, trusted, nil)
			require.NoError(t, err)
			if c.says == "" {
				require.True(t, r.OK, "%+v", r.Problems)
			} else {
				require.False(t, r.OK)
				require.Equal(t, audit.BadAuthority, r.Problems[0].Kind)
				require.Contains(t, r.Problems[0].Message, c.says)
			}

			// Another bootstrap confirms none of it; without one the report says so.
			other, err := trust.DevBootstrap("another", "me", admin, b.Log, time.Unix(0, 0))
			require.NoError(t, err)
			trusted.Bootstrap = other
			r, err = audit.Verify(dir, trusted, nil)
			require.NoError(t, err)
			require.False(t, r.OK)
			trusted.Bootstrap = nil
			r, err = audit.Verify(dir, trusted, nil)
			require.NoError(t, err)
			require.NotEmpty(t, r.Warnings)
		})
	}
}
