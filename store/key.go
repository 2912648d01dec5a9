package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"chimera.ai/engine/ledger"
)

// maxKey bounds a key file, in bytes.
const maxKey = 4 << 10

// NewKey makes a key for the log of that name in a file that only its owner can read. If
// the file exists, NewKey leaves it alone; if its key is that of another log, NewKey
// returns an error.
func NewKey(file, origin string) error {
	if origin == "" {
		return fmt.Errorf("%w: a key needs the name of its log (store.origin)", ErrOptions)
	}
	secret, err := ownKey(file, origin)
	if err != nil {
		return err
	}
	key, err := ledger.ParseKey(secret)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrOptions, file, err)
	}
	if key.Name() != origin {
		return fmt.Errorf("%w: %s has the key of the log %.120q, not of %.120q", ErrOptions, file, key.Name(), origin)
	}
	return nil
}

// ownKey reads the key file of an embedded log, and makes one if there is none.
func ownKey(file, origin string) (string, error) {
	return LoadOrCreateKey(file, func() (string, error) {
		if origin == "" {
			origin = "dev.chimera.local/" + strings.ToLower(rand.Text()[:10])
		}
		made, _, err := ledger.NewKey(origin)
		if err != nil {
			return "", fmt.Errorf("%w: make a key for the log %.120q: %w", ErrOptions, origin, err)
		}
		return made, nil
	})
}

// LoadOrCreateKey reads the key in a file. If there is no file, it creates one that only
// its owner can read. If several processes do so at once, one of them creates it.
func LoadOrCreateKey(file string, create func() (string, error)) (string, error) {
	secret, err := readKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	made, err := create()
	if err != nil {
		return "", err
	}
	if err := write(file, made); err != nil {
		return "", fmt.Errorf("write a key: %w", err)
	}
	return readKey(file)
}

func readKey(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("read a key: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxKey {
		return "", fmt.Errorf("read a key: %s is not a key file", file)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read a key: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// write writes a key file atomically, and leaves an existing one alone.
func write(file, secret string) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".key-*") // only its owner can read it
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		if err = os.Link(f.Name(), file); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	return errors.Join(err, os.Remove(f.Name()))
}
