package workflows

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
)

// TestReadFailure: a failure without a kind of ours is the fault of whoever
// answered, whatever it says.
func TestReadFailure(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind contract.Kind
	}{
		"ours":             {temporal.NewApplicationError("no", string(contract.ToolError)), contract.ToolError},
		"a kind of theirs": {temporal.NewApplicationError("no", "Oops"), contract.ServerError},
		"a stopped worker": {temporal.NewApplicationError("context canceled", string(contract.WorkerLost)), contract.WorkerLost},
		"who says so":      {temporal.NewApplicationError("context canceled", ""), contract.ServerError},
		"no kind":          {temporal.NewApplicationError("no", ""), contract.ServerError},
		"no failure":       {errors.New("no"), contract.ServerError},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.kind, readFailure(c.err, nil).Kind) })
	}
}
