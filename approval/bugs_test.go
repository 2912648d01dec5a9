package approval_test

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/trust"
)

// TestBugCherokee: a name in small letters is that in capitals in Cherokee too. Package
// cases of x/text does not fold its letters, while strings.ToLower maps them.
func TestBugCherokee(t *testing.T) {
	a := newAttempt(bareWorld(t, trust.Prod))
	a.must(a.signer("tsa", "\u13e3\u13b3\u13a9", trust.SigToken, "finance"))
	a.ask(func(r *approval.Request) { r.Rule.Excluded = []string{"\uabb3\uab83\uab79"} })
	a.by, a.payload.Signer = "tsa", "tsa"
	v, err := a.verify()
	refused(t, approval.Excluded, "must not approve", v, err)
	for c := range unicode.MaxRune + 1 {
		if unicode.Is(unicode.Cherokee, c) {
			require.Equal(t, trust.Fold(string(c)), trust.Fold(string(unicode.ToLower(c))), "%U", c)
		}
	}
}
