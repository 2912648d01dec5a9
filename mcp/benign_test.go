//go:build unix

package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	protocol "github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
)

// varied is a listing that is another one each time, while the pinned tool in it is the same.
type varied struct {
	mu sync.Mutex
	n  int // listings so far
}

// variations are what varies.
var variations = []string{"pages", "empty pages", "cursors", "order", "icons", "new tools", "tools gone", "list_changed"}

// variedMode is the start of the mode of a server whose listing varies.
const variedMode = "varied: "

const changedNote = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// page is the result of one request for a page.
func (v *varied) page(how, cursor string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if cursor == "" {
		v.n++
	}
	all := []string{echoTool}
	for i := range 5 {
		all = append(all, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
	}
	size, prefix := 2, ""
	switch how {
	case "pages":
		size = 1 + v.n%len(all)
	case "cursors":
		prefix = strings.Repeat("é\u202e\\\"", v.n)
	case "order":
		all = slices.Concat(all[v.n%len(all):], all[:v.n%len(all)])
	case "icons":
		all[0] = strings.Replace(echoTool, `}}`, fmt.Sprintf(`},"icons":[{"src":"data:,%d"}]}`, v.n), 1)
	case "new tools":
		for i := range v.n {
			all = append(all, fmt.Sprintf(`{"name":"echo%d","description":"says it again","inputSchema":{"type":"object"}}`, i))
		}
	case "tools gone":
		all = all[:1+v.n%5]
	}
	at, _ := strconv.Atoi(cursor[strings.LastIndex(cursor, ".")+1:])
	if how == "empty pages" && at < v.n {
		return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, at+1)
	} else if how == "empty pages" {
		return `{"tools":[` + strings.Join(all, ",") + `]}`
	}
	next := ""
	if at+size < len(all) {
		next = `,"nextCursor":` + quote(fmt.Sprintf("%s.%d", prefix, at+size))
	}
	return `{"tools":[` + strings.Join(all[at:min(at+size, len(all))], ",") + `]` + next + `}`
}

// listing is that of a server on stdio.
var listing varied

// vary answers listings on stdio that vary, or says that they do.
func (h *hostile) vary(m message) bool {
	how, ok := strings.CutPrefix(h.mode, variedMode)
	if !ok {
		return false
	}
	if how == "list_changed" {
		h.line(changedNote)
		defer h.line(changedNote)
	}
	switch {
	case m.Method == "tools/list" && strings.HasPrefix(how, "dies"):
		starts, _ := os.ReadFile(os.Getenv(startsVar))
		if strings.Count(string(starts), "\n") == 1 {
			os.Stdin.Close() // what is written from now on is read by nobody
			h.result(m.ID, `{"tools":[`+echoTool+`]}`)
			os.Exit(3)
		}
		h.result(m.ID, `{"tools":[`+map[bool]string{false: echoTool, true: changed["description"]}[how == "dies and changes"]+`]}`)
	case m.Method == "tools/list":
		h.result(m.ID, listing.page(how, m.Params.Cursor))
	case m.Method == "tools/call" && m.Params.Name == "echo" && how == "list_changed":
		h.result(m.ID, fmt.Sprintf(`{"content":[],"structuredContent":%s}`, m.Params.Arguments))
	default:
		return false
	}
	return true
}

