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

// keyOf returns the key of a subject, and creates it if necessary.
func (t *tx) keyOf(ctx context.Context, subject string) (k sealKey, err error) {
	if t.ring == nil {
		return k, fmt.Errorf("%w: a person is named, and the key for the keys of subjects is not configured (ledger.subjects)", ledger.ErrInvalid)
	}
	if err := t.lockSubject(ctx, subject); err != nil {
		return k, err
	}
	id, err := t.idOf(ctx, subject)
	if errors.Is(err, sql.ErrNoRows) {
		return t.newKey(ctx, subject)
	}
	if err != nil {
		return k, err
	}
	if err := t.lockKey(ctx, id); err != nil {
		return k, err
	}
	k.id = id
	_, k.key, err = t.opener().unwrap(ctx, id)
	return k, err
}

// idOf returns the id of the key of a subject, whose name is locked.
func (t *tx) idOf(ctx context.Context, subject string) (id string, err error) {
	all, err := t.ring.Generations()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	for _, g := range slices.Backward(all) {
		err = t.row(ctx, "SELECT id FROM subject_keys WHERE lookup = $1", g.Lookup(subject)).Scan(&id)
		if !errors.Is(err, sql.ErrNoRows) {
			return id, err
		}
	}
	return "", sql.ErrNoRows
}

// newKey makes the key of a subject, whose name is locked.
func (t *tx) newKey(ctx context.Context, subject string) (sealKey, error) {
	fresh := newSealKey()
	if err := t.beside(ctx, keysLock); err != nil {
		return fresh, err
	}
	all, err := t.ring.Generations()
	if err != nil {
		return fresh, fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	newest := all[len(all)-1]
	wrapped, err := newest.Wrap(fresh.id, subject, fresh.key)
	if err != nil {
		return fresh, err
	}
	if _, err := t.exec(ctx, "INSERT INTO subject_keys (id, lookup, generation, wrapped) VALUES ($1, $2, $3, $4)",
		fresh.id, newest.Lookup(subject), newest.Name, wrapped); err != nil {
		return fresh, err
	}
	return fresh, t.lockKey(ctx, fresh.id)
}

// unusedGeneration returns a generation that wraps nothing: the newest, if an erasure that failed has
// left it, or a new one.
func (t *tx) unusedGeneration(ctx context.Context) (g keyring.Generation, err error) {
	all, err := t.ring.Generations()
	if err != nil {
		return g, fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	var n int
	g = all[len(all)-1]
	if err := t.row(ctx, "SELECT count(*) FROM subject_keys WHERE generation = $1", g.Name).Scan(&n); err != nil {
		return g, err
	}
	if n == 0 && len(all) > 1 {
		return g, nil
	}
	if g, err = t.ring.Add(); err != nil {
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	return g, err
}

// rewrap wraps the keys of all subjects but one with another generation, which has never
// wrapped that one.
func (t *tx) rewrap(ctx context.Context, but string) error {
	if err := t.beside(ctx, keysLock); err != nil {
		return err
	}
	g, err := t.unusedGeneration(ctx)
	if err != nil {
		return err
	}
	rows, err := t.rows(ctx, "SELECT id FROM subject_keys WHERE id <> $1 ORDER BY id", but)
	if err != nil {
		return err
	}
	ids, err := collect(rows, scanText)
	if err != nil {
		return err
	}
	o := t.opener()
	for _, id := range ids {
		subject, key, err := o.unwrap(ctx, id)
		if err != nil {
			return err
		}
		wrapped, err := g.Wrap(id, subject, key)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE subject_keys SET lookup = $2, generation = $3, wrapped = $4 WHERE id = $1", id, g.Lookup(subject), g.Name, wrapped); err != nil {
			return err
		}
	}
	return nil
}

// destroyUnused destroys the generations that wrap nothing any more. The newest stays.
func (s *Store) destroyUnused(ctx context.Context) error {
	all, err := s.ring.Generations()
	if err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	used, err := list(ctx, s, "list generations", "SELECT DISTINCT generation FROM subject_keys", nil, scanText)
	if err != nil {
		return err
	}
	var gone []string
	for _, g := range all[:len(all)-1] {
		if !slices.Contains(used, g.Name) {
			gone = append(gone, g.Name)
		}
	}
	if err := s.ring.Destroy(gone...); err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	return nil
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
	var id sql.NullString
	switch {
	case r.Subject != "":
		k, err := t.keyOf(ctx, r.Subject)
		return &k, err
	case r.Origin == "" || r.Origin == r.Root:
		return nil, nil
	}
	err := t.row(ctx, "SELECT subject_key FROM runs WHERE root = $1 AND subject_key IS NOT NULL LIMIT 1", r.Origin).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k, err := t.keyNamed(ctx, id.String)
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
	return nil
}
