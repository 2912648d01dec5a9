package approval_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// TestAnEscalationThatWasMissed: the clocks of a signer and of the ledger may differ, each by a
// minute. What was signed more than two minutes after the barrier had to be escalated does not
// count unless it was.
func TestAnEscalationThatWasMissed(t *testing.T) {
	w := newWorld(t, trust.Dev)
	r, digest, _ := w.escalating(false)
	due := r.EscalatesAt().Time()
	for late, counts := range map[time.Duration]bool{
		0: true, time.Minute: true, 2 * time.Minute: true,
		2*time.Minute + time.Millisecond: false, 3 * time.Minute: false, 10 * time.Minute: false,
	} {
		p := payload(r, digest, "ada", "finance")
		p.Issued, p.NotBefore = ledger.At(due.Add(late)), ledger.At(due)
		v, err := approval.Verify(w.state, r, digest, w.seal(p, "ada"), noon)
		if counts {
			require.NoError(t, err, late)
			continue
		}
		refused(t, approval.NotValid, "the barrier had to be escalated", v, err)
	}
}
