// Package wholefile reads and atomically writes small files: keys, and documents that
// are trusted.
package wholefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Read reads a file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	err = errors.Join(err, f.Close())
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return raw, err
}

// Create creates a file that only its owner can read. It fails with [fs.ErrExist] if the
// file exists.
func Create(file string, raw []byte) error {
	part, err := write(file, raw)
	if err != nil {
		return err
	}
	if err = os.Link(part, file); errors.Is(err, fs.ErrExist) {
		err = &fs.PathError{Op: "write", Path: file, Err: fs.ErrExist}
	}
	return errors.Join(err, os.Remove(part))
}

// Replace creates or replaces a file that only its owner can read. Of concurrent writers,
// one wins.
func Replace(file string, raw []byte) error {
	part, err := write(file, raw)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("writing %s: %w", file, errors.Join(err, os.Remove(part)))
	}
	return nil
}

// write writes the content to a temporary file beside the target, and returns its name.
func write(file string, raw []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
