package plan

import (
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

func TestResourceAllows(t *testing.T) {
	for patterns, uris := range map[string]struct{ yes, no []string }{
		"file:///docs/**": {
			[]string{"file:///docs/a", "file:///docs/a/b.md", "file:///docs/...", "file:///docs/.git", "file:///docs/..a", "file:///docs/gr%C3%BCezi%20x", "file:///docs/a+b@c:d,e=f"},
			[]string{
				"", "file", "file:///docs", "file:///docs/", "file:///docs//a", "file:///docsx/a", "file:///other/a", "file://host/docs/a", "FILE:///docs/a", "file:/docs/a", "file:docs/a",
				"file:///docs/.", "file:///docs/..", "file:///docs/../etc", "file:///docs/a/..", "file:///docs/a/./b", "file:///docs/%2E%2E/a", "file:///docs/%2e%2e/a", "file:///docs/.%2E",
				"file:///docs/..%2Fetc", "file:///docs/..%2fetc", "file:///docs/..%5Cetc", `file:///docs/..\etc`, "file:///docs/%252E", "file:///docs/..;/etc", "file:///docs/..%3B/etc",
				"file:///docs/%C0%AF", "file:///docs/%C0%AE%C0%AE/a", "file:///docs/%FF", "file:///docs/%E2%80", "file:///docs/%00", "file:///docs/%0A", "file:///docs/%7F", "file:///docs/%C2%85",
				"file:///docs/a?b", "file:///docs/a#b", "file:///docs/a b", "file:///docs/ü", "file:///docs/%41", "file:///docs/%c3%bc", "file:///docs/%", "file:///docs/%4", "file:///docs/a\n", " file:///docs/a",
				"file:///docs/" + strings.Repeat("a", MaxURI),
			},
		},
		"demo://h.example:80/a/*/c.md": {
			[]string{"demo://h.example:80/a/b/c.md", "demo://h.example:80/a/.../c.md"},
			[]string{"demo://h.example/a/b/c.md", "demo://hxexample:80/a/b/c.md", "demo://h.example:80/a/b/d/c.md", "demo://h.example:80/a/c.md", "demo://h.example:80/a/../c.md", "demo://u@h.example:80/a/b/c.md", "demo://H.example:80/a/b/c.md", "demo://h.example:80/a/b/cxmd"},
		},
		"x://y/*.md x://y/.* x://z": {
			[]string{"x://y/a.md", "x://y/.md", "x://y/.git", "x://z"},
			[]string{"x://y/a/b.md", "x://y/.", "x://y/..", "x://y/a", "x://z/", "x://z/a", "x://y"},
		},
		"x://y/**/z": {
			[]string{"x://y/a/z", "x://y/a/b/z", "x://y/z/z"},
			[]string{"x://y/z", "x://y/a/z/b"},
		},
	} {
		r := &Resource{URIs: strings.Fields(patterns)}
		for _, p := range r.URIs {
			require.NoError(t, CheckPattern(p), p)
		}
		for _, uri := range uris.yes {
			require.NoError(t, r.Allows(uri), patterns)
		}
		for _, uri := range uris.no {
			require.Error(t, r.Allows(uri), "%s %q", patterns, uri)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for _, p := range []string{"", "*", "**", "file:**", "*://a/b", "a://*/b", "a://*.example/b", "a://b/**c", "a://b/***", "a://b/c/", "a://b/..", "a://b/{id}", "a://b/c?d=*", "a://u@b/c", "A://b", "a://b/" + strings.Repeat("x", MaxURIPattern)} {
		require.Error(t, CheckPattern(p), p)
	}
	require.Equal(t, "a://b/c", (&Resource{URIs: []string{"a://b/c"}}).Literal())
	require.Empty(t, (&Resource{URIs: []string{"a://b/*"}}).Literal())
	require.Empty(t, (&Resource{URIs: []string{"a://b", "a://c"}}).Literal())
}

// FuzzAllows: what is allowed leads nowhere else, as another reader of URIs understands it.
func FuzzAllows(f *testing.F) {
	for _, seed := range []string{"file:///docs/a", "file:///docs/../a", "file:///docs/%2E%2E/a", "file:///docs/gr%C3%BCezi", "file://u@/docs/a", "file:///docs/a?b#c", "file:///docs/%C0%AF"} {
		f.Add(seed)
	}
	r := &Resource{URIs: []string{"file:///docs/**"}}
	f.Fuzz(func(t *testing.T, uri string) {
		if r.Allows(uri) != nil {
			return
		}
		u, err := url.Parse(uri)
		require.NoError(t, err)
		require.Nil(t, u.User)
		require.Equal(t, "file", u.Scheme)
		require.Empty(t, u.Host+u.RawQuery+u.Fragment+u.Opaque)
		require.True(t, utf8.ValidString(u.Path))
		require.Equal(t, path.Clean(u.Path), u.Path)
		require.True(t, strings.HasPrefix(u.Path, "/docs/"))
		require.Equal(t, strings.Count(uri, "/"), strings.Count(u.Path, "/")+2, "no slash is encoded")
		again, err := url.PathUnescape(u.Path)
		require.NoError(t, err)
		require.Equal(t, u.Path, again, "decoded twice, it is the same")
		require.NotContains(t, u.Path, `\`)
	})
}

func TestVerifyResource(t *testing.T) {
	node := func() *Node {
		return &Node{
			ID: "a", Kind: KindCall, ProviderType: MCP, Provider: "p", Operation: "o", Mode: Deter, Effect: Pure, Trust: AllowAuto, TimeoutMS: 1,
			Retry:    Retry{MaxAttempts: 1, MultiplierMilli: 1000, On: []contract.Kind{}},
			Resource: &Resource{URIs: []string{"a://b", "a://c/**"}, As: AsText},
		}
	}
	require.NoError(t, node().verifyCall())
	list := node()
	list.Resource.As = ""
	require.NoError(t, list.verifyCall())
	pinned := node()
	pinned.Resource.URIs, pinned.Fingerprint = []string{"a://b"}, "sha256:x"
	require.NoError(t, pinned.verifyCall())
	for want, change := range map[string]func(*Node){
		"a pure deterministic operation of an MCP server": func(n *Node) { n.ProviderType = Skill },
		"pure deterministic":                              func(n *Node) { n.Effect = Staged },
		"deterministic operation":                         func(n *Node) { n.Mode = Prob },
		"unknown form":                                    func(n *Node) { n.Resource.As = "blob" },
		"out of range":                                    func(n *Node) { n.Resource.URIs = nil },
		"not sorted":                                      func(n *Node) { n.Resource.URIs = []string{"a://c", "a://b"} },
		"sorted":                                          func(n *Node) { n.Resource.URIs = []string{"a://b", "a://b"} },
		"normal form":                                     func(n *Node) { n.Resource.URIs = []string{"a://b/../c"} },
		"that of one resource":                            func(n *Node) { n.Fingerprint = "sha256:x" },
		"one resource": func(n *Node) {
			n.Fingerprint, n.Resource = "sha256:x", &Resource{URIs: []string{"a://b"}}
		},
	} {
		n := node()
		change(n)
		require.ErrorContains(t, n.verifyCall(), want)
	}
}
