package authority_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// world is a deployment of two admins, on a real store.
type world struct {
	*authority.Authority
	ada, ben *trust.Key
}

func newKey(t *testing.T) *trust.Key {
	k, _, err := trust.NewKey()
	require.NoError(t, err)
	return k
}

func newWorld(t *testing.T) world {
	dir := t.TempDir()
	opened, err := store.Open(t.Context(), store.Options{Dir: dir, Path: filepath.Join(dir, "ledger.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	w := world{ada: newKey(t), ben: newKey(t)}
	b := &trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: "example", Audience: trust.Prod, Quorum: 2, Issued: ledger.At(time.Now()),
		Admins: []trust.Admin{{ID: "ada", Person: "ada", Key: w.ada.Public()}, {ID: "ben", Person: "ben", Key: w.ben.Public()}},
		Log:    trust.LogKey{Origin: opened.Key.Name(), Key: opened.Key.Public()}, Witnesses: trust.Witnesses{Keys: []string{}},
	}
	require.NoError(t, b.Check())
	w.Authority = &authority.Authority{Bootstrap: b, Ledger: opened.Ledger}
	return w
}

// state has both admins state acts.
func (w world) state(t *testing.T, acts ...trust.Act) {
	s, err := w.Propose(t.Context(), acts, w.ada, w.ben)
	require.NoError(t, err)
	_, err = w.Apply(t.Context(), s.Envelope)
	require.NoError(t, err)
}

// TestStatement: what one admin proposes counts once the other has signed it, too.
func TestStatement(t *testing.T) {
	w := newWorld(t)
	acts := trust.Acts{&trust.AddAgent{AgentID: "bot", Owner: "ada", Keys: []string{}}}
	s, err := w.Propose(t.Context(), acts, w.ada)
	require.NoError(t, err)
	require.Equal(t, 1, s.N)
	require.Equal(t, []string{"ada"}, s.SignedBy)
	require.Equal(t, 1, s.Missing())
	_, err = w.Apply(t.Context(), s.Envelope)
	require.ErrorIs(t, err, trust.ErrInvalid)

	_, e, err := trust.ParseDraft(s.Envelope)
	require.NoError(t, err)
	require.NoError(t, e.Sign(w.ben))
	signed, err := e.Encode()
	require.NoError(t, err)
	for range 2 {
		applied, err := w.Apply(t.Context(), signed)
		require.NoError(t, err)
		require.Equal(t, s.Digest, applied.Digest)
		require.Equal(t, []string{"ada", "ben"}, applied.SignedBy)
		require.Zero(t, applied.Missing())
	}
	state, err := w.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, state.N)

	stranger := newKey(t)
	_, err = w.Propose(t.Context(), trust.Acts{&trust.AddAgent{AgentID: "other", Owner: "ada", Keys: []string{}}}, stranger)
	var key *authority.KeyError
	require.ErrorAs(t, err, &key)
	_, err = w.Propose(t.Context(), trust.Acts{&trust.RevokePublisher{ID: "nobody"}}, w.ada)
	require.ErrorIs(t, err, trust.ErrInvalid)
}

// TestApplyEach: statements are made one after the other, each signed by all who must; what counts
// before one that does not stays, and is applied.
func TestApplyEach(t *testing.T) {
	w := newWorld(t)
	add := func(id string) trust.Acts {
		return trust.Acts{&trust.AddAgent{AgentID: id, Owner: "ada", Keys: []string{}}}
	}
	made, err := w.ApplyEach(t.Context(), []trust.Acts{add("a"), add("b")}, w.ada)
	require.ErrorIs(t, err, trust.ErrInvalid)
	require.Empty(t, made)
	made, err = w.ApplyEach(t.Context(), []trust.Acts{add("a"), add("b")}, w.ada, w.ben)
	require.NoError(t, err)
	require.Len(t, made, 2)
	require.Equal(t, []int{1, 2}, []int{made[0].N, made[1].N})
	require.Equal(t, []string{"ada", "ben"}, made[1].SignedBy)
	made, err = w.ApplyEach(t.Context(), []trust.Acts{add("c"), add("a"), add("d")}, w.ada, w.ben)
	require.ErrorIs(t, err, trust.ErrInvalid)
	require.Len(t, made, 1)
	list, s, err := w.Agents(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, s.N)
	require.Len(t, list, 3)
	for _, a := range list {
		require.Equal(t, authority.Stated, a.State)
	}
	_, err = (&authority.Authority{Ledger: w.Ledger}).ApplyEach(t.Context(), []trust.Acts{add("e")}, w.ada)
	require.ErrorIs(t, err, trust.ErrInvalid)
}

// TestAgents: only what was stated and is in the store as it was stated counts.
func TestAgents(t *testing.T) {
	w := newWorld(t)
	w.state(t, &trust.AddAgent{AgentID: "bot", Owner: "ada", Keys: []string{}})
	require.NoError(t, w.Ledger.AddAgent(t.Context(), ledger.Agent{AgentID: "sly"}))
	list, s, err := w.Agents(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, s.N)
	require.Len(t, list, 2)
	require.Equal(t, "bot", list[0].AgentID)
	require.Equal(t, authority.Stated, list[0].State)
	require.Equal(t, "sly", list[1].AgentID)
	require.Equal(t, authority.Unstated, list[1].State)
}

// TestPublish: a plan is published once, by an author whom the admins have named.
func TestPublish(t *testing.T) {
	w := newWorld(t)
	author := newKey(t)
	p := authority.Plan{
		Source: []byte("source"), Digest: plan.DigestOf([]byte("compiled")), Name: "pay", Version: "1.0.0", Agent: "bot", Author: "fay",
	}
	_, err := w.Publish(t.Context(), p, author)
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, err = w.Published(t.Context(), "pay")
	require.ErrorIs(t, err, ledger.ErrNotFound)

	w.state(t, &trust.AddPublisher{ID: "fay", Person: "fay", Key: author.Public(), Uses: []string{trust.UsePlans}})
	published, err := w.Publish(t.Context(), p, author)
	require.NoError(t, err)
	require.NotEmpty(t, published.Signature)
	again, err := w.Publish(t.Context(), p, author)
	require.NoError(t, err)
	require.Equal(t, published.PublishedAt, again.PublishedAt)
	for _, ref := range []string{"pay", "pay@1.0.0", p.Digest} {
		found, err := w.Published(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, published.Digest, found.Digest)
	}

	other := p
	other.Source, other.Digest = []byte("other"), plan.DigestOf([]byte("other"))
	_, err = w.Publish(t.Context(), other, author)
	var exists *authority.ExistsError
	require.ErrorAs(t, err, &exists)
	require.Equal(t, p.Digest, exists.Digest)
	require.NoError(t, exists.Err)
}

// TestPublishUnsigned: without a bootstrap nobody signs, and such a plan is refused
// once there is one.
func TestPublishUnsigned(t *testing.T) {
	w := newWorld(t)
	author := newKey(t)
	p := authority.Plan{Source: []byte("source"), Digest: plan.DigestOf([]byte("compiled")), Name: "pay", Version: "1.0.0", Author: "fay"}
	free := &authority.Authority{Ledger: w.Ledger}
	published, err := free.Publish(t.Context(), p, nil)
	require.NoError(t, err)
	require.Empty(t, published.Signature)
	_, err = free.Published(t.Context(), "pay")
	require.NoError(t, err)

	w.state(t, &trust.AddPublisher{ID: "fay", Person: "fay", Key: author.Public(), Uses: []string{trust.UsePlans}})
	_, err = w.Published(t.Context(), "pay")
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, err = w.Publish(t.Context(), p, author)
	var exists *authority.ExistsError
	require.ErrorAs(t, err, &exists)
	require.ErrorIs(t, err, trust.ErrInvalid)
}

// TestNothingToTrust: without a bootstrap nothing is trusted or stated, and with
// one no plan is published unsigned.
func TestNothingToTrust(t *testing.T) {
	w := newWorld(t)
	p := authority.Plan{Source: []byte("source"), Digest: plan.DigestOf([]byte("compiled")), Name: "pay", Version: "1.0.0", Author: "fay"}
	_, err := w.Publish(t.Context(), p, nil)
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, err = w.Published(t.Context(), "pay")
	require.ErrorIs(t, err, ledger.ErrNotFound)

	acts := trust.Acts{&trust.AddAgent{AgentID: "bot", Owner: "ada", Keys: []string{}}}
	s, err := w.Propose(t.Context(), acts, w.ada, w.ben)
	require.NoError(t, err)
	free := &authority.Authority{Ledger: w.Ledger}
	_, err = free.State(t.Context())
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, _, err = free.Agents(t.Context())
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, err = free.Propose(t.Context(), acts, w.ada)
	require.ErrorIs(t, err, trust.ErrInvalid)
	_, err = free.Apply(t.Context(), s.Envelope)
	require.ErrorIs(t, err, trust.ErrInvalid)
	state, err := w.State(t.Context())
	require.NoError(t, err)
	require.Zero(t, state.N)
}
