package compiler

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/plan"
)

// resourceCatalog has one template of a resource, with the given fields.
func resourceCatalog(fields string) string {
	return "apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n  - {provider_type: mcp, provider_name: files, operation: doc, mode: deter, effect_class: pure, " +
		"timeout_ms: 1000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto, open_world: false, " + fields + "}\n"
}

const resourcePlan = `apiVersion: chimera/v1
kind: Plan
name: docs
version: "1"
agent: tester
input_schema: {type: object, properties: {uri: %s}, required: [uri], additionalProperties: false}
output_schema: {type: object}
nodes:
  - {id: a, template: files/doc, with: {uri: "%s"}}
edges:
  - a.$ -> $output.$
`

func TestResources(t *testing.T) {
	read := func(fields string) *catalog.Catalog {
		cat, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: []byte(resourceCatalog(fields))})
		require.Empty(t, show(ds), fields)
		return cat
	}
	text := read(`resource: {uris: ["file:///docs/**", "demo://a/*.md"]}`)
	x := &text.Templates[0]
	require.Equal(t, &plan.Resource{URIs: []string{"demo://a/*.md", "file:///docs/**"}, As: plan.AsText}, x.Resource)
	facts, err := x.Facts()
	require.NoError(t, err)
	require.Contains(t, string(facts), `"resource":{"uris":["demo://a/*.md","file:///docs/**"],"as":"text"}`)
	require.Contains(t, string(facts), `"input_schema":"sha256:`)

	for _, c := range []struct{ schema, uri, want string }{
		{"{type: string}", "file:///docs/a/b.md", ""},
		{"{type: string}", "demo://a/b.md", ""},
		{"{enum: ['file:///docs/a', 'demo://a/b.md']}", "${input.uri}", ""},
		{`{type: string, pattern: '^file:///docs/[a-z]+/[a-z]+\.md$', maxLength: 100}`, "${input.uri}", ""},
		{"{type: string}", "file:///etc/passwd", "type/not-contained"},
		{"{type: string}", "file:///docs/../etc/passwd", "type/not-contained"},
		{"{type: string}", "demo://a/b/c.md", "type/not-contained"},
		{"{type: string}", "${input.uri}", "type/not-contained"},
		{"{enum: ['file:///docs/a', 'demo://a/b']}", "${input.uri}", "type/not-contained"},
		{`{type: string, pattern: '^file:///docs/[a-z.]+/[a-z]+\.md$', maxLength: 100}`, "${input.uri}", "type/not-contained"},
	} {
		p, ds := Compile(Source{Name: "plan.yaml", Text: fmt.Appendf(nil, resourcePlan, c.schema, c.uri)}, text, nil)
		if c.want != "" {
			require.Contains(t, show(ds), c.want, "%s %s", c.schema, c.uri)
			require.Nil(t, p)
			continue
		}
		require.Empty(t, show(ds), "%s %s", c.schema, c.uri)
		require.Equal(t, x.Resource, p.Nodes[1].Resource)
		require.NoError(t, p.Verify())
		raw, err := p.Encode()
		require.NoError(t, err)
		again, err := plan.Decode(raw)
		require.NoError(t, err)
		require.Equal(t, x.Resource, again.Nodes[1].Resource)
	}

	pinned := read(`resource: {uris: ["demo://a/b"], as: json}, output_schema: {type: object, properties: {value: {type: integer}}, required: [value]}, fingerprint: "sha256:` + strings.Repeat("0", 64) + `"`)
	require.Equal(t, plan.AsJSON, pinned.Templates[0].Resource.As)
	require.JSONEq(t, `{"type":"object","properties":{"value":{"type":"integer"}},"required":["value"]}`, string(pinned.Templates[0].OutputSchema))
	list := read(`resource: {uris: ["demo://a/*"], list: true}`).Templates[0]
	require.Empty(t, list.Resource.As)
	var out struct {
		Properties struct {
			Resources struct {
				Items struct{ Properties struct{ URI json.RawMessage } }
			}
		}
	}
	require.NoError(t, json.Unmarshal(list.OutputSchema, &out))
	require.Contains(t, string(out.Properties.Resources.Items.Properties.URI), "demo://a/")
}

func TestResourcesRefused(t *testing.T) {
	print := `fingerprint: "sha256:` + strings.Repeat("0", 64) + `"`
	many := make([]string, plan.MaxURIPatterns+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"a://b/%d"`, i)
	}
	for fields, want := range map[string]string{
		`resource: {as: text}`:                                                              "uris",
		`resource: {uris: []}`:                                                              "`uris` is empty",
		`resource: text`:                                                                    "resource",
		`resource: {uris: [7]}`:                                                             "list of strings",
		`resource: {uris: ["a://b", "a://b"]}`:                                              "stands twice",
		`resource: {uris: ["a://b/../c"]}`:                                                  "not a pattern of URIs",
		`resource: {uris: ["a://u@b"]}`:                                                     "not a pattern of URIs",
		`resource: {uris: ["a://b/**c"]}`:                                                   "segment of its own",
		`resource: {uris: ["a://b"], as: blob}`:                                             "as",
		`resource: {uris: ["a://b"], as: text, list: true}`:                                 "no `as`",
		`resource: {uris: ["a://b"], more: 1}`:                                              "more",
		"resource: {uris: [" + strings.Join(many, ", ") + "]}":                              "17 entries",
		`resource: {uris: ["a://b/*"]}, ` + print:                                           "one resource",
		`resource: {uris: ["a://b"], list: true}, ` + print:                                 "one resource",
		`resource: {uris: ["a://b"]}, definition: {name: doc, inputSchema: {type: object}}`: "no `definition`",
	} {
		_, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: []byte(resourceCatalog(fields))})
		require.Contains(t, show(ds), want, fields)
	}
	for from, to := range map[string]string{
		"provider_type: mcp": "provider_type: skill", "mode: deter": "mode: prob", "effect_class: pure": "effect_class: staged",
	} {
		text := strings.Replace(resourceCatalog(`resource: {uris: ["a://b"]}, output_schema: {type: object}`), from, to, 1)
		_, ds := ParseCatalog(Source{Name: "catalog.yaml", Text: []byte(text)})
		require.Contains(t, show(ds), "resource", to)
	}
}
