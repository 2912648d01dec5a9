package host_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/metrics"
)

// TestListChangedIsCounted: a server that says that its tools have changed is counted, and calls look at them
// anew as ever.
func TestListChangedIsCounted(t *testing.T) {
	stage.Parallel(t)
	b := newBank(t)
	counted := metrics.New()
	b.options.Client.MetricsHandler = counted.Handler()
	b.acting.again(t)
	b.put(t, "called", `echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'`)
	run := b.start(t, "run", b.publish(t, bankPlan), `{"line":"one"}`)
	require.NoError(t, stage.Await(t, b.h.Client(), run, nil))
	require.Equal(t, []string{"look", "pay"}, b.written(t))
	got := httptest.NewRecorder()
	counted.HTTP().ServeHTTP(got, httptest.NewRequest("GET", "/metrics", nil))
	require.Contains(t, got.Body.String(), `chimera_mcp_tools_changed_total{server="bank"} 2`)
}
