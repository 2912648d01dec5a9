package siege

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/store"
)

// verdict gathers what ledger, Temporal and client say of a run that has ended, and
// holds it against the model.
func (r *siegedRun) verdict(t *testing.T, c client.Client, s *store.Opened, o *times) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, first := range r.firsts {
		if err := r.histories.read(ctx, c, r.id, first); err != nil {
			r.find("its history cannot be read: %v", err)
		}
	}
	r.findings = append(r.findings, r.histories.judge(o, r.flooded)...)
	if r.pending != "" {
		return // it has not ended
	}
	seen := &Seen{
		Cancelled: r.cancelled, Late: r.model.Plan.DeadlineMS > 0 && r.model.Plan.DeadlineMS <= Late,
		Reset:    len(r.firsts) > 1,
		Restless: o.had("kill") || o.had("store") || len(r.firsts) > 1,
	}
	var err error
	if seen.Temporal, err = temporalEnd(ctx, c, r.id); err != nil {
		r.find("Temporal does not say how it ended: %v", err)
	}
	if seen.Client, err = r.clientEnd(ctx, c); err != nil {
		r.find("the client does not get its end: %v", err)
	}
	if seen.Ledger, seen.Outcomes, err = ledgerEnd(ctx, s, r.id); err != nil {
		r.find("the ledger does not say how it ended: %v", err)
	}
	if seen.Query, seen.Counts, err = queryEnd(ctx, c, r.id); err != nil {
		r.find("it does not answer the query: %v", err)
	}
	r.end = seen.Client
	r.findings = append(r.findings, r.model.Judge(seen)...)
}

func temporalEnd(ctx context.Context, c client.Client, id string) (End, error) {
	about, err := c.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return End{}, err
	}
	status := about.GetWorkflowExecutionInfo().GetStatus()
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return End{State: "succeeded"}, nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		return End{State: "failed"}, nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return End{State: "cancelled"}, nil
	default:
		return End{State: status.String()}, nil
	}
}

// clientEnd is what a client gets that waits for the run.
func (r *siegedRun) clientEnd(ctx context.Context, c client.Client) (End, error) {
	var raw json.RawMessage
	err := c.GetWorkflow(ctx, r.id, "").Get(ctx, &raw)
	var failure contract.Failure
	var application *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case err == nil:
		if r.model.Digest != "" && len(raw) < 4096 && bytes.Contains(raw, []byte(r.model.Digest)) {
			return End{State: "succeeded", Digest: r.model.Digest}, nil // a large output, by reference
		}
		v, err := schemas.Decode(raw)
		if err != nil {
			return End{}, err
		}
		d, err := digest(v)
		return End{State: "succeeded", Digest: d}, err
	case errors.As(err, &cancelled):
		return End{State: "cancelled", Kind: string(contract.Cancelled)}, nil
	case errors.As(err, &application):
		err := application.Details(&failure)
		return End{State: "failed", Kind: application.Type(), Node: failure.Node, Message: failure.Message}, err
	}
	return End{}, err
}

func ledgerEnd(ctx context.Context, s *store.Opened, id string) (End, []Outcome, error) {
	run, err := s.Ledger.Run(ctx, id, "")
	if errors.Is(err, ledger.ErrNotFound) {
		return End{}, nil, nil
	}
	if err != nil {
		return End{}, nil, err
	}
	end := End{State: string(run.State), Digest: run.OutputDigest}
	if len(run.Failure) > 0 {
		var f contract.Failure
		if err := json.Unmarshal(run.Failure, &f); err != nil {
			return end, nil, err
		}
		end.Kind, end.Node = string(f.Kind), f.Node
	}
	all, err := outcomes(ctx, s, id, run.Root)
	if err != nil || run.Origin == run.Root {
		return end, all, err
	}
	// A run that was reset goes on with the one before.
	before, err := outcomes(ctx, s, id, run.Origin)
	for _, o := range before {
		if !slices.ContainsFunc(all, func(own Outcome) bool { return own.Node == o.Node }) {
			all = append(all, o)
		}
	}
	return end, all, err
}

