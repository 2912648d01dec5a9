package trust_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/sqlite"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// deployment is one of development: a bootstrap, its admin, and a real store.
func deployment(t *testing.T) (ledger.Store, *trust.Bootstrap, *trust.Key) {
	ctx := context.Background()
	_, log, err := ledger.NewKey("example.com/log")
	require.NoError(t, err)
	s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: "example.com/log"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	admin, _, err := trust.NewKey()
	require.NoError(t, err)
	b, err := trust.DevBootstrap("example", "dev", admin, trust.LogKey{Origin: "example.com/log", Key: log}, time.Unix(0, 0))
	require.NoError(t, err)
	return s, b, admin
}

func publish(t *testing.T, s ledger.Store, b *trust.Bootstrap, admin *trust.Key, acts ...trust.Act) trust.State {
	t.Helper()
	ctx := context.Background()
	state, err := trust.Read(ctx, s, b)
	require.NoError(t, err)
	e, err := state.Draft(time.Unix(1, 0), acts...).Envelope(admin)
	require.NoError(t, err)
	raw, err := e.Encode()
	require.NoError(t, err)
	next, err := trust.Publish(ctx, s, b, raw, time.Unix(2, 0))
	require.NoError(t, err)
	again, err := trust.Publish(ctx, s, b, raw, time.Unix(2, 0))
	require.NoError(t, err, "it may be repeated")
	require.Equal(t, next, again)
	return next
}

func TestPublish(t *testing.T) {
	ctx := context.Background()
	s, b, admin := deployment(t)
	usd := func(n int64) ledger.Money {
		m, err := ledger.Minor(n, "USD")
		require.NoError(t, err)
		return m
	}
	print := plan.DigestOf([]byte("tool"))
	require.NoError(t, s.RegisterTool(ctx, ledger.Tool{ToolID: "mail/send", Name: "send", Version: "1", Schema: json.RawMessage(`{}`), Fingerprint: print, Status: "manual_review"}))
	require.NoError(t, s.RegisterTool(ctx, ledger.Tool{ToolID: "mail/read", Name: "read", Version: "1", Schema: json.RawMessage(`{}`), Fingerprint: print, Status: "manual_review"}))
	publish(t, s, b, admin, &trust.AddAgent{AgentID: "zed", Owner: "me", Keys: []string{}}, &trust.AddAgent{AgentID: "bot", Owner: "me", PersonaRef: "p", Keys: []string{}},
		&trust.SetBudget{Agent: "zed", Currency: "USD", Every: ledger.Forever, Limit: usd(500)},
		&trust.SetBudget{Agent: "bot", Currency: "USD", Parent: "zed", Every: ledger.Forever, Limit: usd(100)},
		&trust.EnrollSigner{ID: "s1", Person: "dana", Roles: []string{"risk"}, SigType: "dev", PublicKey: admin.Public(), NotBefore: ledger.At(time.Unix(0, 0)), NotAfter: ledger.At(time.Unix(9, 0))},
		&trust.TrustTool{ToolID: "mail/send", Fingerprint: print, Status: "allow_auto"}, &trust.TrustTool{ToolID: "not/imported", Fingerprint: print, Status: "allow_auto"})
	state := publish(t, s, b, admin, &trust.GrantRoles{Signer: "s1", Roles: []string{"cfo"}}, &trust.SetBudget{Agent: "bot", Currency: "USD", Parent: "zed", Every: ledger.Forever, Limit: usd(70)})
	require.Equal(t, 2, state.N)
	read, err := trust.Read(ctx, s, b)
	require.NoError(t, err)
	require.Equal(t, state, read)

	signer, err := trust.Enrolled(ctx, s, state, "s1")
	require.NoError(t, err)
	require.Equal(t, []string{"cfo", "risk"}, signer.Roles)
	_, err = trust.Known(ctx, s, state, "bot")
	require.NoError(t, err)
	tool, err := trust.Trusted(ctx, s, state, "mail/send")
	require.NoError(t, err)
	require.Equal(t, "allow_auto", tool.Status)
	key := trust.BudgetKey{Agent: "bot", Currency: "USD"}
	budget, err := trust.Limited(ctx, s, state, key)
	require.NoError(t, err)
	require.Equal(t, usd(70), budget.Limit)

	// Rows that nobody has stated are refused.
	require.NoError(t, s.AddAgent(ctx, ledger.Agent{AgentID: "mallory"}))
	_, err = trust.Known(ctx, s, state, "mallory")
	require.ErrorIs(t, err, trust.ErrInvalid)
	require.NoError(t, s.EnrollSigner(ctx, ledger.Signer{ID: "s2", Person: "mallory", Roles: []string{"cfo"}}))
	_, err = trust.Enrolled(ctx, s, state, "s2")
	require.ErrorIs(t, err, trust.ErrInvalid)
	require.NoError(t, s.TrustTools(ctx, "allow_auto", "mail/read"))
	_, err = trust.Trusted(ctx, s, state, "mail/read")
	require.ErrorIs(t, err, trust.ErrInvalid)
	require.NoError(t, s.SetBudget(ctx, ledger.Budget{Agent: "bot", Currency: "USD", Parent: "zed", Every: ledger.Forever, Limit: usd(9999)}))
	_, err = trust.Limited(ctx, s, state, key)
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, err = trust.Known(ctx, s, state, "nobody")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.NoError(t, trust.Apply(ctx, s, state))
	_, err = trust.Limited(ctx, s, state, key)
	require.NoError(t, err, "applied again, the limit is as it was stated")

	state = publish(t, s, b, admin, &trust.RevokeSigner{ID: "s1"})
	signer, err = trust.Enrolled(ctx, s, state, "s1")
	require.NoError(t, err)
	require.NotNil(t, signer.RevokedAt)
}

func TestPublishRefuses(t *testing.T) {
	ctx := context.Background()
	s, b, admin := deployment(t)
	first := publish(t, s, b, admin, &trust.AddAgent{AgentID: "bot", Owner: "me", Keys: []string{}})
	sign := func(st *trust.Statement) []byte {
		e, err := st.Envelope(admin)
		require.NoError(t, err)
		raw, err := e.Encode()
		require.NoError(t, err)
		return raw
	}
	late := first.Draft(time.Unix(1, 0), &trust.AddAgent{AgentID: "late", Owner: "me", Keys: []string{}})
	end := ledger.At(time.Unix(3, 0))
	late.Expires = &end
	_, err := trust.Publish(ctx, s, b, sign(late), time.Unix(4, 0))
	require.ErrorContains(t, err, "has expired")
	_, err = s.Agent(ctx, "late")
	require.ErrorIs(t, err, ledger.ErrNotFound)

	start, err := trust.Start(b)
	require.NoError(t, err)
	_, err = trust.Publish(ctx, s, b, sign(start.Draft(time.Unix(1, 0), &trust.AddAgent{AgentID: "x", Owner: "me", Keys: []string{}})), time.Unix(4, 0))
	require.ErrorContains(t, err, "it is number 1, not 2")

	// A row that only the database has breaks the chain for every reader.
	list, err := s.Authority(ctx)
	require.NoError(t, err)
	require.NoError(t, s.StateAuthority(ctx, json.RawMessage(`{"payload":"forged"}`), plan.DigestOf(list[0])))
	_, err = trust.Read(ctx, s, b)
	var p trust.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, 2, p.N)
}
