package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/guardian"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// maxActs bounds the acts of retention that a report lists.
const maxActs = 50

// maxOpenRuns bounds the open runs that a report lists.
const maxOpenRuns = 50

// Verify verifies an export against what the auditor trusts. against is an
// older checkpoint of the log that the auditor has kept, or nil. The error is about
// reading; the report says what is wrong with the export.
func Verify(dir string, t Trust, against []byte) (Report, error) {
	r := Report{Origin: t.Origin, Audience: t.Audience, Problems: []Problem{}, OpenRuns: []OpenRun{}}
	raw, err := readAll(filepath.Join(dir, CheckpointFile), ledger.MaxCheckpointBytes)
	switch {
	case errors.Is(err, errLarge), errors.Is(err, errNoFile), errors.Is(err, os.ErrNotExist):
		r.problem(BadExport, -1, "%s: %s", CheckpointFile, err)
		return r, nil
	case err != nil:
		return r, fmt.Errorf("verify: %w", err)
	}
	if err := t.usable(); err != nil {
		return r, fmt.Errorf("verify: %w", err)
	}
	claimed, err := ledger.ParseCheckpoint(raw)
	if err != nil {
		r.problem(BadCheckpoint, -1, "%s", err)
	}
	if err == nil && claimed.Origin != t.Origin {
		r.problem(BadCheckpoint, -1, "the export is one of the log %s, and the trust file is for %s: nothing else was looked at", claimed.Origin, t.Origin)
		return r, nil
	}
	v := &verifier{Report: &r, trust: t, model: model.New(), chains: map[string]*chain{}, seed: maphash.MakeSeed(), gone: newLosses(), stuck: -1, consumed: map[string]ledger.ConsumedData{}, escalated: map[string]int64{}, checked: map[string]*guardian.Action{}, attended: map[string]bool{}, calls: map[string]string{}, free: map[string]string{}, undoable: map[string]bool{}, undone: map[string]undoing{}, undoneIn: map[originOf]map[string]string{}, without: map[[2]string]bool{}, whyKnown: t.whyKnown(), knownAt: map[int64]string{}, foreseen: newForeseen()}
	v.model.Brief = true
	if against != nil {
		old, err := ledger.ParseCheckpoint(against)
		if err != nil {
			return r, fmt.Errorf("verify: the older checkpoint: %w", err)
		}
		v.old, r.Against = &old, &old.Size
	}
	if err := v.setAsides(filepath.Join(dir, AsideFile)); err != nil {
		return r, fmt.Errorf("verify: %w", err)
	}
	if err := v.readMarks(filepath.Join(dir, CosignedFile)); err != nil {
		return r, fmt.Errorf("verify: %w", err)
	}
	if err := v.read(dir); err != nil {
		return r, fmt.Errorf("verify: %w", err)
	}
	if claimed.Origin != "" && !v.partial {
		v.judge(claimed)
	}
	if v.Pending, err = v.unplaced(filepath.Join(dir, PendingFile), PendingFile); err != nil {
		return r, fmt.Errorf("verify: %w", err)
	}
	if err := v.lost(filepath.Join(dir, LostFile)); err != nil {
		return r, fmt.Errorf("verify: %w", err)
	}
	v.judgeAsides()
	v.judgeKnown()
	v.finish()
	// Only now is it known who must have signed, since the admins' statements
	// say so too.
	who := v.authority()
	if claimed.Origin != "" {
		v.signed(raw, who)
	}
	v.misdated()
	v.countUnwitnessed(claimed.Size)
	if against != nil {
		if err := v.older(against, who); err != nil {
			return r, fmt.Errorf("verify: the older checkpoint: %w", err)
		}
	}
	r.OK = len(r.Problems) == 0
	return r, nil
}

