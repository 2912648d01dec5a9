//go:build unix

package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
)

// attack is an answer to one method that no honest server gives. On every transport it is the same
// text: a line, the body of a response, or the data of an event.
type attack struct {
	method string
	write  func(w io.Writer, m message)
	// line is the kind of the failure on stdio and on a stream of events, and body that of a body over HTTP.
	line, body contract.Kind
	// long: it takes long, or much memory.
	long bool
}

// attackMode is the start of the mode of a server that attacks.
const attackMode = "attack: "

// attackedStart is the start of the mode of a server that attacks when it is asked who it is.
const attackedStart = "attack at the start: "

// attacked attacks, if a message is one that an attack answers.
func attacked(w io.Writer, name string, m message) bool {
	a, ok := attacks[name]
	if !ok || m.Method != a.method {
		return false
	}
	a.write(w, m)
	return true
}

// ignored is a mark that follows an attack on a stream that goes on after it: once that is read, the attack is.
const ignored = changedNote

// attack attacks on stdio.
func (h *hostile) attack(m message) bool {
	if name, ok := strings.CutPrefix(h.mode, attackedStart); ok && m.Method == "initialize" {
		attacks[name].write(os.Stdout, m)
	} else if name, ok := strings.CutPrefix(h.mode, attackMode); !ok || !attacked(os.Stdout, name, m) {
		return false
	}
	fmt.Println()
	fmt.Println(ignored)
	return true
}

// says answers with a result, of which %s is the rest, as often as it says.
func says(before, rest string, times int, after string) func(io.Writer, message) {
	return func(w io.Writer, m message) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":`+"%s", m.ID, before)
		much(w, rest, times)
		fmt.Fprint(w, after, "}")
	}
}

// much writes a text many times, until nobody reads it.
func much(w io.Writer, text string, times int) {
	each := max(1, (64<<10)/len(text))
	chunk := strings.Repeat(text, each)
	for ; times > 0; times -= each {
		if _, err := io.WriteString(w, chunk[:min(each, times)*len(text)]); err != nil {
			return
		}
	}
}

// million writes the tools from one number to another, with short names.
func million(w io.Writer, from, to int) {
	var page strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&page, `,{"name":"%s"}`, strconv.FormatInt(int64(i), 36))
		if page.Len() > 64<<10 || i == to-1 {
			text := page.String()
			if i < from+10_000 && strings.HasPrefix(text, `,{"name":"`+strconv.FormatInt(int64(from), 36)+`"`) {
				text = text[1:]
			}
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
			page.Reset()
		}
	}
}

const (
	forever = 1 << 40
	callOf  = "tools/call"
	listOf  = "tools/list"
	content = `{"content":[{"type":"text","text":"`
)

