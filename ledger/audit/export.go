package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	formats "github.com/transparency-dev/formats/log"

	"chimera.ai/engine/ledger"
)

// The files of an export.
const (
	EntriesFile    = "entries.jsonl"
	BodiesFile     = "bodies.jsonl"
	CheckpointFile = "checkpoint"
	PendingFile    = "pending.jsonl"
)

// page is how many entries are read at once.
const page = 1000

// Exported tells what an export holds.
type Exported struct {
	Entries int64 `json:"entries"`
	Bodies  int64 `json:"bodies"`
	Missing int64 `json:"missing_bodies"`
	Pending int64 `json:"pending"`
}

// Export writes the log up to its latest checkpoint into a new folder, which
// appears once it is complete. Only its owner can read the files.
func Export(ctx context.Context, log ledger.Log, dir string) (Exported, error) {
	x, err := export(ctx, log, dir)
	if err != nil {
		return x, fmt.Errorf("export the ledger: %w", err)
	}
	return x, nil
}

func export(ctx context.Context, log ledger.Log, dir string) (x Exported, err error) {
	if _, err := os.Lstat(dir); err == nil {
		return x, fmt.Errorf("%s is there already: %w", dir, os.ErrExist)
	} else if !errors.Is(err, os.ErrNotExist) {
		return x, err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return x, err
	}
	temporary, err := os.MkdirTemp(parent, ".export-*")
	if err != nil {
		return x, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	checkpoint, err := log.Checkpoint(ctx)
	if err != nil {
		return x, err
	}
	var c formats.Checkpoint
	// Whoever exports need not have the key; verifying is the auditor's.
	if _, err := c.Unmarshal(checkpoint); err != nil {
		return x, err
	}
	if err := os.WriteFile(filepath.Join(temporary, CheckpointFile), checkpoint, 0o600); err != nil {
		return x, err
	}
	bodies, err := create(filepath.Join(temporary, BodiesFile))
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, bodies.close()) }()
	entries, err := create(filepath.Join(temporary, EntriesFile))
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, entries.close()) }()
	for x.Entries < int64(c.Size) {
		records, err := log.Records(ctx, x.Entries, int(min(page, int64(c.Size)-x.Entries)))
		if err != nil {
			return x, err
		}
		if len(records) == 0 {
			return x, fmt.Errorf("the checkpoint is over %d entries, and entry %d is not there", c.Size, x.Entries)
		}
		for _, r := range records {
			if err := entries.line(r.Bytes); err != nil {
				return x, err
			}
			if err := x.body(ctx, log, r, bodies); err != nil {
				return x, err
			}
			x.Entries++
		}
	}
	if err := x.pending(ctx, log, filepath.Join(temporary, PendingFile)); err != nil {
		return x, err
	}
	if err := errors.Join(entries.close(), bodies.close()); err != nil {
		return x, err
	}
	return x, os.Rename(temporary, dir)
}

func (x *Exported) body(ctx context.Context, log ledger.Log, r ledger.Record, to *lines) error {
	e, err := ledger.DecodeEntry(r.Bytes)
	if err != nil {
		return fmt.Errorf("entry %d: %w", r.Index, err)
	}
	if e.Body == "" {
		return nil
	}
	raw, err := log.Stored(ctx, e.Body)
	if errors.Is(err, ledger.ErrGone) {
		x.Missing++
		return nil
	}
	if err != nil {
		return err
	}
	x.Bodies++
	return to.line(raw)
}

func (x *Exported) pending(ctx context.Context, log ledger.Log, file string) (err error) {
	out, err := create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	records, err := log.Pending(ctx, maxPending)
	if err != nil {
		return err
	}
	for _, r := range records {
		x.Pending++
		if err := out.line(r.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// maxPending bounds the entries without a place that an export lists.
const maxPending = 100_000

// lines writes a file line by line.
type lines struct {
	file *os.File
	w    *bufio.Writer
}

func create(path string) (*lines, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &lines{f, bufio.NewWriterSize(f, 1<<16)}, nil
}

func (l *lines) line(b []byte) error {
	if _, err := l.w.Write(b); err != nil {
		return err
	}
	return l.w.WriteByte('\n')
}

// close writes what is left, and may be called again.
func (l *lines) close() error {
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.w.Flush(), l.file.Sync(), l.file.Close())
	l.file = nil
	return err
}

// source reads a file line by line.
type source struct {
	file *os.File
	r    *bufio.Reader
	most int
}

func openLines(path string, most int) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &source{file: f, r: bufio.NewReaderSize(f, 1<<20), most: most}, nil
}

var errLong = errors.New("a line is too long")

// next gives the next line without its end; io.EOF behind the last. A last line
// without an end is an error, for something is missing.
func (s *source) next() ([]byte, error) {
	var line []byte
	for {
		part, err := s.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > s.most {
			return nil, errLong
		}
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, errors.New("the last line has no end")
		default:
			return nil, err
		}
	}
}

func (s *source) close() error { return s.file.Close() }
