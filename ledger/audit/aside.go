package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/ledger"
)

// asideRow is a line of aside.jsonl: a row of the database that was set aside, as it was
// there, and the body that it names as it is stored, if it is. Bytes are in base64.
type asideRow struct {
	Hash  ledger.Hash `json:"hash"`
	Chain string      `json:"chain"`
	N     int64       `json:"n"`
	Key   string      `json:"key"`
	Kind  ledger.Kind `json:"kind"`
	Bytes []byte      `json:"bytes"`
	Why   string      `json:"why"`
	At    ledger.Time `json:"at"`
	Body  []byte      `json:"body,omitempty"`
	// Bodied and Followed say that there was the body, and the entry before in the chain, when
	// the row was set aside.
	Bodied   bool `json:"bodied,omitempty"`
	Followed bool `json:"followed,omitempty"`
}

// oddEntry is a line of odd.jsonl.
type oddEntry struct {
	Index int64  `json:"index"`
	Bytes []byte `json:"bytes"`
}

// maxAside bounds the rows that were set aside, and the lost entries, that an export lists
// and a verifier reads.
const maxAside = 100_000

// lazy is a file of lines that is made with the first.
type lazy struct {
	path string
	to   *lines
}

func (l *lazy) line(b []byte) (err error) {
	if l.to == nil {
		if l.to, err = create(l.path); err != nil {
			return err
		}
	}
	return l.to.line(b)
}

func (l *lazy) close() error {
	if l.to == nil {
		return nil
	}
	return l.to.close()
}

// flat returns bytes as a line. What has line feeds is none of ours, and no line.
func flat(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\n"), []byte(" "))
}

// entry writes the line of an entry.
func (x *Exported) entry(to *lines, r ledger.Record) error {
	if bytes.IndexByte(r.Bytes, '\n') < 0 {
		return to.line(r.Bytes)
	}
	x.Odd++
	raw, err := json.Marshal(oddEntry{r.Index, r.Bytes})
	if err != nil {
		return err
	}
	return errors.Join(x.odd.line(raw), to.line(nil))
}

// strays writes the entries that neither have a place nor wait for one.
func (x *Exported) strays(ctx context.Context, log ledger.Log, path string) (err error) {
	out := &lazy{path: path}
	defer func() { err = errors.Join(err, out.close()) }()
	for after := int64(math.MinInt64); x.Lost < maxAside; {
		rows, err := log.Lost(ctx, after, page)
		if err != nil {
			return err
		}
		for i := range rows {
			x.Lost++
			after = rows[i].Serial
			if err := out.line(flat(rows[i].Bytes)); err != nil {
				return err
			}
		}
		if len(rows) < page {
			break
		}
	}
	return nil
}

// asides writes the rows that were set aside.
func (x *Exported) asides(ctx context.Context, log ledger.Log, path string) (err error) {
	out := &lazy{path: path}
	defer func() { err = errors.Join(err, out.close()) }()
	for after := int64(math.MinInt64); x.Aside < maxAside; {
		rows, err := log.Asides(ctx, after, page)
		if err != nil {
			return err
		}
		for i := range rows {
			a := &rows[i]
			x.Aside++
			after = a.Serial
			row := asideRow{Hash: a.Hash, Chain: a.Chain, N: a.N, Key: a.Key, Kind: a.Kind, Bytes: a.Bytes, Why: a.Why, At: a.At, Bodied: a.Bodied, Followed: a.Followed}
			if e, err := ledger.DecodeEntry(a.Bytes); err == nil && e.Body != "" {
				if row.Body, err = log.Stored(ctx, e.Body); err != nil && !errors.Is(err, ledger.ErrGone) {
					return err
				}
			}
			raw, err := json.Marshal(row)
			if err != nil {
				return err
			}
			if err := out.line(raw); err != nil {
				return err
			}
		}
		if len(rows) < page {
			break
		}
	}
	return nil
}

// setAside is a row that was set aside, and looks like an entry of the log.
type setAside struct {
	e *ledger.Entry
	// follows is set once the entry before it in its chain was found in the log.
	follows bool
}

