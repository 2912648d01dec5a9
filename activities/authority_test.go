package activities_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// stated is an authority that says what a test wants.
type stated struct {
	state trust.State
	err   error
}

func (s *stated) State(context.Context) (trust.State, error) { return s.state, s.err }

// signer is a publisher of plans, and what says so.
func signer(t *testing.T) (*trust.Key, *stated) {
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	return key, &stated{state: trust.State{
		Deployment: "d", Audience: trust.Prod,
		Publishers: map[string]trust.Publisher{"fay": {AddPublisher: trust.AddPublisher{ID: "fay", Key: key.Public(), Uses: []string{trust.UsePlans}}}},
	}}
}

// TestLoadVerifiesTheAuthor: where there is a root of trust, a row counts only
// with the signature of a publisher; where there is none, only as what was asked
// for.
func TestLoadVerifiesTheAuthor(t *testing.T) {
	key, authority := signer(t)
	l := load(shape{}.plan(t))
	raw, err := l.plan.Encode()
	require.NoError(t, err)
	source := []byte("the source")
	row := ledger.Plan{Name: l.plan.Name, Version: l.plan.Version, Digest: plan.DigestOf(raw), SourceDigest: plan.DigestOf(source), Author: "fay"}
	ref := row.Name + "@" + row.Version
	signed := row
	signed.Signature, err = trust.SignPlan(key, trust.Plan{
		Deployment: "d", Audience: trust.Prod, Author: "fay", Name: row.Name, Version: row.Version, SourceDigest: row.SourceDigest, Digest: row.Digest,
	})
	require.NoError(t, err)
	l.books.blobs = map[string][]byte{row.SourceDigest: source}
	start := func(ref string, row ledger.Plan) *failure {
		l.books.plans = map[string]ledger.Plan{ref: row}
		_, f := l.start(t, fmt.Sprintf(`{"plan":%q}`, ref))
		return f
	}
	require.Nil(t, start(ref, row), "nothing says whom to trust")
	f := start("other@1", row)
	require.Equal(t, contract.Blocked, f.kind)
	require.Contains(t, f.message, "the store gives the plan")

	l.engine.Authority = authority
	require.Nil(t, start(ref, signed))
	require.Nil(t, start(row.Digest, signed))
	for want, f := range map[string]*failure{
		"without its author's signature": start(ref, row),
		"the store gives the plan":       start("other@1", signed),
	} {
		require.NotNil(t, f)
		require.Equal(t, contract.Blocked, f.kind)
		require.Contains(t, f.message, want)
		require.False(t, f.retried)
	}

	authority.err = fmt.Errorf("read authority: %w", ledger.ErrUnavailable)
	f = start(ref, signed)
	require.Equal(t, contract.StoreUnavailable, f.kind)
	require.True(t, f.retried, "nobody was lied to")
	authority.err = fmt.Errorf("read authority: %w", trust.ErrInvalid)
	f = start(ref, signed)
	require.Equal(t, contract.Blocked, f.kind)
	require.False(t, f.retried)
	_, f = l.start(t, `{"source":"the source"}`)
	require.Nil(t, f, "a source rests on no publication")
}
