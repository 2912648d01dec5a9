package activities_test

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

// rugScript is an MCP server that logs what it gets, with its process id, and does what the files "listed"
// and "called" say once it has answered.
const rugScript = `. lib/answer
echo "$$ start" >> log
while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case "$line" in
	*'"initialize"'*) answer "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"instructions\":\"$(cat words)\",\"serverInfo\":{\"name\":\"bank\",\"version\":\"1\"}}" ;;
	*'"tools/list"'*) echo "$$ list" >> log; answer "{\"tools\":[$(cat tools)]}"; . ./listed ;;
	*'"tools/call"'*)
		echo "$$ $(printf '%s' "$line" | sed -n 's/.*"name":"\([a-z0-9]*\)".*/\1/p')" >> log
		answer '{"content":[],"structuredContent":{"ok":true}}'; . ./called ;;
	esac
done
`

// rug is an MCP server that is pulled from under a run: a child in a folder, or a site.
type rug struct {
	folder string
	*rugSite
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
	r.put(t, "tools", driftPay+","+driftLook)
	r.put(t, "log", "")
	if remote {
		r.rugSite = newRugSite(t, r.folder)
		return r
	}
	require.NoError(t, os.Mkdir(r.file("lib"), 0o700))
	for name, text := range map[string]string{
		"main.sh": rugScript, "lib/answer": `answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }` + "\n",
		"lock": "{}", "words": "Be kind.", "listed": "", "called": "",
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
	if r.rugSite != nil {
		return mcp.Server{
			URL: r.rugSite.URL + "/mcp", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
			TLS: mcp.TLS{CAFile: r.file("ca.pem"), Pins: r.pins},
		}
	}
	return mcp.Server{
		Command: r.file("sh"), Args: []string{"main.sh"}, Dir: r.folder, Base: r.folder, Pin: []string{r.file("main.sh"), r.file("lib"), r.file("lock")},
		Env: map[string]string{"MODE": "production"}, Public: []string{"MODE"},
	}
}

// change changes the server as if from outside.
func (r *rug) change(t *testing.T, script string, turn func(*rugSite)) {
	t.Helper()
	if r.rugSite != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		turn(r.rugSite)
		return
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", script)
	run.Dir = r.folder
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// after has the server change itself once it has answered a listing ("listed") or a call ("called").
func (r *rug) after(t *testing.T, event, script string, turn func(*rugSite)) {
	t.Helper()
	if r.rugSite == nil {
		r.put(t, event, script)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rugSite.after[event] = turn
}

// kill ends the process that the server is, or the sessions of a site.
func (r *rug) kill(t *testing.T) {
	t.Helper()
	if r.rugSite != nil {
		r.change(t, "", rugForget)
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

// rugSite is a remote MCP server, in the folder of a rug. Each of its responses ends the connection, so that
// what it becomes is seen by the request that follows.
type rugSite struct {
	*httptest.Server
	t      *testing.T
	folder string
	// pins are the server's keys. other is a certificate of the same authority for another key, and
	// strange one of the authority stranger.
	pins           []string
	other, strange *tls.Certificate
	stranger       *testca.Authority

	mu sync.Mutex
	// cert is the server's. elsewhere, if not "", is where it redirects to. words are its instructions.
	cert      *tls.Certificate
	elsewhere string
	words     string
	after     map[string]func(*rugSite)
	// sessions are those that have begun, of which the first forgotten ones have ended.
	sessions, forgotten int
	// status is what it answers to the next refusals calls, which it has taken all the same.
	status, refusals int
}

func newRugSite(t *testing.T, folder string) *rugSite {
	t.Helper()
	ours := testca.New(t, "authority")
	s := &rugSite{t: t, folder: folder, words: "Be kind.", stranger: testca.New(t, "stranger"), after: map[string]func(*rugSite){}}
	s.trust("ca.pem", ours)
	s.trust("strange.pem", s.stranger)
	cert, other, strange := ours.Server(t, "one"), ours.Server(t, "two"), s.stranger.Server(t, "one")
	s.cert, s.other, s.strange = &cert, &other, &strange
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

// trust makes an authority the one of a file: clients trust that of "ca.pem".
func (s *rugSite) trust(file string, a *testca.Authority) {
	s.holds(os.WriteFile(filepath.Join(s.folder, file), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw}), 0o600))
}

// holds fails the test, from whatever goroutine, if there is an error.
func (s *rugSite) holds(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

// rugForget ends all sessions.
func rugForget(s *rugSite) { s.forgotten = s.sessions }

func (s *rugSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Connection", "close")
	if r.URL.Path != "/mcp" {
		s.note("elsewhere", r.URL.Path)
	}
	if s.elsewhere != "" {
		http.Redirect(w, r, s.elsewhere, http.StatusTemporaryRedirect)
		return
	}
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
		result = fmt.Sprintf(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"instructions":%q,"serverInfo":{"name":"bank","version":"1"}}`, s.words)
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
	if event == "called" && s.refusals > 0 {
		s.refusals--
		w.WriteHeader(s.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

// note logs what the site got, in which session.
func (s *rugSite) note(session, what string) {
	f, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintln(f, session, what)
		err = errors.Join(err, f.Close())
	}
	s.holds(err)
}