// signed verifies the signatures of the checkpoint.
func (v *verifier) signed(raw []byte, who authority) {
	for i, key := range slices.Backward(who.keys) {
		t := Trust{Origin: v.trust.Origin, Log: key}
		if _, err := t.open(raw); err != nil {
			if i == 0 {
				v.problem(BadCheckpoint, -1, "it is not signed by the log's key %s: %s", who.keys[len(who.keys)-1], err)
				return
			}
			continue
		}
		if i < len(who.keys)-1 {
			v.problem(BadCheckpoint, -1, "the checkpoint is signed by the key %s, which the admins have replaced at %s", key, who.rotated[i])
		}
		v.Key = key
		break
	}
	for _, set := range who.sets {
		t := Trust{Origin: v.trust.Origin, Log: v.Key, Witnesses: set.Keys}
		c, err := t.open(raw)
		if err == nil && len(c.Witnesses) < set.Quorum {
			err = fmt.Errorf("%w: %d of the known witnesses have cosigned, %d must", ledger.ErrCheckpoint, len(c.Witnesses), set.Quorum)
		}
		if err != nil {
			v.problem(BadCheckpoint, -1, "%s", err)
		}
		for i, name := range c.Witnesses {
			if !slices.Contains(v.Witnesses, name) {
				v.Witnesses, v.Cosigned = append(v.Witnesses, name), append(v.Cosigned, c.Cosigned[i])
			}
		}
	}
	if len(v.Cosigned) > 0 {
		at := slices.MaxFunc(v.Cosigned, time.Time.Compare).UTC()
		v.Time = &at
		if v.latest.Time().After(at.Add(slack)) {
			v.warn(BadTime, v.newest, "an entry says that it was stated at %s, and witnesses have cosigned it by %s: the store's clock is ahead", v.latest, at.Format(time.RFC3339))
		}
	}
}

// older verifies the older checkpoint with the keys that the log has or had. Its witnesses
// do not matter, since the auditor has kept it.
func (v *verifier) older(raw []byte, who authority) error {
	_, err := Trust{Origin: v.trust.Origin, Log: v.trust.Log}.open(raw)
	for _, key := range who.keys {
		if err == nil {
			break
		}
		_, err = Trust{Origin: v.trust.Origin, Log: key}.open(raw)
	}
	return err
}

// verifier verifies the entries in order.
type verifier struct {
	*Report
	// warned counts the warnings that are listed, by their formats.
	warned map[string]int
	trust  Trust
	model  *model.State
	tree   ledger.Frontier
	chains map[string]*chain
	seed   maphash.Seed
	// whyKnown has why the trust file knows an entry, and knownAt the same by places.
	whyKnown map[ledger.Hash]string
	knownAt  map[int64]string
	// later replays entries in their order, once their data are read.
	later *reading
	// old is the older checkpoint, until the tree has reached its size.
	old *ledger.Checkpoint
	// partial: not all entries were read.
	partial bool
	// marks are older checkpoints, of which the tree has reached as many as crossed says.
	marks   []mark
	crossed int
	// clock has the times of entries, latest the latest of them, and newest its entry.
	clock  clock
	latest ledger.Time
	newest int64
	// packets are the evidence packets, nil where the export has none.
	packets *stream[packet]
	// gone are the bodies that are missing, and stuck is the first entry since the last whose
	// body was there, or -1.
	gone  losses
	stuck int64
	aside asides
	// statements are those of admins; published plans, opened runs and accepted
	// approvals are judged against them at the end.
	statements          []statement
	published, accepted []claim
	decided, barriers   []claim
	opened              []start
	// ungranted are permits in runs without a start grant, and overdrafts holds that count whatever
	// is left of a budget.
	ungranted, overdrafts []claim
	// effectsWithoutGrant counts the permits in runs without a start grant.
	effectsWithoutGrant int
	limits              []limit
	trusted             []standing
	permits             []permit
	resolved            []resolution
	orders              []ordered
	// repeated is nil until a hold of a call that is made again is looked at.
	repeated *repeated
	// escalated has the places at which barriers were escalated, by barrier.
	escalated map[string]int64
	// consumed has the approvals that were used, by decision.
	consumed map[string]ledger.ConsumedData
	// checked has the actions that rest on prechecks, by decision.
	checked map[string]*guardian.Action
	// free has the decisions that were made as if there were no budget, with their agents.
	free map[string]string
	// attended has the decisions on actions that at least one person must approve.
	attended map[string]bool
	// calls has the digests of the calls that decisions are about, by their evidence.
	calls    map[string]string
	replays  replays
	foreseen foreseen
	// undoables are the effects that can be undone, in the order in which they ended, and
	// undoable has their ids. undone says of what undoes them whether that was done. undoneIn has
	// the nodes whose effects had happened and were undone, each with the chain of the run that
	// has done so, and without those that failed or were skipped in another, by chain and node.
	undoables []undoable
	undoable  map[string]bool
	undone    map[string]undoing
	undoneIn  map[originOf]map[string]string
	without   map[[2]string]bool
}