// attacks are known by what they do.
var attacks = map[string]attack{
	"1 GiB of text":           {callOf, says(content, "x", 1<<30, `"}]}`), contract.TooLarge, contract.TooLarge, true},
	"1 GiB of escapes":        {callOf, says(content, `\u0000`, 1<<30/6, `"}]}`), contract.TooLarge, contract.TooLarge, true},
	"1 GiB of values":         {callOf, says(`{"structuredContent":[`, "1,", 1<<29, `1]}`), contract.TooLarge, contract.TooLarge, true},
	"many values":             {callOf, says(`{"content":[],"structuredContent":{"a":[`, "{},", 5<<20, `1]}}`), contract.TooLarge, contract.TooLarge, true},
	"much text within bounds": {callOf, says(`{"isError":true,"content":[{"type":"text","text":"`, `\u0041`, 15<<20/6, `"}]}`), contract.ToolError, contract.ToolError, true},
	"a line without end":      {callOf, func(w io.Writer, _ message) { much(w, "x", forever) }, contract.TooLarge, contract.TooLarge, true},
	"white space without end": {callOf, func(w io.Writer, _ message) { much(w, " ", forever) }, contract.TooLarge, contract.TooLarge, true},
	"deep":                    {callOf, says(`{"content":[],"structuredContent":{"a":`, "[", 5000, strings.Repeat("]", 5000)+"}}"), contract.TooLarge, contract.TooLarge, false},
	"too deep for a message":  {callOf, says(`{"content":[],"structuredContent":`, `{"a":`, 1<<20, "1"+strings.Repeat("}", 1<<20)+"}"), contract.Timeout, contract.ServerError, false},
	"deep without end":        {callOf, func(w io.Writer, _ message) { much(w, "[", forever) }, contract.TooLarge, contract.TooLarge, true},
	"two of a key":            {callOf, says(`{"content":[],"structuredContent":{"a":1,`, `"a":2`, 1, `}}`), contract.InvalidOutput, contract.InvalidOutput, false},
	"two of a key, deep":      {callOf, says(`{"content":[],"structuredContent":{"b":[{"a":1,`, `"\u0061":2`, 1, `}]}}`), contract.InvalidOutput, contract.InvalidOutput, false},
	"two results": {callOf, func(w io.Writer, m message) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]},"result":{"content":[]}}`, m.ID)
	}, contract.Timeout, contract.ServerError, false},
	"huge exponent":          {callOf, says(`{"content":[],"structuredContent":{"a":`, "1e999999", 1, `}}`), contract.TooLarge, contract.TooLarge, false},
	"tiny exponent":          {callOf, says(`{"content":[],"structuredContent":{"a":`, "1e-999999999999999999999", 1, `}}`), contract.TooLarge, contract.TooLarge, false},
	"huge number":            {callOf, says(`{"content":[],"structuredContent":{"a":1`, "0", 1<<20, `}}`), contract.TooLarge, contract.TooLarge, false},
	"huge code of an error":  {callOf, faults(`{"code":1e999999,"message":"no"}`), contract.ServerError, contract.ServerError, false},
	"control characters":     {callOf, says(content, "\x00\x1b]0;x\x07\x7f", 1, `"}]}`), contract.Timeout, contract.ServerError, false},
	"no UTF-8":               {callOf, says(content, "\xff\xc0\xaf", 1, `"}]}`), contract.InvalidOutput, contract.InvalidOutput, false},
	"a key with controls":    {callOf, says(`{"content":[],"structuredContent":{"a\u0000\u001b[2J":1`, `,"a\u0000\u001b[2J":2`, 1, `}}`), contract.InvalidOutput, contract.InvalidOutput, false},
	"controls in a failure":  {callOf, says(`{"isError":true,"content":[{"type":"text","text":"`, `\u001b[2J\u0000\u202e\u009b`, 1, `"}]}`), contract.ToolError, contract.ToolError, false},
	"controls in an error":   {callOf, faults(`{"code":1,"message":"\u001b[2J\u0000\u202e"}`), contract.ServerError, contract.ServerError, false},
	"a drip":                 {callOf, drip, contract.Timeout, contract.Timeout, false},
	"a drip of a list":       {listOf, drip, contract.Timeout, contract.Timeout, false},
	"another's id":           {callOf, func(w io.Writer, _ message) { fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`) }, contract.Timeout, contract.ServerError, false},
	"10^6 tools on one page": {listOf, tools(1_000_000, 1_000_000), contract.TooLarge, contract.TooLarge, true},
	"10^6 tools on pages":    {listOf, tools(9_999, 1_000_000), contract.TooLarge, contract.TooLarge, true},
	"pages without end":      {listOf, tools(0, forever), contract.TooLarge, contract.TooLarge, false},
	"large pages":            {listOf, says(`{"nextCursor":"a","tools":[{"name":"a","description":"`, "x", 9<<20, `"}]}`), contract.TooLarge, contract.TooLarge, true},
	"a deep tool":            {listOf, says(`{"tools":[{"name":"a","inputSchema":`, `{"not":`, 5000, "1"+strings.Repeat("}", 5000)+"}]}"), contract.TooLarge, contract.TooLarge, false},
	"a tool, two of a key":   {listOf, says(`{"tools":[{"name":"a","inputSchema":{"type":"object",`, `"type":"array"`, 1, `}}]}`), contract.InvalidOutput, contract.InvalidOutput, false},
	"a tool's huge number":   {listOf, says(`{"tools":[{"name":"a","inputSchema":{"maximum":`, "1e999999", 1, `}}]}`), contract.TooLarge, contract.TooLarge, false},
	"a long cursor":          {listOf, says(`{"tools":[],"nextCursor":"`, "x", 17<<20, `"}`), contract.TooLarge, contract.TooLarge, true},
}

func faults(fault string) func(io.Writer, message) {
	return func(w io.Writer, m message) { fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, fault) }
}

// dripped counts what drip has written in this process.
var dripped atomic.Int64

// drip writes a byte of an answer at a time, for ever.
func drip(w io.Writer, m message) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
	for range time.Tick(5 * time.Millisecond) {
		if _, err := io.WriteString(w, "x"); err != nil {
			return
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		dripped.Add(1)
	}
}

// tools lists so many tools, each page with at most so many.
func tools(page, all int) func(io.Writer, message) {
	return func(w io.Writer, m message) {
		at, _ := strconv.Atoi(m.Params.Cursor)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[`, m.ID)
		million(w, at, min(at+page, all))
		fmt.Fprint(w, "]")
		if at+page < all {
			fmt.Fprintf(w, `,"nextCursor":"%d"`, at+max(page, 1))
		}
		fmt.Fprint(w, "}}")
	}
}

// peak is by how much the heap of this process grew at most, in bytes, while f ran.
func peak(f func()) uint64 {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(heap)
		return heap[0].Value.Uint64()
	}
	runtime.GC()
	before, most := read(), uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, read())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	f()
	close(done)
	<-ended
	return most - min(most, before)
}

// maxHeap bounds the heap that one answer may cost, whatever it is, with the default bounds: an
// answer of MaxLine, and its values.
const maxHeap = 384 << 20

// TestManyAttacks: as many large answers at once as there may be cost no more than their texts, and the
// values of few.
func TestManyAttacks(t *testing.T) {
	lengthy.Skip(t)
	idle(t)
	s := newSite(t)
	s.meanwhile(func(w http.ResponseWriter, _ *http.Request, m message) bool {
		w.Header().Set("Content-Type", "application/json")
		return attacked(w, "many values", m)
	})
	p := s.pool(t)
	grown := peak(func() {
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				if _, err := p.Call(t.Context(), "h", "echo", nil); failure(t, err).Kind != contract.TooLarge {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
	t.Logf("%d MiB", grown>>20)
	require.Less(t, grown, uint64(2*32*quiet.withDefaults().MaxLine+maxHeavy*maxHeap/2))
}

// TestAttacks: whatever a server answers, on stdio, and on HTTP as a body, as an event of one response or on
// the stream of all, the call fails in time, with the right kind and with bounded memory, and the same pool
// serves the same server again, and others.
func TestAttacks(t *testing.T) {
	for name, a := range attacks {
		for _, transport := range []string{"stdio", "http", "stream", "sse"} {
			t.Run(name+"/"+transport, func(t *testing.T) {
				if a.long {
					lengthy.Skip(t)
				}
				idle(t)
				honest := newSite(t)
				servers, want := map[string]Server{"honest": {URL: honest.URL + "/mcp", Addresses: here}}, a.line
				switch transport {
				case "stdio":
					servers["h"] = hostileServer(t, attackMode+name)
				case "sse":
					s := newAirwave(t)
					s.attack = name
					servers["h"] = Server{URL: s.URL + "/sse", SSE: true, Addresses: here, Headers: map[string]string{"Authorization": "Bearer x"}}
				case "stream":
					s := newSite(t)
					s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
						if r.Method != http.MethodPost || m.Method != a.method {
							return false
						}
						w.Header().Set("Content-Type", "text/event-stream")
						fmt.Fprint(w, "data: ")
						attacked(w, name, m)
						emit(w, "")
						return true
					})
					servers["h"] = Server{URL: s.URL + "/mcp", Addresses: here}
					if a.line != a.body {
						want = contract.Transport // where another message might still be the answer, the stream has ended
					}
				default:
					s := newSite(t)
					s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
						if r.Method == http.MethodPost && m.Method == a.method {
							w.Header().Set("Content-Type", "application/json")
						}
						return attacked(w, name, m)
					})
					servers["h"], want = Server{URL: s.URL + "/mcp", Addresses: here}, a.body
				}
				var reads atomic.Int64
				o := quiet
				o.Changed = func(string) { reads.Add(1) }
				p := NewPool(servers, o)
				defer func() { within(t, func() { require.NoError(t, p.Close()) }) }()
				_, err := p.Introduction(t.Context(), "h")
				require.NoError(t, err)
				call := func(ctx context.Context) error {
					if a.method == listOf {
						_, err := p.Tools(ctx, "h")
						return err
					}
					_, err := p.Call(ctx, "h", "echo", nil)
					return err
				}
				attack := func() error {
					read, drops, more := reads.Load(), dripped.Load(), p.sendsMore()
					switch {
					case want != contract.Timeout:
						return call(t.Context())
					case !strings.HasPrefix(name, "a drip"):
						return late(t, func() bool { return reads.Load() > read }, call)
					}
					// Another process does not count here what drips, and an earlier drip may go on.
					return late(t, func() bool { return more() && (transport == "stdio" || dripped.Load() > drops) }, call)
				}
				for range 2 {
					grown := peak(func() { err = attack() })
					e := requireKind(t, want, err)
					t.Logf("%d MiB: %.200s", grown>>20, e.Message)
					require.Less(t, grown, uint64(maxHeap))
					require.LessOrEqual(t, len(e.Message), 2*maxMessage)
					_, err := p.Call(t.Context(), "honest", "count", nil)
					require.NoError(t, err)
				}
			})
		}
	}
}

