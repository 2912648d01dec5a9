package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// maxCosigned bounds the cosigned checkpoints among which those of a witness are looked for.
const maxCosigned = 1000

// logStatus is the JSON answer of audit status.
type logStatus struct {
	Origin string `json:"origin"`
	// Size, Root and Signed are those of the last checkpoint; Signed is nil if there is none.
	Size   int64        `json:"size"`
	Root   ledger.Hash  `json:"root"`
	Signed *ledger.Time `json:"signed,omitempty"`
	// Age is that of the checkpoint, in seconds.
	Age int64 `json:"age_seconds"`
	// Verified reports that the signature was verified: the log's keys are known here.
	Verified bool `json:"verified"`
	// Passed counts rows stored as later checkpoints, which the log's key has not signed.
	Passed int `json:"unsigned_checkpoints"`
	// Conflicts of the sequencer are known to the process alone that has met them.
	Conflicts string `json:"conflicts"`
	ledger.Status
	Witnesses []witnessStatus `json:"witnesses"`
	// OK reports that there are no Problems.
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
}

// maxWait is how long an entry may wait for its place before the log counts as standing
// still.
const maxWait = time.Minute

// judge says what is wrong with the log.
func (x *logStatus) judge(now time.Time) {
	x.Problems = []string{}
	add := func(format string, args ...any) { x.Problems = append(x.Problems, fmt.Sprintf(format, args...)) }
	if x.Signed != nil && !x.Verified {
		add("no key of the log is known here: the signature was not verified")
	}
	if x.Passed > 0 {
		add("the log's key has not signed %s: somebody has added %s", plural(x.Passed, "later checkpoint"), agree(x.Passed, "it", "them"))
	}
	if x.Since != nil && now.Sub(x.Since.Time()) > maxWait {
		add("entries have waited for a place for more than %s: no worker signs checkpoints", maxWait)
	}
	if x.Lost > 0 {
		add("%s: somebody has taken %s out of those that wait for a place", areLost(x.Lost), agree(int(x.Lost), "it", "them"))
	}
	if x.Aside > 0 {
		add("%s: somebody has added %s by hand", wereSetAside(x.Aside), agree(int(x.Aside), "it", "them"))
	}
	if x.Keyring != "" {
		add("runs about persons wait: %s", x.Keyring)
	}
	for _, w := range x.Witnesses {
		if w.Size > x.Size {
			add("the witness %s has cosigned more than the log has: %s", w.Name, plural(int(w.Size), "entry"))
		}
	}
	x.OK = len(x.Problems) == 0
}

// witnessStatus is what a configured witness has cosigned last. Time and Age are nil if it has
// cosigned nothing.
type witnessStatus struct {
	Name string     `json:"name"`
	Size int64      `json:"size"`
	Time *time.Time `json:"time,omitempty"`
	// Age is in seconds.
	Age *int64 `json:"age_seconds,omitempty"`
}

// logKeys returns the verifier keys that the log has and had, the last one first, as far as
// they are known: from the admins' statements, from the log's key itself, or from the
// configuration.
func (p *Program) logKeys(ctx context.Context, at *place) ([]string, error) {
	b, err := host.Bootstrap(at.settings)
	if err != nil {
		return nil, misuse("%s", err)
	}
	var keys []string
	if at.opened.Key != nil {
		keys = append(keys, at.opened.Key.Public())
	}
	if b != nil {
		keys = append(keys, b.Log.Key)
		// If the statements cannot be read, others say so.
		if s, err := trust.Read(ctx, at.opened.Ledger, b); err == nil {
			for _, k := range slices.Backward(s.LogKeys) {
				keys = append(keys, k.Key)
			}
		}
	}
	if len(keys) > 0 {
		keys = append(keys, at.settings.Ledger.FormerKeys...)
	}
	return keys, nil
}

// signedLog opens the ledger with its checkpoints verified, if the log's keys are known here. It
// makes no ledger.
func (p *Program) signedLog(ctx context.Context) (store ledger.Store, log ledger.Log, at *place, keys []string, err error) {
	if at, err = p.place(); err != nil {
		return nil, nil, nil, nil, err
	}
	if err = at.existing(); err != nil {
		return nil, nil, nil, nil, err
	}
	if store, err = at.ledger(ctx, p); err != nil {
		return nil, nil, nil, nil, err
	}
	if keys, err = p.logKeys(ctx, at); err != nil {
		return nil, nil, nil, nil, err
	}
	if len(keys) == 0 {
		return store, store, at, nil, nil
	}
	var witnesses []string
	for _, w := range at.settings.Ledger.Witnesses {
		witnesses = append(witnesses, w.Key)
	}
	return store, ledger.Verified(store, store.Origin(), keys, witnesses), at, keys, nil
}

