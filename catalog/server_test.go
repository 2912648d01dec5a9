package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
)

// TestUpdateServers: what servers say is added, and replaced where it stands; all else stays.
func TestUpdateServers(t *testing.T) {
	digest := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	notes := catalog.Server{Name: "notes", Fingerprint: digest("0"), Initialize: json.RawMessage(`{"protocolVersion":"2025-06-18","serverInfo":{"name":"n\u200b","version":"1"},"capabilities":{"tools":{}}}`)}
	other := catalog.Server{Name: "other", Fingerprint: digest("1"), Initialize: json.RawMessage(`{}`)}
	once, err := catalog.UpdateServers([]byte(byHand), []catalog.Server{notes, other})
	require.NoError(t, err)
	require.Contains(t, string(once), `"n\u200b"`)
	for _, line := range diff(byHand, string(once)) {
		require.True(t, strings.HasPrefix(line, "+"), line)
	}
	all := parsed(t, string(once))
	require.Equal(t, len(parsed(t, byHand).Templates), len(all.Templates))
	require.JSONEq(t, string(notes.Initialize), string(all.Server("notes").Initialize))
	require.Equal(t, digest("1"), all.Server("other").Fingerprint)
	require.Nil(t, all.Server("none"))
	again, err := catalog.UpdateServers(once, []catalog.Server{notes})
	require.NoError(t, err)
	require.Equal(t, string(once), string(again))

	once = []byte(strings.Replace(string(once), "name: other\n", "name: other # mine\n", 1))
	notes.Initialize = json.RawMessage(`{"protocolVersion":"2025-06-18","serverInfo":{"name":"n\u200b","version":"2"},"capabilities":{"tools":{}}}`)
	again, err = catalog.UpdateServers(once, []catalog.Server{notes})
	require.NoError(t, err)
	require.Equal(t, []string{"-        version: \"1\"\n", "+        version: \"2\"\n"}, diff(string(once), string(again)))

	for name, text := range map[string]string{
		"none": "", "list": "- a\n", "flow": "{apiVersion: chimera/v1}", "two": "a: 1\n---\nb: 1\n", "brackets": "servers: [{name: a}]\n", "empty": "servers: []\n", "broken": "a: [",
	} {
		_, err := catalog.UpdateServers([]byte(text), []catalog.Server{other})
		require.Error(t, err, name)
	}
	for _, x := range []catalog.Server{
		{Initialize: json.RawMessage(`[]`)}, {Initialize: json.RawMessage(`{}`), Place: json.RawMessage(`[]`)},
		{Initialize: json.RawMessage(`{}`), Templates: json.RawMessage(`{}`)}, {Initialize: json.RawMessage(`{}`), Templates: json.RawMessage(`[`)},
	} {
		_, err = catalog.UpdateServers([]byte(byHand), []catalog.Server{x})
		require.Error(t, err)
	}

	// What an entry of an earlier import has not is added.
	notes.Endpoint, notes.Place, notes.Templates = digest("2"), json.RawMessage(`{"args":["a"],"env":{"KEY":null}}`), json.RawMessage(`[{"uriTemplate":"a://{b}"}]`)
	more, err := catalog.UpdateServers(again, []catalog.Server{notes})
	require.NoError(t, err)
	for _, line := range diff(string(again), string(more)) {
		require.True(t, strings.HasPrefix(line, "+"), line)
	}
	is := parsed(t, string(more)).Server("notes")
	require.Equal(t, digest("2"), is.Endpoint)
	require.JSONEq(t, string(notes.Place), string(is.Place))
	require.JSONEq(t, string(notes.Templates), string(is.Templates))
}

// TestServers: what is no server is refused, and the first of two counts.
func TestServers(t *testing.T) {
	entry := func(name, fingerprint, initialize string) string {
		return "  - {name: " + name + ", fingerprint: " + fingerprint + ", initialize: " + initialize + "}\n"
	}
	good := "\"sha256:" + strings.Repeat("0", 64) + "\""
	read := func(servers string) (*catalog.Catalog, bool) {
		all, ds := compiler.ParseCatalog(compiler.Source{Name: "c", Text: []byte("apiVersion: chimera/v1\nkind: Catalog\ntemplates: []\nservers:\n" + servers)})
		return all, ds.HasErrors()
	}
	all, bad := read(entry("a", good, "{x: 1}"))
	require.False(t, bad)
	for _, servers := range []string{
		entry("a", good, "{}") + entry("a", good, "{}"), entry("a/b", good, "{}"), entry("a", "sha256:0", "{}"), entry("a", good, "x"), "  - x\n",
		"  - {name: a, fingerprint: " + good + "}\n", "  - {name: a, fingerprint: " + good + ", initialize: {}, more: 1}\n",
		entry("a", good, "{}, place: []"), entry("a", good, "{}, endpoint: a"), entry("a", good, "{}, resource_templates: {}"),
		entry("a", good, "{}, place: {x: "+strings.Repeat("x", catalog.MaxInitialize)+"}"), entry("a", good, "{}, resource_templates: ["+strings.Repeat("x", catalog.MaxInitialize)+"]"),
		entry("a", good, "{x: "+strings.Repeat("x", catalog.MaxInitialize)+"}"),
	} {
		_, bad := read(servers)
		require.True(t, bad, "%.200s", servers)
	}
	second := &catalog.Catalog{Servers: []catalog.Server{{Name: "a", Fingerprint: "other"}, {Name: "b"}}}
	merged, ds := all.Merge(second)
	require.Empty(t, ds)
	require.Len(t, merged.Servers, 2)
	require.Equal(t, all.Servers[0], merged.Servers[0])
}

// TestUpdateServersAny: whatever a server says is read again as it was.
func TestUpdateServersAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		said, err := json.Marshal(map[string]any{rapid.String().Draw(t, "key"): rapid.String().Draw(t, "text"), "list": []any{rapid.String().Draw(t, "item"), map[string]any{}}})
		require.NoError(t, err)
		s := catalog.Server{Name: "notes", Fingerprint: "sha256:" + strings.Repeat("0", 64), Initialize: said}
		text, err := catalog.UpdateServers([]byte(byHand), []catalog.Server{s})
		require.NoError(t, err)
		require.JSONEq(t, string(said), string(parsed(t, string(text)).Server("notes").Initialize))
	})
}
