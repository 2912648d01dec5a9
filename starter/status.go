package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"

	"chimera.ai/engine/contract"
)

// States of a run that only Temporal knows of, beside those of package contract.
const (
	stateTerminated = "terminated"
	stateTimedOut   = "timed_out"
)

// report is the JSON answer of status.
type report struct {
	Run   string `json:"run"`
	RunID string `json:"run_id"`
	State string `json:"state"`
	// StartTime is when the run's first execution started, and Executions counts
	// them, where the run says so.
	StartTime  time.Time  `json:"start_time"`
	Executions int        `json:"executions,omitempty"`
	CloseTime  *time.Time `json:"close_time,omitempty"`
	UI         string     `json:"ui,omitempty"`
	// StartsAt is when the run begins, where it was started with a delay.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	// Stuck is why the run does not go on, where that is known.
	Stuck *stuck `json:"stuck,omitempty"`
	// Held are the activities that the run waits for and that somebody has paused, or
	// changed the options of.
	Held []held `json:"held,omitempty"`
	// Build is the build that the run is pinned to.
	Build *pinned `json:"build,omitempty"`
	// Detail is the answer of the run itself; null where no worker answers for it.
	Detail  *contract.State   `json:"detail"`
	Output  json.RawMessage   `json:"output,omitempty"`
	Failure *contract.Failure `json:"failure,omitempty"`

	// unread is why it is not known what the run came to.
	unread error
}

func statusCommand(p *Program, fs *flag.FlagSet) action {
	node := fs.String("values", "", "show what `NODE` got and gave, from the history and the store; it takes the payload keys where values are sealed")
	return func(ctx context.Context, operands []string) error {
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		if *node != "" {
			return p.values(ctx, conn, operands[0], *node)
		}
		r, err := p.inspect(ctx, conn, operands[0])
		if err != nil {
			return err
		}
		if p.json() {
			err = p.document(r)
		} else {
			p.show(r)
		}
		switch {
		case err == nil && r.unread != nil:
			return r.unread
		case err == nil && r.Failure != nil:
			return &failure{code: exitNegative}
		}
		return err
	}
}

// inspect asks the server and the run.
func (p *Program) inspect(ctx context.Context, conn *connection, id string) (*report, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	described, err := conn.describe(bounded, id)
	if err != nil {
		return nil, err
	}
	info := described.GetWorkflowExecutionInfo()
	if name := info.GetType().GetName(); name != contract.WorkflowType {
		return nil, negative("%s is a workflow of type %s, not a run of a plan", id, name)
	}
	r := &report{
		Run: id, RunID: info.GetExecution().GetRunId(), State: stateOf(info),
		UI: conn.page(id, info.GetExecution().GetRunId()),
	}
	if r.StartTime, err = begun(bounded, conn, info); err != nil {
		return nil, conn.refused("run "+id, err)
	}
	if t := info.GetCloseTime(); t != nil {
		closed := t.AsTime()
		r.CloseTime = &closed
		e, err := wait(bounded, conn, conn.GetWorkflow(bounded, id, r.RunID))
		if err != nil { // such as of a large value while the store is away
			r.unread = err
		}
		r.Output, r.Failure = e.Output, e.Failure
	}
	r.Build = conn.pinned(bounded, info)
	if state, err := query(ctx, conn, id); err == nil {
		r.Detail = &state
		if r.CloseTime == nil {
			r.State = string(state.State)
		} else {
			cutOff(r.Detail)
		}
		r.Executions = state.Executions
		// The first execution may be retained no more.
		if t, ok := moment(state.StartedAt); ok && t.Before(r.StartTime) {
			r.StartTime = t
		}
	} else if ctx.Err() != nil {
		return nil, unanswered("interrupted")
	}
	if at := startsAt(described); r.Detail == nil && r.CloseTime == nil && !at.IsZero() {
		r.StartsAt = &at
	}
	// Queries are refused while a workflow task fails.
	if r.Stuck, err = p.examine(ctx, conn, described, r.Detail != nil); err != nil {
		p.say("why the run does not answer is not known: %s", err)
	}
	if r.Stuck == nil && r.Detail != nil {
		r.Stuck = p.unwoken(described, r.Detail)
	}
	if r.Held, err = heldIn(bounded, conn, described, r.Detail); err != nil {
		p.say("whether what the run waits for was paused is not known: %s", err)
	}
	return r, nil
}

// cutOff tells what became of the nodes of a run that has ended: nobody waits for what
// was under way. The run itself, asked later, knows of no end but its own: not of one that
// Temporal made, or somebody who answered for a worker.
func cutOff(s *contract.State) {
	s.Waiting = nil
	s.Counts.Dropped += s.Counts.Running + s.Counts.Pending
	s.Counts.Running, s.Counts.Pending = 0, 0
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.State == contract.Running || n.State == contract.Pending {
			n.State = contract.Dropped
		}
	}
}

// stateOf is a run's state as Temporal has it.
func stateOf(info *workflow.WorkflowExecutionInfo) string {
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return string(contract.RunSucceeded)
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED:
		return string(contract.RunFailed)
	case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return string(contract.RunCancelled)
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return stateTerminated
	case enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return stateTimedOut
	default: // running, paused, continued as new: the run goes on
		return string(contract.RunRunning)
	}
}

// show writes a report for people.
func (p *Program) show(r *report) {
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
	row("state", r.State)
	row("started", r.StartTime.Local().Format(time.DateTime))
	if r.StartsAt != nil {
		row("begins", r.StartsAt.Local().Format(time.DateTime))
	}
	if r.CloseTime != nil {
		row("ended", r.CloseTime.Local().Format(time.DateTime)+"  after "+r.CloseTime.Sub(r.StartTime).Round(time.Millisecond).String())
	}
	if r.Stuck != nil {
		row("stuck", r.Stuck.describe())
	}
	for i := range r.Held {
		row("held", r.Held[i].describe())
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
		p.say("no worker of the build %s is there: the run waits for one, or is moved to another build (%s)", r.Build, p.command("upgrade", r.Run))
	case r.Detail == nil && r.Stuck != nil:
		p.say("it answers no questions meanwhile, so its nodes are not known")
	case r.StartsAt != nil:
		p.say("it was started with a delay, and has not begun")
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

// timing says how often a node was called, and when.
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

// awaited is a line about what a run waits for.
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

// moment reads a time of a [contract.State].
func moment(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}
