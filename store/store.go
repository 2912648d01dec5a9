// Package store opens the stores of a deployment: its ledger, on SQLite or
// PostgreSQL, and its large values, in a folder or in the same database.
//
// SQLite brings its own log key, in a file beside the database that only its
// owner can read; whoever has that file may write the log. With PostgreSQL the
// key comes from the configuration, as that of SQLite may. A process that only reads, or
// only adds entries, needs no key, but then the options must name the log.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/ledger/sqlite"
)

// The drivers.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Options says where a deployment stores its ledger and its large values.
type Options struct {
	// Driver is SQLite or Postgres; "" is SQLite.
	Driver string
	// Dir is the folder of large values. Unless they are in the database, all processes
	// of the deployment must share it.
	Dir string
	// Path is SQLite's file; "" is ledger.db in Dir.
	Path string
	// URL is PostgreSQL's connection string. It is a secret.
	URL string
	// InDatabase stores large values in the database instead of Dir.
	InDatabase bool
	// Origin names the log; "" is the name of its key.
	Origin string
	// Subjects is the folder of the key that wraps the keys of subjects: see package keyring.
	// With SQLite, "" is a folder beside the database, and Open makes the key if there is
	// none; with PostgreSQL, "" is none, and nothing can be stated about a person.
	Subjects string
	// Key is the secret form of the log's key, or "".
	Key string
	// Signer is the log's key if its secret form lies elsewhere, as on a token; or nil.
	Signer *ledger.Key
	// Elsewhere reports that the log's key lies elsewhere, so that SQLite brings none of its
	// own. Without Signer, this process has no key.
	Elsewhere bool
}

// Password returns the password in the connection string of PostgreSQL, or "".
func (o Options) Password() string {
	if o.Driver != Postgres {
		return ""
	}
	return postgres.Password(o.URL)
}

// String names the store without its secrets.
func (o Options) String() string {
	if o.Driver == Postgres {
		return Postgres
	}
	return SQLite + ":" + o.File()
}

// GoString hides the secrets from %#v.
func (o Options) GoString() string { return o.String() }

// LogValue hides the secrets from slog.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Format hides the secrets from every verb.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// Opened is an open store.
type Opened struct {
	// Ledger is nil if only the large values are open.
	Ledger ledger.Store
	// Blobs holds the large values.
	Blobs blob.Store
	// Key is the log's key, nil if this process has none.
	Key *ledger.Key
	// Empty is set if the ledger has no entries.
	Empty bool

	done func() error
}

// Close releases the store.
func (o *Opened) Close() error { return o.done() }

