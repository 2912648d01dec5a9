//go:build unix

package mcp

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

func read(t *testing.T, p *Pool, uri, pin string) (Content, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	return p.Read(ctx, "h", uri, Pin{Fingerprint: pin})
}

func TestResources(t *testing.T) {
	p := hostilePool(t, "resources\n"+
		`{"resources":[{"uri":"a://b","name":"b","Name":"x","mimeType":"text/plain","description":"of a","size":7}],"nextCursor":"1"}`+"\n"+
		`{"resources":[{"uri":"a://c","name":"c","_meta":{}}]}`)
	all, err := p.Resources(t.Context(), "h", Pin{})
	require.NoError(t, err)
	size := int64(7)
	require.Equal(t, []Resource{{"a://b", "b", "text/plain", "of a", &size}, {URI: "a://c", Name: "c"}}, all)

	for page, c := range map[string]struct {
		kind contract.Kind
		want string
	}{
		`{"resources":[{"uri":"a://b"}]}`:                                                      {contract.InvalidOutput, "no name"},
		`{"resources":[{"URI":"a://b","name":"b"}]}`:                                           {contract.InvalidOutput, "no URI"},
		`{"resources":[{"uri":7,"name":"b"}]}`:                                                 {contract.InvalidOutput, "resource 0: uri"},
		`{"resources":[{"uri":"a://b","name":"b","size":0.5}]}`:                                {contract.InvalidOutput, "size"},
		`{"resources":["a://b"]}`:                                                              {contract.InvalidOutput, "not an object"},
		`{"resources":[{"uri":"a://b","name":"b"},{"uri":"a://b","name":"c"}]}`:                {contract.InvalidOutput, "two resources"},
		`{"resources":[{"uri":"a://b","uri":"a://c","name":"b"}]}`:                             {contract.InvalidOutput, "page 1"},
		`{"Resources":[]}`:                                                                     {contract.InvalidOutput, "no resources"},
		`{"resources":[],"nextCursor":"0"}`:                                                    {contract.InvalidOutput, "cursor"},
		`{"resources":[{"uri":"a","name":"a"},{"uri":"b","name":"b"}]}`:                        {contract.TooLarge, "more than 1 resources"},
		`{"resources":[{"uri":"a","name":"` + strings.Repeat("x", 2_000) + `"}]}`:              {contract.TooLarge, "more than 1000 bytes"},
		`{"resources":[{"uri":"a","name":"a"}],"nextCursor":"1"}` + "\n" + `{"tools":[` + "]}": {contract.InvalidOutput, "page 2"},
	} {
		_, err := hostilePool(t, "resources\n"+page, func(o *Options) {
			o.MaxList = 1000
			if c.kind == contract.TooLarge {
				o.MaxTools = 1
			}
		}).Resources(t.Context(), "h", Pin{})
		e := requireKind(t, c.kind, err)
		require.Contains(t, e.Message, c.want)
	}
	_, err = hostilePool(t, "ok").Resources(t.Context(), "h", Pin{})
	requireKind(t, contract.Contract, err)
	_, err = p.Resources(t.Context(), "other", Pin{})
	requireKind(t, contract.Contract, err)
}