// chain is what is known about a chain so far.
type chain struct {
	n    int64
	hash ledger.Hash
	// ended says that it has the end of its run, which what a call did may follow.
	ended bool
	at    ledger.Time
	name  string
	// run is the workflow that the chain is of, "" for other chains.
	run  string
	keys map[uint64]struct{}
	// backwards says that time has run backwards in the chain.
	backwards bool
	// bodies says that one of the chain's was there, and key which one it was sealed
	// with, "" for none.
	bodies bool
	key    string
}

// entry is a decoded line of entries.jsonl.
type entry struct {
	hash ledger.Hash
	e    *ledger.Entry
	err  error
}

func readEntry(line []byte) entry {
	e, err := ledger.DecodeEntry(line)
	return entry{ledger.LeafHash(line), e, err}
}

// required opens a file that every export has, or returns nil and reports why it cannot.
func (v *verifier) required(dir, name string, most int) (*source, error) {
	s, err := openLines(filepath.Join(dir, name), most)
	switch {
	case errors.Is(err, os.ErrNotExist):
		v.problem(BadExport, -1, "%s is not there", name)
		return nil, nil
	case errors.Is(err, errNoFile):
		v.problem(BadExport, -1, "%s is not a file", name)
		return nil, nil
	}
	return s, err
}

func (v *verifier) read(dir string) (err error) {
	entries, err := v.required(dir, EntriesFile, ledger.MaxEntryBytes+1)
	if entries == nil {
		return err
	}
	defer func() { err = errors.Join(err, entries.close()) }()
	bodies, err := v.required(dir, BodiesFile, 3*ledger.MaxBodyBytes)
	if bodies == nil {
		return err
	}
	defer func() { err = errors.Join(err, bodies.close()) }()
	left, right := side(entries, readEntry), side(bodies, readBody)
	defer left.stop()
	defer right.stop()
	end, err := v.evidence(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	v.later = newReading(v.apply)
	defer v.later.close()
	v.crossOld()
	v.crossMarks()
	undecodable := 0
	for {
		x, err := left.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			v.problem(BadEntry, v.tree.Size(), "%s: %s", EntriesFile, err)
			return nil
		}
		if x.err != nil {
			if undecodable++; undecodable > maxUndecodable {
				return v.unread(filepath.Join(dir, EntriesFile))
			}
		}
		v.entry(x, right)
	}
	if b, err := right.peek(); err == nil {
		v.problem(BadBody, v.stuck, "%s has a body that no entry has: %s", BodiesFile, b.digest)
	} else if !errors.Is(err, io.EOF) {
		v.problem(BadBody, -1, "%s: %s", BodiesFile, err)
	}
	v.evidenceEnds()
	return nil
}

// maxUndecodable bounds the lines of a file that are no entries before the rest is not read.
const maxUndecodable = maxProblems / 2

// unread reports how many entries there would be in the part of a file that is not read.
func (v *verifier) unread(path string) error {
	n, err := countLines(path)
	if err != nil {
		return err
	}
	v.partial = true
	v.problem(BadEntry, v.tree.Size(), "%d lines before it are no entries; it and the lines after it, %d in all, are not read", maxUndecodable, n-v.tree.Size())
	return nil
}

