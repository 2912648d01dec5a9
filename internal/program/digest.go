//go:build unix

package program

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Bounds of what is read.
const (
	maxBytes = 1 << 30
	maxFiles = 20_000
)

// bounds are what may still be read.
type bounds struct {
	bytes int64
	files int
}

var errTooMuch = errors.New("more files, or larger ones, than can be pinned: 20,000 and 1 GiB")

// digest returns the digest of a file, or of a folder with all that is in it:
//
//	SHA-256("files/1\0" + for each file: path + "\0" + digest + "\n")
//
// Paths are relative to the folder, with slashes, in the order of [fs.WalkDir]. Folders without files
// do not count.
func (b *bounds) digest(path string) (string, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", err
	case info.Mode().IsRegular():
		return b.file(os.OpenFile, path)
	case !info.IsDir():
		return "", fmt.Errorf("%s is neither a regular file nor a folder", path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	sum := sha256.New()
	sum.Write([]byte("files/1\x00"))
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return b.one()
		case !d.Type().IsRegular():
			return fmt.Errorf("%s in %s is neither a regular file nor a folder", name, path)
		}
		digest, err := b.file(root.OpenFile, name)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%s\x00%s\n", name, digest)
		return err
	})
	if err != nil {
		return "", err
	}
	return written(sum.Sum(nil)), nil
}

// one counts a file or a folder.
func (b *bounds) one() error {
	if b.files--; b.files < 0 {
		return errTooMuch
	}
	return nil
}

// file returns the digest of a file that is no symbolic link.
func (b *bounds) file(open func(string, int, os.FileMode) (*os.File, error), path string) (string, error) {
	if err := b.one(); err != nil {
		return "", err
	}
	f, err := open(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	return read(f, &b.bytes)
}

// file returns the digest of a file, which symbolic links may lead to. left is how many bytes may be read.
func file(path string, left *int64) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would not open
	if err != nil {
		return "", err
	}
	return read(f, left)
}

// read returns the digest of what an open file holds, and closes it.
func read(f *os.File, left *int64) (string, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", f.Name())
	}
	sum := sha256.New()
	n := info.Size()
	if n <= *left {
		n, err = io.Copy(sum, io.LimitReader(f, *left+1)) // it may grow
	}
	if *left -= n; err == nil && *left < 0 {
		err = errTooMuch
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return written(sum.Sum(nil)), nil
}

func written(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }
