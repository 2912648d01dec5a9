package sqlstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
)

// Everything that a run with a subject states is sealed with the subject's key,
// and its entries do not have the digests of values that could be guessed. Once
// the key is deleted, whatever such a run still states is sealed with a key that
// nobody keeps.

// sealKey is a key with which bodies are sealed. gone reports that it was deleted,
// and that this one is stored nowhere.
type sealKey struct {
	id   string
	key  []byte
	gone bool
}

func newSealKey() sealKey {
	key := make([]byte, ledger.KeyBytes)
	// It does not fail: crypto/rand ends the process instead.
	_, _ = rand.Read(key)
	sum := sha256.Sum256(key)
	return sealKey{id: hex.EncodeToString(sum[:16]), key: key}
}

// lockSubject locks the name of a subject, as chains are locked.
func (t *tx) lockSubject(ctx context.Context, subject string) error {
	if len(subject) > maxText {
		return fmt.Errorf("%w: the subject's name has %d bytes, more than %d", ledger.ErrInvalid, len(subject), maxText)
	}
	sum := sha256.Sum256([]byte("subject " + subject))
	return t.beside(ctx, "subject "+hex.EncodeToString(sum[:]))
}

// lockKey locks a key: it must not be deleted before what is sealed with it is
// committed.
func (t *tx) lockKey(ctx context.Context, id string) error { return t.beside(ctx, "subject key "+id) }

// beside takes a lock that is not a chain's: entries have the time at which their
// chain was locked.
func (t *tx) beside(ctx context.Context, name string) error {
	now := t.now
	err := t.lock(ctx, name)
	if now != (ledger.Time{}) {
		t.now = now
	}
	return err
}

// keysLock is the lock under which keys of subjects are made, and wrapped anew: a new key
// must not be wrapped with a generation that an erasure destroys.
const keysLock = "subject keys"

