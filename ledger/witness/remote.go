package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"chimera.ai/engine/ledger"
)

// question is a checkpoint that is to be cosigned.
type question struct {
	ledger.Checkpoint
	// raw is the checkpoint as the log has signed it, without cosignatures.
	raw []byte
	// prove proves that its tree begins with so many entries.
	prove func(old int64) ([]ledger.Hash, error)
}

func (q question) request(old int64) (Request, error) {
	if old > q.Size {
		return Request{}, &ahead{known: old, size: q.Size}
	}
	proof, err := q.prove(old)
	return Request{old, proof, q.raw}, err
}

// ErrContradicted reports that a witness has cosigned what is not this log: a longer one, as
// after the database was restored from an older copy, or one of another history. Its cosignature
// shows that.
var ErrContradicted error = contradicted{}

type contradicted struct{}

func (contradicted) Error() string { return "a witness has cosigned another log" }

// Unwrap returns [ledger.ErrProof].
func (contradicted) Unwrap() error { return ledger.ErrProof }

// errClaimed reports that a witness says so, and shows no cosignature: whoever answers in its
// stead can say it too.
var errClaimed = errors.New("the witness says that it has cosigned another log, and does not show it")

// ahead reports that a witness has cosigned more entries than the log had when it was read.
type ahead struct {
	known, size int64
	// shown: there is a cosignature that verifies.
	shown bool
}

func (e *ahead) Error() string {
	return fmt.Sprintf("it has cosigned a log of %d entries, and this one has %d", e.known, e.size)
}

// door is a means to reach a witness.
type door interface {
	// ask returns a checkpoint that the witness has cosigned: what was asked for, or
	// one before it. It gives errWaiting where there is no answer yet.
	ask(ctx context.Context, q question) ([]byte, error)
}

var errWaiting = errors.New("no answer yet")

// remote is a witness that answers by HTTP.
type remote struct {
	url    string
	client *http.Client
	// known is the size that it has cosigned last, as far as is known here.
	known int64
}

// answerTime bounds a question by HTTP.
const answerTime = 10 * time.Second

// newClient returns the HTTP client for witnesses. It follows no redirects.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxResponseHeaderBytes = 64 << 10
		t.DisableCompression = true
		t.MaxIdleConnsPerHost = 1
		transport = t
	}
	return &http.Client{Transport: transport, Timeout: answerTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (r *remote) ask(ctx context.Context, q question) ([]byte, error) {
	for range 2 {
		request, err := q.request(r.known)
		if err != nil {
			r.known = 0 // it is asked anew, and may have another answer then
			return nil, err
		}
		code, body, err := r.post(ctx, request.Encode())
		switch {
		case err != nil:
			return nil, err
		case code == http.StatusOK:
			r.known = q.Size
			return append(bytes.Clone(q.raw), body...), nil
		case code == http.StatusUnprocessableEntity && r.known > 0 && r.known < q.Size:
			r.known = 0
			return nil, fmt.Errorf("%w: %w", errClaimed, refusal(code))
		case code != http.StatusConflict:
			return nil, refusal(code)
		}
		known, err := size(strings.TrimSuffix(string(body), "\n"))
		if err == nil && known == r.known && known == q.Size {
			r.known = 0
			return nil, fmt.Errorf("%w: of as many entries (409)", errClaimed)
		}
		if err != nil || known == r.known {
			return nil, errors.New("it answers with a conflict, and not with the size that it knows: it may have cosigned another log")
		}
		r.known = known
	}
	return nil, errors.New("it is asked by others at the same time")
}

// refusal returns the meaning of an answer of tlog-witness.
func refusal(code int) error {
	switch code {
	case http.StatusNotFound:
		return errors.New("it does not know the log (404)")
	case http.StatusForbidden:
		return errors.New("it does not trust the log's key, or does not know the log (403)")
	case http.StatusUnprocessableEntity:
		return errors.New("the proof does not convince it (422)")
	case http.StatusBadRequest:
		return errors.New("it does not understand the request (400)")
	case http.StatusTooManyRequests:
		return errors.New("it is asked too often (429)")
	}
	if code >= 300 && code < 400 {
		return fmt.Errorf("it points elsewhere (%d), where nobody follows", code)
	}
	return fmt.Errorf("it answers with status %d", code)
}

func (r *remote) post(ctx context.Context, body []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(r.url, "/")+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	response, err := r.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return 0, nil, err
	}
	if len(raw) > maxAnswer {
		return 0, nil, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	}
	return response.StatusCode, raw, nil
}
