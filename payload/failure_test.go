package payload_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	failurepb "go.temporal.io/api/failure/v1"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// TestCausesAreBounded: whoever answers says how many causes a failure has.
func TestCausesAreBounded(t *testing.T) {
	var deep *failurepb.Failure
	for i := range 20_000 {
		deep = &failurepb.Failure{
			Message: fmt.Sprint("failure ", i), Cause: deep,
			FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: "contract"}},
		}
	}
	err := payload.NewFailureConverter(payload.NewConverter(payload.NewPlans(nil, 0), payload.Sealing{})).FailureToError(deep)
	require.ErrorContains(t, err, "failure 19999")
	n := 0
	for ; err != nil; err = errors.Unwrap(err) {
		n++
	}
	require.Equal(t, 21, n)
	require.Equal(t, "failure 0", func() string {
		at := deep
		for at.GetCause() != nil {
			at = at.GetCause()
		}
		return at.GetMessage()
	}(), "the failure itself stays as it was")
}

// TestAMissingValueIsWaitedFor: the library fails a task whose value it cannot read,
// before anybody knows what the task is. What it says then is that the store is away.
func TestAMissingValueIsWaitedFor(t *testing.T) {
	c := payload.NewFailureConverter(payload.NewConverter(payload.NewPlans(nil, 0), payload.Sealing{}))
	for _, cause := range []error{blob.ErrNotFound, blob.ErrCorrupt} {
		f := c.ErrorToFailure(fmt.Errorf("storage driver: %w", cause))
		require.Equal(t, string(contract.StoreUnavailable), f.GetApplicationFailureInfo().GetType())
		require.False(t, f.GetApplicationFailureInfo().GetNonRetryable())
		require.Contains(t, f.GetMessage(), cause.Error())
	}
}
