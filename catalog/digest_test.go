package catalog_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/plan"
)

func TestDigest(t *testing.T) {
	made := func(change func(*catalog.Catalog)) string {
		c := &catalog.Catalog{
			Templates: []catalog.Template{
				{ProviderType: plan.MCP, Provider: "a", Operation: "x", Mode: plan.Deter, Effect: plan.Pure, InputSchema: json.RawMessage(`{"type":"object","maxProperties":1}`)},
				{ProviderType: plan.MCP, Provider: "a", Operation: "y", Mode: plan.Deter, Effect: plan.Pure},
			},
			Adapters: []catalog.Adapter{{ID: "z", InputSchema: json.RawMessage(`{}`), OutputSchema: json.RawMessage(`{}`), Transform: json.RawMessage(`"${value}"`)}},
		}
		change(c)
		digest, err := c.Digest()
		require.NoError(t, err)
		require.Regexp(t, regexp.MustCompile(`^sha256:[0-9a-f]{64}$`), digest)
		return digest
	}
	was := made(func(*catalog.Catalog) {})
	for name, change := range map[string]func(*catalog.Catalog){
		"order": func(c *catalog.Catalog) { slices.Reverse(c.Templates) },
		"notation": func(c *catalog.Catalog) {
			c.Templates[0].InputSchema = json.RawMessage(`{ "maxProperties" : 1, "type":"obj\u0065ct"} `)
		},
		"description": func(c *catalog.Catalog) { c.Templates[0].Description = "x" },
	} {
		require.Equal(t, was, made(change), name)
	}
	all := map[string]bool{was: true}
	for name, change := range map[string]func(*catalog.Catalog){
		"effect":      func(c *catalog.Catalog) { c.Templates[0].Effect = plan.Committing },
		"schema":      func(c *catalog.Catalog) { c.Templates[0].InputSchema = json.RawMessage(`{"type":"object"}`) },
		"status":      func(c *catalog.Catalog) { c.Templates[0].Status = plan.Block },
		"requirement": func(c *catalog.Catalog) { c.Templates[0].Trust = plan.AllowAuto },
		"timeout":     func(c *catalog.Catalog) { c.Templates[0].TimeoutMS = 5 },
		"retry":       func(c *catalog.Catalog) { c.Templates[0].Retry = plan.Retry{MaxAttempts: 2} },
		"fingerprint": func(c *catalog.Catalog) { c.Templates[0].Fingerprint = plan.DigestOf(nil) },
		"one less":    func(c *catalog.Catalog) { c.Templates = c.Templates[:1] },
		"adapter":     func(c *catalog.Catalog) { c.Adapters[0].Transform = json.RawMessage(`"${value.a}"`) },
	} {
		digest := made(change)
		require.False(t, all[digest], name)
		all[digest] = true
	}
	_, err := (&catalog.Catalog{Adapters: []catalog.Adapter{{ID: "z", Transform: json.RawMessage(`{`)}}}).Digest()
	require.Error(t, err)
}
