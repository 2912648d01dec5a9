package stage

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// Signer is a person with a key, and the role in which it signs.
type Signer struct {
	ID   string
	Key  *trust.Key
	Role string
	// Secret is the key in PEM.
	Secret []byte
}

// Enrol states that a person with a key of a type may approve in roles. The signer's id is
// "PERSON-key", in small letters.
func (d *Deployment) Enrol(t testing.TB, l ledger.Store, sigType, person string, roles ...string) Signer {
	t.Helper()
	key, secret, err := trust.NewKey()
	require.NoError(t, err)
	s := Signer{ID: strings.ToLower(person) + "-key", Key: key, Role: roles[0], Secret: secret}
	d.State(t, l, &trust.EnrollSigner{
		ID: s.ID, Person: person, Roles: roles, SigType: sigType, PublicKey: key.Public(),
		NotBefore: ledger.At(time.Now().Add(-time.Hour)), NotAfter: ledger.At(time.Now().Add(time.Hour)),
	})
	return s
}

// Asked waits until the ledger has so many barriers at which people are asked about a run, and
// returns them.
func Asked(t testing.TB, l ledger.Store, run client.WorkflowRun, barriers int) (all []ledger.Barrier) {
	t.Helper()
	Until(t, "people are asked", func() bool {
		open, err := l.ListBarriers(t.Context(), ledger.BarrierOpen, ledger.Page{})
		require.NoError(t, err)
		all = nil
		for _, b := range open {
			if b.Workflow == run.GetID() {
				all = append(all, b)
			}
		}
		return len(all) == barriers
	})
	return all
}

// Sign makes a signature for a barrier. change, if not nil, changes what is signed.
func (s Signer) Sign(t testing.TB, b ledger.Barrier, d approval.Decision, change func(*approval.Payload)) json.RawMessage {
	t.Helper()
	r, digest, err := approval.Of(&b)
	require.NoError(t, err)
	p := r.Payload(digest, d)
	nonce := make([]byte, 16)
	_, err = rand.Read(nonce)
	require.NoError(t, err)
	now := time.Now()
	p.Signer, p.Role, p.Nonce, p.Issued, p.NotBefore, p.Expires = s.ID, s.Role, hex.EncodeToString(nonce), ledger.At(now), ledger.At(now.Add(-time.Second)), r.Expires
	switch {
	case d == approval.Reject:
		p.Reason = "not today"
	case d.States():
		p.Reason = "I have looked"
	}
	if change != nil {
		change(&p)
	}
	e, err := p.Unsigned()
	require.NoError(t, err)
	require.NoError(t, e.Sign(s.Key))
	raw, err := e.Encode()
	require.NoError(t, err)
	return raw
}
