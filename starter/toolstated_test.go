package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/trust"
)

// TestSummary: a line has what makes a tool freer or stricter to call.
func TestSummary(t *testing.T) {
	const print = "sha256:0123456789abcdef"
	for want, act := range map[string]trust.TrustTool{
		"tool.trust files/read: block, sha256:0123456789ab": {ToolID: "files/read@" + print, Fingerprint: print, Status: "block"},
		"tool.trust files/read: pure, allow_auto, at 2 places, open_world, trusted_output, sha256:0123456789ab": {ToolID: "files/read@" + print, Fingerprint: print, Status: "allow_auto",
			Facts: json.RawMessage(`{"effect_class":"pure","mode":"deter","endpoints":["a","b"],"trusted_output":true,"open_world":true,"input_schema":"sha256:00","timeout_ms":1}`)},
		`tool.trust count/words: committing, manual_review, cost {"currency":"USD"}`: {ToolID: "count/words", Status: "manual_review", Facts: json.RawMessage(`{"effect_class":"committing","cost":{"currency":"USD"}}`)},
		"tool.trust x/y: block": {ToolID: "x/y", Status: "block", Facts: json.RawMessage(`[`)},
	} {
		require.Equal(t, want, summary(&act))
	}
}
