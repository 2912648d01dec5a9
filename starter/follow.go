package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
)

// final is the JSON answer about a run that was followed to its end.
type final struct {
	runRef
	client.Ending
}

// follow shows a run until it ends, and answers as finish does. If ctx ends first, the
// run goes on.
func (p *Program) follow(ctx context.Context, conn *connection, t runRef, finish func(runRef, client.Ending) error) error {
	if !p.json() {
		p.say("run %s", t.Run)
		if t.UI != "" {
			p.say("%s", t.UI)
		}
	}
	e, err := conn.runs.Follow(ctx, client.Run{ID: t.Run, RunID: t.RunID}, p.watch(conn, t.Run))
	var lost *client.LostError
	switch {
	case err != nil && ctx.Err() != nil:
		return unanswered("detached; the run %s goes on", t.Run).withHint("%s", p.runCommands(t.Run))
	case errors.As(err, &lost):
		return unanswered("Temporal at %s has not answered for %s; it is not known whether the run %s goes on", conn.address, lost.Silent, t.Run).
			withHint("%s", p.runCommands(t.Run))
	case err != nil:
		return conn.failed(err)
	}
	return finish(t, e)
}

// finish prints how a run ended.
func (p *Program) finish(t runRef, e client.Ending) error {
	if p.json() {
		if err := p.document(final{t, e}); err != nil {
			return err
		}
	} else {
		p.output(e.Output)
	}
	if e.State == contract.RunSucceeded {
		return nil
	}
	if p.json() {
		return &failure{code: exitNegative}
	}
	return negative("the run %s %s%s", t.Run, verb(e.State), because(e.Failure))
}

// output prints a run's output.
func (p *Program) output(output json.RawMessage) {
	if len(output) == 0 {
		return
	}
	var pretty json.RawMessage = output
	if indented, err := json.MarshalIndent(output, "", "  "); err == nil {
		pretty = indented
	}
	text := string(pretty)
	if _, ok := terminal(p.Stdout); ok {
		text = printable(text)
	}
	p.printf("%s\n", text)
}

// because describes a failure, and what was undone.
func because(f *contract.Failure) string {
	if f == nil {
		return ""
	}
	text := ""
	if f.Node != "" {
		text += " at " + f.Node
	}
	if f.Kind != "" {
		text += " (" + string(f.Kind) + ")"
	}
	if f.Message != "" {
		text += ": " + f.Message
	}
	for _, undone := range []struct {
		what  string
		nodes []string
	}{{"undone", f.Compensated}, {"not undone", f.NotCompensated}} {
		if len(undone.nodes) > 0 {
			text += "; " + undone.what + ": " + strings.Join(undone.nodes, ", ")
		}
	}
	return text
}

// watch shows the progress of a run: on a terminal as a list that it redraws,
// elsewhere as a line for each change, and for programs not at all. It always reports
// what keeps the run from going on, and how people let it go on whom it waits for.
func (p *Program) watch(conn *connection, run string) func(client.Progress) {
	screen := p.shown
	if screen == nil {
		screen = newScreen(p.Stderr)
	}
	screen.quiet = p.json()
	begun := time.Now()
	away := false
	var missed unserved
	asked := map[string]bool{}
	return func(seen client.Progress) {
		switch {
		case seen.State != nil:
			screen.show(*seen.State, time.Since(begun))
			for _, b := range seen.State.Barriers {
				if !asked[b.ID] && !screen.answered {
					screen.note(p.waitsFor(run, b.Outcome))
				}
				asked[b.ID] = true
			}
			i := slices.IndexFunc(seen.State.Waiting, func(w contract.Wait) bool { return w.Kind == contract.WaitStore })
			if i >= 0 && !away {
				screen.note(printable("the run waits for the workers' store, and goes on by itself once it is back: " + seen.State.Waiting[i].Detail))
			}
			away = i >= 0
			if text := missed.note(seen.State.Waiting, time.Now()); text != "" {
				screen.note(printable(text))
			}
		case seen.Stuck != nil:
			screen.note(printable(standstill(seen.Stuck)))
		case seen.Away:
			screen.note("Temporal does not answer at " + conn.address + "; still trying")
		}
	}
}

// waitsFor says that a run waits for people, and the commands by which they answer.
func (p *Program) waitsFor(run string, outcome bool) string {
	show, sign := p.command("approvals", "show", run), p.command("approvals", "sign", run)
	if outcome {
		sign = p.command("approvals", "sign", run, "--outcome", "executed|not_executed", "--reason", "TEXT")
		return fmt.Sprintf("nobody knows what a call did; look at it, find out, and say what it was:\n  %s\n  %s", show, sign)
	}
	return fmt.Sprintf("waits for approval; look at it, and approve it:\n  %s\n  %s", show, sign)
}

// runCommands lists the commands for a run.
func (p *Program) runCommands(run string) string {
	return "its state:  " + p.command("status", run) + "\nend it:     " + p.command("cancel", run)
}