func TestRead(t *testing.T) {
	p := hostilePool(t, "ok", func(o *Options) { o.MaxLine, o.AskGrace = 10_000, soon })
	content, err := read(t, p, `result:{"contents":[{"uri":$uri,"text":"grüezi","mimeType":"text/plain","Text":"x"}],"_meta":{}}`, "")
	require.NoError(t, err)
	require.Equal(t, Content{"grüezi", "text/plain"}, content)
	content, err = read(t, p, `result:{"contents":[{"uri":$uri,"text":""}],"resultType":"complete"}`, "")
	require.NoError(t, err)
	require.Equal(t, Content{}, content)

	for uri, c := range map[string]struct {
		kind contract.Kind
		want string
	}{
		`result:{"contents":[{"uri":$uri,"blob":"AAAA"}]}`:                               {contract.InvalidOutput, "binary"},
		`result:{"contents":[{"uri":$uri,"blob":"AAAA","text":"a"}]}`:                    {contract.InvalidOutput, "binary"},
		`result:{"contents":[{"uri":$uri}]}`:                                             {contract.InvalidOutput, "no text"},
		`result:{"contents":[{"uri":$uri,"text":7}]}`:                                    {contract.InvalidOutput, "text"},
		`result:{"contents":[{"uri":"a://b","text":"a"}]}`:                               {contract.InvalidOutput, `another URI: "a://b"`},
		`result:{"contents":[{"text":"a"}]}`:                                             {contract.InvalidOutput, "another URI"},
		`result:{"contents":[]}`:                                                         {contract.InvalidOutput, "0 parts"},
		`result:{"contents":[{"uri":$uri,"text":"a"},{"uri":$uri,"text":"b"}]}`:          {contract.InvalidOutput, "2 parts"},
		`result:{"Contents":[{"uri":$uri,"text":"a"}]}`:                                  {contract.InvalidOutput, "0 parts"},
		`result:{"contents":{}}`:                                                         {contract.InvalidOutput, "contents"},
		`result:[]`:                                                                      {contract.InvalidOutput, "not an object"},
		`result:{"contents":[{"uri":$uri,"text":"\ud800"}]}`:                             {contract.InvalidOutput, "surrogate"},
		`result:{"contents":[{"uri":$uri,"text":"a"}],"contents":[]}`:                    {contract.InvalidOutput, "cannot be read"},
		`result:{"contents":[{"uri":$uri,"text":"a"}],"resultType":"other"}`:             {contract.InvalidOutput, "unknown type"},
		`result:{"resultType":"input_required"}`:                                         {contract.NeedsInput, "input_required"},
		`fault:{"code":-32002,"message":"no such resource"}`:                             {contract.ToolError, "no such resource"},
		`fault:{"code":-32602,"message":"no such resource"}`:                             {contract.ToolError, "no such resource"},
		`fault:{"code":-32601,"message":"no such method"}`:                               {contract.Contract, "no such method"},
		`fault:{"code":-32603,"message":"ouch"}`:                                         {contract.ServerError, "ouch"},
		`fault:7`:                                                                        {contract.ServerError, "not a JSON-RPC error"},
		"ask:":                                                                           {contract.NeedsInput, "sampling"},
		"long:20000":                                                                     {contract.TooLarge, "10000"},
		strings.Repeat("x", 20_000):                                                      {contract.TooLarge, "10000"},
		"result:" + strings.Repeat(`{"contents":`, 600) + "1" + strings.Repeat("}", 600): {contract.TooLarge, ""},
	} {
		_, err := read(t, p, uri, "")
		e := requireKind(t, c.kind, err)
		require.Contains(t, e.Message, c.want)
		require.Less(t, len(e.Message), 2_000)
	}
	_, err = read(t, p, "die:", "")
	requireKind(t, contract.Transport, err)
	_, err = p.Read(t.Context(), "other", "a://b", Pin{})
	requireKind(t, contract.Contract, err)
	err = late(t, p.sendsMore(), func(ctx context.Context) error {
		_, err := p.Read(ctx, "h", "hang:", Pin{})
		return err
	})
	requireKind(t, contract.Timeout, err)
}

func TestReadOfPinned(t *testing.T) {
	const uri = "calls:x"
	list := func(name, mime string) string {
		return "resources\n" + `{"resources":[{"uri":"a://b","name":"b"},{"uri":"` + uri + `","name":"` + name + `","mimeType":"` + mime + `","size":1}]}`
	}
	pin, err := Resource{URI: uri, Name: "a", MIMEType: "b"}.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, "sha256:9ae9edca4ddc7a9d6ae8b59c5732cdefa03ddd50d8e8852b4888ef0200b11c11", pin)
	content, err := read(t, hostilePool(t, list("a", "b")), uri, pin)
	require.NoError(t, err)
	require.Equal(t, "1 after 1", content.Text)
	for mode, kind := range map[string]contract.Kind{
		list("other", "b"):                 contract.Drift,
		list("a", "other"):                 contract.Drift,
		"resources\n" + `{"resources":[]}`: contract.Drift,
		"resources\n" + `{"resources":{}}`: contract.Blocked,
		"ok":                               contract.Blocked,
		"exits":                            contract.Unsent,
	} {
		p := hostilePool(t, mode)
		_, err := read(t, p, uri, pin)
		e := requireKind(t, kind, err)
		if kind != contract.Unsent {
			content, err := read(t, p, uri, "")
			require.NoError(t, err)
			require.Equal(t, "1 after 1", content.Text, "it was not read: %s", e.Message)
		}
	}
}
