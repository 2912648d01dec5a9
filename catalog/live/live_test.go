package live

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
)

func TestCompare(t *testing.T) {
	tool := func(raw string) mcp.Tool {
		var named struct{ Name string }
		require.NoError(t, json.Unmarshal([]byte(raw), &named))
		return mcp.Tool{Name: named.Name, Raw: json.RawMessage(raw)}
	}
	read := tool(`{"name":"read","inputSchema":{}}`)
	print, err := fingerprint.Tool(read.Raw)
	require.NoError(t, err)
	said, err := fingerprint.Instructions("Be kind.")
	require.NoError(t, err)
	page := mcp.Resource{URI: "file:///a", Name: "a"}
	paged, err := page.Fingerprint()
	require.NoError(t, err)
	one := &plan.Resource{URIs: []string{"file:///a"}, As: plan.AsText}
	server := Server{
		Introduction: mcp.Introduction{Introduction: fingerprint.Introduction{Instructions: "Be kind."}, Endpoint: "sha256:here"},
		Tools:        []mcp.Tool{tool(`{"name":"write","annotations":{"readOnlyHint":false}}`), read, tool(`{"name":"odd","inputSchema":9007199254740993}`)},
		Resources:    []mcp.Resource{page},
	}
	pinned := func(change func(*catalog.Template)) catalog.Template {
		x := catalog.Template{ProviderType: plan.MCP, Provider: "files", Operation: "read", Fingerprint: print.Digest, Effect: plan.Pure}
		change(&x)
		return x
	}
	for name, c := range map[string]struct {
		change func(*catalog.Template)
		want   Offer
	}{
		"pinned":         {func(*catalog.Template) {}, Offer{"files", "read", "", print.Digest, Pinned, "", false}},
		"whole":          {func(x *catalog.Template) { x.Endpoints, x.Instructions = []string{"sha256:there", "sha256:here"}, said }, Offer{"files", "read", "", print.Digest, Pinned, "", false}},
		"unpinned":       {func(x *catalog.Template) { x.Fingerprint = "" }, Offer{"files", "read", "", print.Digest, Unpinned, "", false}},
		"other":          {func(x *catalog.Template) { x.Fingerprint = "sha256:00" }, Offer{"files", "read", "", print.Digest, Drift, "the catalog pins sha256:00", false}},
		"endpoint":       {func(x *catalog.Template) { x.Endpoints = []string{"sha256:there"} }, Offer{"files", "read", "", print.Digest, Drift, "the digest of the server's endpoint is sha256:here, and the catalog pins sha256:there", false}},
		"instructions":   {func(x *catalog.Template) { x.Instructions = "sha256:00" }, Offer{"files", "read", "", print.Digest, Drift, "the server's instructions are not those that the catalog pins", false}},
		"effect":         {func(x *catalog.Template) { x.Operation, x.Fingerprint = "write", "" }, Offer{"files", "write", "", "", Effect, "the catalog says that it is pure, and the server that it changes something", false}},
		"missing":        {func(x *catalog.Template) { x.Operation = "reed" }, Offer{"files", "reed", "", "", Missing, "the server has no such tool; it has read", false}},
		"resource":       {func(x *catalog.Template) { x.Operation, x.Resource, x.Fingerprint = "page", one, paged }, Offer{"files", "page", "file:///a", paged, Pinned, "", false}},
		"other resource": {func(x *catalog.Template) { x.Operation, x.Resource = "page", one }, Offer{"files", "page", "file:///a", paged, Drift, "the catalog pins " + print.Digest, false}},
		"gone resource": {func(x *catalog.Template) {
			x.Operation, x.Resource = "page", &plan.Resource{URIs: []string{"file:///b"}, As: plan.AsText}
		}, Offer{"files", "page", "file:///b", "", Missing, "the server lists no such resource", false}},
		"moved resource": {func(x *catalog.Template) {
			x.Operation, x.Resource, x.Fingerprint, x.Instructions = "page", one, paged, "sha256:00"
		},
			Offer{"files", "page", "file:///a", paged, Drift, "the server's instructions are not those that the catalog pins", false}},
	} {
		t.Run(name, func(t *testing.T) {
			x := pinned(c.change)
			others := []catalog.Template{
				{ProviderType: plan.Skill, Provider: "files", Operation: "count"}, {ProviderType: plan.MCP, Provider: "bank", Operation: "pay"},
				{ProviderType: plan.MCP, Provider: "files", Operation: "any", Resource: &plan.Resource{}},
			}
			var got []Offer
			for _, o := range Compare(append(others, x), map[string]Server{"files": server}) {
				if c.want.Tool == "write" || o.State != Unknown {
					got = append(got, o)
				}
			}
			got = only(got, x.Operation)
			if c.want.Tool == "write" {
				require.NotEmpty(t, got[0].Fingerprint)
				got[0].Fingerprint = ""
			}
			require.Equal(t, []Offer{c.want}, got)
			require.Equal(t, c.want.State != Pinned && c.want.State != Unpinned, got[0].Stale())
		})
	}
	templates := []catalog.Template{pinned(func(*catalog.Template) {}), {ProviderType: plan.Skill, Provider: "count"}}
	require.True(t, Has(templates, "files"))
	require.False(t, Has(templates, "count"), "a skill is of no server")
	all := Compare(nil, map[string]Server{"files": server})
	require.Len(t, all, 4)
	require.Equal(t, Offer{Server: "files", Resource: "file:///a", Fingerprint: paged, State: Unknown}, all[0])
	all = all[1:]
	require.Equal(t, []string{"odd", "read", "write"}, []string{all[0].Tool, all[1].Tool, all[2].Tool})
	require.Contains(t, all[0].Problem, "9007199254740993")
	require.False(t, all[0].Stale())
}

