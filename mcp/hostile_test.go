//go:build unix

package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The test binary is also the server that the tests call: TestMain runs
// [hostile.run] where this variable is set. Its value is how the server starts;
// what a call does is told by the tool's name.
const hostileVar = "MCP_TEST_SERVER"

// startsVar names a file that gets a line for each start.
const startsVar = "MCP_TEST_STARTS"

// callsVar names a file that gets a line for each call, and wordsVar one with the instructions.
const (
	callsVar = "MCP_TEST_CALLS"
	wordsVar = "MCP_TEST_WORDS"
)

// gateVar names a file that the server waits for before it shakes hands.
const gateVar = "MCP_TEST_GATE"

type hostile struct {
	mode string
	in   *bufio.Reader

	mu        sync.Mutex
	waiting   []json.RawMessage
	peak      int
	cancelled []json.RawMessage
	asks      map[string]func(ok bool)
	calls     int
	// pings counts those that it got.
	pings int
	// lists counts listings, and tools is what they say in the mode "mutable".
	lists       int
	tools, then string
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Cursor    string          `json:"cursor"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      json.RawMessage `json:"_meta"`
		Protocol  string          `json:"protocolVersion"`
		URI       string          `json:"uri"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (h *hostile) line(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

func (h *hostile) result(id json.RawMessage, result string) {
	h.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (h *hostile) fault(id json.RawMessage, fault string) {
	h.line(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, fault)
}

func text(s string) string {
	raw, _ := json.Marshal(s)
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, raw)
}

// exactly is an answer of n bytes.
func exactly(id json.RawMessage, n int) string {
	begin, end := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id), `"}]}}`
	return begin + strings.Repeat("x", n-len(begin)-len(end)) + end
}

// note adds a line to the file that a variable names, if it does.
func note(variable string) {
	path := os.Getenv(variable)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, os.Getpid())
		f.Close()
	}
}

func (h *hostile) run() {
	note(startsVar)
	for gate := os.Getenv(gateVar); gate != ""; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(gate); err == nil {
			break
		}
	}
	switch h.mode {
	case "exits":
		fmt.Fprintln(os.Stderr, "bad flag")
		os.Exit(2)
	case "rubbish only":
		for i := range 1000 {
			fmt.Printf("rubbish %d\n", i)
		}
	case "floods at once":
		for {
			fmt.Println(strings.Repeat("x", 1000))
		}
	}
	h.asks = map[string]func(bool){}
	h.in = bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := h.in.ReadBytes('\n')
		if err != nil {
			if h.mode == "stays" {
				select {}
			}
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		h.take(m)
	}
}

func (h *hostile) take(m message) {
	if h.attack(m) || h.vary(m) {
		return
	}
	switch m.Method {
	case "":
		var id string
		_ = json.Unmarshal(m.ID, &id)
		if then := h.asks[id]; then != nil {
			delete(h.asks, id)
			then(m.Error == nil)
		}
	case "initialize":
		h.initialize(m)
	case "server/discover":
		if h.mode == "modern" {
			h.result(m.ID, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`)
			return
		}
		h.fault(m.ID, `{"code":-32601,"message":"no such method"}`)
	case "notifications/cancelled":
		h.cancelled = append(h.cancelled, m.Params.RequestID)
	case "ping":
		h.pings++
		if h.mode == "no ping" {
			h.fault(m.ID, `{"code":-32601,"message":"no such method"}`)
			return
		}
		h.result(m.ID, `{}`)
	case "tools/list":
		h.list(m)
	case "tools/call":
		h.calls++
		note(callsVar)
		h.call(m)
	case "resources/list", "resources/templates/list":
		h.lists++
		page, _ := strconv.Atoi(m.Params.Cursor)
		mode := map[string]string{"resources/list": "resources", "resources/templates/list": "templates"}[m.Method]
		if pages := strings.Split(h.mode, "\n"); pages[0] == mode && page+1 < len(pages) {
			h.result(m.ID, pages[page+1])
			return
		}
		h.fault(m.ID, `{"code":-32601,"message":"no such method"}`)
	case "resources/read":
		h.calls++
		h.read(m)
	}
}

func (h *hostile) initialize(m message) {
	switch h.mode {
	case "hangs":
	case "refuses":
		h.fault(m.ID, `{"code":-32603,"message":"not today"}`)
	case "modern":
		h.fault(m.ID, `{"code":-32601,"message":"no such method"}`)
	case "odd version":
		h.result(m.ID, `{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"h","version":"1"}}`)
	case "odd answer":
		h.result(m.ID, `[1,2,3]`)
	case "introduces itself":
		words, _ := os.ReadFile(os.Getenv(wordsVar))
		said, _ := json.Marshal(string(words))
		h.result(m.ID, fmt.Sprintf(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"x":[1.0]},"instructions":%s,"serverInfo":{"name":"h","version":"1"},"later":1}`, said))
	case "introduces itself twice":
		h.result(m.ID, `{"protocolVersion":"2025-06-18","capabilities":{},"instructions":"a","instructions":"b","serverInfo":{"name":"h","version":"1"}}`)
	case "rubbish":
		fmt.Println("Starting up…")
		fmt.Println(`{"level":"info"}`)
		fmt.Println(`{"jsonrpc":"2.0","id":1}{"jsonrpc":"2.0"}`)
		fmt.Println(`[{"jsonrpc":"2.0","id":1,"result":{}}]`)
		fmt.Println("\x00\xff\xfe")
		fmt.Println()
		fallthrough
	default:
		h.result(m.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`)
	}
}

func (h *hostile) list(m message) {
	tool := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","x-kept":9007199254740993}}`, name)
	}
	page, _ := strconv.Atoi(m.Params.Cursor)
	h.lists++
	switch h.mode {
	case "mutable":
		switch h.tools {
		case "":
			h.result(m.ID, `{"tools":[{"name":"echo","description":"says it again","inputSchema":{"type":"object"}}]}`)
		case "die":
			os.Exit(3)
		case "fault":
			h.fault(m.ID, `{"code":-32603,"message":"not now"}`)
		case "hang":
			h.line(changedNote) // says that the request is here
		default:
			h.result(m.ID, h.tools)
		}
	case "pages":
		next := fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
		if page == 2 {
			next = ""
		}
		h.result(m.ID, fmt.Sprintf(`{"tools":[%s,%s]%s}`, tool(fmt.Sprintf("a%d", page)), tool(fmt.Sprintf("b%d", page)), next))
	case "pages without end":
		h.result(m.ID, fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, tool(fmt.Sprintf("a%d", page)), page+1))
	case "same cursor":
		h.result(m.ID, `{"tools":[],"nextCursor":"0"}`)
	case "same name":
		h.result(m.ID, fmt.Sprintf(`{"tools":[%s,%s]}`, tool("a"), tool("a")))
	case "no name":
		h.result(m.ID, `{"tools":[{"Name":"a"}]}`)
	case "no list":
		h.result(m.ID, `{"Tools":[]}`)
	case "no tools":
		h.fault(m.ID, `{"code":-32601,"message":"no such method"}`)
	default:
		h.result(m.ID, fmt.Sprintf(`{"tools":[%s]}`, tool("echo")))
	}
}

