package host

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
)

// TestErrorsAreWarnings: what Temporal's library says of a refused answer at
// level INFO is a warning, whatever its words.
func TestErrorsAreWarnings(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelWarn} {
		var b bytes.Buffer
		l := log.With(log.NewStructuredLogger(slog.New(library{slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level})})), "worker", 1)
		l.Info("refused", "Error", errors.New("a limit"))
		require.Contains(t, b.String(), `level=WARN msg=refused worker=1 Error="a limit"`)
		b.Reset()
		l.Info("started", "queue", "q")
		require.Equal(t, level == slog.LevelInfo, b.Len() > 0)
		b.Reset()
		l.Error("worse", "Error", errors.New("x"))
		require.Contains(t, b.String(), "level=ERROR")
	}
}

type panicked string

func (p panicked) Error() string    { return string(p) }
func (panicked) StackTrace() string { return "" }

// TestTheLogIsDiscreet: of what calls answer, and of their failures, the log has no text.
func TestTheLogIsDiscreet(t *testing.T) {
	failed := func(kind contract.Kind) error {
		return temporal.NewApplicationErrorWithOptions("erika is here", string(kind), temporal.ApplicationErrorOptions{Details: []any{contract.ErrorDetails{Request: "tag/b#1"}}})
	}
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"a failure":           {failed(contract.ToolError), `Error="tool_error, request tag/b#1"`},
		"a wrapped failure":   {fmt.Errorf("erika: %w", failed(contract.Contract)), `Error="contract, request tag/b#1"`},
		"without a request":   {temporal.NewApplicationError("erika", "tool_error"), `Error=tool_error`},
		"a late answer":       {&commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: []byte("erika")}}}, `Error="1 values"`},
		"a panic":             {panicked(`[TMPRL1100] nondeterministic workflow: history event is ActivityTaskScheduled: (Input:"erika")`), `Error="[TMPRL1100] nondeterministic workflow: history event is ActivityTaskScheduled: "`},
		"a store":             {temporal.NewApplicationError("no space", string(contract.StoreUnavailable)), `Error="store_unavailable: no space"`},
		"an error of its own": {errors.New("a limit"), `Error="a limit"`},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			l := log.NewStructuredLogger(slog.New(library{slog.NewTextHandler(&b, nil)}))
			l.Error("Activity error.", "Error", c.value)
			require.Contains(t, b.String(), c.want)
			require.NotContains(t, b.String(), "erika")
			b.Reset()
			log.With(l, "Error", c.value).Info("begins")
			require.NotContains(t, b.String(), "erika")
		})
	}
}