// entry verifies the next entry, and its body if there is one.
func (v *verifier) entry(x entry, bodies *stream[body]) {
	i := v.tree.Size()
	v.tree.Add(x.hash)
	v.know(i, x.hash)
	v.crossOld()
	v.crossMarks()
	if x.err != nil {
		v.clock.add(v.latest) // it has no time of its own
		v.problem(BadEntry, i, "%s", x.err)
		return
	}
	v.clock.add(x.e.At)
	e := x.e
	if e.Origin != v.trust.Origin {
		v.problem(BadEntry, i, "it is of the log %s", e.Origin)
	}
	if why := e.Misplaced(); why != "" {
		v.problem(BadEntry, i, "%s", why)
	}
	c := v.link(i, e, x.hash)
	v.aside.beside(e, x.hash)
	v.pass(i, e)
	var data json.RawMessage
	if e.Body != "" {
		b, err := v.body(i, e.Body, bodies)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			v.problem(BadBody, i, "%s: %s", BodiesFile, err)
		case err == nil && b.digest == e.Body:
			bodies.take()
			v.stuck = -1
			switch {
			case b.err != nil:
				v.problem(BadBody, i, "%s", b.err)
			case b.sealed != "":
				v.Sealed++
			default:
				data = b.data
			}
			if why := c.seal(e, b.sealed); why != "" && b.err == nil {
				v.problem(BadBody, i, "%s", why)
			}
		default:
			if v.stuck < 0 {
				v.stuck = i
			}
			v.Missing++
			v.gone.lose(i, e, c.name)
			if e.Class == ledger.Permanent {
				v.problem(BadBody, i, "its body is not there; one of class %s is never pruned", e.Class)
			}
		}
	}
	var evidence *ledger.Packet
	if digest := e.Ref(ledger.EvidenceRef); digest != "" && data != nil {
		evidence = v.packet(i, digest)
	}
	switch e.Kind {
	case ledger.RulesKept:
		v.replays.keep(data)
	case ledger.DecisionMade:
		v.replay(i, e.Agent, data, evidence)
	default: // nothing decides by it
	}
	v.later.add(fact{index: i, e: e, hash: x.hash, data: data})
}

// apply replays a batch whose data were read.
func (v *verifier) apply(b *facts) {
	for i, f := range b.of {
		stated, pruned := len(v.model.Authority), len(v.model.Pruned)
		if err := v.model.ApplyFacts(f.e, f.hash, b.read[i]); err != nil {
			v.problem(BadStory, f.index, "%s", err)
			continue
		}
		for _, p := range v.model.Pruned[pruned:] {
			v.gone.act(f.index, p, v.model.LegalHolds)
		}
		if f.data != nil {
			v.note(f, stated)
		}
	}
}

// link checks an entry against its chain.
func (v *verifier) link(i int64, e *ledger.Entry, h ledger.Hash) *chain {
	c := v.chains[e.Chain]
	if c == nil {
		// The texts of an entry share the memory of all of it.
		c = &chain{n: -1, name: strings.Clone(e.Chain), keys: map[uint64]struct{}{}}
		v.chains[c.name] = c
		if strings.HasPrefix(e.Chain, "run/") {
			c.run = strings.Clone(e.Run)
			v.Runs++
		}
	}
	switch {
	case e.N != c.n+1:
		v.problem(BadChain, i, "%s: entry %d follows entry %d", e.Chain, e.N, c.n)
	case e.Prev != c.hash:
		v.problem(BadChain, i, "%s: entry %d does not follow the entry before it", e.Chain, e.N)
	}
	if c.n >= 0 && e.At.Time().Before(c.at.Time()) && !c.backwards {
		c.backwards = true
		v.warn(BadTime, i, "%s: %s comes after %s", e.Chain, e.At, c.at)
	}
	key := maphash.String(v.seed, e.Key)
	if _, twice := c.keys[key]; twice {
		v.problem(BadChain, i, "%s says %s twice", e.Chain, e.Key)
	}
	c.keys[key] = struct{}{}
	c.n, c.hash, c.at = e.N, h, e.At
	c.ended = c.ended || e.Kind == ledger.RunClosed
	return c
}

