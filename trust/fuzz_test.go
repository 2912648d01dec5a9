package trust

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// FuzzSigned: whatever arrives as a grant, as a plan's signature or as acts, it is
// refused or it is what the keys have signed, and nothing panics.
func FuzzSigned(f *testing.F) {
	w := newWorld(f)
	// The same keys in every process that shares the corpus.
	author, starts := seeded(f, 1), seeded(f, 2)
	bot := agent("bot")
	bot.Keys = []string{starts.Public()}
	s := w.state(w.sign(w.state().Draft(day, bot, &AddPublisher{"fay", "fay", author.Public(), []string{UsePlans}, nil})))
	row := ledger.Plan{Name: "pay", Version: "1", Author: "fay", Digest: plan.DigestOf([]byte("p")), SourceDigest: plan.DigestOf([]byte("s"))}
	signature, err := SignPlan(author, Plan{
		Deployment: s.Deployment, Audience: s.Audience, Author: "fay", Name: "pay", Version: "1", SourceDigest: row.SourceDigest, Digest: row.Digest, Issued: at(1),
	})
	if err != nil {
		f.Fatal(err)
	}
	grant := Grant{
		Deployment: s.Deployment, Audience: s.Audience, Namespace: "default", WorkflowID: "w", Plan: row.Digest, Input: row.SourceDigest,
		Agent: "bot", Requester: "rae", Nonce: "00112233445566778899aabbccddeeff", Issued: at(1), Expires: at(2),
	}
	envelope, err := SignGrant(starts, grant)
	if err != nil {
		f.Fatal(err)
	}
	grant.Format = GrantFormat
	granted, err := GrantDigest(envelope)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{signature, envelope, []byte(`[{"act":"agent.keys","data":{"agent_id":"bot","keys":[]}}]`), []byte(`{}`), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := row
		p.Signature = raw
		if err := Authored(s, "pay@1", p); err == nil {
			e, err := ParseEnvelope(raw, PlanType)
			if err != nil || e.Digest() != digestOf(t, signature) {
				t.Fatalf("taken for the author's: %s", raw)
			}
		}
		if g, err := VerifyGrant(s, raw, grant, at(1).Time().Add(time.Minute)); err == nil {
			if d, err := GrantDigest(raw); err != nil || d != granted || g != grant {
				t.Fatalf("taken for a grant: %s", raw)
			}
		}
		if acts, err := ParseActs(raw); err == nil {
			_ = s.Try(acts...)
		}
		_, _, _ = ParseDraft(raw)
	})
}

func seeded(t testing.TB, n byte) *Key {
	k, err := FromSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func digestOf(t *testing.T, envelope []byte) string {
	e, err := ParseEnvelope(envelope, PlanType)
	if err != nil {
		t.Fatal(err)
	}
	return e.Digest()
}

// BenchmarkReader reads a chain of a thousand statements again.
func BenchmarkReader(b *testing.B) {
	w := newWorld(b)
	source := new(memory)
	s := w.state()
	for i := range 1000 {
		raw := w.sign(s.Draft(day, agent("a"+time.Duration(i).String())))
		next, err := s.Next(raw)
		if err != nil {
			b.Fatal(err)
		}
		s = next
		source.list = append(source.list, raw)
	}
	r := &Reader{Source: source, Bootstrap: w.b}
	if _, err := r.State(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.State(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
