package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/workflows"
)

// Replayer replays histories of runs, and of the workflows that make their long calls,
// under the workflow code of this build. It calls no activity and changes nothing.
type Replayer struct {
	interpreter any
	blobs       blob.Store
	sealing     payload.Sealing
}

// NewReplayer returns a replayer that reads large values from blobs and unseals sealed
// ones.
func NewReplayer(blobs blob.Store, sealing payload.Sealing) *Replayer {
	return NewReplayerOf(workflows.Plan, blobs, sealing)
}

// NewReplayerOf is like [NewReplayer], for another workflow function.
func NewReplayerOf(interpreter any, blobs blob.Store, sealing payload.Sealing) *Replayer {
	return &Replayer{interpreter, blobs, sealing}
}

// Replay reports why the history of one execution of a run does not replay, or returns
// nil. Namespace and workflow id must be those of the recording, since sealed and large
// values can be read only with them. A history in which no workflow task has completed
// replays under any code. The error is an [UncheckedError] if the history could not be
// checked.
func (r *Replayer) Replay(namespace, workflowID string, history *historypb.History) error {
	if !slices.ContainsFunc(history.GetEvents(), func(e *historypb.HistoryEvent) bool {
		return e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	}) {
		return nil
	}
	// As a worker sees it.
	history, err := payload.HideHistory(context.Background(), history)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	var gone gone
	blobs := watched{r.blobs, &gone}
	data := payload.NewConverter(payload.NewPlans(blobs, 0), r.sealing)
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter:    elsewhere{data, namespace, &gone},
		FailureConverter: failedElsewhere{payload.NewFailureConverter(data), namespace, &gone},
		ExternalStorage:  payload.NewStorage(blobs, r.sealing),
		// The time it takes to read large values says nothing about the history.
		DisableDeadlockDetection: true,
	})
	if err != nil {
		return fmt.Errorf("make a replayer: %w", err)
	}
	replayer.RegisterWorkflowWithOptions(r.interpreter, workflow.RegisterOptions{Name: contract.WorkflowType})
	replayer.RegisterWorkflowWithOptions(workflows.Call, workflow.RegisterOptions{Name: contract.WorkflowCall})
	// The replay sets no namespace: with one, the SDK (1.50.0) runs the local activities of
	// the last task instead of replaying them, and misses errors.
	err = replayer.ReplayWorkflowHistoryWithOptions(quiet{}, history, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: workflowID, RunID: runOf(history)},
	})
	if cause := gone.cause(); err != nil && cause != nil {
		return &UncheckedError{cause}
	}
	return err
}

// gone records why a value of a history could not be read: the SDK passes on only the
// text of an error that occurs in a replay.
type gone struct {
	mu  sync.Mutex
	err error
}

func (g *gone) cause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// note records an error if runs wait for its cause to pass.
func (g *gone) note(err error) {
	var known *contract.Error
	if errors.As(err, &known) && known.Kind == contract.StoreUnavailable {
		g.set(err)
	}
}

func (g *gone) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}

// reading records that a workflow's converter waits for a key.
func (g *gone) reading() {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok {
			g.note(err)
		}
		panic(p)
	}
}

// watched is a store that records when it is unavailable.
type watched struct {
	blob.Store
	gone *gone
}

func (w watched) Get(ctx context.Context, digest string) ([]byte, error) {
	b, err := w.Store.Get(ctx, digest)
	if err != nil && !errors.Is(err, blob.ErrNotFound) && !errors.Is(err, blob.ErrCorrupt) {
		w.gone.set(err)
	}
	return b, err
}

