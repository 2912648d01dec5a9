package client

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

// TestRepeat: an update is sent again as long as there is time, where no worker has answered or
// the run could not look at it; but not where it was refused.
func TestRepeat(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answers []error
	again, sent := errors.New("again"), 0
	send := func() (code, detail string, err error) {
		if sent == len(answers) {
			return "", "", nil
		}
		sent++
		if err := answers[sent-1]; !errors.Is(err, again) {
			return "", "", err
		}
		return contract.CodeAgain, "it is full", nil
	}
	answers = []error{
		sdk.NewWorkflowUpdateServiceTimeoutOrCanceledError(serviceerror.NewDeadlineExceeded("nobody has answered")), again,
		serviceerror.NewUnavailable("it is away"),
	}
	require.NoError(t, repeat(ctx, "r", "signature", send))
	require.Equal(t, len(answers), sent)

	answers, sent = []error{serviceerror.NewNotFound("no such run"), again}, 0
	require.Error(t, repeat(ctx, "r", "signature", send))
	require.Equal(t, 1, sent)

	cancel()
	answers, sent = []error{again, again}, 0
	require.ErrorContains(t, repeat(ctx, "r", "signature", send), "it did not look at the signature in time: it is full")
	require.Equal(t, 1, sent)
}
