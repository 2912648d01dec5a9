// Package keyring stores, outside the ledger's database, the key that wraps the keys of
// subjects. Without it, nobody who has the database, a replica or a backup of it can read
// what is sealed with those.
//
// The key has generations. Erasing a subject adds one, wraps the remaining keys of
// subjects with it, and destroys the others, and with them whatever they still wrap
// anywhere. The database says which generation is the current one.
//
// # Format
//
// A ring is a folder with one file per generation, N-ID.key: N is its number, in eight
// digits, and ID the first 16 hex digits of the SHA-256 of the key. The file has the key,
// 32 random bytes in base64 (RFC 4648, section 4), and a line feed. N-ID names the
// generation. The file origin has the name of the log whose ring it is, and a line feed.
// The file database has what the database of that log is known by, and a line feed, unless an
// earlier build has made the ring.
//
// The key of a subject is wrapped with AES-256-GCM: a nonce of 12 bytes, and the sealed
// JSON {"key":…,"subject":…}, the key in base64, with the id of the subject's key as
// associated data. A subject is looked up by HMAC-SHA256 of "subject", a zero byte and its
// name, in hex, with the key of the generation.
package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Errors of rings.
var (
	// ErrNone: the ring has no key yet.
	ErrNone = errors.New("there is no key for the keys of subjects")
	// ErrMissing: the ring lacks the generation that is asked for.
	ErrMissing = errors.New("the key for the keys of subjects is missing")
	// ErrForeign: the ring is that of another log.
	ErrForeign = errors.New("the key for the keys of subjects is that of another log")
	// ErrTaken: the ring is that of another database.
	ErrTaken = errors.New("the key for the keys of subjects is that of another database")
	// ErrWrapped: what is to be unwrapped was changed, or wrapped for something else.
	ErrWrapped = errors.New("the key of a subject does not open")
)

const (
	keyBytes = 32
	// maxGenerations bounds the files of a ring: one, and two during an erasure. Erasures
	// that were interrupted leave theirs until the next one.
	maxGenerations = 1000
	maxFile        = 256
	// maxLabel bounds the files origin and database.
	maxLabel = 8 << 10
)

// Ring is a folder of generations. Its methods read the files each time, since another
// process may have changed them. The zero value is not usable: see [At].
type Ring struct{ dir string }

// At returns the ring in a folder, which need not exist yet.
func At(dir string) *Ring { return &Ring{dir} }

// String names the folder.
func (r *Ring) String() string { return r.dir }

// Generation is one key of a ring.
type Generation struct {
	// Name is N-ID, as in the name of its file.
	Name string
	n    int
	key  []byte
}

var fileName = regexp.MustCompile(`^([0-9]{8}-[0-9a-f]{16})\.key$`)

