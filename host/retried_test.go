package host_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/metrics"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/workflows"
)

// TestRetriedTasksAreCounted: a workflow task that fails shows in the metrics when
// it is retried.
func TestRetriedTasksAreCounted(t *testing.T) {
	lengthy.Skip(t)
	registry := metrics.New()
	var o host.Options
	o.Client.MetricsHandler = registry.Handler()
	var fails atomic.Bool
	fails.Store(true)
	o = host.Interpreted(o, func(ctx workflow.Context, start json.RawMessage, loaded *plan.Loaded, carried *contract.Carried) (contract.Result, error) {
		if fails.Load() {
			panic("the task fails")
		}
		return workflows.Plan(ctx, start, loaded, carried)
	})
	h := stage.Host(t, o)
	line := "\n" + metrics.Retried + `_total{workflow_type="` + contract.WorkflowType + `"} `
	told := func() string {
		w := httptest.NewRecorder()
		registry.HTTP().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	require.Contains(t, told(), line+"0\n")
	run := stage.Start(t, h.Client(), source("", []string{"a engine/pass 900"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":2}`)
	stage.Until(t, "a task that is tried again is counted", func() bool { return !strings.Contains(told(), line+"0\n") })
	fails.Store(false)
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
}
