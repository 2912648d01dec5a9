package discover_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/discover"
	"chimera.ai/engine/internal/dial"
)

// registry is a server with TLS that answers requests by their escaped path and query.
func registry(t *testing.T, answers map[string]string) (*httptest.Server, discover.Resolver) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.RequestURI()]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"Server not found"}`))
			return
		}
		if to, ok := strings.CutPrefix(answer, "-> "); ok {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	return s, discover.Resolver{Client: s.Client(), NPM: s.URL, PyPI: s.URL, NuGet: s.URL + "/"}
}

func TestVersion(t *testing.T) {
	_, r := registry(t, map[string]string{
		"/pkg/latest":                      `{"name":"pkg","version":"1.2.3","dist":{}}`,
		"/@a%2Fb/latest":                   `{"name":"@a/b","version":"2.0.0-rc.1"}`,
		"/@a%2Fb/next":                     `{"name":"@a/b","version":"3.0.0"}`,
		"/other/latest":                    `{"name":"pkg","version":"1.2.3"}`,
		"/evil/latest":                     `{"name":"evil","version":"1.2.3 --registry=https://evil.example"}`,
		"/moved/latest":                    "-> /moved2",
		"/moved2":                          `{"name":"moved","version":"1.0.0"}`,
		"/loop/latest":                     "-> /loop/latest",
		"/away/latest":                     "-> https://127.0.0.1:1/x",
		"/plain/latest":                    "-> http://127.0.0.1:1/x",
		"/broken/latest":                   `{"name":"broken","version":"1.0.0"`,
		"/twice/latest":                    `{"name":"twice","version":"1.0.0","version":"2.0.0"}`,
		"/list/latest":                     `[]`,
		"/large/latest":                    `{"name":"large","version":"1.0.0","x":"` + strings.Repeat("x", 9<<20) + `"}`,
		"/pypi/My_Pkg/json":                `{"info":{"name":"my-pkg","version":"1.0.post1","yanked":false},"releases":{}}`,
		"/pypi/yanked/json":                `{"info":{"name":"yanked","version":"1.0","yanked":true}}`,
		"/v3-flatcontainer/a.b/index.json": `{"versions":["0.9.0","1.0.0","1.1.0-beta"]}`,
		"/v3-flatcontainer/c/index.json":   `{"versions":["1.1.0-beta"]}`,
	})
	for _, c := range []struct {
		u            discover.Unpinned
		version, err string
	}{
		{discover.Unpinned{Manager: "npm", Package: "pkg"}, "1.2.3", ""},
		{discover.Unpinned{Manager: "npm", Package: "pkg", Have: "^1.0.0"}, "1.2.3", ""},
		{discover.Unpinned{Manager: "npm", Package: "@a/b"}, "2.0.0-rc.1", ""},
		{discover.Unpinned{Manager: "npm", Package: "@a/b", Have: "next"}, "3.0.0", ""},
		{discover.Unpinned{Manager: "npm", Package: "moved"}, "1.0.0", ""},
		{discover.Unpinned{Manager: "pypi", Package: "My_Pkg[cli]"}, "1.0.post1", ""},
		{discover.Unpinned{Manager: "nuget", Package: "A.B"}, "1.0.0", ""},
		{discover.Unpinned{Manager: "npm", Package: "none"}, "", "the registry answers 404"},
		{discover.Unpinned{Manager: "npm", Package: "other"}, "", `the registry answers for "pkg"`},
		{discover.Unpinned{Manager: "npm", Package: "evil"}, "", "which is no exact version"},
		{discover.Unpinned{Manager: "npm", Package: "away"}, "", "redirects to another host"},
		{discover.Unpinned{Manager: "npm", Package: "plain"}, "", "redirects to another host"},
		{discover.Unpinned{Manager: "npm", Package: "loop"}, "", "or too often"},
		{discover.Unpinned{Manager: "npm", Package: "broken"}, "", "reading the answer"},
		{discover.Unpinned{Manager: "npm", Package: "twice"}, "", "reading the answer"},
		{discover.Unpinned{Manager: "npm", Package: "list"}, "", "no JSON object"},
		{discover.Unpinned{Manager: "npm", Package: "large"}, "", "the answer is over"},
		{discover.Unpinned{Manager: "npm", Package: "../x"}, "", "malformed"},
		{discover.Unpinned{Manager: "npm", Package: "pkg", Registry: "--registry"}, "", "another registry"},
		{discover.Unpinned{Manager: "pypi", Package: "yanked"}, "", "withdrawn"},
		{discover.Unpinned{Manager: "pypi", Package: "a/b"}, "", "malformed"},
		{discover.Unpinned{Manager: "nuget", Package: "C"}, "", "no exact version"},
		{discover.Unpinned{Manager: "git", Package: "a/b"}, "", "no registry is known"},
	} {
		version, err := r.Version(context.Background(), c.u)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.u)
			require.Empty(t, version)
			continue
		}
		require.NoError(t, err, c.u)
		require.Equal(t, c.version, version)
	}
	_, err := r.Version(context.Background(), discover.Unpinned{Manager: "npm", Package: "none"})
	require.ErrorIs(t, err, discover.ErrNotFound)

	r.NPM = strings.Replace(r.NPM, "https:", "http:", 1)
	_, err = r.Version(context.Background(), discover.Unpinned{Manager: "npm", Package: "pkg"})
	require.ErrorContains(t, err, "no https address")
	r.NPM = "https://user:hunter2@127.0.0.1:1"
	_, err = r.Version(context.Background(), discover.Unpinned{Manager: "npm", Package: "pkg"})
	require.ErrorContains(t, err, "no https address")
	require.NotContains(t, err.Error(), "hunter2")
}

// TestVersionWaits: a registry that does not answer costs bounded time.
func TestVersionWaits(t *testing.T) {
	done := make(chan struct{})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-done
	}))
	t.Cleanup(func() { close(done); s.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := discover.Resolver{Client: s.Client(), NPM: s.URL}.Version(ctx, discover.Unpinned{Manager: "npm", Package: "pkg"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestImage asks a registry of images as the distribution specification has it, with the
// token that it hands out.
func TestImage(t *testing.T) {
	manifest := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(manifest)))
	realm, said := "", digest
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{path...}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0k" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="s",scope="repository:a/b:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.PathValue("path") != "a/b/manifests/1.2" || !strings.Contains(r.Header.Get("Accept"), "oci.image.index") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Docker-Content-Digest", said)
		_, _ = w.Write([]byte(manifest))
	})
	mux.HandleFunc("GET /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("service") == "s" && r.FormValue("scope") == "repository:a/b:pull" {
			_, _ = w.Write([]byte(`{"token":"t0k"}`))
		}
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	realm = s.URL + "/token"
	host := strings.TrimPrefix(s.URL, "https://")
	r := discover.Resolver{Client: s.Client()}

	u := discover.Unpinned{Manager: "oci", Package: host + "/a/b", Have: "1.2"}
	version, err := r.Version(context.Background(), u)
	require.NoError(t, err)
	require.Equal(t, digest, version)

	said = "sha256:" + strings.Repeat("0", 64)
	_, err = r.Version(context.Background(), u)
	require.ErrorContains(t, err, "does not have the digest")

	realm = "https://evil.example/token"
	_, err = r.Version(context.Background(), u)
	require.ErrorContains(t, err, "wants credentials")

	for _, bad := range []string{host + "/A", host + "/a/../b", host + "/a?x=1", "user@" + host + "/a"} {
		_, err = r.Version(context.Background(), discover.Unpinned{Manager: "oci", Package: bad})
		require.ErrorContains(t, err, "malformed", bad)
	}
}

func TestServerName(t *testing.T) {
	for text, want := range map[string]discover.ServerName{
		"io.github.user/server":           {Name: "io.github.user/server"},
		"io.github.user/server@1.2.0+b.1": {Name: "io.github.user/server", Version: "1.2.0+b.1"},
		"a.b/c_D.e-1@2025-01":             {Name: "a.b/c_D.e-1", Version: "2025-01"},
	} {
		name, ok := discover.ParseServerName(text)
		require.True(t, ok, text)
		require.Equal(t, want, name)
		require.Equal(t, text, name.String())
	}
	for _, text := range []string{
		"", "server.json", "a/b", "./a.b/c", "../a.b/c", "a.b/c/d", "a.b/..", "a..b/c", "a.b/", "/a.b", "a.b/c@", "a.b/c@^1", "a.b/c@1/2", "a.b/c@..", "a.b/c%2fd",
		"a.b/c?d", "a.b/c d", "a.b/\u0441", "a.b/c@1\n", "a.b/" + strings.Repeat("c", 200), "https://a.b/c",
	} {
		_, ok := discover.ParseServerName(text)
		require.False(t, ok, text)
	}
}

// TestLookup asks a registry as its API has it (OpenAPI of 2025-12-01).
func TestLookup(t *testing.T) {
	raw, err := os.ReadFile("testdata/registry/brave-search.json")
	require.NoError(t, err)
	entry := func(server, status string) string {
		return `{"server":` + server + `,"_meta":{"io.modelcontextprotocol.registry/official":{"status":"` + status + `","publishedAt":"2025-12-01T00:00:00Z","isLatest":true}}}`
	}
	small := func(name, version string) string {
		return `{"name":"` + name + `","description":"d","version":"` + version + `","remotes":[{"type":"sse","url":"https://a.example/sse"}]}`
	}
	at := func(name, version string) string {
		return "/v0.1/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version)
	}
	search := func(name string) string {
		return "/v0.1/servers?" + url.Values{"search": {name}, "version": {"latest"}, "limit": {"100"}}.Encode()
	}
	s, r := registry(t, map[string]string{
		at("io.modelcontextprotocol/brave-search", "latest"): entry(string(raw), "active"),
		at("io.modelcontextprotocol/brave-search", "1.0.2"):  entry(string(raw), "active"),
		at("io.modelcontextprotocol/brave-search", "1.0.1"):  entry(string(raw), "active"),
		at("a.b/built", "1.0.0+b.2"):                         entry(small("a.b/built", "1.0.0+b.2"), "active"),
		at("a.b/plain", "latest"):                            `{"server":` + small("a.b/plain", "1") + `}`,
		at("a.b/old", "latest"):                              entry(small("a.b/old", "1"), "deprecated"),
		at("a.b/gone", "latest"):                             entry(small("a.b/gone", "1"), "deleted"),
		at("a.b/odd", "latest"):                              entry(small("a.b/odd", "1"), "\u202equarantined"),
		at("a.b/number", "latest"):                           `{"server":` + small("a.b/number", "1") + `,"_meta":{"io.modelcontextprotocol.registry/official":{"status":3}}}`,
		at("a.b/other", "latest"):                            entry(string(raw), "active"),
		at("a.b/escaped", "latest"):                          entry(small(`a.b\/escaped2`, "1"), "active"),
		at("a.b/range", "latest"):                            entry(small("a.b/range", "^1"), "active"),
		at("a.b/unversioned", "latest"):                      `{"server":{"name":"a.b/unversioned"}}`,
		at("a.b/bare", "latest"):                             small("a.b/bare", "1"),
		at("a.b/list", "latest"):                             `[]`,
		at("a.b/page", "latest"):                             `<html>`,
		at("a.b/twice", "latest"):                            `{"server":{},"server":` + small("a.b/twice", "1") + `}`,
		at("a.b/deep", "latest"):                             `{"server":` + strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000) + `}`,
		at("a.b/huge", "latest"):                             `{"server":{"name":"` + strings.Repeat("x", 9<<20) + `"}}`,
		at("a.b/away", "latest"):                             "-> https://evil.example/",
		at("a.b/plainly", "latest"):                          "-> http://127.0.0.1:1/",
		at("a.b/loop", "latest"):                             "-> " + at("a.b/loop", "latest"),
		search("near"):                                       `{"servers":[` + entry(small("a.b/near-by", "1"), "active") + `,{"server":{"name":"a/b/hostile\u202e"}},{"server":3},4,` + entry(small("a.b/near-by", "2"), "active") + `],"metadata":{"nextCursor":"next","count":5}}`,
		search("bad"):                                        `{"servers":3}`,
		"/x/v0/servers/a.b%2Fc/versions/latest":              entry(small("a.b/c", "1"), "active"),
	})
	lookup := func(base, text string) (discover.Found, error) {
		name, ok := discover.ParseServerName(text)
		require.True(t, ok, text)
		return r.Lookup(context.Background(), base, name)
	}
	for _, name := range []string{"io.modelcontextprotocol/brave-search", "io.modelcontextprotocol/brave-search@1.0.2"} {
		found, err := lookup(s.URL+"/", name)
		require.NoError(t, err)
		require.Len(t, found.Servers, 1)
		require.Equal(t, []string{"-y", "@modelcontextprotocol/server-brave-search@1.0.2"}, found.Servers[0].Args)
		require.Equal(t, "${env:BRAVE_API_KEY}", found.Servers[0].Env["BRAVE_API_KEY"])
		require.Equal(t, "the registry has io.modelcontextprotocol/brave-search in version 1.0.2", found.Notes[0].Text)
	}
	for base, name := range map[string]string{s.URL: "a.b/built@1.0.0+b.2", s.URL + "/v0.1": "a.b/plain", s.URL + "/x/v0/": "a.b/c"} {
		found, err := lookup(base, name)
		require.NoError(t, err)
		require.Equal(t, "https://a.example/sse", found.Servers[0].URL)
	}
	found, err := lookup(s.URL, "a.b/old")
	require.NoError(t, err)
	require.Contains(t, found.Notes[1].Text, "deprecated")

	for name, want := range map[string]string{
		"io.modelcontextprotocol/brave-search@1.0.1": `answers with the version "1.0.2"`,
		"a.b/gone":   "deleted it",
		"a.b/odd":    `says that it is "\u202equarantined"`,
		"a.b/number": `says that it is ""`,
		"a.b/other":  `answers for "io.modelcontextprotocol/brave-search"`, "a.b/escaped": `answers for "a.b/escaped2"`,
		"a.b/range": `the version "^1", which is none`, "a.b/unversioned": "which is none", "a.b/bare": `answers for ""`,
		"a.b/list": "no JSON object", "a.b/page": "reading the answer", "a.b/twice": "reading the answer", "a.b/deep": "reading the answer",
		"a.b/huge": "the answer is over", "a.b/away": "redirects to another host", "a.b/plainly": "redirects to another host", "a.b/loop": "too often",
		"a.b/none": "the registry answers 404", "c.d/near": "similar are a.b/near-by", "c.d/bad": "the registry answers 404",
	} {
		_, err := lookup(s.URL, name)
		require.ErrorContains(t, err, want, name)
		if strings.Contains(want, "404") || strings.Contains(want, "similar") || strings.Contains(want, "deleted") {
			require.ErrorIs(t, err, discover.ErrNotFound, name)
		} else {
			require.NotErrorIs(t, err, discover.ErrNotFound, name)
		}
	}
	for _, name := range []discover.ServerName{{Name: "a.b/../c"}, {Name: "a.b/c", Version: "../../x"}, {Name: "a.b/c@1"}, {Version: "1"}} {
		_, err := r.Lookup(context.Background(), s.URL, name)
		require.ErrorContains(t, err, "malformed")
	}
	_, err = lookup("http"+strings.TrimPrefix(s.URL, "https"), "a.b/plain")
	require.ErrorContains(t, err, "no https address")
}

// TestClient: what is dialled is public, or in a network that is named, and its certificate is
// that of an authority that is.
func TestClient(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	s, _ := registry(t, map[string]string{"/server.json": `{"name":"a.b/c","version":"1","remotes":[{"type":"sse","url":"https://a.example/sse"}]}`})
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	fetch := func(allowed []netip.Prefix, file string) error {
		client, err := discover.NewClient(allowed, file)
		require.NoError(t, err)
		_, err = discover.Resolver{Client: client}.Fetch(t.Context(), s.URL+"/server.json")
		return err
	}
	require.NoError(t, fetch(local, file))
	require.ErrorAs(t, fetch(nil, file), new(*dial.Denied))
	require.ErrorAs(t, fetch([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, file), new(*dial.Denied))
	require.ErrorAs(t, fetch(local, ""), new(*tls.CertificateVerificationError))
	for _, bad := range []string{filepath.Join(t.TempDir(), "none.pem"), "resolver_test.go"} {
		_, err := discover.NewClient(nil, bad)
		require.ErrorContains(t, err, "the authorities")
	}
}

func TestFetch(t *testing.T) {
	raw, err := os.ReadFile("testdata/registry/brave-search.json")
	require.NoError(t, err)
	s, r := registry(t, map[string]string{"/server.json?token=hunter2": string(raw), "/away?token=hunter2": "-> https://evil.example/"})
	found, err := r.Fetch(context.Background(), s.URL+"/server.json?token=hunter2")
	require.NoError(t, err)
	require.Len(t, found.Servers, 1)
	for _, address := range []string{s.URL + "/away?token=hunter2", s.URL + "/none?token=hunter2", "http://a.example/?token=hunter2", "https://u:hunter2@a.example/"} {
		_, err = r.Fetch(context.Background(), address)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
