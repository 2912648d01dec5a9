package sagas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
)

// patience is how long a run may take.
const patience = 10 * time.Minute

// Run runs plans side by side on one deployment, and holds each against the model. If
// deadly, their worker is killed, by them or otherwise.
func Run(t *testing.T, plans []*Plan, deadly bool) {
	r := rand.New(rand.NewPCG(plans[0].Seed, 0x42415443))
	continueAfter := 0
	if r.IntN(2) == 0 {
		continueAfter = 10 + r.IntN(40)
	}
	d := deploy(t, continueAfter)
	var all sync.WaitGroup
	var mu sync.Mutex
	var calls, undone int
	began := time.Now()
	for _, p := range plans {
		run := d.start(t, p)
		all.Go(func() {
			seen, err := d.watch(t.Context(), p, run, deadly)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("seed %d: %v", p.Seed, err)
				return
			}
			calls += strings.Count(seen.Journal, "begin")
			undone += len(seen.Compensated)
			if findings := Judge(p, seen); len(findings) > 0 {
				tell(t, p, seen, findings)
			}
		})
	}
	quiet := make(chan struct{})
	if deadly {
		// The worker is killed as well when no tool does that.
		go func() {
			defer close(quiet)
			select {
			case <-time.After(time.Second + time.Duration(r.IntN(10_000))*time.Millisecond):
				d.kill()
			case <-t.Context().Done():
			}
		}()
	} else {
		close(quiet)
	}
	all.Wait()
	<-quiet
	if !deadly && d.died() > 0 {
		t.Errorf("the worker has ended by itself; it said:\n%s", d.said())
	}
	t.Logf("%d plans: %d calls, %d effects undone, %d workers killed, continued after %d events, %s",
		len(plans), calls, undone, d.died(), continueAfter, time.Since(began).Round(time.Second))
}

// start publishes a plan and starts a run of it.
func (d *deployment) start(t *testing.T, p *Plan) client.WorkflowRun {
	t.Helper()
	operations, bundle, err := rules()
	require.NoError(t, err)
	source, err := p.Source()
	require.NoError(t, err)
	digest := d.Publish(t, d.opened.Ledger, source, operations, bundle)
	return d.Start(t, d.c, fmt.Sprintf("%s-%d", p.Run(), time.Now().UnixNano()), digest, fmt.Sprintf(`{"run":%q}`, p.Run()))
}

func (d *deployment) journal(p *Plan) (string, error) {
	raw, err := os.ReadFile(filepath.Join(d.dir, p.Run()))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(raw), err
}

// watch cancels a run when it is time, waits for its end, and says what was seen of it.
func (d *deployment) watch(ctx context.Context, p *Plan, run client.WorkflowRun, deadly bool) (*Seen, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	s := &Seen{Killed: deadly, Compensated: []string{}, NotCompensated: []string{}}
	first := run.GetRunID() // Get moves on to later executions
	ended := make(chan error, 1)
	go func() { ended <- run.Get(ctx, nil) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var failure error
	times := []int{p.CancelAt, p.CancelAgain}
	for waiting := true; waiting; {
		select {
		case failure = <-ended:
			waiting = false
		case <-tick.C:
			if times[0] < 0 && times[1] < 0 {
				tick.Stop()
				continue
			}
			text, err := d.journal(p)
			if err != nil {
				return nil, err
			}
			for i, at := range times {
				if at >= 0 && strings.Count(text, "\n") >= at {
					times[i], s.Cancelled = -1, true
					_ = d.c.CancelWorkflow(ctx, run.GetID(), "") // it may have ended
				}
			}
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the run did not end: %w", failure)
	}
	var err error
	if s.Journal, err = d.journal(p); err != nil {
		return nil, err
	}
	if err := s.end(failure); err != nil {
		return nil, err
	}
	s.Armed, err = d.armed(ctx, p, run.GetID(), first)
	return s, err
}

// end notes how a run has ended.
func (s *Seen) end(err error) error {
	var application *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var f contract.Failure
	switch {
	case err == nil:
		s.State = "succeeded"
		return nil
	case errors.As(err, &cancelled):
		s.State = "cancelled"
		if err := cancelled.Details(&f); err != nil {
			return err
		}
	case errors.As(err, &application):
		s.State = "failed"
		if err := application.Details(&f); err != nil {
			return err
		}
	default:
		return err
	}
	s.Kind, s.Node, s.Compensated, s.NotCompensated = string(f.Kind), f.Node, f.Compensated, f.NotCompensated
	return nil
}

// armed lists the effects in the order in which the guardian was asked about them first, by
// the histories of the run's executions.
func (d *deployment) armed(ctx context.Context, p *Plan, workflow, run string) (out []string, err error) {
	const asked = "engine/guardian/"
	seen := map[string]bool{}
	for run != "" {
		it := d.c.GetWorkflowHistory(ctx, workflow, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		run = ""
		for it.HasNext() {
			event, err := it.Next()
			if err != nil {
				return nil, err
			}
			node, ok := strings.CutPrefix(event.GetActivityTaskScheduledEventAttributes().GetActivityId(), asked)
			if ok && p.node(node) != nil && !seen[node] {
				seen[node] = true
				out = append(out, node)
			}
			run = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		}
	}
	return out, nil
}

// tell reports what is wrong with a run, and how to see it again.
func tell(t *testing.T, p *Plan, s *Seen, findings []string) {
	t.Helper()
	source, err := p.Source()
	require.NoError(t, err)
	file := filepath.Join(os.TempDir(), fmt.Sprintf("saga-%d.json", p.Seed))
	plan, err := json.MarshalIndent(p, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	t.Errorf("seed %d: %s\nended as %s %s %s, compensated %v, not %v, armed %v, cancelled %t, killed %t\n%s\nits source is in %s; the model has %s\nagain: go test ./internal/sagas -count=1 -v -run RandomSagas -plans 1 -seed %d",
		p.Seed, strings.Join(findings, "\n"), s.State, s.Kind, s.Node, s.Compensated, s.NotCompensated, s.Armed, s.Cancelled, s.Killed, s.Journal, file, plan, p.Seed)
}

// said is the end of what the worker has said.
func (d *deployment) said() string {
	raw, err := os.ReadFile(d.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-8000):])
}
