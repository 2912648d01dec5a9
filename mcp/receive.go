package mcp

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"chimera.ai/engine/contract"
)

// receive takes the answer to a request, which comes alone or in a stream of events. ctx ends when
// nobody waits for it any more.
func (w *web) receive(ctx context.Context, r *request, response *http.Response) {
	switch mediaType(response) {
	case "application/json":
		body, err := w.read(response, w.c.opts.MaxLine)
		if err != nil {
			w.c.complete(r, reply{err: err})
			return
		}
		func() {
			done, late := w.c.heavyTurn(ctx, body)
			if late != nil {
				return // nobody waits for it
			}
			defer done()
			w.c.take(body, r)
		}()
		w.c.complete(r, reply{err: w.c.errorf(contract.ServerError, "its response is not the answer to the request")})
	case "text/event-stream":
		from := newEvents(response.Body, w.c.opts.MaxLine, w.c.opts.MaxNoise)
		w.stream(r, from)
		w.resume(ctx, r, from)
		w.c.complete(r, reply{err: w.c.errorf(contract.Transport, "its stream of events ended before it answered")})
	default:
		w.c.complete(r, reply{err: w.c.errorf(contract.ServerError, "its response is of another type than JSON or a stream of events")})
	}
}

func mediaType(response *http.Response) string {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return kind
}

// Bounds of the resumption of streams: how often that of one request is resumed, and how long to
// wait before that.
const (
	maxResumes = 100
	minPause   = 100 * time.Millisecond
	usualPause = time.Second
	maxPause   = 10 * time.Second
)

// resume asks for the rest of a stream that ended before the answer to its request, as long as the
// server gives one and events have ids. The request is not sent again.
func (w *web) resume(ctx context.Context, r *request, from *events) {
	for range maxResumes {
		if from.id == "" || ctx.Err() != nil || r.over.Err() != nil {
			return
		}
		select {
		case <-time.After(pauseOf(from.retry)):
		case <-r.over.Done():
			return
		}
		response := w.rest(ctx, from.id)
		if response == nil {
			return
		}
		next := newEvents(response.Body, w.c.opts.MaxLine, w.c.opts.MaxNoise)
		next.id, next.retry = from.id, from.retry
		w.stream(r, next)
		response.Body.Close()
		from = next
	}
}

// rest opens a stream with what follows an event, or returns nil.
func (w *web) rest(ctx context.Context, id string) *http.Response {
	request, bad := w.peer.request(ctx, http.MethodGet, w.at(), nil)
	if bad != nil {
		return nil
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Last-Event-ID", id)
	w.mark(request, nil, nil)
	response, err := w.peer.transport.RoundTrip(request)
	if err != nil {
		return nil
	}
	coding := response.Header.Get("Content-Encoding")
	if response.StatusCode != http.StatusOK || mediaType(response) != "text/event-stream" || coding != "" && coding != "identity" {
		drop(response)
		return nil
	}
	return response
}

// pauseOf reads the field retry of an event: milliseconds.
func pauseOf(retry string) time.Duration {
	ms, err := strconv.ParseUint(retry, 10, 31)
	if err != nil {
		return usualPause
	}
	return min(max(time.Duration(ms)*time.Millisecond, minPause), maxPause)
}

// stream takes the messages of a stream of events: of r alone, or of all requests if r is nil.
// It returns at the end of the stream.
func (w *web) stream(r *request, from *events) {
	for {
		e, err := from.next()
		mine := true
		switch {
		case e.over != nil:
			w.c.log.Warn("MCP message over the limit", "limit", w.c.opts.MaxLine)
			mine = w.c.failAnswered(e.over, r)
		case err == nil && len(e.data) > 0 && (e.name == "" || e.name == "message"):
			if !w.c.take(e.data, r) {
				return
			}
		default:
			mine = false
		}
		if !mine && !w.c.hear(e.size) || err != nil {
			return
		}
	}
}

// read reads a body of at most limit bytes.
func (w *web) read(response *http.Response, limit int) ([]byte, *contract.Error) {
	if response.ContentLength > int64(limit) {
		return nil, w.c.errorf(contract.TooLarge, "the result is too large: %w", &oversize{limit})
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	switch {
	case len(body) > limit:
		return nil, w.c.errorf(contract.TooLarge, "the result is too large: %w", &oversize{limit})
	case err != nil:
		return nil, w.c.errorf(contract.Transport, "the connection broke before the end of the answer: %w", err)
	}
	return body, nil
}

// drop reads a body that says nothing, as far as it is worth a connection.
func drop(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	response.Body.Close()
}
