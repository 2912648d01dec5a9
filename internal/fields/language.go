package fields

import "chimera.ai/engine/internal/syntax"

// APIVersion is what every document of the language says.
const APIVersion = "chimera/v1"

// Closed sets of words.
var (
	ProviderTypes = []string{"skill", "mcp"}
	Modes         = []string{"prob", "deter"}
	EffectClasses = []string{"pure", "staged", "committing", "irreversible"}
	TrustStates   = []string{"allow_auto", "manual_review", "block"}
)

// Limits bounds a file before it is interpreted: it leaves room for a plan of
// 100,000 nodes with templates, or of a tenth of that without.
var Limits = syntax.Limits{
	Bytes:      64 << 20,
	Depth:      128,
	Nodes:      4_000_000,
	AliasNodes: 1_000_000,
}

// IsTrue reports whether v is there and true.
func IsTrue(v *syntax.Value) bool { return v != nil && v.Text == "true" }
