package host_test

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/testca"
	"chimera.ai/engine/mcp"
)

// rugScript is an MCP server that logs what it gets, with its process id.
const rugScript = `. lib/answer
echo "$$ start" >> log
while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case "$line" in
	*'"initialize"'*) answer "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"instructions\":\"$(cat words)\",\"serverInfo\":{\"name\":\"bank\",\"version\":\"1\"}}" ;;
	*'"tools/list"'*) echo "$$ list" >> log; answer "{\"tools\":[$(cat tools)]}" ;;
	*'"tools/call"'*)
		echo "$$ $(printf '%s' "$line" | sed -n 's/.*"name":"\([a-z0-9]*\)".*/\1/p')" >> log
		answer '{"content":[],"structuredContent":{"ok":true}}' ;;
	esac
done
`

// rug is an MCP server that is pulled from under a run: a child in a folder, or a site.
type rug struct {
	folder string
	*site
}

func (r *rug) file(name string) string { return filepath.Join(r.folder, name) }

func (r *rug) put(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(r.file(name), []byte(text), 0o600))
}

// newRug is a server that lists the tools pay and look.
func newRug(t *testing.T, remote bool) *rug {
	t.Helper()
	r := &rug{folder: t.TempDir()}
	r.put(t, "tools", payTool+","+lookTool)
	r.put(t, "log", "")
	if remote {
		r.site = newSite(t, r.folder)
		return r
	}
	require.NoError(t, os.Mkdir(r.file("lib"), 0o700))
	for name, text := range map[string]string{
		"main.sh": rugScript, "lib/answer": `answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }` + "\n",
		"lock": "{}", "words": "Be kind.",
	} {
		r.put(t, name, text)
	}
	shell, err := os.ReadFile("/bin/sh")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(r.file("sh"), shell, 0o700))
	return r
}

// server is how the server is configured.
func (r *rug) server() mcp.Server {
	if r.site != nil {
		return mcp.Server{
			URL: r.site.URL + "/mcp", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
			TLS: mcp.TLS{CAFile: r.file("ca.pem"), Pins: r.pins},
		}
	}
	return mcp.Server{
		Command: r.file("sh"), Args: []string{"main.sh"}, Dir: r.folder, Base: r.folder, Pin: []string{r.file("main.sh"), r.file("lib"), r.file("lock")},
		Env: map[string]string{"MODE": "production"}, Public: []string{"MODE"},
	}
}

// change changes the server as if from outside.
func (r *rug) change(t *testing.T, script string, turn func(*site)) {
	t.Helper()
	if r.site != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		turn(r.site)
		return
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", script)
	run.Dir = r.folder
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// kill ends the process that the server is, or the sessions of a site.
func (r *rug) kill(t *testing.T) {
	t.Helper()
	if r.site != nil {
		r.change(t, "", forget)
		return
	}
	lines := r.lines(t)
	pid, _, _ := strings.Cut(lines[len(lines)-1], " ")
	id, err := strconv.Atoi(pid)
	require.NoError(t, err)
	p, err := os.FindProcess(id)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
}

func (r *rug) lines(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(r.file("log"))
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// got is what the server got, in its order. What follows a start is by that process, or in that session.
func (r *rug) got(t *testing.T) string {
	t.Helper()
	var all []string
	begun := ""
	for _, line := range r.lines(t) {
		by, what, _ := strings.Cut(line, " ")
		if what == "start" {
			begun = by
		}
		require.Equal(t, begun, by, "all in one session: %q", r.lines(t))
		if what != "" {
			all = append(all, what)
		}
	}
	return strings.Join(all, " ")
}

// site is a remote MCP server, in the folder of a rug. Each of its responses ends the connection, so that
// what it becomes is seen by the request that follows.
type site struct {
	*httptest.Server
	t      *testing.T
	folder string
	// pins are the server's keys. other is a certificate of the same authority for another key.
	pins  []string
	other *tls.Certificate

	mu sync.Mutex
	// cert is the server's.
	cert  *tls.Certificate
	after map[string]func(*site)
	// sessions are those that have begun, of which the first forgotten ones have ended.
	sessions, forgotten int
}

func newSite(t *testing.T, folder string) *site {
	t.Helper()
	ours := testca.New(t, "authority")
	s := &site{t: t, folder: folder, after: map[string]func(*site){}}
	s.holds(os.WriteFile(filepath.Join(folder, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.Cert.Raw}), 0o600))
	cert, other := ours.Server(t, "one"), ours.Server(t, "two")
	s.cert, s.other = &cert, &other
	s.pins = []string{testca.Pin(cert.Leaf)}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return &tls.Config{Certificates: []tls.Certificate{*s.cert}, MinVersion: tls.VersionTLS13}, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// holds fails the test, from whatever goroutine, if there is an error.
func (s *site) holds(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

// forget ends all sessions.
func forget(s *site) { s.forgotten = s.sessions }

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Connection", "close")
	var q struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&q) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	session, event, result := r.Header.Get("Mcp-Session-Id"), "", ""
	if n, err := strconv.Atoi(session); err == nil && n <= s.forgotten {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch q.Method {
	case "initialize":
		s.sessions++
		session = fmt.Sprint(s.sessions)
		w.Header().Set("Mcp-Session-Id", session)
		s.note(session, "start")
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"instructions":"Be kind.","serverInfo":{"name":"bank","version":"1"}}`
	case "tools/list":
		s.note(session, "list")
		tools, err := os.ReadFile(filepath.Join(s.folder, "tools"))
		s.holds(err)
		event, result = "listed", `{"tools":[`+string(tools)+`]}`
	case "tools/call":
		s.note(session, q.Params.Name)
		event, result = "called", `{"content":[],"structuredContent":{"ok":true}}`
	default:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if turn := s.after[event]; turn != nil {
		turn(s)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

// note logs what the site got, in which session.
func (s *site) note(session, what string) {
	f, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintln(f, session, what)
		err = errors.Join(err, f.Close())
	}
	s.holds(err)
}
