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
	"slices"
	"strings"

	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
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
	// More, in a last line that has nothing else, counts the rows that the file leaves out.
	More int64 `json:"more,omitempty"`
}

// entry returns the entry that a row holds, or says why it holds none of the log. whole says what
// it lacked when it was set aside: nil if nothing.
func (r *asideRow) entry(origin string) (e *ledger.Entry, whole, err error) {
	c := ledger.Candidate{Hash: r.Hash, Chain: r.Chain, N: r.N, Key: r.Key, Kind: r.Kind, Bytes: r.Bytes}
	if e, err = c.Entry(origin); err != nil {
		return nil, nil, err
	}
	switch {
	case !r.Bodied:
		whole = errors.New("its body was not there, or not sealed as its run is, when it was set aside")
	case !r.Followed:
		whole = errors.New("the entry before it in its chain was not there when it was set aside")
	case len(r.Body) == 0:
		whole = errors.New("its body was deleted since, so that nobody can tell whether it was one")
	default:
		whole = ledger.StoredBody{Bytes: r.Body}.Check(e, model.Possible)
	}
	return e, whole, nil
}

// oddEntry is a line of odd.jsonl.
type oddEntry struct {
	Index int64  `json:"index"`
	Bytes []byte `json:"bytes"`
}

// maxAside bounds the rows that were set aside, and the lost entries, that an export lists, and
// the rows that a verifier keeps. Of those that were set aside, entries that lacked nothing are
// listed beyond it: nobody hides one behind rows that are none.
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
func (x *Exported) asides(ctx context.Context, log ledger.Log, origin, path string) (err error) {
	out := &lazy{path: path}
	defer func() { err = errors.Join(err, out.close()) }()
	more, listed := int64(0), 0
	for after := int64(math.MinInt64); ; {
		rows, err := log.Asides(ctx, after, page)
		if err != nil {
			return err
		}
		for i := range rows {
			x.Aside++
			after = rows[i].Serial
			raw, whole, err := asideLine(ctx, log, origin, &rows[i])
			if err != nil {
				return err
			}
			switch {
			case !whole && (len(raw) > maxAsideLine || listed >= maxAside):
				more++
				continue
			case !whole:
				listed++
			}
			if err := out.line(raw); err != nil {
				return err
			}
		}
		if len(rows) < page {
			break
		}
	}
	if more == 0 {
		return nil
	}
	raw, err := json.Marshal(map[string]int64{"more": more})
	if err != nil {
		return err
	}
	return out.line(raw)
}

// asideLine is the line of a row; whole says that the row is an entry that lacked nothing.
func asideLine(ctx context.Context, log ledger.Log, origin string, a *ledger.Aside) (raw []byte, whole bool, err error) {
	row := asideRow{Hash: a.Hash, Chain: a.Chain, N: a.N, Key: a.Key, Kind: a.Kind, Bytes: a.Bytes, Why: a.Why[:min(len(a.Why), maxWhy)], At: a.At, Bodied: a.Bodied, Followed: a.Followed}
	if e, err := ledger.DecodeEntry(a.Bytes); err == nil && e.Body != "" {
		row.Body, err = log.Stored(ctx, e.Body)
		if err != nil && !errors.Is(err, ledger.ErrGone) {
			return nil, false, err
		}
		if len(row.Body) > 2*ledger.MaxBodyBytes {
			row.Body, row.Bodied = nil, false // none that an entry may have
		}
	}
	_, lacks, err := row.entry(origin)
	whole = err == nil && lacks == nil
	raw, err = json.Marshal(row)
	return raw, whole, err
}

// setAside is a row that was set aside, and looks like an entry of the log.
type setAside struct {
	key  string
	kind ledger.Kind
	prev ledger.Hash
	// follows is set once the entry before it in its chain was found in the log.
	follows bool
}

// asides are the rows of an export that were set aside.
type asides struct {
	n, more int64
	// garbage are rows that are no entries, and partial those that are, and lacked something.
	garbage, partial naming
	// of are those that look like entries, by the places before them in their chains; kept counts
	// them.
	of   map[ledger.Place][]*setAside
	kept int
	// beyond counts those that are written as entries, lacked nothing, and are not kept.
	beyond int64
}

// naming counts rows, and keeps the names of the first maxNamed.
type naming struct {
	n     int64
	names []string
}

// maxNamed bounds the rows that one message names.
const maxNamed = 20

