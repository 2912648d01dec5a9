package authority_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// TestSigners: only who was enrolled by a statement, and is in the store as stated, counts,
// with the roles of now.
func TestSigners(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	enroll := func(id string) *trust.EnrollSigner {
		return &trust.EnrollSigner{
			ID: id, Person: "carol", Roles: []string{"cfo", "editor"}, SigType: trust.SigToken, PublicKey: newKey(t).Public(),
			NotBefore: ledger.At(now), NotAfter: ledger.At(now.Add(time.Hour)),
		}
	}
	list, s, err := w.Signers(t.Context())
	require.NoError(t, err)
	require.Zero(t, s.N)
	require.Equal(t, []authority.Signer{}, list)

	a, b, c, d := enroll("a"), enroll("b"), enroll("c"), enroll("d")
	w.state(t, a, b, c, d, &trust.GrantRoles{Signer: "a", Roles: []string{"auditor"}}, &trust.RevokeRoles{Signer: "a", Roles: []string{"cfo"}},
		&trust.RevokeRoles{Signer: "b", Roles: []string{"cfo", "editor"}}, &trust.RevokeSigner{ID: "c"})
	require.NoError(t, w.Ledger.RevokeSigner(t.Context(), "d"))
	row := ledger.Signer{ID: "e", Person: "eve", Roles: []string{"cfo"}, SigType: trust.SigDev, PublicKey: "key", NotBefore: ledger.At(now), NotAfter: ledger.At(now)}
	require.NoError(t, w.Ledger.EnrollSigner(t.Context(), row))
	list, s, err = w.Signers(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, s.N)

	want := func(said *trust.EnrollSigner, state authority.Standing, revoked *ledger.Time, roles ...string) authority.Signer {
		return authority.Signer{Signer: ledger.Signer{
			ID: said.ID, Person: said.Person, Roles: append([]string{}, roles...), SigType: said.SigType, PublicKey: said.PublicKey,
			NotBefore: said.NotBefore, NotAfter: said.NotAfter, RevokedAt: revoked,
		}, State: state}
	}
	require.Equal(t, []authority.Signer{
		want(a, authority.Stated, nil, "auditor", "editor"),
		want(b, authority.Stated, nil),
		want(c, authority.Revoked, &s.Issued, "cfo", "editor"),
		want(d, authority.Altered, nil, "cfo", "editor"),
		{Signer: row, State: authority.Unstated},
	}, list)
}

// TestSignersMissing: a statement that was not applied to the store's rows is told.
func TestSignersMissing(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	act := &trust.EnrollSigner{
		ID: "a", Person: "carol", Roles: []string{"cfo"}, SigType: trust.SigToken, PublicKey: newKey(t).Public(),
		NotBefore: ledger.At(now), NotAfter: ledger.At(now.Add(time.Hour)),
	}
	st, err := w.Propose(t.Context(), trust.Acts{act}, w.ada, w.ben)
	require.NoError(t, err)
	require.NoError(t, w.Ledger.StateAuthority(t.Context(), st.Envelope, ""))
	list, _, err := w.Signers(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, authority.Missing, list[0].State)

	_, err = w.Apply(t.Context(), st.Envelope)
	require.NoError(t, err)
	list, _, err = w.Signers(t.Context())
	require.NoError(t, err)
	require.Equal(t, authority.Stated, list[0].State)

	free := &authority.Authority{Ledger: w.Ledger}
	_, _, err = free.Signers(t.Context())
	require.ErrorIs(t, err, trust.ErrInvalid)
}
