//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"testing/iotest"

	"chimera.ai/engine/contract"
)

// deaf is a link to a server that takes everything; what it says comes from elsewhere.
type deaf struct {
	sent  chan struct{}
	ended chan struct{}
}

func (d *deaf) send(_ context.Context, out *outgoing) {
	out.request.stage.Store(sent)
	d.sent <- struct{}{}
}

func (d *deaf) say([]byte)                                     {}
func (d *deaf) notify(context.Context, []byte) *contract.Error { return nil }
func (d *deaf) agreed(string)                                  {}
func (d *deaf) kill()                                          {}
func (d *deaf) serve()                                         { <-d.ended }
func (d *deaf) detail(details json.RawMessage) json.RawMessage { return details }

// FuzzSession: whatever a server writes while a call and a listing wait, as lines or as a stream of
// events, each of them gets one answer or one error of a known kind, and a session that has failed
// stays so.
func FuzzSession(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}` + "\n" + `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","inputSchema":{}}]}}` + "\n",
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}` + "\n" + `{"jsonrpc":"2.0","id":1,"error":{"code":1e99}}` + "\n",
		`{"jsonrpc":"2.0","id":2,"result":{"tools":[],"nextCursor":"a"}}` + "\n" + `{"jsonrpc":"2.0","id":3,"result":{"tools":[],"nextCursor":"a"}}` + "\n",
		`{"jsonrpc":"2.0","id":9,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":9,"method":"elicitation/create"}` + "\n",
		"data: {\"jsonrpc\":\"2.0\",\"id\":1,\ndata: \"result\":{\"content\":[]}}\n\nid: 7\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n",
		`{"id":1,"jsonrpc":"2.0","result":"` + string(bytes.Repeat([]byte("x"), 600)) + `"}` + "\n",
		string(bytes.Repeat([]byte("\n"), 2000)), "{", "\xff\n",
	} {
		f.Add([]byte(seed), false, false)
		f.Add([]byte(seed), true, true)
	}
	o := quiet.withDefaults()
	o.MaxLine, o.MaxNoise, o.MaxPages = 512, 1024, 4
	f.Fuzz(func(t *testing.T, written []byte, events, split bool) {
		c := newConn("h", o)
		d := &deaf{sent: make(chan struct{}, 16), ended: make(chan struct{})}
		c.begin(d)
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		var both sync.WaitGroup
		both.Go(func() {
			answer := c.ask(ctx, ctx, "tool", json.RawMessage(`{}`))
			if answer.err == nil {
				_, answer.err = c.judge(t.Context(), "tool", answer)
			}
			known(t, answer.err)
		})
		<-d.sent
		both.Go(func() {
			_, err := c.list(ctx)
			known(t, err)
		})
		<-d.sent
		var from io.Reader = bytes.NewReader(written)
		if split {
			from = iotest.OneByteReader(from)
		}
		if events {
			(&web{c: c}).stream(nil, newEvents(from, o.MaxLine, o.MaxNoise))
		} else if err := c.lines(from); err == nil && c.usable() {
			t.Error("it read no further, and the session goes on")
		}
		c.fail(c.errorf(contract.Transport, "the end"))
		both.Wait()
		if ctx.Err() != nil {
			t.Error("it took until its deadline")
		}
		if c.usable() || len(c.pending) > 0 {
			t.Error("something still waits")
		}
		close(d.ended)
		<-c.gone
	})
}

// known checks what an error says, if there is one.
func known(t *testing.T, err *contract.Error) {
	if err != nil && (!err.Kind.Valid() || err.Message == "" || len(err.Message) > 8*maxMessage || err.Details != nil && !json.Valid(err.Details)) {
		t.Errorf("%#v", err)
	}
}
