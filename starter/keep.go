package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/host"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
)

// auditPrune applies the configured retention policy now. The worker that sequences
// the log also applies it, periodically.
func (p *Program) auditPrune(ctx context.Context, reason string) error {
	settings, err := p.settings()
	if err != nil {
		return err
	}
	policy, err := host.Retention(settings)
	if err != nil {
		return misuse("%s", err)
	}
	if len(policy) == 0 {
		return misuse("no retention period is configured").withHint("Set ledger.retention, such as {operational: 90d, evidence: 7y, financial: 10y}.")
	}
	at, err := p.existingLedger(ctx)
	if err != nil {
		return err
	}
	if reason == "" {
		reason = "ledger.retention"
	}
	pruned, err := at.Retain(ctx, policy, reason)
	if errors.Is(err, ledger.ErrDenied) {
		return denied(err, "to prune", store.Roles.Engine)
	}
	if err != nil {
		return storeError(err)
	}
	if p.json() {
		return p.document(map[string]any{"pruned": pruned})
	}
	for _, class := range slices.Sorted(maps.Keys(pruned)) {
		p.printf("%s: %s pruned that are older than %s\n", class, plural(pruned[class], "body"), span(policy[class]))
	}
	return nil
}

// span formats a period, in days if it is a whole number of days.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return plural(int(d/day), "day")
	}
	return d.String()
}

// auditHold places the bodies of a chain under legal hold, or lifts the hold.
func (p *Program) auditHold(ctx context.Context, what, reason string, place bool) error {
	store, err := p.existingLedger(ctx)
	if err != nil {
		return err
	}
	chain, err := chainOf(ctx, store, what)
	if err != nil {
		return err
	}
	done := "held"
	if place {
		err = store.PlaceLegalHold(ctx, chain, reason)
	} else {
		done = "lifted"
		err = store.LiftLegalHold(ctx, chain, reason)
	}
	if err != nil {
		return owned(err)
	}
	if p.json() {
		return p.document(map[string]string{"chain": chain, "legal_hold": done})
	}
	p.printf("%s: %s\n", printable(chain), map[bool]string{true: "under legal hold", false: "no longer under legal hold"}[place])
	return nil
}

// chainPrefix begins an operand that names a chain, whatever runs there are.
const chainPrefix = "chain/"

// chainOf returns the chain that an operand names: run/WORKFLOW/ROOT is that of a run,
// chain/NAME any chain, and all else is the workflow id of a run, for its latest one, or
// the name of a chain. It refuses what could be either, and what does not exist, since a
// hold on a misspelt name would hold nothing.
func chainOf(ctx context.Context, store ledger.Store, what string) (string, error) {
	if _, root, ok := ledger.RunOf(what); ok && root != "" {
		// Whoever names the chain needs no key of whom the run is about.
		if found, err := hasChain(ctx, store, what); found || err != nil {
			return what, err
		}
	}
	if name, ok := strings.CutPrefix(what, chainPrefix); ok {
		if found, err := hasChain(ctx, store, name); found || err != nil {
			return name, err
		}
	}
	r, err := store.Run(ctx, what, "")
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return "", storeError(err)
	}
	isRun := err == nil
	isChain, err := hasChain(ctx, store, what)
	if err != nil {
		return "", err
	}
	switch {
	case isRun && isChain:
		return "", misuse("%s is both the workflow id of a run and the name of a chain", printable(what)).
			withHint("Name the run by its chain, %s, or the chain as %s%s.", printable(r.Chain()), chainPrefix, printable(what))
	case isRun:
		return r.Chain(), nil
	case isChain:
		return what, nil
	}
	switch what {
	case ledger.PlansChain, ledger.AuthorityChain, ledger.AgentsChain, ledger.ToolsChain, ledger.LedgerChain, ledger.RulesChain:
		return what, nil // it may have entries one day
	}
	f := negative("the ledger has no run and no chain %s", printable(what))
	if strings.HasPrefix(what, "run/") {
		return "", f.withHint("The chain of a run is run/WORKFLOW/ROOT; a run may be named by its workflow id alone.")
	}
	return "", f
}

// hasChain reports whether a chain has entries.
func hasChain(ctx context.Context, store ledger.Store, name string) (bool, error) {
	records, err := store.Chain(ctx, name, 0, 1)
	if err != nil {
		return false, storeError(err)
	}
	return len(records) > 0, nil
}

// erasure is what audit erase does, and says.
type erasure struct {
	erase func(context.Context, ledger.Retention) error
	// done is the answer, and nothing the failure if there is nothing to erase.
	done    string
	nothing *failure
}

// auditErase deletes keys that seal everything the ledger holds about persons.
func (p *Program) auditErase(ctx context.Context, e erasure) error {
	at, err := p.place()
	if err != nil {
		return err
	}
	folder, _, err := store.SubjectKeys(at.store)
	if err != nil {
		return misuse("%s", err)
	}
	if folder == "" {
		return misuse("ledger.subjects is not set").withHint("An erasure replaces the key in that folder: set the one that the deployment's workers have.")
	}
	if err := at.existing(); err != nil {
		return err
	}
	opened, err := at.ledger(ctx, p)
	if err != nil {
		return err
	}
	before, err := openAbouts(ctx, opened)
	if err != nil {
		return err
	}
	again, err := untilErased(ctx, func() error { return e.erase(ctx, opened) })
	if errors.Is(err, ledger.ErrNotFound) {
		return e.nothing
	}
	if err != nil {
		return owned(err)
	}
	open, err := erasedAmong(ctx, opened, before)
	if err != nil {
		p.say("it was erased; which open runs are about it is not known: %s", err)
	}
	if p.json() {
		return p.document(struct {
			Erased bool `json:"erased"`
			// OpenRuns are the open runs about whom was erased.
			OpenRuns []string `json:"open_runs"`
		}{true, open})
	}
	for _, run := range open {
		p.say("the run %s is open, and about that subject: it can have no more effects, nor be approved; to end it: %s", printable(run), p.command("cancel", run))
	}
	if again {
		p.printf("nothing more to erase: an attempt before this one has erased it, unless it was never there\n")
		return nil
	}
	p.printf("%s\n", e.done)
	return nil
}

// Bounds of the attempts at an erasure that readers of the database keep from
// completing.
const (
	eraseTries = 50
	erasePause = 100 * time.Millisecond
)

// untilErased erases until that is complete. It reports whether there was nothing to erase any
// more after an attempt of unknown outcome.
func untilErased(ctx context.Context, erase func() error) (again bool, err error) {
	for try := 1; ; try++ {
		err := erase()
		switch {
		case again && errors.Is(err, ledger.ErrNotFound):
			return true, nil
		case !errors.Is(err, ledger.ErrUnavailable) || keyless(err) || try == eraseTries:
			return false, err
		}
		again = true
		timer := time.NewTimer(erasePause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false, err
		case <-timer.C:
		}
	}
}
