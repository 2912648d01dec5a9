package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

// TestRefused: a refusal of the server is a negative answer, and without an answer
// in time the error names who did not answer.
func TestRefused(t *testing.T) {
	c := &connection{address: "temporal.example.com:7233", namespace: "agents"}
	for _, late := range []error{context.DeadlineExceeded, serviceerror.NewDeadlineExceeded("context deadline exceeded")} {
		f := c.refused("starting r", fmt.Errorf("start: %w", late))
		require.Equal(t, exitUnanswered, f.code)
		require.Equal(t, "starting r: Temporal at temporal.example.com:7233 did not answer in time", f.message)
		require.NotEmpty(t, f.hint)
	}
	f := c.refused("starting r", serviceerror.NewInvalidArgument("WorkflowId length exceeds limit."))
	require.Equal(t, exitNegative, f.code)
	require.Equal(t, "starting r: WorkflowId length exceeds limit.", f.message)
}
