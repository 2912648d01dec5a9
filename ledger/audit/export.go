package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"chimera.ai/engine/ledger"
)

// The files of an export.
const (
	EntriesFile    = "entries.jsonl"
	BodiesFile     = "bodies.jsonl"
	CheckpointFile = "checkpoint"
	PendingFile    = "pending.jsonl"
	EvidenceFile   = "evidence.jsonl"
	CosignedFile   = "cosigned.jsonl"
	// LostFile and AsideFile are there if there is something to tell.
	LostFile  = "lost.jsonl"
	AsideFile = "aside.jsonl"
	OddFile   = "odd.jsonl"
)

// page is how many entries are read at once.
const page = 1000

// Exported says what an export contains.
type Exported struct {
	Entries int64 `json:"entries"`
	Bodies  int64 `json:"bodies"`
	Missing int64 `json:"missing_bodies"`
	// Packets are the evidence packets, one for each entry that refers to one and
	// whose body everybody can read.
	Packets int64 `json:"evidence_packets"`
	// Cosigned are older checkpoints that witnesses have cosigned.
	Cosigned int64 `json:"cosigned_checkpoints"`
	// Pending counts the entries that the checkpoint does not have. The file may list fewer.
	Pending int64 `json:"pending"`
	// Lost are the entries that have no place in the log, and do not wait for one: somebody
	// has removed them from those that wait.
	Lost int64 `json:"lost,omitempty"`
	// Aside are the rows that the sequencer has set aside, since they are no entries.
	Aside int64 `json:"aside,omitempty"`
	// Odd are entries that are no lines: they contain line feeds. Their lines are empty.
	Odd int64 `json:"odd,omitempty"`

	lost losses
	// held are the chains under legal hold.
	held map[string]bool
	odd  *lazy
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
	x.lost, x.held = newLosses(), map[string]bool{}
	err = folder(dir, func(temporary string) error {
		checkpoint, c, err := x.copy(ctx, log, temporary)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(temporary, CheckpointFile), checkpoint, 0o600); err != nil {
			return err
		}
		if x.Cosigned, err = cosigned(ctx, log, c.Size, filepath.Join(temporary, CosignedFile)); err != nil {
			return err
		}
		if err := x.pending(ctx, log, c.Size, filepath.Join(temporary, PendingFile)); err != nil {
			return err
		}
		if err := x.strays(ctx, log, filepath.Join(temporary, LostFile)); err != nil {
			return err
		}
		return x.asides(ctx, log, c.Origin, filepath.Join(temporary, AsideFile))
	})
	return x, err
}

// folder makes a new folder, which appears once it is filled.
func folder(dir string, fill func(temporary string) error) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is there already: %w", dir, os.ErrExist)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(parent, ".export-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	if err := fill(temporary); err != nil {
		return err
	}
	return os.Rename(temporary, dir)
}

// settles is how often an export looks for the entry that explains missing bodies,
// settlePause apart: the sequencer is about as quick.
const (
	settles     = 25
	settlePause = 200 * time.Millisecond
)

// copy writes entries and bodies up to a checkpoint, and returns it. If bodies are
// pruned meanwhile, it continues to a checkpoint whose entries say so.
func (x *Exported) copy(ctx context.Context, log ledger.Log, dir string) (_ []byte, c ledger.Checkpoint, err error) {
	bodies, err := create(filepath.Join(dir, BodiesFile))
	if err != nil {
		return nil, c, err
	}
	defer func() { err = errors.Join(err, bodies.close()) }()
	entries, err := create(filepath.Join(dir, EntriesFile))
	if err != nil {
		return nil, c, err
	}
	defer func() { err = errors.Join(err, entries.close()) }()
	evidence, err := create(filepath.Join(dir, EvidenceFile))
	if err != nil {
		return nil, c, err
	}
	defer func() { err = errors.Join(err, evidence.close()) }()
	x.odd = &lazy{path: filepath.Join(dir, OddFile)}
	defer func() { err = errors.Join(err, x.odd.close()) }()
	for tries := 0; ; tries++ {
		checkpoint, err := log.Checkpoint(ctx)
		if err != nil {
			return nil, c, err
		}
		// Exporting does not need the log's key: the auditor verifies.
		if c, err = ledger.ParseCheckpoint(checkpoint); err != nil {
			return nil, c, err
		}
		if c.Size < x.Entries {
			log = unwitnessed(log) // one that was cosigned meanwhile, and lacks what is written
			continue
		}
		if err := x.upTo(ctx, log, c, entries, bodies, evidence); err != nil {
			return nil, c, err
		}
		if tries == settles/5 {
			// Bodies were removed after the witnesses looked: only the latest checkpoint has
			// the entry that says so.
			log = unwitnessed(log)
		}
		if len(x.lost.unexplained()) == 0 || tries == settles {
			return checkpoint, c, nil // what is left unexplained is for the verifier to say
		}
		timer := time.NewTimer(settlePause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, c, ctx.Err()
		case <-timer.C:
		}
	}
}

