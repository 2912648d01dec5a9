package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
)

// TestSnapshotWithoutTemplates: templates that are too long do not take with them what else is kept of a server.
func TestSnapshotWithoutTemplates(t *testing.T) {
	var screen bytes.Buffer
	p := &Program{Stderr: &screen}
	digest := "sha256:" + strings.Repeat("0", 64)
	list, err := json.Marshal([]any{map[string]any{"uriTemplate": "a://{x}", "description": strings.Repeat("x", catalog.MaxInitialize)}})
	require.NoError(t, err)
	answers := []intakeAnswer{{Server: "wiki", Fingerprint: digest, Tools: []*importedTool{{Name: "read", State: toolNew}},
		said: &serverSaid{digest, json.RawMessage(`{"serverInfo":{"name":"wiki"}}`), digest, json.RawMessage(`{"command":"wiki"}`), list}}}
	all := p.snapshots(answers, nil, new(catalog.Catalog))
	require.Len(t, all, 1)
	require.Nil(t, all[0].Templates)
	require.NotNil(t, all[0].Place)
	require.Contains(t, screen.String(), "the catalog does not have the resource templates of wiki")
}
