package sqlstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/ledger"
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

// keyOf returns the key of a subject, and creates it if necessary.
func (t *tx) keyOf(ctx context.Context, subject string) (k sealKey, err error) {
	if err := t.lockSubject(ctx, subject); err != nil {
		return k, err
	}
	fresh := newSealKey()
	if _, err := t.exec(ctx, "INSERT INTO subject_keys (id, name, key) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING",
		fresh.id, subject, fresh.key); err != nil {
		return k, err
	}
	if err := t.row(ctx, "SELECT id, key FROM subject_keys WHERE name = $1", subject).Scan(&k.id, &k.key); err != nil {
		return k, err
	}
	return k, t.lockKey(ctx, k.id)
}

// keyNamed returns the key of an id.
func (t *tx) keyNamed(ctx context.Context, id string) (sealKey, error) {
	if err := t.lockKey(ctx, id); err != nil {
		return sealKey{}, err
	}
	k := sealKey{id: id}
	err := t.row(ctx, "SELECT key FROM subject_keys WHERE id = $1", id).Scan(&k.key)
	if errors.Is(err, sql.ErrNoRows) {
		k, err = newSealKey(), nil
		k.id, k.gone = id, true
	}
	return k, err
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

// stands reads a run, whose chain is locked, and the key of its chain.
func (t *tx) stands(ctx context.Context, workflow, root string) (r ledger.Run, k *sealKey, err error) {
	var doc string
	var id sql.NullString
	var value []byte
	if err := t.row(ctx, "SELECT doc, value, subject_key FROM runs WHERE workflow = $1 AND root = $2", workflow, root).Scan(&doc, &value, &id); err != nil {
		return r, nil, err
	}
	if err := json.Unmarshal([]byte(doc), &r); err != nil {
		return r, nil, err
	}
	r.Value = value
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
	rows, err := t.rows(ctx, "SELECT doc FROM runs WHERE subject_key = $1", id)
	if err != nil {
		return err
	}
	runs, err := collect(rows, document[ledger.Run])
	if err != nil {
		return err
	}
	for _, r := range runs {
		doc, err := text(bare(r))
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE runs SET doc = $3, value = NULL WHERE workflow = $1 AND root = $2", r.Workflow, r.Root, doc); err != nil {
			return err
		}
		rows, err := t.rows(ctx, "SELECT doc FROM outcomes WHERE workflow = $1 AND root = $2", r.Workflow, r.Root)
		if err != nil {
			return err
		}
		outcomes, err := collect(rows, document[ledger.Outcome])
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			doc, err := text(bareOutcome(o))
			if err != nil {
				return err
			}
			if _, err := t.exec(ctx, "UPDATE outcomes SET doc = $6 WHERE workflow = $1 AND root = $2 AND node = $3 AND visit = $4 AND element = $5",
				r.Workflow, r.Root, o.Node, o.Visit, o.Element, doc); err != nil {
				return err
			}
		}
		for _, table := range []string{"tasks", "decisions", "barriers", "approvals", "checks"} {
			if _, err := t.exec(ctx, "DELETE FROM "+table+" WHERE chain = $1", r.Chain()); err != nil {
				return err
			}
		}
		if _, err := t.exec(ctx, "UPDATE invocations SET permit = 'null', salt = NULL, output = NULL WHERE chain = $1", r.Chain()); err != nil {
			return err
		}
	}
	return nil
}
