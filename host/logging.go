package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
)

// library is the log handler of the SDK, and so of the loggers that it gives to workflows and
// activities.
//
// The SDK logs at level INFO that the server refuses a worker's answer, which is all that a
// worker says about a run whose workflow task can never succeed: records with an error become
// warnings. And it logs errors of activities, and what those return too late: nothing that a
// tool has said, and no value of a run, stands in the log.
type library struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h library) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if _, ok := a.Value.Any().(error); ok && out.Level == slog.LevelInfo {
			out.Level = slog.LevelWarn
		}
		out.AddAttrs(discreet(a))
		return true
	})
	if !h.Handler.Enabled(ctx, out.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, out)
}

// Enabled implements [slog.Handler]. A record that may become a warning is enabled
// like one.
func (h library) Enabled(ctx context.Context, level slog.Level) bool {
	if level == slog.LevelInfo {
		level = slog.LevelWarn
	}
	return h.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h library) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = discreet(a)
	}
	return library{h.Handler.WithAttrs(out)}
}

// WithGroup implements [slog.Handler].
func (h library) WithGroup(name string) slog.Handler { return library{h.Handler.WithGroup(name)} }

// discreet returns an attribute without messages of tools and values of runs.
func discreet(a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case error:
		a.Value = slog.StringValue(summary(v))
	case *commonpb.Payloads:
		a.Value = slog.StringValue(fmt.Sprintf("%d values", len(v.GetPayloads())))
	}
	return a
}

// summary is what the log has of an error. Of the failure of a call that is its kind, and the
// request, which names the node; only why a store is not available is said in full, since no
// tool can say that. Of a panic of workflow code it is the text without what stands in
// brackets, where the SDK puts events and commands with their payloads.
func summary(err error) string {
	var failure *temporal.ApplicationError
	var panicked interface{ StackTrace() string }
	switch {
	case errors.As(err, &failure) && failure.Type() == string(contract.StoreUnavailable):
		return failure.Type() + ": " + failure.Message()
	case errors.As(err, &failure):
		var d contract.ErrorDetails
		if failure.HasDetails() && failure.Details(&d) == nil && d.Request != "" {
			return failure.Type() + ", request " + d.Request
		}
		return failure.Type()
	case errors.As(err, &panicked):
		text, _, _ := strings.Cut(err.Error(), "(")
		return text
	}
	return err.Error()
}