// Open opens the store. If there is no SQLite database, Open makes one, with its key, and
// it migrates an older one. Open refuses a PostgreSQL database that [Migrate] has not
// migrated, and a log of another name.
func Open(ctx context.Context, o Options) (_ *Opened, err error) {
	key, origin, err := o.identity()
	if err != nil {
		return nil, err
	}
	s := &Opened{Key: key}
	switch o.Driver {
	case "", SQLite:
		s.Ledger, err = sqlite.Open(ctx, sqlite.Options{Path: o.File(), Origin: origin, Subjects: o.ring()})
	case Postgres:
		s.Ledger, err = postgres.Open(ctx, postgres.Options{URL: o.URL, Origin: origin, Subjects: o.ring()})
	}
	if err != nil {
		return nil, err
	}
	s.done = s.Ledger.Close
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Empty, err = named(ctx, s.Ledger); err != nil {
		return nil, err
	}
	if o.InDatabase {
		s.Blobs = database{s.Ledger}
		return s, nil
	}
	if s.Blobs, err = blob.Open(o.blobs()); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenValues opens a store of large values alone, for a process that does not use the
// ledger: it needs neither the log's key nor its name, and rights on the table of large
// values only ([postgres.Roles]).
func OpenValues(ctx context.Context, o Options) (*Opened, error) {
	blobs, done, err := OpenBlobs(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Opened{Blobs: blobs, done: done}, nil
}

// OpenBlobs is like [OpenValues], for a process that uses nothing else. done releases the
// store.
func OpenBlobs(ctx context.Context, o Options) (blobs blob.Store, done func() error, err error) {
	if !o.InDatabase {
		if blobs, err = blob.Open(o.blobs()); err != nil {
			return nil, nil, err
		}
		return blobs, func() error { return nil }, nil
	}
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	var s ledger.Store
	if o.Driver == Postgres {
		s, err = postgres.Open(ctx, postgres.Options{URL: o.URL, Origin: o.Origin})
	} else {
		s, err = sqlite.Open(ctx, sqlite.Options{Path: o.File(), Origin: o.Origin})
	}
	if err != nil {
		return nil, nil, err
	}
	return database{s}, s.Close, nil
}

// Migrate migrates the database to the newest schema, and returns how many steps that took.
// Several processes may call it at once.
func Migrate(ctx context.Context, o Options) (int, error) {
	if o.Driver == Postgres {
		if err := o.check(); err != nil {
			return 0, err
		}
		return postgres.Migrate(ctx, postgres.Options{URL: o.URL})
	}
	s, err := Open(ctx, o)
	if err != nil {
		return 0, err
	}
	return 0, s.Close()
}

// SubjectKeys returns the folder of the key that wraps the keys of subjects, "" for none,
// and reports whether the key is there.
func SubjectKeys(o Options) (folder string, there bool, err error) {
	ring := o.ring()
	if ring == nil {
		return "", false, nil
	}
	_, err = ring.Generations()
	if errors.Is(err, keyring.ErrNone) {
		return ring.String(), false, nil
	}
	if err != nil {
		return ring.String(), false, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return ring.String(), true, nil
}

// NewSubjectKeys makes the key that wraps the keys of subjects, in the folder Subjects, and
// makes that the folder of the database. If the database has one, its key must be there.
// [Migrate] comes first; with SQLite, Open does all that.
func NewSubjectKeys(ctx context.Context, o Options) error {
	_, origin, err := o.identity()
	switch {
	case err != nil:
		return err
	case o.Driver != Postgres:
		return nil
	case o.Subjects == "":
		return fmt.Errorf("%w: there is no folder for the key that wraps the keys of subjects (ledger.subjects)", ErrOptions)
	}
	_, err = postgres.Migrate(ctx, postgres.Options{URL: o.URL, Origin: origin, Subjects: o.ring()})
	return err
}

// Roles are the names of the database roles that [Grant] makes.
var Roles = postgres.DefaultRoles

// Grant makes the database roles of the parts of a deployment, and gives them
// their rights on what [Migrate] has made; see [postgres.Roles].
func Grant(ctx context.Context, o Options) error {
	if o.Driver != Postgres {
		return fmt.Errorf("%w: %s has no roles", ErrOptions, o)
	}
	if err := o.check(); err != nil {
		return err
	}
	return postgres.Grant(ctx, postgres.Options{URL: o.URL}, Roles)
}

// ErrOptions reports options that do not name a store.
var ErrOptions = errors.New("store")

func (o Options) check() error {
	switch {
	case o.Driver != "" && o.Driver != SQLite && o.Driver != Postgres:
		return fmt.Errorf("%w: there is no driver %.40q", ErrOptions, o.Driver)
	case o.Driver == Postgres && o.URL == "":
		return fmt.Errorf("%w: PostgreSQL needs its connection string (store.url)", ErrOptions)
	case !o.InDatabase && o.Dir == "":
		return fmt.Errorf("%w: there is no folder for large values (store.dir)", ErrOptions)
	}
	return nil
}

// identity returns the log's key and name.
func (o Options) identity() (*ledger.Key, string, error) {
	if err := o.check(); err != nil {
		return nil, "", err
	}
	if o.Signer != nil {
		return o.keyed(o.Signer)
	}
	secret := o.Key
	if secret == "" && o.Driver != Postgres && !o.Elsewhere {
		var err error
		if secret, err = ownKey(o.KeyFile(), o.Origin); err != nil {
			return nil, "", err
		}
	}
	if secret == "" {
		if o.Origin == "" {
			return nil, "", fmt.Errorf("%w: without the log's key its name must be said (store.origin)", ErrOptions)
		}
		return nil, o.Origin, nil
	}
	key, err := ledger.ParseKey(secret)
	if err != nil {
		if o.Key == "" {
			err = fmt.Errorf("%s: %w", o.KeyFile(), err)
		}
		return nil, "", fmt.Errorf("%w: the log's key: %w", ErrOptions, err)
	}
	return o.keyed(key)
}

// keyed returns a key and its name, which is that of the log.
func (o Options) keyed(key *ledger.Key) (*ledger.Key, string, error) {
	if o.Origin != "" && o.Origin != key.Name() {
		return nil, "", fmt.Errorf("%w: the log is called %.120q, and its key is that of %.120q", ErrOptions, o.Origin, key.Name())
	}
	return key, key.Name(), nil
}

// File returns the path of SQLite's file.
func (o Options) File() string {
	if o.Path == "" {
		return filepath.Join(o.Dir, "ledger.db")
	}
	return o.Path
}

// KeyFile returns the path of the key that SQLite brings for its log.
func (o Options) KeyFile() string { return o.beside(".key") }

// ring returns the keyring, or nil.
func (o Options) ring() *keyring.Ring {
	switch {
	case o.Subjects != "":
		return keyring.At(o.Subjects)
	case o.Driver == Postgres:
		return nil
	}
	return keyring.At(o.beside(".subjects"))
}

// beside returns the path of what lies beside SQLite's file, with another extension.
func (o Options) beside(extension string) string {
	path := o.File()
	return strings.TrimSuffix(path, filepath.Ext(path)) + extension
}

func (o Options) blobs() string { return filepath.Join(o.Dir, "blobs") }

// Private returns where the store keeps on this machine what is for its processes alone, whether it is
// there yet or not: its database with SQLite's files beside it, the log's own key, the keyring, and the
// folder of large values.
func (o Options) Private() (all []string) {
	if o.Driver != Postgres {
		path := o.File()
		all = append(all, path, path+"-wal", path+"-shm", path+"-journal", o.KeyFile(), cmp.Or(o.Subjects, o.beside(".subjects")))
	} else if o.Subjects != "" {
		all = append(all, o.Subjects)
	}
	if !o.InDatabase {
		all = append(all, o.Dir)
	}
	return all
}

// named returns an error if the log of a database has another name: entries of two names
// would be two logs in one tree. It reports whether the log has no entries yet.
func named(ctx context.Context, s ledger.Store) (empty bool, err error) {
	records, err := s.Records(ctx, 0, 1)
	if err == nil && len(records) == 0 {
		records, err = s.Pending(ctx, 1)
	}
	if err != nil {
		return false, fmt.Errorf("look at the log: %w", err)
	}
	for _, r := range records {
		e, err := ledger.DecodeEntry(r.Bytes)
		if err != nil {
			return false, fmt.Errorf("look at the log: %w", err)
		}
		if e.Origin != s.Origin() {
			return false, fmt.Errorf("%w: the database has the log %.120q, not %.120q: bring back the key of the first, or take another database", ErrOptions, e.Origin, s.Origin())
		}
	}
	return len(records) == 0, nil
}
