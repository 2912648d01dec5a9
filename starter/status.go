package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
)

func statusCommand(p *Program, fs *flag.FlagSet) action {
	node := fs.String("values", "", "show the inputs and outputs of `NODE`, from the history and the store; sealed values need the payload keys")
	return func(ctx context.Context, operands []string) error {
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		if *node != "" {
			return p.values(ctx, conn, operands[0], *node)
		}
		r, err := conn.runs.Status(ctx, operands[0])
		switch {
		case err != nil && ctx.Err() != nil:
			return unanswered("interrupted")
		case err != nil:
			return conn.failed(err)
		}
		r.UI = conn.page(r.Run, r.RunID)
		if r.StuckUnknown != nil {
			p.say("it is not known why the run does not answer: %s", conn.failed(r.StuckUnknown))
		}
		if r.HeldUnknown != nil {
			p.say("it is not known whether an activity of the run is paused: %s", conn.failed(r.HeldUnknown))
		}
		if p.json() {
			err = p.document(r)
		} else {
			p.show(r)
		}
		if waitsForPeople(r) && p.forgotten(ctx, conn.place, r.Run) {
			p.say("%s: %s", p.erasedSubject(r.Run).message, p.command("cancel", r.Run))
		}
		switch {
		case err == nil && r.Unread != nil:
			return conn.failed(r.Unread)
		case err == nil && r.Failure != nil:
			return &failure{code: exitNegative}
		}
		return err
	}
}

// waitsForPeople reports whether a run says that it waits for somebody's approval.
func waitsForPeople(r *client.Status) bool {
	return r.Detail != nil && slices.ContainsFunc(r.Detail.Waiting, func(w contract.Wait) bool { return w.Kind == contract.WaitApproval })
}

// forgotten reports whether the subject of a run was erased, as far as a store is here that says so.
func (p *Program) forgotten(ctx context.Context, at *place, run string) bool {
	if at == nil || at.existing() != nil {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	store, err := at.ledger(bounded, p)
	if err != nil {
		return false
	}
	erased, err := subjectErased(bounded, store, run)
	return err == nil && erased
}

// show writes the status of a run for people.
func (p *Program) show(r *client.Status) {
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			_, _ = table.Write([]byte(name + "\t" + printable(value) + "\n"))
		}
	}
	row("run", r.Run)
	if r.Detail != nil && r.Detail.Plan != "" {
		row("plan", r.Detail.Plan+"  "+r.Detail.Digest)
	}
	row("state", string(r.State))
	row("started", r.StartTime.Local().Format(time.DateTime))
	if r.StartsAt != nil {
		row("begins", r.StartsAt.Local().Format(time.DateTime))
	}
	if r.CloseTime != nil {
		row("ended", r.CloseTime.Local().Format(time.DateTime)+"  after "+r.CloseTime.Sub(r.StartTime).Round(time.Millisecond).String())
	}
	if r.Stuck != nil {
		row("stuck", stuckAt(r.Stuck))
	}
	for i := range r.Held {
		row("held", heldAt(&r.Held[i]))
	}
	if r.Executions > 1 {
		row("executions", strconv.Itoa(r.Executions))
	}
	if r.Build != nil {
		row("build", r.Build.String())
	}
	row("page", r.UI)
	_ = table.Flush()
	if r.Stuck != nil {
		p.printf("\n%s\n", printable(r.Stuck.Hint))
	}
	if len(r.Held) > 0 {
		p.printf("\n")
	}
	for i := range r.Held {
		p.printf("%s\n", printable(r.Held[i].Hint))
	}
	switch {
	case r.Detail == nil && r.Build != nil && r.Build.Alone:
		p.say("the run waits for a worker of the build %s, and there is none; otherwise: %s", r.Build, printable(r.Build.Hint))
	case r.Detail == nil && r.Stuck != nil:
		p.say("meanwhile it answers no queries, so its nodes are not known")
	case r.StartsAt != nil:
		p.say("it has not begun: its start is delayed until then")
	case r.Detail == nil:
		p.say("no worker answers for this run, so its nodes are not known")
	case len(r.Detail.Nodes) > 0:
		p.printf("\n")
		for _, n := range r.Detail.Nodes {
			p.printf("%s\n", describe(n)+timing(n))
		}
		if r.Detail.Truncated {
			p.printf("  … and %d more\n", total(r.Detail.Counts)-len(r.Detail.Nodes))
		}
	}
	if r.Detail != nil && len(r.Detail.Waiting) > 0 {
		p.printf("\nwaits for\n")
		for _, w := range r.Detail.Waiting {
			p.printf("%s\n", awaited(w))
		}
	}
	if r.Failure != nil {
		p.printf("\nfailure%s\n", printable(because(r.Failure)))
	}
	if len(r.Output) > 0 {
		p.printf("\n")
		p.output(r.Output)
	}
}

// stuckAt describes in one line why a run does not go on.
func stuckAt(s *client.Stuck) string {
	text := s.Cause
	if !s.Since.IsZero() {
		text = "since " + s.Since.Local().Format(time.DateTime) + ": " + text
	}
	if s.Attempt > 1 {
		text += fmt.Sprintf("  (the first attempt of its workflow task; this is attempt %d, and only the first is recorded)", s.Attempt)
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// heldAt describes in one line what holds an activity.
func heldAt(h *client.Held) string {
	text := cmp.Or(h.Activity, h.Workflow) + " " + h.Cause
	if !h.Since.IsZero() {
		text += ", since " + h.Since.Local().Format(time.DateTime)
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// timing describes how often a node was called, and when.
func timing(n contract.NodeStatus) string {
	text := ""
	if n.Attempts > 1 {
		text += "  " + plural(n.Attempts, "attempt")
	}
	from, begun := moment(n.StartedAt)
	to, ended := moment(n.EndedAt)
	switch {
	case begun && ended:
		text += "  " + from.Local().Format(time.DateTime) + " for " + to.Sub(from).String()
	case begun:
		text += "  since " + from.Local().Format(time.DateTime)
	}
	return text
}

// awaited describes in one line what a run waits for.
func awaited(w contract.Wait) string {
	text := fmt.Sprintf("  %-9s %s", w.Kind, w.Node)
	if t, ok := moment(w.Since); ok {
		text += "  since " + t.Local().Format(time.DateTime)
	}
	if t, ok := moment(w.Until); ok {
		text += "  until " + t.Local().Format(time.DateTime)
	}
	switch {
	case w.Detail == "":
	case w.Kind == contract.WaitCall:
		text += "  on the queue " + w.Detail
	default:
		text += "  " + w.Detail
	}
	return strings.TrimRight(printable(strings.ReplaceAll(text, "\n", " ")), " ")
}

// moment parses a time of a [contract.State].
func moment(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}
