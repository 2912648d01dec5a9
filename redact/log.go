package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a handler that removes secrets from messages, values and names before it
// passes them on.
func (s *Secrets) Handler(next slog.Handler) slog.Handler {
	if s == nil {
		return next
	}
	return handler{s, next}
}

type handler struct {
	secrets *Secrets
	next    slog.Handler
}

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.secrets.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.secrets.attr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.secrets.attr(a)
	}
	return handler{h.secrets, h.next.WithAttrs(clean)}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.secrets, h.next.WithGroup(name)}
}

func (s *Secrets) attr(a slog.Attr) slog.Attr {
	return slog.Attr{Key: s.Text(a.Key), Value: s.value(a.Value.Resolve())}
}

func (s *Secrets) value(v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(s.Text(v.String()))
	case slog.KindGroup:
		group := v.Group()
		clean := make([]slog.Attr, len(group))
		for i, a := range group {
			clean[i] = s.attr(a)
		}
		return slog.GroupValue(clean...)
	case slog.KindAny:
		return s.any(v)
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64:
		if text := v.String(); s.Text(text) != text {
			return slog.StringValue(Mark)
		}
	case slog.KindBool, slog.KindDuration, slog.KindTime, slog.KindLogValuer:
	}
	return v
}

// any removes secrets from a value however a handler may write it: as Go's text or as
// JSON.
func (s *Secrets) any(v slog.Value) slog.Value {
	var text string
	switch x := v.Any().(type) {
	case nil:
		return v
	case error:
		text = x.Error()
	default:
		text = fmt.Sprintf("%+v", x)
	}
	clean := s.Text(text)
	if clean != text {
		return slog.StringValue(clean)
	}
	if raw, err := json.Marshal(v.Any()); err == nil {
		if clean := s.JSON(raw); string(clean) != string(raw) {
			return slog.StringValue(string(clean))
		}
	}
	return v
}
