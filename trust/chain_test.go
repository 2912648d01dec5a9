package trust

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

var day = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

func at(hours int) ledger.Time { return ledger.At(day.Add(time.Duration(hours) * time.Hour)) }

// world is a deployment with two admins, Ada and Ben, whose third key is Ada's
// too.
type world struct {
	t             testing.TB
	b             *Bootstrap
	ada, ben, too *Key
	log           string
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, ada: ed(t), ben: p256(t), too: ed(t)}
	_, w.log, _ = ledger.NewKey("example.com/log")
	return w.found()
}

// found sets up the deployment with the world's keys.
func (w *world) found() *world {
	t := w.t
	w.b = &Bootstrap{
		Format: BootstrapFormat, Deployment: "example", Audience: Prod, Quorum: 2, Log: LogKey{"example.com/log", w.log}, Witnesses: Witnesses{Keys: []string{}}, Issued: at(0),
		Admins: []Admin{{"ada-1", "ada", w.ada.Public()}, {"ada-2", "ada", w.too.Public()}, {"ben", "ben", w.ben.Public()}},
	}
	require.NoError(t, w.b.Check())
	return w
}

func (w *world) state(chain ...[]byte) State {
	w.t.Helper()
	s, err := Chain(w.b, chain)
	require.NoError(w.t, err)
	return s
}

func (w *world) sign(st *Statement, keys ...*Key) []byte {
	w.t.Helper()
	if keys == nil {
		keys = []*Key{w.ada, w.ben}
	}
	e, err := st.Envelope(keys...)
	require.NoError(w.t, err)
	raw, err := e.Encode()
	require.NoError(w.t, err)
	return raw
}

func agent(id string) *AddAgent { return &AddAgent{AgentID: id, Owner: "cleo", Keys: []string{}} }

func money(t testing.TB, n int64) ledger.Money {
	m, err := ledger.Minor(n, "USD")
	require.NoError(t, err)
	return m
}

// everything has an act of each kind.
func (w *world) everything() []Act {
	_, rotated, _ := ledger.NewKey("example.com/log")
	return []Act{
		&EnrollSigner{ID: "s1", Person: "dana", Roles: []string{"finance"}, SigType: "pkcs11", PublicKey: newPublic(w.t), NotBefore: at(0), NotAfter: at(99)},
		&GrantRoles{"s1", []string{"cfo", "finance"}}, &RevokeRoles{"s1", []string{"finance"}},
		&EnrollSigner{ID: "s2", Person: "eve", Roles: []string{"risk"}, SigType: "pkcs11", PublicKey: newPublic(w.t), NotBefore: at(0), NotAfter: at(99)}, &RevokeSigner{"s2"},
		&ActivateBundle{plan.DigestOf([]byte("bundle"))}, &TrustTool{ToolID: "mail/send", Fingerprint: plan.DigestOf([]byte("tool")), Status: "manual_review"},
		&AddPublisher{"p1", "fay", ed(w.t).Public(), []string{"plans"}, nil}, &AddPublisher{"p2", "gus", ed(w.t).Public(), []string{"manifests", "plans"}, []string{"mail"}}, &RevokePublisher{"p2"},
		&WaiveManifest{"mail", "it is ours"}, &AcceptManifest{"mail", "1.0.0", plan.DigestOf([]byte("manifest"))}, &WaiveManifest{"files", "it is read only"},
		agent("a1"), agent("a2"), &SetAgentKeys{AgentID: "a1", Keys: []string{ed(w.t).Public()}},
		&SetBudget{Agent: "a1", Currency: "USD", Every: ledger.Forever, Limit: money(w.t, 500)}, &SetBudget{Agent: "a2", Currency: "USD", Every: ledger.Forever, Parent: "a1", Limit: money(w.t, 100)},
		&AddGuardian{"g1", ed(w.t).Public()}, &AddGuardian{"g2", ed(w.t).Public()}, &RevokeGuardian{"g2"},
		&RotateLog{LogKey{"example.com/log", rotated}}, &SetWitnesses{Witnesses{Keys: []string{}}},
		&SetAdmins{[]Admin{w.b.Admins[0], w.b.Admins[2], {"hal", "hal", w.too.Public()}}, 2},
	}
}