func (x *naming) add(name string) {
	if x.n++; len(x.names) < maxNamed {
		x.names = append(x.names, name)
	}
}

// String names the rows.
func (x *naming) String() string {
	s := strings.Join(x.names, "; ")
	if more := x.n - int64(len(x.names)); more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}

// maxWhy bounds a reason in aside.jsonl, in bytes.
const maxWhy = 2000

// maxAsideLine bounds a line of aside.jsonl, in bytes. An entry that lacked nothing fits.
const maxAsideLine = 2*(ledger.MaxEntryBytes+3*ledger.MaxBodyBytes) + 64<<10

// setAsides reads aside.jsonl, before the entries are read.
func (v *verifier) setAsides(path string) (err error) {
	a := &v.aside
	a.of = map[ledger.Place][]*setAside{}
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
	for {
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
		if row.More > 0 {
			a.more += row.More
			continue
		}
		a.n++
		e, lacks, err := row.entry(v.trust.Origin)
		switch {
		case err != nil:
			a.garbage.add(fmt.Sprintf("%.120q in the chain %.120q: %s", row.Key, row.Chain, err))
		case lacks != nil:
			a.partial.add(fmt.Sprintf("%s: %s", asideName(e.Kind, e.Key, ledger.Place{Chain: e.Chain, N: e.N}), lacks))
		case a.kept == maxAside:
			a.beyond++
		default:
			a.kept++
			// The entry's texts hold on to its line.
			at := ledger.Place{Chain: strings.Clone(e.Chain), N: e.N - 1}
			a.of[at] = append(a.of[at], &setAside{key: strings.Clone(e.Key), kind: ledger.Kind(strings.Clone(string(e.Kind))), prev: e.Prev})
		}
	}
}

func asideName(kind ledger.Kind, key string, at ledger.Place) string {
	return fmt.Sprintf("%s, %q in the chain %s, entry %d there", kind, key, at.Chain, at.N)
}

// beside notes that the log has an entry, so that what was set aside may follow it.
func (a *asides) beside(e *ledger.Entry, hash ledger.Hash) {
	if len(a.of) == 0 {
		return
	}
	for _, x := range a.of[ledger.Place{Chain: e.Chain, N: e.N}] {
		if x.prev == hash {
			x.follows = true
		}
	}
}

// firstOf names the first of them, in the order of their names.
func firstOf(names []string) *naming {
	slices.Sort(names)
	x := &naming{}
	for _, name := range names {
		x.add(name)
	}
	return x
}

// judgeAsides tells what was set aside.
func (v *verifier) judgeAsides() {
	var proper, forks []string
	for before, all := range v.aside.of {
		for _, x := range all {
			name := asideName(x.kind, x.key, ledger.Place{Chain: before.Chain, N: before.N + 1})
			if x.follows || before.N < 0 {
				proper = append(proper, name)
			} else {
				forks = append(forks, name)
			}
		}
	}
	v.Aside = v.aside.n + v.aside.more
	if v.aside.beyond > 0 {
		v.problem(BadChain, -1, "more than %d rows were set aside that are written as entries and lacked nothing: the other %d are not looked at", maxAside, v.aside.beyond)
	}
	if len(proper) > 0 {
		v.problem(BadChain, -1, "%s: %s", count(int64(len(proper)), "entry was set aside as if it were none of this log, and is one", "entries were set aside as if they were none of this log, and are"), firstOf(proper))
	}
	if len(forks) > 0 {
		v.warn(BadChain, -1, "%s: %s", count(int64(len(forks)), "row was set aside that is written as an entry, and continues no chain of this log", "rows were set aside that are written as entries, and continue no chain of this log"), firstOf(forks))
	}
	if v.aside.partial.n > 0 {
		v.warn(BadEntry, -1, "%s: %s", count(v.aside.partial.n, "row was set aside that is written as an entry of this log, and was not complete", "rows were set aside that are written as entries of this log, and were not complete"), &v.aside.partial)
	}
	if v.aside.garbage.n > 0 {
		v.warn(BadEntry, -1, "%s, so that somebody has written into the database by hand: %s", count(v.aside.garbage.n, "row was set aside that is no entry", "rows were set aside that are no entries"), &v.aside.garbage)
	}
	if v.aside.more > 0 {
		v.warn(BadEntry, -1, "%s set aside, and %d more than %s lists", count(v.aside.n, "row was", "rows were"), v.aside.more, AsideFile)
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
