package adversary

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/postgres"
)

// logKeyAttacks are those of whoever has the log's key, and makes exports anew, of which one
// witness has not seen anything.
func (d *Deployment) logKeyAttacks(t testing.TB, from string) (all []*Attack) {
	key, err := ledger.ParseKey(d.LogKey)
	require.NoError(t, err)
	sign := func(t testing.TB, dir string, change func(lines [][]byte) [][]byte) {
		raw, err := os.ReadFile(filepath.Join(dir, audit.EntriesFile))
		require.NoError(t, err)
		d.resign(t, dir, change(bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))))
	}
	for name, change := range map[string]func(lines [][]byte) [][]byte{
		"the tail dropped":  func(l [][]byte) [][]byte { return l[:len(l)-5] },
		"an entry dropped":  func(l [][]byte) [][]byte { return slices.Delete(l, 20, 21) },
		"entries exchanged": func(l [][]byte) [][]byte { l[20], l[40] = l[40], l[20]; return l },
		"an entry doubled":  func(l [][]byte) [][]byte { return append(l, l[20]) },
		"an entry changed": func(l [][]byte) [][]byte {
			l[20] = bytes.Replace(l[20], []byte(`"at":"2`), []byte(`"at":"3`), 1)
			return l
		},
		"everything dropped": func(l [][]byte) [][]byte { return l[:1] },
	} {
		all = append(all, d.bent(LogKey, "export", name, from, 1, func(t testing.TB, dir string) { sign(t, dir, change) }))
	}
	return append(all, &Attack{Thief: LogKey, Class: TreeBent, About: "witness", Name: "asked to cosign a fork", Do: func(t testing.TB, d *Deployment) (Outcome, string) {
		last, err := os.ReadFile(d.witnessState)
		require.NoError(t, err)
		w, err := ledger.NewWitness(d.witnessSecret, d.Root.Log.Key, last)
		require.NoError(t, err)
		for _, size := range []int64{w.Last().Size - 1, w.Last().Size, w.Last().Size + 1} {
			raw, err := key.Sign(ledger.Checkpoint{Origin: d.Root.Log.Origin, Size: size, Root: ledger.LeafHash([]byte("fork"))})
			require.NoError(t, err)
			if _, err = w.Cosign(raw, nil); err == nil {
				return Unseen, fmt.Sprintf("it has cosigned another tree of %d entries", size)
			}
		}
		return Refused, "the witness cosigns no fork"
	}})
}

// rollbackAttacks bring back a copy of the database that was made earlier.
func (d *Deployment) rollbackAttacks(from string) (all []*Attack) {
	back := func(name string, do func(t testing.TB, d *Deployment) (Outcome, string)) {
		all = append(all, &Attack{Thief: Rollback, Class: TreeBent, About: "rollback", Name: name, Do: do})
	}
	early := func(t testing.TB, d *Deployment, f func(c *Copy)) {
		now := d.Database
		d.Database = d.Early
		defer func() { d.Database = now }()
		d.On(t, f)
	}
	back("shown to an auditor who was there later", func(t testing.TB, d *Deployment) (o Outcome, says string) {
		newer, err := os.ReadFile(filepath.Join(from, audit.CheckpointFile))
		require.NoError(t, err)
		early(t, d, func(c *Copy) {
			l, err := c.open(t.Context(), postgres.DefaultRoles.Reader)
			require.NoError(t, err)
			_, err = audit.Export(t.Context(), l, c.dir)
			require.NoError(t, errors.Join(err, l.Close()))
			r, err := audit.Verify(c.dir, c.Trust(1), newer)
			require.NoError(t, err)
			o, says = Unseen, "it verifies"
			if !r.OK {
				o, says = Found, r.Problems[0].Message
			}
		})
		return o, says
	})
	back("shown to an auditor who was never there", func(t testing.TB, d *Deployment) (o Outcome, says string) {
		early(t, d, func(c *Copy) {
			l, err := c.open(t.Context(), postgres.DefaultRoles.Reader)
			require.NoError(t, err)
			_, err = audit.Export(t.Context(), l, c.dir)
			require.NoError(t, errors.Join(err, l.Close()))
			r, err := audit.Verify(c.dir, c.Trust(1), nil)
			require.NoError(t, err)
			o, says = Unseen, "it verifies, with an old date"
			if !r.OK {
				o, says = Found, r.Problems[0].Message
			}
		})
		return o, says
	})
	back("continued, and shown to the witness", func(t testing.TB, d *Deployment) (o Outcome, says string) {
		early(t, d, func(c *Copy) {
			s := c.Proceed(t, 0)
			require.Empty(t, s.Troubles)
			last, err := os.ReadFile(d.witnessState)
			require.NoError(t, err)
			w, err := ledger.NewWitness(d.witnessSecret, d.Root.Log.Key, last)
			require.NoError(t, err)
			raw, err := os.ReadFile(filepath.Join(c.dir, audit.CheckpointFile))
			require.NoError(t, err)
			if _, err := w.Cosign(raw, nil); err != nil {
				o, says = Refused, err.Error()
				return
			}
			o, says = Unseen, "it has cosigned it"
		})
		return o, says
	})
	back("before a worker that remembers", func(t testing.TB, d *Deployment) (o Outcome, says string) {
		file := filepath.Join(t.TempDir(), "seen")
		d.On(t, func(c *Copy) { o, says = c.starts(t, file) })
		require.Equal(t, Unseen, o, says)
		early(t, d, func(c *Copy) { o, says = c.starts(t, file) })
		return o, says
	})
	back("before a worker that is new", func(t testing.TB, d *Deployment) (o Outcome, says string) {
		early(t, d, func(c *Copy) { o, says = c.starts(t, filepath.Join(t.TempDir(), "seen")) })
		return o, says
	})
	return all
}

