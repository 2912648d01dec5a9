package mcp

import (
	"io"
	"mime"
	"net/http"

	"chimera.ai/engine/contract"
)

// receive takes the answer to a request, which comes alone or in a stream of events.
func (w *web) receive(r *request, response *http.Response) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		body, err := w.read(response, w.c.opts.MaxLine)
		if err != nil {
			w.c.complete(r, reply{err: err})
			return
		}
		w.c.take(body, r)
		w.c.complete(r, reply{err: w.c.errorf(contract.ServerError, "its response is not the answer to the request")})
	case "text/event-stream":
		w.stream(r, newEvents(response.Body, w.c.opts.MaxLine, w.c.opts.MaxNoise))
		w.c.complete(r, reply{err: w.c.errorf(contract.Transport, "its stream of events ended before it answered")})
	default:
		w.c.complete(r, reply{err: w.c.errorf(contract.ServerError, "its response is of another type than JSON or a stream of events")})
	}
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
