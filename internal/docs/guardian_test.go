package docs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/policy"
)

// TestPolicyCookbook: the cases of each recipe come out as the page says, and each of
// its rules refuses one of them.
func TestPolicyCookbook(t *testing.T) {
	const page = "docs/guardian.md"
	var cat *catalog.Catalog
	var bundle *policy.Bundle
	recipes := 0
	for _, b := range blocks(read(t, page)) {
		switch b.info {
		case "yaml catalog":
			c, ds := compiler.ParseCatalog(source(page, b))
			require.Empty(t, ds)
			cat = c
		case "yaml policy":
			p, ds := policy.Parse(source(page, b))
			require.Empty(t, ds, "line %d", b.line)
			bundle = p
		case "yaml cases":
			recipes++
			gate, ds := guardian.New(bundle, cat)
			require.Empty(t, ds, "line %d", b.line)
			cases, ds := guardian.ParseCases(source(page, b), cat)
			require.Empty(t, ds, "line %d", b.line)
			refused := map[string]bool{}
			for _, c := range cases {
				r := gate.Decide(&c.Action, nil, c.Facts)
				require.Equal(t, c.Decision, r.Decision, "%s: %+v", c.Name, r)
				if c.Reason != "" {
					require.Equal(t, c.Reason, r.Reason, "%s: %+v", c.Name, r)
				}
				for _, x := range r.Rules {
					refused[x.ID] = refused[x.ID] || !x.Held
				}
			}
			for _, r := range bundle.Rules {
				require.True(t, refused[r.ID], "no case is refused by %s", r.ID)
			}
		}
	}
	require.Equal(t, 10, recipes)
}
