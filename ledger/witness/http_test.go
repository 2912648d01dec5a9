package witness_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	formats "github.com/transparency-dev/formats/log"
	cosign "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"

	"chimera.ai/engine/ledger"
)

// server is a witness that was written from https://c2sp.org/tlog-witness, with
// none of our code: proofs are verified by another library than ours.
type server struct {
	*httptest.Server
	signer note.Signer
	log    note.Verifier

	mu   sync.Mutex
	last *formats.Checkpoint
	// asked counts requests; hook may answer one instead.
	asked int
	hook  func(w http.ResponseWriter, r *http.Request) bool
}

// newServer returns a witness of a log by HTTPS, and its verifier key.
func newServer(t testing.TB, log string) (*server, string) {
	secret, public, err := ledger.NewKey("witness.example.com/w1")
	require.NoError(t, err)
	s := &server{}
	s.signer, err = cosign.NewSignerForCosignatureV1(secret)
	require.NoError(t, err)
	s.log, err = note.NewVerifier(log)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /prefix/add-checkpoint", s.add)
	s.Server = httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	public, err = cosign.VKeyToCosignatureV1(public)
	require.NoError(t, err)
	return s, public
}

func (s *server) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *server) answer(hook func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *server) add(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked++
	hook := s.hook
	s.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	code, body := s.judge(r.Body)
	if code == http.StatusConflict {
		w.Header().Set("Content-Type", "text/x.tlog.size")
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func (s *server) judge(body io.Reader) (int, string) {
	in := bufio.NewReader(body)
	first, err := in.ReadString('\n')
	if err != nil {
		return http.StatusBadRequest, ""
	}
	old, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(first, "old "), "\n"), 10, 63)
	if err != nil {
		return http.StatusBadRequest, ""
	}
	var hashes [][]byte
	for {
		line, err := in.ReadString('\n')
		if err != nil || len(hashes) > 63 {
			return http.StatusBadRequest, ""
		}
		if line == "\n" {
			break
		}
		h, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return http.StatusBadRequest, ""
		}
		hashes = append(hashes, h)
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		return http.StatusBadRequest, ""
	}
	origin, _, _ := strings.Cut(string(raw), "\n")
	if origin != s.log.Name() {
		return http.StatusNotFound, ""
	}
	c, _, n, err := formats.ParseCheckpoint(raw, origin, s.log)
	if err != nil {
		return http.StatusForbidden, ""
	}
	known := uint64(0)
	if s.last != nil {
		known = s.last.Size
	}
	switch {
	case old > c.Size:
		return http.StatusBadRequest, ""
	case old != known:
		return http.StatusConflict, fmt.Sprintf("%d\n", known)
	case s.last != nil && known == c.Size && !bytes.Equal(s.last.Hash, c.Hash):
		return http.StatusConflict, fmt.Sprintf("%d\n", known)
	case known == 0 && len(hashes) > 0:
		return http.StatusUnprocessableEntity, ""
	case known > 0:
		if err := proof.VerifyConsistency(rfc6962.DefaultHasher, known, c.Size, hashes, s.last.Hash, c.Hash); err != nil {
			return http.StatusUnprocessableEntity, ""
		}
	}
	signed, err := note.Sign(&note.Note{Text: n.Text}, s.signer)
	if err != nil {
		return http.StatusInternalServerError, ""
	}
	s.last = c
	return http.StatusOK, string(signed[len(n.Text)+1:])
}