// TestCompareResources: a resource is read by the operation whose patterns allow it, and an operation
// with patterns is held against where the server is, and what it tells models.
func TestCompareResources(t *testing.T) {
	a, b := mcp.Resource{URI: "wiki://pages/a", Name: "a"}, mcp.Resource{URI: "wiki://b", Name: "b"}
	ofA, err := a.Fingerprint()
	require.NoError(t, err)
	ofB, err := b.Fingerprint()
	require.NoError(t, err)
	template := func(operation, uri string, as plan.ResourceForm) catalog.Template {
		return catalog.Template{ProviderType: plan.MCP, Provider: "wiki", Operation: operation, Resource: &plan.Resource{URIs: []string{uri}, As: as}}
	}
	read, list, one := template("read", "wiki://pages/*", plan.AsText), template("list", "wiki://**", ""), template("one", "wiki://b", plan.AsJSON)
	one.Fingerprint = ofB
	moved := read
	moved.Endpoints = []string{"sha256:there"}
	server := map[string]Server{"wiki": {Introduction: mcp.Introduction{Endpoint: "sha256:here"}, Resources: []mcp.Resource{a, b}}}
	require.Equal(t, []Offer{
		{"wiki", "list", "", "", Unpinned, "", false},
		{"wiki", "one", "wiki://b", ofB, Pinned, "", false},
		{"wiki", "read", "", "", Unpinned, "", false}, {"wiki", "read", "wiki://pages/a", ofA, Unpinned, "", false},
	}, Compare([]catalog.Template{read, list, one}, server))
	got := Compare([]catalog.Template{list, moved}, server)
	require.Equal(t, Offer{"wiki", "", "wiki://b", ofB, Unknown, "", false}, got[0], "a list reads nothing")
	require.Equal(t, Offer{"wiki", "read", "", "", Drift, "the digest of the server's endpoint is sha256:here, and the catalog pins sha256:there", false}, got[2])
	require.True(t, got[2].Stale())

	unlisted := map[string]Server{"wiki": {Introduction: mcp.Introduction{Endpoint: "sha256:here"}, Unlisted: errors.New("not today")}}
	require.Equal(t, []Offer{
		{"wiki", "one", "wiki://b", "", Missing, "the server's resources could not be listed", false}, {"wiki", "read", "", "", Unpinned, "", false},
	}, Compare([]catalog.Template{read, one}, unlisted))
}

