package discover_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/discover"
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
