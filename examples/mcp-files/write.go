package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// maxWrite is the longest text, in bytes, of a file that is written.
const maxWrite = 1 << 20

// reports is the folder that is written to.
type reports struct{ root *os.Root }

type written struct {
	Path string `json:"path"`
	Size int    `json:"size"`
}

// write writes a file whole: whoever reads it sees either the text that it had before,
// or the new one. Nothing but files directly in the folder is written.
func (r *reports) write(name, text string) (written, error) {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") {
		return written{}, fmt.Errorf("%q is not the name of a file", name)
	}
	if len(text) > maxWrite {
		return written{}, fmt.Errorf("the text of %s is longer than %d bytes", name, maxWrite)
	}
	if info, err := r.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return written{}, fmt.Errorf("%s is not a file", name)
	}
	part := ".part-" + rand.Text()
	err := r.root.WriteFile(part, []byte(text), 0o644)
	if err == nil {
		err = r.root.Rename(part, name)
	}
	if err != nil {
		err = fmt.Errorf("write %s: %w", name, reason(err))
		if gone := r.root.Remove(part); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, reason(gone))
		}
		return written{}, err
	}
	return written{Path: name, Size: len(text)}, nil
}
