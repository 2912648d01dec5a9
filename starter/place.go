package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/wholefile"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/store"
)

// place is the store of the deployment that a command works with.
type place struct {
	store store.Options
	// local is the chimera dev of this folder, if the store is its own.
	local *local
	// known reports that the workers use this store, rather than that it is a default.
	known bool
	// settings is the configuration.
	settings config.Config
	// opened is the store once it is open.
	opened *store.Opened
	// root is the root of trust, once it has been read.
	root *trustRoot
}

// place finds the store: the configured one, or that of the dev server of this
// folder.
func (p *Program) place() (*place, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	return p.placeOf(settings)
}

func (p *Program) placeOf(settings config.Config) (*place, error) {
	options, err := host.Store(settings)
	if err != nil {
		return nil, misuse("%s", err)
	}
	at := &place{store: options, known: settings.HasStore(), settings: settings}
	if settings.Temporal.Address != "" {
		return at, nil
	}
	if at.local, err = p.findLocal(settings.Dev.Dir); err != nil {
		return nil, unanswered("%s", err)
	}
	if l := at.local; l != nil {
		at.known, at.store.Dir = true, l.Store
		if l.Ledger != "" {
			at.store.Driver, at.store.Path = store.SQLite, l.Ledger
		}
	}
	return at, nil
}

// checkFiles refuses the store of a running chimera dev whose files were removed:
// opening it would create a new one, other than the one that the worker has open.
func (at *place) checkFiles() error {
	if at.local == nil {
		return nil
	}
	for _, file := range []string{at.local.Store, at.local.Ledger} {
		if file != "" && !exists(file) {
			return unanswered("%s is gone, and the chimera dev of this folder had it open", file).
				withHint("Bring it back, or end chimera dev: the next one begins with a new store.")
		}
	}
	return nil
}

// existing refuses an embedded ledger that is not there: opening it would make an empty one.
func (at *place) existing() error {
	if at.opened != nil || at.store.Driver == store.Postgres {
		return nil
	}
	if err := at.checkFiles(); err != nil {
		return err
	}
	file := cmp.Or(at.store.Path, filepath.Join(at.store.Dir, "ledger.db"))
	if exists(file) {
		return nil
	}
	return unanswered("there is no ledger in %s", fromHere(filepath.Dir(file))).withHint("Run this in the deployment's folder, or give --config.")
}

// fromHere is a path as it is from the working directory, if that is below it.
func fromHere(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// ledger opens the ledger, until Close.
func (at *place) ledger(ctx context.Context, p *Program) (ledger.Store, error) {
	if at.opened != nil {
		return at.opened.Ledger, nil
	}
	if err := at.checkFiles(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	s, err := store.Open(bounded, at.store)
	if err != nil {
		return nil, storeError(err)
	}
	p.later(s.Close)
	at.opened = s
	return s.Ledger, nil
}

// keyless reports whether an error says that the key that wraps the keys of persons is not
// in the folder ledger.subjects.
func keyless(err error) bool {
	return errors.Is(err, keyring.ErrNone) || errors.Is(err, keyring.ErrMissing) || errors.Is(err, keyring.ErrForeign)
}

// storeError is the failure of a store that cannot be opened or used.
func storeError(err error) error {
	switch {
	case errors.Is(err, store.ErrOptions):
		return misuse("%s", err)
	case errors.Is(err, keyring.ErrTaken):
		return misuse("%s", err).withHint("Name another folder in ledger.subjects: an erasure in one database would destroy what opens the keys of persons in the other. If that database is gone for good, so is what this key opens: remove the folder.")
	case keyless(err):
		return unanswered("%s", err).withHint("Check ledger.subjects: the folder with the key that wraps the keys of persons must be the one that the deployment's workers have.")
	case errors.Is(err, ledger.ErrConflict), errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrInvalid):
		return negative("%s", err)
	case errors.Is(err, ledger.ErrUnavailable):
		// A database is dialled twice, with TLS and without.
		return unanswered("%s", strings.Join(slices.Compact(strings.Split(err.Error(), "\n")), "\n")).withHint("Check that the store is there, and lets this user in: store.url or store.path, and store.dir.")
	}
	return denied(err, "to read the ledger", store.Roles.Reader)
}

// denied is the failure of an operation of the store that has no name of its own. If the
// database refuses the user, it says which role the user needs to do what.
func denied(err error, what, role string) error {
	f := unanswered("%s", err)
	if errors.Is(err, ledger.ErrDenied) {
		return f.withHint("The database's user (store.url) must be a member of %s %s. Whoever ran chimera migrate --grant makes it one: GRANT %s TO …", role, what, role)
	}
	return f
}

// owned is like storeError for what only the owner of the tables does.
func owned(err error) error {
	if errors.Is(err, ledger.ErrDenied) {
		return unanswered("%s", err).withHint("Only the owner of the ledger's tables may do that: the user that runs chimera migrate.")
	}
	return storeError(err)
}

// migration is the JSON answer of migrate.
type migration struct {
	Driver string `json:"driver"`
	// Steps is the number of migrations applied.
	Steps int `json:"steps"`
	// Made are the keys that were made, and Kept those that were there. Granted reports that the
	// roles of the database have their rights.
	Made    []madeKey `json:"made"`
	Kept    []madeKey `json:"kept,omitempty"`
	Granted bool      `json:"granted,omitempty"`
}

// madeKey is a key that migrate has made, or kept.
type madeKey struct {
	// What is "log key", "payload key", "payload key of ROLE" or "subject keys".
	What string `json:"what"`
	// Path is that of its file, or of the folder of subject keys.
	Path string `json:"path"`
	// Public is the verifier key of a log key, "NAME+HASH+KEY".
	Public string `json:"public_key,omitempty"`
}

// describe says what was done with a key: it was made, or kept.
func (k madeKey) describe(done string) string {
	text := done + ": " + k.What + ": " + k.Path
	if k.Public != "" {
		text += "\npublic half of the " + k.What + ": " + k.Public
	}
	return text
}

// add notes a key that was made, unless it was there before, or the error of making it.
func (m *migration) add(k madeKey, there bool, err error) error {
	switch {
	case err != nil:
		return storeError(err)
	case there:
		m.Kept = append(m.Kept, k)
	default:
		m.Made = append(m.Made, k)
	}
	return nil
}

// addLogKey makes the key of the log of that name in a file, unless it is there, and notes it
// with its public half.
func (m *migration) addLogKey(file, origin string) error {
	there := exists(file)
	if err := store.NewKey(file, origin); err != nil {
		return storeError(err)
	}
	raw, err := wholefile.Read(file, maxSecretKey)
	if err != nil {
		return misuse("%s", err)
	}
	key, err := ledger.ParseKey(string(raw))
	if err != nil {
		return misuse("%s: %s", file, err)
	}
	return m.add(madeKey{"log key", file, key.Public()}, there, nil)
}

// say prints what was done.
func (m *migration) say(p *Program) {
	for _, k := range m.Made {
		p.printf("%s\n", k.describe("made"))
	}
	for _, k := range m.Kept {
		p.printf("%s\n", k.describe("kept"))
	}
	if m.Granted {
		p.printf("the database's roles have their rights\n")
	}
	if m.Steps == 0 {
		p.printf("%s: nothing to do\n", m.Driver)
		return
	}
	p.printf("%s: %s\n", m.Driver, plural(m.Steps, "step"))
}

// makePayloadKey creates a payload key in a file, unless the file has one. The id is
// random, since histories refer to keys by id.
func makePayloadKey(file string) (key string, err error) {
	key, err = store.LoadOrCreateKey(file, func() (string, error) {
		return payload.NewKey("k" + strings.ToLower(rand.Text()[:10]))
	})
	if err != nil {
		return "", err
	}
	if _, err := payload.ParseKeys([]string{key}); err != nil {
		return "", fmt.Errorf("%w: %s: %w", store.ErrOptions, file, err)
	}
	return key, nil
}

// makeRoleKey derives the payload key of a role from the whole one, "ROLE=FILE", and keeps
// it in the file, unless that has it.
func makeRoleKey(whole, pair string) error {
	role, file, ok := strings.Cut(pair, "=")
	if !ok || file == "" {
		return fmt.Errorf("%w: --role-payload-key is ROLE=FILE, not %q", store.ErrOptions, pair)
	}
	key, err := payload.RoleKey(whole, role)
	if err != nil {
		return fmt.Errorf("%w: --role-payload-key: %w", store.ErrOptions, err)
	}
	have, err := store.LoadOrCreateKey(file, func() (string, error) { return key, nil })
	if err == nil && have != key {
		err = fmt.Errorf("%w: %s has another key", store.ErrOptions, file)
	}
	return err
}

func migrateCommand(p *Program, fs *flag.FlagSet) action {
	grant := fs.Bool("grant", false, "also create the database roles of the components, with their rights (PostgreSQL; needs CREATEROLE)")
	newKey := fs.String("new-key", "", "create the log's key, named store.origin, in `FILE`, unless there is one, and print its public half")
	subjectKeys := fs.Bool("new-subject-keys", false, "create the key that wraps the keys of subjects, in the folder ledger.subjects, unless there is one")
	newPayloadKey := fs.String("new-payload-key", "", "create a payload key, for payload.keys, in `FILE`, unless there is one")
	var roleKeys texts
	fs.Var(&roleKeys, "role-payload-key", "keep what the role needs of the key of --new-payload-key in a file, `ROLE=FILE`: "+strings.Join(payload.Roles(), ", ")+"; may be repeated")
	return func(ctx context.Context, _ []string) error {
		settings, err := p.settings()
		if err != nil {
			return err
		}
		if len(roleKeys) > 0 && *newPayloadKey == "" {
			return misuse("--role-payload-key needs --new-payload-key, the file of the whole key")
		}
		done := migration{Made: []madeKey{}}
		if *newPayloadKey != "" {
			there := exists(*newPayloadKey)
			whole, err := makePayloadKey(*newPayloadKey)
			if err := done.add(madeKey{What: "payload key", Path: *newPayloadKey}, there, err); err != nil {
				return err
			}
			for _, pair := range roleKeys {
				role, file, _ := strings.Cut(pair, "=")
				there := exists(file)
				if err := done.add(madeKey{What: "payload key of " + role, Path: file}, there, makeRoleKey(whole, pair)); err != nil {
					return err
				}
			}
		}
		if *newKey != "" { // before host.Store: ledger.key may refer to the file
			if err := done.addLogKey(*newKey, settings.Store.Origin); err != nil {
				return err
			}
		}
		options, err := host.Store(settings)
		if err != nil {
			return misuse("%s", err)
		}
		done.Driver = options.Driver
		folder, there, looked := store.SubjectKeys(options)
		done.Steps, err = store.Migrate(ctx, options)
		if err == nil && *subjectKeys {
			if looked == nil {
				looked = store.NewSubjectKeys(ctx, options)
			}
			if err := done.add(madeKey{What: "subject keys", Path: folder}, there, looked); err != nil {
				return err
			}
		}
		if err == nil && *grant {
			err = store.Grant(ctx, options)
			done.Granted = err == nil
		}
		if err != nil {
			for _, k := range done.Made { // they stay
				p.say("%s", k.describe("made"))
			}
			return storeError(err)
		}
		if p.json() {
			return p.document(done)
		}
		done.say(p)
		return nil
	}
}

// existingLedger opens the ledger of the deployment, and makes none.
func (p *Program) existingLedger(ctx context.Context) (ledger.Store, error) {
	at, err := p.place()
	if err != nil {
		return nil, err
	}
	if err := at.existing(); err != nil {
		return nil, err
	}
	return at.ledger(ctx, p)
}

// openLedger opens the ledger of the deployment.
func (p *Program) openLedger(ctx context.Context) (ledger.Store, error) {
	at, err := p.place()
	if err != nil {
		return nil, err
	}
	return at.ledger(ctx, p)
}
