package trust

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
)

// TestOneKeyHasOneRole: in production, whichever role came first, and also if it was taken back.
func TestOneKeyHasOneRole(t *testing.T) {
	w := newWorld(t)
	key := newPublic(t)
	signer := func(id string, a Audience) *EnrollSigner {
		of := &EnrollSigner{ID: id, Person: "dana", Roles: []string{"finance"}, SigType: SigToken, PublicKey: key, NotBefore: at(0), NotAfter: at(99)}
		if a == Dev {
			of.SigType = SigDev
		}
		return of
	}
	type role struct {
		name, how string
		acts      func(Audience) []Act
	}
	roles := []role{
		{"admin", "", func(Audience) []Act {
			return []Act{&SetAdmins{[]Admin{w.b.Admins[0], w.b.Admins[2], {"hal", "hal", key}}, 2}}
		}},
		{"signer", "", func(a Audience) []Act { return []Act{signer("s", a)} }},
		{"signer", "revoked", func(a Audience) []Act { return []Act{signer("r", a), &RevokeSigner{"r"}} }},
		{"publisher", "", func(Audience) []Act { return []Act{&AddPublisher{"p", "fay", key, []string{"plans"}, nil}} }},
		{"guardian", "", func(Audience) []Act { return []Act{&AddGuardian{"g", key}} }},
		{"guardian", "revoked", func(Audience) []Act { return []Act{&AddGuardian{"h", key}, &RevokeGuardian{"h"}} }},
		{"agent", "", func(Audience) []Act { return []Act{&AddAgent{AgentID: "a", Owner: "cleo", Keys: []string{key}}} }},
		{"agent", "with new keys", func(Audience) []Act { return []Act{agent("b"), &SetAgentKeys{AgentID: "b", Keys: []string{key}}} }},
		{"log", "", func(Audience) []Act { return []Act{&RotateLog{LogKey{"example.com/log", noted(t, key)}}} }},
	}
	dev := *w.b
	dev.Audience = Dev
	inDev, err := Start(&dev)
	require.NoError(t, err)
	for _, first := range roles {
		for _, second := range roles {
			t.Run(first.name+first.how+", "+second.name+second.how, func(t *testing.T) {
				require.NoError(t, w.state().Try(first.acts(Prod)...))
				err := w.state().Try(append(first.acts(Prod), second.acts(Prod)...)...)
				switch {
				case first.name != second.name:
					require.ErrorContains(t, err, "a key has one role")
					require.NoError(t, inDev.Try(append(first.acts(Dev), second.acts(Dev)...)...))
				case first.how == second.how && first.name != "admin":
					require.ErrorIs(t, err, ErrInvalid, "it is there already")
				case first.name == "signer" || first.name == "guardian":
					require.ErrorContains(t, err, "the key is that of the "+first.name)
				default:
					require.NoError(t, err, "a service may act for several agents")
				}
			})
		}
	}
	both := *w.b
	both.Log.Key = noted(t, both.Admins[0].Key)
	require.ErrorContains(t, both.Check(), "the key of the admin ada-1 is that of the log")
	both.Audience = Dev
	require.NoError(t, both.Check())
}

// noted writes an Ed25519 key as logs do.
func noted(t *testing.T, key string) string {
	der, err := base64.StdEncoding.DecodeString(key)
	require.NoError(t, err)
	public, err := x509.ParsePKIXPublicKey(der)
	require.NoError(t, err)
	text, err := note.NewEd25519VerifierKey("example.com/log", public.(ed25519.PublicKey))
	require.NoError(t, err)
	return text
}