// Generations returns the generations, the oldest first. There is at least one; otherwise
// the error is [ErrNone].
func (r *Ring) Generations() ([]Generation, error) {
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNone, r.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read the keyring: %w", err)
	}
	var out []Generation
	for _, e := range entries {
		m := fileName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if len(out) == maxGenerations {
			return nil, fmt.Errorf("read the keyring: %s has more than %d keys", r.dir, maxGenerations)
		}
		g, err := r.read(m[1])
		if errors.Is(err, fs.ErrNotExist) {
			continue // destroyed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNone, r.dir)
	}
	slices.SortFunc(out, func(a, b Generation) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Generation returns the generation of a name. If it is not there, the error is
// [ErrMissing].
func (r *Ring) Generation(name string) (Generation, error) {
	if !fileName.MatchString(name + ".key") {
		return Generation{}, fmt.Errorf("%w: %.40q is not the name of one", ErrMissing, name)
	}
	g, err := r.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return g, fmt.Errorf("%w: %s has no %s.key", ErrMissing, r.dir, name)
	}
	return g, err
}

func (r *Ring) file(name string) string { return filepath.Join(r.dir, name+".key") }

func (r *Ring) read(name string) (g Generation, err error) {
	path := r.file(name)
	bad := fmt.Errorf("read the keyring: %s is not a key that was made for it", path)
	info, err := os.Lstat(path)
	if err != nil {
		return g, fmt.Errorf("read the keyring: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return g, bad
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return g, fmt.Errorf("read the keyring: %w", err)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(string(raw)))
	if err != nil || len(key) != keyBytes || name[9:] != idOf(key) {
		return g, bad
	}
	n, err := strconv.Atoi(name[:8])
	if err != nil {
		return g, bad
	}
	return Generation{Name: name, n: n, key: key}, nil
}

func idOf(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Create makes the folder and the first generation for a log in a database, unless there is one,
// and returns the newest. If several processes do so at once, the ring may get several. If the ring
// is that of another log, the error is [ErrForeign], and of another database [ErrTaken]: an erasure
// in one database would destroy what opens the keys of the other.
func (r *Ring) Create(origin, database string) (g Generation, err error) {
	if err := r.own(origin); err != nil {
		return g, err
	}
	is, err := r.Claim(database)
	if err != nil {
		return g, err
	}
	if is != database {
		return g, fmt.Errorf("%w: %s", ErrTaken, r.dir)
	}
	all, err := r.Generations()
	switch {
	case err == nil:
		return all[len(all)-1], nil
	case errors.Is(err, ErrNone):
		return r.Add()
	}
	return g, err
}

// Claim makes the ring that of a database, unless it is that of one, and returns what the ring's
// database is known by. The folder must be there.
func (r *Ring) Claim(database string) (is string, err error) { return r.label("database", database) }

// Renew makes a new generation for a log whose former ones are lost, and the folder if that is.
func (r *Ring) Renew(origin string) (g Generation, err error) {
	if err := r.own(origin); err != nil {
		return g, err
	}
	return r.Add()
}

// own makes the ring that of a log, or returns [ErrForeign].
func (r *Ring) own(origin string) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("make the keyring: %w", err)
	}
	is, err := r.label("origin", origin)
	if err == nil && is != origin {
		err = r.foreign(is)
	}
	return err
}

// label writes a file of one line, unless there is one, and returns the line that is there.
func (r *Ring) label(name, line string) (is string, err error) {
	path := filepath.Join(r.dir, name)
	if is, err = labelled(path); !errors.Is(err, fs.ErrNotExist) {
		return is, err
	}
	// The file is there whole, or not at all: nothing else would make another.
	f, err := os.CreateTemp(r.dir, name+"-*")
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Sync(), f.Close())
		if err == nil {
			err = os.Link(f.Name(), path)
		}
		err = errors.Join(err, os.Remove(f.Name()))
	}
	if errors.Is(err, fs.ErrExist) {
		return labelled(path)
	}
	if err == nil {
		err = errors.Join(sync(r.dir), sync(filepath.Dir(r.dir)))
	}
	if err != nil {
		return "", fmt.Errorf("make the keyring: %w", err)
	}
	return line, nil
}

// labelled returns the line of a file that label has written.
func labelled(path string) (string, error) {
	info, err := os.Lstat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxLabel) {
		return "", fmt.Errorf("%w: %s is not a file that was made for it", ErrForeign, path)
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("read the keyring: %w", err)
	}
	return strings.TrimSuffix(string(raw), "\n"), nil
}

// Of returns [ErrForeign] unless the ring is that of a log.
func (r *Ring) Of(origin string) error {
	is, err := labelled(filepath.Join(r.dir, "origin"))
	if err == nil && is != origin {
		err = r.foreign(is)
	}
	return err
}

func (r *Ring) foreign(origin string) error {
	return fmt.Errorf("%w: %s is of %.120q", ErrForeign, r.dir, origin)
}

