package adversary

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

// live is the deployment at work, on a copy of its database.
type live struct {
	*Copy
	hosts map[host.Role]*host.Host
	runs  int
}

// live starts the deployment, which ends with the drill.
func (d *Deployment) live(t testing.TB) *live {
	t.Helper()
	if d.at == nil {
		name := d.copyNamed(t, "live")
		d.at = &live{Copy: &Copy{Deployment: d, name: name, dir: t.TempDir()}, hosts: map[host.Role]*host.Host{}}
		for _, role := range host.Roles() {
			d.at.hosts[role] = stage.Host(t, d.at.of(t, role))
		}
	}
	return d.at
}

// of are the options of a host of a role, on the copy.
func (l *live) of(t testing.TB, role host.Role) host.Options {
	t.Helper()
	o := l.Copy.of(t, role)
	o.Store.URL = place(o.Store.URL, l.name)
	return o
}

// with lets f run while a role is one that a thief has configured. Its error is that of the start.
func (l *live) with(t testing.TB, role host.Role, change func(o *host.Options), f func()) error {
	t.Helper()
	o := l.of(t, role)
	o.Servers, o.Manifests, o.Callers = maps.Clone(o.Servers), maps.Clone(o.Manifests), maps.Clone(o.Callers)
	change(&o)
	h, err := host.New(t.Context(), o)
	if err != nil {
		return err
	}
	require.NoError(t, l.hosts[role].Close())
	require.NoError(t, h.Start())
	l.hosts[role] = h
	f()
	require.NoError(t, h.Close())
	l.hosts[role] = stage.Host(t, l.of(t, role))
	return nil
}

// calls runs the plan of a server, whose one call has a line of its own, and returns how it failed.
// A run that asks people what its call did has failed with an unknown outcome.
func (l *live) calls(t testing.TB, server string) (line string, f *contract.Failure) {
	t.Helper()
	l.runs++
	line = fmt.Sprintf("live-%d", l.runs)
	c := l.hosts[host.RoleEngine].Client()
	run := l.Start(t, c, line, l.ofServer[server], `{"line":"`+line+`"}`)
	store, asked := l.hosts[host.RoleEngine].Store().Ledger, false
	stage.Until(t, "the run has ended, or people are asked what its call did", func() bool {
		is, err := c.DescribeWorkflowExecution(t.Context(), line, "")
		require.NoError(t, err)
		open, err := store.ListBarriers(t.Context(), ledger.BarrierOpen, ledger.Page{})
		require.NoError(t, err)
		asked = slices.ContainsFunc(open, func(b ledger.Barrier) bool { return b.Workflow == line })
		return asked || is.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
	if asked {
		require.NoError(t, c.TerminateWorkflow(t.Context(), line, "", "it waits for people"))
		return line, &contract.Failure{Kind: contract.OutcomeUnknown, Message: "people are asked what the call did"}
	}
	err := stage.Await(t, c, run, nil)
	if err == nil {
		return line, nil
	}
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	f = new(contract.Failure)
	require.NoError(t, application.Details(f))
	return line, f
}

// attempt lets a run make a call of a server, and says what became of it: refused, or made.
// after lists the kinds of failures with which the tool that was approved may have been called.
func (l *live) attempt(t testing.TB, server string, after ...contract.Kind) (Outcome, string) {
	t.Helper()
	line, f := l.calls(t, server)
	got := l.tools.got(t, server, line)
	switch {
	case f == nil:
		return Unseen, "the run has gone on"
	case got > 1 || got == 1 && !slices.Contains(after, f.Kind):
		return Unseen, fmt.Sprintf("the run has failed with %s (%s), and the server got %d calls", f.Kind, f.Message, got)
	}
	return Refused, string(f.Kind) + ": " + f.Message
}

// goesOn reports an error unless a run calls a server once, and ends well.
func (l *live) goesOn(t testing.TB, server string) error {
	t.Helper()
	line, f := l.calls(t, server)
	if f != nil {
		return errors.New(string(f.Kind) + ": " + f.Message)
	}
	if n := l.tools.got(t, server, line); n != 1 {
		return fmt.Errorf("the server %s got %d calls", server, n)
	}
	return nil
}
