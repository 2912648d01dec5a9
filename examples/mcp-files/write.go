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
	// Before is the text that the file had before, or nil if there was no file.
	Before *string `json:"before"`
}

type restored struct {
	Path string `json:"path"`
	// There reports whether there is a file now.
	There bool `json:"there"`
}

// write writes a file whole: whoever reads it sees either the text that it had before,
// or the new one. Nothing but files directly in the folder is written, and none whose text
// the answer cannot have: what is written can be undone.
func (r *reports) write(name, text string) (written, error) {
	if err := checked(name, text); err != nil {
		return written{}, err
	}
	before, err := r.text(name)
	if err != nil {
		return written{}, err
	}
	if err := r.replace(name, text); err != nil {
		return written{}, err
	}
	return written{Path: name, Size: len(text), Before: before}, nil
}

// restore undoes a write: the file has the text that it had before, or is gone if before is
// nil.
func (r *reports) restore(name string, before *string) (restored, error) {
	text := ""
	if before != nil {
		text = *before
	}
	if err := checked(name, text); err != nil {
		return restored{}, err
	}
	if _, err := r.text(name); err != nil {
		return restored{}, err
	}
	if before != nil {
		return restored{Path: name, There: true}, r.replace(name, text)
	}
	if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return restored{}, fmt.Errorf("remove %s: %w", name, reason(err))
	}
	return restored{Path: name}, nil
}

func checked(name, text string) error {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q is not the name of a file", name)
	}
	if len(text) > maxWrite {
		return fmt.Errorf("the text of %s is longer than %d bytes", name, maxWrite)
	}
	return nil
}

// text returns what is in a file, or nil if there is none.
func (r *reports) text(name string) (*string, error) {
	f := &files{root: r.root}
	switch _, err := r.root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", name, reason(err))
	}
	there, err := f.read(name)
	return &there.Text, err
}

// replace writes a file whole.
func (r *reports) replace(name, text string) error {
	part := ".part-" + rand.Text()
	err := r.root.WriteFile(part, []byte(text), 0o644)
	if err == nil {
		err = r.root.Rename(part, name)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("write %s: %w", name, reason(err))
	if gone := r.root.Remove(part); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, reason(gone))
	}
	return err
}
