package mcp

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"chimera.ai/engine/contract"
)

// maxRefusal bounds the body of an HTTP error that is read, in bytes, and maxRetryAfter the
// wait that one may ask for.
const (
	maxRefusal    = 64 << 10
	maxRetryAfter = 24 * time.Hour
)

// judge returns why a response is none to use, or nil. r is the request that it is for, or nil.
// Redirects are never followed: what is meant for one address is not for another.
func (w *web) judge(r *request, response *http.Response, inSession bool) *refusal {
	status := response.StatusCode
	fail := func(kind contract.Kind, format string, args ...any) *refusal {
		err := w.c.errorf(kind, format, args...)
		err.Details = object("status", status)
		return &refusal{err: err}
	}
	wire := "" // the id of the request
	if r != nil {
		wire = strconv.FormatInt(r.id, 10)
	}
	switch {
	case status >= 200 && status < 300:
		if coding := response.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
			return fail(contract.ServerError, "its response is compressed, which nobody asked for")
		}
		return nil
	case status < 200:
		return fail(contract.ServerError, "it answers with HTTP status %d", status)
	case status < 400:
		return fail(contract.ServerError, "it redirects (HTTP status %d), which is not followed", status)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		w.peer.refused()
		return fail(contract.Auth, "it refuses the credentials (HTTP status %d)", status)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		bad := fail(contract.Throttled, "it refuses the request for now (HTTP status %d)", status)
		bad.err.RetryAfterMS = retryAfter(response.Header.Get("Retry-After"), time.Now()).Milliseconds()
		return bad
	case status == http.StatusNotFound && inSession:
		// By the protocol, the server has ended the session, and has not looked at the request.
		w.unknown(status)
		return fail(contract.Unsent, "it has ended the session (HTTP status %d)", status)
	}
	bad := fail(contract.ServerError, "it answers with HTTP status %d", status)
	f, ok := w.fault(r, response)
	if ok {
		bad = &refusal{frame: f}
	}
	if status == http.StatusBadRequest && inSession && string(f.id) != wire {
		// Some servers say so where they do not know the session.
		w.unknown(status)
	}
	return bad
}

// unknown says that the server does not know the session any more. Calls in flight may still be answered.
func (w *web) unknown(status int) {
	w.forgotten.Store(true)
	w.c.retire(fmt.Sprintf("its server does not know it any more (HTTP status %d)", status))
}

// fault reads the JSON-RPC error in the body of an HTTP error, which need not name its request.
func (w *web) fault(r *request, response *http.Response) (frame, bool) {
	if r == nil {
		return frame{}, false
	}
	body, err := w.read(response, maxRefusal)
	if err != nil {
		return frame{}, false
	}
	f, bad := parse(body)
	mine := f.id == nil || string(f.id) == "null" || string(f.id) == strconv.FormatInt(r.id, 10)
	return f, bad == nil && f.fault != nil && f.method == "" && mine
}

// retryAfter reads the header of that name: seconds, or a date (RFC 9110, section 10.2.3).
// It returns 0 if there is none that makes sense.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(value); err == nil {
		return min(max(time.Duration(n), 0), maxRetryAfter/time.Second) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil {
		return min(max(t.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
