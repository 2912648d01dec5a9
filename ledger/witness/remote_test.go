package witness

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// answers is a witness by HTTP that always gives the same answer.
type answers struct {
	code  int
	body  []byte
	asked []Request
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	asked, err := ParseRequest(raw)
	if err != nil {
		return nil, err
	}
	a.asked = append(a.asked, asked)
	return &http.Response{StatusCode: a.code, Body: io.NopCloser(bytes.NewReader(a.body)), Header: http.Header{"Location": {"https://elsewhere.example.com/"}}, Request: r}, nil
}

// FuzzAnswer: whatever a witness answers, it is asked twice at most, for a proof
// from a size that this log had, and nothing of it comes before the checkpoint.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"— w AAAA\n", "7\n", "0\n", "9\n", "07\n", "-1\n", "9223372036854775808\n", "", "\n\n", "7\n\n"} {
		for _, code := range []int{200, 409, 404, 403, 422, 400, 429, 301, 500, 204} {
			f.Add(code, []byte(s))
		}
	}
	q := question{Checkpoint: ledger.Checkpoint{Origin: "o", Size: 8}, raw: []byte("o\n8\nAAAA\n\n— o AAAA\n")}
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		if code < 200 || code > 599 {
			return // the transport gives no other
		}
		q.prove = func(old int64) ([]ledger.Hash, error) {
			require.GreaterOrEqual(t, old, int64(0))
			require.LessOrEqual(t, old, q.Size)
			return make([]ledger.Hash, 3), nil
		}
		w := &answers{code: code, body: body}
		r := &remote{url: "https://w.example.com/", client: newClient(w)}
		raw, err := r.ask(t.Context(), q)
		require.LessOrEqual(t, len(w.asked), 2)
		for _, asked := range w.asked {
			require.Equal(t, q.raw, asked.Checkpoint)
		}
		if err != nil {
			require.Less(t, len(err.Error()), 300)
			return
		}
		require.Equal(t, http.StatusOK, code)
		require.LessOrEqual(t, len(body), maxAnswer)
		require.Equal(t, string(q.raw)+string(body), string(raw))
	})
}
