//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// parentVar makes the test binary a worker that is killed: see TestKilledWorker.
const parentVar = "MCP_TEST_PARENT"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(hostileVar) != "":
		(&hostile{mode: os.Getenv(hostileVar)}).run()
		os.Exit(0)
	case os.Getenv(parentVar) != "":
		worker(os.Getenv(parentVar))
	case os.Getenv(clientVar) != "":
		os.Exit(conformer(os.Args[len(os.Args)-1], os.Getenv("MCP_CONFORMANCE_SCENARIO")))
	}
	os.Exit(m.Run())
}

// bound is far more time than any of these tests needs, and far less than forever.
const bound = 5 * time.Minute

// soon is the limit of what a test about a limit waits for, where nothing else depends on it.
const soon = 100 * time.Millisecond

var quiet = Options{
	Logger:       slog.New(slog.NewTextHandler(io.Discard, nil)),
	StartTimeout: bound,
	StopGrace:    soon,
	AskGrace:     bound,
	PingTimeout:  bound,
	settle:       bound,
}

var tags atomic.Int64

// server configures a test server and checks, when the test has ended and its
// pools are closed, that nothing of it is left.
func hostileServer(t testing.TB, mode string) Server {
	t.Helper()
	tag := fmt.Sprintf("MCP_TEST_TAG=%d.%d", os.Getpid(), tags.Add(1))
	name, value, _ := strings.Cut(tag, "=")
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return len(carrying(tag)) == 0 }, bound, 5*time.Millisecond, "processes are left")
	})
	return Server{Command: os.Args[0], Env: map[string]string{hostileVar: mode, name: value}}
}

func openPool(t testing.TB, s Server, o Options) *Pool {
	t.Helper()
	p := NewPool(map[string]Server{"h": s}, o)
	t.Cleanup(func() { within(t, func() { require.NoError(t, p.Close()) }) })
	return p
}

func hostilePool(t *testing.T, mode string, change ...func(*Options)) *Pool {
	t.Helper()
	o := quiet
	for _, c := range change {
		c(&o)
	}
	return openPool(t, hostileServer(t, mode), o)
}

// connOf returns the connection of the principal "".
func connOf(p *Pool) *conn {
	s := p.servers["h"]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenants[Principal{}].conn
}

// within fails the test if f takes longer than bound.
func within(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(bound):
		t.Error("took too long")
	}
}

func call(t *testing.T, p *Pool, tool, args string) (Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	return p.Call(ctx, "h", tool, json.RawMessage(args))
}

// due is a context whose deadline passes when passed is closed.
type due struct {
	context.Context
	passed chan struct{}
}

func (d due) Done() <-chan struct{} { return d.passed }

func (d due) Err() error {
	if closed(d.passed) {
		return context.DeadlineExceeded
	}
	return nil
}

// closed reports whether a channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// late returns the error of a call whose deadline passes once something is so.
func late(t *testing.T, so func() bool, call func(ctx context.Context) error) error {
	t.Helper()
	d, failed := due{t.Context(), make(chan struct{})}, make(chan error, 1)
	go func() { failed <- call(d) }()
	require.Eventually(t, func() bool { return len(failed) == 1 || so() }, bound, time.Millisecond)
	close(d.passed)
	return <-failed
}

// brief makes a call whose deadline passes once the call was sent.
func brief(t *testing.T, p *Pool, tool, args string) error {
	t.Helper()
	return late(t, p.sendsMore(), calling(p, tool, args))
}

func calling(p *Pool, tool, args string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.Call(ctx, "h", tool, json.RawMessage(args))
		return err
	}
}

// out counts the requests at a stage that wait for an answer in the principal's session.
func (p *Pool) out(stage int32) (n int) {
	s := p.servers["h"]
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[s.conf.Sessions.key(p.of)]
	if t == nil || t.conn == nil {
		return 0
	}
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	for _, r := range t.conn.pending {
		if r.stage.Load() == stage {
			n++
		}
	}
	return n
}

// sendsMore reports whether more requests wait for an answer than now.
func (p *Pool) sendsMore() func() bool {
	now := p.out(sent)
	return func() bool { return p.out(sent) > now }
}

func textOf(t *testing.T, p *Pool, tool string) string {
	t.Helper()
	r, err := call(t, p, tool, "")
	require.NoError(t, err)
	require.NotNil(t, r.Text)
	return *r.Text
}