// TestCompareTemplates: a template is read by the operation whose patterns cover it, and a pattern that stands
// for nothing is named.
func TestCompareTemplates(t *testing.T) {
	read := catalog.Template{ProviderType: plan.MCP, Provider: "wiki", Operation: "read", Resource: &plan.Resource{URIs: []string{"wiki://old/*", "wiki://pages/*"}, As: plan.AsText}}
	server := map[string]Server{"wiki": {Looked: true, Templates: []mcp.ResourceTemplate{
		{URITemplate: "wiki://pages/{page}", Name: "page"}, {URITemplate: "wiki://pages/{page}/{part}", Name: "part"}, {URITemplate: "wiki://{+any}", Name: "any"},
	}}}
	require.Equal(t, []Offer{
		{"wiki", "", "wiki://pages/{page}/{part}", "", Unknown, "", true},
		{"wiki", "", "wiki://{+any}", "", Unknown, "it cannot be imported: the expression \"{+any}\" is beyond level 1 of RFC 6570, which is {name}", true},
		{"wiki", "read", "", "", Unpinned, "the server has no resource and no template for wiki://old/*", false},
		{"wiki", "read", "wiki://pages/{page}", "", Unpinned, "", true},
	}, Compare([]catalog.Template{read}, server))
}

func TestCovers(t *testing.T) {
	for wide, all := range map[string]map[string]bool{
		"a://b/*":    {"a://b/*": true, "a://b/c*": true, "a://b/c": true, "a://b/*/d": false, "a://c/*": false, "a://b/**": false},
		"a://b/**":   {"a://b/*": true, "a://b/*/*": true, "a://b": false},
		"a://b/c*":   {"a://b/*": false, "a://b/c*": true, "a://b/cd*": true},
		"a://b/~":    {"a://b/*": false, "a://b/~": true},
		"a://b/~~*~": {"a://b/*": false, "a://b/~~*~": true},
	} {
		for pattern, want := range all {
			require.Equal(t, want, Covers((&plan.Resource{URIs: []string{wide}}).Matcher(), pattern), "%s of %s", pattern, wide)
		}
	}
}

func only(all []Offer, tool string) (out []Offer) {
	for _, o := range all {
		if o.Tool == tool {
			out = append(out, o)
		}
	}
	return out
}

// TestActs: hints count by their exact names, as all else reads them.
func TestActs(t *testing.T) {
	for definition, want := range map[string]bool{
		`{}`:                                     false,
		`[]`:                                     false,
		`{"annotations":[]}`:                     false,
		`{"annotations":{"readOnlyHint":true}}`:  false,
		`{"annotations":{"readOnlyHint":false}}`: true,
		`{"annotations":{"destructiveHint":true}}`:                                   true,
		`{"annotations":{"destructiveHint":false}}`:                                  false,
		`{"annotations":{"readOnlyHint":true,"destructiveHint":true}}`:               false,
		`{"annotations":{"readOnlyHint":false,"destructiveHint":false}}`:             true,
		`{"annotations":{"readOnlyHint":null}}`:                                      false,
		`{"annotations":{"readOnlyHint":false,"READONLYHINT":true}}`:                 true,
		`{"annotations":{"readonlyhint":false}}`:                                     false,
		`{"annotations":{"readOnlyHint":false},"Annotations":{"readOnlyHint":true}}`: true,
		`{"annotations":{"readOnlyHint":false},"annotations":{}}`:                    false,
	} {
		require.Equal(t, want, Acts(json.RawMessage(definition)), definition)
	}
}