func TestEverything(t *testing.T) {
	w := newWorld(t)
	acts := w.everything()
	kinds := map[Kind]bool{}
	for _, a := range acts {
		kinds[a.Kind()] = true
		require.IsType(t, a, makers[a.Kind()]())
	}
	require.Len(t, kinds, len(makers), "an act of each kind")
	s := w.state(w.sign(w.state().Draft(day, acts...)))
	require.Equal(t, []string{"cfo"}, s.Signers["s1"].Now)
	require.Nil(t, s.Signers["s1"].Revoked)
	require.Equal(t, at(0), *s.Signers["s2"].Revoked)
	require.NotEmpty(t, s.Bundle)
	require.Equal(t, "manual_review", s.Tools["mail/send"].Status)
	require.NotNil(t, s.Publishers["p2"].Revoked)
	require.Equal(t, "1.0.0", s.Manifests["mail"].Version)
	require.Equal(t, map[string]WaiveManifest{"files": {"files", "it is read only"}}, s.Waivers)
	require.Len(t, s.Agents["a1"].Keys, 1)
	require.Equal(t, "a1", s.Budgets[BudgetKey{"a2", "USD"}].Parent)
	require.NotNil(t, s.Guardians["g2"].Revoked)
	require.Len(t, s.LogKeys, 2)
	require.Equal(t, "hal", s.Admins[2].ID)
	require.Empty(t, w.state().Agents, "the state before is as it was")
	require.Empty(t, w.state().Manifests)
}

