package mcp

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"chimera.ai/engine/contract"
)

// sse is the link to a server over the older HTTP with server-sent events (protocol version
// 2024-11-05): one stream brings all messages of the server, and says where to post those of the
// client. The session lives as long as the stream.
type sse struct {
	*web
	// ready is closed once endpoint is set.
	ready    chan struct{}
	endpoint string
}

// maxEndpoint bounds the URL to which messages are posted, in bytes.
const maxEndpoint = 4 << 10

// listen begins a session with a server over HTTP with server-sent events.
func listen(name string, p *peer, opts Options) *conn {
	c := newConn(name, opts)
	c.single = true
	s := &sse{web: newWeb(c, p), ready: make(chan struct{})}
	s.implied = true
	s.at = func() string { return s.endpoint }
	s.answers = func(_ context.Context, _ *request, response *http.Response) { drop(response) }
	c.begin(s)
	return c
}

func (s *sse) send(ctx context.Context, out *outgoing) {
	select {
	case <-s.ready:
		s.web.send(ctx, out)
	case <-out.request.over.Done():
	case <-ctx.Done():
	}
}

func (s *sse) serve() {
	s.busy.Go(s.receive)
	s.web.serve()
}

// receive takes what the server says until its stream ends, and the session with it.
func (s *sse) receive() {
	request, bad := s.peer.request(s.ctx, http.MethodGet, s.peer.url.String(), nil)
	if bad != nil {
		own := *bad
		own.Message = s.c.errorf(bad.Kind, "%s", bad.Message).Message
		s.c.fail(&own)
		return
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := s.peer.transport.RoundTrip(request)
	if err != nil {
		s.c.fail(s.c.unsent("%w", identify(err)))
		return
	}
	defer response.Body.Close()
	if refused := s.judge(nil, response, false); refused != nil {
		s.c.fail(refused.err)
		return
	}
	if mediaType(response) != "text/event-stream" {
		s.c.fail(s.c.errorf(contract.ServerError, "its response is not a stream of events"))
		return
	}
	from := newEvents(response.Body, s.c.opts.MaxLine, s.c.opts.MaxNoise)
	for s.endpoint == "" {
		e, err := from.next()
		if err != nil {
			s.c.fail(s.c.errorf(contract.Transport, "its stream of events ended before it said where to post messages: %w", err))
			return
		}
		if e.name != "endpoint" {
			if !s.c.hear(e.size) {
				return
			}
			continue
		}
		if s.endpoint, err = s.sameOrigin(string(e.data)); err != nil {
			s.c.offend(contract.ServerError, "%w", err)
			return
		}
	}
	close(s.ready)
	s.stream(nil, from)
	s.c.fail(s.c.errorf(contract.Transport, "its stream of events ended"))
}

// sameOrigin resolves where messages are posted, which must be where the stream comes from:
// credentials are for no other place.
func (s *sse) sameOrigin(reference string) (string, error) {
	if len(reference) > maxEndpoint {
		return "", errors.New("where to post messages is too long")
	}
	u, err := url.Parse(reference)
	if err != nil {
		return "", errors.New("where to post messages is not a URL")
	}
	u = s.peer.url.ResolveReference(u)
	if u.Scheme != s.peer.url.Scheme || u.Host != s.peer.url.Host || u.User != nil {
		return "", errors.New("messages would be posted to another origin than that of its stream")
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String(), nil
}
