package trust

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// memory is a source that returns what a test sets.
type memory struct {
	list []json.RawMessage
	err  error
}

func (s *memory) Authority(context.Context) ([]json.RawMessage, error) { return s.list, s.err }

// TestReader: what is new is taken in; what was shown stays shown.
func TestReader(t *testing.T) {
	w := newWorld(t)
	first := w.sign(w.state().Draft(day, agent("a")))
	second := w.sign(w.state(first).Draft(day, agent("b")))
	other := w.sign(w.state().Draft(day, agent("c")))
	source := new(memory)
	r := &Reader{Source: source, Bootstrap: w.b}
	read := func(list ...[]byte) (State, error) {
		source.list = nil
		for _, st := range list {
			source.list = append(source.list, st)
		}
		return r.State(t.Context())
	}
	s, err := read()
	require.NoError(t, err)
	require.Zero(t, s.N)
	s, err = read(first)
	require.NoError(t, err)
	require.Contains(t, s.Agents, "a")
	again, err := read(first)
	require.NoError(t, err)
	require.Equal(t, s, again)

	_, err = read(first, other)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "statement 2: it is number 1, not 2")
	s, err = read(first, second)
	require.NoError(t, err, "one that was broken may be right the next time")
	require.Len(t, s.Agents, 2)
	require.Equal(t, w.state(first, second), s)

	_, err = read(first)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "there are 1 statements, but 2 were seen before")
	_, err = read(other, second)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "has changed since it was seen")

	source.err = ledger.ErrUnavailable
	_, err = read(first, second)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.False(t, errors.Is(err, ErrInvalid), "nobody was lied to")
	source.err = nil
	_, err = (&Reader{Source: source, Bootstrap: new(Bootstrap)}).State(t.Context())
	require.ErrorIs(t, err, ErrInvalid)
}

// TestAuthored: a row counts if it is what was asked for, and signed by its
// author.
func TestAuthored(t *testing.T) {
	w := newWorld(t)
	author := ed(t)
	s := w.state(w.sign(w.state().Draft(day, &AddPublisher{"fay", "fay", author.Public(), []string{UsePlans}, nil})))
	row := ledger.Plan{Name: "pay", Version: "1.0", Author: "fay", Digest: plan.DigestOf([]byte("p")), SourceDigest: plan.DigestOf([]byte("s"))}
	sign := func(p ledger.Plan) ledger.Plan {
		raw, err := SignPlan(author, Plan{Deployment: s.Deployment, Audience: s.Audience, Author: p.Author, Name: p.Name, Version: p.Version, SourceDigest: p.SourceDigest, Digest: p.Digest, Issued: at(1)})
		require.NoError(t, err)
		p.Signature = raw
		return p
	}
	good := sign(row)
	require.NoError(t, Authored(s, "pay@1.0", good))
	require.NoError(t, Authored(s, row.Digest, good))
	for name, c := range map[string]struct {
		ref  string
		row  ledger.Plan
		want string
	}{
		"another version": {"pay@2.0", good, `the store gives the plan "pay", version "1.0", for "pay@2.0"`},
		"another digest":  {plan.DigestOf(nil), good, "the store gives the plan"},
		"unsigned":        {"pay@1.0", row, "pay@1.0 is in the store without its author's signature"},
		"other source":    {"pay@1.0", func() ledger.Plan { p := good; p.SourceDigest = p.Digest; return p }(), "of another source or plan"},
		"other name":      {"fee@1.0", func() ledger.Plan { p := good; p.Name = "fee"; return p }(), "the signature is of pay@1.0, not of fee@1.0"},
		"other author":    {"pay@1.0", func() ledger.Plan { p := good; p.Author = "gus"; return p }(), "the signature is by fay, not by gus"},
		"no author":       {"pay@1.0", func() ledger.Plan { p := good; p.Author = ""; return p }(), "without an author"},
		"a stranger":      {"pay@1.0", func() ledger.Plan { p := row; p.Author = "gus"; return sign(p) }(), `there is no publisher "gus"`},
		"nonsense":        {"pay@1.0", func() ledger.Plan { p := good; p.Signature = []byte(`{}`); return p }(), "pay@1.0: the envelope: "},
	} {
		err := Authored(s, c.ref, c.row)
		require.ErrorIs(t, err, ErrInvalid, name)
		require.ErrorContains(t, err, c.want, name)
	}

	revoked, err := s.Next(w.sign(s.Draft(at(5).Time(), &RevokePublisher{"fay"})))
	require.NoError(t, err)
	require.ErrorContains(t, Authored(revoked, "pay@1.0", good), `is signed by "fay", who is revoked since 2026-11-01T14:00:00.000Z`)
	since, err := Published(revoked, "pay@1.0", good)
	require.NoError(t, err)
	require.Equal(t, at(5), *since)
	_, err = Published(revoked, "pay@1.0", row)
	require.ErrorIs(t, err, ErrInvalid)
}