func TestChainRefuses(t *testing.T) {
	w := newWorld(t)
	first := w.sign(w.state().Draft(day, agent("a1")))
	s := w.state(first)
	stranger := ed(t)
	// rival is another deployment of the same admins.
	rival := *w.b
	rival.Deployment = "rival"
	elsewhere, err := Start(&rival)
	require.NoError(t, err)
	dev := s
	dev.Audience = Dev
	edit := func(f func(*Statement)) []byte {
		st := s.Draft(day, agent("a2"))
		f(st)
		return w.sign(st)
	}
	// rewrite signs a payload that no Statement can be.
	rewrite := func(old, now string) []byte {
		raw, err := canon(s.Draft(day, agent("a2")))
		require.NoError(t, err)
		require.Contains(t, string(raw), old)
		e := &Envelope{Type: StatementType, Payload: []byte(strings.Replace(string(raw), old, now, 1))}
		require.NoError(t, e.Sign(w.ada))
		require.NoError(t, e.Sign(w.ben))
		out, err := e.Encode()
		require.NoError(t, err)
		return out
	}
	tampered := func() []byte {
		var m map[string]any
		require.NoError(t, json.Unmarshal(w.sign(s.Draft(day, agent("a2"))), &m))
		other, err := s.Draft(day, agent("a3")).Envelope()
		require.NoError(t, err)
		raw, err := other.Encode()
		require.NoError(t, err)
		var o map[string]any
		require.NoError(t, json.Unmarshal(raw, &o))
		m["payload"] = o["payload"]
		raw, err = json.Marshal(m)
		require.NoError(t, err)
		return raw
	}
	act := func(acts ...Act) []byte { return w.sign(s.Draft(day, acts...)) }
	for name, c := range map[string]struct {
		raw  []byte
		says string
	}{
		"nobody has signed":            {w.sign(s.Draft(day, agent("a2")), stranger), "0 of the admins' persons have signed"},
		"one has signed":               {w.sign(s.Draft(day, agent("a2")), w.ada), "1 of the admins' persons have signed (ada-1), 2 must"},
		"two keys of one person":       {w.sign(s.Draft(day, agent("a2")), w.ada, w.too), "1 of the admins' persons have signed (ada-1, ada-2), 2 must"},
		"replayed":                     {first, "it is number 1, not 2"},
		"a second successor":           {w.sign(w.state().Draft(day, agent("a9"))), "it is number 1, not 2"},
		"a gap":                        {edit(func(st *Statement) { st.N = 3 }), "it is number 3, not 2"},
		"another predecessor":          {edit(func(st *Statement) { st.Prev = w.b.Digest() }), "it follows"},
		"another deployment":           {w.sign(elsewhere.Draft(day, agent("a2"))), `it is for the deployment "rival", not example`},
		"another audience":             {w.sign(dev.Draft(day, agent("a2"))), `its audience is "dev", not prod`},
		"issued before":                {edit(func(st *Statement) { st.Issued = at(-1) }), "before the one that it follows"},
		"payload exchanged":            {tampered(), "0 of the admins' persons have signed"},
		"unknown act":                  {rewrite(`"agent.add"`, `"agent.own"`), `"agent.own", which this version does not know`},
		"unknown field":                {rewrite(`"acts":`, `"also":1,"acts":`), "unknown field"},
		"unknown field of an act":      {rewrite(`"agent_id":`, `"also":1,"agent_id":`), "a field is missing, empty, or not written"},
		"another format":               {rewrite(`statement/v1`, `statement/v2`), "the format is"},
		"an act too little":            {rewrite(`"owner":"cleo"`, `"owner":""`), "is not the id of a"},
		"null for an act":              {rewrite(`"agent.add"`, `null`), "which this version does not know"},
		"agent again":                  {act(agent("a1")), "the agent a1 is there already"},
		"revokes nobody":               {act(&RevokeSigner{"s1"}), "there is no signer s1"},
		"software key in production":   {act(&EnrollSigner{ID: "s", Person: "p", Roles: []string{"r"}, SigType: "dev", PublicKey: newPublic(t), NotBefore: at(0), NotAfter: at(1)}), "software keys (dev) sign only in dev"},
		"quorum falls":                 {act(&SetAdmins{w.b.Admins, 1}), "a quorum of 1 is below 2"},
		"budget of nobody":             {act(&SetBudget{Agent: "a7", Currency: "USD", Every: ledger.Forever, Limit: money(t, 1)}), "there is no agent a7"},
		"budget without its parent":    {act(&SetBudget{Agent: "a1", Parent: "a2", Currency: "USD", Every: ledger.Forever, Limit: money(t, 1)}), "a2 has no budget"},
		"budget that is its own":       {act(&SetBudget{Agent: "a1", Parent: "a1", Currency: "USD", Every: ledger.Forever, Limit: money(t, 1)}), "a budget has more than 16 ancestors"},
		"log of another name":          {act(&RotateLog{LogKey{"example.org/log", must(ledger.NewKey("example.org/log"))}}), "keeps its name"},
		"log with the key that it has": {act(&RotateLog{w.b.Log}), "has or had this key"},
		"not an envelope":              {[]byte("{}"), "the envelope"},
	} {
		t.Run(name, func(t *testing.T) {
			next, err := s.Next(c.raw)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, s, next)
			// The chain stops there, and says where.
			have, err := Chain(w.b, [][]byte{first, c.raw})
			var p Problem
			require.ErrorAs(t, err, &p)
			require.Equal(t, 2, p.N)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, s, have)
		})
	}
	_, err = s.Draft(day, &SetAdmins{w.b.Admins[:2], 2}).Envelope(w.ada)
	require.ErrorContains(t, err, "1 persons are admins, but 2 must agree", "one person under two names")
	have, problems := VerifyStatements(w.b, [][]byte{first, first, first})
	require.Equal(t, s, have)
	require.Len(t, problems, 2)
	require.Contains(t, problems[1].Message, "1 statements depend on an invalid one")
}

func must(_, public string, err error) string {
	if err != nil {
		panic(err)
	}
	return public
}