func failure(t *testing.T, err error) *contract.Error {
	t.Helper()
	require.Error(t, err)
	var e *contract.Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.Kind.Valid())
	require.NotEmpty(t, e.Message)
	if e.Details != nil {
		require.True(t, json.Valid(e.Details), "%s", e.Details)
	}
	return e
}

func requireKind(t *testing.T, want contract.Kind, err error) *contract.Error {
	t.Helper()
	e := failure(t, err)
	require.Equal(t, want, e.Kind, "%s", e.Message)
	return e
}

func TestResults(t *testing.T) {
	p := hostilePool(t, "ok")
	for name, c := range map[string]struct {
		result string
		want   Result
	}{
		"text":        {`{"content":[{"type":"text","text":"{\"a\":1}"}]}`, Result{Content: raw(`[{"type":"text","text":"{\"a\":1}"}]`), Text: str(`{"a":1}`)}},
		"empty":       {`{"content":[]}`, Result{Content: raw(`[]`)}},
		"two texts":   {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, Result{Content: raw(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`)}},
		"image":       {`{"content":[{"type":"image","data":"","mimeType":"image/png"}]}`, Result{Content: raw(`[{"type":"image","data":"","mimeType":"image/png"}]`)}},
		"new sort":    {`{"content":[{"type":"hologram","x":1}],"more":1}`, Result{Content: raw(`[{"type":"hologram","x":1}]`)}},
		"structured":  {`{"structuredContent":{"a":[1,2]}}`, Result{Structured: raw(`{"a":[1,2]}`), Content: raw(`[]`)}},
		"both":        {`{"content":[{"type":"text","text":"x"}],"structuredContent":{},"isError":false,"resultType":"complete"}`, Result{Structured: raw(`{}`), Content: raw(`[{"type":"text","text":"x"}]`), Text: str("x")}},
		"null":        {`{"content":[],"structuredContent":null}`, Result{Content: raw(`[]`)}},
		"big numbers": {`{"structuredContent":{"n":9007199254740993,"m":-123456789012345678901234567890,"f":0.1000000000000000055511151231257827}}`, Result{Structured: raw(`{"n":9007199254740993,"m":-123456789012345678901234567890,"f":0.1000000000000000055511151231257827}`), Content: raw(`[]`)}},
		"not a field": {`{"content":[],"StructuredContent":{"a":1},"IsError":true}`, Result{Content: raw(`[]`)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := call(t, p, "raw", fmt.Sprintf(`{"result":%s}`, c.result))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }
func str(s string) *string         { return &s }

func TestArguments(t *testing.T) {
	p := hostilePool(t, "ok")
	for in, want := range map[string]string{
		"":     `{}`,
		"  \n": `{}`,
		`{"n":9007199254740993, "s":"a\nb",` + "\n\r\n" + `"u":"<&>\u2028"}`: `{"n":9007199254740993,"s":"a\nb","u":"\u003c\u0026\u003e\u2028"}`,
	} {
		got, err := call(t, p, "echo", in)
		require.NoError(t, err, in)
		require.JSONEq(t, want, string(got.Structured))
		require.Contains(t, want, "{")
		if strings.Contains(in, "9007199254740993") {
			require.Contains(t, string(got.Structured), "9007199254740993")
		}
	}
	for _, in := range []string{`[]`, `7`, `null`, `{`, `{} {}`, `"x"`} {
		_, err := call(t, p, "echo", in)
		requireKind(t, contract.Contract, err)
	}
	require.Equal(t, "4", textOf(t, p, "count"), "bad arguments were sent")
}

func TestBadResults(t *testing.T) {
	p := hostilePool(t, "ok")
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for name, c := range map[string]struct {
		args string
		kind contract.Kind
		want string
	}{
		"nothing":         {`{}`, contract.InvalidOutput, ""},
		"null":            {`{"result":null}`, contract.InvalidOutput, ""},
		"a number":        {`{"result":7}`, contract.InvalidOutput, "not an object"},
		"no content":      {`{"result":{}}`, contract.InvalidOutput, "no content"},
		"content null":    {`{"result":{"content":null}}`, contract.InvalidOutput, "no content"},
		"content object":  {`{"result":{"content":{}}}`, contract.InvalidOutput, "not an array"},
		"content numbers": {`{"result":{"content":[1]}}`, contract.InvalidOutput, "without a type"},
		"no text":         {`{"result":{"content":[{"type":"text"}]}}`, contract.InvalidOutput, "without text"},
		"isError text":    {`{"result":{"content":[],"isError":"yes"}}`, contract.InvalidOutput, "isError"},
		"a task":          {`{"result":{"task":{"taskId":"1","status":"working"}}}`, contract.InvalidOutput, "no content"},
		"unknown type":    {`{"result":{"resultType":"partial","content":[]}}`, contract.InvalidOutput, "partial"},
		"same key twice":  {`{"result":{"content":[],"content":[]}}`, contract.InvalidOutput, ""},
		"same key inside": {`{"result":{"structuredContent":{"a":1,"a":2}}}`, contract.InvalidOutput, ""},
		"too deep":        {`{"result":{"structuredContent":{"a":` + deep + `}}}`, contract.TooLarge, ""},
		"lone surrogate":  {`{"result":{"structuredContent":{"a":"\ud800"}}}`, contract.InvalidOutput, ""},

		"is error":         {`{"result":{"isError":true,"content":[{"type":"text","text":"disk full"}],"structuredContent":{"code":9007199254740993}}}`, contract.ToolError, `tool "raw": disk full`},
		"is error, silent": {`{"result":{"isError":true,"content":[]}}`, contract.ToolError, "did not say why"},
		"unknown by SDK":   {`{"result":{"isError":true,"content":[{"type":"text","text":"MCP error -32602: Tool x not found"}]}}`, contract.ToolError, "not found"},
		"invalid params":   {`{"error":{"code":-32602,"message":"bad"}}`, contract.Contract, "bad"},
		"no method":        {`{"error":{"code":-32601,"message":"bad"}}`, contract.Contract, "bad"},
		"internal":         {`{"error":{"code":-32603,"message":"oops","data":{"n":9007199254740993}}}`, contract.ServerError, "oops"},
		"own code":         {`{"error":{"code":-32000,"message":"oops"}}`, contract.ServerError, "oops"},
		"error text":       {`{"error":"oops"}`, contract.ServerError, ""},
		"error empty":      {`{"error":{}}`, contract.ServerError, ""},
		"error null":       {`{"error":null,"result":{"isError":false}}`, contract.ServerError, ""},
		"url elicitation":  {`{"error":{"code":-32042,"message":"visit"}}`, contract.NeedsInput, "visit"},
		"input required":   {`{"result":{"resultType":"input_required","inputRequests":{}}}`, contract.NeedsInput, "asked for input"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := call(t, p, "raw", c.args)
			require.Zero(t, got)
			e := requireKind(t, c.kind, err)
			require.Contains(t, e.Message, c.want)
			if strings.Contains(c.args, "9007199254740993") {
				require.Contains(t, string(e.Details), "9007199254740993")
			}
		})
	}
	require.Equal(t, "fine", textOf(t, p, "rubbish"))
}

func TestUnknown(t *testing.T) {
	p := NewPool(map[string]Server{"remote": {URL: "https://localhost:1"}, "both": {Command: "x", URL: "https://localhost"}, "empty": {}, "gone": {Command: "/no/such/server"}}, quiet)
	defer p.Close()
	for server, kind := range map[string]contract.Kind{
		"nobody": contract.Contract, "remote": contract.Unsent, "both": contract.Contract, "empty": contract.Contract, "gone": contract.Unsent,
	} {
		_, err := p.Call(t.Context(), server, "x", nil)
		requireKind(t, kind, err)
		_, err = p.Tools(t.Context(), server)
		requireKind(t, kind, err)
	}
	_, err := call(t, hostilePool(t, "ok"), "no such tool", "")
	requireKind(t, contract.Contract, err)
}

func TestStartFails(t *testing.T) {
	for mode, want := range map[string]string{
		"hangs":          "not done within",
		"exits":          "exit status 2",
		"rubbish only":   "",
		"floods at once": "are not answers",
		"refuses":        "not today",
		"odd version":    "1999-01-01",
		"odd answer":     "",
	} {
		t.Run(mode, func(t *testing.T) {
			p := hostilePool(t, mode, func(o *Options) {
				o.MaxNoise = 1 << 20
				if mode == "hangs" {
					o.StartTimeout = soon
				}
			})
			if mode == "rubbish only" {
				// It answers after the noise.
				require.Equal(t, "1", textOf(t, p, "count"))
				return
			}
			_, err := call(t, p, "count", "")
			e := requireKind(t, contract.Unsent, err)
			require.Contains(t, e.Message, want)
			if mode == "exits" {
				require.Contains(t, string(e.Details), "bad flag")
			}
		})
	}
}

func TestRubbishAtStart(t *testing.T) {
	require.Equal(t, "1", textOf(t, hostilePool(t, "rubbish"), "count"))
}

func TestStatelessServer(t *testing.T) {
	p := hostilePool(t, "modern")
	r, err := call(t, p, "meta", "")
	require.NoError(t, err)
	require.Contains(t, string(r.Structured), "2026-07-28")
	tools, err := p.Tools(t.Context(), "h")
	require.NoError(t, err)
	require.Len(t, tools, 1)
}

func TestFailuresInTheMiddle(t *testing.T) {
	for tool, c := range map[string]struct {
		kind contract.Kind
		want string
	}{
		"die":                                 {contract.Transport, "exit status 3"},
		"crash":                               {contract.Transport, "signal: killed"},
		"close":                               {contract.Transport, "closed its output"},
		"flood":                               {contract.ServerError, "are not answers"},
		"flood notifications":                 {contract.ServerError, "are not answers"},
		"flood requests":                      {contract.ServerError, "are not answers"},
		"flood stderr":                        {contract.ServerError, "are not answers"},
		"endless":                             {contract.TooLarge, "65536 bytes"},
		"long:100000":                         {contract.TooLarge, "65536 bytes"},
		"ask and fail:elicitation/create":     {contract.NeedsInput, "elicitation/create"},
		"ask and fault:roots/list":            {contract.NeedsInput, "roots/list"},
		"ask and hang:sampling/createMessage": {contract.NeedsInput, "sampling/createMessage"},
	} {
		t.Run(tool, func(t *testing.T) {
			p := hostilePool(t, "ok", func(o *Options) {
				o.MaxNoise, o.MaxLine = 1<<20, 1<<16
				if tool == "close" {
					o.settle = soon
				}
				if strings.HasPrefix(tool, "ask and hang") {
					o.AskGrace = soon
				}
			})
			require.Equal(t, "1", textOf(t, p, "count"))
			_, err := call(t, p, tool, "")
			e := requireKind(t, c.kind, err)
			require.Contains(t, e.Message, c.want)
			if tool == "die" {
				require.Contains(t, string(e.Details), "dying words")
			}
			// The next call is served, by a new server if need be.
			require.NotEmpty(t, textOf(t, p, "count"))
		})
	}
}

func TestTimeouts(t *testing.T) {
	for _, tool := range []string{"hang", "wrong id"} {
		t.Run(tool, func(t *testing.T) {
			read := make(chan struct{})
			p := hostilePool(t, "ok", func(o *Options) { o.Changed = func(string) { close(read) } })
			require.Equal(t, "1", textOf(t, p, "count"))
			err := late(t, func() bool { return closed(read) }, calling(p, tool, ""))
			e := requireKind(t, contract.Timeout, err)
			require.ErrorIs(t, e, context.DeadlineExceeded)
			require.JSONEq(t, `{"sent":true}`, string(e.Details))
			require.Equal(t, "3", textOf(t, p, "count"), "the server was replaced without need")

			r, err := call(t, p, "cancelled", "")
			require.NoError(t, err)
			require.JSONEq(t, `{"ids":[3]}`, string(r.Structured), "ids 1 and 2 were the handshake and the count")
		})
	}
}

func TestCancelled(t *testing.T) {
	p := hostilePool(t, "ok")
	require.Equal(t, "1", textOf(t, p, "count"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Call(ctx, "h", "echo", nil)
	require.JSONEq(t, `{"sent":false}`, string(requireKind(t, contract.Cancelled, err).Details))

	ctx, cancel = context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := p.Call(ctx, "h", "meet:2", nil)
		failed <- err
	}()
	require.Eventually(t, func() bool { return textOf(t, p, "peak") == "1" }, bound, time.Millisecond)
	cancel()
	require.JSONEq(t, `{"sent":true}`, string(requireKind(t, contract.Cancelled, <-failed).Details))
	require.Equal(t, "1", textOf(t, p, "peak"), "the server lives on")
}

func TestUnharmed(t *testing.T) {
	for tool, want := range map[string]string{
		"rubbish":                  "fine",
		"stderr:3000000":           "fine",
		"long notification:100000": "fine",
		"ping":                     "true",
		"twice":                    "first",
		"ask and cope:roots/list":  "did without",
	} {
		t.Run(tool, func(t *testing.T) {
			p := hostilePool(t, "ok", func(o *Options) { o.MaxLine = 1 << 16 })
			require.Equal(t, want, textOf(t, p, tool))
			require.Equal(t, "2", textOf(t, p, "count"), "the server was replaced")
		})
	}
}

func TestLongResultFailsItsOwnCallOnly(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.MaxLine = 1 << 16 })
	other := make(chan error, 1)
	go func() {
		_, err := call(t, p, "meet:2", "")
		other <- err
	}()
	require.Eventually(t, func() bool { return textOf(t, p, "peak") == "1" }, bound, time.Millisecond)
	_, err := call(t, p, "long:100000", "")
	requireKind(t, contract.TooLarge, err)
	_, err = call(t, p, "meet:2", "")
	require.NoError(t, err)
	require.NoError(t, <-other)
}

// A message over standard output is bounded as one over HTTP: what ends its line does not count.
func TestLongestMessage(t *testing.T) {
	const limit = 1 << 16
	small := func(o *Options) { o.MaxLine = limit }
	for name, p := range map[string]*Pool{"stdio": hostilePool(t, "ok", small), "http": newSite(t).pool(t, small), "events": newSite(t).pool(t, small)} {
		t.Run(name, func(t *testing.T) {
			tool := "exactly:"
			if name == "events" {
				tool = "stream exactly:"
			}
			_, err := call(t, p, tool+strconv.Itoa(limit), "")
			require.NoError(t, err)
			_, err = call(t, p, tool+strconv.Itoa(limit+1), "")
			requireKind(t, contract.TooLarge, err)
			require.NotEmpty(t, textOf(t, p, "count"))
		})
	}
}

func TestAskIsNotBlamedOnTheWrongCall(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.AskGrace = 1 })
	other := make(chan error, 1)
	go func() {
		_, err := call(t, p, "meet:2", "")
		other <- err
	}()
	require.Eventually(t, func() bool { return textOf(t, p, "peak") == "1" }, bound, time.Millisecond)
	_, err := call(t, p, "ask and fail:sampling/createMessage", "")
	e := requireKind(t, contract.ToolError, err)
	require.Contains(t, e.Message, "answered: false")
	_, err = call(t, p, "meet:2", "")
	require.NoError(t, err)
	require.NoError(t, <-other)
}

func TestLargeArguments(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.MaxLine = 1 << 16 })
	_, err := call(t, p, "echo", `{"s":"`+strings.Repeat("x", 1<<16)+`"}`)
	requireKind(t, contract.TooLarge, err)
	require.Equal(t, "1", textOf(t, p, "count"))
}

func TestServerThatDoesNotRead(t *testing.T) {
	p := hostilePool(t, "ok")
	require.Contains(t, textOf(t, p, "deaf"), "I do not read")
	big := `{"s":"` + strings.Repeat("x", 1<<20) + `"}`
	requireKind(t, contract.Timeout, brief(t, p, "echo", big))
	// The pipe is full now, so that nothing of this one leaves. What a call leaves behind cannot pile up, either.
	for range 2 * queueLong {
		waiting := p.out(queued)
		err := late(t, func() bool { return p.out(queued) > waiting }, calling(p, "echo", ""))
		requireKind(t, contract.Unsent, err)
	}
}

func TestTools(t *testing.T) {
	tools, err := hostilePool(t, "pages").Tools(t.Context(), "h")
	require.NoError(t, err)
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	require.Equal(t, []string{"a0", "b0", "a1", "b1", "a2", "b2"}, names)
	require.Equal(t, `{"name":"a0","inputSchema":{"type":"object","x-kept":9007199254740993}}`, string(tools[0].Raw))

	for mode, c := range map[string]struct {
		kind   contract.Kind
		want   string
		change func(*Options)
	}{
		"pages without end": {contract.TooLarge, "more than 100 pages", nil},
		"same cursor":       {contract.InvalidOutput, "cursor", nil},
		"same name":         {contract.InvalidOutput, `two tools are called "a"`, nil},
		"no name":           {contract.InvalidOutput, "no name", nil},
		"no list":           {contract.InvalidOutput, "no tools", nil},
		"no tools":          {contract.Contract, "no such method", nil},
		"pages":             {contract.TooLarge, "more than 3 tools", func(o *Options) { o.MaxTools = 3 }},
		"ok":                {contract.TooLarge, "more than 10 bytes", func(o *Options) { o.MaxList = 10 }},
		"exits":             {contract.Unsent, "exit status 2", nil},
	} {
		t.Run(mode, func(t *testing.T) {
			if c.change == nil {
				c.change = func(*Options) {}
			}
			_, err := hostilePool(t, mode, c.change).Tools(t.Context(), "h")
			e := requireKind(t, c.kind, err)
			require.Contains(t, e.Message, c.want)
		})
	}
}