// TestOneDevKey: in development one key may be that of several publishers, and
// nowhere else.
func TestOneDevKey(t *testing.T) {
	key := ed(t)
	_, log, err := ledger.NewKey("dev.example.com/log")
	require.NoError(t, err)
	b, err := DevBootstrap("dev.example.com/log", "me", key, LogKey{"dev.example.com/log", log}, day)
	require.NoError(t, err)
	s, err := Start(b)
	require.NoError(t, err)
	two := []Act{&AddPublisher{"a", "me", key.Public(), []string{UsePlans}, nil}, &AddPublisher{"b", "me", key.Public(), []string{UsePlans}, nil}}
	e, err := s.Draft(day, two...).Envelope(key)
	require.NoError(t, err)
	raw, err := e.Encode()
	require.NoError(t, err)
	_, err = s.Next(raw)
	require.NoError(t, err)

	w := newWorld(t)
	_, err = w.state().Next(w.sign(w.state().Draft(day, two...)))
	require.ErrorContains(t, err, "the key is that of the publisher a")
}

// slow is a source that returns what it had when it was asked, once others are
// done.
type slow struct {
	list  []json.RawMessage
	while func()
}

func (s *slow) Authority(context.Context) ([]json.RawMessage, error) {
	list, while := s.list, s.while
	s.while = nil
	if while != nil {
		while()
	}
	return list, nil
}

// TestReaderOvertaken: a reader that is slower than another does not report a
// broken chain.
func TestReaderOvertaken(t *testing.T) {
	w := newWorld(t)
	first := w.sign(w.state().Draft(day, agent("a")))
	second := w.sign(w.state(first).Draft(day, agent("b")))
	source := &slow{list: []json.RawMessage{first}}
	r := &Reader{Source: source, Bootstrap: w.b}
	source.while = func() {
		source.list = append(source.list, second)
		s, err := r.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, s.N)
	}
	s, err := r.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, w.state(first, second), s)

	source.while = func() { source.list = nil }
	_, err = r.State(t.Context())
	require.NoError(t, err, "it was there when it was asked")
	_, err = r.State(t.Context())
	require.ErrorContains(t, err, "there are 0 statements, but 2 were seen before")
}

// kept is a memory that a test sees.
type kept struct {
	last Seen
	err  error
}

func (k *kept) Load() (Seen, error) { return k.last, k.err }

func (k *kept) Save(s Seen) error {
	if k.err == nil {
		k.last = s
	}
	return k.err
}

// TestReaderRemembers: a process that begins again refuses a source that has lost or
// changed what the process had read, and reads nothing that it cannot keep.
func TestReaderRemembers(t *testing.T) {
	w := newWorld(t)
	first := w.sign(w.state().Draft(day, agent("a")))
	second := w.sign(w.state(first).Draft(day, agent("b")))
	other := w.sign(w.state(first).Draft(day, agent("c")))
	m := new(kept)
	read := func(list ...[]byte) (State, error) {
		source := new(memory)
		for _, st := range list {
			source.list = append(source.list, st)
		}
		return (&Reader{Source: source, Bootstrap: w.b, Memory: m}).State(t.Context())
	}
	_, err := read(first)
	require.NoError(t, err)
	require.Equal(t, 1, m.last.N)
	s, err := read(first, second)
	require.NoError(t, err)
	require.Equal(t, Seen{2, s.Head}, m.last)
	_, err = read(first)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "there are 1 statements, but this process has read 2 before")
	_, err = read(first, other)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "statement 2 is not the one that this process has read before")
	_, err = read(first, second)
	require.NoError(t, err)
	m.err = errors.New("the disk is full")
	_, err = read(first, second)
	require.ErrorContains(t, err, "the disk is full")
	require.NotErrorIs(t, err, ErrInvalid)
}
