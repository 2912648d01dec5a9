// Package blob is the content-addressed store of values that are too large for
// a workflow's history: compiled plans, inputs and outputs of nodes.
//
// A blob's key is the digest of its bytes, "sha256:" and 64 hex digits, so a
// key always means the same bytes, storing is idempotent, and a reader finds
// out about corruption by itself.
package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// ErrNotFound reports that the store has no blob of that digest.
var ErrNotFound = errors.New("blob not found")

// ErrCorrupt reports that stored bytes do not have the digest that they are
// stored under.
var ErrCorrupt = errors.New("blob is corrupt")

// Store keeps blobs. Implementations are safe for concurrent use.
type Store interface {
	// Put stores b durably and returns its digest. Storing the same bytes again
	// has no effect.
	Put(ctx context.Context, b []byte) (digest string, err error)
	// Get returns the bytes of a digest, ErrNotFound or ErrCorrupt.
	Get(ctx context.Context, digest string) ([]byte, error)
	// Check reports why the store cannot take a blob of [CheckBytes], and stores none.
	Check(ctx context.Context) error
}

// CheckBytes is how much room [Store.Check] looks for: more than most values take.
const CheckBytes = 64 << 10

// Digest is the key of b.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return prefix + hex.EncodeToString(sum[:])
}

const prefix = "sha256:"

// Dir is a [Store] in a directory of the local file system: one file a blob,
// in 256 folders by the first two hex digits.
type Dir struct {
	root string
	// used reports that the directory has been seen with something in it, other
	// than the files of a [Dir.Check]. If it is empty later, it is another one,
	// such as the mount point of a volume.
	used atomic.Bool
}

// Open makes the directory if need be, and a store in it.
func Open(root string) (*Dir, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	d := &Dir{root: root}
	if err := d.there(); err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	return d, nil
}

// errReplaced reports a directory that is not the one in which the store was
// opened.
var errReplaced = errors.New("the store's folder is empty, and was not before: it was replaced, and a restart takes up the new one")

// there refuses a directory that was removed, or replaced by an empty one: the old
// one may come back, and what was written to the other would be lost.
func (d *Dir) there() error {
	used := d.used.Load() // before the look, since a first value may come during it
	f, err := os.Open(d.root)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(1)
	for err == nil && strings.HasPrefix(names[0], unnamed) {
		names, err = f.Readdirnames(1)
	}
	switch {
	case err == nil:
		d.used.Store(true)
	case !errors.Is(err, io.EOF):
	case used:
		err = errReplaced
	default:
		err = nil
	}
	return errors.Join(err, f.Close())
}

func (d *Dir) path(digest string) (string, error) {
	name, ok := strings.CutPrefix(digest, prefix)
	if raw, err := hex.DecodeString(name); !ok || err != nil || len(raw) != sha256.Size || strings.ToLower(name) != name {
		return "", fmt.Errorf("blob %.80q: not a digest: %w", digest, ErrNotFound)
	}
	return filepath.Join(d.root, name[:2], name[2:]), nil
}

// Put implements [Store]. The file is complete and synced before it gets its name.
func (d *Dir) Put(ctx context.Context, b []byte) (string, error) {
	digest := Digest(b)
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("put blob: %w", err)
	}
	path, err := d.path(digest)
	if err != nil {
		return "", err
	}
	if err := d.there(); err != nil {
		return "", fmt.Errorf("put blob %s: %w", digest, err)
	}
	if has(path, b) {
		return digest, nil
	}
	if err := write(path, b); err != nil {
		return "", fmt.Errorf("put blob %s: %w", digest, err)
	}
	d.used.Store(true)
	return digest, nil
}

// has reports whether a file has these bytes. A damaged one does not, and is
// written again.
func has(path string, b []byte) bool {
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(b)) {
		return false
	}
	have, err := os.ReadFile(path)
	return err == nil && bytes.Equal(have, b)
}

func write(path string, b []byte) error {
	dir := filepath.Dir(path)
	// The store's own folder is not created again: if it is gone, so are its
	// values.
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		if err := sync(filepath.Dir(dir)); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	name, err := temporary(dir, b)
	if err != nil {
		return err
	}
	if err := os.Rename(name, path); err != nil {
		return err
	}
	return sync(dir)
}

// sync makes the names in a folder durable, if the file system supports that.
// Syncing a file does not make its name durable.
func sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // it has no way to sync folders
	}
	return errors.Join(err, f.Close())
}

// unnamed begins the names of files that are not blobs, or not yet.
const unnamed = ".put-"

// temporary writes b to a new file of a folder, and syncs it.
func temporary(dir string, b []byte) (name string, err error) {
	f, err := os.CreateTemp(dir, unnamed+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return f.Name(), errors.Join(err, f.Close())
}

// Check implements [Store].
func (d *Dir) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("check the blob store: %w", err)
	}
	err := d.there()
	if err == nil {
		var name string
		if name, err = temporary(d.root, make([]byte, CheckBytes)); err == nil {
			err = os.Remove(name)
		}
	}
	if err != nil {
		return fmt.Errorf("check the blob store: %w", err)
	}
	return nil
}

// Get implements [Store].
func (d *Dir) Get(ctx context.Context, digest string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	path, err := d.path(digest)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if gone := d.there(); gone != nil {
			return nil, fmt.Errorf("get blob %s: the store is not there: %w", digest, gone)
		}
		return nil, fmt.Errorf("blob %s: %w", digest, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", digest, err)
	}
	d.used.Store(true)
	if Digest(b) != digest {
		return nil, fmt.Errorf("blob %s: %w", digest, ErrCorrupt)
	}
	return b, nil
}
