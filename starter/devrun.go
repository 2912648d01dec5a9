package main

import (
	"context"
	"errors"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
)

// devRuns is what the runs of chimera dev share.
type devRuns struct {
	o       devOptions
	conn    *connection
	server  *devserver.Server
	opened  *store.Opened
	trusted audit.Trust
}

// devRun runs the plan of --run, once more if there is an input with which it is meant to
// fail, and then stays up or ends.
func (p *Program) devRun(ctx context.Context, d *devRuns, todo, failing *order) error {
	if failing != nil {
		p.say("\nrun 1 of 2: expected to succeed. A node that fails does not end it where the plan handles the failure.")
	}
	t, result, err := p.devFollow(ctx, d, todo, p.finishDev)
	if err != nil {
		return err
	}
	if failing != nil && result == nil {
		p.say("\nrun 2 of 2: with an input with which it is expected to fail, and to undo what it has done.")
		first := t
		if t, result, err = p.devFollow(ctx, d, failing, p.finishFailing); err != nil {
			return err
		}
		if result == nil {
			p.say("\nBoth runs ended as expected:\n  %s has succeeded\n  %s has failed", first.Run, t.Run)
		}
	}
	if _, onTerminal := terminal(p.Stderr); d.o.exit || !onTerminal {
		if result == nil && !p.json() {
			p.say("\nTry next:\n  without --exit, on a terminal, all of this stays up, and the run's page is\n  %s\n  %s", t.UI, p.command("graph", d.o.plan))
		}
		return result
	}
	code := p.Report(result)
	p.say("\nThe run's page is\n  %s\nTry next, in another terminal:\n  %s\n  %s\n  %s",
		t.UI, p.command("status", t.Run), p.command("runs"), p.command("graph", d.o.plan))
	p.say("Ctrl-C ends it")
	if err := p.linger(ctx, d.server); err != nil {
		return err
	}
	if code != exitDone {
		return &failure{code: code}
	}
	return nil
}

// devFollow runs a plan to its end, which finish prints, and verifies the ledger. It returns
// the answer of finish, or why that is not known.
func (p *Program) devFollow(ctx context.Context, d *devRuns, todo *order, finish func(runRef, client.Ending) error) (t runRef, result, err error) {
	if t, err = p.launch(ctx, d.conn, todo); err != nil {
		return t, nil, err
	}
	followed, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-d.server.Done():
			stop(gone(d.server))
		case <-followed.Done():
		}
	}()
	p.shown = newScreen(p.Stderr)
	p.shown.answered = d.o.exit
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if d.o.exit {
			stop(p.approve(followed, d.conn, t))
		}
	}()
	result = p.follow(followed, d.conn, t, finish)
	cause := context.Cause(followed)
	stop(nil)
	<-answered
	p.shown = nil
	var refused *failure
	if ctx.Err() == nil && errors.As(cause, &refused) {
		return t, nil, refused
	}
	if ctx.Err() == nil && cause != nil {
		return t, nil, unanswered("%s", cause)
	}
	if ctx.Err() != nil { // Ctrl-C ends everything here; the run waits in the database
		return t, nil, unanswered("interrupted; the run %s goes on at the next chimera dev in this folder", t.Run)
	}
	if err := p.sayEffects(ctx, d.opened.Ledger, t); err != nil {
		return t, nil, err
	}
	return t, result, p.verifyLedger(ctx, d.opened, t, d.conn.place.settings.Dev.Dir, d.trusted)
}

// finishDev is like finish, and says that a run has succeeded.
func (p *Program) finishDev(t runRef, e client.Ending) error {
	err := p.finish(t, e)
	if err == nil {
		p.say("the run %s %s", t.Run, verb(e.State))
	}
	return err
}

// finishFailing is like finish, for a run that is meant to fail and to undo what it has done.
func (p *Program) finishFailing(t runRef, e client.Ending) error {
	ended := p.finish(t, e)
	if ended == nil {
		return negative("the run %s was meant to fail, and %s", t.Run, verb(e.State))
	}
	if e.State != contract.RunFailed || e.Failure == nil || len(e.Failure.NotCompensated) > 0 {
		return ended
	}
	p.say("as expected, the run %s %s%s", t.Run, verb(e.State), printable(because(e.Failure)))
	return nil
}

// sayEffects shows what was decided about the effects of a run that has ended, if it has
// any.
func (p *Program) sayEffects(ctx context.Context, l ledger.Store, t runRef) error {
	run, err := l.Run(ctx, t.Run, "")
	if errors.Is(err, ledger.ErrNotFound) {
		return nil // it was refused before it began
	}
	if err != nil {
		return storeError(err)
	}
	all, err := effectsOf(ctx, l, run)
	if err != nil {
		return storeError(err)
	}
	if len(all.list) > 0 {
		p.say("effects    as the ledger has them; again: %s", p.command("effects", t.Run))
	}
	return writeEffects(p.Stderr, "           ", all.list)
}