// What does not count, whenever it happens: around a call and between calls, on every transport.
func TestVariationsAreNoDrift(t *testing.T) {
	print, err := fingerprint.Tool([]byte(echoTool))
	require.NoError(t, err)
	pin := Pin{Fingerprint: print.Digest, Again: true}
	for _, how := range variations {
		t.Run(how+"/stdio", func(t *testing.T) {
			s := hostileServer(t, variedMode+how)
			s.Env[startsVar] = filepath.Join(t.TempDir(), "starts")
			p := openPool(t, s, quiet)
			for range 4 {
				r, err := pinned(t, p, pin)
				require.NoError(t, err)
				require.JSONEq(t, `{"a":1}`, string(r.Structured))
			}
			require.Equal(t, 1, starts(t, s.Env[startsVar]))
		})
		t.Run(how+"/http", func(t *testing.T) {
			s, v := newSite(t), &varied{}
			s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
				result := v.result(how, m)
				switch {
				case r.Method != http.MethodPost || result == "":
					return false
				case how == "list_changed":
					emit(w, "data: %s", changedNote)
					emit(w, `data: {"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
					emit(w, "data: %s", changedNote)
				default:
					answer(w, m, result)
				}
				return true
			})
			p := s.pool(t)
			for range 4 {
				_, err := pinned(t, p, pin)
				require.NoError(t, err)
			}
			require.Equal(t, 1, s.beginnings())
			require.Equal(t, 8, v.n, "it was listed before each call and after it")
		})
		t.Run(how+"/sse", func(t *testing.T) {
			a := newAirwave(t)
			a.vary = how
			p := a.pool(t)
			for range 4 {
				_, err := pinned(t, p, pin)
				require.NoError(t, err)
			}
			streams, _ := a.seen()
			require.Equal(t, 1, streams)
			require.Equal(t, 8, a.varied.n, "it was listed before each call and after it")
		})
	}
}

// result is that of a listing or of a call over HTTP, or "".
func (v *varied) result(how string, m message) string {
	switch {
	case m.Method == "tools/list":
		return v.page(how, m.Params.Cursor)
	case m.Method == "tools/call" && how == "list_changed":
		return fmt.Sprintf(`{"content":[],"structuredContent":%s}`, m.Params.Arguments)
	}
	return ""
}

// A process that ends between the look and the call has not got it: the next one does, once it was
// looked at, too.
func TestReconnectIsLookedAt(t *testing.T) {
	print, err := fingerprint.Tool([]byte(echoTool))
	require.NoError(t, err)
	for how, kind := range map[string]contract.Kind{"dies": "", "dies and changes": contract.Drift} {
		t.Run(how, func(t *testing.T) {
			s, dir := hostileServer(t, variedMode+how), t.TempDir()
			s.Env[startsVar], s.Env[callsVar] = filepath.Join(dir, "starts"), filepath.Join(dir, "calls")
			_, err := pinned(t, openPool(t, s, quiet), Pin{Fingerprint: print.Digest, Again: true})
			if kind == "" {
				require.NoError(t, err)
				require.Equal(t, 1, starts(t, s.Env[callsVar]))
			} else {
				requireKind(t, kind, err)
				require.Zero(t, starts(t, s.Env[callsVar]))
			}
			require.Equal(t, 2, starts(t, s.Env[startsVar]))
		})
	}
}

// What mcp-go drops from a definition counts: two tools that are one to its types have two
// fingerprints, and what a pool lists has both.
func TestDroppedKeywordsCount(t *testing.T) {
	const tool = `{"name":"echo","description":"says it again","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}%s}%s}`
	for _, c := range []struct{ name, schema, rest string }{
		{"unevaluatedProperties", `,"unevaluatedProperties":%s`, ""},
		{"oneOf", `,"oneOf":[{"required":["%s"]}]`, ""},
		{"$schema", `,"$schema":"https://example.com/%s"`, ""},
		{"description of the schema", `,"description":"%s"`, ""},
		{"x-keyword", `,"x-scope":"%s"`, ""},
		{"member", "", `,"x-later":{"a":"%s"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			made := func(value string) string {
				if c.name == "unevaluatedProperties" {
					value = map[string]string{"was": "true", "is": "false"}[value]
				}
				return fmt.Sprintf(tool, strings.Replace(c.schema, "%s", value, 1), strings.Replace(c.rest, "%s", value, 1))
			}
			was, is := made("was"), made("is")
			var typed [2]protocol.Tool
			require.NoError(t, json.Unmarshal([]byte(was), &typed[0]))
			require.NoError(t, json.Unmarshal([]byte(is), &typed[1]))
			require.Equal(t, typed[0], typed[1], "mcp-go keeps it by now: choose another")

			p := hostilePool(t, "mutable")
			become(t, p, `{"tools":[`+was+`]}`, "")
			pin := pinOf(t, p, "echo", false)
			_, err := pinned(t, p, pin)
			require.NoError(t, err)
			become(t, p, `{"tools":[`+is+`]}`, "")
			_, err = pinned(t, p, pin)
			requireKind(t, contract.Drift, err)
		})
	}
}