// runOf returns the run id of a history's execution: the one that it began with, or the
// one that the last reset assigned.
func runOf(history *historypb.History) string {
	run := history.Events[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()
	for _, event := range history.Events {
		if failed := event.GetWorkflowTaskFailedEventAttributes(); failed.GetNewRunId() != "" {
			run = failed.GetNewRunId()
		}
	}
	return run
}

// elsewhere reads the values of a history under the namespace of its recording, since
// the SDK replays it without one.
type elsewhere struct {
	converter.DataConverter
	namespace string
	gone      *gone
}

var (
	_ workflow.ContextAware                              = elsewhere{}
	_ converter.DataConverterWithSerializationContext    = elsewhere{}
	_ converter.FailureConverterWithSerializationContext = failedElsewhere{}
)

func (c elsewhere) WithWorkflowContext(ctx workflow.Context) converter.DataConverter {
	bound := c.DataConverter
	if aware, ok := bound.(workflow.ContextAware); ok {
		bound = aware.WithWorkflowContext(ctx)
	}
	return elsewhere{bound, c.namespace, c.gone}
}

func (c elsewhere) FromPayload(p *commonpb.Payload, target any) error {
	defer c.gone.reading()
	err := c.DataConverter.FromPayload(p, target)
	c.gone.note(err)
	return err
}

func (c elsewhere) FromPayloads(ps *commonpb.Payloads, targets ...any) error {
	defer c.gone.reading()
	err := c.DataConverter.FromPayloads(ps, targets...)
	c.gone.note(err)
	return err
}

func (c elsewhere) WithContext(context.Context) converter.DataConverter { return c }

func (c elsewhere) WithSerializationContext(ctx converter.SerializationContext) converter.DataConverter {
	return elsewhere{converter.WithDataConverterSerializationContext(c.DataConverter, within(c.namespace, ctx)), c.namespace, c.gone}
}

// failedElsewhere is like elsewhere, for failures.
type failedElsewhere struct {
	converter.FailureConverter
	namespace string
	gone      *gone
}

func (c failedElsewhere) FailureToError(f *failurepb.Failure) error {
	defer c.gone.reading()
	err := c.FailureConverter.FailureToError(f)
	if said := new(contract.SealedError); errors.As(err, &said) && said.Missing {
		c.gone.note(said.Err)
	}
	return err
}

func (c failedElsewhere) WithSerializationContext(ctx converter.SerializationContext) converter.FailureConverter {
	return failedElsewhere{converter.WithFailureConverterSerializationContext(c.FailureConverter, within(c.namespace, ctx)), c.namespace, c.gone}
}

func within(namespace string, ctx converter.SerializationContext) converter.SerializationContext {
	switch c := ctx.(type) {
	case converter.WorkflowSerializationContext:
		c.Namespace = namespace
		return c
	case converter.ActivitySerializationContext:
		c.Namespace = namespace
		return c
	}
	return ctx
}

// quiet logs nothing: a replay's findings are its error.
type quiet struct{}

var _ sdklog.Logger = quiet{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// History reads the whole history of one execution of a run.
func History(ctx context.Context, c client.Client, workflowID, runID string) (*historypb.History, error) {
	history := &historypb.History{}
	events := c.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("read the history: %w", err)
		}
		history.Events = append(history.Events, event)
	}
	return history, nil
}

// ReplayError reports a history that does not replay under this build.
type ReplayError struct{ Cause error }

// Error implements error.
func (e *ReplayError) Error() string {
	return "its history does not replay under this build: " + e.Cause.Error()
}

// Unwrap returns the error of the replay.
func (e *ReplayError) Unwrap() error { return e.Cause }

// UncheckedError reports that a history could not be checked, since one of its values
// could not be read: the store is unavailable, or a key is missing.
type UncheckedError struct{ Cause error }

// Error implements error.
func (e *UncheckedError) Error() string {
	return "whether its history replays under this build cannot be told: " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *UncheckedError) Unwrap() error { return e.Cause }

// ErrEnded reports a run that has ended, and so cannot be moved.
var ErrEnded = errors.New("the run has ended")

// Move moves a run to the build to, which is that of this process, if the history of its
// current execution replays under this build's code. The run stays there even when it
// continues as new. Otherwise the run is not moved, and the error is a [ReplayError] or,
// if the history could not be checked, an [UncheckedError].
func (r *Replayer) Move(ctx context.Context, c client.Client, namespace, workflowID string, to Deployment) error {
	if err := to.Check(); err != nil {
		return err
	}
	runID, err := r.Check(ctx, c, namespace, workflowID)
	if err != nil {
		return err
	}
	_, err = c.UpdateWorkflowExecutionOptions(ctx, client.UpdateWorkflowExecutionOptionsRequest{
		WorkflowId: workflowID, RunId: runID,
		WorkflowExecutionOptionsChanges: client.WorkflowExecutionOptionsChanges{
			VersioningOverride: &client.VersioningOverrideChange{Value: &client.PinnedVersioningOverride{Version: to.version()}},
		},
	})
	if err != nil {
		return fmt.Errorf("move the run to %s: %w", to, err)
	}
	return nil
}

// Check reports whether the current execution of a run replays under this build's code,
// and returns the execution's id.
func (r *Replayer) Check(ctx context.Context, c client.Client, namespace, workflowID string) (runID string, err error) {
	described, err := c.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return "", fmt.Errorf("describe the run: %w", err)
	}
	info := described.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", ErrEnded
	}
	runID = info.GetExecution().GetRunId()
	history, err := History(ctx, c, workflowID, runID)
	if err != nil {
		return "", err
	}
	err = r.Replay(namespace, workflowID, history)
	if errors.As(err, new(*UncheckedError)) {
		return "", err
	}
	if err != nil {
		return "", &ReplayError{err}
	}
	return runID, nil
}
