package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// cosigned writes older checkpoints that witnesses have cosigned, as JSON strings, and returns their
// number.
func cosigned(ctx context.Context, log ledger.Log, size int64, file string) (n int64, err error) {
	out, err := create(file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	all, err := log.CosignedEvenly(ctx, maxCosigned)
	if err != nil {
		return 0, err
	}
	last := int64(-1)
	for _, raw := range all {
		// What is no checkpoint, or not in its place, somebody has put there: it proves nothing.
		c, err := ledger.ParseCheckpoint(raw)
		if err != nil || c.Size <= last || c.Size > size {
			continue
		}
		last = c.Size
		line, err := json.Marshal(string(raw))
		if err == nil {
			err = out.line(line)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// mark is an older checkpoint of the export. at is when the first of the known witnesses has
// cosigned it, once that is verified.
type mark struct {
	raw  []byte
	size int64
	root ledger.Hash
	// same: the entries have that root.
	same bool
	at   time.Time
}

// readMarks reads the older checkpoints of an export. One without the file has none.
func (v *verifier) readMarks(path string) (err error) {
	lines, err := openLines(path, 2*ledger.MaxCheckpointBytes)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, errNoFile):
		v.problem(BadExport, -1, "%s is not a file", CosignedFile)
		return nil
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, lines.close()) }()
	for last := int64(-1); ; {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			v.problem(BadExport, -1, "%s: %s", CosignedFile, err)
			return nil
		}
		var text string
		err = json.Unmarshal(line, &text)
		c := ledger.Checkpoint{}
		if err == nil {
			c, err = ledger.ParseCheckpoint([]byte(text))
		}
		switch {
		case err != nil:
			v.problem(BadExport, -1, "%s: line %d: %s", CosignedFile, len(v.marks)+1, err)
			return nil
		case c.Size <= last || len(v.marks) == maxCosigned:
			v.problem(BadExport, -1, "%s: its checkpoints are not in order, or more than %d", CosignedFile, maxCosigned)
			return nil
		}
		last = c.Size
		v.marks = append(v.marks, mark{raw: []byte(text), size: c.Size, root: c.Root})
	}
}

// crossMarks compares the tree with an older checkpoint when it has reached its size.
func (v *verifier) crossMarks() {
	if v.crossed < len(v.marks) && v.marks[v.crossed].size == v.tree.Size() {
		m := &v.marks[v.crossed]
		m.same = v.tree.Root() == m.root
		v.crossed++
	}
}

// dated verifies the older checkpoints, by any of the keys that the log has or had, and any of the
// witnesses, and keeps those that the witnesses have cosigned.
func (v *verifier) dated(keys, witnesses []string) {
	slices.Sort(witnesses)
	witnesses = slices.Compact(witnesses)
	var out []mark
	for _, m := range v.marks {
		var at []time.Time
		for _, w := range witnesses {
			for _, key := range keys {
				c, err := Trust{Origin: v.trust.Origin, Log: key, Witnesses: []string{w}}.open(m.raw)
				if err == nil && len(c.Cosigned) > 0 {
					at = append(at, c.Cosigned[0])
					break
				}
			}
		}
		switch {
		case len(at) == 0:
		case !m.same:
			v.problem(BadHistory, -1, "a witness has cosigned %d entries, and they are not those that the log begins with: the log was made anew", m.size)
		default:
			m.at = slices.MinFunc(at, time.Time.Compare)
			out = append(out, m)
		}
	}
	v.marks = out
}

// datedBy is dated with all keys that the admins have stated.
func (v *verifier) datedBy(state trust.State) {
	keys, stated := []string{v.trust.Log}, []trust.Witnesses{v.trust.Bootstrap.Witnesses}
	for _, k := range state.LogKeys {
		keys = append(keys, k.Key)
	}
	for _, s := range v.statements {
		st, _, err := trust.ParseStatement(s.raw)
		if err != nil {
			continue // it was verified
		}
		for _, act := range st.Acts {
			if w, ok := act.(*trust.SetWitnesses); ok {
				stated = append(stated, w.Witnesses)
			}
		}
	}
	v.dated(keys, v.witnessesOf(stated))
}

