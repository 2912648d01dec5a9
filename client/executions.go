package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"chimera.ai/engine/contract"
)

const (
	// maxNames bounds the workflow ids in one query, and maxPages the pages of executions
	// that are read to see which of them were continued.
	maxNames = 100
	maxPages = 10
	// lookUps bounds how many continued runs are looked up at the same time.
	lookUps = 8
)

// begun returns when a run began, given the description of its last execution: a long
// run continues as new, and each execution has its own start. If the first execution is
// no longer retained, it returns the start of the last.
func (c *Client) begun(ctx context.Context, info *workflow.WorkflowExecutionInfo) (time.Time, error) {
	start, first := info.GetStartTime().AsTime(), info.GetFirstRunId()
	if first == "" || first == info.GetExecution().GetRunId() {
		return start, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := c.temporal.DescribeWorkflowExecution(ctx, info.GetExecution().GetWorkflowId(), first)
	if isGone(err) {
		return start, nil
	}
	if err != nil {
		return start, fmt.Errorf("look for the first execution: %w", err)
	}
	return d.GetWorkflowExecutionInfo().GetStartTime().AsTime(), nil
}

// fromTheStart sets the start of listed runs to that of their first execution. A list
// does not say which runs were continued, so it makes one more query for that, and
// describes only those.
func (c *Client) fromTheStart(ctx context.Context, runs []Listed) error {
	var names []string
	for _, r := range runs {
		names = append(names, r.Run)
	}
	continued := map[string]bool{}
	for len(names) > 0 {
		n := min(len(names), maxNames)
		if err := c.findContinued(ctx, names[:n], continued); err != nil {
			return err
		}
		names = names[n:]
	}
	var all sync.WaitGroup
	errs := make([]error, len(runs))
	turns := make(chan struct{}, lookUps)
	for i := range runs {
		if r := &runs[i]; continued[r.Run] {
			turns <- struct{}{}
			all.Go(func() {
				defer func() { <-turns }()
				r.StartTime, errs[i] = c.firstStart(ctx, *r)
			})
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// firstStart returns when a listed run began.
func (c *Client) firstStart(ctx context.Context, r Listed) (time.Time, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := c.temporal.DescribeWorkflowExecution(bounded, r.Run, r.RunID)
	switch {
	case isGone(err): // meanwhile
		return r.StartTime, nil
	case err != nil:
		return r.StartTime, fmt.Errorf("look for the first execution: %w", err)
	}
	return c.begun(ctx, d.GetWorkflowExecutionInfo())
}

// findContinued finds which workflow ids have executions that were continued.
func (c *Client) findContinued(ctx context.Context, ids []string, continued map[string]bool) error {
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = "'" + strings.ReplaceAll(id, "'", "''") + "'"
	}
	var page []byte
	for range maxPages {
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		answer, err := c.temporal.ListWorkflow(bounded, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: c.options.Namespace, PageSize: 1000, NextPageToken: page,
			Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'ContinuedAsNew' AND WorkflowId IN (%s)",
				contract.WorkflowType, strings.Join(quoted, ", ")),
		})
		cancel()
		if err != nil {
			return err
		}
		for _, info := range answer.GetExecutions() {
			continued[info.GetExecution().GetWorkflowId()] = true
		}
		if page = answer.GetNextPageToken(); len(page) == 0 {
			return nil
		}
	}
	for _, id := range ids { // too many to tell
		continued[id] = true
	}
	return nil
}
