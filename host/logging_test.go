package host

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
)

// TestErrorsAreWarnings: what Temporal's library says of a refused answer at
// level INFO is a warning, whatever its words.
func TestErrorsAreWarnings(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelWarn} {
		var b bytes.Buffer
		l := log.With(log.NewStructuredLogger(slog.New(raised{slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level})})), "worker", 1)
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
