package adversary

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// story is the log of the deployment, with its bodies, as anybody who may read it sees it.
type story struct {
	entries []*ledger.Entry
	bodies  map[string][]byte
	// last is the last entry of each chain.
	last map[string]*ledger.Entry
}

// read reads the log.
func (d *Deployment) read(t testing.TB) *story {
	t.Helper()
	s := &story{bodies: map[string][]byte{}, last: map[string]*ledger.Entry{}}
	conn, err := pgx.Connect(t.Context(), d.Database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	rows, err := conn.Query(t.Context(), `SELECT e.bytes, b.bytes FROM log_index i JOIN entries e ON e.serial = i.serial
		LEFT JOIN bodies b ON b.digest = convert_from(e.bytes, 'UTF8')::json ->> 'body' ORDER BY i.place`)
	require.NoError(t, err)
	for rows.Next() {
		var raw, body []byte
		require.NoError(t, rows.Scan(&raw, &body))
		e, err := ledger.DecodeEntry(raw)
		require.NoError(t, err)
		s.entries, s.last[e.Chain] = append(s.entries, e), e
		if body != nil {
			s.bodies[e.Body] = body
		}
	}
	require.NoError(t, rows.Err())
	return s
}

// kinds lists the kinds of entries whose bodies can be read.
func (s *story) kinds() (all []string) {
	for _, e := range s.entries {
		if s.data(e) != nil {
			all = append(all, string(e.Kind))
		}
	}
	return distinct(all)
}

// data are those of an entry, nil if they cannot be read.
func (s *story) data(e *ledger.Entry) []byte {
	if b, err := ledger.DecodeBody(s.bodies[e.Body]); err == nil {
		return b.Data
	}
	return nil
}

// private is the last entry of a run about a person.
func (s *story) private() *ledger.Entry {
	for _, e := range s.entries {
		if _, sealed := ledger.Sealed(s.bodies[e.Body]); sealed && e.Kind == ledger.RunOpened {
			return s.last[e.Chain]
		}
	}
	return nil
}

// donor is an entry of a kind, chosen at random.
func (s *story) donor(random *mathrand.Rand, kind ledger.Kind) *ledger.Entry {
	var all []*ledger.Entry
	for _, e := range s.entries {
		if e.Kind == kind && s.data(e) != nil {
			all = append(all, e)
		}
	}
	return all[random.IntN(len(all))]
}

// forgery is an entry that a thief makes, at the end of its chain, with its body.
type forgery struct {
	ledger.Entry
	body []byte
	// sealed is the id of the key that the body is sealed with, or "".
	sealed string
	// raw are its bytes, if they are not those of the entry.
	raw []byte
	// hidden: it does not wait for a place.
	hidden bool
}

// like makes an entry like another, about a thing of another id.
func (s *story) like(t testing.TB, e *ledger.Entry) *forgery {
	t.Helper()
	f := &forgery{Entry: *e}
	data := string(s.data(e))
	if id, ok := strings.CutPrefix(e.Key, string(e.Kind)+"/"); ok {
		lie := other(id)
		f.Key = string(e.Kind) + "/" + lie
		data = strings.ReplaceAll(data, `"`+id+`"`, `"`+lie+`"`)
	} else {
		f.Key = other(e.Key)
	}
	f.At = ledger.At(time.Now())
	f.state(t, data)
	f.behind(t, s.last[e.Chain])
	return f
}

// state gives the entry a body.
func (f *forgery) state(t testing.TB, data string) {
	t.Helper()
	b := ledger.Body{Data: []byte(data)}
	_, err := rand.Read(b.Salt[:])
	require.NoError(t, err)
	raw, err := b.Encode()
	require.NoError(t, err)
	f.body, f.Body = raw, ledger.BodyDigest(raw)
}

// behind puts the entry behind another one.
func (f *forgery) behind(t testing.TB, last *ledger.Entry) {
	t.Helper()
	f.N, f.Prev = 0, ledger.Hash{}
	if last == nil {
		return
	}
	h, err := last.Hash()
	require.NoError(t, err)
	f.N, f.Prev, f.Chain = last.N+1, h, last.Chain
}

// seal seals the body with a key of the thief's.
func (f *forgery) seal(t testing.TB) {
	t.Helper()
	f.sealed = strings.Repeat("0", 32)
	raw, err := ledger.Seal(f.sealed, make([]byte, ledger.KeyBytes), f.body)
	require.NoError(t, err)
	f.body, f.Body = raw, ledger.BodyDigest(raw)
}

// insert is the statement that adds the entry to the log.
func (f *forgery) insert(t testing.TB) Statement {
	t.Helper()
	raw := f.raw
	if raw == nil {
		var err error
		raw, err = f.Encode()
		require.NoError(t, err)
	}
	hash := ledger.LeafHash(raw)
	text := `INSERT INTO entries (hash, chain, n, key, kind, bytes) VALUES ($1, $2, $3, $4, $5, $6) RETURNING serial`
	if f.hidden {
		text = `WITH e AS (` + text + `), b AS (INSERT INTO bodies (digest, chain, class, at, bytes, subject_key) VALUES ($7, $2, $8, $9, $10, nullif($11, ''))) SELECT serial FROM e`
	} else {
		text = `WITH e AS (` + text + `), b AS (INSERT INTO bodies (digest, chain, class, at, bytes, subject_key) VALUES ($7, $2, $8, $9, $10, nullif($11, ''))) INSERT INTO pending SELECT serial FROM e`
	}
	return Statement{Text: text, Args: []any{hash[:], f.Chain, f.N, f.Key, string(f.Kind), raw, f.Body, string(f.Class), f.At.Time().UnixMilli(), f.body, f.sealed}}
}

// unguarded is what the owner of the database does before adding entries: its triggers are the owner's.
var unguarded = Statement{Text: "ALTER TABLE entries DISABLE TRIGGER USER"}

// swaps are kinds of which the log has no entry, and kinds whose entries pass as such.
var swaps = map[ledger.Kind]ledger.Kind{
	ledger.LegalHoldLifted: ledger.LegalHoldPlaced, ledger.InvocationReleased: ledger.InvocationSettled, ledger.HoldVoided: ledger.HoldPosted, ledger.HoldExpired: ledger.HoldPosted,
	ledger.TaskClosed: ledger.TaskExecuted, ledger.ApprovalRefused: ledger.ApprovalAccepted, ledger.SignerRevoked: ledger.SignerEnrolled,
}

// entryAttacks are those on the log by a thief with a user of a role, or by the owner.
func (s *story) entryAttacks(t testing.TB, thief Thief, role string, random *mathrand.Rand) (all []*Attack) {
	t.Helper()
	add := func(class Class, name string, f *forgery) {
		a := &Attack{Thief: thief, Class: class, About: string(f.Kind), Name: name, Role: role, SQL: []Statement{f.insert(t)}}
		if role == "" {
			a.SQL = slices.Insert(a.SQL, 0, unguarded)
		}
		all = append(all, a)
	}
	kinds := s.kinds()
	for _, kind := range kinds {
		e := s.donor(random, ledger.Kind(kind))
		add(EntryMade, "about another thing", s.like(t, e))

		lie := s.like(t, e)
		if data, at := bend(random, string(s.data(e))); data != "" {
			lie.state(t, data)
			add(EntryMade, "with other data at "+at, lie)
		}
		f := s.like(t, e)
		f.raw = fmt.Appendf(nil, `{"kind":%q,"n":%d}`, kind, random.IntN(1000))
		add(EntryMade, "garbage", f)

		f = s.like(t, e)
		f.Chain = "run/nowhere/" + f.Chain[strings.LastIndexByte(f.Chain, '/')+1:]
		f.behind(t, nil)
		add(EntryMoved, "in a chain of its own", f)

		f = s.like(t, e)
		f.Key = e.Key
		add(EntryMoved, "doubled, with its key", f)

		f = s.like(t, e)
		f.N += 5
		add(EntryMoved, "behind a gap", f)

		f = s.like(t, e)
		f.N++
		f.Prev = ledger.LeafHash([]byte("none"))
		add(EntryMoved, "behind nothing", f)

		f = s.like(t, e)
		f.hidden = true
		add(EntryMoved, "hidden", f)

		if _, _, run := ledger.RunOf(e.Chain); run {
			f = s.like(t, e)
			f.behind(t, s.private())
			f.Run = s.private().Run
			add(EntryMoved, "in clear, in a run about a person", f)

			f = s.like(t, e)
			f.seal(t)
			add(EntryMoved, "sealed, in a run about nobody", f)
		}

		f = s.like(t, e)
		f.At = ledger.At(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
		add(Clock, "in the year 9999", f)

		f = s.like(t, e)
		f.At = ledger.At(s.entries[0].At.Time().Add(-time.Hour))
		add(Clock, "before the first", f)
	}
	for _, kind := range ledger.Kinds() {
		from := swaps[kind]
		if from == "" || !slices.Contains(kinds, string(from)) {
			continue
		}
		e := s.donor(random, from)
		f := s.like(t, e)
		id := strings.TrimPrefix(e.Key, string(from))
		f.Kind, f.Key, f.Class = kind, string(kind)+id, kind.Class()
		f.state(t, string(s.data(e)))
		add(EntryMade, "from "+string(from), f)
	}
	// The end of a run, as no run ends.
	e := s.last[s.donor(random, ledger.RunClosed).Chain]
	f := s.like(t, e)
	if e.Kind == ledger.RunClosed {
		f.state(t, strings.NewReplacer(`"state":"succeeded"`, `"state":"exploded"`, `"state":"failed"`, `"state":"exploded"`).Replace(string(s.data(e))))
		add(EntryMade, "exploded", f)
	}
	return all
}
