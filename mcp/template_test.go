//go:build unix

package mcp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

func TestResourceTemplates(t *testing.T) {
	p := hostilePool(t, "templates\n"+
		`{"resourceTemplates":[{"uriTemplate":"a://b/{c}","name":"b","Name":"x","mimeType":"text/plain","description":"of a"}],"nextCursor":"1"}`+"\n"+
		`{"resourceTemplates":[{"uriTemplate":"a://{+c}","name":"c","_meta":{}}]}`)
	all, err := p.ResourceTemplates(t.Context(), "h")
	require.NoError(t, err)
	require.Equal(t, []ResourceTemplate{{"a://b/{c}", "b", "text/plain", "of a"}, {URITemplate: "a://{+c}", Name: "c"}}, all)

	for page, c := range map[string]struct {
		kind contract.Kind
		want string
	}{
		`{"resourceTemplates":[{"uriTemplate":"a://b"}]}`:                                               {contract.InvalidOutput, "no name"},
		`{"resourceTemplates":[{"URITemplate":"a://b","name":"b"}]}`:                                    {contract.InvalidOutput, "no URI template"},
		`{"resourceTemplates":[{"uriTemplate":7,"name":"b"}]}`:                                          {contract.InvalidOutput, "template 0: uriTemplate"},
		`{"resourceTemplates":["a://b"]}`:                                                               {contract.InvalidOutput, "not an object"},
		`{"resourceTemplates":[{"uriTemplate":"a://b","name":"b"},{"uriTemplate":"a://b","name":"c"}]}`: {contract.InvalidOutput, "two are"},
		`{"resourceTemplates":[{"uriTemplate":"a://b","uriTemplate":"a://c","name":"b"}]}`:              {contract.InvalidOutput, "page 1"},
		`{"resources":[]}`:                          {contract.InvalidOutput, "no resourceTemplates"},
		`{"resourceTemplates":[],"nextCursor":"0"}`: {contract.InvalidOutput, "cursor"},
		`{"resourceTemplates":[{"uriTemplate":"a","name":"a"},{"uriTemplate":"b","name":"b"}]}`:   {contract.TooLarge, "more than 1 resourceTemplates"},
		`{"resourceTemplates":[{"uriTemplate":"a","name":"` + strings.Repeat("x", 2_000) + `"}]}`: {contract.TooLarge, "more than 1000 bytes"},
	} {
		_, err := hostilePool(t, "templates\n"+page, func(o *Options) {
			o.MaxList = 1000
			if c.kind == contract.TooLarge {
				o.MaxTools = 1
			}
		}).ResourceTemplates(t.Context(), "h")
		e := requireKind(t, c.kind, err)
		require.Contains(t, e.Message, c.want)
	}
	_, err = hostilePool(t, "ok").ResourceTemplates(t.Context(), "h")
	requireKind(t, contract.Contract, err)
	_, err = p.ResourceTemplates(t.Context(), "other")
	requireKind(t, contract.Contract, err)
}

// TestTemplatePattern: only simple expressions are patterns, and each within a segment.
func TestTemplatePattern(t *testing.T) {
	for template, want := range map[string]string{
		"wiki://pages/{page}":         "wiki://pages/*",
		"wiki://pages/{page}.md":      "wiki://pages/*.md",
		"wiki://{space}/{page}":       "",
		"wiki://x/{space}/v{a.b}/{c}": "wiki://x/*/v*/*",
		"wiki://x/{a}{b}":             "wiki://x/*",
		"wiki://x/{a}{b}/{c}{d}{e}":   "wiki://x/*/*",
		"wiki://x/{%41}":              "wiki://x/*",
		"wiki://pages/home":           "wiki://pages/home",
	} {
		is, err := ResourceTemplate{URITemplate: template}.Pattern()
		require.Equal(t, want, is, template)
		require.Equal(t, want == "", err != nil, template)
	}
	for template, want := range map[string]string{
		"wiki://x/{+path}":    `"{+path}" is beyond level 1`,
		"wiki://x{/path*}":    "beyond level 1",
		"wiki://x/{path*}":    "beyond level 1",
		"wiki://x/{path:3}":   "beyond level 1",
		"wiki://x/{a,b}":      "beyond level 1",
		"wiki://x/{#a}":       "beyond level 1",
		"wiki://x/a{?q}":      "beyond level 1",
		"wiki://x/{}":         "beyond level 1",
		"wiki://x/{a b}":      "beyond level 1",
		"wiki://x/{a..b}":     "beyond level 1",
		"wiki://x/{\u202ea}":  `"{\u202ea}"`,
		"wiki://x/{a":         "braces",
		"wiki://x/a}":         "braces",
		"wiki://x/{{a}}":      "beyond level 1",
		"wiki://x/{a}*":       "`*`",
		"wiki://x/**":         "`*`",
		"{uri}":               "normal form",
		"wiki://x/p?q={a}":    "normal form",
		"wiki://x/../{a}":     "normal form",
		"wiki://x/\u200b/{a}": "normal form",
		"wiki://x/{a}/":       "normal form",
		"file:{a}":            "normal form",
		"wiki://x/%E2%80/{a}": "UTF-8",
		"wiki://x/" + strings.Repeat("a/", 200) + "{b}": "longer than 256",
	} {
		is, err := ResourceTemplate{URITemplate: template}.Pattern()
		require.ErrorContains(t, err, want, template)
		require.Empty(t, is)
	}
}

// FuzzTemplatePattern: what is a pattern reads nothing that is not one segment for each expression.
func FuzzTemplatePattern(f *testing.F) {
	f.Add("wiki://x/{a}/b{c}")
	f.Add("wiki://x/{a}{b}")
	f.Fuzz(func(t *testing.T, template string) {
		is, err := ResourceTemplate{URITemplate: template}.Pattern()
		if err != nil {
			return
		}
		require.NoError(t, plan.CheckPattern(is))
		require.NotContains(t, is, "**")
		require.Equal(t, strings.Count(template, "/"), strings.Count(is, "/"))
	})
}
