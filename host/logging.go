package host

import (
	"context"
	"log/slog"
)

// raised is the log handler of Temporal's library. It raises records with an error to
// warnings: the library logs only at level INFO that the server refuses a worker's
// answer, which may be the only sign of a workflow task that can never succeed.
type raised struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h raised) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelInfo {
		r.Attrs(func(a slog.Attr) bool {
			if _, ok := a.Value.Any().(error); ok {
				r.Level = slog.LevelWarn
			}
			return r.Level == slog.LevelInfo
		})
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// Enabled implements [slog.Handler]. Records that may become warnings are enabled if
// warnings are.
func (h raised) Enabled(ctx context.Context, level slog.Level) bool {
	if level == slog.LevelInfo {
		level = slog.LevelWarn
	}
	return h.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h raised) WithAttrs(attrs []slog.Attr) slog.Handler { return raised{h.Handler.WithAttrs(attrs)} }

// WithGroup implements [slog.Handler].
func (h raised) WithGroup(name string) slog.Handler { return raised{h.Handler.WithGroup(name)} }
