package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
)

// refusal is why a message has no answer: err, or the JSON-RPC error that came with the status.
type refusal struct {
	err   *contract.Error
	frame frame
}

// post sends a message. The status of the response that it returns is one of success. r is the
// request of which the message is, or nil.
func (w *web) post(ctx context.Context, line []byte, r *request) (*http.Response, *refusal) {
	body := bytes.TrimSuffix(line, []byte("\n"))
	request, bad := w.peer.request(ctx, http.MethodPost, w.at(), body)
	if bad != nil {
		own := *bad
		own.Message = w.c.errorf(bad.Kind, "%s", bad.Message).Message
		return nil, &refusal{err: &own}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	inSession := w.mark(request, r, body)
	if r != nil {
		request.Body = &letter{bytes.NewReader(body), r}
		request.GetBody = func() (io.ReadCloser, error) {
			// net/http has written nothing to the connection that it replaces.
			r.stage.CompareAndSwap(sent, queued)
			return &letter{bytes.NewReader(body), r}, nil
		}
	}
	response, err := w.peer.transport.RoundTrip(request)
	if err != nil {
		return nil, w.broken(r, identify(err))
	}
	if response.StatusCode >= 200 && response.StatusCode < 300 && r != nil && r.method == string(mcp.MethodInitialize) {
		if id := response.Header.Get(mcp.HeaderSessionID); id != "" {
			if !visible(id, maxSession) {
				response.Body.Close()
				return nil, &refusal{err: w.c.errorf(contract.ServerError, "its session id is not one of at most %d visible ASCII characters", maxSession)}
			}
			w.session.Store(&id)
		}
	}
	if refused := w.judge(r, response, inSession); refused != nil {
		response.Body.Close()
		return nil, refused
	}
	return response, nil
}

// broken says what a failed round trip means: nothing was sent if the message was never read.
func (w *web) broken(r *request, err error) *refusal {
	if errors.Is(err, errOtherPeer) {
		w.c.retire("another server answers")
	}
	if r == nil || r.recall() {
		return &refusal{err: w.c.unsent("%w", err)}
	}
	return &refusal{err: w.c.errorf(contract.Transport, "the connection broke: %w", err)}
}

// letter is the body of a request. net/http reads it once it has a connection, so the first read
// is the moment from which the message may have been sent.
type letter struct {
	text *bytes.Reader
	r    *request
}

func (l *letter) Read(p []byte) (int, error) {
	if !l.r.stage.CompareAndSwap(queued, sent) && l.r.stage.Load() == withdrawn {
		return 0, errWithdrawn
	}
	return l.text.Read(p)
}

func (l *letter) Close() error { return nil }

// mark sets the headers of the session and of the protocol. It reports whether the server knows
// the session by an id.
func (w *web) mark(request *http.Request, r *request, body []byte) bool {
	version := ""
	if v := w.version.Load(); v != nil {
		version = *v
	} else if r != nil && r.method == string(mcp.MethodServerDiscover) {
		version = mcp.LATEST_PROTOCOL_VERSION
	}
	if version != "" {
		request.Header.Set(mcp.HeaderProtocolVersion, version)
	}
	if mcp.IsModernProtocol(version) {
		if r != nil {
			var params json.RawMessage
			if exact(body, map[string]any{"params": &params}) == nil {
				for name, value := range mcp.StandardHeaders(version, mcp.MCPMethod(r.method), params) {
					request.Header.Set(name, value)
				}
			}
		}
		return false
	}
	id := w.session.Load()
	if id != nil {
		request.Header.Set(mcp.HeaderSessionID, *id)
	}
	return id != nil || w.implied
}

// maxSession bounds the id of a session, in bytes.
const maxSession = 1024

// visible reports whether a text is one of at most so many visible ASCII characters.
func visible(text string, most int) bool {
	for i := range len(text) {
		if text[i] < 0x21 || text[i] > 0x7e {
			return false
		}
	}
	return len(text) <= most
}
