package host_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
)

// repeating is an MCP server that repeats the header Authorization of a call in whatever it answers,
// and of each request in what it asks to be logged.
type repeating struct {
	*httptest.Server
	// tokens are those that it has had.
	tokens map[string]bool
}

func newRepeating(t *testing.T) *repeating {
	s := &repeating{tokens: map[string]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *repeating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if json.Unmarshal(body, &m) != nil {
		return
	}
	said := r.Header.Get("Authorization")
	s.tokens[strings.TrimPrefix(said, "Bearer ")] = true
	frame := func(member, value string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%q:%s}`, m.ID, member, value)
	}
	block := fmt.Sprintf(`[{"type":"text","text":"you are %s"}]`, said)
	result := `{"content":` + block + `}`
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"` + said + `","version":"1"}}`
	case "tools/call":
	default:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch m.Params.Name {
	case "structured":
		result = `{"content":[],"structuredContent":{"` + said + `":["` + said + `"]}}`
	case "failing":
		result = `{"isError":true,"content":` + block + `}`
	case "long":
		result = `{"isError":true,"content":[{"type":"text","text":"` + strings.Repeat("x", 4000) + said + strings.Repeat("x", 9000) + `"}]}`
	case "faulty":
		_, _ = io.WriteString(w, frame("error", `{"code":-32000,"message":"not for `+said+`","data":{"who":"`+said+`"}}`))
		return
	case "refusing":
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, frame("error", `{"code":-32000,"message":"not for `+said+`"}`))
		return
	case "streaming":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"data\":%q}}\n\n", said)
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":%q}\n\n", said)
		fmt.Fprintf(w, "data: %s\n\n", frame("result", result))
		return
	}
	_, _ = io.WriteString(w, frame("result", result))
}

// TestTokensDoNotComeBack: a server that repeats the tokens that it was sent gets them into neither
// answers, nor errors, nor the log.
func TestTokensDoNotComeBack(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	pemKey := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	granted := 0
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		granted++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"granted-%d-0123456789abcdef","token_type":"Bearer"}`, granted)
	}))
	t.Cleanup(issuer.Close)
	for name, credential := range map[string]func(*mcp.Server){
		"JWT": func(s *mcp.Server) { s.JWT = &mcp.JWT{Key: pemKey, Issuer: "chimera"} },
		"OAuth": func(s *mcp.Server) {
			s.OAuth = &mcp.OAuth{Issuer: issuer.URL, TokenURL: issuer.URL, ClientID: "client", ClientSecret: "secret-of-client"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			site := newRepeating(t)
			server := mcp.Server{URL: site.URL, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
			credential(&server)
			var log buffer
			told := map[string]bool{}
			call, done := host.Tools(host.Options{
				MCP:     mcp.Options{Issued: func(token string, _ time.Time) { told[token] = true }},
				Servers: map[string]mcp.Server{"site": server},
				Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			said := map[string]string{}
			for _, tool := range []string{"result", "structured", "failing", "long", "faulty", "refusing", "streaming"} {
				answer, err := call.Call(t.Context(), activities.Request{
					Node: &plan.Node{ProviderType: plan.MCP, Provider: "site", Operation: tool}, Input: json.RawMessage(`{}`),
				})
				said[tool] = fmt.Sprint(err)
				for _, form := range answer.Forms {
					said[tool] += string(form)
				}
				if e := (*contract.Error)(nil); err != nil {
					require.ErrorAs(t, err, &e)
					said[tool] += string(e.Details) + fmt.Sprint(e.Cause)
				}
			}
			require.NoError(t, done())
			require.NotEmpty(t, site.tokens)
			require.Equal(t, site.tokens, told, "the caller's own function is called, too")
			for tool, text := range said {
				if tool != "long" {
					require.Contains(t, text, "[redacted]", tool)
				}
			}
			said["log"] = log.String()
			for token := range site.tokens {
				require.Greater(t, len(token), 20)
				for where, text := range said {
					require.NotContains(t, text, token, where)
					require.NotContains(t, text, token[len(token)-12:], where)
				}
			}
		})
	}
}
