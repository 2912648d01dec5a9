package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// TestALargeResultWaitsForTheStore: if the store cannot take the result of a node,
// the node has not failed, whatever its contract allows.
func TestALargeResultWaitsForTheStore(t *testing.T) {
	t.Parallel()
	keys, err := payload.ParseKeys([]string{"k:" + strings.Repeat("0123456789abcdef", 4)})
	require.NoError(t, err)
	for name, sealing := range map[string]payload.Sealing{"plain": {}, "sealed": {Keys: keys}} {
		t.Run(name, func(t *testing.T) {
			if name != "plain" {
				lengthy.Skip(t)
			}
			stage.Parallel(t)
			large, err := json.Marshal(map[string]string{"x": strings.Repeat("large ", 4<<10)})
			require.NoError(t, err)
			begun, gate := make(chan bool, 100), make(chan struct{})
			log, dir := new(lines), filepath.Join(t.TempDir(), "store")
			h := stage.Host(t, host.Options{
				Store: store.Options{Dir: dir}, Sealing: sealing, Logger: slog.New(slog.NewTextHandler(log, nil)),
				Skills: []skills.Skill{skill("give", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
					begun <- true
					select {
					case <-gate:
						return large, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				})},
			})
			run := stage.Start(t, h.Client(), source("", []string{"a test/give 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":1}`)
			<-begun
			blobs := filepath.Join(dir, "blobs")
			require.NoError(t, os.Rename(blobs, blobs+".away"))
			require.NoError(t, os.WriteFile(blobs, nil, 0o600))
			close(gate)
			stage.Until(t, "its result waits", func() bool {
				return strings.Count(log.String(), "store payload: ")+strings.Count(log.String(), "the store is away") > 1
			})
			require.NoError(t, os.Remove(blobs))
			require.NoError(t, os.Rename(blobs+".away", blobs))
			require.NoError(t, stage.Await(t, h.Client(), run, nil))
			r := told(t, h.Store(), run)
			require.Equal(t, ledger.RunSucceeded, r.State)
			require.Len(t, r.Outcomes, 1)
		})
	}
}

// TestANewLedgerIsSaid: a worker whose store was removed makes an empty one, and
// says so.
func TestANewLedgerIsSaid(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	for _, empty := range []bool{true, false, true} {
		log := new(lines)
		h := stage.Rehearse(t, host.Options{Store: storeIn(dir), Logger: slog.New(slog.NewTextHandler(log, nil))})
		require.Equal(t, empty, strings.Contains(log.String(), "the ledger is empty"), log)
		run := stage.Start(t, h.Client(), source("", []string{"b engine/pass 500"}, []string{"$input.x -> b.x", "b.x -> $output.x"}), `{"x":1}`)
		require.NoError(t, stage.Await(t, h.Client(), run, nil))
		require.NoError(t, h.Close())
		if !empty {
			require.NoError(t, os.RemoveAll(dir))
		}
	}
}

// TestTheDatabaseLetsNobodyIn: a worker whose user may not connect any more, as
// after its password was changed, makes runs wait: those that begin, and those
// that end.
func TestTheDatabaseLetsNobodyIn(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	owner := pgtest.URL(t)
	o := migrated(t, store.Options{Dir: filepath.Join(t.TempDir(), "store"), URL: owner})
	require.NoError(t, store.Grant(t.Context(), o))
	conn, err := pgx.Connect(t.Context(), owner)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	user := fmt.Sprintf("worker_%d", os.Getpid())
	do := func(format string, args ...any) {
		_, err := conn.Exec(t.Context(), fmt.Sprintf(format, args...))
		require.NoError(t, err)
	}
	do("CREATE ROLE %s LOGIN PASSWORD 'first' IN ROLE chimera_engine", user)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.WithoutCancel(t.Context()), owner)
		require.NoError(t, err)
		_, err = conn.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+user)
		require.NoError(t, err)
		require.NoError(t, conn.Close(context.WithoutCancel(t.Context())))
	})
	at, err := url.Parse(owner)
	require.NoError(t, err)
	at.User = url.UserPassword(user, "first")
	o.URL = at.String()

	gate := make(chan struct{})
	h := stage.Host(t, host.Options{Store: o, Skills: []skills.Skill{gated(gate)}})
	ends := stage.Start(t, h.Client(), source("", []string{"b test/gate 60000"}, []string{"$input.x -> b.x", "b.x -> $output.x"}), `{"x":1}`)
	stage.Until(t, "b runs", func() bool { return stage.State(t, h.Client(), ends).Counts.Running == 1 })
	do("ALTER ROLE %s NOLOGIN", user)
	do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '%s'", user)
	close(gate)
	begins := stage.Start(t, h.Client(), source("", []string{"b engine/pass 500"}, []string{"$input.x -> b.x", "b.x -> $output.x"}), `{"x":1}`)
	stage.Until(t, "the end waits", func() bool {
		about, err := h.Client().DescribeWorkflowExecution(t.Context(), ends.GetID(), "")
		require.NoError(t, err)
		return slices.ContainsFunc(about.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
			return a.GetActivityType().GetName() == contract.ActivityClose && a.GetAttempt() > 2
		})
	})
	do("ALTER ROLE %s LOGIN", user)
	for _, run := range []interface{ GetID() string }{ends, begins} {
		run := h.Client().GetWorkflow(t.Context(), run.GetID(), "")
		require.NoError(t, stage.Await(t, h.Client(), run, nil))
		require.Equal(t, ledger.RunSucceeded, told(t, h.Store(), run).State)
	}
}

// TestAPlanThatCannotBeReadIsWaitedFor: a worker takes up a run whose plan its store does
// not have. The run's workflow task fails, and says so, until a worker has the plan.
func TestAPlanThatCannotBeReadIsWaitedFor(t *testing.T) {
	stage.Parallel(t)
	opened, options := make(chan struct{}), store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	h := stage.Host(t, host.Options{Store: options, Skills: []skills.Skill{gate(opened)}})
	c := stranger(t)
	run := stage.Start(t, c, source("", []string{"a test/gate 2000 retry_policy: {max_retries: 9, on: [timeout]}"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":1}`)
	stage.Until(t, "it runs", func() bool { return len(events(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)) > 0 })
	require.NoError(t, h.Close())
	h = stage.Host(t, host.Options{Skills: []skills.Skill{gate(opened)}})
	require.NoError(t, c.SignalWorkflow(t.Context(), run.GetID(), "", "wake", nil))
	var failed []*historypb.HistoryEvent
	stage.Until(t, "its task fails", func() bool {
		failed = events(t, c, run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED)
		return len(failed) > 0
	})
	require.Contains(t, failed[0].GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage(), blob.ErrNotFound.Error())
	require.NoError(t, h.Close())
	close(opened)
	stage.Host(t, host.Options{Store: options, Skills: []skills.Skill{gate(opened)}})
	require.NoError(t, stage.Await(t, c, run, nil))
}

// TestARequestThatIsGone: what an activity is asked, and the store has lost before a
// worker has read it, is asked again, since the run still knows it. The run reads it
// nowhere itself.
func TestARequestThatIsGone(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]payload.Sealing{"sealed": sealing(t, keys(t, "k1")...), "plain": {}} {
		for how, hurt := range map[string]func(file string) error{
			"removed": os.Remove, "damaged": func(file string) error { return os.Truncate(file, 1) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				if name != "sealed" || how != "removed" {
					lengthy.Skip(t)
				}
				stage.Parallel(t)
				opened, options := make(chan struct{}), store.Options{Dir: filepath.Join(t.TempDir(), "store")}
				h := stage.Host(t, host.Options{Store: options, Sealing: s, MaxActivities: 1, Skills: []skills.Skill{gate(opened)}})
				c := stranger(t)
				x, err := json.Marshal(letters(12_000))
				require.NoError(t, err)
				// The worker holds one of the two, and the other one waits for it.
				run := stage.Start(t, h.Client(), source("", []string{"a test/gate 600000", "b test/gate 600000"},
					[]string{"$input.x -> a.x", "$input.x -> a.y", "$input.x -> b.x", "$input.x -> b.y", "a.x -> $output.a", "b.x -> $output.b"}), `{"x":`+string(x)+`}`)
				waits := ""
				stage.Until(t, "a worker holds one of two calls", func() bool {
					about, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
					require.NoError(t, err)
					held := false
					for _, a := range about.GetPendingActivities() {
						if a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
							held = true
						} else {
							waits = a.GetActivityId()
						}
					}
					return held && len(about.GetPendingActivities()) == 2
				})
				var gone []string
				for _, e := range events(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) {
					if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityId() == waits {
						for _, m := range regexp.MustCompile(`sha256:([0-9a-f]{2})([0-9a-f]{62})`).FindAllStringSubmatch(a.GetInput().String(), -1) {
							gone = append(gone, filepath.Join(options.Dir, "blobs", m[1], m[2]))
						}
					}
				}
				require.Len(t, gone, 1)
				require.NoError(t, hurt(gone[0]))
				close(opened)
				var result map[string]int
				require.NoError(t, stage.Await(t, h.Client(), run, &result))
				require.Equal(t, map[string]int{"a": 1, "b": 1}, result)
				require.Empty(t, events(t, c, run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED))
			})
		}
	}
}
