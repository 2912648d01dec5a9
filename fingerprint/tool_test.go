package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/npm"
)

// samples are definitions that this package has not written: those of the public collection,
// where it is, and some with what an author may think of.
func samples(t testing.TB) (all []json.RawMessage) {
	t.Helper()
	for _, text := range []string{
		`{"name":"t","inputSchema":{"type":"object"}}`,
		`{"name":"é\u2028\ud83d\ude00\u0000\/","title":"\"\\\b\f\n\r\t\u001f\u007f","inputSchema":{}}`,
		`{"name":"numbers","inputSchema":{"a":[0,-0,0.0,1,1.0,1e0,10E-1,0.1,1e21,1e-7,1e-6,123456789012345680000,9007199254740992,-1.5e300,5e-324,1.7976931348623157e308]}}`,
		`{"name":"keys","x-\ud83d\ude00":1,"x-\uffff":2,"x-é":3,"x-":4,"":5,"x-Z":6,"x-a":7,"_meta":null}`,
		`{"name":"all","title":"T","description":"D","inputSchema":{"type":"object","x-unknown":[{}]},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"execution":{"taskSupport":"optional"},"icons":[{"src":"https://a"}],"later":false}`,
	} {
		all = append(all, json.RawMessage(text))
	}
	raw, err := os.ReadFile("../../shared/data/mcp-tools.json")
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
		return all
	}
	var public []json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &public))
	return append(all, public...)
}

// JCS is what ECMAScript writes, so that a JavaScript engine must find the same digests.
func TestAsJavaScriptFindsIt(t *testing.T) {
	npm.Dir(t) // says what is missing without node
	const script = `
		const { createHash } = require("node:crypto");
		const sorted = (v) => Array.isArray(v) ? "[" + v.map(sorted).join(",") + "]"
			: v !== null && typeof v === "object" ? "{" + Object.keys(v).sort().map((k) => JSON.stringify(k) + ":" + sorted(v[k])).join(",") + "}"
			: JSON.stringify(v);
		for (const line of require("node:fs").readFileSync(0, "utf8").split("\n").filter(Boolean)) {
			const tool = JSON.parse(line);
			delete tool.icons;
			console.log("sha256:" + createHash("sha256").update("mcp-tool/1\0" + sorted(tool)).digest("hex"));
		}`
	var in bytes.Buffer
	var want []string
	for _, raw := range samples(t) {
		require.NoError(t, json.Compact(&in, raw))
		in.WriteByte('\n')
		p, err := fingerprint.Tool(raw)
		require.NoError(t, err, "%s", raw)
		want = append(want, p.Digest)
	}
	cmd := exec.CommandContext(t.Context(), "node", "-e", script)
	cmd.Stdin = &in
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, want, strings.Fields(string(out)))
}