// TestAdmins: those who sign are the admins as of the statement before.
func TestAdmins(t *testing.T) {
	w := newWorld(t)
	ivy := ed(t)
	change := w.state().Draft(day, &SetAdmins{[]Admin{w.b.Admins[0], {"ivy", "ivy", ivy.Public()}}, 2})
	_, err := w.state().Next(w.sign(change, w.ada, ivy))
	require.ErrorContains(t, err, "1 of the admins' persons", "who is admitted does not admit herself")
	s := w.state(w.sign(change))
	_, err = s.Next(w.sign(s.Draft(day, agent("a")), w.ada, w.ben))
	require.ErrorContains(t, err, "1 of the admins' persons", "who was removed signs no more")
	_, err = s.Next(w.sign(s.Draft(day, agent("a")), w.ada, ivy))
	require.NoError(t, err)

	// A quorum that was raised does not fall again.
	up := w.state().Draft(day, &SetAdmins{append(slices.Clone(w.b.Admins), Admin{"ivy", "ivy", ivy.Public()}), 3})
	s = w.state(w.sign(up))
	_, err = s.Next(w.sign(s.Draft(day, agent("a"))))
	require.ErrorContains(t, err, "2 of the admins' persons")
	_, err = s.Next(w.sign(s.Draft(day, &SetAdmins{w.b.Admins, 2}), w.ada, w.ben, ivy))
	require.ErrorContains(t, err, "the quorum would fall from 3 to 2")
}

func TestWithin(t *testing.T) {
	w := newWorld(t)
	st := w.state().Draft(day, agent("a"))
	from, to := at(1), at(2)
	st.NotBefore, st.Expires = &from, &to
	w.sign(st)
	require.ErrorContains(t, st.Within(day), "must not be published before")
	require.NoError(t, st.Within(day.Add(time.Hour)))
	require.ErrorContains(t, st.Within(day.Add(3*time.Hour)), "has expired")
	to = at(0)
	_, err := st.Envelope(w.ada)
	require.ErrorContains(t, err, "expires before it becomes valid")
}

func TestBootstrap(t *testing.T) {
	w := newWorld(t)
	raw, err := w.b.Encode()
	require.NoError(t, err)
	pretty, err := json.MarshalIndent(w.b, "", "  ")
	require.NoError(t, err)
	for _, text := range [][]byte{raw, pretty} {
		have, err := Pinned(text, w.b.Digest())
		require.NoError(t, err)
		require.Equal(t, w.b, have)
	}
	_, err = Pinned(raw, plan.DigestOf([]byte("another")))
	require.ErrorContains(t, err, "is pinned")
	_, err = Pinned(raw, "")
	require.ErrorIs(t, err, ErrInvalid)
	for name, f := range map[string]func(*Bootstrap){
		"one admin in prod":       func(b *Bootstrap) { b.Quorum = 1 },
		"more than persons":       func(b *Bootstrap) { b.Quorum = 3 },
		"no audience":             func(b *Bootstrap) { b.Audience = "test" },
		"a key twice":             func(b *Bootstrap) { b.Admins[1].Key = b.Admins[0].Key },
		"an id twice":             func(b *Bootstrap) { b.Admins[1].ID = b.Admins[0].ID },
		"no key":                  func(b *Bootstrap) { b.Admins[1].Key = "" },
		"invisible name":          func(b *Bootstrap) { b.Admins[1].Person = "A\u200bda" },
		"log of another name":     func(b *Bootstrap) { b.Log.Origin = "x" },
		"witnesses are not there": func(b *Bootstrap) { b.Witnesses.Quorum = 1 },
		"witness's key":           func(b *Bootstrap) { b.Witnesses.Keys = []string{"x"} },
		"no format":               func(b *Bootstrap) { b.Format = "" },
		"never issued":            func(b *Bootstrap) { b.Issued = ledger.Time{} },
		"no name":                 func(b *Bootstrap) { b.Deployment = " " },
	} {
		b := *w.b
		b.Admins = slices.Clone(w.b.Admins)
		f(&b)
		_, err := b.Encode()
		require.ErrorIs(t, err, ErrInvalid, name)
		_, err = Chain(&b, nil)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	for _, text := range []string{"", "{}", strings.Replace(string(raw), `"quorum":2`, `"quorum":2,"quorum":1`, 1), string(raw) + "{}", strings.Repeat(" ", MaxBootstrap+1)} {
		_, err := ParseBootstrap([]byte(text))
		require.ErrorIs(t, err, ErrInvalid)
	}
}

// TestModel holds chains of random statements by random signers against a naive
// model, which knows sets of names and nothing of envelopes.
func TestModel(t *testing.T) {
	w := newWorld(t)
	keys := []*Key{w.ada, w.too, w.ben, ed(t)}
	persons := []string{"ada", "ada", "ben", "ivy"}
	admin := func(i int) Admin { return Admin{persons[i] + string(rune('0'+i)), persons[i], keys[i].Public()} }
	rapid.Check(t, func(r *rapid.T) {
		s, err := Start(w.b)
		require.NoError(r, err)
		model := struct {
			admins map[int]bool
			quorum int
			agents map[string]bool
		}{map[int]bool{0: true, 1: true, 2: true}, 2, map[string]bool{}}
		for range rapid.IntRange(1, 6).Draw(r, "statements") {
			signers := rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 1, 4, rapid.ID).Draw(r, "signers")
			var with []*Key
			agree := map[string]bool{}
			for _, i := range signers {
				with = append(with, keys[i])
				if model.admins[i] {
					agree[persons[i]] = true
				}
			}
			good := len(agree) >= model.quorum
			var act Act
			var after func()
			if rapid.Bool().Draw(r, "admins") {
				set := rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 2, 4, rapid.ID).Draw(r, "set")
				quorum := rapid.IntRange(2, 3).Draw(r, "quorum")
				different := map[string]bool{}
				a := &SetAdmins{Quorum: quorum}
				for _, i := range set {
					a.Admins = append(a.Admins, admin(i))
					different[persons[i]] = true
				}
				if len(different) < quorum {
					continue // it cannot even be signed
				}
				good = good && quorum >= model.quorum
				act, after = a, func() {
					model.admins, model.quorum = map[int]bool{}, quorum
					for _, i := range set {
						model.admins[i] = true
					}
				}
			} else {
				id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "agent")
				good = good && !model.agents[id]
				act, after = agent(id), func() { model.agents[id] = true }
			}
			e, err := s.Draft(day, act).Envelope(with...)
			require.NoError(r, err)
			raw, err := e.Encode()
			require.NoError(r, err)
			next, err := s.Next(raw)
			require.Equal(r, good, err == nil, "%v", err)
			if good {
				after()
				s = next
			}
			require.Len(r, s.Agents, len(model.agents))
			require.Len(r, s.Admins, len(model.admins))
			require.Equal(r, model.quorum, s.Quorum)
		}
	})
}