// upTo writes entries and bodies that a checkpoint has and the files lack.
func (x *Exported) upTo(ctx context.Context, log ledger.Log, c ledger.Checkpoint, entries, bodies, evidence *lines) error {
	for x.Entries < c.Size {
		records, err := log.Records(ctx, x.Entries, int(min(page, c.Size-x.Entries)))
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return fmt.Errorf("the checkpoint is over %d entries, and entry %d is not there", c.Size, x.Entries)
		}
		for _, r := range records {
			if r.Index != x.Entries {
				return fmt.Errorf("entry %d is not there", x.Entries)
			}
			if err := x.entry(entries, r); err != nil {
				return err
			}
			if err := x.body(ctx, log, r, bodies, evidence); err != nil {
				return err
			}
			x.Entries++
		}
	}
	return nil
}

func (x *Exported) body(ctx context.Context, log ledger.Log, r ledger.Record, to, evidence *lines) error {
	e, err := ledger.DecodeEntry(r.Bytes)
	if err != nil || e.Body == "" {
		return nil //nolint:nilerr // what is no entry is for the verifier to tell
	}
	raw, packet, err := stored(ctx, log, e)
	if errors.Is(err, ledger.ErrGone) {
		x.Missing++
		x.lost.lose(r.Index, e, e.Chain)
		return nil
	}
	if err != nil {
		return err
	}
	x.explain(r.Index, e, raw)
	x.Bodies++
	if err := to.line(flat(raw)); err != nil || packet == nil {
		return err
	}
	x.Packets++
	return evidence.line(packet)
}

// explain notes what an entry says about why bodies are missing. What cannot be read explains
// nothing.
func (x *Exported) explain(index int64, e *ledger.Entry, raw []byte) {
	switch e.Kind {
	case ledger.BodyPruned, ledger.LegalHoldPlaced, ledger.LegalHoldLifted:
	default:
		return
	}
	b, err := ledger.DecodeBody(raw)
	if err != nil {
		return
	}
	if e.Kind == ledger.BodyPruned {
		var p ledger.PrunedData
		if json.Unmarshal(b.Data, &p) == nil {
			x.lost.act(index, p, x.held)
		}
		return
	}
	var l ledger.LegalHoldData
	if json.Unmarshal(b.Data, &l) == nil {
		x.held[l.Chain] = e.Kind == ledger.LegalHoldPlaced
	}
}

// stored returns the stored body of an entry, and its evidence packet if everybody
// can read the body: nil if missing, which the verifier reports.
func stored(ctx context.Context, log ledger.Log, e *ledger.Entry) (raw, packet []byte, err error) {
	raw, err = log.Stored(ctx, e.Body)
	digest := e.Ref(ledger.EvidenceRef)
	if _, sealed := ledger.Sealed(raw); err != nil || digest == "" || sealed {
		return raw, nil, err
	}
	p, err := log.Packet(ctx, digest)
	if err == nil {
		packet, err = p.Encode()
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrDenied):
		return nil, nil, err
	case err != nil:
		// What cannot be read is missing. They are removed together: the body may be gone by now
		// too.
		raw, err = log.Stored(ctx, e.Body)
		return raw, nil, err
	}
	return raw, packet, nil
}

// pending writes entries that the checkpoint does not have, those that have got a place since, and
// those without one. It counts all of them.
func (x *Exported) pending(ctx context.Context, log ledger.Log, size int64, file string) (err error) {
	out, err := create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	waiting, err := log.Pending(ctx, maxPending)
	if err != nil {
		return err
	}
	wait := map[ledger.Hash]bool{}
	for _, r := range waiting {
		wait[r.Hash] = true
	}
	cut := len(waiting) == maxPending
	for from := size; ; {
		records, err := log.Records(ctx, from, page)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			break
		}
		for _, r := range records {
			delete(wait, r.Hash)
			if x.Pending++; x.Pending > maxPlaced {
				continue
			}
			if err := out.line(flat(r.Bytes)); err != nil {
				return err
			}
		}
		from += int64(len(records))
	}
	without := int64(len(wait))
	if cut {
		status, err := log.Status(ctx)
		if err != nil {
			return err
		}
		without = max(without, status.Waiting)
	}
	x.Pending += without
	for _, r := range waiting {
		if !wait[r.Hash] {
			continue
		}
		if err := out.line(flat(r.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

// maxPlaced bounds the entries that an export lists and that have got a place after its checkpoint.
// maxPending bounds those without a place: [ledger.Log.Pending] lists no more.
const (
	maxPlaced  = 100_000
	maxPending = 10_000
)

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
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return &source{file: f, r: bufio.NewReaderSize(f, 1<<20), most: most}, nil
}

// openFile opens a file of an export. Links and pipes may lead anywhere, or
// nowhere.
func openFile(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %w", path, errNoFile)
	}
	return os.Open(path)
}

var errNoFile = errors.New("is not a file")

var errLong = errors.New("a line is too long")

// next returns the next line without its end, or io.EOF after the last. A last line
// without an end is an error, since something is missing.
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

// countLines counts the ends of lines of a file.
func countLines(path string) (n int64, err error) {
	f, err := openFile(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for buf := make([]byte, 1<<20); ; {
		read, err := f.Read(buf)
		n += int64(bytes.Count(buf[:read], []byte("\n")))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