// pass remembers an entry's time.
func (v *verifier) pass(i int64, e *ledger.Entry) {
	at := e.At
	v.Last = &at
	if !at.Time().Before(v.latest.Time()) {
		v.latest, v.newest = at, i
	}
}

// crossOld compares the tree with the older checkpoint when it has reached its size.
func (v *verifier) crossOld() {
	if v.old == nil || v.tree.Size() != v.old.Size {
		return
	}
	if v.tree.Root() != v.old.Root {
		v.problem(BadHistory, -1, "the first %d entries are not those that the older checkpoint was signed over: the log was made anew", v.old.Size)
	}
	v.old = nil
}

// judge compares the entries with the checkpoint.
func (v *verifier) judge(c ledger.Checkpoint) {
	switch size := v.tree.Size(); {
	case size < c.Size:
		v.problem(BadRoot, -1, "the checkpoint is over %d entries, and %d are here: the others were cut off or dropped", c.Size, size)
	case size > c.Size:
		v.problem(BadRoot, -1, "the checkpoint is over %d entries, and %d are here: some were added", c.Size, size)
	case v.tree.Root() != c.Root:
		v.problem(BadRoot, -1, "the entries are not those that were signed: their root is %s, the checkpoint's %s", v.tree.Root(), c.Root)
	}
}

// unplaced counts the entries of a file of those that have no place yet. They are reported, but
// prove nothing.
func (v *verifier) unplaced(path, name string) (n int64, err error) {
	s, err := openLines(path, ledger.MaxEntryBytes+1)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if errors.Is(err, errNoFile) {
		v.problem(BadExport, -1, "%s", err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	bad, first, end := 0, error(nil), ""
	defer func() {
		if bad > 0 {
			v.warn(BadExport, -1, "%s: %s%s, the first: %s", name, count(bad, "line is no entry", "lines are no entries"), end, first)
		}
	}()
	for {
		line, err := s.next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			v.warn(BadExport, -1, "%s: %s", name, err)
			return n, nil
		}
		if e, err := ledger.DecodeEntry(line); err == nil {
			n++
			v.foreseen.outside(e)
		} else if bad++; first == nil {
			first = err
		}
		if bad == maxUndecodable {
			end = ", and those after them are not read"
			return n, nil
		}
	}
}

// finish checks what only the whole log shows.
func (v *verifier) finish() {
	v.Size, v.Root, v.Chains = v.tree.Size(), v.tree.Root(), len(v.chains)
	v.strays()
	if v.old != nil {
		v.problem(BadHistory, -1, "the older checkpoint is over %d entries, and %d are here: the log has shrunk", v.old.Size, v.Size)
	}
	for _, x := range v.gone.unexplained() {
		v.problem(BadBody, x.index, "%s", x.says)
	}
	v.Pruned = v.model.Pruned[max(0, len(v.model.Pruned)-maxActs):]
	v.Held = slices.Sorted(maps.Keys(v.model.LegalHolds))
	v.Held = v.Held[:min(len(v.Held), maxActs)]
	v.Erased = v.model.Erased
	v.compensations()
	v.hypotheses()
	for name, c := range v.chains {
		if c.run == "" && !strings.HasPrefix(name, "run/") || c.ended {
			continue
		}
		v.Open++
		v.OpenRuns = append(v.OpenRuns, OpenRun{Workflow: c.run, Chain: name, Entries: c.n + 1, Last: c.at})
	}
	slices.SortFunc(v.OpenRuns, func(a, b OpenRun) int {
		return cmp.Or(a.Last.Time().Compare(b.Last.Time()), cmp.Compare(a.Chain, b.Chain))
	})
	v.OpenRuns = v.OpenRuns[:min(len(v.OpenRuns), maxOpenRuns)]
}

var errLarge = errors.New("it is too large")

func readAll(path string, most int64) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	err = errors.Join(err, f.Close())
	if err == nil && int64(len(raw)) > most {
		err = errLarge
	}
	return raw, err
}
