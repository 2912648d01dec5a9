package ledger

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/plan"
)

// Said is the digest of what was signed, or "" if nobody has signed the order: of the payload
// of the envelope alone, since whoever passes an envelope on can give it other signatures.
func (o *Order) Said() (string, error) {
	if o.Signed == nil {
		return "", nil
	}
	var envelope struct {
		Payload []byte `json:"payload"`
	}
	if err := json.Unmarshal(o.Signed, &envelope); err != nil || len(envelope.Payload) == 0 {
		return "", fmt.Errorf("%w: what was signed is no envelope with a payload", ErrInvalid)
	}
	return plan.DigestOf(envelope.Payload), nil
}