// outcomes are those that the ledger has under one root.
func outcomes(ctx context.Context, s *store.Opened, id, root string) ([]Outcome, error) {
	var all []Outcome
	for {
		page, err := s.Ledger.Outcomes(ctx, id, root, ledger.Page{Limit: 10_000, Offset: len(all)})
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			outcome := Outcome{Node: o.Node, In: o.InputDigest, Out: o.OutputDigest, Attempts: o.Attempts}
			switch o.Kind {
			case ledger.NodeSucceeded:
				outcome.Fate = Succeeds
			case ledger.NodeSkipped:
				outcome.Fate = Skipped
			case ledger.NodeFailed:
				outcome.Fate = Fails
			default:
				outcome.Fate = Fate(o.Kind)
			}
			if len(o.Error) > 0 {
				var e contract.ErrorPayload
				if err := json.Unmarshal(o.Error, &e); err != nil {
					return nil, err
				}
				outcome.Kind, outcome.Message = string(e.Kind), e.Message
			}
			all = append(all, outcome)
		}
		if len(page) < 10_000 {
			return all, nil
		}
	}
}

func queryEnd(ctx context.Context, c client.Client, id string) (End, map[string]int, error) {
	value, err := c.QueryWorkflow(ctx, id, "", contract.QueryState)
	for range 4 { // a worker may just have come back, and has all to replay
		if err != nil {
			value, err = c.QueryWorkflow(ctx, id, "", contract.QueryState)
		}
	}
	if err != nil {
		return End{}, nil, err
	}
	var state contract.State
	if err := value.Get(&state); err != nil {
		return End{}, nil, err
	}
	end := End{State: string(state.State)}
	if state.Failure != nil {
		end.Kind, end.Node = string(state.Failure.Kind), state.Failure.Node
	}
	if state.Digest == "" {
		return end, nil, nil // its plan was not loaded
	}
	k := state.Counts
	return end, map[string]int{
		"pending": k.Pending, "running": k.Running, "succeeded": k.Succeeded, "failed": k.Failed, "skipped": k.Skipped, "dropped": k.Dropped,
	}, nil
}

// Report counts what a siege has seen.
type Report struct {
	runs, wrong, nodes, executions int
	events, longest                int64
	attempts                       int32
	slowest                        time.Duration
	ends, faults, befell, failed   map[string]int
	seeds                          []uint64
}

func (p *Report) add(r *siegedRun, o *times) {
	if p.ends == nil {
		p.ends, p.faults, p.befell, p.failed = map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	}
	p.runs++
	if len(r.findings) > 0 {
		p.wrong++
		p.seeds = append(p.seeds, r.seed)
	}
	p.nodes += len(r.model.Plan.Nodes)
	p.executions += r.histories.executions
	p.events += r.histories.events
	p.longest = max(p.longest, r.histories.longest)
	p.attempts = max(p.attempts, r.attempts)
	p.slowest = max(p.slowest, r.took)
	p.ends[strings.TrimSpace(r.end.State+" "+r.end.Kind)]++
	for _, f := range r.faults {
		p.faults[string(f)]++
	}
	for _, what := range strings.Split(o.String(), ", ") {
		p.befell[what]++
	}
	for cause, n := range r.histories.failed {
		p.failed[cause] += n
	}
}

// String says what was seen.
func (p *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs of %d nodes in %d executions with %d events; the longest history has %d; the most attempts of a workflow task are %d, the slowest run took %s\n",
		p.runs, p.nodes, p.executions, p.events, p.longest, p.attempts, p.slowest.Round(time.Millisecond))
	for _, m := range []struct {
		name string
		of   map[string]int
	}{{"ends", p.ends}, {"clients", p.faults}, {"befell", p.befell}, {"workflow tasks failed by", p.failed}} {
		fmt.Fprintf(&b, "%s:", m.name)
		for _, k := range slices.Sorted(maps.Keys(m.of)) {
			fmt.Fprintf(&b, " %s %d;", k, m.of[k])
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d runs went wrong: seeds %v", p.wrong, p.seeds)
	return b.String()
}