// TestAttacksAtTheStart: what a server answers when it is asked who it is costs no more than what it answers to
// a call. It has not begun, nothing else is sent to it, and others are served.
func TestAttacksAtTheStart(t *testing.T) {
	for name, a := range attacks {
		for _, transport := range []string{"stdio", "http", "stream"} {
			t.Run(name+"/"+transport, func(t *testing.T) {
				if a.long {
					lengthy.Skip(t)
				}
				idle(t)
				honest := newSite(t)
				servers := map[string]Server{"honest": {URL: honest.URL + "/mcp", Addresses: here}}
				calls := filepath.Join(t.TempDir(), "calls")
				var s *site
				if transport == "stdio" {
					h := hostileServer(t, attackedStart+name)
					h.Env[callsVar] = calls
					servers["h"] = h
				} else {
					s = newSite(t)
					s.meanwhile(func(w http.ResponseWriter, r *http.Request, m message) bool {
						if m.Method != "initialize" {
							return false
						}
						if transport == "http" {
							w.Header().Set("Content-Type", "application/json")
							a.write(w, m)
							return true
						}
						w.Header().Set("Content-Type", "text/event-stream")
						fmt.Fprint(w, "data: ")
						a.write(w, m)
						emit(w, "")
						return true
					})
					servers["h"] = Server{URL: s.URL + "/mcp", Addresses: here}
				}
				o := quiet
				if a.line == contract.Timeout {
					o.StartTimeout = soon
				}
				p := NewPool(servers, o)
				defer func() { within(t, func() { require.NoError(t, p.Close()) }) }()
				var err error
				grown := peak(func() { _, err = p.Call(t.Context(), "h", "echo", nil) })
				e := requireKind(t, contract.Unsent, err)
				t.Logf("%d MiB: %.200s", grown>>20, e.Message)
				require.Less(t, grown, uint64(maxHeap))
				require.LessOrEqual(t, len(e.Message), 2*maxMessage)
				if o.StartTimeout == bound {
					_, err = p.Call(t.Context(), "honest", "count", nil)
					require.NoError(t, err)
				}
				if s == nil {
					require.NoFileExists(t, calls)
				} else {
					require.Zero(t, s.called())
				}
			})
		}
	}
}