// Add makes a new generation, which is the newest.
func (r *Ring) Add() (g Generation, err error) {
	last := 0
	all, err := r.Generations()
	switch {
	case err == nil:
		last = all[len(all)-1].n
	case !errors.Is(err, ErrNone):
		return g, err
	}
	if last >= 99_999_999 {
		return g, fmt.Errorf("add to the keyring: %s has no number left", r.dir)
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return g, fmt.Errorf("add to the keyring: %w", err)
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it does not fail: crypto/rand ends the process instead
	g = Generation{Name: fmt.Sprintf("%08d-%s", last+1, idOf(key)), n: last + 1, key: key}
	if err := write(r.file(g.Name), []byte(base64.StdEncoding.EncodeToString(key)+"\n")); err != nil {
		return Generation{}, fmt.Errorf("add to the keyring: %w", err)
	}
	if err := sync(r.dir); err != nil {
		return Generation{}, fmt.Errorf("add to the keyring: %w", err)
	}
	return g, nil
}

// write writes a new file in place, so that its bytes are nowhere else on the disk. Until
// it is whole it has another name.
func write(path string, b []byte) (err error) {
	temporary := path + fresh
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return os.Rename(temporary, path)
}

// sync makes changes of a folder durable.
func sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Destroy overwrites and removes the generations of those names, and what earlier calls that
// were interrupted have left. A file system that copies what it overwrites, and a flash disk,
// may keep the bytes for a while. A generation that is not there is no error.
func (r *Ring) Destroy(names ...string) error {
	for _, name := range names {
		if !fileName.MatchString(name + ".key") {
			return fmt.Errorf("destroy a key: %.40q is not the name of one", name)
		}
		// A file of a generation's name is whole, or not there.
		if err := os.Rename(r.file(name), r.file(name)+gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("destroy a key: %w", err)
		}
	}
	if err := r.sweep(); err != nil {
		return fmt.Errorf("destroy a key: %w", err)
	}
	return nil
}

// The suffixes of files that are being destroyed, and that were being written.
const gone, fresh = ".gone", ".new"

// sweep overwrites and removes files that are no generations any more, or never were.
func (r *Ring) sweep() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	if err := sync(r.dir); err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), gone), fresh)
		if name == e.Name() || !fileName.MatchString(name) {
			continue
		}
		if err := destroy(filepath.Join(r.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return sync(r.dir)
}

func destroy(path string) error {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, os.Remove(path)) // what a link leads to is not ours
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.Write(bytes.Repeat([]byte{0}, int(info.Size())))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Remove(path)
}

// Lookup returns what a subject is looked up by among the keys that the generation wraps.
func (g Generation) Lookup(subject string) string {
	h := hmac.New(sha256.New, g.key)
	h.Write([]byte("subject\x00" + subject))
	return hex.EncodeToString(h.Sum(nil))
}

// wrapped is what is sealed of the key of a subject.
type wrapped struct {
	Key     []byte `json:"key"`
	Subject string `json:"subject"`
}

// Wrap wraps the key of a subject. id names that key.
func (g Generation) Wrap(id, subject string, key []byte) ([]byte, error) {
	plain, err := json.Marshal(wrapped{key, subject})
	if err != nil {
		return nil, fmt.Errorf("wrap a key: %w", err)
	}
	aead, err := g.aead()
	if err != nil {
		return nil, fmt.Errorf("wrap a key: %w", err)
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // as above
	return aead.Seal(nonce, nonce, plain, []byte(id)), nil
}

// Unwrap returns the subject and its key, as they were wrapped.
func (g Generation) Unwrap(id string, b []byte) (subject string, key []byte, err error) {
	aead, err := g.aead()
	if err != nil {
		return "", nil, fmt.Errorf("unwrap a key: %w", err)
	}
	bad := fmt.Errorf("%w: %.80q, wrapped with %s", ErrWrapped, id, g.Name)
	if len(b) < aead.NonceSize() {
		return "", nil, bad
	}
	plain, err := aead.Open(nil, b[:aead.NonceSize()], b[aead.NonceSize():], []byte(id))
	if err != nil {
		return "", nil, bad
	}
	var w wrapped
	if err := json.Unmarshal(plain, &w); err != nil {
		return "", nil, bad
	}
	return w.Subject, w.Key, nil
}

func (g Generation) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(g.key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
