package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// Ask asks for a decision on an action of that name, free of cost.
func Ask(id, action string) ledger.Authorization {
	return ledger.Authorization{ID: id, Digest: about(action), Agent: "agent-42", Life: time.Hour, Task: draft()}
}

// about gives an action of that name a digest without salt.
func about(action string) func([]byte) (string, error) {
	return func([]byte) (string, error) { return digest(action), nil }
}

// Policy is the digest of the policy by which [Rule] decides.
var Policy = digest("policy")

// Rule decides with a word, and signs what is approved.
func Rule(word string) func(ledger.Standing) (ledger.Ruling, error) {
	return func(st ledger.Standing) (ledger.Ruling, error) {
		return ledger.Ruling{
			Decision: ledger.Decision{PolicyDigest: Policy, Decision: word, Reason: "said", Record: json.RawMessage(`{"budget":"` + string(st.Money) + `"}`)},
			Evidence: ledger.Packet{Parts: []ledger.Part{{Name: "action", Data: json.RawMessage(`{"for":"` + st.Decision + `"}`)}}},
			Permit:   json.RawMessage(`{"permits":"` + st.Decision + `"}`),
			// At the store's time.
			Signature: task.Signature{SignerID: "guardian", SigType: "ed25519", Signature: "s", SignedAt: st.At.Time()},
		}, nil
	}
}

// permitted has an action permitted in a run, and returns the id of the decision.
func permitted(ctx context.Context, s ledger.Store, r ledger.Run, a ledger.Authorization) (string, error) {
	got, err := s.Authorize(ctx, r, a, Rule(ledger.Approve))
	if err == nil && got.Course != ledger.Decide && got.Course != ledger.Stands {
		err = fmt.Errorf("%w: the course is to %s", ledger.ErrConflict, got.Course)
	}
	return got.Decision.ID, err
}

// done has an action permitted and called, and settled with an output.
func done(t testing.TB, s ledger.Store, r ledger.Run, a ledger.Authorization, output string) ledger.Invocation {
	t.Helper()
	d, err := permitted(t.Context(), s, r, a)
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.Claim(t.Context(), a.ID, d, "token", time.Minute)
	if err == nil {
		i, err = s.Settle(t.Context(), a.ID, settled(i.Attempt, output))
	}
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// settled is an effect that answered that.
func settled(attempt int, output string) ledger.Effect {
	return ledger.Effect{
		Settlement: ledger.Settlement{Attempt: attempt, State: ledger.Settled, OutputDigest: digest(output), Snapshots: &contract.Snapshots{Before: digest("before"), After: digest("after")}},
		Token:      "token", Output: []byte(output), Result: json.RawMessage(`{"receipt":"` + output + `"}`),
	}
}

// ended is an effect that ended in another state.
func ended(attempt int, state ledger.InvocationState) ledger.Effect {
	return ledger.Effect{Token: "token", Settlement: ledger.Settlement{Attempt: attempt, State: state, Snapshots: &contract.Snapshots{Before: digest("before")}}}
}