// What does not count: the order of members, white space, other escapes of the same text, other
// texts of the same number, and icons.
func TestWhatDoesNotCount(t *testing.T) {
	const text = `{"name":"t","description":"é","inputSchema":{"type":"object","maximum":10}}`
	was, err := fingerprint.Tool([]byte(text))
	require.NoError(t, err)
	for _, same := range []string{
		`{"inputSchema":{"maximum":10,"type":"object"},"description":"é","name":"t"}`,
		" {\n\t\"name\" : \"t\",\"description\":\"\\u00e9\",\"inputSchema\":{\"type\":\"object\",\"maximum\":1.0E1}}\r\n",
		`{"icons":[{"src":"data:,x"}],"name":"\u0074","description":"é","inputSchema":{"type":"object","maximum":10}}`,
	} {
		is, err := fingerprint.Tool([]byte(same))
		require.NoError(t, err)
		require.Equal(t, was, is, "%s", same)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for text, why := range map[string]string{
		`{"inputSchema":{}}`:    "has no name",
		`{"name":""}`:           "has no name",
		`{"name":["t"]}`:        "has no name",
		`[]`:                    "is not an object",
		`{"name":"t"`:           "the definition of a tool: ",
		`{"name":"t","name":1}`: "the definition of a tool: ",
		`{"name":"t","inputSchema":{"enum":[1,9007199254740993]}}`:         `the number "9007199254740993" at /inputSchema/enum/1 is not one of a double`,
		`{"name":"t","a/b":{"~":0.1000000000000000000001}}`:                "at /a~1b/~0 is not",
		`{"name":"t","x":1e309}`:                                           "is not one of a double",
		`{"name":"t","x":1e-400}`:                                          "is not one of a double",
		`{"name":"t","x":1.` + strings.Repeat("0", 1000) + `}`:             "the definition of a tool: ",
		`{"name":"t","x":` + strings.Repeat("[", 10_000) + `]}`:            "the definition of a tool: ",
		`{"name":"t","x":1e300,"y":1e` + strings.Repeat("9", 100) + `}`:    "the definition of a tool: ",
		`{"name":"t","x":1e-` + strings.Repeat("9", 100) + `}`:             "the definition of a tool: ",
		`{"name":"t","description":"\ud800"}`:                              "the definition of a tool: ",
		"{\"name\":\"t\",\"description\":\"\xff\"}":                        "the definition of a tool: ",
		`{"name":"t","description":"` + strings.Repeat("x", 32<<20) + `"}`: "the definition of a tool: ",
	} {
		_, err := fingerprint.Tool([]byte(text))
		require.ErrorContains(t, err, why, "%.100s", text)
	}
	_, err := fingerprint.Tool([]byte(`{"name":"t","x":0e-399}`))
	require.NoError(t, err, "nothing is nothing")
}

// Every value of a definition counts: whichever is altered, the digest is another, and so is that
// of its part alone.
func TestEveryValueCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, raw := range samples(t) {
		was, err := fingerprint.Tool(raw)
		require.NoError(t, err)
		var paths [][]any
		var walk func(v any, path []any)
		var whole map[string]any
		require.NoError(t, json.Unmarshal(raw, &whole))
		delete(whole, "icons")
		walk = func(v any, path []any) {
			if len(path) > 0 {
				paths = append(paths, append([]any{}, path...))
			}
			switch v := v.(type) {
			case map[string]any:
				for k, e := range v {
					walk(e, append(path, k))
				}
			case []any:
				for i, e := range v {
					walk(e, append(path, i))
				}
			}
		}
		walk(whole, nil)
		for range 5 {
			path := paths[random.IntN(len(paths))]
			if len(path) == 1 && path[0] == "name" {
				continue
			}
			is := bend(t, raw, path)
			p, err := fingerprint.Tool(is)
			require.NoError(t, err)
			require.NotEqual(t, was.Digest, p.Digest, "%v of %s", path, raw)
			top, _ := path[0].(string)
			of, known := map[string]fingerprint.Part{
				"title": fingerprint.Prose, "description": fingerprint.Prose, "inputSchema": fingerprint.IO, "outputSchema": fingerprint.IO,
				"annotations": fingerprint.Effect, "execution": fingerprint.Effect,
			}[top]
			if !known {
				of = fingerprint.Meta
			}
			for _, part := range fingerprint.Parts() {
				require.Equal(t, part != of, was.Parts[part] == p.Parts[part], "%v of %s", path, raw)
			}
		}
	}
}

// bend returns a definition with another value at a place.
func bend(t testing.TB, raw json.RawMessage, path []any) json.RawMessage {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal(raw, &v))
	at := v
	for _, step := range path[:len(path)-1] {
		switch s := step.(type) {
		case string:
			at = at.(map[string]any)[s]
		case int:
			at = at.([]any)[s]
		}
	}
	switch s := path[len(path)-1].(type) {
	case string:
		at.(map[string]any)[s] = "bent by a test"
	case int:
		at.([]any)[s] = "bent by a test"
	}
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return out
}

func FuzzTool(f *testing.F) {
	for _, raw := range samples(f) {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := fingerprint.Tool(raw)
		if err != nil {
			return
		}
		var again bytes.Buffer
		require.NoError(t, json.Indent(&again, raw, "", " "))
		same, err := fingerprint.Tool(again.Bytes())
		require.NoError(t, err)
		require.Equal(t, p, same)
	})
}
