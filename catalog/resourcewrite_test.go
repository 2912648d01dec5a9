package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/plan"
)

// ofResource is the entry of a template of resources.
func ofResource(t *testing.T, x *catalog.Template) catalog.Entry {
	said, err := x.Said()
	require.NoError(t, err)
	return catalog.Entry{Operation: x.Name(), Fingerprint: x.Fingerprint, Status: x.Status, Facts: said}
}

// TestWriteResource: operations on resources are read again as they were, are no tools, and change
// where they stand.
func TestWriteResource(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	page := catalog.Template{ProviderType: plan.MCP, Provider: "wiki", Operation: "read_resource", Mode: plan.Deter, Effect: plan.Pure, Status: plan.AllowAuto, Trust: plan.AllowAuto,
		OpenWorld: true, TimeoutMS: 5000, Retry: plan.Retry{MaxAttempts: 3, InitialMS: 500, MultiplierMilli: 2000, MaxMS: 60_000}, Instructions: digest, Fingerprint: digest,
		Resource: &plan.Resource{URIs: []string{"wiki://pages/a.md"}, As: plan.AsText}}
	list := page
	list.Operation, list.Fingerprint, list.Resource = "list_resources", "", &plan.Resource{URIs: []string{"wiki://pages/**", "wiki://settings"}}
	text, err := catalog.Write([]catalog.Entry{ofResource(t, &list), ofResource(t, &page)})
	require.NoError(t, err)
	require.NotContains(t, string(text), "definition")
	all := parsed(t, string(text)).Templates
	require.Len(t, all, 2)
	for i, want := range []catalog.Template{list, page} {
		is, err := all[i].Facts()
		require.NoError(t, err)
		want.InputSchema, want.OutputSchema = all[i].InputSchema, all[i].OutputSchema
		facts, err := want.Facts()
		require.NoError(t, err)
		require.JSONEq(t, string(facts), string(is))
		require.NotContains(t, string(is), "timeout_ms", "of resources it is no fact")
		require.Equal(t, want.Fingerprint, all[i].Fingerprint)
		require.Equal(t, want.Status, all[i].Status)
		require.Equal(t, want.Trust, all[i].Trust)
		require.Equal(t, want.TimeoutMS, all[i].TimeoutMS)
		require.Equal(t, want.Retry, all[i].Retry)
	}

	wider := all[1]
	wider.Fingerprint, wider.Resource = "", &plan.Resource{URIs: []string{"wiki://pages/*"}, As: plan.AsText}
	e := ofResource(t, &wider)
	e.Was, err = all[1].Said()
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), "timeout_ms: 5000", "timeout_ms: 7000 # slow", 1))
	next, err := catalog.Update(text, []catalog.Entry{e})
	require.NoError(t, err)
	require.Equal(t, []string{"-        - \"wiki://pages/a.md\"\n", "+        - \"wiki://pages/*\"\n", "-    fingerprint: \"" + digest + "\"\n"}, diff(string(text), string(next)))
	require.Equal(t, wider.Resource, parsed(t, string(next)).Templates[1].Resource)
}