// witnessesOf lists the keys of all witnesses: the auditor's, and those of the admins.
func (v *verifier) witnessesOf(stated []trust.Witnesses) (keys []string) {
	keys = slices.Clone(v.trust.Witnesses)
	for _, w := range stated {
		keys = append(keys, w.Keys...)
	}
	return keys
}

// gap is the time without a cosignature that is warned of, at least.
const gap = 24 * time.Hour

// misdated warns of entries whose times contradict the witnesses', and of long times in which no
// witness has cosigned.
func (v *verifier) misdated() {
	var old, young struct{ n, first int64 }
	for i, at := int64(0), 0; i < v.clock.n && len(v.marks) > 0; i++ {
		for at < len(v.marks) && v.marks[at].size <= i {
			at++
		}
		own := v.clock.at(i)
		if at > 0 && later(v.marks[at-1].at.Unix(), own) {
			if old.n++; old.n == 1 {
				old.first = i
			}
		}
		if at < len(v.marks) && later(own, v.marks[at].at.Unix()) {
			if young.n++; young.n == 1 {
				young.first = i
			}
		}
	}
	if old.n > 0 {
		v.warn(BadTime, old.first, "%s, more than %s before a witness had cosigned the log without them, the first of %s: the store's clock was behind, or the log or the witness was late",
			count(old.n, "entry says that it is older", "entries say that they are older"), slack, seconds(v.clock.at(old.first)))
	}
	if young.n > 0 {
		v.warn(BadTime, young.first, "%s, more than %s after a witness had cosigned the log with them, the first of %s: the store's clock was ahead",
			count(young.n, "entry says that it is younger", "entries say that they are younger"), slack, seconds(v.clock.at(young.first)))
	}
	if len(v.marks) < 2 {
		return
	}
	first, last := v.marks[0], v.marks[len(v.marks)-1]
	least := max(gap, 3*last.at.Sub(first.at)/time.Duration(len(v.marks)))
	longest := 0
	for i := 1; i < len(v.marks); i++ {
		if longest == 0 || v.marks[i].at.Sub(v.marks[i-1].at) > v.marks[longest].at.Sub(v.marks[longest-1].at) {
			longest = i
		}
	}
	if a, b := v.marks[longest-1], v.marks[longest]; b.at.Sub(a.at) > least {
		v.warn(BadTime, a.size, "no witness has cosigned between %s and %s, and %s added: only the store's clock says when", a.at.UTC().Format(time.RFC3339), b.at.UTC().Format(time.RFC3339), count(b.size-a.size, "entry was", "entries were"))
	}
}

// seenBy returns by when a witness had seen an entry, or false.
func (v *verifier) seenBy(index int64) (at time.Time, ok bool) {
	for _, m := range v.marks {
		if m.size > index && (!ok || m.at.Before(at)) {
			at, ok = m.at, true
		}
	}
	return at, ok
}

// addedAfter returns the place from which on entries were added more than slack after an instant, since
// a witness had cosigned the log without them then: the least such place after another, or false.
func (v *verifier) addedAfter(after int64, end time.Time) (int64, bool) {
	i := slices.IndexFunc(v.marks, func(m mark) bool { return m.size > after && m.at.After(end) })
	if i < 0 {
		return 0, false
	}
	return v.marks[i].size - 1, true
}

// countUnwitnessed counts the entries after the last that a witness has cosigned.
func (v *verifier) countUnwitnessed(claimed int64) {
	most := int64(0)
	if len(v.Cosigned) > 0 {
		most = claimed
	}
	if len(v.marks) > 0 {
		most = max(most, slices.MaxFunc(v.marks, func(a, b mark) int { return cmp.Compare(a.size, b.size) }).size)
	}
	v.Unwitnessed = max(0, v.Size-most)
}