// Bind makes the store's keyring that of the database, unless the database has one: it makes
// the ring's first key if there is none. If the database has one, its current generation must be
// there; that an earlier build gave the ring to another database, too, is not told. The caller owns
// the tables.
func (s *Store) Bind(ctx context.Context) error {
	return s.do(ctx, "bind the keyring", func(t *tx) error {
		if err := t.beside(ctx, keysLock); err != nil {
			return err
		}
		var database string
		if err := t.row(ctx, t.d.Self).Scan(&database); err != nil {
			return err
		}
		_, err := t.current(ctx)
		if err == nil { // an earlier build may have made the ring
			_, err = t.ring.Claim(database)
			return unavailable(err)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		g, err := t.ring.Create(t.origin, database)
		if err != nil {
			return unavailable(err)
		}
		_, err = t.exec(ctx, "INSERT INTO keyring (one, generation) VALUES (1, $1)", g.Name)
		return err
	})
}

// Bound reports whether the database has a keyring.
func (s *Store) Bound(ctx context.Context) (bool, error) {
	var n int
	err := s.one(ctx, "look for the keyring", "SELECT count(*) FROM keyring", nil, &n)
	return n > 0, err
}

// Keyring implements [ledger.Log].
func (s *Store) Keyring(ctx context.Context) error {
	bound, err := s.Bound(ctx)
	if err != nil || !bound {
		return err
	}
	if s.ring == nil {
		return fmt.Errorf("%w: the database has a keyring, and this process was given none (ledger.subjects)", ledger.ErrInvalid)
	}
	return s.do(ctx, "look at the keyring", func(t *tx) error {
		_, err := t.current(ctx)
		return err
	})
}

// unavailable is for errors of the keyring.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// current returns the generation that wraps all keys. A ring that lacks it is an old copy, or
// that of another database; or the database is one from before an erasure.
func (t *tx) current(ctx context.Context) (g keyring.Generation, err error) {
	var name string
	if err := t.row(ctx, "SELECT generation FROM keyring").Scan(&name); err != nil {
		return g, err
	}
	if g, err = t.ring.Generation(name); err == nil {
		err = t.ring.Of(t.origin)
	}
	return g, unavailable(err)
}

// bound is current for those who need one.
func (t *tx) bound(ctx context.Context) (keyring.Generation, error) {
	g, err := t.current(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return g, fmt.Errorf("%w: the database has no key for the keys of subjects yet (chimera migrate --new-subject-keys)", ledger.ErrUnavailable)
	}
	return g, err
}

// keyOf returns the key of a subject, and creates it if necessary.
func (t *tx) keyOf(ctx context.Context, subject string) (k sealKey, err error) {
	if t.ring == nil {
		return k, fmt.Errorf("%w: a person is named, and the key for the keys of subjects is not configured (ledger.subjects)", ledger.ErrInvalid)
	}
	if err := t.lockSubject(ctx, subject); err != nil {
		return k, err
	}
	g, err := t.bound(ctx)
	if err != nil {
		return k, err
	}
	err = t.row(ctx, "SELECT id FROM subject_keys WHERE lookup = $1", g.Lookup(subject)).Scan(&k.id)
	if errors.Is(err, sql.ErrNoRows) {
		return t.newKey(ctx, subject)
	}
	if err != nil {
		return k, err
	}
	if err := t.lockKey(ctx, k.id); err != nil {
		return k, err
	}
	_, k.key, err = t.opener().unwrap(ctx, k.id)
	return k, err
}

// newKey makes the key of a subject, whose name is locked. An erasure may have taken its time:
// what is stated with the key is stated now.
func (t *tx) newKey(ctx context.Context, subject string) (sealKey, error) {
	fresh := newSealKey()
	if err := t.lock(ctx, keysLock); err != nil {
		return fresh, err
	}
	g, err := t.bound(ctx)
	if err != nil {
		return fresh, err
	}
	wrapped, err := g.Wrap(fresh.id, subject, fresh.key)
	if err != nil {
		return fresh, err
	}
	if _, err := t.exec(ctx, "INSERT INTO subject_keys (id, lookup, generation, wrapped) VALUES ($1, $2, $3, $4)",
		fresh.id, g.Lookup(subject), g.Name, wrapped); err != nil {
		return fresh, err
	}
	return fresh, t.lockKey(ctx, fresh.id)
}

// subjectKey is the key of a subject as it was wrapped, and the error of unwrapping it.
type subjectKey struct {
	id, subject string
	key         []byte
	err         error
}

// subjectKeys reads all keys of subjects, most of which the current generation wraps. Those that
// none opens are there with their errors: whoever may insert rows may insert any. A file that
// cannot be read now is no verdict on the keys that it wraps.
func (t *tx) subjectKeys(ctx context.Context, now keyring.Generation) ([]subjectKey, error) {
	rows, err := t.rows(ctx, "SELECT id, generation, wrapped FROM subject_keys ORDER BY id")
	if err != nil {
		return nil, err
	}
	generations := map[string]keyring.Generation{now.Name: now}
	return collect(rows, func(rows *sql.Rows) (k subjectKey, err error) {
		var name string
		var wrapped []byte
		if err := rows.Scan(&k.id, &name, &wrapped); err != nil {
			return k, err
		}
		g, read := generations[name]
		if !read {
			if g, k.err = t.ring.Generation(name); errors.Is(k.err, keyring.ErrMissing) {
				return k, nil
			}
			if k.err != nil {
				return k, unavailable(k.err)
			}
			generations[name] = g
		}
		k.subject, k.key, k.err = g.Unwrap(k.id, wrapped)
		return k, nil
	})
}

// rewrap wraps keys with a new generation, and makes that the current one. It is never one that
// was there: an erasure that failed may have left, in the pages of the database, anybody's key
// wrapped with that.
func (t *tx) rewrap(ctx context.Context, keys []subjectKey) error {
	g, err := t.ring.Add()
	if err != nil {
		return unavailable(err)
	}
	for _, k := range keys {
		if k.err != nil {
			continue
		}
		wrapped, err := g.Wrap(k.id, k.subject, k.key)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE subject_keys SET lookup = $2, generation = $3, wrapped = $4 WHERE id = $1", k.id, g.Lookup(k.subject), g.Name, wrapped); err != nil {
			return err
		}
	}
	_, err = t.exec(ctx, "UPDATE keyring SET generation = $1", g.Name)
	return err
}

