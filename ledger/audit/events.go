package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"chimera.ai/engine/ledger"
)

// EventsFile is the file of an export for SIEMs.
const EventsFile = "events.jsonl"

// ErrRange reports a range that the log does not have.
var ErrRange = errors.New("range")

// Fed says what an export of events contains: the entries from index From to before
// Next, where the next export begins.
type Fed struct {
	Events int64 `json:"events"`
	From   int64 `json:"from"`
	Next   int64 `json:"next"`
	// Size is that of the log's latest checkpoint, which no export goes beyond.
	Size int64 `json:"size"`
}

// ExportEvents writes the entries from an index to before another, or to the latest
// checkpoint if to is negative, as events into a new folder, which appears once it
// is complete. The error is ErrRange if the log does not have so many.
func ExportEvents(ctx context.Context, log ledger.Log, dir string, from, to int64) (Fed, error) {
	x := Fed{From: from, Next: from}
	err := folder(dir, func(temporary string) error { return x.write(ctx, log, temporary, to) })
	if err != nil {
		return x, fmt.Errorf("export events: %w", err)
	}
	return x, nil
}

func (x *Fed) write(ctx context.Context, log ledger.Log, dir string, to int64) (err error) {
	checkpoint, err := log.Checkpoint(ctx)
	if err != nil {
		return err
	}
	c, err := ledger.ParseCheckpoint(checkpoint)
	if err != nil {
		return err
	}
	x.Size = c.Size
	if to < 0 {
		to = c.Size
	}
	switch {
	case x.From < 0 || x.From > to:
		return fmt.Errorf("%w: from %d to %d is none", ErrRange, x.From, to)
	case to > c.Size:
		return fmt.Errorf("%w: the log has %d entries under a checkpoint, not %d", ErrRange, c.Size, to)
	}
	out, err := create(filepath.Join(dir, EventsFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	for x.Next < to {
		records, err := log.Records(ctx, x.Next, int(min(page, to-x.Next)))
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return fmt.Errorf("the checkpoint is over %d entries, and entry %d is not there", c.Size, x.Next)
		}
		for _, r := range records {
			if r.Index != x.Next {
				return fmt.Errorf("entry %d is not there", x.Next)
			}
			x.Next++
			e, err := ledger.DecodeEntry(r.Bytes)
			if err != nil {
				continue // no entry, which the verifier tells: there is no event of it
			}
			line, err := eventOf(ctx, log, r, e)
			if err != nil {
				return fmt.Errorf("entry %d: %w", r.Index, err)
			}
			if err := out.line(line); err != nil {
				return err
			}
			x.Events++
		}
	}
	return nil
}

// eventOf returns an entry as an event.
func eventOf(ctx context.Context, log ledger.Log, r ledger.Record, e *ledger.Entry) ([]byte, error) {
	var told terms
	if e.Body != "" && tells(e.Kind) {
		var err error
		if told, err = termsOf(ctx, log, e); err != nil {
			return nil, err
		}
	}
	return json.Marshal(cloudEvent(e, r, told))
}

// termsOf returns the terms of closed sets in a body, if it exists and everybody
// can read it.
func termsOf(ctx context.Context, log ledger.Log, e *ledger.Entry) (terms, error) {
	raw, err := log.Stored(ctx, e.Body)
	if errors.Is(err, ledger.ErrGone) {
		return terms{}, nil
	}
	if err != nil {
		return terms{}, err
	}
	body, err := ledger.DecodeBody(raw)
	if err != nil {
		return terms{}, nil //nolint:nilerr // it is sealed, or no body, which the verifier tells
	}
	var said struct {
		State    string `json:"state"`
		Activity string `json:"activity"`
		Decision string `json:"decision"`
		Status   string `json:"status"`
		Error    struct {
			Kind string `json:"kind"`
		} `json:"error"`
		Failure struct {
			Kind string `json:"kind"`
		} `json:"failure"`
	}
	if err := json.Unmarshal(body.Data, &said); err != nil {
		return terms{}, nil // another shape says none of them
	}
	t := terms{State: term(said.State), Operation: term(said.Activity), Decision: term(said.Decision), Status: term(said.Status), Error: term(said.Error.Kind)}
	if t.Error == "" {
		t.Error = term(said.Failure.Kind)
	}
	return t, nil
}

// term returns s if it is a term, and not prose.
func term(s string) string {
	if len(s) > 200 {
		return ""
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.', r == '/':
		default:
			return ""
		}
	}
	return s
}