// tailAttacks are those of whoever has the database and the log's key, on what the witness has
// not seen yet.
func (d *Deployment) tailAttacks(s *story) []*Attack {
	const newest = "SELECT max(size) FROM log_cosignatures"
	grown := func(t testing.TB, c *Copy, key string, f *forgery) error {
		l, err := c.open(t.Context(), "")
		if err != nil {
			return err
		}
		if f != nil {
			if err := execute(t.Context(), c.as(""), &Attack{SQL: []Statement{unguarded, f.insert(t)}}, true); err != nil {
				return err
			}
		}
		return errors.Join(integrate(t.Context(), l, key), l.Close())
	}
	lie := func(t testing.TB) *forgery {
		for _, e := range s.entries {
			if e.Kind == ledger.HoldPosted {
				return s.like(t, e)
			}
		}
		t.Fatal("the log has no hold")
		return nil
	}
	return []*Attack{
		{Thief: OwnerAndLogKey, Class: EntryMade, About: "unwitnessed", Name: "stated and signed", Quorum: 1, On: func(t testing.TB, c *Copy) error { return grown(t, c, d.LogKey, lie(t)) }},
		{Thief: OwnerAndLogKey, Class: TreeBent, About: "unwitnessed", Name: "dropped again", Quorum: 1, On: func(t testing.TB, c *Copy) error {
			if err := grown(t, c, d.LogKey, lie(t)); err != nil {
				return err
			}
			a := &Attack{}
			for _, name := range []string{"entries", "log_index", "log_batches", "log_tiles", "bodies"} {
				a.SQL = append(a.SQL, Statement{Text: "ALTER TABLE " + name + " DISABLE TRIGGER USER"})
			}
			for _, text := range []string{
				"CREATE TEMPORARY TABLE gone AS SELECT serial FROM log_index WHERE place >= (" + newest + ")",
				"DELETE FROM log_index WHERE serial IN (SELECT serial FROM gone)", "DELETE FROM entries WHERE serial IN (SELECT serial FROM gone)",
				"DELETE FROM log_batches WHERE grown > (" + newest + ")",
			} {
				a.SQL = append(a.SQL, Statement{Text: text})
			}
			return execute(t.Context(), c.as(""), a, true)
		}},
		{Thief: OwnerAndLogKey, Class: TreeBent, About: "witnessed", Name: "an entry exchanged below a cosignature", Quorum: 1, On: func(t testing.TB, c *Copy) error {
			f := lie(t)
			a := &Attack{SQL: []Statement{unguarded, f.insert(t), {Text: "ALTER TABLE log_index DISABLE TRIGGER USER"},
				{Text: "UPDATE log_index SET serial = (SELECT max(serial) FROM entries) WHERE place = 20"}, {Text: "DELETE FROM pending"}}}
			return execute(t.Context(), c.as(""), a, true)
		}},
	}
}
