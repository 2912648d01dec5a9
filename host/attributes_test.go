package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
)

// TestASearchAttributeThatIsRemoved is registered again, so that the runs that set it
// end.
func TestASearchAttributeThatIsRemoved(t *testing.T) {
	stage.Parallel(t)
	opened := make(chan struct{})
	h := stage.Host(t, host.Options{EndsEvery: soon, Skills: []skills.Skill{gate(opened)}})
	run := stage.Start(t, h.Client(), source("", []string{"a test/gate 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":1}`)
	stage.Until(t, "it runs", func() bool { return stage.State(t, h.Client(), run).Counts.Running == 1 })
	server := stage.Temporal(t)
	_, err := h.Client().OperatorService().RemoveSearchAttributes(t.Context(), &operatorservice.RemoveSearchAttributesRequest{
		Namespace: server.Namespace, SearchAttributes: []string{contract.AttributeState},
	})
	require.NoError(t, err)
	stage.Until(t, "it is registered again", func() bool {
		listed, err := h.Client().OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: server.Namespace})
		require.NoError(t, err)
		_, ok := listed.GetCustomAttributes()[contract.AttributeState]
		return ok
	})
	close(opened)
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
}
