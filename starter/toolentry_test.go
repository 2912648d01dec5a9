package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/config"
	"chimera.ai/engine/plan"
)

// TestEntryDefaults: what the configuration says of a server holds for its new tools, and retries for
// pure ones alone. What the catalog has of a tool stays.
func TestEntryDefaults(t *testing.T) {
	definition := json.RawMessage(`{"name":"x","inputSchema":{"type":"object"}}`)
	was := &catalog.Template{ProviderType: plan.MCP, Provider: "s", Operation: "x", Mode: plan.Deter, Effect: plan.Pure, TimeoutMS: 7,
		Retry: plan.Retry{MaxAttempts: 9, InitialMS: 1, MultiplierMilli: 1000, MaxMS: 1}, Definition: definition}
	for name, c := range map[string]struct {
		effect           plan.EffectClass
		was              *catalog.Template
		timeout, retries int
	}{
		"pure":         {plan.Pure, nil, 5000, 4},
		"staged":       {plan.Staged, nil, 5000, 0},
		"committing":   {plan.Committing, nil, 5000, 0},
		"irreversible": {plan.Irreversible, nil, 5000, 0},
		"changed":      {plan.Pure, was, 7, 8},
	} {
		t.Run(name, func(t *testing.T) {
			x := &importedTool{Name: "x", Effect: c.effect, Status: plan.AllowAuto, definition: definition, was: c.was}
			e, err := x.entry("s", config.ServerDefaults{Timeout: 5 * time.Second, Retries: 4})
			require.NoError(t, err)
			var facts struct {
				Timeout int `json:"timeout_ms"`
				Retry   struct {
					Max *int `json:"max_retries"`
				} `json:"retry_policy"`
			}
			require.NoError(t, json.Unmarshal(e.Facts, &facts))
			require.Equal(t, c.timeout, facts.Timeout)
			require.Equal(t, &c.retries, facts.Retry.Max)
		})
	}
}