func FuzzNext(f *testing.F) {
	// The same keys in every process that shares the corpus.
	log, err := note.NewEd25519VerifierKey("example.com/log", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{6}, ed25519.SeedSize)).Public().(ed25519.PublicKey))
	require.NoError(f, err)
	w := (&world{t: f, ada: seeded(f, 3), ben: seeded(f, 4), too: seeded(f, 5), log: log}).found()
	s := w.state()
	f.Add(w.sign(s.Draft(day, w.everything()...)))
	f.Add([]byte(`{"payload":"e30=","payloadType":"` + StatementType + `","signatures":[{"sig":"AAAA"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		st, e, err := ParseStatement(raw)
		if err == nil {
			// Acts that were read are written with the same meaning.
			written, err := st.Envelope(w.ada, w.ben)
			require.NoError(t, err)
			again, err := written.Encode()
			require.NoError(t, err)
			have, _, err := ParseStatement(again)
			require.NoError(t, err)
			require.Equal(t, st, have)
			require.NotEmpty(t, e.Payload)
			// A statement that is signed by all who must sign is accepted completely or not at
			// all.
			before := s.N
			if next, err := s.Next(again); err == nil {
				require.Equal(t, before+1, next.N)
				_, err = next.Next(again)
				require.ErrorIs(t, err, ErrInvalid, "what was stated is not stated again")
			} else {
				require.ErrorIs(t, err, ErrInvalid)
			}
			require.Equal(t, before, s.N)
		}
		if next, err := s.Next(raw); err == nil {
			require.Equal(t, 1, next.N)
			_, err := s.Next(bytes.Replace(raw, []byte(`"payload":"`), []byte(`"payload":"IA`), 1))
			require.Error(t, err)
		}
	})
}

// newPublic makes a public key.
func newPublic(t testing.TB) string {
	k, _, err := NewKey()
	require.NoError(t, err)
	return k.Public()
}
