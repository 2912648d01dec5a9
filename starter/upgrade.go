package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	flag "github.com/spf13/pflag"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/client"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
)

// moved is one run in the JSON answer of upgrade.
type moved struct {
	Run string `json:"run"`
	// From is the build to which the run was pinned, or "".
	From string `json:"from,omitempty"`
	// Fits reports whether the history replays under this build, and Moved whether the
	// run is now pinned to it.
	Fits  bool `json:"fits"`
	Moved bool `json:"moved"`
	// Reason says why the run stays where it is.
	Reason string `json:"reason,omitempty"`
	// Unchecked reports that it is not known whether the history replays, and Ended that
	// the run has ended and cannot be moved.
	Unchecked bool `json:"unchecked,omitempty"`
	Ended     bool `json:"ended,omitempty"`

	// there reports that the run was already pinned to this build.
	there bool
}

func upgradeCommand(p *Program, fs *flag.FlagSet) action {
	all := fs.Bool("all", false, "every open run that is not pinned to this build, and every call in a workflow of its own")
	check := fs.Bool("check", false, "only say whether the histories replay under this build")
	return func(ctx context.Context, operands []string) error {
		if *all == (len(operands) > 0) {
			return misuse("name the runs to move, or say --all")
		}
		settings, err := p.settings()
		if err != nil {
			return err
		}
		to := host.Deployment{Name: settings.Worker.Deployment, Build: settings.Worker.Build}
		if to.Build == "" {
			if v := thisBuild().Version; v != develBuild {
				to.Build = v
			}
		}
		if to.Name == "" {
			return misuse("runs are pinned to builds only if worker.deployment names a worker deployment").withHint("docs/operate.md, Upgrade, explains worker deployments.")
		}
		if err := to.Check(); err != nil {
			return misuse("%s", err)
		}
		conn, err := p.connect(ctx)
		if err != nil {
			return err
		}
		if err := p.polled(ctx, conn, to, *check); err != nil {
			return err
		}
		if *all {
			if operands, err = openRuns(ctx, conn, to); err != nil {
				return err
			}
		}
		blobs := &values{at: conn.place, turn: make(chan struct{}, 1)}
		p.later(blobs.close)
		replayer := host.NewReplayer(blobs, host.ClientSealing(settings))
		runs := []moved{}
		for _, id := range operands {
			one, err := upgrade(ctx, conn, replayer, id, to, *all, *check)
			if err != nil {
				return err
			}
			if !one.there {
				runs = append(runs, one)
			}
		}
		return p.upgraded(to, runs, *all, *check)
	}
}

// buildOf converts a build of workers to one that runs are pinned to.
func buildOf(d host.Deployment) client.Build { return client.Build{Deployment: d.Name, ID: d.Build} }

// polled refuses a build that has never had a worker, and warns of one without workers
// now, for which a moved run would wait. With check, it only warns.
func (p *Program) polled(ctx context.Context, conn *connection, to host.Deployment, check bool) error {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := conn.WorkerDeploymentClient().GetHandle(to.Name).DescribeVersion(bounded, sdk.WorkerDeploymentDescribeVersionOptions{BuildID: to.Build})
	var absent *serviceerror.NotFound
	switch {
	case errors.As(err, &absent) && !check:
		return negative("no worker of the build %s has polled in this namespace", to).withHint("Start one first; its build is worker.build, or else its version.")
	case err != nil && !errors.As(err, &absent):
		return conn.refused("the build "+to.String(), err)
	}
	builds, err := conn.runs.Builds(bounded)
	if err != nil {
		return conn.failed(err)
	}
	if !slices.Contains(builds, buildOf(to)) {
		p.say("there is no worker of the build %s: a run that is moved to it waits for one", to)
	}
	return nil
}

// openRuns lists the open runs of other builds, and the workflows that make their long
// calls: a run waits for such a workflow even if its build no longer has workers.
func openRuns(ctx context.Context, conn *connection, to host.Deployment) ([]string, error) {
	var ids []string
	var page []byte
	for {
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		answer, err := conn.ListWorkflow(bounded, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: conn.namespace, PageSize: 1000, NextPageToken: page,
			Query: fmt.Sprintf(`WorkflowType IN ('%s', '%s') AND ExecutionStatus = 'Running'`, contract.WorkflowType, contract.WorkflowCall),
		})
		cancel()
		if err != nil {
			return nil, conn.refused("listing runs", err)
		}
		for _, info := range answer.GetExecutions() {
			if client.BuildOf(info) != buildOf(to) {
				ids = append(ids, info.GetExecution().GetWorkflowId())
			}
		}
		if page = answer.GetNextPageToken(); len(page) == 0 {
			return ids, nil
		}
	}
}

// upgrade checks one run, and moves it. An error ends the command.
func upgrade(ctx context.Context, conn *connection, replayer *host.Replayer, id string, to host.Deployment, all, check bool) (moved, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	one := moved{Run: id}
	described, err := conn.DescribeWorkflowExecution(bounded, id, "")
	if all && errors.As(err, new(*serviceerror.NotFound)) {
		one.Ended, one.Reason = true, host.ErrEnded.Error()
		return one, nil
	}
	if err != nil {
		return one, conn.refused("run "+id, err)
	}
	info := described.GetWorkflowExecutionInfo()
	if name := info.GetType().GetName(); name != contract.WorkflowType && name != contract.WorkflowCall {
		return one, negative("%s is a workflow of type %s, not a run of a plan", id, name)
	}
	from := client.BuildOf(info)
	if from != (client.Build{}) {
		one.From = from.String()
	}
	if all && from == buildOf(to) { // the list shows a move only once the run goes on
		one.there = true
		return one, nil
	}
	if check {
		_, err = replayer.Check(ctx, conn, conn.namespace, id)
	} else {
		err = replayer.Move(ctx, conn, conn.namespace, id, to)
	}
	var unfit *host.ReplayError
	var unknown *host.UncheckedError
	switch {
	case err == nil:
		one.Fits, one.Moved = true, !check
	case errors.As(err, &unfit), errors.As(err, &unknown), errors.Is(err, host.ErrEnded):
		one.Reason, one.Unchecked, one.Ended = err.Error(), unknown != nil, errors.Is(err, host.ErrEnded)
	default:
		return one, conn.refused("moving "+id, err)
	}
	return one, nil
}

// upgraded shows what became of the runs. A run that has ended is a failure only if it
// was named.
func (p *Program) upgraded(to host.Deployment, runs []moved, all, check bool) error {
	fit, refused, unknown := 0, 0, 0
	for _, r := range runs {
		switch {
		case r.Fits:
			fit++
		case r.Unchecked:
			unknown++
		case !r.Ended || !all:
			refused++
		}
	}
	if p.json() {
		if err := p.document(struct {
			Build string  `json:"build"`
			Runs  []moved `json:"runs"`
		}{to.String(), runs}); err != nil {
			return err
		}
	} else {
		table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		for _, r := range runs {
			word := "moved"
			switch {
			case r.Ended && all:
				word = "ended"
			case !r.Fits:
				word = "stays"
			case check:
				word = "fits"
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", printable(r.Run), word, printable(r.From), printable(r.Reason))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		p.say("%d of %d runs %s %s", fit, fit+refused+unknown, map[bool]string{true: "fit", false: "are now of"}[check], to)
	}
	switch {
	case unknown > 0:
		return &failure{code: exitUnanswered}
	case refused > 0:
		return &failure{code: exitNegative}
	}
	return nil
}