// read answers with what the URI says.
func (h *hostile) read(m message) {
	how, rest, _ := strings.Cut(m.Params.URI, ":")
	switch how {
	case "calls":
		h.result(m.ID, fmt.Sprintf(`{"contents":[{"uri":%q,"text":"%d after %d"}]}`, m.Params.URI, h.calls, h.lists))
	case "result":
		quoted, _ := json.Marshal(m.Params.URI)
		h.result(m.ID, strings.ReplaceAll(rest, "$uri", string(quoted)))
	case "fault":
		h.fault(m.ID, rest)
	case "long":
		n, _ := strconv.Atoi(rest)
		h.result(m.ID, fmt.Sprintf(`{"contents":[{"uri":%q,"text":%q}]}`, m.Params.URI, strings.Repeat("x", n)))
	case "ask":
		h.ask("sampling/createMessage", "q", func(bool) {})
	case "hang":
	case "die":
		os.Exit(3)
	}
}

// ask sends a request of the server's own.
func (h *hostile) ask(method, id string, then func(ok bool)) {
	h.asks[id] = then
	h.line(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{}}`, id, method)
}

func (h *hostile) call(m message) {
	id, args := m.ID, string(m.Params.Arguments)
	name, rest, _ := strings.Cut(m.Params.Name, ":")
	n, _ := strconv.Atoi(rest)
	switch name {
	case "echo":
		if h.then != "" {
			h.tools = h.then
		}
		h.result(id, fmt.Sprintf(`{"content":[],"structuredContent":%s}`, args))
	case "lists":
		h.result(id, text(strconv.Itoa(h.lists)))
	case "become":
		// From now on, or from the next call of echo on, the listing is the argument's word.
		var in struct{ Tools, Then string }
		_ = json.Unmarshal(m.Params.Arguments, &in)
		h.tools, h.then = in.Tools, in.Then
		h.result(id, text("done"))
	case "meta":
		h.result(id, fmt.Sprintf(`{"content":[],"structuredContent":{"meta":%s}}`, m.Params.Meta))
	case "raw":
		// The result is the argument's word.
		var in struct{ Result, Error json.RawMessage }
		_ = json.Unmarshal(m.Params.Arguments, &in)
		switch {
		case in.Error != nil:
			h.fault(id, string(in.Error))
		case in.Result != nil:
			h.result(id, string(in.Result))
		default:
			h.line(`{"jsonrpc":"2.0","id":%s}`, id)
		}
	case "verbatim":
		var in struct{ Line string }
		_ = json.Unmarshal(m.Params.Arguments, &in)
		h.line("%s", strings.ReplaceAll(in.Line, "$id", string(id)))
	case "count":
		h.result(id, text(strconv.Itoa(h.calls)))
	case "env":
		h.result(id, text(strings.Join(os.Environ(), "\n")))
	case "dir":
		dir, _ := os.Getwd()
		h.result(id, text(dir))
	case "pid":
		h.result(id, text(strconv.Itoa(os.Getpid())))
	case "hang":
		h.line(changedNote) // says that the call is here
	case "drip":
		drip(os.Stdout, m)
	case "changed":
		for range n {
			h.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		h.result(id, text("done"))
	case "pings":
		h.result(id, text(strconv.Itoa(h.pings)))
	case "cancelled":
		raw, _ := json.Marshal(h.cancelled)
		h.result(id, fmt.Sprintf(`{"content":[],"structuredContent":{"ids":%s}}`, raw))
	case "die":
		fmt.Fprintln(os.Stderr, "dying words")
		os.Exit(3)
	case "answer and die":
		h.result(id, text("last"))
		os.Exit(0)
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "close":
		os.Stdout.Close()
		select {}
	case "deaf":
		h.result(id, text("from now on I do not read"))
		select {}
	case "rubbish":
		h.line("rubbish %s", id)
		h.line(`{"jsonrpc":"1.0","id":%s,"result":{"content":[]}}`, id)
		h.line(`{"jsonrpc":"2.0","id":%s,"result":`, id)
		h.line(`{"jsonrpc":"2.0","id":%s,"id":%s,"result":{"content":[]}}`, id, id)
		h.line(`{"jsonrpc":"2.0","ID":%s,"result":{"content":[]}}`, id)
		h.line(`{"jsonrpc":"2.0","id":"%s","result":{"content":[]}}`, id)
		h.line(`{"jsonrpc":"2.0","id":%s.0,"result":{"content":[]}}`, id)
		h.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}} x`, id)
		h.line(`{"jsonrpc":"2.0","id":null,"result":{"content":[]}}`)
		h.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		h.result(id, text("fine"))
	case "flood":
		for {
			h.line("%s", strings.Repeat("x", 4096))
		}
	case "flood notifications":
		for {
			h.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%q}}`, strings.Repeat("x", 4096))
		}
	case "flood requests":
		for i := 0; ; i++ {
			h.line(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
		}
	case "stderr":
		fmt.Fprintln(os.Stderr, strings.Repeat("noise ", n/6))
		fmt.Fprintln(os.Stderr, "the last line")
		h.result(id, text("fine"))
	case "flood stderr":
		for {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 4096))
		}
	case "endless":
		w := bufio.NewWriter(os.Stdout)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
		for {
			_, _ = io.WriteString(w, strings.Repeat("x", 4096))
		}
	case "long":
		h.line(`{"result":{"content":[{"type":"text","text":"%s","id":7}]},"jsonrpc":"2.0","id":%s}`, strings.Repeat(`\"id\":1,`, n/8), id)
	case "exactly":
		h.line("%s", exactly(id, n))
	case "long notification":
		h.line(`{"jsonrpc":"2.0","method":"notifications/message","params":"%s"}`, strings.Repeat("x", n))
		h.result(id, text("fine"))
	case "wrong id":
		h.line(`{"jsonrpc":"2.0","id":%s000,"result":{"content":[]}}`, id)
		h.line(changedNote) // what comes before it was read
	case "twice":
		h.result(id, text("first"))
		h.result(id, text("second"))
	case "ping":
		h.ask("ping", "p"+string(id), func(ok bool) { h.result(id, text(strconv.FormatBool(ok))) })
	case "ask and fail":
		h.ask(rest, "a"+string(id), func(ok bool) {
			h.result(id, fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":"answered: %v"}]}`, ok))
		})
	case "ask and fault":
		h.ask(rest, "a"+string(id), func(bool) { h.fault(id, `{"code":-32603,"message":"no answer"}`) })
	case "ask and cope":
		h.ask(rest, "a"+string(id), func(bool) { h.result(id, text("did without")) })
	case "ask and hang":
		h.ask(rest, "a"+string(id), func(bool) {})
	case "meet":
		// Answers once n calls are here.
		h.waiting = append(h.waiting, id)
		h.peak = max(h.peak, len(h.waiting))
		if len(h.waiting) == n {
			for _, id := range h.waiting {
				h.result(id, text(string(id)))
			}
			h.waiting = nil
		}
	case "await":
		// Answers once a file exists.
		var in struct{ Gate string }
		_ = json.Unmarshal(m.Params.Arguments, &in)
		go func() {
			for ; ; time.Sleep(time.Millisecond) {
				if _, err := os.Stat(in.Gate); err == nil {
					h.result(id, text("fine"))
					return
				}
			}
		}()
	case "peak":
		h.result(id, text(strconv.Itoa(h.peak)))
	case "grandchild":
		child := exec.Command("/bin/sh", "-c", `trap "" TERM HUP INT; while :; do sleep 1; done`)
		if rest == "session" || rest == "stray" {
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		if rest == "pipes" || rest == "stray" {
			child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		}
		if rest == "stray" {
			child.Env = []string{"NOTHING=1"}
		}
		if err := child.Start(); err != nil {
			h.result(id, text(err.Error()))
			return
		}
		h.result(id, text(strconv.Itoa(child.Process.Pid)))
	default:
		if bytes.HasPrefix(m.Params.Arguments, []byte("{")) {
			h.fault(id, `{"code":-32602,"message":"no such tool"}`)
		}
	}
}