// destroyOld destroys all generations but the current one, whatever rows say: those that an
// erasure has replaced, and those that one has left which failed.
func (s *Store) destroyOld(ctx context.Context) error {
	return s.do(ctx, "erase a subject", func(t *tx) error {
		if err := t.beside(ctx, keysLock); err != nil {
			return err
		}
		g, err := t.bound(ctx)
		if err != nil {
			return err
		}
		all, err := t.ring.Generations()
		if err != nil {
			return unavailable(err)
		}
		var old []string
		for _, x := range all {
			if x.Name != g.Name {
				old = append(old, x.Name)
			}
		}
		return unavailable(t.ring.Destroy(old...))
	})
}

// keyNamed returns the key of an id.
func (t *tx) keyNamed(ctx context.Context, id string) (sealKey, error) {
	if t.ring == nil {
		return sealKey{}, errNoRing
	}
	if err := t.lockKey(ctx, id); err != nil {
		return sealKey{}, err
	}
	_, key, err := t.opener().unwrap(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		k := newSealKey()
		k.id, k.gone = id, true
		return k, nil
	}
	return sealKey{id: id, key: key}, err
}

// sealing returns the key of a chain that is sealed, or nil. The chain is locked.
func (t *tx) sealing(ctx context.Context, chain string) (*sealKey, error) {
	if k, ok := t.keys[chain]; ok {
		return k, nil
	}
	if workflow, root, ok := ledger.RunOf(chain); ok {
		var id sql.NullString
		err := t.row(ctx, "SELECT subject_key FROM runs WHERE workflow = $1 AND root = $2", workflow, root).Scan(&id)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		return t.sealedWith(ctx, chain, id)
	}
	t.keys[chain] = nil
	return nil, nil
}

// sealedWith records the key of a chain.
func (t *tx) sealedWith(ctx context.Context, chain string, id sql.NullString) (*sealKey, error) {
	if k, ok := t.keys[chain]; ok || !id.Valid {
		t.keys[chain] = k
		return k, nil
	}
	k, err := t.keyNamed(ctx, id.String)
	if err != nil {
		return nil, err
	}
	t.keys[chain] = &k
	return &k, nil
}

// stands reads a run, whose chain is locked, and the key of its chain. Its agent and its plan,
// which every entry about it repeats, are those of the log.
func (t *tx) stands(ctx context.Context, workflow, root string) (r ledger.Run, k *sealKey, err error) {
	var doc string
	var id sql.NullString
	var value, first []byte
	if err := t.row(ctx, `SELECT doc, value, subject_key, (SELECT bytes FROM entries WHERE chain = $3 AND n = 0) FROM runs WHERE workflow = $1 AND root = $2`,
		workflow, root, ledger.RunChain(workflow, root)).Scan(&doc, &value, &id, &first); err != nil {
		return r, nil, err
	}
	if r, err = decodeRun(ctx, t.opener(), doc, value, id); err != nil {
		return r, nil, err
	}
	e, err := ledger.DecodeEntry(first)
	if err != nil {
		return r, nil, err
	}
	r.Workflow, r.Root, r.Agent, r.PlanDigest = workflow, root, e.Agent, e.Plan
	k, err = t.sealedWith(ctx, r.Chain(), id)
	return r, k, err
}

