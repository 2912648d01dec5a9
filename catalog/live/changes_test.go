package live

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
)

func TestChanges(t *testing.T) {
	said, err := fingerprint.Instructions("Be <kind>.")
	require.NoError(t, err)
	page := mcp.Resource{URI: "file:///a", Name: "a"}
	paged, err := page.Fingerprint()
	require.NoError(t, err)
	server := Server{
		Introduction: mcp.Introduction{Introduction: fingerprint.Introduction{Instructions: "Be <kind>."}, Endpoint: "sha256:here"},
		Tools:        []mcp.Tool{{Name: "read", Raw: json.RawMessage(`{"name":"read","title":"b","inputSchema":{}}`)}},
		Resources:    []mcp.Resource{page},
	}
	for name, c := range map[string]struct {
		t    catalog.Template
		want string
	}{
		"same": {catalog.Template{Operation: "read", Endpoints: []string{"sha256:there", "sha256:here"}, Instructions: said, Definition: server.Tools[0].Raw}, `null`},
		"all": {catalog.Template{Operation: "read", Endpoints: []string{"sha256:there"}, Instructions: "sha256:00", Definition: json.RawMessage(`{"name":"read","title":"a","inputSchema":{}}`)},
			`[{"part":"prose","path":"/title","was":"a","is":"b"},
			  {"part":"endpoint","path":"","was":["sha256:there"],"is":["sha256:here"]},
			  {"part":"instructions","path":"","was":{"digest":"sha256:00"},"is":{"digest":"` + said + `","text":"Be <kind>."}}]`},
		"same resource": {catalog.Template{Operation: "page", Resource: &plan.Resource{URIs: []string{"file:///a"}}, Fingerprint: paged}, `null`},
		"resource": {catalog.Template{Operation: "page", Resource: &plan.Resource{URIs: []string{"file:///a"}}, Fingerprint: "sha256:00"},
			`[{"part":"resource","path":"","was":{"fingerprint":"sha256:00"},"is":{"fingerprint":"` + paged + `","mimeType":"","name":"a","uri":"file:///a"}}]`},
		"gone resource": {catalog.Template{Operation: "page", Resource: &plan.Resource{URIs: []string{"file:///b"}}, Fingerprint: "sha256:00"},
			`[{"part":"resource","path":"","was":{"fingerprint":"sha256:00"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := server.Changes(&c.t)
			require.NoError(t, err)
			raw, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(raw))
		})
	}
}
