package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of one call.
const (
	maxRead      = 1 << 20 // bytes of a file
	maxList      = 10_000  // files in an answer
	defaultList  = 1000
	maxWalk      = 200_000 // entries looked at for one answer
	maxListBytes = 4 << 20 // bytes of all paths in an answer
)

// files is one folder. os.Root keeps every access inside of it, whatever
// happens on disk meanwhile.
type files struct{ root *os.Root }

type listing struct {
	Files     []string `json:"files"`
	Truncated bool     `json:"truncated"`
}

// list walks the folder and gives what matches, sorted.
func (f *files) list(ctx context.Context, pattern string, limit int) (listing, error) {
	out := listing{Files: []string{}}
	parts, err := split(pattern)
	if err != nil {
		return out, err
	}
	if limit <= 0 {
		limit = defaultList
	}
	limit = min(limit, maxList)
	walked, size := 0, 0
	err = fs.WalkDir(f.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
			// Not ours to see, or gone meanwhile.
			return fs.SkipDir
		case err != nil:
			return err
		case name == ".":
			return nil
		}
		if walked++; walked > maxWalk {
			out.Truncated = true
			return fs.SkipAll
		}
		names := strings.Split(name, "/")
		if entry.IsDir() {
			if !reaches(parts, names) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || !utf8.ValidString(name) || !match(parts, names) {
			return nil
		}
		if size += len(name); len(out.Files) == limit || size > maxListBytes {
			out.Truncated = true
			return fs.SkipAll
		}
		out.Files = append(out.Files, name)
		return nil
	})
	if err != nil {
		return listing{}, fmt.Errorf("list %s: %w", pattern, err)
	}
	// The walk goes by names, which is not quite the order of paths.
	slices.Sort(out.Files)
	return out, nil
}

type content struct {
	Path string `json:"path"`
	Size int    `json:"size"`
	Text string `json:"text"`
}

func (f *files) read(name string) (content, error) {
	file, info, err := f.open(name)
	if err != nil {
		return content{}, err
	}
	defer file.Close()
	if !info.Mode().IsRegular() {
		return content{}, fmt.Errorf("%s is not a file", name)
	}
	// One byte more than allowed tells "full" from "too long". The size that
	// the system gives may be old, or zero for what is made while it is read.
	raw, err := io.ReadAll(io.LimitReader(file, maxRead+1))
	switch {
	case err != nil:
		return content{}, fmt.Errorf("read %s: %w", name, err)
	case len(raw) > maxRead:
		return content{}, fmt.Errorf("%s is longer than %d bytes", name, maxRead)
	case !utf8.Valid(raw):
		return content{}, fmt.Errorf("%s is not text in UTF-8", name)
	}
	return content{Path: name, Size: len(raw), Text: string(raw)}, nil
}

type facts struct {
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
}

func (f *files) stat(name string) (facts, error) {
	info, err := f.look(name)
	if err != nil {
		return facts{}, err
	}
	out := facts{Path: name, Kind: "file", Size: info.Size(), Modified: info.ModTime().UTC().Format(time.RFC3339Nano)}
	switch {
	case info.IsDir():
		out.Kind, out.Size = "folder", 0
	case !info.Mode().IsRegular():
		return facts{}, fmt.Errorf("%s is neither a file nor a folder", name)
	}
	return out, nil
}

// look finds a file and refuses every path that is not plainly inside: an
// absolute one, one with "..", one through a symbolic link.
func (f *files) look(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") {
		return nil, fmt.Errorf("%q is not a relative path inside the folder", name)
	}
	var info fs.FileInfo
	parts := strings.Split(name, "/")
	for i := range parts {
		here := path.Join(parts[:i+1]...)
		var err error
		if info, err = f.root.Lstat(here); err != nil {
			return nil, fmt.Errorf("look at %s: %w", here, reason(err))
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a symbolic link", here)
		}
	}
	return info, nil
}

// open opens what look has found to be a file. Were it replaced by a link in
// between, os.Root would still keep the access inside; a pipe is not waited
// for, since only what was a file is opened, and without blocking.
func (f *files) open(name string) (*os.File, fs.FileInfo, error) {
	seen, err := f.look(name)
	if err != nil {
		return nil, nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a file", name)
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", name, reason(err))
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("open %s: %w", name, reason(err))
	}
	if !os.SameFile(seen, info) {
		file.Close()
		return nil, nil, fmt.Errorf("%s was replaced while it was opened", name)
	}
	return file, info, nil
}

// reason drops the path from an error: the caller's text has it already.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