// subjectOf returns the key of a run that is opened: that of its subject, or of the
// run that it continues, or nil.
func (t *tx) subjectOf(ctx context.Context, r ledger.Run) (*sealKey, error) {
	if r.Origin != "" && r.Origin != r.Root {
		var id sql.NullString
		err := t.row(ctx, "SELECT subject_key FROM runs WHERE root = $1 AND subject_key IS NOT NULL LIMIT 1", r.Origin).Scan(&id)
		if err == nil {
			// Also if that person was erased: what is continued stays erased, whatever the start says.
			k, err := t.keyNamed(ctx, id.String)
			return &k, err
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
	}
	if r.Subject == "" {
		return nil, nil
	}
	k, err := t.keyOf(ctx, r.Subject)
	return &k, err
}

// guessable are the parts of references whose values may be few.
var guessable = []string{"input", "output", "action"}

// withhold removes the digests of guessable values from a draft's references.
func withhold(d *ledger.Draft) {
	d.Refs = slices.DeleteFunc(slices.Clone(d.Refs), func(r ledger.Ref) bool { return slices.Contains(guessable, r.Name) })
}

// bare is what remains of a run whose subject was erased.
func bare(r ledger.Run) ledger.Run {
	return ledger.Run{
		Workflow: r.Workflow, Root: r.Root, Origin: r.Origin, PlanDigest: r.PlanDigest, PlanName: r.PlanName, PlanVersion: r.PlanVersion,
		Agent: r.Agent, GrantDigest: r.GrantDigest, State: r.State, OpenedAt: r.OpenedAt, ClosedAt: r.ClosedAt,
	}
}

// bareOutcome is what remains of an outcome of such a run.
func bareOutcome(o ledger.Outcome) ledger.Outcome {
	return ledger.Outcome{Node: o.Node, Visit: o.Visit, Element: o.Element, Kind: o.Kind, Activity: o.Activity, Attempts: o.Attempts}
}

// forget removes the statements of a subject's runs from the tables beside the log.
func (t *tx) forget(ctx context.Context, id string) error {
	rows, err := t.rows(ctx, "SELECT workflow, root, doc FROM runs WHERE subject_key = $1", id)
	if err != nil {
		return err
	}
	type stored struct{ workflow, root, doc string }
	runs, err := collect(rows, func(rows *sql.Rows) (r stored, err error) { return r, rows.Scan(&r.workflow, &r.root, &r.doc) })
	if err != nil {
		return err
	}
	for _, r := range runs {
		if left, ok := bareOf(r.doc); ok {
			if _, err := t.exec(ctx, "UPDATE runs SET doc = $3, value = NULL WHERE workflow = $1 AND root = $2", r.workflow, r.root, left); err != nil {
				return err
			}
		}
		rows, err := t.rows(ctx, "SELECT serial, doc FROM outcomes WHERE workflow = $1 AND root = $2", r.workflow, r.root)
		if err != nil {
			return err
		}
		type outcome struct {
			serial int64
			doc    string
		}
		outcomes, err := collect(rows, func(rows *sql.Rows) (o outcome, err error) { return o, rows.Scan(&o.serial, &o.doc) })
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			if left, ok := bareOf(o.doc); ok {
				if _, err := t.exec(ctx, "UPDATE outcomes SET doc = $2 WHERE serial = $1", o.serial, left); err != nil {
					return err
				}
			}
		}
		chain := ledger.RunChain(r.workflow, r.root)
		for _, table := range []string{"tasks", "decisions", "barriers", "approvals", "checks"} {
			if _, err := t.exec(ctx, "DELETE FROM "+table+" WHERE chain = $1", chain); err != nil {
				return err
			}
		}
		if _, err := t.exec(ctx, "UPDATE invocations SET permit = 'null', salt = NULL, output = NULL, output_digest = '' WHERE chain = $1", chain); err != nil {
			return err
		}
	}
	_, err = t.exec(ctx, "DELETE FROM causal_hypothesis WHERE subject_key = $1", id)
	return err
}