// asides are the rows of an export that were set aside.
type asides struct {
	n, garbage int64
	first      string
	// of are those that look like entries, by the places before them in their chains.
	of map[ledger.Place][]*setAside
}

// maxAsideLine bounds a line of aside.jsonl, in bytes.
const maxAsideLine = 2*(ledger.MaxEntryBytes+3*ledger.MaxBodyBytes) + 64<<10

// setAsides reads aside.jsonl, before the entries are read.
func (v *verifier) setAsides(path string) (err error) {
	v.aside.of = map[ledger.Place][]*setAside{}
	s, err := openLines(path, maxAsideLine)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if errors.Is(err, errNoFile) {
		v.problem(BadExport, -1, "%s", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for v.aside.n < maxAside {
		line, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var row asideRow
		if err == nil {
			err = strict.Decode(line, &row)
		}
		if err != nil {
			v.problem(BadExport, -1, "%s: %s", AsideFile, err)
			return nil
		}
		v.aside.n++
		c := ledger.Candidate{Hash: row.Hash, Chain: row.Chain, N: row.N, Key: row.Key, Kind: row.Kind, Bytes: row.Bytes}
		e, err := c.Entry(v.trust.Origin)
		if err == nil {
			// One that was pruned since was there.
			err = ledger.StoredBody{Bytes: row.Body, Pruned: row.Bodied && len(row.Body) == 0}.Check(e)
		}
		if err == nil && !row.Bodied {
			err = errors.New("its body was not there when it was set aside")
		}
		if err == nil && !row.Followed {
			err = errors.New("the entry before it in its chain was not there when it was set aside")
		}
		if err == nil {
			at := ledger.Place{Chain: e.Chain, N: e.N - 1}
			v.aside.of[at] = append(v.aside.of[at], &setAside{e: e})
			continue
		}
		if v.aside.garbage++; v.aside.garbage == 1 {
			v.aside.first = fmt.Sprintf("%.120q in the chain %.120q: %s", row.Key, row.Chain, err)
		}
	}
	v.problem(BadExport, -1, "%s has more than %d lines", AsideFile, maxAside)
	return nil
}

// beside notes that the log has an entry, so that what was set aside may follow it.
func (a *asides) beside(e *ledger.Entry, hash ledger.Hash) {
	if len(a.of) == 0 {
		return
	}
	for _, x := range a.of[ledger.Place{Chain: e.Chain, N: e.N}] {
		if x.e.Prev == hash {
			x.follows = true
		}
	}
}

// judge tells what was set aside.
func (v *verifier) judgeAsides() {
	var proper, forks int64
	var first, fork string
	for _, all := range v.aside.of {
		for _, x := range all {
			name := fmt.Sprintf("%s, %q in the chain %s, entry %d there", x.e.Kind, x.e.Key, x.e.Chain, x.e.N)
			switch {
			case x.follows || x.e.N == 0:
				if proper++; first == "" || name < first {
					first = name
				}
			default:
				if forks++; fork == "" || name < fork {
					fork = name
				}
			}
		}
	}
	v.Aside = v.aside.n
	if proper > 0 {
		v.problem(BadChain, -1, "%s set aside as if they were no entries of this log, and are, first %s", count(proper, "entry was", "entries were"), first)
	}
	if forks > 0 {
		v.warn(BadChain, -1, "%s set aside that are written as entries, and continue no chain of this log, first %s", count(forks, "row was", "rows were"), fork)
	}
	if v.aside.garbage > 0 {
		v.warn(BadEntry, -1, "%s set aside that are no entries: somebody has written into the database by hand; first %s", count(v.aside.garbage, "row was", "rows were"), v.aside.first)
	}
}

// lost reads the entries that neither had a place nor waited for one.
func (v *verifier) lost(path string) error {
	n, err := v.unplaced(path, LostFile)
	if v.Lost = n; n > 0 {
		v.warn(BadEntry, -1, "%s in the database, without a place in the log, and did not wait for one: they were lost, since somebody has taken them out", count(n, "entry was", "entries were"))
	}
	return err
}
