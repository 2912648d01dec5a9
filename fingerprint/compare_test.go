package fingerprint_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/fingerprint"
)

func TestCompare(t *testing.T) {
	const (
		io, effect, prose, meta = fingerprint.IO, fingerprint.Effect, fingerprint.Prose, fingerprint.Meta
		base                    = `{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{"enum":[1,2]}}},"annotations":{"readOnlyHint":true},"x":{"n":null}}`
	)
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	for name, c := range map[string]struct {
		old, new string
		want     []fingerprint.Change
	}{
		"nothing":           {`"d"`, `"d"`, nil},
		"order and numbers": {`"enum":[1,2]`, `"enum":[1.0,2e0]`, nil},
		"icons":             {`"x":`, `"icons":[1],"x":`, nil},
		"a value":           {`"d"`, `"e"`, []fingerprint.Change{{prose, "/description", raw(`"d"`), raw(`"e"`)}}},
		"a member more":     {`"x":`, `"outputSchema":{"type":"object"},"x":`, []fingerprint.Change{{io, "/outputSchema", nil, raw(`{"type":"object"}`)}}},
		"a member less":     {`"annotations":{"readOnlyHint":true},`, ``, []fingerprint.Change{{effect, "/annotations", raw(`{"readOnlyHint":true}`), nil}}},
		"inside, more":      {`"enum":[1,2]`, `"enum":[1,2],"b/~":0`, []fingerprint.Change{{io, "/inputSchema/properties/a/b~1~0", nil, raw(`0`)}}},
		"inside, less":      {`"readOnlyHint":true`, ``, []fingerprint.Change{{effect, "/annotations/readOnlyHint", raw(`true`), nil}}},
		"in a list":         {`[1,2]`, `[1,3]`, []fingerprint.Change{{io, "/inputSchema/properties/a/enum/1", raw(`2`), raw(`3`)}}},
		"a longer list":     {`[1,2]`, `[1,2,3]`, []fingerprint.Change{{io, "/inputSchema/properties/a/enum", raw(`[1,2]`), raw(`[1,2,3]`)}}},
		"a shorter list":    {`[1,2]`, `[]`, []fingerprint.Change{{io, "/inputSchema/properties/a/enum", raw(`[1,2]`), raw(`[]`)}}},
		"another type":      {`[1,2]`, `{"1":2}`, []fingerprint.Change{{io, "/inputSchema/properties/a/enum", raw(`[1,2]`), raw(`{"1":2}`)}}},
		"null, gone":        {`"n":null`, ``, []fingerprint.Change{{meta, "/x/n", raw(`null`), nil}}},
		"null, new":         {`"n":null`, `"n":null,"m":null`, []fingerprint.Change{{meta, "/x/m", nil, raw(`null`)}}},
		"null, set":         {`"n":null`, `"n":false`, []fingerprint.Change{{meta, "/x/n", raw(`null`), raw(`false`)}}},
		"null, empty":       {`{"n":null}`, `{}`, []fingerprint.Change{{meta, "/x/n", raw(`null`), nil}}},
		"parts in their order": {`"d","inputSchema":{"type":"object",`, `"e","title":"T","execution":{},"a":1,"inputSchema":{`, []fingerprint.Change{
			{io, "/inputSchema/type", raw(`"object"`), nil}, {effect, "/execution", nil, raw(`{}`)},
			{prose, "/description", raw(`"d"`), raw(`"e"`)}, {prose, "/title", nil, raw(`"T"`)}, {meta, "/a", nil, raw(`1`)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			is := strings.Replace(base, c.old, c.new, 1)
			got, err := fingerprint.Compare(raw(base), raw(is))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			// The fingerprints differ if there is a change, in the parts that the changes name.
			was, err := fingerprint.Tool(raw(base))
			require.NoError(t, err)
			now, err := fingerprint.Tool(raw(is))
			require.NoError(t, err)
			require.Equal(t, len(c.want) == 0, was.Digest == now.Digest)
			named := map[fingerprint.Part]bool{}
			for _, change := range got {
				named[change.Part] = true
			}
			for _, part := range fingerprint.Parts() {
				require.Equal(t, named[part], was.Parts[part] != now.Parts[part], part)
			}
			// The other way round, what was and what is are exchanged.
			back, err := fingerprint.Compare(raw(is), raw(base))
			require.NoError(t, err)
			require.Len(t, back, len(got))
			for i, change := range back {
				require.Equal(t, fingerprint.Change{Part: got[i].Part, Path: got[i].Path, Was: got[i].Is, Is: got[i].Was}, change)
			}
		})
	}
}

// No more than 1,000 changes are listed, those of the gravest parts first.
func TestCompareManyChanges(t *testing.T) {
	many := func(description string, n, value int) json.RawMessage {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"p%04d":%d`, i, value))
		}
		return json.RawMessage(fmt.Sprintf(`{"name":"t","description":%q,"inputSchema":{%s}}`, description, strings.Join(all, ",")))
	}
	for n, want := range map[int]int{999: 1000, 1000: 1000, 1001: 1000, 5000: 1000} {
		got, err := fingerprint.Compare(many("d", n, 1), many("e", n, 2))
		require.NoError(t, err)
		require.Len(t, got, want)
		require.Equal(t, "/inputSchema/p0000", got[0].Path)
		require.Equal(t, n < want, got[len(got)-1].Path == "/description", n)
	}
}

func TestCompareRefuses(t *testing.T) {
	good := json.RawMessage(`{"name":"t"}`)
	for _, bad := range []string{``, `[]`, `{"name":"t","name":"u"}`, `{"name":"t","x":9007199254740993}`} {
		_, err := fingerprint.Compare(good, json.RawMessage(bad))
		require.Error(t, err, bad)
		_, err = fingerprint.Compare(json.RawMessage(bad), good)
		require.Error(t, err, bad)
	}
}

func TestChangeString(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)
	for want, c := range map[string]fingerprint.Change{
		`io: /a is new: 1`:                                        {Part: fingerprint.IO, Path: "/a", Is: json.RawMessage(`1`)},
		`effect: /a is gone: null`:                                {Part: fingerprint.Effect, Path: "/a", Was: json.RawMessage(`null`)},
		`prose: /a was 1 and is 2`:                                {Part: fingerprint.Prose, Path: "/a", Was: json.RawMessage(`1`), Is: json.RawMessage(`2`)},
		`meta: /a was 1 and is "` + strings.Repeat("x", 199) + ``: {Part: fingerprint.Meta, Path: "/a", Was: json.RawMessage(`1`), Is: long},
	} {
		require.Equal(t, want, c.String())
	}
}