func (p *Program) auditStatus(ctx context.Context, now time.Time) error {
	store, log, at, keys, err := p.signedLog(ctx)
	if err != nil {
		return err
	}
	out := logStatus{Origin: store.Origin(), Root: ledger.EmptyRoot(), Verified: len(keys) > 0, Conflicts: "unknown", Witnesses: []witnessStatus{}}
	// Before the head, which may grow meanwhile.
	cosigned, err := log.Cosigned(ctx, maxCosigned)
	if err != nil {
		return storeError(err)
	}
	head, passed, err := ledger.Latest(ctx, store, store.Origin(), keys)
	out.Passed = passed
	switch {
	case err == nil:
		c, err := head.Checkpoint(store.Origin())
		if err != nil {
			return storeError(err)
		}
		out.Size, out.Root, out.Signed, out.Age = c.Size, c.Root, &head.At, seconds(now.Sub(head.At.Time()))
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrCheckpoint):
		// There is none, or none that a known key has signed.
	default:
		return storeError(err)
	}
	if out.Status, err = store.Status(ctx); err != nil {
		return storeError(err)
	}
	for _, w := range at.settings.Ledger.Witnesses {
		x := witnessStatus{Name: w.Name}
		for _, raw := range cosigned {
			if c, when, _, err := ledger.Cosignature(raw, w.Key); err == nil {
				when = when.UTC()
				age := seconds(now.Sub(when))
				x.Size, x.Time, x.Age = c.Size, &when, &age
				break
			}
		}
		out.Witnesses = append(out.Witnesses, x)
	}
	out.judge(now)
	if p.json() {
		if err := p.document(out); err != nil {
			return err
		}
	} else {
		p.sayStatus(out, now)
	}
	if !out.OK {
		return &failure{code: exitNegative}
	}
	return nil
}

// seconds rounds a duration to seconds.
func seconds(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }

// sayStatus prints the status for people.
func (p *Program) sayStatus(x logStatus, now time.Time) {
	if x.Signed == nil {
		p.printf("%s: no checkpoint yet\n", x.Origin)
	} else {
		p.printf("%s: %s, root %s, signed at %s, %s ago\n", x.Origin, plural(int(x.Size), "entry"), x.Root, x.Signed, time.Duration(x.Age)*time.Second)
	}
	if x.Signed != nil && x.Verified {
		p.printf("  its signature was verified with the log's key\n")
	}
	waits := ""
	if x.Since != nil {
		waits = fmt.Sprintf(", the first stated %s ago", time.Duration(seconds(now.Sub(x.Since.Time())))*time.Second)
	}
	p.printf("  %s %s for a place%s; %s\n", plural(int(x.Waiting), "entry"), agree(int(x.Waiting), "waits", "wait"), waits, areLost(x.Lost))
	p.printf("  %s\n", wereSetAside(x.Aside))
	p.printf("  conflicts of the sequencer: unknown here; the worker that signs checkpoints logs them\n")
	for _, w := range x.Witnesses {
		if w.Time == nil || w.Age == nil {
			p.printf("  witness %s: it has cosigned nothing\n", w.Name)
			continue
		}
		p.printf("  witness %s: %s at %s, %s ago\n", w.Name, plural(int(w.Size), "entry"), w.Time.Format(time.RFC3339), time.Duration(*w.Age)*time.Second)
	}
	p.printf("  %s, %s (%d erased), %s\n", plural(int(x.OpenRuns), "open run"), plural(int(x.Subjects), "subject"), x.Erased, plural(int(x.LegalHolds), "legal hold"))
	for _, text := range x.Problems {
		p.printf("  PROBLEM: %s\n", text)
	}
}

// areLost says how many entries have no place and do not wait for one.
func areLost(n int64) string { return plural(int(n), "entry") + agree(int(n), " is lost", " are lost") }

// wereSetAside says how many rows the log has not taken.
func wereSetAside(n int64) string {
	return plural(int(n), "row") + agree(int(n), " was set aside", " were set aside")
}
